//! Delivery at QoS 0, 1 and 2, in both directions and across reconnects.

use std::time::Duration;

use tautwire_protocol::{Packet, PayloadFormat, Property, PubAckReason, PubRecReason, ReasonCode, SubscriptionOptions};

use crate::support::property::maximum_packet_size;
use crate::support::{
    AtLeastOnce, AtMostOnce, Broker, Client, ExactlyOnce, Message, OutgoingPublish, QoS, V3_1_1, V5, every_case,
    every_thread_count, every_version, expect_nothing_from, options, packet_id, sleep,
};

/// [MQTT-4.3.1-1], [MQTT-4.3.2-2], [MQTT-4.3.3-2], [MQTT-3.8.4-8]; 3.1.1: [MQTT-4.3.1-1], [MQTT-4.3.2-1],
/// [MQTT-4.3.3-1], [MQTT-3.8.4-6]
#[test]
fn messages_arrive_at_the_lower_of_published_and_granted_qos() {
    every_case(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(case.version, "publisher");
        for granted in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
            let mut subscriber = broker.connect(case.version, "subscriber");
            subscriber.subscribe("qos/#", granted);
            for published in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
                publisher.publish("qos/x", published, b"payload");
                let message = subscriber.receive();
                assert_eq!(message.qos(), published.min(granted));
                assert_eq!(message.topic(), "qos/x");
                assert_eq!(message.text(), "payload");
                assert!(!message.dup(), "[MQTT-3.3.1-2], [MQTT-3.3.1-3]");
                assert!(!message.retain(), "[MQTT-3.3.1-12]");
            }
        }
    });
}

/// [MQTT-3.1.2-24], [MQTT-3.3.1-12], [MQTT-3.3.1-13], [MQTT-3.3.4-3], [MQTT-3.8.3-3]: among many subscribers that share the encoded bytes,
/// each receives what its own subscription and connection require.
#[test]
fn each_of_many_receivers_gets_its_subscription_options() {
    every_thread_count(|case| {
        let broker = case.broker();
        let plain = options(AtMostOnce);
        let flagged = SubscriptionOptions { retain_as_published: true, ..plain };
        let mut publisher = broker.connect(V5, "publisher");
        publisher.subscribe_as("many", SubscriptionOptions { no_local: true, ..plain });
        let mut receivers = Vec::new();
        // Twice, so that each kind comes before and after the others.
        for round in 0..2 {
            for (kind, version, options) in [
                ("plain of 3.1.1", V3_1_1, plain),
                ("flagged", V5, flagged),
                ("plain of 5.0", V5, plain),
                ("by alias", V5, plain),
                ("identified", V5, plain),
                ("at most small packets", V5, flagged),
                ("at most once of QoS 1", V5, self::options(AtLeastOnce)),
            ] {
                let client_id = format!("{kind} {round}");
                let connecting = broker.connecting(version, &client_id);
                let mut receiver = match kind {
                    "by alias" => connecting.property(Property::TopicAliasMaximum(1)).open(),
                    "at most small packets" => connecting.property(maximum_packet_size(26)).open(),
                    _ => connecting.open(),
                };
                if kind == "identified" {
                    receiver.subscribe_identified("many", AtMostOnce, 7);
                } else {
                    receiver.subscribe_as("many", options);
                }
                receivers.push((kind, receiver));
            }
        }
        let fits = OutgoingPublish::new("many", AtMostOnce, b"a").retained();
        let larger = OutgoingPublish::new("many", AtMostOnce, b"too large for some").retained();
        for outgoing in [&fits, &fits, &larger, &OutgoingPublish::new("many", AtMostOnce, b"b")] {
            publisher.deliver(outgoing);
        }
        for (kind, mut receiver) in receivers {
            let mut expected = vec![("a", true), ("a", true), ("too large for some", true), ("b", false)];
            if kind == "at most small packets" {
                expected.remove(2);
            }
            for (text, published_retained) in expected {
                let message = receiver.receive();
                let flag = published_retained && matches!(kind, "flagged" | "at most small packets");
                assert_eq!((message.text(), message.retain(), message.qos()), (text, flag, AtMostOnce), "{kind}");
                assert!(message.topic() == "many" || kind == "by alias" && message.topic().is_empty(), "{kind}");
                let identifiers: &[u32] = if kind == "identified" { &[7] } else { &[] };
                assert_eq!(message.subscription_identifiers(), identifiers, "{kind}");
            }
            expect_nothing_from(&mut publisher, &mut receiver);
        }
        let mut other = broker.connect(V5, "other");
        expect_nothing_from(&mut other, &mut publisher);
    });
}

/// [MQTT-4.3.2-4], [MQTT-4.3.3-8]: an acknowledgement of success has 0x00, or 0x10 if there is no subscriber.
#[test]
fn acknowledgements_report_whether_there_are_subscribers() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(V5, "publisher");
        assert_eq!(publisher.publish("nobody", AtLeastOnce, b"x"), 0x10);
        assert_eq!(publisher.publish("nobody", ExactlyOnce, b"x"), 0x10);
        let mut subscriber = broker.connect(V5, "subscriber");
        subscriber.subscribe("somebody", AtMostOnce);
        assert_eq!(publisher.publish("somebody", AtLeastOnce, b"x"), 0x00);
        assert_eq!(publisher.publish("somebody", ExactlyOnce, b"x"), 0x00);
        assert_eq!(subscriber.receive_texts(2), ["x", "x"]);
    });
}

/// [MQTT-2.2.1-2], [MQTT-2.2.2-1]; 3.1.1: [MQTT-2.3.1-5]: a forwarded message has exactly these bytes.
#[test]
fn a_forwarded_message_has_exactly_the_bytes_of_the_standard() {
    let broker = Broker::start();
    for (version, expected) in [
        (V3_1_1, &[0x30, 4, 0, 1, b'a', b'x', 0x32, 6, 0, 1, b'a', 0, 1, b'x'][..]),
        (V5, &[0x30, 5, 0, 1, b'a', 0, b'x', 0x32, 7, 0, 1, b'a', 0, 1, 0, b'x']),
    ] {
        let mut publisher = broker.connect(version, "publisher");
        let mut subscriber = broker.connect(version, "subscriber");
        subscriber.subscribe("a", AtLeastOnce);
        publisher.publish("a", AtMostOnce, b"x");
        publisher.publish("a", AtLeastOnce, b"x");
        subscriber.send_bytes(&[0xe0, 0]);
        assert_eq!(subscriber.bytes_until_closed(), expected);
    }
}

/// 3.1 of both: a payload may have any content, or none.
#[test]
fn payloads_pass_unaltered() {
    every_case(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(case.version, "publisher");
        let mut subscriber = broker.connect(case.version, "subscriber");
        subscriber.subscribe("payload", ExactlyOnce);
        let all_bytes: Vec<u8> = (0..=255).collect();
        let large: Vec<u8> = (0..1_000_000_u32).map(|index| (index % 251) as u8).collect();
        // Around the sizes at which the Remaining Length takes another byte.
        let sizes = [110, 118, 120, 127, 128, 16_370, 16_383, 16_384].map(|size| vec![b'x'; size]);
        let payloads = [Vec::new(), vec![0], all_bytes, large].into_iter().chain(sizes);
        for payload in payloads {
            for qos in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
                publisher.publish("payload", qos, &payload);
                assert!(subscriber.receive().payload() == payload, "{} bytes at {qos:?}", payload.len());
            }
        }
    });
}

/// [MQTT-4.3.3-10]; 3.1.1: [MQTT-4.3.3-2]
#[test]
fn a_repeated_qos_2_publish_is_delivered_once() {
    every_case(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(case.version, "publisher");
        let mut subscriber = broker.connect(case.version, "subscriber");
        subscriber.subscribe("once", ExactlyOnce);
        let outgoing = OutgoingPublish::new("once", ExactlyOnce, b"x");
        publisher.send_publish_as(&outgoing, 7);
        publisher.expect_pubrec(7);
        for _ in 0..3 {
            publisher.send_publish_as(&outgoing.clone().dup(), 7);
            assert!(publisher.expect_pubrec(7) < 0x80);
        }
        publisher.send_pubrel(7);
        publisher.expect_pubcomp(7);
        assert_eq!(subscriber.receive().text(), "x");
        expect_nothing_from(&mut publisher, &mut subscriber);
    });
}

/// [MQTT-4.3.3-10], [MQTT-4.4.0-1]: also if the repetition arrives on a new connection of the session.
#[test]
fn a_qos_2_publish_repeated_after_a_reconnect_is_delivered_once() {
    every_case(|case| {
        let broker = case.broker();
        let mut subscriber = broker.connect(case.version, "subscriber");
        subscriber.subscribe("once", ExactlyOnce);
        for (round, client_id) in ["p1", "p2", "p3", "p4"].into_iter().enumerate() {
            let connecting = broker.connecting(case.version, client_id).persistent();
            let outgoing = OutgoingPublish::new("once", ExactlyOnce, b"x");
            let mut publisher = connecting.open();
            publisher.send_publish_as(&outgoing, 1);
            publisher.expect_pubrec(1);
            if round % 2 == 0 {
                publisher.cut()
            } else {
                drop(publisher)
            }
            let mut publisher = connecting.open();
            assert!(publisher.session_present());
            publisher.send_publish_as(&outgoing.clone().dup(), 1);
            assert!(publisher.expect_pubrec(1) < 0x80);
            publisher.send_pubrel(1);
            publisher.expect_pubcomp(1);
            assert_eq!(subscriber.receive().text(), "x");
            expect_nothing_from(&mut publisher, &mut subscriber);
        }
    });
}

/// [MQTT-4.3.3-11], [MQTT-4.4.0-1]: PUBREL may be resent on a new connection; the answer is PUBCOMP again.
#[test]
fn a_pubrel_repeated_after_a_reconnect_is_answered() {
    every_case(|case| {
        let broker = case.broker();
        let connecting = broker.connecting(case.version, "publisher").persistent();
        let mut publisher = connecting.open();
        publisher.send_publish_as(&OutgoingPublish::new("a", ExactlyOnce, b"x"), 5);
        publisher.expect_pubrec(5);
        publisher.send_pubrel(5);
        publisher.expect_pubcomp(5);
        publisher.cut();
        let mut publisher = connecting.open();
        publisher.send_pubrel(5);
        // 0x92: the Packet Identifier is no longer in use; the exchange is complete either way.
        assert!(matches!(publisher.expect_pubcomp(5), 0x00 | 0x92));
    });
}

/// 3.7.2.1 of 5.0; 3.1.1 has no other answer than PUBCOMP [MQTT-4.3.3-2].
#[test]
fn a_pubrel_for_an_unknown_packet_id_is_answered() {
    every_version(|case| {
        let broker = case.broker();
        let mut client = broker.connect(case.version, "releaser");
        client.send_pubrel(99);
        let reason = client.expect_pubcomp(99);
        assert_eq!(reason, if case.version.is_v5() { 0x92 } else { 0x00 });
    });
}

/// [MQTT-4.3.2-5], [MQTT-4.3.3-12]: once acknowledged, a Packet Identifier stands for a new message, DUP or not.
#[test]
fn a_packet_id_can_be_reused_once_its_exchange_is_complete() {
    every_case(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(case.version, "publisher");
        let mut subscriber = broker.connect(case.version, "subscriber");
        subscriber.subscribe("reuse", ExactlyOnce);
        for (round, qos) in [AtLeastOnce, AtLeastOnce, ExactlyOnce, ExactlyOnce, AtLeastOnce].into_iter().enumerate() {
            let text = round.to_string();
            let mut outgoing = OutgoingPublish::new("reuse", qos, text.as_bytes());
            if qos == AtLeastOnce {
                outgoing = outgoing.dup();
            }
            publisher.send_publish_as(&outgoing, 3);
            if qos == AtLeastOnce {
                publisher.expect_puback(3);
            } else {
                publisher.expect_pubrec(3);
                publisher.send_pubrel(3);
                publisher.expect_pubcomp(3);
            }
            let message = subscriber.receive();
            assert_eq!(message.text(), text);
            assert!(!message.dup(), "[MQTT-3.3.1-3] DUP is not propagated");
        }
    });
}

/// [MQTT-4.3.3-9]: a PUBREC of 0x80 or more ends the exchange, so the same Packet Identifier stands for a new message.
#[test]
fn a_packet_id_can_be_reused_after_a_pubrec_with_an_error() {
    every_thread_count(|case| {
        let broker = case.broker_set(&["limits.topic_levels=3"]);
        let mut publisher = broker.connect(V5, "publisher");
        let mut subscriber = broker.connect(V5, "subscriber");
        subscriber.subscribe("reuse", ExactlyOnce);
        let text = Property::PayloadFormatIndicator(PayloadFormat::Utf8);
        for (round, (refused, reason)) in [
            (OutgoingPublish::new("$SYS/mine", ExactlyOnce, b"x"), 0x87),
            (OutgoingPublish::new("a/b/c/d", ExactlyOnce, b"x"), 0x90),
            (OutgoingPublish::new("reuse", ExactlyOnce, b"\xff").property(text), 0x99),
        ]
        .into_iter()
        .enumerate()
        {
            // Refused again when resent: the broker keeps no state of the first time.
            for outgoing in [refused.clone(), refused.dup()] {
                publisher.send_publish_as(&outgoing, 5);
                assert_eq!(publisher.expect_pubrec(5), reason);
            }
            let text = round.to_string();
            publisher.send_publish_as(&OutgoingPublish::new("reuse", ExactlyOnce, text.as_bytes()), 5);
            assert_eq!(publisher.expect_pubrec(5), 0x00);
            publisher.send_pubrel(5);
            assert_eq!(publisher.expect_pubcomp(5), 0x00);
            assert_eq!(subscriber.receive().text(), text);
        }
        expect_nothing_from(&mut publisher, &mut subscriber);
    });
}

/// [MQTT-4.4.0-1], [MQTT-3.3.1-1], [MQTT-2.2.1-4], [MQTT-4.3.2-1], [MQTT-4.3.2-3], [MQTT-4.3.3-1], [MQTT-4.3.3-3],
/// [MQTT-4.6.0-1]; 3.1.1: [MQTT-4.4.0-1], [MQTT-3.3.1-1], [MQTT-2.3.1-4], [MQTT-4.6.0-1]
#[test]
fn unacknowledged_messages_are_resent_in_order_with_dup_and_the_same_ids() {
    every_case(|case| {
        let broker = case.broker();
        let connecting = broker.connecting(case.version, "subscriber").persistent();
        let mut subscriber = connecting.open();
        subscriber.subscribe("resend", ExactlyOnce);
        let mut publisher = broker.connect(case.version, "publisher");
        for number in 0..10 {
            let qos = if number % 2 == 0 { AtLeastOnce } else { ExactlyOnce };
            publisher.publish("resend", qos, number.to_string().as_bytes());
        }
        let first: Vec<Message> = (0..10).map(|_| subscriber.expect_publish()).collect();
        assert!(first.iter().all(|message| !message.dup()));
        let mut ids: Vec<u16> = first.iter().map(Message::id).collect();
        subscriber.cut();

        let mut subscriber = connecting.open();
        let again: Vec<Message> = (0..10).map(|_| subscriber.expect_publish()).collect();
        for (before, after) in first.iter().zip(&again) {
            assert_eq!((before.id(), before.qos(), before.text()), (after.id(), after.qos(), after.text()));
            assert!(after.dup());
        }
        for message in &again {
            subscriber.acknowledge(message);
        }
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 10, "Packet Identifiers are distinct");
        subscriber.ping();
        subscriber.disconnect();
        let mut subscriber = connecting.open();
        expect_nothing_from(&mut publisher, &mut subscriber);
    });
}

/// [MQTT-4.4.0-1]: "Clients and Servers MUST NOT resend messages at any other time."
#[test]
fn nothing_is_resent_on_a_live_connection() {
    every_case(|case| {
        let broker = case.broker();
        let mut subscriber = broker.connect(case.version, "subscriber");
        subscriber.subscribe("patience", AtLeastOnce);
        let mut publisher = broker.connect(case.version, "publisher");
        publisher.publish("patience", AtLeastOnce, b"x");
        let message = subscriber.expect_publish();
        sleep(Duration::from_millis(1500));
        expect_nothing_from(&mut publisher, &mut subscriber);
        subscriber.acknowledge(&message);
    });
}

/// [MQTT-4.4.0-1], [MQTT-4.3.3-4] to [MQTT-4.3.3-6]; 3.1.1: [MQTT-4.3.3-1]: after PUBREC the PUBREL is resent.
#[test]
fn after_pubrec_the_pubrel_is_resent_and_not_the_publish() {
    every_case(|case| {
        let broker = case.broker();
        let connecting = broker.connecting(case.version, "subscriber").persistent();
        let mut subscriber = connecting.open();
        subscriber.subscribe("release", ExactlyOnce);
        let mut publisher = broker.connect(case.version, "publisher");
        for text in ["1", "2", "3"] {
            publisher.publish("release", ExactlyOnce, text.as_bytes());
        }
        let messages: Vec<Message> = (0..3).map(|_| subscriber.expect_publish()).collect();
        for message in &messages[..2] {
            subscriber.send_pubrec(message.id());
            subscriber.expect_pubrel(message.id());
        }
        subscriber.cut();

        let mut subscriber = connecting.open();
        let mut released = Vec::new();
        let mut published = Vec::new();
        for _ in 0..3 {
            let packet = subscriber.next();
            match packet.as_packet() {
                Packet::PubRel(pubrel) => released.push(pubrel.packet_id.get()),
                Packet::Publish(publish) => published.push(Message::from(publish)),
                other => panic!("expected PUBREL or PUBLISH, got {other:?}"),
            }
        }
        assert_eq!(released, [messages[0].id(), messages[1].id()]);
        assert_eq!(published.len(), 1);
        assert_eq!(published[0].id(), messages[2].id());
        assert!(published[0].dup());
        subscriber.send_pubcomp(released[0]);
        subscriber.send_pubcomp(released[1]);
        subscriber.acknowledge(&published[0]);
        subscriber.ping();
        subscriber.cut();
        let mut subscriber = connecting.open();
        expect_nothing_from(&mut publisher, &mut subscriber);
    });
}

/// [MQTT-4.4.0-2]: an error in PUBACK or PUBREC ends the exchange.
#[test]
fn a_message_acknowledged_with_an_error_is_not_resent() {
    every_thread_count(|case| {
        let broker = case.broker();
        let connecting = broker.connecting(V5, "subscriber").persistent();
        let mut subscriber = connecting.open();
        subscriber.subscribe("error", ExactlyOnce);
        let mut publisher = broker.connect(V5, "publisher");
        publisher.publish("error", AtLeastOnce, b"1");
        publisher.publish("error", ExactlyOnce, b"2");
        let one = subscriber.expect_publish();
        let two = subscriber.expect_publish();
        subscriber.send_puback_with(one.id(), PubAckReason::NotAuthorized);
        subscriber.send_pubrec_with(two.id(), PubRecReason::QuotaExceeded);
        subscriber.expect_nothing();
        subscriber.cut();
        let mut subscriber = connecting.open();
        expect_nothing_from(&mut publisher, &mut subscriber);
    });
}

/// 3.6.2.1 of 5.0: PUBREC for a Packet Identifier that is not in use.
#[test]
fn a_pubrec_for_an_unknown_packet_id_is_answered_with_packet_identifier_not_found() {
    let broker = Broker::start();
    let mut client = broker.connect(V5, "confused");
    client.send_pubrec(42);
    assert_eq!(client.expect_pubrel(42), 0x92);
    client.ping();
}

/// 4.3.2 of both: an unexpected acknowledgement has no effect.
#[test]
fn unexpected_acknowledgements_are_ignored() {
    every_version(|case| {
        let broker = case.broker();
        let mut client = broker.connect(case.version, "confused");
        client.send_puback(42);
        client.send_pubcomp(43);
        client.ping();
        client.subscribe("a", AtLeastOnce);
        client.publish("a", AtLeastOnce, b"x");
        let message = client.expect_publish();
        client.acknowledge(&message);
        client.acknowledge(&message);
        client.expect_nothing();
    });
}

/// [MQTT-2.2.1-5], [MQTT-3.3.4-1], [MQTT-4.6.0-2], [MQTT-4.6.0-3]; 3.1.1: [MQTT-2.3.1-6], [MQTT-3.3.4-1]: acknowledgements have the ids of
/// the publishes, in their order.
#[test]
fn acknowledgements_follow_the_order_of_the_publishes() {
    every_case(|case| {
        let broker = case.broker();
        for qos in [AtLeastOnce, ExactlyOnce] {
            let mut publisher = broker.connect(case.version, "publisher");
            let ids = [40_u16, 3, 65_535, 1, 77];
            let mut bytes = Vec::new();
            for id in ids {
                let outgoing = OutgoingPublish::new("order", qos, b"x");
                bytes.extend(publisher.encoded(&Packet::Publish(outgoing.publish(packet_id(id)))));
            }
            publisher.send_bytes(&bytes);
            for id in ids {
                if qos == AtLeastOnce {
                    publisher.expect_puback(id)
                } else {
                    publisher.expect_pubrec(id)
                };
            }
            // [MQTT-4.6.0-4] in the other direction: PUBCOMP in the order of PUBREL.
            if qos == ExactlyOnce {
                for id in ids {
                    publisher.send_pubrel(id);
                }
                for id in ids {
                    publisher.expect_pubcomp(id);
                }
            }
        }
    });
}

/// [MQTT-4.6.0-4]: PUBREL follows the order of PUBREC.
#[test]
fn pubrels_follow_the_order_of_the_pubrecs() {
    every_case(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(case.version, "publisher");
        let mut subscriber = broker.connect(case.version, "subscriber");
        subscriber.subscribe("order", ExactlyOnce);
        for _ in 0..5 {
            publisher.publish("order", ExactlyOnce, b"x");
        }
        let ids: Vec<u16> = (0..5).map(|_| subscriber.expect_publish().id()).collect();
        for &id in &ids {
            subscriber.send_pubrec(id);
        }
        for &id in &ids {
            subscriber.expect_pubrel(id);
        }
        for &id in &ids {
            subscriber.send_pubcomp(id);
        }
        subscriber.ping();
    });
}

/// [MQTT-2.2.1-4]: Packet Identifiers of both directions are independent.
#[test]
fn both_sides_can_use_the_same_packet_id_at_once() {
    every_version(|case| {
        let broker = case.broker();
        let mut client = broker.connect(case.version, "mirror");
        client.subscribe("mirror", ExactlyOnce);
        client.publish("mirror", ExactlyOnce, b"first");
        let incoming = client.expect_publish();
        let id = incoming.id();
        client.send_publish_as(&OutgoingPublish::new("other", ExactlyOnce, b"x"), id);
        client.expect_pubrec(id);
        client.send_pubrec(id);
        client.expect_pubrel(id);
        client.send_pubrel(id);
        client.expect_pubcomp(id);
        client.send_pubcomp(id);
        client.ping();
    });
}

/// [MQTT-4.3.3-13]: expiry of a message does not interrupt its handshake.
#[test]
fn an_expired_qos_2_message_is_still_released_and_completed() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(V5, "publisher");
        let short = Property::MessageExpiryInterval(1);
        let id = publisher.send_publish(&OutgoingPublish::new("a", ExactlyOnce, b"x").property(short));
        publisher.expect_pubrec(id);
        sleep(Duration::from_millis(2200));
        publisher.send_pubrel(id);
        assert_eq!(publisher.expect_pubcomp(id), 0);
    });
}

/// A client can subscribe to its own messages.
#[test]
fn a_client_receives_its_own_messages() {
    every_case(|case| {
        let broker = case.broker();
        for client_id in ["one", "two", "three"] {
            let mut client = broker.connect(case.version, client_id);
            client.subscribe(client_id, ExactlyOnce);
            for qos in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
                client.publish(client_id, qos, b"me");
                assert_eq!(client.receive().qos(), qos);
            }
        }
    });
}

/// 3.3.1.2 and 3.2.2.3.4 of 5.0: a QoS above the announced maximum; for 3.1.1 the connection is closed.
#[test]
fn a_publish_above_the_maximum_qos_is_refused() {
    every_version(|case| {
        for (maximum, refused) in [(0, AtLeastOnce), (1, ExactlyOnce)] {
            let broker = case.broker_set(&[&format!("mqtt.max_qos={maximum}")]);
            let mut client = broker.connect(case.version, "above");
            client.send_publish(&OutgoingPublish::new("a", refused, b"x"));
            client.expect_server_disconnect(ReasonCode::QoSNotSupported);
        }
    });
}

/// [MQTT-3.2.2-10]: every QoS may still be requested.
#[test]
fn subscribing_above_the_maximum_qos_is_allowed() {
    every_version(|case| {
        let broker = case.broker_set(&["mqtt.max_qos=0"]);
        let mut client = broker.connect(case.version, "asking");
        let granted = client.subscribe_all(&[("a", options(ExactlyOnce))], &[]);
        assert!(granted[0] <= 2);
        client.publish("a", AtMostOnce, b"x");
        assert_eq!(client.receive().qos(), AtMostOnce);
    });
}

/// 3.2.2.3.5 of 5.0
#[test]
fn a_retained_publish_is_refused_where_retain_is_not_available() {
    every_version(|case| {
        let broker = case.broker_set(&["mqtt.retain_available=false"]);
        let mut client = broker.connect(case.version, "keeping");
        client.send_publish(&OutgoingPublish::new("a", AtLeastOnce, b"x").retained());
        client.expect_server_disconnect(ReasonCode::RetainNotSupported);
    });
}

/// 4.7.2: `$SYS` belongs to the broker. The connection stays open.
#[test]
fn publishing_to_sys_is_not_authorized() {
    every_case(|case| {
        let broker = case.broker();
        let mut client = broker.connect(case.version, "intruder");
        client.subscribe("$SYS/mine", AtLeastOnce);
        let expected: u8 = if case.version.is_v5() { 0x87 } else { 0x00 };
        assert_eq!(client.publish("$SYS/mine", AtLeastOnce, b"x"), expected);
        assert_eq!(client.publish("$SYS/mine", ExactlyOnce, b"x"), expected);
        client.publish("$SYS/mine", AtMostOnce, b"x");
        expect_nothing_to_itself(&mut client, AtLeastOnce);
    });
}

/// A client's messages to itself arrive in order, so a fence works for it alone.
fn expect_nothing_to_itself(client: &mut Client, qos: QoS) {
    client.subscribe("fence/self", qos);
    client.publish("fence/self", qos, b"fence");
    assert_eq!(client.receive().topic(), "fence/self");
}
