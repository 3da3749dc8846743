//! A broker with contracts, and payloads for them.

use tautwire_protocol::{Packet, Property};

use crate::support::{
    AtLeastOnce, AtMostOnce, Broker, Client, ExactlyOnce, Folder, OutgoingPublish, ProtocolVersion, QoS, TOKEN, admin,
    options,
};

/// One contract per policy, for JSON objects with an integer `n`; and sensor readings in all formats.
pub(crate) const MANIFEST: &str = r#"
[[contract]]
name = "watched"
topics = "watched/#"
format = "json"
schema = "numbered.json"
on_violation = "observe"

[[contract]]
name = "strict"
topics = "strict/#"
format = "json"
schema = "numbered.json"
on_violation = "reject"

[[contract]]
name = "stricter"
topics = "stricter/#"
format = "json"
schema = "numbered.json"
on_violation = "reject"
unacknowledged = "disconnect"

[[contract]]
name = "aside"
topics = "aside/#"
format = "json"
schema = "numbered.json"
on_violation = "quarantine"

[[contract]]
name = "fatal"
topics = "fatal/#"
format = "json"
schema = "numbered.json"
on_violation = "disconnect"

[[contract]]
name = "reading"
topics = "sensors/{device_id}/reading"
format = ["protobuf", "messagepack", "json"]
schema = "reading.proto"
message = "acme.Reading"
on_violation = "reject"
topic_fields = { device_id = "device_id" }

[[contract]]
name = "anything"
topics = "anything/#"
format = ["json", "messagepack"]
schema = "anything.json"
on_violation = "reject"

[[contract]]
name = "loose"
topics = "loose/#"
format = ["protobuf", "json"]
schema = "reading.proto"
message = "acme.Reading"
on_violation = "observe"
"#;

const NUMBERED: &str = r#"{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}"#;

const READING: &str = r#"
syntax = "proto3";
package acme;

message Reading {
  string device_id = 1;
  double celsius = 2;
  int64 at = 3;
  Quality quality = 4;
  bytes raw = 5;
  repeated Sample samples = 6;
}

message Sample {
  uint32 value = 1;
}

enum Quality {
  UNKNOWN = 0;
  GOOD = 1;
}
"#;

/// A broker with its contracts folder.
pub(crate) struct World {
    pub(crate) broker: Broker,
    pub(crate) folder: Folder,
}

impl World {
    pub(crate) fn new(threads: usize) -> World {
        World::with(threads, MANIFEST)
    }

    pub(crate) fn with(threads: usize, manifest: &str) -> World {
        World::over(World::folder(manifest), threads)
    }

    pub(crate) fn folder(manifest: &str) -> Folder {
        Folder::new(&[("contracts/contracts.toml", manifest)])
    }

    pub(crate) fn over(folder: Folder, threads: usize) -> World {
        World::set(folder, threads, &[])
    }

    /// With additional settings.
    pub(crate) fn set(folder: Folder, threads: usize, settings: &[&str]) -> World {
        write_schemas(&folder);
        folder.write("token", TOKEN);
        let path = format!("contracts.path={}", folder.path().join("contracts").display());
        let token = format!("admin.token_file={}", folder.path().join("token").display());
        // No timer wakes a thread by chance.
        let own = [&*path, &*token, "admin.listen=127.0.0.1:0", "sys.interval_s=3600"];
        let broker = Broker::with(threads, &[&own, settings].concat());
        World { broker, folder }
    }

    pub(crate) fn connect(&self, version: ProtocolVersion, client_id: &str) -> Client {
        self.broker.connect(version, client_id)
    }

    /// One of the broker's counters. Everything answered before is counted.
    pub(crate) fn count(&self, name: &str) -> u64 {
        admin(self.broker.admin_address(), "GET", "/metrics", "").expect(200).number(name)
    }
}

/// Writes the schemas that [`MANIFEST`] refers to.
pub(crate) fn write_schemas(folder: &Folder) {
    folder.write("contracts/numbered.json", NUMBERED);
    folder.write("contracts/reading.proto", READING);
    folder.write("contracts/anything.json", "{}");
}

pub(crate) const EVERY_QOS: [QoS; 3] = [AtMostOnce, AtLeastOnce, ExactlyOnce];

/// A reading of this device with this temperature, as Protobuf.
pub(crate) fn protobuf(device_id: &str, celsius: f64) -> Vec<u8> {
    let mut bytes = vec![0x0a, device_id.len() as u8];
    bytes.extend_from_slice(device_id.as_bytes());
    bytes.push(0x11);
    bytes.extend_from_slice(&celsius.to_le_bytes());
    bytes
}

/// The same reading as MessagePack.
pub(crate) fn messagepack(device_id: &str, celsius: f64) -> Vec<u8> {
    let mut bytes = vec![0x82, 0xa8];
    bytes.extend_from_slice(b"deviceId");
    bytes.push(0xa0 | device_id.len() as u8);
    bytes.extend_from_slice(device_id.as_bytes());
    bytes.push(0xa7);
    bytes.extend_from_slice(b"celsius");
    bytes.push(0xcb);
    bytes.extend_from_slice(&celsius.to_be_bytes());
    bytes
}

/// The same reading as JSON.
pub(crate) fn json(device_id: &str, celsius: f64) -> String {
    format!("{{\"deviceId\":\"{device_id}\",\"celsius\":{celsius}}}")
}

/// Publishes at QoS 1 or 2, and returns the reason code and string of the acknowledgement.
#[track_caller]
pub(crate) fn answer_to(publisher: &mut Client, outgoing: &OutgoingPublish<'_>) -> (u8, String) {
    let id = publisher.send_publish(outgoing);
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    publisher.acknowledgement("PUBACK or PUBREC", |packet| match packet {
        Packet::PubAck(ack) if ack.packet_id.get() == id => {
            Some((ack.reason.as_u8(), text(ack.properties.reason_string())))
        }
        Packet::PubRec(rec) if rec.packet_id.get() == id => {
            Some((rec.reason.as_u8(), text(rec.properties.reason_string())))
        }
        _ => None,
    })
}

/// Subscribes with `accept: content_type`, and expects success.
#[track_caller]
pub(crate) fn subscribe_accepting(client: &mut Client, filter: &str, qos: QoS, content_type: &str) {
    let accept = Property::UserProperty("accept", content_type);
    assert_eq!(client.subscribe_all(&[(filter, options(qos))], &[accept]), [qos.as_u8()], "SUBACK for {filter}");
}
