//! CONNECT and CONNACK.

use std::num::{NonZeroU16, NonZeroU32};

use tautwire_protocol::{Packet, Property};

use crate::support::property::{maximum_packet_size, receive_maximum};
use crate::support::{
    AtLeastOnce, AtMostOnce, Broker, ExactlyOnce, OutgoingPublish, V3_1_1, V5, WillMessage, every_case,
    every_thread_count, every_version, expect_nothing_from, packet_id,
};

/// [MQTT-3.1.4-5], [MQTT-3.2.2-2]; 3.1.1: [MQTT-3.1.4-4], [MQTT-3.2.2-1]
#[test]
fn a_first_connect_is_accepted_without_a_session() {
    every_case(|case| {
        let broker = case.broker();
        let client = broker.connect(case.version, "first");
        assert!(!client.session_present());
    });
}

/// [MQTT-3.1.3-5]; 3.1.1: [MQTT-3.1.3-5]
#[test]
fn client_ids_of_all_allowed_characters_up_to_23_bytes_are_accepted() {
    every_version(|case| {
        let broker = case.broker();
        for client_id in ["0123456789", "abcdefghijklmnopqrstuvw", "xyzABCDEFGHIJKLMNOPQRST", "UVWXYZ", "a"] {
            broker.connect(case.version, client_id);
        }
    });
}

/// The standard allows more than 23 bytes and other characters.
#[test]
fn long_and_unusual_client_ids_are_accepted_and_distinct() {
    every_version(|case| {
        let broker = case.broker();
        let long = "x".repeat(500);
        let mut first = broker.connect(case.version, &long);
        let mut second = broker.connect(case.version, "größe/+#$SYS Ω");
        first.ping();
        second.ping();
    });
}

/// [MQTT-3.1.3-6], [MQTT-3.1.3-7], [MQTT-3.2.2-16]
#[test]
fn an_empty_client_id_is_assigned_a_unique_one() {
    every_thread_count(|case| {
        let broker = case.broker();
        let first = broker.connect(V5, "");
        let second = broker.connect(V5, "");
        let one = first.connack().properties.assigned_client_identifier().expect("an id is assigned").to_owned();
        let two = second.connack().properties.assigned_client_identifier().expect("an id is assigned").to_owned();
        assert!(!one.is_empty());
        assert_ne!(one, two);
    });
}

/// [MQTT-3.1.3-7]: the assigned id is the client's id from then on.
#[test]
fn an_assigned_client_id_resumes_its_session() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut client = broker.connecting(V5, "").clean_start(false).session_expiry_s(100).open();
        assert!(!client.session_present());
        let assigned = client.connack().properties.assigned_client_identifier().expect("an id").to_owned();
        client.subscribe("a", AtLeastOnce);
        client.disconnect();
        let again = broker.connecting(V5, &assigned).clean_start(false).session_expiry_s(100).open();
        assert!(again.session_present());
        assert_eq!(again.connack().properties.assigned_client_identifier(), None);
    });
}

/// 3.1.1: [MQTT-3.1.3-6], [MQTT-3.1.3-7]
#[test]
fn an_empty_client_id_of_3_1_1_needs_a_clean_session() {
    let broker = Broker::start();
    broker.connect(V3_1_1, "");
    broker.connect(V3_1_1, "");
    // [MQTT-3.1.3-8] of 3.1.1: return code 2, then the connection is closed. Our own codec does not encode such a CONNECT.
    let mut client = broker.dial(V3_1_1);
    client.send_bytes(b"\x10\x0c\x00\x04MQTT\x04\x00\x00\x3c\x00\x00");
    assert_eq!(client.expect_connack_code(), 2);
    client.expect_closed();
}

/// [MQTT-3.1.3-2]
#[test]
fn an_empty_client_id_takes_over_no_session() {
    every_version(|case| {
        let broker = case.broker();
        let mut first = broker.connect(case.version, "");
        let mut second = broker.connect(case.version, "");
        first.ping();
        second.ping();
    });
}

/// [MQTT-3.1.2-16] to [MQTT-3.1.2-19]: without access control any credentials are accepted.
#[test]
fn user_name_and_password_are_read_in_every_combination() {
    every_version(|case| {
        let broker = case.broker();
        broker.connecting(case.version, "user").user_name("someone").open().ping();
        broker.connecting(case.version, "both").user_name("someone").password(b"\x00secret\xff").open().ping();
        broker.connecting(case.version, "empty").user_name("").password(b"").open().ping();
    });
}

/// 5.0, 3.1.2.9: unlike in 3.1.1, a password is allowed without a user name.
#[test]
fn a_password_without_a_user_name_is_allowed_in_5_0() {
    let broker = Broker::start();
    broker.connecting(V5, "token").password(b"bearer").open().ping();
}

/// [MQTT-3.2.2-9] and following: an absent property means "no limit" or "available".
#[test]
fn connack_contains_the_limits_of_the_broker() {
    let broker = Broker::set(&[
        "mqtt.receive_maximum=7",
        "mqtt.maximum_packet_size=1000",
        "mqtt.topic_alias_maximum=5",
        "mqtt.max_qos=1",
        "mqtt.retain_available=false",
        "mqtt.wildcard_subscription_available=false",
        "mqtt.shared_subscription_available=false",
        "mqtt.subscription_identifier_available=false",
    ]);
    let client = broker.connect(V5, "limits");
    let properties = client.connack().properties;
    assert_eq!(properties.receive_maximum().map(NonZeroU16::get), Some(7));
    assert_eq!(properties.maximum_packet_size().map(NonZeroU32::get), Some(1000));
    assert_eq!(properties.topic_alias_maximum(), Some(5));
    let has = |wanted: Property<'_>| properties.iter().any(|property| property == wanted);
    assert!(has(Property::MaximumQoS(AtLeastOnce)));
    assert!(has(Property::RetainAvailable(false)));
    assert!(has(Property::WildcardSubscriptionAvailable(false)));
    assert!(has(Property::SharedSubscriptionAvailable(false)));
    assert!(has(Property::SubscriptionIdentifierAvailable(false)));
}

/// 5.0, 3.2.2.3: absent means available, and no maximum below that of the protocol.
#[test]
fn connack_restricts_nothing_by_default() {
    let broker = Broker::start();
    let client = broker.connect(V5, "defaults");
    for property in client.connack().properties.iter() {
        assert!(
            !matches!(
                property,
                Property::RetainAvailable(false)
                    | Property::WildcardSubscriptionAvailable(false)
                    | Property::SharedSubscriptionAvailable(false)
                    | Property::SubscriptionIdentifierAvailable(false)
                    | Property::MaximumQoS(_)
                    | Property::AssignedClientIdentifier(_)
                    | Property::AuthenticationMethod(_)
                    | Property::ServerKeepAlive(_)
            ),
            "{property:?}"
        );
    }
}

/// [MQTT-3.1.2-28]: no Response Information unless requested; if requested, the broker may omit it.
#[test]
fn response_information_is_sent_only_on_request() {
    let broker = Broker::start();
    for connecting in [
        broker.connecting(V5, "unasked"),
        broker.connecting(V5, "declined").property(Property::RequestResponseInformation(false)),
    ] {
        let client = connecting.open();
        let mut properties = client.connack().properties.iter();
        assert!(!properties.any(|property| matches!(property, Property::ResponseInformation(_))));
    }
    broker.connecting(V5, "asked").property(Property::RequestResponseInformation(true)).open().ping();
}

/// 5.0, 3.1.2.11: every property of CONNECT at once; the broker ignores the User Properties of CONNECT.
#[test]
fn connect_can_have_every_property() {
    let broker = Broker::start();
    let mut client = broker
        .connecting(V5, "all")
        .session_expiry_s(10)
        .property(receive_maximum(10))
        .property(maximum_packet_size(1000))
        .property(Property::TopicAliasMaximum(10))
        .property(Property::RequestResponseInformation(true))
        .property(Property::RequestProblemInformation(true))
        .property(Property::UserProperty("a", "1"))
        .property(Property::UserProperty("a", "1"))
        .open();
    client.ping();
}

/// [MQTT-3.2.2-12]
#[test]
fn a_will_above_the_maximum_qos_is_refused() {
    let broker = Broker::set(&["mqtt.max_qos=1"]);
    let will = WillMessage::new("will", b"x");
    assert_eq!(broker.connecting(V5, "will").will(will.clone().qos(ExactlyOnce)).refused(), 0x9b);
    broker.connecting(V5, "will").will(will.qos(AtLeastOnce)).open().ping();
}

/// [MQTT-3.2.2-13]
#[test]
fn a_retained_will_is_refused_where_retain_is_not_available() {
    let broker = Broker::set(&["mqtt.retain_available=false"]);
    let will = WillMessage::new("will", b"x");
    assert_eq!(broker.connecting(V5, "will").will(will.clone().retained()).refused(), 0x9a);
    broker.connecting(V5, "will").will(will).open().ping();
}

/// 5.0, 3.1.4: a client need not wait for CONNACK; [MQTT-3.2.0-1]: CONNACK still comes first.
#[test]
fn packets_sent_with_the_connect_are_answered_after_connack() {
    every_case(|case| {
        let broker = case.broker();
        let mut client = broker.dial(case.version);
        let mut bytes = broker.connecting(case.version, "eager").bytes();
        let publish = OutgoingPublish::new("eager/topic", AtLeastOnce, b"early");
        bytes.extend(client.encoded(&Packet::Publish(publish.publish(packet_id(9)))));
        bytes.extend([0xc0, 0x00]);
        client.send_bytes(&bytes);
        client.expect_accepted();
        client.expect_puback(9);
        client.acknowledgement("PINGRESP", |packet| matches!(packet, Packet::PingResp).then_some(()));
    });
}

/// [MQTT-3.1.4-6]: nothing after a refused CONNECT is processed.
#[test]
fn packets_after_a_refused_connect_are_not_processed() {
    let broker = Broker::set(&["mqtt.max_qos=1"]);
    let mut witness = broker.connect(V5, "witness");
    witness.subscribe("after", AtMostOnce);
    let refused = broker.connecting(V5, "refused").will(WillMessage::new("after", b"will").qos(ExactlyOnce));
    let mut client = broker.dial(V5);
    let mut bytes = refused.bytes();
    let publish = OutgoingPublish::new("after", AtMostOnce, b"sneaked in");
    bytes.extend(client.encoded(&Packet::Publish(publish.publish(packet_id(1)))));
    client.send_bytes(&bytes);
    assert_eq!(client.expect_connack_code(), 0x9b);
    client.expect_closed();
    witness.expect_nothing();
}

/// [MQTT-3.1.4-6], [MQTT-3.2.2-6]; 3.1.1: [MQTT-3.1.4-5], [MQTT-3.2.2-4], [MQTT-3.2.2-5]: a refusal reports no present session even if
/// there is one, closes the connection, and leaves the session and its connection unchanged.
#[test]
fn a_refused_connect_and_packets_after_it_change_nothing() {
    every_case(|case| {
        let broker = case.broker_set(&["limits.client_id_bytes=30"]);
        let mut witness = broker.connect(case.version, "witness");
        witness.subscribe("after/#", AtMostOnce);
        let kept = broker.connecting(case.version, "kept").persistent();
        let mut client = kept.open();
        client.subscribe("kept", AtLeastOnce);

        let too_long = "x".repeat(31);
        let [not_authorized, id_rejected] = if case.version.is_v5() { [0x87, 0x85] } else { [5, 2] };
        for (refused, code) in [
            (kept.clone().clean_start(true).will(WillMessage::new("$SYS/mine", b"will")), not_authorized),
            (broker.connecting(case.version, &too_long).will(WillMessage::new("after/will", b"will")), id_rejected),
        ] {
            let mut sneaking = broker.dial(case.version);
            let mut bytes = refused.bytes();
            let publish = OutgoingPublish::new("after/it", AtMostOnce, b"sneaked in");
            bytes.extend(sneaking.encoded(&Packet::Publish(publish.publish(packet_id(1)))));
            bytes.extend([0xc0, 0x00]);
            sneaking.send_bytes(&bytes);
            if case.version.is_v5() {
                assert_eq!(sneaking.expect_connack_code(), code);
                sneaking.expect_closed();
            } else {
                assert_eq!(sneaking.bytes_until_closed(), [0x20, 2, 0, code]);
            }
        }
        let mut publisher = broker.connect(case.version, "publisher");
        expect_nothing_from(&mut publisher, &mut witness);
        publisher.publish("kept", AtLeastOnce, b"1");
        assert_eq!(client.receive().text(), "1");
        client.disconnect();
        assert!(kept.open().session_present());
    });
}

/// [MQTT-4.2-1]: TCP is a stream: a CONNECT may arrive in any number of pieces.
#[test]
fn a_connect_sent_byte_by_byte_is_accepted() {
    every_version(|case| {
        let broker = case.broker();
        let mut client = broker.dial(case.version);
        for byte in broker.connecting(case.version, "piecemeal").user_name("someone").bytes() {
            client.send_bytes(&[byte]);
        }
        client.expect_accepted();
        client.ping();
    });
}

/// 5.0, 3.1.2.11.4: the broker sends no packet larger than the client accepts, including CONNACK [MQTT-3.1.2-24], [MQTT-3.2.2-19],
/// [MQTT-3.2.2-20].
#[test]
fn connack_fits_the_clients_maximum_packet_size() {
    let broker = Broker::set(&["mqtt.receive_maximum=10", "mqtt.maximum_packet_size=70000"]);
    let mut client = broker.connecting(V5, "small").property(maximum_packet_size(40)).open();
    client.ping();
}

/// [MQTT-3.2.2-19], [MQTT-3.2.2-20]: a refusal has a reason string only if it fits.
#[test]
fn a_refusal_fits_the_clients_maximum_packet_size() {
    let broker = Broker::start();
    let mut client = broker
        .connecting(V5, "tiny")
        .property(maximum_packet_size(10))
        .property(Property::AuthenticationMethod("unknown"))
        .send();
    let bytes = client.bytes_until_closed();
    assert!(bytes.len() <= 10, "{bytes:02x?}");
    assert!(bytes.is_empty() || bytes[3] == 0x8c, "{bytes:02x?}");
}

/// [MQTT-3.14.4-3]: the broker closes the connection after the client's DISCONNECT.
#[test]
fn a_disconnect_is_answered_by_closing() {
    every_version(|case| {
        let broker = case.broker();
        let mut client = broker.connect(case.version, "leaving");
        client.send_bytes(&[0xe0, 0x00]);
        client.expect_closed();
    });
}

/// [MQTT-3.12.4-1]
#[test]
fn every_ping_is_answered() {
    every_version(|case| {
        let broker = case.broker();
        let mut client = broker.connect(case.version, "pinging");
        client.send_bytes(&[0xc0, 0, 0xc0, 0, 0xc0, 0]);
        for _ in 0..3 {
            client.acknowledgement("PINGRESP", |packet| matches!(packet, Packet::PingResp).then_some(()));
        }
    });
}
