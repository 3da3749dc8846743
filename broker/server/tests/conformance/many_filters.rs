//! Packets with thousands of filters, and sessions with tens of thousands: both take long, are processed while others are served, and have
//! the same result as short ones.

use tautwire_protocol::{
    List, Packet, Properties, Subscribe, SubscriptionOptions, SubscriptionRequest, TopicFilter, Unsubscribe,
};

use crate::support::{
    AtLeastOnce, AtMostOnce, Case, Client, ExactlyOnce, OutgoingPublish, QoS, V5, every_case, options, packet_id,
};
use crate::sys::await_live_number;

const FILTERS: usize = 5_000;
/// The limit for one packet.
const FILTERS_MAX: usize = 10_000;

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("many/{number}/+")).collect()
}

fn subscribe_bytes(client: &Client, id: u16, filters: &[(&str, SubscriptionOptions)]) -> Vec<u8> {
    let requests: Vec<SubscriptionRequest<'_>> = filters
        .iter()
        .map(|&(filter, options)| SubscriptionRequest {
            filter: TopicFilter::new(filter).expect("a valid filter"),
            options,
        })
        .collect();
    client.encoded(&Packet::Subscribe(Subscribe {
        packet_id: packet_id(id),
        properties: Properties::EMPTY,
        requests: List::from_slice(&requests),
    }))
}

fn unsubscribe_bytes(client: &Client, id: u16, filters: &[&str]) -> Vec<u8> {
    let filters: Vec<TopicFilter<'_>> =
        filters.iter().map(|filter| TopicFilter::new(filter).expect("a valid filter")).collect();
    client.encoded(&Packet::Unsubscribe(Unsubscribe {
        packet_id: packet_id(id),
        properties: Properties::EMPTY,
        filters: List::from_slice(&filters),
    }))
}

fn publish_bytes(client: &Client, id: u16, topic: &str, payload: &[u8]) -> Vec<u8> {
    client.encoded(&Packet::Publish(OutgoingPublish::new(topic, AtLeastOnce, payload).publish(packet_id(id))))
}

/// Expects PINGRESP, then PUBACK, then a message for a subscription.
#[track_caller]
fn expect_later_packets(client: &mut Client, id: u16, text: &str) {
    assert!(matches!(client.next().as_packet(), Packet::PingResp), "later packets are answered in order");
    let mut acknowledged = false;
    let mut received = false;
    while !(acknowledged && received) {
        let packet = client.next();
        match packet.as_packet() {
            Packet::PubAck(puback) if puback.packet_id.get() == id => acknowledged = true,
            Packet::Publish(publish) => {
                assert_eq!(publish.payload, text.as_bytes());
                received = true;
            }
            other => panic!("expected PUBACK and PUBLISH, got {other:?}"),
        }
    }
}

/// [MQTT-3.8.4-5], [MQTT-3.8.4-6], [MQTT-3.10.4-6], [MQTT-3.11.3-1]: one answer with all reason codes in order, before the answers to later
/// packets.
#[test]
fn thousands_of_filters_are_answered_once_and_in_order() {
    every_case(|case| {
        let broker = case.broker();
        let v5 = case.version.is_v5();
        let mut client = broker.connect(case.version, "many");
        let deep = vec!["x"; 200].join("/");
        let names = names(FILTERS);
        // Every seventh is too deep; the others request each QoS in turn.
        let filter = |number: usize| if number.is_multiple_of(7) { deep.as_str() } else { names[number].as_str() };
        let qos = |number: usize| [AtMostOnce, AtLeastOnce, ExactlyOnce][number % 3];
        let filters: Vec<_> = (0..FILTERS).map(|number| (filter(number), options(qos(number)))).collect();
        let expected: Vec<u8> = (0..FILTERS)
            .map(|number| match number.is_multiple_of(7) {
                true if v5 => 0x8f,
                true => 0x80,
                false => qos(number).as_u8(),
            })
            .collect();
        let mut bytes = subscribe_bytes(&client, 1, &filters);
        bytes.extend(client.encoded(&Packet::PingReq));
        // The subscription of number 3 has QoS 0.
        bytes.extend(publish_bytes(&client, 2, "many/3/x", b"behind"));
        client.send_bytes(&bytes);
        assert_eq!(client.expect_suback(1), expected);
        expect_later_packets(&mut client, 2, "behind");

        // Every seventh does not exist, number 3 stays.
        let removed: Vec<usize> = (0..FILTERS).filter(|number| *number != 3).collect();
        let filters: Vec<&str> = removed.iter().map(|&number| names[number].as_str()).collect();
        let mut bytes = unsubscribe_bytes(&client, 3, &filters);
        bytes.extend(client.encoded(&Packet::PingReq));
        bytes.extend(publish_bytes(&client, 4, "many/4/x", b"nobody"));
        bytes.extend(client.encoded(&Packet::PingReq));
        bytes.extend(publish_bytes(&client, 5, "many/3/x", b"behind"));
        client.send_bytes(&bytes);
        let reasons = client.acknowledgement("UNSUBACK", |packet| match packet {
            Packet::UnsubAck(unsuback) if unsuback.packet_id.get() == 3 => {
                Some(unsuback.reasons.iter().map(|reason| reason.as_u8()).collect::<Vec<_>>())
            }
            _ => None,
        });
        let expected: Vec<u8> =
            removed.iter().map(|number| if number.is_multiple_of(7) { 0x11 } else { 0x00 }).collect();
        assert_eq!(reasons, if v5 { expected } else { Vec::new() });
        assert!(matches!(client.next().as_packet(), Packet::PingResp));
        client.expect_puback(4);
        expect_later_packets(&mut client, 5, "behind");
        client.expect_nothing();
    });
}

/// Others are served while the packet is processed.
#[test]
fn retained_messages_of_thousands_of_filters_follow_suback() {
    every_case(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(case.version, "publisher");
        for number in (0..FILTERS).step_by(500) {
            let topic = format!("many/{number}/x");
            publisher.deliver(&OutgoingPublish::new(&topic, AtLeastOnce, topic.as_bytes()).retained());
        }
        let mut client = broker.connect(case.version, "many");
        let names = names(FILTERS);
        let filters: Vec<_> = names.iter().map(|name| (name.as_str(), options(AtLeastOnce))).collect();
        let id = client.send_subscribe(&filters, &[]);
        // [MQTT-3.8.4-1]: SUBACK may come after messages; it comes once.
        assert_eq!(client.expect_suback(id), vec![1; FILTERS]);
        let mut received: Vec<String> = (0..10).map(|_| client.receive().text().to_owned()).collect();
        received.sort_unstable();
        let mut expected: Vec<String> = (0..FILTERS).step_by(500).map(|number| format!("many/{number}/x")).collect();
        expected.sort_unstable();
        assert_eq!(received, expected);
        client.expect_nothing();
    });
}

/// Waits for `count` subscriptions besides that of the observer.
#[track_caller]
fn subscriptions_come_to(observer: &mut Client, count: usize) {
    await_live_number(observer, "tautwire/subscriptions", |now| now == (count + 1) as f64);
}

/// The connection is lost while its packet is processed.
#[test]
fn a_connection_lost_during_a_large_subscribe_leaves_nothing() {
    every_case(|case: Case| {
        let broker = case.broker_set(&["sys.interval_s=1"]);
        let mut observer = broker.connect(V5, "observer");
        let names = names(FILTERS);
        let filters: Vec<_> = names.iter().map(|name| (name.as_str(), options(AtLeastOnce))).collect();
        let all: Vec<&str> = names.iter().map(String::as_str).collect();
        for round in 0..6 {
            let client_id = format!("cut-{round}");
            let mut client = broker.connect(case.version, &client_id);
            let mut bytes = subscribe_bytes(&client, 1, &filters);
            if round % 2 == 1 {
                bytes.extend(unsubscribe_bytes(&client, 2, &all));
            }
            client.send_bytes(&bytes);
            if round % 3 == 2 {
                drop(client);
            } else {
                client.cut();
            }
        }
        subscriptions_come_to(&mut observer, 0);
        await_live_number(&mut observer, "tautwire/sessions", |sessions| sessions == 1.0);
        await_live_number(&mut observer, "tautwire/memory_deferred_work_bytes", |bytes| bytes == 0.0);
        // No subscriber is left.
        let mut publisher = broker.connect(V5, "publisher");
        let reason = publisher.publish("many/7/x", AtLeastOnce, b"x");
        assert_eq!(reason, 0x10);
    });
}

/// Another connection takes over the session while the packet is processed: a clean session has none of the subscriptions, and a resumed
/// session can unsubscribe from all of them.
#[test]
fn a_takeover_during_a_large_subscribe_is_clean() {
    every_case(|case: Case| {
        let broker = case.broker_set(&["sys.interval_s=1"]);
        let mut observer = broker.connect(V5, "observer");
        let mut publisher = broker.connect(V5, "publisher");
        let names = names(FILTERS_MAX);
        let filters: Vec<_> = names.iter().map(|name| (name.as_str(), options(AtLeastOnce))).collect();
        let all: Vec<&str> = names.iter().map(String::as_str).collect();
        for round in 0..4 {
            let client_id = format!("taken-{round}");
            let mut older = broker.connecting(case.version, &client_id).persistent().open();
            let bytes = subscribe_bytes(&older, 1, &filters);
            older.send_bytes(&bytes);
            let mut newer = broker.connect(case.version, &client_id);
            assert!(!newer.session_present());
            // While the subscriptions of the old session are removed, the new one subscribes to some of the same filters.
            newer.subscribe("many/5/+", AtLeastOnce);
            newer.subscribe("many/9999/+", AtLeastOnce);
            subscriptions_come_to(&mut observer, 2);
            publisher.publish("many/9999/x", AtLeastOnce, b"last");
            publisher.publish("many/6/x", AtLeastOnce, b"none");
            publisher.publish("many/5/x", AtLeastOnce, b"five");
            assert_eq!(newer.receive_texts(2), ["last", "five"]);
            newer.expect_nothing();
            newer.disconnect();
            older.packets_until_closed();

            let mut older = broker.connecting(case.version, &client_id).persistent().open();
            let bytes = subscribe_bytes(&older, 1, &filters);
            older.send_bytes(&bytes);
            let mut newer = broker.connecting(case.version, &client_id).persistent().open();
            assert!(newer.session_present());
            newer.unsubscribe(&all);
            subscriptions_come_to(&mut observer, 0);
            publisher.publish("many/9999/x", AtLeastOnce, b"none");
            newer.expect_nothing();
            newer.disconnect();
            older.packets_until_closed();
            broker.connect(case.version, &client_id).disconnect();
        }
        await_live_number(&mut observer, "tautwire/memory_deferred_work_bytes", |bytes| bytes == 0.0);
    });
}

/// A session with 20,000 subscriptions and a queue of 10,000 messages ends because of a clean start: the new session has none of them, and
/// messages pending for it as a member of a group are redispatched to another member [MQTT-4.8.2-5].
#[test]
fn a_large_ended_session_leaves_nothing_to_its_successor() {
    every_case(|case: Case| {
        const QUEUE: usize = 10_000;
        let broker = case.broker_set(&["limits.session_queue_messages=20000", "sys.interval_s=1"]);
        let mut observer = broker.connect(V5, "observer");
        let mut large = broker.connecting(case.version, "large").persistent().open();
        let names = names(2 * FILTERS_MAX);
        for part in names.chunks(FILTERS_MAX) {
            let filters: Vec<_> = part.iter().map(|name| (name.as_str(), options(AtLeastOnce))).collect();
            assert_eq!(large.subscribe_all(&filters, &[]), vec![1; FILTERS_MAX]);
        }
        large.subscribe("$share/group/work", AtLeastOnce);
        large.disconnect();
        let mut publisher = broker.connect(case.version, "publisher");
        // Half of the queue belongs to the group.
        for start in (0..QUEUE).step_by(500) {
            let mut bytes = Vec::new();
            let ids: Vec<u16> = (start..start + 500).map(|_| publisher.next_packet_id().get()).collect();
            for (number, &id) in (start..).zip(&ids) {
                let topic = if number % 2 == 0 { "work" } else { "many/19999/x" };
                bytes.extend(publish_bytes(&publisher, id, topic, number.to_string().as_bytes()));
            }
            publisher.send_bytes(&bytes);
            for id in ids {
                publisher.expect_puback(id);
            }
        }
        let mut other = broker.connect(case.version, "other");
        other.subscribe("$share/group/work", AtLeastOnce);

        let mut anew = broker.connect(case.version, "large");
        assert!(!anew.session_present());
        anew.subscribe("many/3/+", AtLeastOnce);
        anew.subscribe("many/19998/+", AtLeastOnce);
        anew.expect_nothing();
        let mut redispatched: Vec<usize> =
            (0..QUEUE / 2).map(|_| other.receive().text().parse().expect("a number")).collect();
        redispatched.sort_unstable();
        assert_eq!(redispatched, (0..QUEUE).step_by(2).collect::<Vec<_>>());
        other.expect_nothing();
        // The two of the new session, and that of the other member.
        subscriptions_come_to(&mut observer, 3);
        await_live_number(&mut observer, "tautwire/stored_messages", |count| count == 0.0);
        for (topic, text) in [("many/3/x", "three"), ("many/19999/x", "none"), ("many/19998/x", "last")] {
            publisher.publish(topic, QoS::AtLeastOnce, text.as_bytes());
        }
        assert_eq!(anew.receive_texts(2), ["three", "last"]);
        anew.expect_nothing();
    });
}
