//! Sessions that outlive their process.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tautwire_client::{Error, FileStore, Options, ProtocolVersion, PubAckReason, Publication, QoS};
use tautwire_protocol::{
    Delivery, Packet, PacketId, Properties, Property, PubAck, PubComp, PubRec, PubRel, Publish, TopicName,
};

use crate::scripted::{Script, id, options};

/// A path for a store, removed on drop.
struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("tautwire-store-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        Place(folder)
    }

    fn file(&self) -> PathBuf {
        self.0.join("session")
    }

    fn open(&self) -> FileStore {
        FileStore::open(self.file()).expect("a store")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The packets sent, as `(kind, identifier, DUP, payload)`.
fn told(script: &mut Script) -> Vec<(&'static str, u16, bool, Vec<u8>)> {
    let sent = script.sent();
    let told = sent.iter().map(|packet| match packet.as_packet() {
        Packet::Publish(publish) => {
            let packet_id = publish.packet_id().map_or(0, PacketId::get);
            ("PUBLISH", packet_id, publish.dup(), publish.payload.to_vec())
        }
        Packet::PubRel(release) => ("PUBREL", release.packet_id.get(), false, Vec::new()),
        Packet::PubRec(received) => ("PUBREC", received.packet_id.get(), false, Vec::new()),
        Packet::PubComp(complete) => ("PUBCOMP", complete.packet_id.get(), false, Vec::new()),
        other => panic!("{other:?}"),
    });
    told.collect()
}

fn publish(script: &mut Script, payload: &str, qos: QoS) {
    let publication = Publication::new("t", payload).qos(qos).user_property("k", payload);
    script.publish(&publication, 1).expect("taken");
}

fn with(place: &Place) -> Options {
    options().store(place.open())
}

#[test]
fn sent_and_queued_messages_continue_after_a_restart() {
    for version in [ProtocolVersion::V3_1_1, ProtocolVersion::V5] {
        let place = Place::new();
        let plain = |script: &mut Script, payload: &str, qos| {
            script.publish(&Publication::new("t", payload).qos(qos), 1).expect("taken");
        };
        let mut script = Script::new(with(&place), version);
        script.connect(false, &[]);
        for (payload, qos) in [
            ("acknowledged", QoS::AtLeastOnce),
            ("sent", QoS::AtLeastOnce),
            ("received", QoS::ExactlyOnce),
            ("sent too", QoS::ExactlyOnce),
        ] {
            plain(&mut script, payload, qos);
        }
        assert_eq!(told(&mut script).len(), 4);
        script.says(&Packet::PubAck(PubAck::success(id(1)))).expect("due");
        script.says(&Packet::PubRec(PubRec::success(id(3)))).expect("due");
        assert_eq!(told(&mut script), [("PUBREL", 3, false, vec![])]);
        script.machine.lost();
        plain(&mut script, "waits", QoS::AtLeastOnce);
        plain(&mut script, "at QoS 0", QoS::AtMostOnce);
        drop(script);

        let mut script = Script::new(with(&place), version);
        assert!(!script.machine.is_settled(), "there is something left to do");
        script.connect(true, &[]);
        let expected = [
            ("PUBREL", 3, false, vec![]),
            ("PUBLISH", 2, true, b"sent".to_vec()),
            ("PUBLISH", 4, true, b"sent too".to_vec()),
            ("PUBLISH", 5, false, b"waits".to_vec()),
        ];
        assert_eq!(told(&mut script), expected, "{version:?}");
        for answer in [
            Packet::PubAck(PubAck::success(id(2))),
            Packet::PubComp(PubComp::success(id(3))),
            Packet::PubRec(PubRec::success(id(4))),
            Packet::PubComp(PubComp::success(id(4))),
            Packet::PubAck(PubAck::success(id(5))),
        ] {
            script.says(&answer).expect("due");
        }
        assert!(script.machine.is_settled());
        drop(script);

        let mut script = Script::new(with(&place), version);
        script.connect(true, &[]);
        assert!(script.sent().is_empty(), "nothing is left");
    }
}

#[test]
fn messages_are_restored_unchanged() {
    let place = Place::new();
    let mut script = Script::new(with(&place), ProtocolVersion::V5);
    let publication = Publication::new("a/b", "x").qos(QoS::AtLeastOnce).retain(true).expiry(Duration::from_secs(9));
    script.publish(&publication.content_type("c").user_property("k", "v"), 1).expect("waits");
    drop(script);
    let mut script = Script::new(with(&place), ProtocolVersion::V5);
    script.connect(false, &[]);
    let sent = script.sent();
    let Packet::Publish(publish) = sent[0].as_packet() else { panic!("{sent:?}") };
    assert_eq!((publish.topic.map(TopicName::as_str), publish.retain), (Some("a/b"), true));
    assert_eq!(publish.properties.content_type(), Some("c"));
    assert_eq!(publish.properties.user_properties().collect::<Vec<_>>(), [("k", "v")]);
    assert_eq!(publish.properties.message_expiry_interval(), Some(9));
}

/// An acknowledged message is not delivered again; an unacknowledged one is.
#[test]
fn acknowledged_qos_2_messages_are_remembered() {
    let place = Place::new();
    let message = |number, dup| {
        Packet::Publish(Publish {
            delivery: Delivery::ExactlyOnce { packet_id: id(number), dup },
            retain: false,
            topic: TopicName::new("t").ok(),
            properties: Properties::EMPTY,
            payload: b"x",
        })
    };
    let mut script = Script::new(with(&place), ProtocolVersion::V5);
    script.connect(false, &[]);
    for number in 1..=3 {
        script.says(&message(number, false)).expect("taken");
    }
    for token in std::mem::take(&mut script.seen.tokens).into_iter().take(2) {
        script.machine.acknowledge(token, PubAckReason::Success);
    }
    script.says(&Packet::PubRel(PubRel::success(id(1)))).expect("due");
    drop(script);

    let mut script = Script::new(with(&place), ProtocolVersion::V5);
    script.connect(true, &[]);
    for number in 2..=3 {
        script.says(&message(number, true)).expect("taken");
    }
    assert_eq!(script.seen.messages.len(), 1, "only the third: it had not been acknowledged");
    assert_eq!(told(&mut script), [("PUBREC", 2, false, vec![])]);
    script.says(&message(1, false)).expect("another message with a free identifier");
    assert_eq!(script.seen.messages.len(), 2);
}

#[test]
fn a_session_lost_by_the_server_is_resent_except_qos_2() {
    let place = Place::new();
    let mut script = Script::new(with(&place), ProtocolVersion::V5);
    script.connect(false, &[]);
    publish(&mut script, "once or more", QoS::AtLeastOnce);
    publish(&mut script, "exactly once", QoS::ExactlyOnce);
    script.sent();
    drop(script);
    for _ in 0..2 {
        let mut script = Script::new(with(&place), ProtocolVersion::V5);
        script.connect(false, &[]);
        assert_eq!(told(&mut script), [("PUBLISH", 1, false, b"once or more".to_vec())]);
    }
}

/// Messages of a lost session that could not be sent again are queued without an identifier.
#[test]
fn unsent_messages_of_a_lost_session_wait() {
    let place = Place::new();
    let mut script = Script::new(with(&place), ProtocolVersion::V5);
    script.connect(false, &[]);
    publish(&mut script, "first", QoS::AtLeastOnce);
    publish(&mut script, "second", QoS::AtLeastOnce);
    script.sent();
    script.machine.lost();
    script.connect(false, &[Property::ReceiveMaximum(std::num::NonZeroU16::MIN)]);
    assert_eq!(told(&mut script), [("PUBLISH", 1, false, b"first".to_vec())]);
    drop(script);
    let mut script = Script::new(with(&place), ProtocolVersion::V5);
    script.connect(true, &[]);
    let expected = [("PUBLISH", 1, true, b"first".to_vec()), ("PUBLISH", 2, false, b"second".to_vec())];
    assert_eq!(told(&mut script), expected);
}

#[test]
fn a_store_belongs_to_one_client_identifier() {
    let place = Place::new();
    let mut script = Script::new(with(&place), ProtocolVersion::V5);
    script.connect(false, &[]);
    drop(script);
    let adopted = Options::new("mqtt://server").expect("an address").store(place.open());
    let script = Script::new(adopted, ProtocolVersion::V5);
    assert_eq!(script.machine.client_id(), "c");
    drop(script);
    let mut script = Script::new(with(&place).client_id("another"), ProtocolVersion::V5);
    let error = script.machine.opened(0).expect_err("it is another's");
    assert!(error.is_permanent() && error.to_string().contains("\"c\""), "{error}");
}

#[test]
fn a_store_is_opened_once() {
    let place = Place::new();
    let open = place.open();
    let error = FileStore::open(place.file()).expect_err("it is open");
    assert!(matches!(error, Error::Store { .. }) && error.to_string().contains("open elsewhere"), "{error}");
    drop(open);
    place.open();
}
