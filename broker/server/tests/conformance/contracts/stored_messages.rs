//! Wills and retained messages are validated before they are stored.

use tautwire_protocol::Packet;

use super::support::{EVERY_QOS, World};
use crate::support::{
    AtLeastOnce, AtMostOnce, OutgoingPublish, V5, WillMessage, every_case, every_version, expect_nothing_from,
};

const GOOD: &[u8] = br#"{"n": 1}"#;
const BAD: &[u8] = br#"{"n": "one"}"#;

/// When the will is published, nobody is connected to be notified.
#[test]
fn a_connection_with_an_invalid_will_is_refused() {
    every_version(|case| {
        let world = World::new(1);
        for topic in ["strict/will", "stricter/will", "fatal/will"] {
            let connecting = world.broker.connecting(case.version, "mortal").will(WillMessage::new(topic, BAD));
            let mut client = connecting.send();
            if case.version.is_v5() {
                let packet = client.next();
                let Packet::ConnAck(connack) = packet.as_packet() else { panic!("expected CONNACK") };
                assert_eq!(connack.reason.as_u8(), 0x99);
                let why = connack.properties.reason_string().unwrap_or_default();
                assert!(
                    why.contains("the will violates the contract") && why.contains("n: expected an integer"),
                    "{why}"
                );
            }
            client.expect_closed();
        }
        assert_eq!(world.count("violations_rejected"), 3);
        let kept = world.broker.connecting(case.version, "mortal").will(WillMessage::new("strict/will", GOOD)).open();
        let mut witness = world.connect(case.version, "witness");
        witness.subscribe("strict/will", AtLeastOnce);
        kept.cut();
        assert_eq!(witness.receive().payload(), GOOD);
    });
}

#[test]
fn an_observed_or_quarantined_will_is_accepted() {
    every_case(|case| {
        let world = World::new(case.threads);
        let mut witness = world.connect(V5, "witness");
        witness.subscribe("$quarantine/#", AtLeastOnce);
        witness.subscribe("aside/#", AtLeastOnce);
        witness.subscribe("watched/#", AtLeastOnce);
        for (topic, arrives_as) in [("aside/will", "$quarantine/aside/will"), ("watched/will", "watched/will")] {
            let will = WillMessage::new(topic, BAD).retained();
            world.broker.connecting(case.version, "mortal").will(will).open().cut();
            assert_eq!(witness.receive().topic(), arrives_as);
        }
        let mut late = world.connect(case.version, "late");
        late.subscribe("aside/#", AtMostOnce);
        late.subscribe("$quarantine/#", AtMostOnce);
        late.expect_nothing();
    });
}

#[test]
fn invalid_messages_are_not_retained() {
    every_case(|case| {
        let world = World::new(case.threads);
        let mut publisher = world.connect(case.version, "publisher");
        for root in ["strict", "aside"] {
            let topic = format!("{root}/state");
            publisher.deliver(&OutgoingPublish::new(&topic, AtLeastOnce, GOOD).retained());
            for qos in EVERY_QOS {
                publisher.deliver(&OutgoingPublish::new(&topic, qos, BAD).retained());
                publisher.deliver(&OutgoingPublish::new(&format!("{root}/other"), qos, BAD).retained());
            }
            let mut late = world.connect(case.version, "late");
            late.subscribe(&format!("{root}/#"), AtLeastOnce);
            late.subscribe("$quarantine/#", AtLeastOnce);
            let message = late.receive();
            assert_eq!((message.topic(), message.payload(), message.retain()), (topic.as_str(), GOOD, true));
            late.expect_nothing();
        }
    });
}

/// [MQTT-3.3.1-6]: an empty payload is not validated; it removes the retained message.
#[test]
fn an_empty_payload_clears_the_retained_message() {
    every_case(|case| {
        let world = World::new(case.threads);
        let mut publisher = world.connect(case.version, "publisher");
        let mut witness = world.connect(case.version, "witness");
        witness.subscribe("strict/#", AtLeastOnce);
        publisher.deliver(&OutgoingPublish::new("strict/state", AtLeastOnce, GOOD).retained());
        assert_eq!(publisher.deliver(&OutgoingPublish::new("strict/state", AtLeastOnce, b"").retained()), 0);
        assert_eq!(witness.receive().payload(), GOOD);
        assert_eq!(witness.receive().payload(), b"");
        let mut late = world.connect(case.version, "late");
        late.subscribe("strict/#", AtLeastOnce);
        late.expect_nothing();
        // Without RETAIN it is a payload like any other.
        publisher.publish("strict/state", AtLeastOnce, b"");
        expect_nothing_from(&mut publisher, &mut witness);
    });
}
