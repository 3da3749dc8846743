//! Flow control: the windows of unacknowledged messages in both directions.

use std::num::NonZeroU16;

use tautwire_protocol::{PubRecReason, ReasonCode};

use crate::support::property::receive_maximum;
use crate::support::{
    AtLeastOnce, AtMostOnce, Broker, Client, ExactlyOnce, Message, OutgoingPublish, V3_1_1, V5, every_thread_count,
    every_version,
};
use crate::sys::await_number;

/// [MQTT-3.3.4-9], [MQTT-4.9.0-1], [MQTT-4.9.0-2]: the client's Receive Maximum limits the messages in flight to it.
#[test]
fn messages_in_flight_are_limited_by_the_clients_receive_maximum() {
    every_thread_count(|case| {
        let broker = case.broker();
        for (client_id, qos) in [("one", AtLeastOnce), ("two", ExactlyOnce), ("three", AtLeastOnce)] {
            let mut subscriber = broker.connecting(V5, client_id).property(receive_maximum(3)).open();
            subscriber.subscribe("window", ExactlyOnce);
            let mut publisher = broker.connect(V5, "publisher");
            for number in 0..10 {
                publisher.publish("window", qos, number.to_string().as_bytes());
            }
            let mut window: Vec<Message> = (0..3).map(|_| subscriber.expect_publish()).collect();
            // [MQTT-4.9.0-3], [MQTT-3.3.4-10]: everything else continues, including QoS 0.
            let mut watcher_of_zero = |subscriber: &mut Client| {
                subscriber.subscribe("zero", AtMostOnce);
                publisher.publish("zero", AtMostOnce, b"zero");
                assert_eq!(subscriber.expect_publish().topic(), "zero");
            };
            watcher_of_zero(&mut subscriber);
            for number in 0..10 {
                let oldest = window.remove(0);
                assert_eq!(oldest.text(), number.to_string());
                subscriber.acknowledge(&oldest);
                if number < 7 {
                    window.push(subscriber.expect_publish());
                }
                watcher_of_zero(&mut subscriber);
            }
            subscriber.disconnect();
        }
    });
}

/// [MQTT-3.3.4-9]: PUBCOMP returns the quota, not PUBREC.
#[test]
fn a_pubrec_of_success_does_not_open_the_window() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut subscriber = broker.connecting(V5, "subscriber").property(receive_maximum(1)).open();
        subscriber.subscribe("window", ExactlyOnce);
        let mut publisher = broker.connect(V5, "publisher");
        publisher.publish("window", ExactlyOnce, b"1");
        publisher.publish("window", ExactlyOnce, b"2");
        let first = subscriber.expect_publish();
        subscriber.send_pubrec(first.id());
        subscriber.expect_pubrel(first.id());
        subscriber.subscribe("zero", AtMostOnce);
        publisher.publish("zero", AtMostOnce, b"zero");
        assert_eq!(subscriber.expect_publish().topic(), "zero");
        subscriber.send_pubcomp(first.id());
        assert_eq!(subscriber.receive().text(), "2");
    });
}

/// 4.9 of 5.0: an error in PUBREC returns the quota at once.
#[test]
fn a_pubrec_with_an_error_opens_the_window() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut subscriber = broker.connecting(V5, "subscriber").property(receive_maximum(1)).open();
        subscriber.subscribe("window", ExactlyOnce);
        let mut publisher = broker.connect(V5, "publisher");
        publisher.publish("window", ExactlyOnce, b"1");
        publisher.publish("window", ExactlyOnce, b"2");
        let first = subscriber.expect_publish();
        subscriber.send_pubrec_with(first.id(), PubRecReason::UnspecifiedError);
        assert_eq!(subscriber.receive().text(), "2");
    });
}

/// [MQTT-3.3.4-7]; 3.3.4 of 5.0 names 0x93 for a client that exceeds the broker's Receive Maximum.
#[test]
fn a_publisher_above_the_brokers_receive_maximum_is_disconnected() {
    let broker = Broker::set(&["mqtt.receive_maximum=5", "sys.interval_s=1"]);
    let mut client = broker.connect(V5, "greedy");
    assert_eq!(client.connack().properties.receive_maximum().map(NonZeroU16::get), Some(5));
    let outgoing = OutgoingPublish::new("a", ExactlyOnce, b"x");
    for id in 1..=5 {
        client.send_publish_as(&outgoing, id);
        client.expect_pubrec(id);
    }
    // A repetition of the same message does not count.
    client.send_publish_as(&outgoing.clone().dup(), 5);
    client.expect_pubrec(5);
    client.send_publish_as(&outgoing, 6);
    assert_eq!(client.expect_disconnect(), ReasonCode::ReceiveMaximumExceeded.as_u8());
    let mut observer = broker.connect(V5, "observer");
    await_number(&mut observer, "tautwire/receive_maximum_exceeded", |count| count == 1.0);
}

/// [MQTT-4.9.0-2]: completed exchanges return the publisher's quota, including those with errors.
#[test]
fn the_brokers_receive_maximum_counts_only_open_exchanges() {
    every_version(|case| {
        let broker = case.broker_set(&["mqtt.receive_maximum=2"]);
        let mut client = broker.connect(case.version, "steady");
        for _ in 0..20 {
            client.publish("a", AtLeastOnce, b"x");
            client.publish("a", ExactlyOnce, b"x");
        }
        // One exchange stays open all the time, with another one beside it.
        let id = client.send_publish(&OutgoingPublish::new("a", ExactlyOnce, b"x"));
        client.expect_pubrec(id);
        for _ in 0..20 {
            client.publish("a", ExactlyOnce, b"x");
        }
    });
}

/// 3.1.1 has no Receive Maximum: many exchanges may be open, whatever the limit for 5.0 clients.
#[test]
fn a_3_1_1_publisher_can_have_many_exchanges_open() {
    let broker = Broker::set(&["mqtt.receive_maximum=10"]);
    let mut client = broker.connect(V3_1_1, "open");
    let mut subscriber = broker.connect(V3_1_1, "subscriber");
    subscriber.subscribe("many", ExactlyOnce);
    let outgoing = OutgoingPublish::new("many", ExactlyOnce, b"x");
    for id in 1..=100 {
        client.send_publish_as(&outgoing, id);
    }
    for id in 1..=100 {
        client.expect_pubrec(id);
    }
    for id in 1..=100 {
        client.send_pubrel(id);
    }
    for id in 1..=100 {
        client.expect_pubcomp(id);
    }
    assert_eq!(subscriber.receive_texts(100).len(), 100);
}

/// [MQTT-3.3.4-9], [MQTT-4.4.0-1]: each connection has its own Receive Maximum, which also limits retransmissions.
#[test]
fn a_smaller_receive_maximum_applies_to_resent_messages() {
    every_thread_count(|case| {
        let broker = case.broker();
        let connecting = broker.connecting(V5, "subscriber").persistent();
        let mut subscriber = connecting.open();
        subscriber.subscribe("window", ExactlyOnce);
        let mut publisher = broker.connect(V5, "publisher");
        for number in 0..6 {
            let qos = if number % 2 == 0 { AtLeastOnce } else { ExactlyOnce };
            publisher.publish("window", qos, number.to_string().as_bytes());
            subscriber.expect_publish();
        }
        subscriber.cut();
        publisher.publish("window", AtLeastOnce, b"6");
        let mut subscriber = connecting.clone().property(receive_maximum(2)).open();
        let mut window = vec![subscriber.expect_publish(), subscriber.expect_publish()];
        for number in 0..7 {
            // Everything sent to this client before has arrived with the answer.
            subscriber.expect_nothing();
            let oldest = window.remove(0);
            assert_eq!((oldest.text(), oldest.dup()), (number.to_string().as_str(), number < 6));
            subscriber.acknowledge(&oldest);
            if number < 5 {
                window.push(subscriber.expect_publish());
            }
        }
    });
}

/// 4.9 of 5.0: each connection starts with the full quota of `mqtt.receive_maximum`, whatever is unreleased from an earlier one.
#[test]
fn the_brokers_receive_maximum_applies_per_connection() {
    every_thread_count(|case| {
        let broker = case.broker_set(&["mqtt.receive_maximum=5"]);
        let connecting = broker.connecting(V5, "publisher").persistent();
        let mut publisher = connecting.open();
        for id in 1..=5 {
            publisher.send_publish_as(&OutgoingPublish::new("a", ExactlyOnce, b"x"), id);
            assert!(publisher.expect_pubrec(id) < 0x80);
        }
        publisher.cut();
        let mut publisher = connecting.open();
        assert!(publisher.session_present());
        for id in 6..=10 {
            publisher.send_publish_as(&OutgoingPublish::new("a", ExactlyOnce, b"x"), id);
            assert!(publisher.expect_pubrec(id) < 0x80, "message {id}");
        }
        // PUBCOMP returns quota, whichever connection the exchange started on.
        publisher.send_pubrel(1);
        assert_eq!(publisher.expect_pubcomp(1), 0);
        publisher.send_publish_as(&OutgoingPublish::new("a", ExactlyOnce, b"x"), 11);
        assert!(publisher.expect_pubrec(11) < 0x80);
        publisher.send_publish_as(&OutgoingPublish::new("a", ExactlyOnce, b"x"), 12);
        publisher.expect_server_disconnect(ReasonCode::ReceiveMaximumExceeded);
    });
}
