use std::time::UNIX_EPOCH;

use tautwire_contracts::{Catalogue, Files, LoadLimits};

use super::*;

const MANIFEST: &str = "[[contract]]\nname = 'r'\ntopics = 's/{device_id}/reading'\nformat = ['json', 'protobuf']\nschema = 'r.proto'\nmessage = 'R'\n\
                        topic_fields = { device_id = 'device_id' }\n";
const PROTO: &str = "syntax = \"proto3\";\nimport \"google/protobuf/timestamp.proto\";\n\
    message Position { double lat = 1; }\nenum State { OFF = 0; ON = 1; }\n\
    message R { string device_id = 1; double celsius = 2; uint64 count = 3; bytes raw = 4; State state = 5;\n\
    google.protobuf.Timestamp measured_at = 6; Position position = 7; repeated int32 last = 8; optional bool ok = 9; }\n";

fn contract(manifest: &str, file: &str, schema: &str) -> std::sync::Arc<Contract> {
    let files = Files::from([("contracts.toml".into(), manifest.into()), (file.into(), schema.into())]);
    Catalogue::load(&files, &LoadLimits::default()).expect("valid").contracts()[0].clone()
}

fn patterns(text: &str) -> Vec<TopicPattern> {
    vec![TopicPattern::new(text).expect("valid")]
}

fn row(mapping: &Mapping, contract: Option<&Contract>, topic: &str, payload: &[u8]) -> Result<String, String> {
    let mut row = Vec::new();
    let input = RowInput { topic, content_type: None, payload, received_at: UNIX_EPOCH };
    mapping.push_row(contract, &input, &mut row).map(|()| String::from_utf8(row).expect("text"))
}

#[test]
fn fields_of_protobuf_have_columns_of_their_types() {
    let contract = contract(MANIFEST, "r.proto", PROTO);
    let mut mapping = of_contract(&contract, &patterns("s/{device_id}/reading")).expect("valid");
    mapping.add_path(&contract, "lat", "position.lat").expect("a field");
    let columns: Vec<String> =
        mapping.columns.iter().map(|column| format!("{} {}", column.name, column.kind.sql())).collect();
    let expected = [
        "device_id text",
        "celsius double precision",
        "count numeric(20,0)",
        "raw bytea",
        "state text",
        "measured_at timestamp with time zone",
        "position jsonb",
        "last jsonb",
        "ok boolean",
        "received_at timestamp with time zone",
        "lat double precision",
    ];
    assert_eq!(columns, expected);
    let payload = br#"{"deviceId":"a\tb","celsius":21.5,"raw":"AQI=","state":"ON","measuredAt":"2026-01-02T03:04:05Z","position":{"lat":1.5},"last":[1]}"#;
    let full = row(&mapping, Some(&contract), "s/a\tb/reading", payload).expect("a row");
    let now = "1970-01-01T00:00:00.000000Z";
    assert_eq!(
        full,
        format!("a\\tb\t21.5\t0\t\\\\x0102\tON\t2026-01-02T03:04:05Z\t{{\"lat\":1.5}}\t[1]\t\\N\t{now}\t1.5")
    );
    let empty = row(&mapping, Some(&contract), "s/a/reading", br#"{"deviceId":"a"}"#).expect("a row");
    assert_eq!(empty, format!("a\t0\t0\t\\\\x\tOFF\t\\N\t\\N\t[]\t\\N\t{now}\t\\N"));
}

#[test]
fn an_invalid_payload_has_a_reason_without_its_values() {
    let contract = contract(MANIFEST, "r.proto", PROTO);
    let mapping = of_contract(&contract, &patterns("s/{device_id}/reading")).expect("valid");
    let error =
        row(&mapping, Some(&contract), "s/a/reading", br#"{"deviceId":"a","celsius":"secret"}"#).expect_err("invalid");
    assert!(error.starts_with("contract r: celsius: expected") && !error.contains("secret"), "{error}");
}

#[test]
fn a_level_that_is_not_tied_to_the_field_of_its_name_is_refused() {
    let manifest = MANIFEST.replace("topic_fields", "# topic_fields");
    let contract = contract(&manifest, "r.proto", PROTO);
    let error = of_contract(&contract, &patterns("s/{device_id}/reading")).expect_err("ambiguous");
    assert!(error.starts_with("two columns would be called device_id;"), "{error}");
}

#[test]
fn a_path_that_does_not_exist_names_the_message_and_the_field() {
    let contract = contract(MANIFEST, "r.proto", PROTO);
    let mut mapping = of_contract(&contract, &patterns("s/{device_id}/reading")).expect("valid");
    let error = mapping.add_path(&contract, "lon", "position.lon").expect_err("unknown");
    assert_eq!(error, "position.lon: the message Position has no field lon in the contract r (r.proto)");
}

#[test]
fn properties_of_a_json_schema_have_columns_of_their_types() {
    let schema = r##"{"type":"object","properties":{"at":{"type":"string","format":"date-time"},"n":{"type":["integer","null"]},
        "p":{"$ref":"#/$defs/point"},"x":{"type":"number"}},"$defs":{"point":{"type":"object","properties":{"x":{"type":"number"}}}}}"##;
    let manifest = "[[contract]]\nname = 'j'\ntopics = 'j/+'\nformat = 'json'\nschema = 'j.json'\n";
    let contract = contract(manifest, "j.json", schema);
    let mut mapping = of_contract(&contract, &patterns("j/+")).expect("valid");
    mapping.add_path(&contract, "px", "p.x").expect("a property");
    let row = row(&mapping, Some(&contract), "j/1", br#"{"at":"2026-01-02T03:04:05Z","p":{"x":2}}"#).expect("a row");
    assert_eq!(row, "j/1\t2026-01-02T03:04:05Z\t\\N\t{\"x\":2}\t\\N\t1970-01-01T00:00:00.000000Z\t2");
}

#[test]
fn payloads_without_a_contract_are_bytes_or_json() {
    for (format, expected) in [(PayloadFormat::Bytes, "\\\\x7b7d"), (PayloadFormat::Json, "{}")] {
        let mapping = without_contract(format, &patterns("{site}/x")).expect("valid");
        let row = row(&mapping, None, "a/x", b"{}").expect("a row");
        assert_eq!(row, format!("a\ta/x\t{expected}\t1970-01-01T00:00:00.000000Z"));
    }
}
