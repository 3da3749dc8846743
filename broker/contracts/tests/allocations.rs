//! Payloads are checked without allocating.

use allocation_counter::measure;
use tautwire_contracts::{Catalogue, Files, Format, LoadLimits};

const PROTO: &str = "syntax = \"proto3\";
message Reading {
  string device_id = 1; uint64 at_ms = 2; float temperature = 3; bool charging = 4; repeated uint32 raw = 5; Where where = 6;
  Kind kind = 7; map<string, int32> counts = 8; bytes data = 9; oneof o { int32 a = 10; string b = 11; }
}
message Where { double lat = 1; double lon = 2; }
enum Kind { NONE = 0; INDOOR = 1; }
";
const SCHEMA: &str = r#"{"type":"object","properties":{"deviceId":{"type":"string","maxLength":9,"pattern":"^dev"},
    "raw":{"type":"array","items":{"type":"integer","minimum":0}}},"required":["deviceId"]}"#;
const MANIFEST: &str = "
[[contract]]
name = 'p'
topics = 'p/{id}'
format = ['protobuf', 'json', 'messagepack']
schema = 's.proto'
message = 'Reading'
topic_fields = { id = 'device_id' }
[[contract]]
name = 'j'
topics = 'j/{id}'
format = ['json', 'messagepack']
schema = 's.json'
topic_fields = { id = 'deviceId' }
";
const JSON: &[u8] =
    br#"{ "deviceId": "dev-17", "atMs": "1767322800000", "temperature": -21.25, "charging": true, "raw": [1, 2, 3],
    "where": {"lat": 48.1e0, "lon": 10}, "kind": "INDOOR", "counts": {"x": 1}, "data": "AQID", "b": "c" }"#;

#[test]
fn checking_a_payload_allocates_nothing() {
    let files = Files::from(
        [("contracts.toml", MANIFEST), ("s.proto", PROTO), ("s.json", SCHEMA)]
            .map(|(name, text)| (name.into(), text.into())),
    );
    let catalogue = Catalogue::load(&files, &LoadLimits::default()).expect("valid");
    for (name, formats) in
        [("p", &[Format::Protobuf, Format::Json, Format::MessagePack][..]), ("j", &[Format::Json, Format::MessagePack])]
    {
        let contract = catalogue.named(name).expect("it was loaded");
        let topic = format!("{name}/dev-17");
        for format in formats {
            let mut payload = Vec::new();
            contract.transcode(Format::Json, *format, JSON, &mut payload, usize::MAX).expect("valid");
            let check = |content_type| {
                let mut checked = None;
                let allocated = measure(|| checked = Some(contract.check(&topic, content_type, &payload)));
                assert_eq!(checked, Some(Ok(*format)), "{name}");
                allocated.count_total
            };
            check(Some(format.content_type()));
            // The regex engine allocates its cache on first use.
            assert_eq!(check(Some(format.content_type())), 0, "{name} {format:?}");
        }
    }
}
