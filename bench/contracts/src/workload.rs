//! The sensor reading for all libraries, in three formats.

use std::sync::Arc;

use tautwire_contracts::{Catalogue, Contract, Files, Format, LoadLimits};

/// Twelve fields, one of them a list and one a message.
const PROTO: &str = r#"
syntax = "proto3";
package acme;
message Where { double lat = 1; double lon = 2; }
enum Kind { KIND_UNSPECIFIED = 0; INDOOR = 1; OUTDOOR = 2; }
message Reading {
  string device_id = 1;
  uint64 at_ms = 2;
  float temperature = 3;
  float humidity = 4;
  uint32 battery = 5;
  bool charging = 6;
  sint32 rssi = 7;
  string unit = 8;
  repeated uint32 raw = 9;
  Where where = 10;
  Kind kind = 11;
  uint32 seq = 12;
}
"#;

/// The same as a JSON Schema.
pub const SCHEMA: &str = r#"{
  "type": "object",
  "properties": {
    "deviceId": { "type": "string", "maxLength": 40 },
    "atMs": { "type": ["string", "integer"] },
    "temperature": { "type": "number" },
    "humidity": { "type": "number", "minimum": 0, "maximum": 100 },
    "battery": { "type": "integer", "minimum": 0 },
    "charging": { "type": "boolean" },
    "rssi": { "type": "integer" },
    "unit": { "type": "string" },
    "raw": { "type": "array", "items": { "type": "integer", "minimum": 0 } },
    "where": {
      "type": "object",
      "properties": { "lat": { "type": "number" }, "lon": { "type": "number" } },
      "required": ["lat", "lon"]
    },
    "kind": { "enum": ["KIND_UNSPECIFIED", "INDOOR", "OUTDOOR"] },
    "seq": { "type": "integer" }
  },
  "required": ["deviceId", "atMs"],
  "additionalProperties": false
}"#;

const MANIFEST: &str = "
[[contract]]
name = 'plain'
topics = 'plain/{device_id}'
format = ['protobuf', 'json', 'messagepack']
schema = 'reading.proto'
message = 'Reading'

[[contract]]
name = 'tied'
topics = 'tied/{device_id}'
format = ['protobuf', 'json', 'messagepack']
schema = 'reading.proto'
message = 'Reading'
topic_fields = { device_id = 'device_id' }

[[contract]]
name = 'schema'
topics = 'schema/{device_id}'
format = ['json', 'messagepack']
schema = 'reading.json'
";

pub struct Reading {
    pub catalogue: Catalogue,
    pub protobuf: Vec<u8>,
    pub json: Vec<u8>,
    pub message_pack: Vec<u8>,
}

impl Reading {
    pub fn new() -> Reading {
        let files = Files::from([
            ("reading.proto".to_owned(), PROTO.to_owned()),
            ("reading.json".to_owned(), SCHEMA.to_owned()),
            ("contracts.toml".to_owned(), MANIFEST.to_owned()),
        ]);
        let catalogue = Catalogue::load(&files, &LoadLimits::default()).expect("the files are right");
        let protobuf = protobuf();
        let plain = catalogue.named("plain").expect("it is in the manifest").clone();
        let made = |to| {
            let mut out = Vec::new();
            plain.transcode(Format::Protobuf, to, &protobuf, &mut out, usize::MAX).expect("the reading is right");
            out
        };
        let (json, message_pack) = (made(Format::Json), made(Format::MessagePack));
        Reading { catalogue, protobuf, json, message_pack }
    }

    pub fn contract(&self, name: &str) -> Arc<Contract> {
        self.catalogue.named(name).expect("it is in the manifest").clone()
    }

    pub fn payload(&self, format: Format) -> Vec<u8> {
        match format {
            Format::Protobuf => self.protobuf.clone(),
            Format::Json => self.json.clone(),
            Format::MessagePack => self.message_pack.clone(),
        }
    }
}

/// Encoded by hand, so that no library defines it: 65 bytes.
fn protobuf() -> Vec<u8> {
    let mut out = vec![0x0a, 6];
    out.extend(b"dev-17");
    out.extend([0x10, 0x80, 0xd0, 0xc3, 0xf0, 0xa5, 0x33]);
    out.push(0x1d);
    out.extend(21.0f32.to_le_bytes());
    out.push(0x25);
    out.extend(44.0f32.to_le_bytes());
    out.extend([0x28, 87, 0x30, 1, 0x38, 0x7f, 0x42, 3]);
    out.extend(b"Cel");
    out.extend([0x4a, 3, 1, 2, 3, 0x52, 18, 0x09]);
    out.extend(48.0f64.to_le_bytes());
    out.push(0x11);
    out.extend(10.0f64.to_le_bytes());
    out.extend([0x58, 1, 0x60, 42]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reading_has_the_size_that_the_thresholds_assume() {
        let reading = Reading::new();
        assert_eq!(reading.protobuf.len(), 65);
        for format in [Format::Protobuf, Format::Json, Format::MessagePack] {
            let payload = reading.payload(format);
            let checked = reading.contract("tied").check("tied/dev-17", Some(format.content_type()), &payload);
            assert_eq!(checked.ok(), Some(format));
        }
    }
}
