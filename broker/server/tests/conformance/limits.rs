//! Limits of the broker: each is enforced, answered and counted, does not affect other clients, and memory is freed.

use std::collections::HashSet;

use tautwire_protocol::{Packet, ReasonCode};

use crate::support::property::receive_maximum;
use crate::support::{
    AtLeastOnce, AtMostOnce, Broker, Case, Client, ExactlyOnce, OutgoingPublish, QoS, V3_1_1, V5, every_case,
    every_thread_count, every_version, options, packet_id,
};
use crate::sys::await_number;

/// Publishes the numbers from 0 to `count`, many per write, and completes their handshakes.
pub(crate) fn publish_numbers(publisher: &mut Client, topic: &str, qos: QoS, count: usize) {
    for start in (0..count).step_by(500) {
        let ids: Vec<u16> = (start..count.min(start + 500)).map(|_| publisher.next_packet_id().get()).collect();
        let mut bytes = Vec::new();
        for (number, &id) in (start..).zip(&ids) {
            let text = number.to_string();
            let publish = OutgoingPublish::new(topic, qos, text.as_bytes());
            bytes.extend(publisher.encoded(&Packet::Publish(publish.publish(packet_id(id)))));
        }
        publisher.send_bytes(&bytes);
        for id in ids {
            if qos == AtLeastOnce {
                publisher.expect_puback(id)
            } else {
                publisher.expect_pubrec(id)
            };
        }
    }
}

/// `limits.subscriptions_per_packet`: ten thousand filters in one packet are accepted.
#[test]
fn ten_thousand_subscriptions_in_one_packet_are_granted_and_removed() {
    every_case(|case| {
        let broker = case.broker();
        let mut publisher = broker.connect(case.version, "publisher");
        let mut client = broker.connect(case.version, "greedy");
        let names: Vec<String> = (0..10_000).map(|number| format!("level/{number}/+")).collect();
        let filters: Vec<_> = names.iter().map(|name| (name.as_str(), options(AtLeastOnce))).collect();
        assert_eq!(client.subscribe_all(&filters, &[]), vec![1; 10_000]);
        publisher.publish("level/9999/x", AtLeastOnce, b"last");
        assert_eq!(client.receive().text(), "last");
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        client.unsubscribe(&names);
        publisher.publish("level/9999/x", AtLeastOnce, b"none");
        client.expect_nothing();
    });
}

/// `limits.subscriptions_per_packet`: more filters end the connection with Quota exceeded.
#[test]
fn too_many_subscriptions_in_one_packet_are_refused() {
    every_version(|case| {
        let broker = case.broker_set(&["limits.subscriptions_per_packet=100"]);
        let mut client = broker.connect(case.version, "greedy");
        client.send_subscribe(&vec![("a", options(AtLeastOnce)); 101], &[]);
        client.expect_server_disconnect(ReasonCode::QuotaExceeded);
        let mut client = broker.connect(case.version, "modest");
        assert_eq!(client.subscribe_all(&vec![("a", options(AtLeastOnce)); 100], &[]), vec![1; 100]);
        client.unsubscribe(&["a"; 100]);
    });
}

/// `limits.topic_levels`: the maximum depth works, one more level is refused, and the connection stays open.
#[test]
fn topics_that_are_too_deep_are_refused() {
    every_version(|case| {
        let broker = case.broker();
        let mut client = broker.connect(case.version, "deep");
        let deepest = vec!["x"; 128].join("/");
        let too_deep = vec!["x"; 129].join("/");
        client.subscribe(&deepest, AtLeastOnce);
        client.publish(&deepest, AtLeastOnce, b"arrives");
        assert_eq!(client.receive().text(), "arrives");
        let refused = if case.version.is_v5() { 0x8f } else { 0x80 };
        assert_eq!(client.subscribe_all(&[(&too_deep, options(AtLeastOnce))], &[]), [refused]);
        client.subscribe("#", AtLeastOnce);
        let reason = client.publish(&too_deep, AtLeastOnce, b"does not");
        assert_eq!(reason, if case.version.is_v5() { 0x90 } else { 0x00 });
        client.expect_nothing();
    });
}

/// The deepest possible topic, with 65,535 levels, is refused like any other that is too deep.
#[test]
fn the_deepest_possible_topics_affect_no_other_client() {
    every_version(|case| {
        let broker = case.broker();
        let mut client = broker.connect(case.version, "deep");
        client.subscribe("#", AtLeastOnce);
        let slashes = "/".repeat(65_535);
        let wildcards = format!("{}+", "+/".repeat(32_767));
        let refused = if case.version.is_v5() { 0x8f } else { 0x80 };
        for filter in [&slashes, &wildcards] {
            assert_eq!(client.subscribe_all(&[(filter, options(AtLeastOnce))], &[]), [refused]);
        }
        client.publish(&slashes, AtLeastOnce, b"x");
        client.expect_nothing();
    });
}

/// `limits.topic_bytes`
#[test]
fn topics_that_are_too_long_are_refused() {
    every_version(|case| {
        let broker = case.broker_set(&["limits.topic_bytes=50"]);
        let mut client = broker.connect(case.version, "long");
        let longest = "x".repeat(50);
        let too_long = "x".repeat(51);
        client.subscribe(&longest, AtLeastOnce);
        client.publish(&longest, AtLeastOnce, b"arrives");
        assert_eq!(client.receive().text(), "arrives");
        let refused = if case.version.is_v5() { 0x8f } else { 0x80 };
        assert_eq!(client.subscribe_all(&[(&too_long, options(AtLeastOnce))], &[]), [refused]);
        let reason = client.publish(&too_long, AtLeastOnce, b"does not");
        assert_eq!(reason, if case.version.is_v5() { 0x90 } else { 0x00 });
    });
}

/// [MQTT-2.2.1-3]: a client may have every Packet Identifier in use, and reuse each.
#[test]
fn a_publisher_can_have_65_535_exchanges_open() {
    every_version(|case| {
        let broker = case.broker_set(&["mqtt.receive_maximum=65535"]);
        let mut publisher = broker.connect(case.version, "publisher");
        for _ in 0..2 {
            publish_numbers(&mut publisher, "a", ExactlyOnce, 65_535);
            for id in 1..=u16::MAX {
                publisher.send_pubrel(id);
                if id % 500 == 0 || id == u16::MAX {
                    let first = (id - 1) / 500 * 500 + 1;
                    (first..=id).for_each(|id| assert_eq!(publisher.expect_pubcomp(id), 0));
                }
            }
        }
    });
}

/// [MQTT-2.2.1-4], `limits.in_flight_per_client`: the broker uses every Packet Identifier once, and then waits.
#[test]
fn a_subscriber_can_leave_65_535_messages_unacknowledged() {
    every_version(|case| {
        let broker = case.broker_set(&["limits.in_flight_per_client=65535", "limits.session_queue_messages=100000"]);
        let mut publisher = broker.connect(case.version, "publisher");
        let mut subscriber = broker.connect(case.version, "subscriber");
        subscriber.subscribe("a", AtLeastOnce);
        publish_numbers(&mut publisher, "a", AtLeastOnce, 65_545);
        let ids: Vec<u16> = (0..65_535).map(|_| subscriber.expect_publish().id()).collect();
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 65_535);
        subscriber.expect_nothing();
        for &id in &ids[..10] {
            subscriber.send_puback(id);
        }
        let last = (0..10).map(|_| subscriber.expect_publish().text().to_owned()).collect::<Vec<_>>();
        assert_eq!(last, (65_535..65_545).map(|number| number.to_string()).collect::<Vec<_>>());
        for id in ids {
            subscriber.send_puback(id);
        }
        subscriber.expect_nothing();
    });
}

/// 4.9 of 5.0: only messages in flight count: one unacknowledged message does not hold up others.
#[test]
fn one_unacknowledged_message_does_not_delay_the_others() {
    every_version(|case| {
        let broker = case.broker_set(&["limits.session_queue_messages=100000"]);
        let mut publisher = broker.connect(case.version, "publisher");
        let mut subscriber = broker.connect(case.version, "subscriber");
        subscriber.subscribe("a", AtLeastOnce);
        publisher.publish("a", AtLeastOnce, b"patient");
        let patient = subscriber.expect_publish();
        publish_numbers(&mut publisher, "a", AtLeastOnce, 70_000);
        for number in 0..70_000 {
            let message = subscriber.receive();
            assert_eq!(message.text(), number.to_string());
            assert_ne!(message.id(), patient.id(), "[MQTT-2.2.1-4]");
        }
        subscriber.acknowledge(&patient);
        subscriber.expect_nothing();
    });
}

/// `limits.retained_bytes`: beyond it no message is retained, and a 5.0 publisher is notified.
#[test]
fn the_bytes_of_retained_messages_are_bounded() {
    every_case(|case| {
        let broker = case.broker_set(&["limits.retained_bytes=100000"]);
        let mut publisher = broker.connect(case.version, "publisher");
        let payload = vec![b'x'; 30_000];
        let reasons: Vec<u8> = (0..4)
            .map(|number| {
                publisher.deliver(&OutgoingPublish::new(&format!("kept/{number}"), AtLeastOnce, &payload).retained())
            })
            .collect();
        if case.version.is_v5() {
            assert!(reasons[..3].iter().all(|&reason| reason < 0x80) && reasons[3] == 0x97, "{reasons:x?}");
        }
        let mut late = broker.connect(case.version, "late");
        late.subscribe("kept/#", AtLeastOnce);
        for _ in 0..3 {
            assert_eq!(late.receive().payload().len(), 30_000);
        }
        late.expect_nothing();
    });
}

/// `limits.in_flight_per_client`: applies if the client's own Receive Maximum is higher, or absent as in 3.1.1.
#[test]
fn the_brokers_in_flight_limit_applies() {
    every_case(|case| {
        let broker = case.broker_set(&["limits.in_flight_per_client=3", "sys.interval_s=1"]);
        let mut publisher = broker.connect(case.version, "publisher");
        let mut connecting = broker.connecting(case.version, "subscriber");
        if case.version.is_v5() {
            connecting = connecting.property(receive_maximum(100));
        }
        let mut subscriber = connecting.open();
        subscriber.subscribe("a", AtLeastOnce);
        subscriber.subscribe("zero", AtMostOnce);
        publish_numbers(&mut publisher, "a", AtLeastOnce, 10);
        let window: Vec<_> = (0..3).map(|_| subscriber.expect_publish()).collect();
        publisher.publish("zero", AtMostOnce, b"fence");
        assert_eq!(subscriber.expect_publish().topic(), "zero");
        for message in &window {
            subscriber.acknowledge(message);
        }
        assert_eq!(subscriber.receive_texts(7), ["3", "4", "5", "6", "7", "8", "9"]);
        await_number(&mut publisher, "tautwire/messages_queued_in_flight_full", |count| count == 7.0);
    });
}

/// 2.2.1 of 5.0: a client that uses a Packet Identifier twice at once gets an answer and affects only itself.
#[test]
fn a_packet_id_in_use_for_qos_2_can_be_used_for_qos_1() {
    every_case(|case| {
        let broker = case.broker();
        let mut subscriber = broker.connect(case.version, "subscriber");
        subscriber.subscribe("two", ExactlyOnce);
        let mut client = broker.connect(case.version, "confused");
        client.send_publish_as(&OutgoingPublish::new("two", ExactlyOnce, b"two"), 5);
        client.expect_pubrec(5);
        client.send_publish_as(&OutgoingPublish::new("one", AtLeastOnce, b"one"), 5);
        assert!(matches!(client.expect_puback(5), 0x00 | 0x10 | 0x91));
        client.send_publish_as(&OutgoingPublish::new("two", ExactlyOnce, b"two").dup(), 5);
        client.expect_pubrec(5);
        client.send_pubrel(5);
        assert_eq!(client.expect_pubcomp(5), 0);
        client.publish("two", AtLeastOnce, b"after");
        assert_eq!(subscriber.receive_texts(2), ["two", "after"]);
    });
}

const CHUNK: usize = 64 * 1024;
const MEGABYTE: u64 = 1024 * 1024;

/// Publishes 64 MB at `qos` to a subscriber that never reads, while others continue. Returns that subscriber.
fn flood_a_stuck_subscriber(case: Case, broker: &Broker, qos: QoS) -> Client {
    let mut stuck = broker.connect(case.version, "stuck");
    stuck.subscribe("flood", qos);
    let mut bystander = broker.connect(case.version, "bystander");
    bystander.subscribe("others", AtLeastOnce);
    let mut publisher = broker.connect(case.version, "publisher");
    let payload = vec![b'x'; CHUNK];
    let before = broker.resident_bytes();
    for round in 0..1000 {
        publisher.publish("flood", qos, &payload);
        if round % 100 == 0 {
            publisher.publish("others", AtLeastOnce, b"x");
            assert_eq!(bystander.receive().text(), "x");
            let held_bytes = broker.resident_bytes().saturating_sub(before);
            assert!(held_bytes < 24 * MEGABYTE, "the broker holds {held_bytes} bytes after {round} messages");
        }
    }
    publisher.ping();
    stuck
}

/// `limits.connection_output_bytes`: QoS 0 is dropped and counted, and the connection stays open.
#[test]
fn a_subscriber_that_never_reads_loses_only_qos_0_messages() {
    every_case(|case| {
        let broker = case.broker_set(&["limits.connection_output_bytes=1000000", "sys.interval_s=1"]);
        let before = broker.resident_bytes();
        let mut stuck = flood_a_stuck_subscriber(case, &broker, AtMostOnce);
        let mut observer = broker.connect(case.version, "observer");
        await_number(&mut observer, "publish/messages/dropped", |count| count > 100.0);
        await_number(&mut observer, "tautwire/dropped_output_full", |count| count > 100.0);
        // Once it reads again, it is served again.
        let mut publisher = broker.connect(case.version, "publisher");
        stuck.ping();
        stuck.discard_pending_messages();
        publisher.publish("flood", AtMostOnce, b"again");
        assert_eq!(stuck.receive().text(), "again");
        drop(stuck);
        broker.resident_comes_down_to(before + 16 * MEGABYTE);
    });
}

/// `limits.session_queue_bytes`: QoS 1 is queued up to the limit; then new messages are dropped and counted.
#[test]
fn a_subscriber_that_never_reads_fills_only_its_queue() {
    every_case(|case| {
        let broker = case.broker_set(&[
            "limits.connection_output_bytes=1000000",
            "limits.session_queue_bytes=2000000",
            "sys.interval_s=1",
        ]);
        let before = broker.resident_bytes();
        let stuck = flood_a_stuck_subscriber(case, &broker, AtLeastOnce);
        let mut observer = broker.connect(case.version, "observer");
        await_number(&mut observer, "tautwire/dropped_queue_full", |count| count > 100.0);
        drop(stuck);
        await_number(&mut observer, "tautwire/sessions_connected", |count| count == 1.0);
        broker.resident_comes_down_to(before + 16 * MEGABYTE);
    });
}

/// `limits.slow_consumer=disconnect`
#[test]
fn a_slow_consumer_is_disconnected_where_configured() {
    every_case(|case| {
        let broker = case.broker_set(&[
            "limits.slow_consumer=disconnect",
            "limits.in_flight_per_client=5",
            "limits.session_queue_messages=5",
        ]);
        let mut publisher = broker.connect(case.version, "publisher");
        let mut slow = broker.connect(case.version, "slow");
        slow.subscribe("a", AtLeastOnce);
        publish_numbers(&mut publisher, "a", AtLeastOnce, 30);
        for _ in 0..5 {
            slow.expect_publish();
        }
        slow.expect_server_disconnect(ReasonCode::QuotaExceeded);
        publisher.ping();
    });
}

/// `limits.write_stall_timeout_s`
#[test]
fn a_stalled_connection_is_closed() {
    every_version(|case| {
        let broker = case.broker_set(&["limits.write_stall_timeout_s=1", "sys.interval_s=1"]);
        let mut stuck = flood_a_stuck_subscriber(case, &broker, AtMostOnce);
        let mut observer = broker.connect(case.version, "observer");
        await_number(&mut observer, "tautwire/write_stall_timeouts", |count| count == 1.0);
        assert!(!stuck.bytes_until_closed().is_empty());
    });
}

/// The memory of a session is freed when it ends.
#[test]
fn the_memory_of_ended_sessions_is_freed() {
    every_thread_count(|case| {
        let broker = case.broker();
        let before = broker.resident_bytes();
        let mut publisher = broker.connect(V5, "publisher");
        for number in 0..100 {
            let mut absent = broker.connecting(V5, &format!("absent-{number}")).persistent().open();
            absent.subscribe(&format!("queue/{number}"), AtLeastOnce);
            absent.disconnect();
            let payload = vec![b'x'; CHUNK];
            for _ in 0..10 {
                publisher.publish(&format!("queue/{number}"), AtLeastOnce, &payload);
            }
        }
        let held_bytes = broker.resident_bytes().saturating_sub(before);
        assert!(held_bytes > 48 * MEGABYTE, "only {held_bytes} bytes are held: this test checks nothing");
        for number in 0..100 {
            broker.connect(V5, &format!("absent-{number}")).disconnect();
        }
        broker.resident_comes_down_to(before + 16 * MEGABYTE);
    });
}

/// `limits.connections`: one more is refused; a closed connection makes room.
#[test]
fn connections_are_bounded() {
    every_case(|case| {
        let broker = case.broker_set(&["limits.connections=3"]);
        let mut clients: Vec<Client> =
            (0..3).map(|number| broker.connect(case.version, &format!("client-{number}"))).collect();
        let mut refused = broker.connecting(case.version, "one-more").send_unless_closed();
        refused.packets_until_closed();
        for client in &mut clients {
            client.ping();
        }
        clients.pop().expect("three are connected").disconnect();
        broker.connect(case.version, "next").ping();
    });
}

/// `limits.sessions`: 3.2.2.2 of 5.0 names Quota exceeded; 3.1.1 uses "server unavailable".
#[test]
fn sessions_are_bounded() {
    every_case(|case| {
        let broker = case.broker_set(&["limits.sessions=2"]);
        broker.connecting(case.version, "one").persistent().open().disconnect();
        let two = broker.connect(case.version, "two");
        let refused = broker.connecting(case.version, "three").refused();
        assert_eq!(refused, if case.version.is_v5() { 0x97 } else { 3 });
        // An existing session does not count as new, and the end of one makes room.
        broker.connecting(case.version, "one").persistent().open().disconnect();
        two.disconnect();
        broker.connect(case.version, "three").ping();
    });
}

/// [MQTT-3.1.2-25] and 3.1.1: messages up to the broker's maximum packet size are delivered.
#[test]
fn messages_up_to_the_maximum_packet_size_are_delivered() {
    let broker = Broker::start();
    let mut client = broker.connect(V3_1_1, "large");
    client.subscribe("a", AtLeastOnce);
    let payload = vec![b'x'; 16 * 1024 * 1024 - 100];
    client.publish("a", AtLeastOnce, &payload);
    assert!(client.receive().payload() == payload);
}
