//! Properties of 5.0: forwarded, counted down, obeyed.

use std::collections::HashMap;
use std::num::NonZeroU16;
use std::time::{Duration, Instant};

use tautwire_protocol::{OwnedPacket, Packet, PayloadFormat, Property};

use crate::support::property::{maximum_packet_size, receive_maximum, response_topic, topic_alias};
use crate::support::{
    AtLeastOnce, AtMostOnce, Broker, Client, ExactlyOnce, Message, OutgoingPublish, V5, every_thread_count,
    expect_nothing_from, options, remaining_expiry, sleep,
};

/// [MQTT-3.3.2-4], [MQTT-3.3.2-15], [MQTT-3.3.2-16], [MQTT-3.3.2-17], [MQTT-3.3.2-18], [MQTT-3.3.2-20]
#[test]
fn properties_of_a_message_are_forwarded_unaltered_and_in_order() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(V5, "publisher");
        let mut one = broker.connect(V5, "one");
        let mut two = broker.connect(V5, "two");
        one.subscribe("a", ExactlyOnce);
        two.subscribe_identified("a", ExactlyOnce, 3);
        let users = [("b", "1"), ("a", "2"), ("b", "1"), ("", ""), ("ä", "\u{feff}ß"), ("b", "0")];
        for qos in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
            let mut outgoing = OutgoingPublish::new("a", qos, "Grüße".as_bytes())
                .property(Property::UserProperty("b", "1"))
                .property(Property::PayloadFormatIndicator(PayloadFormat::Utf8))
                .property(Property::ContentType("text/plain; charset=utf-8"))
                .property(response_topic("answers/42"))
                .property(Property::CorrelationData(b"\x00\x01\xff"));
            for (name, value) in &users[1..] {
                outgoing = outgoing.property(Property::UserProperty(name, value));
            }
            publisher.deliver(&outgoing);
            for subscriber in [&mut one, &mut two] {
                let message = subscriber.receive();
                let properties = message.properties();
                assert_eq!(properties.payload_format_indicator(), Some(PayloadFormat::Utf8));
                assert_eq!(properties.content_type(), Some("text/plain; charset=utf-8"));
                assert_eq!(properties.response_topic().map(|topic| topic.as_str()), Some("answers/42"));
                assert_eq!(properties.correlation_data(), Some(&b"\x00\x01\xff"[..]));
                assert_eq!(message.user_properties(), users.map(|(name, value)| (name.to_owned(), value.to_owned())));
                assert_eq!(properties.message_expiry_interval(), None);
                assert_eq!(properties.topic_alias(), None);
            }
        }
    });
}

/// 3.3.2.3.2 of 5.0: 0 and 1 are distinguished from absent.
#[test]
fn the_payload_format_indicator_is_forwarded_unaltered() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut client = broker.connect(V5, "client");
        client.subscribe("a", AtLeastOnce);
        for indicator in [PayloadFormat::Unspecified, PayloadFormat::Utf8] {
            let outgoing = OutgoingPublish::new("a", AtLeastOnce, b"x");
            client.deliver(&outgoing.property(Property::PayloadFormatIndicator(indicator)));
            let message = client.receive();
            match message.properties().payload_format_indicator() {
                // The standard treats absent and 0 alike.
                None => assert_eq!(indicator, PayloadFormat::Unspecified),
                Some(received) => assert_eq!(received, indicator),
            }
        }
    });
}

/// 3.3.2.3.2 of 5.0: a payload that does not match its indicator is refused with 0x99, and the connection stays open.
#[test]
fn a_payload_that_contradicts_its_format_indicator_is_refused() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut client = broker.connect(V5, "client");
        client.subscribe("a", AtLeastOnce);
        let indicator = Property::PayloadFormatIndicator(PayloadFormat::Utf8);
        for qos in [AtLeastOnce, ExactlyOnce] {
            assert_eq!(client.deliver(&OutgoingPublish::new("a", qos, b"\xff").property(indicator)), 0x99);
        }
        client.publish("a", AtLeastOnce, b"\xff");
        assert_eq!(client.receive().payload(), b"\xff");
        client.expect_nothing();
    });
}

/// [MQTT-3.3.2-6]
#[test]
fn the_message_expiry_interval_counts_down_while_waiting() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(V5, "publisher");
        let connecting = broker.connecting(V5, "subscriber").persistent();
        let mut subscriber = connecting.open();
        subscriber.subscribe("a", AtLeastOnce);
        let expiring = OutgoingPublish::new("a", AtLeastOnce, b"x").property(Property::MessageExpiryInterval(100));
        let start = Instant::now();
        publisher.deliver(&expiring);
        let left_s = subscriber.receive().properties().message_expiry_interval();
        assert!(left_s.is_some_and(|left_s| remaining_expiry(100, start).contains(&left_s)), "{left_s:?}");
        subscriber.disconnect();
        let start = Instant::now();
        publisher.deliver(&expiring);
        sleep(Duration::from_millis(2100));
        let mut subscriber = connecting.open();
        let left_s = subscriber.receive().properties().message_expiry_interval();
        assert!(
            left_s.is_some_and(|left_s| left_s <= 98 && remaining_expiry(100, start).contains(&left_s)),
            "{left_s:?}"
        );
    });
}

/// [MQTT-3.3.2-6]: an interval of 0 is not extended.
#[test]
fn a_message_expiry_interval_of_0_stays_0() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(V5, "publisher");
        let mut subscriber = broker.connect(V5, "subscriber");
        subscriber.subscribe("a", AtLeastOnce);
        publisher.deliver(&OutgoingPublish::new("a", AtLeastOnce, b"now").property(Property::MessageExpiryInterval(0)));
        publisher.publish("a", AtLeastOnce, b"last");
        // Delivered at once or expired already: both are correct.
        let message = subscriber.receive();
        if message.text() == "now" {
            assert_eq!(message.properties().message_expiry_interval(), Some(0));
            assert_eq!(subscriber.receive().text(), "last");
        }
    });
}

/// [MQTT-3.3.2-5]
#[test]
fn an_expired_message_is_not_delivered_from_the_queue_of_an_offline_session() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(V5, "publisher");
        let connecting = broker.connecting(V5, "subscriber").persistent();
        let mut subscriber = connecting.open();
        subscriber.subscribe("a", ExactlyOnce);
        subscriber.disconnect();
        let short = Property::MessageExpiryInterval(1);
        publisher.publish("a", AtLeastOnce, b"first");
        publisher.deliver(&OutgoingPublish::new("a", AtLeastOnce, b"expired").property(short));
        publisher.deliver(&OutgoingPublish::new("a", ExactlyOnce, b"expired").property(short));
        publisher.publish("a", AtLeastOnce, b"last");
        sleep(Duration::from_millis(2200));
        let mut subscriber = connecting.open();
        assert_eq!(subscriber.receive_texts(2), ["first", "last"]);
        expect_nothing_from(&mut publisher, &mut subscriber);
    });
}

/// [MQTT-3.3.2-5]: the same for a connected client whose window is full.
#[test]
fn an_expired_message_is_not_delivered_once_the_window_opens() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(V5, "publisher");
        let mut subscriber = broker.connecting(V5, "subscriber").property(receive_maximum(1)).open();
        subscriber.subscribe("a", AtLeastOnce);
        publisher.publish("a", AtLeastOnce, b"first");
        let short = Property::MessageExpiryInterval(1);
        publisher.deliver(&OutgoingPublish::new("a", AtLeastOnce, b"expired").property(short));
        publisher.publish("a", AtLeastOnce, b"last");
        let first = subscriber.expect_publish();
        sleep(Duration::from_millis(2200));
        subscriber.acknowledge(&first);
        assert_eq!(subscriber.receive().text(), "last");
        expect_nothing_from(&mut publisher, &mut subscriber);
    });
}

/// [MQTT-4.3.3-7]: a message already sent does not expire; it is resent and completed.
#[test]
fn a_message_already_sent_does_not_expire() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(V5, "publisher");
        let connecting = broker.connecting(V5, "subscriber").persistent();
        let mut subscriber = connecting.open();
        subscriber.subscribe("a", ExactlyOnce);
        let short = Property::MessageExpiryInterval(1);
        publisher.deliver(&OutgoingPublish::new("a", ExactlyOnce, b"x").property(short));
        let sent = subscriber.expect_publish();
        subscriber.cut();
        sleep(Duration::from_millis(2200));
        let mut subscriber = connecting.open();
        let again = subscriber.receive();
        assert_eq!((again.id(), again.dup()), (sent.id(), true));
    });
}

/// [MQTT-3.3.2-12], 3.3.2.3.4 of 5.0
#[test]
fn topic_aliases_of_a_client_are_resolved() {
    every_thread_count(|case| {
        let broker = case.broker_set(&["mqtt.topic_alias_maximum=5"]);
        let mut publisher = broker.connect(V5, "publisher");
        assert_eq!(publisher.connack().properties.topic_alias_maximum(), Some(5));
        let mut subscriber = broker.connect(V5, "subscriber");
        subscriber.subscribe("#", ExactlyOnce);
        let mut expect = |topic: &str, text: &str| {
            let message = subscriber.receive();
            assert_eq!((message.topic(), message.text()), (topic, text));
            // [MQTT-3.1.2-27]: an alias is specific to one connection and one direction.
            assert_eq!(message.properties().topic_alias(), None);
        };
        for alias in 1..=5 {
            let topic = format!("topic/{alias}");
            let naming = OutgoingPublish::new(&topic, AtLeastOnce, b"named");
            publisher.deliver(&naming.property(topic_alias(alias)));
            expect(&topic, "named");
        }
        for (alias, qos) in [(5, AtMostOnce), (1, AtLeastOnce), (3, ExactlyOnce)] {
            publisher.deliver(&OutgoingPublish::by_alias(alias, qos, b"by alias"));
            expect(&format!("topic/{alias}"), "by alias");
        }
        // Sent with another topic, the alias changes; the others stay.
        publisher.deliver(&OutgoingPublish::new("changed", AtLeastOnce, b"x").property(topic_alias(3)));
        expect("changed", "x");
        publisher.deliver(&OutgoingPublish::by_alias(3, AtLeastOnce, b"y"));
        expect("changed", "y");
        publisher.deliver(&OutgoingPublish::by_alias(2, AtLeastOnce, b"z"));
        expect("topic/2", "z");
    });
}

/// [MQTT-3.3.2-9], 3.3.2.3.4 of 5.0: 0x94 for an alias out of range, and 0x82 for one without a topic.
#[test]
fn topic_aliases_out_of_range_or_unknown_are_refused() {
    let broker = Broker::set(&["mqtt.topic_alias_maximum=5"]);
    let none = Broker::set(&["mqtt.topic_alias_maximum=0"]);
    let known = OutgoingPublish::new("a", AtLeastOnce, b"x");
    for (broker, outgoing, reason) in [
        (&broker, known.clone().property(topic_alias(6)), 0x94),
        (&broker, known.clone().property(topic_alias(65_535)), 0x94),
        (&broker, OutgoingPublish::by_alias(5, AtLeastOnce, b"x"), 0x82),
        // [MQTT-3.2.2-18]
        (&none, known.property(topic_alias(1)), 0x94),
    ] {
        let mut client = broker.connect(V5, "client");
        client.send_publish(&outgoing);
        assert_eq!(client.expect_disconnect(), reason);
    }
}

/// [MQTT-3.3.2-8]
#[test]
fn topic_alias_0_is_refused() {
    let broker = Broker::start();
    let mut client = broker.connect(V5, "client");
    // PUBLISH QoS 0, topic "a", Topic Alias 0.
    client.send_bytes(&[0x30, 7, 0, 1, b'a', 3, 0x23, 0, 0]);
    assert_eq!(client.expect_disconnect(), 0x94);
}

/// [MQTT-3.3.2-7]
#[test]
fn topic_aliases_end_with_their_connection() {
    every_thread_count(|case| {
        let broker = case.broker();
        let connecting = broker.connecting(V5, "client").persistent();
        let mut client = connecting.open();
        client.deliver(&OutgoingPublish::new("a", AtLeastOnce, b"x").property(topic_alias(1)));
        client.cut();
        let mut client = connecting.open();
        assert!(client.session_present());
        client.send_publish(&OutgoingPublish::by_alias(1, AtLeastOnce, b"x"));
        assert_eq!(client.expect_disconnect(), 0x82);
    });
}

/// The topic of a message, by name or by an alias received before.
fn resolve(aliases: &mut HashMap<u16, String>, message: &Message, maximum: u16) -> String {
    let name = message.topic().to_owned();
    match message.properties().topic_alias().map(NonZeroU16::get) {
        None => assert!(!name.is_empty(), "neither topic nor alias"),
        Some(alias) => {
            // [MQTT-3.1.2-26], [MQTT-3.3.2-8], [MQTT-3.3.2-11]
            assert!((1..=maximum).contains(&alias), "alias {alias} of {maximum}");
            if name.is_empty() {
                return aliases.get(&alias).expect("the alias was given a topic before").clone();
            }
            aliases.insert(alias, name.clone());
        }
    }
    name
}

/// [MQTT-3.1.2-26], [MQTT-3.3.2-11]: aliases sent to the client are within its maximum, each introduced with its topic.
#[test]
fn topic_aliases_to_a_client_stay_within_its_maximum_and_resolve() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(V5, "publisher");
        let connecting = broker.connecting(V5, "subscriber").persistent().property(Property::TopicAliasMaximum(3));
        // [MQTT-3.3.2-7]: the second connection starts without any alias.
        for _ in 0..2 {
            let mut subscriber = connecting.open();
            let mut aliases = HashMap::new();
            subscriber.subscribe("long/topic/name/#", ExactlyOnce);
            for round in 0..4 {
                for number in 0..6 {
                    let topic = format!("long/topic/name/{number}");
                    let qos = [AtMostOnce, AtLeastOnce, ExactlyOnce][(round + number) % 3];
                    publisher.publish(&topic, qos, topic.as_bytes());
                    let message = subscriber.receive();
                    assert_eq!(resolve(&mut aliases, &message, 3), message.text());
                }
            }
            subscriber.disconnect();
        }
    });
}

/// [MQTT-3.1.2-26] with [MQTT-4.4.0-1]: a message resent on a new connection does not use aliases of the old one.
#[test]
fn a_resent_message_includes_its_topic() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(V5, "publisher");
        let connecting = broker.connecting(V5, "subscriber").persistent().property(Property::TopicAliasMaximum(3));
        let mut subscriber = connecting.open();
        subscriber.subscribe("a/#", AtLeastOnce);
        let mut aliases = HashMap::new();
        for _ in 0..4 {
            publisher.publish("a/b", AtLeastOnce, b"x");
            assert_eq!(resolve(&mut aliases, &subscriber.expect_publish(), 3), "a/b");
        }
        subscriber.cut();
        let mut subscriber = connecting.open();
        let mut aliases = HashMap::new();
        for _ in 0..4 {
            let message = subscriber.receive();
            assert!(message.dup());
            assert_eq!(resolve(&mut aliases, &message, 3), "a/b");
        }
    });
}

/// [MQTT-3.1.2-27]
#[test]
fn no_topic_aliases_are_sent_unless_allowed() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(V5, "publisher");
        for connecting in
            [broker.connecting(V5, "absent"), broker.connecting(V5, "zero").property(Property::TopicAliasMaximum(0))]
        {
            let mut subscriber = connecting.open();
            subscriber.subscribe("a", AtMostOnce);
            for _ in 0..5 {
                publisher.publish("a", AtMostOnce, b"x");
                let message = subscriber.receive();
                assert_eq!((message.topic(), message.properties().topic_alias()), ("a", None));
            }
        }
    });
}

/// [MQTT-3.1.2-24], [MQTT-3.1.2-25]
#[test]
fn messages_above_the_clients_maximum_packet_size_are_dropped() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(V5, "publisher");
        let connecting = broker.connecting(V5, "subscriber").persistent().property(maximum_packet_size(100));
        let mut subscriber = connecting.clone().property(receive_maximum(2)).open();
        subscriber.subscribe("size/x", AtLeastOnce);
        // Fixed header 2, topic 2 + 6, properties 1; Packet Identifier 2 at QoS 1.
        for (qos, fits) in [(AtMostOnce, 89), (AtLeastOnce, 87)] {
            for _ in 0..5 {
                // [MQTT-3.1.2-25]: treated as if it had been sent: the window does not fill up.
                publisher.publish("size/x", qos, &vec![b'x'; fits + 1]);
            }
            publisher.publish("size/x", qos, &vec![b'x'; fits]);
            assert_eq!(subscriber.receive().payload().len(), fits);
        }
        expect_nothing_from(&mut publisher, &mut subscriber);
        subscriber.disconnect();
        // The same from the queue of an offline session.
        publisher.publish("size/x", AtLeastOnce, &[b'x'; 88]);
        publisher.publish("size/x", AtLeastOnce, &[b'x'; 87]);
        let mut subscriber = connecting.open();
        assert_eq!(subscriber.receive().payload().len(), 87);
        expect_nothing_from(&mut publisher, &mut subscriber);
    });
}

/// [MQTT-3.1.2-24]: Subscription Identifiers count too, and another subscriber still receives the message.
#[test]
fn the_maximum_packet_size_includes_properties_added_for_the_client() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(V5, "publisher");
        let mut small = broker.connecting(V5, "small").property(maximum_packet_size(100)).open();
        small.subscribe_identified("size/x", AtMostOnce, 1);
        let mut large = broker.connect(V5, "large");
        large.subscribe_identified("size/x", AtMostOnce, 1);
        for payload in [&[b'x'; 88], &[b'y'; 88]] {
            publisher.publish("size/x", AtMostOnce, payload);
            assert_eq!(large.receive().payload(), payload);
        }
        expect_nothing_from(&mut publisher, &mut small);
        publisher.publish("size/x", AtMostOnce, &[b'x'; 87]);
        assert_eq!(small.receive().payload().len(), 87);
    });
}

/// [MQTT-3.1.2-25]: only a message that is too large is dropped, not one that an alias would make too large.
#[test]
fn a_message_that_fits_only_without_an_alias_is_sent_without() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(V5, "publisher");
        let mut subscriber = broker
            .connecting(V5, "subscriber")
            .property(maximum_packet_size(100))
            .property(Property::TopicAliasMaximum(3))
            .open();
        subscriber.subscribe("size/x", AtLeastOnce);
        let mut aliases = HashMap::new();
        for (qos, fits) in [(AtMostOnce, 89), (AtLeastOnce, 87)] {
            publisher.publish("size/x", qos, &vec![b'x'; fits]);
            let message = subscriber.receive();
            assert_eq!(resolve(&mut aliases, &message, 3), "size/x");
            assert_eq!(message.payload().len(), fits);
        }
    });
}

/// Whether any of these properties is a Reason String or User Property.
fn explains(properties: tautwire_protocol::Properties<'_>) -> bool {
    properties.iter().any(|property| matches!(property, Property::ReasonString(_) | Property::UserProperty(..)))
}

/// [MQTT-3.1.2-29]
#[test]
fn without_problem_information_acknowledgements_have_no_reason_string() {
    let broker = Broker::set(&["mqtt.wildcard_subscription_available=false"]);
    let mut client = broker.connecting(V5, "terse").property(Property::RequestProblemInformation(false)).open();
    let id = client.send_publish(&OutgoingPublish::new("$SYS/mine", AtLeastOnce, b"x"));
    let explained = client.acknowledgement("PUBACK", |packet| match packet {
        Packet::PubAck(puback) => Some(explains(puback.properties)),
        _ => None,
    });
    assert!(!explained, "PUBACK {id}");
    client.send_publish(&OutgoingPublish::new("$SYS/mine", ExactlyOnce, b"x"));
    let explained = client.acknowledgement("PUBREC", |packet| match packet {
        Packet::PubRec(pubrec) => Some(explains(pubrec.properties)),
        _ => None,
    });
    assert!(!explained, "PUBREC");
    client.send_subscribe(&[("a/#", options(AtLeastOnce))], &[]);
    let explained = client.acknowledgement("SUBACK", |packet| match packet {
        Packet::SubAck(suback) => Some(explains(suback.properties)),
        _ => None,
    });
    assert!(!explained, "SUBACK");
    client.send_pubrel(99);
    let explained = client.acknowledgement("PUBCOMP", |packet| match packet {
        Packet::PubComp(pubcomp) => Some(explains(pubcomp.properties)),
        _ => None,
    });
    assert!(!explained, "PUBCOMP");
}

/// 3.1.2.11.7 of 5.0: problem information is on by default, and DISCONNECT includes it.
#[test]
fn a_disconnect_has_a_reason_string_unless_the_client_declined() {
    let broker = Broker::start();
    let reason_string = |client: &mut Client| {
        client.send_bytes(&[0xf0, 0x00]);
        let packet = client.next();
        match packet.as_packet() {
            Packet::Disconnect(disconnect) => disconnect.properties.reason_string().map(str::to_owned),
            other => panic!("expected DISCONNECT, got {other:?}"),
        }
    };
    let mut by_default = broker.connect(V5, "default");
    assert!(reason_string(&mut by_default).is_some_and(|text| !text.is_empty()));
    let asking = broker.connecting(V5, "asking").property(Property::RequestProblemInformation(true));
    assert!(reason_string(&mut asking.open()).is_some_and(|text| !text.is_empty()));
}

/// The encoded size of a packet from the broker.
fn encoded_len(packet: &OwnedPacket) -> usize {
    packet.as_packet().encoded_len(V5).expect("a decoded packet can be encoded")
}

/// [MQTT-3.14.2-3], [MQTT-3.14.2-4]: a DISCONNECT fits the Maximum Packet Size, if necessary without the Reason String.
#[test]
fn a_disconnect_fits_the_clients_maximum_packet_size() {
    let broker = Broker::start();
    let mut client = broker.connecting(V5, "tiny").property(maximum_packet_size(20)).open();
    client.send_bytes(&[0xf0, 0x00]);
    let packet = client.next();
    assert!(matches!(packet.as_packet(), Packet::Disconnect(_)));
    assert!(encoded_len(&packet) <= 20, "{packet:?}");
}

/// [MQTT-3.4.2-2], [MQTT-3.4.2-3], [MQTT-3.5.2-2], [MQTT-3.5.2-3], [MQTT-3.6.2-2], [MQTT-3.6.2-3], [MQTT-3.7.2-2], [MQTT-3.7.2-3],
/// [MQTT-3.9.2-1], [MQTT-3.9.2-2], [MQTT-3.11.2-1], [MQTT-3.11.2-2]: a Reason String only if it fits.
#[test]
fn acknowledgements_fit_the_clients_maximum_packet_size() {
    let broker = Broker::set(&["mqtt.wildcard_subscription_available=false"]);
    let mut client = broker.connecting(V5, "tiny").property(maximum_packet_size(20)).open();
    client.send_publish(&OutgoingPublish::new("$SYS/mine", AtLeastOnce, b"x"));
    client.send_publish(&OutgoingPublish::new("$SYS/mine", ExactlyOnce, b"x"));
    client.send_pubrel(99);
    client.send_pubrec(98);
    client.send_subscribe(&[("a/#", options(AtLeastOnce))], &[]);
    client.send_bytes(&[0xa2, 6, 0, 9, 0, 0, 1, b'a']);
    for _ in 0..6 {
        let packet = client.next();
        assert!(encoded_len(&packet) <= 20, "{packet:?}");
    }
    client.expect_nothing();
}
