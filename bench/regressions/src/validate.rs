use std::hint::black_box;
use std::sync::Arc;

use tautwire_contracts::{Catalogue, Contract, Files, Format, LoadLimits};

use crate::Case;

const SCHEMA: &str = "syntax = \"proto3\";
enum Status { UNKNOWN = 0; NORMAL = 1; ALARM = 2; }
message Reading {
  fixed64 sequence = 1; fixed32 publisher = 2; fixed32 run = 3; string sensor = 4; double temperature = 5;
  float humidity = 6; float pressure = 7; uint32 battery_percent = 8; sint32 signal_dbm = 9; bool charging = 10;
  Status status = 11; fixed64 taken_at_ms = 12;
}
";
const MANIFEST: &str = "[[contract]]
name = 'reading'
topics = 'readings/#'
format = ['protobuf', 'messagepack', 'json']
schema = 'reading.proto'
message = 'Reading'
";
const TOPIC: &str = "readings/room-17";
const READING: &[u8] = br#"{"sequence":"1000000000000017","publisher":17,"run":1000000003,"sensor":"s-00017",
    "temperature":21.625,"humidity":48.5,"pressure":1013.25,"batteryPercent":87,"signalDbm":-71,"charging":true,
    "status":"NORMAL","takenAtMs":"1767225600123"}"#;

/// Checks a reading with twelve fields against its contract, in each format; 65 bytes as Protobuf. One payload per operation.
pub fn cases() -> Vec<Case> {
    let files = [("contracts.toml", MANIFEST), ("reading.proto", SCHEMA)];
    let files = Files::from(files.map(|(name, text)| (name.to_owned(), text.to_owned())));
    let catalogue = Catalogue::load(&files, &LoadLimits::default()).expect("the contract is right");
    let contract = catalogue.named("reading").expect("it was loaded");
    vec![
        check("validate/protobuf", contract, Format::Protobuf),
        check("validate/messagepack", contract, Format::MessagePack),
        check("validate/json", contract, Format::Json),
        transcode("validate/protobuf-to-json", contract),
    ]
}

fn check(name: &'static str, contract: &Arc<Contract>, format: Format) -> Case {
    let contract = contract.clone();
    let payload = written(&contract, format);
    Case::new(name, move |times| {
        for _ in 0..times {
            let checked = contract.check(black_box(TOPIC), Some(format.content_type()), black_box(&payload));
            assert!(checked.is_ok());
        }
    })
}

fn transcode(name: &'static str, contract: &Arc<Contract>) -> Case {
    let contract = contract.clone();
    let payload = written(&contract, Format::Protobuf);
    let mut out = Vec::with_capacity(1024);
    Case::new(name, move |times| {
        for _ in 0..times {
            out.clear();
            let done = contract.transcode(Format::Protobuf, Format::Json, black_box(&payload), &mut out, usize::MAX);
            assert!(done.is_ok());
            black_box(&out);
        }
    })
}

fn written(contract: &Contract, format: Format) -> Vec<u8> {
    let mut payload = Vec::new();
    contract.transcode(Format::Json, format, READING, &mut payload, usize::MAX).expect("the reading is right");
    payload
}
