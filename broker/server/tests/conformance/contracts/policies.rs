//! What happens to a message that violates its contract.

use tautwire_protocol::{Packet, Property, ReasonCode};

use super::support::{EVERY_QOS, World, answer_to, json, protobuf};
use crate::support::property::topic_alias;
use crate::support::{
    AtLeastOnce, AtMostOnce, Broker, ExactlyOnce, Folder, OutgoingPublish, V5, every_case, every_version,
    expect_nothing_from,
};

const GOOD: &[u8] = br#"{"n": 1}"#;
const BAD: &[u8] = br#"{"n": "one"}"#;
const WHY: &str = "n: expected an integer, found a string at byte";
const REFUSED: u8 = 0x99;

#[test]
fn valid_messages_are_delivered() {
    every_case(|case| {
        let world = World::new(case.threads);
        let mut subscriber = world.connect(case.version, "subscriber");
        let mut publisher = world.connect(case.version, "publisher");
        for root in ["watched", "strict", "stricter", "aside", "fatal"] {
            subscriber.subscribe(&format!("{root}/#"), ExactlyOnce);
            for qos in EVERY_QOS {
                assert_eq!(publisher.publish(&format!("{root}/a"), qos, GOOD), 0, "{root}");
                assert_eq!(subscriber.receive().payload(), GOOD);
            }
        }
        assert_eq!(world.count("payloads_checked"), 15);
        assert_eq!(world.count("violations_rejected"), 0);
    });
}

#[test]
fn reject_reports_the_path_and_the_expected_and_actual_values() {
    every_case(|case| {
        let world = World::new(case.threads);
        let mut subscriber = world.connect(case.version, "subscriber");
        let mut publisher = world.connect(case.version, "publisher");
        subscriber.subscribe("strict/#", ExactlyOnce);
        publisher.publish("strict/a", AtMostOnce, BAD);
        for qos in [AtLeastOnce, ExactlyOnce] {
            let (reason, why) = answer_to(&mut publisher, &OutgoingPublish::new("strict/a", qos, BAD));
            if case.version.is_v5() {
                assert_eq!(reason, REFUSED);
                assert!(why.starts_with(&format!("contract strict: {WHY} ")), "{why}");
            } else {
                // 3.1.1 has no negative acknowledgement.
                assert_eq!((reason, why.as_str()), (0, ""));
            }
        }
        expect_nothing_from(&mut publisher, &mut subscriber);
        assert_eq!(world.count("violations_rejected"), 3);
        assert_eq!(world.count("publishes_refused"), 3);
    });
}

/// A refused QoS 2 message has no PUBREL to wait for: its identifier is free [MQTT-4.3.3-4].
#[test]
fn a_refused_exchange_frees_its_identifier() {
    every_version(|case| {
        let world = World::new(1);
        let mut publisher = world.connect(case.version, "publisher");
        for _ in 0..2 {
            publisher.send_publish_as(&OutgoingPublish::new("strict/a", ExactlyOnce, BAD), 7);
            let reason = publisher.expect_pubrec(7);
            assert_eq!(reason, if case.version.is_v5() { REFUSED } else { 0 });
            if !case.version.is_v5() {
                publisher.send_pubrel(7);
                publisher.expect_pubcomp(7);
            }
        }
        assert_eq!(world.count("violations_rejected"), 2);
    });
}

#[test]
fn reject_can_disconnect_publishers_without_acknowledgements() {
    every_case(|case| {
        let world = World::new(case.threads);
        let mut subscriber = world.connect(case.version, "subscriber");
        subscriber.subscribe("stricter/#", ExactlyOnce);
        for qos in EVERY_QOS {
            let mut publisher = world.connect(case.version, "publisher");
            let outgoing = OutgoingPublish::new("stricter/a", qos, BAD);
            if case.version.is_v5() && qos != AtMostOnce {
                assert_eq!(publisher.deliver(&outgoing), REFUSED);
                publisher.ping();
            } else {
                publisher.send_publish(&outgoing);
                publisher.expect_server_disconnect(ReasonCode::PayloadFormatInvalid);
            }
        }
        let mut publisher = world.connect(case.version, "publisher");
        expect_nothing_from(&mut publisher, &mut subscriber);
    });
}

#[test]
fn disconnect_ends_the_connection_with_a_reason() {
    every_case(|case| {
        let world = World::new(case.threads);
        let mut subscriber = world.connect(case.version, "subscriber");
        subscriber.subscribe("fatal/#", ExactlyOnce);
        for qos in EVERY_QOS {
            let mut publisher = world.connect(case.version, "publisher");
            publisher.send_publish(&OutgoingPublish::new("fatal/a", qos, BAD));
            if case.version.is_v5() {
                let packet = publisher.next();
                let Packet::Disconnect(disconnect) = packet.as_packet() else { panic!("expected DISCONNECT") };
                assert_eq!(disconnect.reason.as_u8(), REFUSED);
                let why = disconnect.properties.reason_string().unwrap_or_default();
                assert!(why.contains(WHY), "{why}");
            }
            publisher.expect_closed();
        }
        let mut publisher = world.connect(case.version, "publisher");
        expect_nothing_from(&mut publisher, &mut subscriber);
        assert_eq!(world.count("violations_rejected"), 3);
    });
}

#[test]
fn quarantine_publishes_messages_separately_with_the_reason() {
    every_case(|case| {
        let world = World::new(case.threads);
        let mut subscriber = world.connect(case.version, "subscriber");
        let mut guard = world.connect(V5, "guard");
        let mut publisher = world.connect(case.version, "publisher");
        subscriber.subscribe("aside/#", ExactlyOnce);
        guard.subscribe("$quarantine/#", ExactlyOnce);
        for qos in EVERY_QOS {
            assert_eq!(publisher.publish("aside/a", qos, BAD), 0);
            let message = guard.receive();
            assert_eq!((message.topic(), message.payload(), message.qos()), ("$quarantine/aside/a", BAD, qos));
            let properties = message.user_properties();
            let value =
                |name: &str| properties.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
            assert_eq!(value("tautwire-contract"), Some("aside"));
            assert_eq!(value("tautwire-rule"), Some("type"));
            assert_eq!(value("tautwire-path"), Some("n"));
            assert!(value("tautwire-reason").is_some_and(|why| why.contains(WHY)));
        }
        expect_nothing_from(&mut publisher, &mut subscriber);
        assert_eq!(world.count("violations_quarantined"), 3);
        assert_eq!(world.count("publishes_refused"), 0);
    });
}

#[test]
fn observe_delivers_everything_and_counts_violations() {
    every_case(|case| {
        let world = World::new(case.threads);
        let mut subscriber = world.connect(case.version, "subscriber");
        let mut publisher = world.connect(case.version, "publisher");
        subscriber.subscribe("watched/#", ExactlyOnce);
        for qos in EVERY_QOS {
            assert_eq!(publisher.publish("watched/a", qos, BAD), 0);
            assert_eq!(subscriber.receive().payload(), BAD);
        }
        assert_eq!(world.count("violations_observed"), 3);
        assert_eq!(world.count("publishes_refused"), 0);
    });
}

#[test]
fn violations_are_logged_without_payloads_and_rate_limited() {
    let world = World::new(1);
    let mut publisher = world.connect(V5, "publisher");
    for _ in 0..100 {
        publisher.publish("strict/a", AtLeastOnce, br#"{"n": "hunter2"}"#);
    }
    let World { broker, folder: _folder } = world;
    let log = broker.end();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("violates the contract strict")).collect();
    assert!(!lines.is_empty() && lines.len() < 50, "{log}");
    assert!(!log.contains("hunter2"), "{log}");
}

#[test]
fn a_topic_level_must_match_its_field() {
    every_version(|case| {
        let world = World::new(1);
        let mut subscriber = world.connect(case.version, "subscriber");
        let mut publisher = world.connect(case.version, "publisher");
        subscriber.subscribe("sensors/#", AtLeastOnce);
        let other = protobuf("8", 1.0);
        let (reason, why) = answer_to(&mut publisher, &OutgoingPublish::new("sensors/7/reading", AtLeastOnce, &other));
        if case.version.is_v5() {
            assert_eq!(reason, REFUSED);
            assert!(why.contains("device_id") && why.contains("[topic_field_mismatch]"), "{why}");
        }
        publisher.publish("sensors/8/reading", AtLeastOnce, &other);
        assert_eq!(subscriber.receive().topic(), "sensors/8/reading");
    });
}

#[test]
fn the_path_of_a_nested_field_is_reported() {
    let world = World::new(1);
    let mut publisher = world.connect(V5, "publisher");
    // samples[1].value is a string.
    let payload = [0x0a, 1, b'7', 0x32, 2, 0x08, 1, 0x32, 3, 0x0a, 1, b'x'];
    let (reason, why) = answer_to(&mut publisher, &OutgoingPublish::new("sensors/7/reading", AtLeastOnce, &payload));
    assert_eq!(reason, REFUSED);
    assert!(why.contains("samples[1].value: expected"), "{why}");
}

#[test]
fn a_content_type_must_name_a_format_of_the_contract() {
    let world = World::new(1);
    let mut publisher = world.connect(V5, "publisher");
    let text = json("7", 1.5);
    let publish = |content_type| {
        OutgoingPublish::new("sensors/7/reading", AtLeastOnce, text.as_bytes())
            .property(Property::ContentType(content_type))
    };
    assert_eq!(answer_to(&mut publisher, &publish("application/json; charset=utf-8")).0, 0x10);
    let (reason, why) = answer_to(&mut publisher, &publish("application/msgpack"));
    assert_eq!(reason, REFUSED, "{why}");
    let bytes = protobuf("7", 1.5);
    let strict =
        OutgoingPublish::new("strict/a", AtLeastOnce, &bytes).property(Property::ContentType("application/x-protobuf"));
    let (reason, why) = answer_to(&mut publisher, &strict);
    assert_eq!(reason, REFUSED);
    assert!(
        why.contains("expected application/json, found application/x-protobuf") && why.contains("[format]"),
        "{why}"
    );
}

#[test]
fn without_a_content_type_the_reason_is_of_the_detected_format() {
    let world = World::new(1);
    let mut publisher = world.connect(V5, "publisher");
    let mut why = |payload: &[u8]| {
        let (reason, why) = answer_to(&mut publisher, &OutgoingPublish::new("sensors/7/reading", AtLeastOnce, payload));
        assert_eq!(reason, REFUSED);
        why
    };
    let reason = why(br#"{"deviceId": "7", "celsius": "warm"}"#);
    assert!(reason.contains("celsius: expected") && reason.contains("found a string"), "{reason}");
    assert!(why(json("8", 1.0).as_bytes()).contains("[topic_field_mismatch]"));
    let reason = why(&[&protobuf("7", 1.0)[..], &[0x28, 1]].concat());
    assert!(reason.contains("raw: expected"), "{reason}");
}

#[test]
fn a_message_with_a_topic_alias_is_validated_by_its_contract() {
    let world = World::new(1);
    let mut publisher = world.connect(V5, "publisher");
    let first = OutgoingPublish::new("strict/a", AtLeastOnce, GOOD).property(topic_alias(3));
    assert_eq!(publisher.deliver(&first), 0x10);
    assert_eq!(publisher.deliver(&OutgoingPublish::by_alias(3, AtLeastOnce, BAD)), REFUSED);
    assert_eq!(publisher.deliver(&OutgoingPublish::by_alias(3, AtLeastOnce, GOOD)), 0x10);
}

#[test]
fn contracts_do_not_apply_to_the_brokers_topics() {
    let everything = "[[contract]]\nname = \"all\"\ntopics = \"#\"\nformat = \"json\"\nschema = \"numbered.json\"\non_violation = \"reject\"\n";
    let world = World::with(1, everything);
    let mut client = world.connect(V5, "client");
    // Its payload is not JSON.
    client.subscribe("$SYS/broker/version", AtMostOnce);
    assert!(client.receive().text().starts_with("tautwire"));
    client.subscribe("$share/group/#", AtLeastOnce);
    assert_eq!(client.publish("a", AtLeastOnce, BAD), REFUSED);
    assert_eq!(client.publish("a", AtLeastOnce, GOOD), 0);
    assert_eq!(client.receive().payload(), GOOD);
    // Clients may not publish to reserved topics.
    for topic in ["$SYS/a", "$share/a", "$as/json/a", "$quarantine/a"] {
        assert_eq!(client.publish(topic, AtLeastOnce, GOOD), 0x87, "{topic}");
    }
    // Other topics with a dollar sign belong to clients, and contracts starting with a wildcard do not apply to them.
    assert_eq!(client.publish("$other/a", AtLeastOnce, BAD), 0x10);
}

#[test]
fn conflicting_contracts_prevent_the_start_with_both_names() {
    let two = "[[contract]]\nname = \"one\"\ntopics = \"a/+\"\nformat = \"json\"\nschema = \"s.json\"\n\
               [[contract]]\nname = \"two\"\ntopics = \"+/{id}\"\nformat = \"json\"\nschema = \"s.json\"\n";
    let folder = Folder::new(&[("contracts.toml", two), ("s.json", "{}")]);
    let stderr = Broker::refused(&[&format!("contracts.path={}", folder.path().display())]);
    assert!(stderr.contains("contracts.toml:6:1: the contracts two (+/{id}) and one (a/+) overlap"), "{stderr}");
}

#[test]
fn all_contract_folder_errors_are_reported_with_file_line_and_column() {
    let manifest = "[[contract]]\nname = \"one\"\ntopics = \"a/#/b\"\nformat = \"json\"\nschema = \"s.json\"\n\
                    [[contract]]\nname = \"two\"\ntopics = \"b\"\nformat = \"json\"\nschema = \"gone.json\"\ncolour = 1\n";
    let folder = Folder::new(&[
        ("contracts.toml", manifest),
        ("s.json", "{\"type\": \"thing\"}"),
        ("sub/m.proto", "syntax = \"proto3\";\nmessage M {\n  strin a = 1;\n}\n"),
    ]);
    let stderr = Broker::refused(&[&format!("contracts.path={}", folder.path().display())]);
    for expected in ["contracts.toml:3:10: topics:", "contracts.toml:11:1: unknown key colour", "sub/m.proto:3:3: "] {
        assert!(stderr.contains(expected), "{expected}: {stderr}");
    }
    assert!(stderr.lines().all(|line| line.starts_with("tautwire: ")), "{stderr}");
    let stderr = Broker::refused(&["contracts.path=/no/such/folder"]);
    assert!(stderr.contains("/no/such/folder") && stderr.contains("[contract_file]"), "{stderr}");
}
