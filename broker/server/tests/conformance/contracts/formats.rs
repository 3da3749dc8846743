//! Transcoding: subscribers receive payloads in the format they request.

use tautwire_protocol::{Packet, Property};

use super::support::{EVERY_QOS, World, json, messagepack, protobuf, subscribe_accepting};
use crate::support::property::subscription_identifier;
use crate::support::{
    AtLeastOnce, AtMostOnce, Client, ExactlyOnce, Message, NEVER, OutgoingPublish, ProtocolVersion, V3_1_1, V5,
    every_case, every_thread_count, expect_nothing_from, options,
};

const TOPIC: &str = "sensors/7/reading";
const JSON: &str = "application/json";
const MESSAGEPACK: &str = "application/msgpack";
const PROTOBUF: &str = "application/x-protobuf";

/// The expected payload of a message in each of the formats.
fn in_format(content_type: &str) -> Vec<u8> {
    match content_type {
        JSON => json("7", 21.5).into_bytes(),
        MESSAGEPACK => messagepack("7", 21.5),
        _ => protobuf("7", 21.5),
    }
}

#[track_caller]
fn expect_form(message: &Message, content_type: &str, version: ProtocolVersion) {
    assert_eq!((message.topic(), message.payload()), (TOPIC, in_format(content_type).as_slice()), "{content_type}");
    if version.is_v5() {
        assert_eq!(message.properties().content_type(), Some(content_type));
    }
}

#[test]
fn every_format_is_transcoded_to_every_other() {
    every_case(|case| {
        let world = World::new(case.threads);
        let mut publisher = world.connect(V5, "publisher");
        for (level, wanted) in [("json", JSON), ("msgpack", MESSAGEPACK), ("protobuf", PROTOBUF)] {
            let mut subscriber = world.connect(case.version, &format!("subscriber-{level}"));
            subscriber.subscribe(&format!("$as/{level}/sensors/+/reading"), ExactlyOnce);
            for published in [JSON, MESSAGEPACK, PROTOBUF] {
                for qos in EVERY_QOS {
                    let payload = in_format(published);
                    let outgoing =
                        OutgoingPublish::new(TOPIC, qos, &payload).property(Property::ContentType(published));
                    assert_eq!(publisher.deliver(&outgoing), 0, "{published} to {wanted}");
                    let message = subscriber.receive();
                    assert_eq!(message.qos(), qos);
                    expect_form(&message, wanted, case.version);
                }
            }
        }
    });
}

#[test]
fn accept_requests_a_format_without_another_filter() {
    every_thread_count(|case| {
        let world = World::new(case.threads);
        let mut publisher = world.connect(V3_1_1, "publisher");
        for content_type in [JSON, MESSAGEPACK, PROTOBUF] {
            let mut subscriber = world.connect(V5, content_type);
            subscribe_accepting(&mut subscriber, "sensors/#", AtLeastOnce, content_type);
            publisher.publish(TOPIC, AtLeastOnce, &protobuf("7", 21.5));
            expect_form(&subscriber.receive(), content_type, V5);
        }
    });
}

#[test]
fn the_first_supported_format_is_used_and_none_is_refused() {
    let world = World::new(1);
    let mut subscriber = world.connect(V5, "subscriber");
    subscribe_accepting(&mut subscriber, "sensors/#", AtLeastOnce, "application/cbor, application/msgpack;q=0.5");
    let mut publisher = world.connect(V5, "publisher");
    publisher.publish(TOPIC, AtLeastOnce, &protobuf("7", 21.5));
    expect_form(&subscriber.receive(), MESSAGEPACK, V5);
    let unknown = Property::UserProperty("accept", "application/cbor");
    assert_eq!(subscriber.subscribe_all(&[("a", options(AtLeastOnce))], &[unknown]), [0x83]);
}

#[test]
fn filters_without_a_format_or_filter_are_refused() {
    every_case(|case| {
        let world = World::new(case.threads);
        let mut subscriber = world.connect(case.version, "subscriber");
        let code = if case.version.is_v5() { 0x8f } else { 0x80 };
        for filter in
            ["$as", "$as/json", "$as/cbor/a", "$as/+/a", "$as/#", "$as/json/$as/json/a", "$as/json/$share/g/a"]
        {
            let granted = subscriber.subscribe_all(&[(filter, options(AtLeastOnce))], &[]);
            // Without a following level, it is an ordinary topic.
            let expected = if filter == "$as" { 1 } else { code };
            assert_eq!(granted, [expected], "{filter}");
        }
    });
}

#[test]
fn one_session_can_receive_a_topic_in_several_formats() {
    every_case(|case| {
        let world = World::new(case.threads);
        let mut subscriber = world.connect(case.version, "subscriber");
        let mut publisher = world.connect(V5, "publisher");
        for filter in ["sensors/#", "$as/json/sensors/#", "$as/msgpack/sensors/+/reading"] {
            subscriber.subscribe(filter, AtLeastOnce);
        }
        publisher.publish(TOPIC, AtLeastOnce, &protobuf("7", 21.5));
        let mut payloads: Vec<Vec<u8>> = (0..3).map(|_| subscriber.receive().payload().to_vec()).collect();
        payloads.sort();
        let mut expected = [in_format(PROTOBUF), in_format(JSON), in_format(MESSAGEPACK)];
        expected.sort();
        assert_eq!(payloads, expected);
        subscriber.unsubscribe(&["$as/json/sensors/#"]);
        subscriber.unsubscribe(&["sensors/#"]);
        publisher.publish(TOPIC, AtLeastOnce, &protobuf("7", 21.5));
        assert_eq!(subscriber.receive().payload(), in_format(MESSAGEPACK));
        expect_nothing_from(&mut publisher, &mut subscriber);
    });
}

/// [MQTT-3.3.4-2], [MQTT-3.3.4-4]: one copy per format, with the identifiers of all its subscriptions.
#[test]
fn overlapping_filters_of_one_format_give_one_copy() {
    every_thread_count(|case| {
        let world = World::new(case.threads);
        let mut subscriber = world.connect(V5, "subscriber");
        let mut publisher = world.connect(V5, "publisher");
        for (filter, identifier) in [("$as/json/sensors/#", 1), ("$as/json/+/7/#", 2)] {
            let properties = [subscription_identifier(identifier)];
            assert_eq!(subscriber.subscribe_all(&[(filter, options(AtLeastOnce))], &properties), [1]);
        }
        publisher.publish(TOPIC, AtLeastOnce, &protobuf("7", 21.5));
        let message = subscriber.receive();
        expect_form(&message, JSON, V5);
        assert_eq!(message.subscription_identifiers(), [1, 2]);
        expect_nothing_from(&mut publisher, &mut subscriber);
    });
}

#[test]
fn resubscribing_changes_the_format() {
    every_thread_count(|case| {
        let world = World::new(case.threads);
        let mut subscriber = world.connect(V5, "subscriber");
        let mut publisher = world.connect(V5, "publisher");
        subscribe_accepting(&mut subscriber, "sensors/#", AtLeastOnce, JSON);
        subscribe_accepting(&mut subscriber, "sensors/#", AtLeastOnce, MESSAGEPACK);
        publisher.publish(TOPIC, AtLeastOnce, &protobuf("7", 21.5));
        expect_form(&subscriber.receive(), MESSAGEPACK, V5);
        subscriber.subscribe("sensors/#", AtLeastOnce);
        publisher.publish(TOPIC, AtLeastOnce, &protobuf("7", 21.5));
        assert_eq!(subscriber.receive().payload(), protobuf("7", 21.5));
        expect_nothing_from(&mut publisher, &mut subscriber);
    });
}

#[test]
fn members_of_a_shared_subscription_receive_their_own_format() {
    every_thread_count(|case| {
        let world = World::new(case.threads);
        let mut publisher = world.connect(V5, "publisher");
        let mut members: Vec<Client> =
            ["member-a", "member-b", "member-c"].iter().map(|name| world.connect(V5, name)).collect();
        subscribe_accepting(&mut members[0], "$share/g/sensors/#", AtLeastOnce, JSON);
        subscribe_accepting(&mut members[1], "$share/g/sensors/#", AtLeastOnce, MESSAGEPACK);
        members[2].subscribe("$share/g/sensors/#", AtLeastOnce);
        for _ in 0..6 {
            publisher.publish(TOPIC, AtLeastOnce, &protobuf("7", 21.5));
        }
        for (member, content_type) in members.iter_mut().zip([JSON, MESSAGEPACK, PROTOBUF]) {
            for _ in 0..2 {
                assert_eq!(member.receive().payload(), in_format(content_type), "{content_type}");
            }
        }
    });
}

#[test]
fn a_shared_subscription_can_name_the_format_in_its_filter() {
    every_case(|case| {
        let world = World::new(case.threads);
        let mut publisher = world.connect(V5, "publisher");
        let mut member = world.connect(case.version, "member");
        member.subscribe("$share/g/$as/json/sensors/#", AtLeastOnce);
        publisher.publish(TOPIC, AtLeastOnce, &protobuf("7", 21.5));
        expect_form(&member.receive(), JSON, case.version);
        member.unsubscribe(&["$share/g/$as/json/sensors/#"]);
        publisher.publish(TOPIC, AtLeastOnce, &protobuf("7", 21.5));
        expect_nothing_from(&mut publisher, &mut member);
    });
}

#[test]
fn retained_messages_are_sent_in_the_requested_format() {
    every_case(|case| {
        let world = World::new(case.threads);
        let mut publisher = world.connect(V5, "publisher");
        publisher.deliver(&OutgoingPublish::new(TOPIC, AtLeastOnce, &protobuf("7", 21.5)).retained());
        let mut late = world.connect(case.version, "late");
        late.subscribe("$as/json/sensors/#", AtLeastOnce);
        let message = late.receive();
        assert!(message.retain());
        expect_form(&message, JSON, case.version);
        late.subscribe("sensors/#", AtLeastOnce);
        assert_eq!(late.receive().payload(), protobuf("7", 21.5));
        // The removal of a retained message has no payload to transcode.
        publisher.deliver(&OutgoingPublish::new(TOPIC, AtLeastOnce, b"").retained());
        assert_eq!(late.receive().payload(), b"");
        assert_eq!(late.receive().payload(), b"");
    });
}

#[test]
fn messages_for_offline_clients_are_queued_in_the_requested_format() {
    every_case(|case| {
        let world = World::new(case.threads);
        let mut publisher = world.connect(V5, "publisher");
        let mut away = world.broker.connecting(case.version, "away").persistent().open();
        away.subscribe("$as/json/sensors/#", ExactlyOnce);
        away.cut();
        for qos in [AtLeastOnce, ExactlyOnce] {
            publisher.publish(TOPIC, qos, &protobuf("7", 21.5));
        }
        let mut back = world.broker.connecting(case.version, "away").persistent().open();
        assert!(back.session_present());
        for qos in [AtLeastOnce, ExactlyOnce] {
            let message = back.receive();
            assert_eq!(message.qos(), qos);
            expect_form(&message, JSON, case.version);
        }
        publisher.publish(TOPIC, AtLeastOnce, &protobuf("7", 21.5));
        expect_form(&back.receive(), JSON, case.version);
    });
}

#[test]
fn a_payload_is_transcoded_once_for_all_receivers() {
    every_thread_count(|case| {
        let world = World::new(case.threads);
        let mut publisher = world.connect(V5, "publisher");
        let mut subscribers: Vec<Client> = (0..40)
            .map(|number| {
                let version = if number % 2 == 0 { V5 } else { V3_1_1 };
                let mut subscriber = world.connect(version, &format!("reader-{number}"));
                // The last four are each the only member of a shared subscription.
                let filter = match number {
                    0..36 => "$as/json/sensors/#".to_owned(),
                    _ => format!("$share/group-{number}/$as/json/sensors/#"),
                };
                subscriber.subscribe(&filter, if number % 4 < 2 { AtMostOnce } else { AtLeastOnce });
                subscriber
            })
            .collect();
        for sent in 1..=3 {
            publisher.publish(TOPIC, AtLeastOnce, &protobuf("7", 21.5));
            for subscriber in &mut subscribers {
                assert_eq!(subscriber.receive().payload(), in_format(JSON));
            }
            assert_eq!(world.count("payloads_transcoded"), sent);
        }
    });
}

#[test]
fn other_properties_are_kept_and_the_format_indicator_is_correct() {
    let world = World::new(1);
    let mut publisher = world.connect(V5, "publisher");
    let mut subscriber = world.connect(V5, "subscriber");
    subscriber.subscribe("$as/msgpack/sensors/#", AtLeastOnce);
    let payload = in_format(JSON);
    let outgoing = OutgoingPublish::new(TOPIC, AtLeastOnce, &payload)
        .property(Property::PayloadFormatIndicator(tautwire_protocol::PayloadFormat::Utf8))
        .property(Property::ContentType(JSON))
        .property(Property::UserProperty("a", "1"))
        .property(Property::CorrelationData(b"c"))
        .property(Property::UserProperty("a", "2"));
    publisher.deliver(&outgoing);
    let message = subscriber.receive();
    expect_form(&message, MESSAGEPACK, V5);
    let properties = message.properties();
    assert_eq!(properties.payload_format_indicator(), None);
    assert_eq!(properties.correlation_data(), Some(&b"c"[..]));
    assert_eq!(message.user_properties(), [("a".to_owned(), "1".to_owned()), ("a".to_owned(), "2".to_owned())]);
}

/// Nobody receives part of a payload, or a payload in another format than requested.
#[test]
fn transcoding_failures_are_reported_or_counted() {
    every_thread_count(|case| {
        let world = World::new(case.threads);
        let mut publisher = world.connect(V5, "publisher");
        let mut verbose = world.connect(V5, "verbose");
        let mut silent = world.connect(V3_1_1, "silent");
        for client in [&mut verbose, &mut silent] {
            for filter in ["$as/protobuf/anything/#", "$as/json/loose/#", "$as/json/free/#"] {
                client.subscribe(filter, AtLeastOnce);
            }
        }
        let cases: [(&str, &[u8], &str); 3] = [
            ("anything/a", br#"{"a": 1}"#, "format"),
            // It violates the contract, which is in observe mode: its format is unknown.
            ("loose/a", b"\xff\xff", "expected"),
            ("free/a", b"12", "no contract covers the topic"),
        ];
        for (topic, payload, expected) in cases {
            publisher.publish(topic, AtLeastOnce, payload);
            let message = verbose.receive();
            assert_eq!((message.topic(), message.payload()), (topic, &b""[..]));
            let properties = message.user_properties();
            let why = properties.iter().find(|(name, _)| name == "tautwire-transcoding-error");
            assert!(why.is_some_and(|(_, why)| why.contains(expected)), "{properties:?}");
        }
        expect_nothing_from(&mut publisher, &mut silent);
        assert_eq!(world.count("dropped_not_transcodable"), 3);
        // A payload whose content type is the requested format needs no contract.
        let outgoing = OutgoingPublish::new("free/a", AtLeastOnce, b"12").property(Property::ContentType(JSON));
        publisher.deliver(&outgoing);
        assert_eq!((verbose.receive().payload(), silent.receive().payload()), (&b"12"[..], &b"12"[..]));
    });
}

#[test]
fn ending_a_session_removes_its_formats() {
    every_thread_count(|case| {
        let world = World::new(case.threads);
        let mut publisher = world.connect(V5, "publisher");
        let mut gone = world.broker.connecting(V5, "gone").session_expiry_s(NEVER).open();
        gone.subscribe("$as/json/sensors/#", AtLeastOnce);
        subscribe_accepting(&mut gone, "sensors/#", AtLeastOnce, MESSAGEPACK);
        gone.cut();
        world.broker.connecting(V5, "gone").open().disconnect();
        assert_eq!(publisher.publish(TOPIC, AtLeastOnce, &protobuf("7", 21.5)), 0x10);
        assert_eq!(world.count("subscriptions"), 0);
    });
}

/// The limit applies to the packet that is sent [MQTT-3.1.2-24].
#[test]
fn the_maximum_packet_size_applies_to_the_transcoded_message() {
    let world = World::new(1);
    let mut publisher = world.connect(V5, "publisher");
    let size = crate::support::property::maximum_packet_size(80);
    let mut small = world.broker.connecting(V5, "small").property(size).open();
    small.subscribe("$as/json/sensors/#", AtLeastOnce);
    small.subscribe("sensors/#", AtLeastOnce);
    let mut payload = protobuf("7", 21.5);
    payload.extend_from_slice(&[0x2a, 30]);
    payload.extend_from_slice(&[1; 30]);
    publisher.publish(TOPIC, AtLeastOnce, &payload);
    assert_eq!(small.receive().payload(), payload);
    expect_nothing_from(&mut publisher, &mut small);
    assert_eq!(world.count("dropped_too_large"), 1);
    small.send(&Packet::PingReq);
}
