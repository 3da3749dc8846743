//! Reloads of limits and capabilities: applied at once, or to new connections.

use tautwire_protocol::{Property, PropertyId};

use super::World;
use crate::support::{AtLeastOnce, AtMostOnce, ExactlyOnce, OutgoingPublish, V3_1_1, V5};
use crate::sys::await_number;

/// [MQTT-3.3.4-7] [MQTT-3.2.2-17] [MQTT-3.2.2-15]: the values in CONNACK stay valid for their connection.
#[test]
fn connack_limits_apply_to_new_connections_only() {
    for threads in [1, 2] {
        let world = World::new(threads, "[mqtt]\nreceive_maximum = 3\ntopic_alias_maximum = 5\n", &[]);
        let mut old = world.broker.connect(V5, "old");
        old.subscribe("told", AtMostOnce);
        let mut old_3 = world.broker.connect(V3_1_1, "old-3");
        let smaller = "[mqtt]\nreceive_maximum = 1\ntopic_alias_maximum = 1\nmaximum_packet_size = 1000\nmax_qos = 1\n\
                       retain_available = false\nwildcard_subscription_available = false\n";
        world.reload(smaller).expect(200);

        let mut new = world.broker.connect(V5, "new");
        let connack = new.connack();
        assert_eq!(
            connack.properties.get(PropertyId::ReceiveMaximum),
            Some(Property::ReceiveMaximum(1.try_into().expect("1")))
        );
        assert_eq!(connack.properties.get(PropertyId::TopicAliasMaximum), Some(Property::TopicAliasMaximum(1)));
        assert_eq!(connack.properties.get(PropertyId::RetainAvailable), Some(Property::RetainAvailable(false)));

        // Three messages of QoS 2 at a time, an alias of 5, a large packet, RETAIN, and a wildcard.
        let ids: Vec<u16> = (0..3).map(|_| old.send_publish(&OutgoingPublish::new("x", ExactlyOnce, b"x"))).collect();
        ids.iter().for_each(|id| assert!(old.expect_pubrec(*id) < 0x80));
        ids.iter().for_each(|id| {
            old.send_pubrel(*id);
            old.expect_pubcomp(*id);
        });
        let large = vec![b'l'; 5_000];
        old.deliver(
            &OutgoingPublish::new("told", AtLeastOnce, &large).property(Property::TopicAlias(5.try_into().expect("5"))),
        );
        assert_eq!(old.receive().payload(), large);
        old.deliver(&OutgoingPublish::by_alias(5, AtLeastOnce, b"by alias"));
        assert_eq!(old.receive().text(), "by alias");
        old.deliver(&OutgoingPublish::new("kept", AtLeastOnce, b"r").retained());
        old.subscribe("wild/#", AtMostOnce);
        old_3.deliver(&OutgoingPublish::new("told", AtLeastOnce, &large).retained());
        assert_eq!(old.receive().payload(), large);
        old_3.ping();

        // The next connection is subject to the values it received.
        assert_eq!(new.subscribe_all(&[("wild/#", crate::support::options(AtMostOnce))], &[]), [0xA2]);
        new.send_publish(&OutgoingPublish::new("x", AtLeastOnce, &large));
        assert_eq!(new.expect_disconnect(), 0x95);
        // A reconnecting client has a new connection.
        drop(old);
        let mut old = world.broker.connect(V5, "old");
        old.send_publish(&OutgoingPublish::new("x", ExactlyOnce, b"x"));
        assert_eq!(old.expect_disconnect(), 0x9B);
    }
}

#[test]
fn a_queue_limit_applies_from_the_next_message() {
    for threads in [1, 2] {
        let world = World::new(threads, "[limits]\nsession_queue_messages = 10\n", &[]);
        let mut away = world.broker.connecting(V5, "away").persistent().open();
        away.subscribe("q", AtLeastOnce);
        away.disconnect();
        let mut publisher = world.broker.connect(V5, "publisher");
        let publish = |publisher: &mut crate::support::Client, texts: &[&str]| {
            texts.iter().for_each(|text| _ = publisher.publish("q", AtLeastOnce, text.as_bytes()));
        };
        publish(&mut publisher, &["1", "2", "3"]);
        world.await_sum(&["stored_messages"], 3);
        world.reload("[limits]\nsession_queue_messages = 2\n").expect(200);
        publish(&mut publisher, &["4"]);
        world.await_sum(&["dropped_queue_full"], 1);
        world.reload("[limits]\nsession_queue_messages = 5\n").expect(200);
        publish(&mut publisher, &["5", "6", "7"]);
        world.await_sum(&["dropped_queue_full"], 2);
        let mut back = world.broker.connecting(V5, "away").clean_start(false).session_expiry_s(60).open();
        assert_eq!(back.receive_texts(4), ["1", "2", "3", "5"].map(str::to_owned));
        assert_eq!(back.receive().text(), "6");
        back.expect_nothing();
    }
}

#[test]
fn rate_limits_apply_to_connected_clients() {
    for threads in [1, 2] {
        let slow = "[limits]\npublish_messages_per_s = 1\n";
        let world = World::new(threads, "", &[]);
        let mut publisher = world.broker.connect(V5, "publisher");
        publisher.publish("x", AtLeastOnce, b"before");
        world.reload(slow).expect(200);
        // At this rate they would take twice as long as any test waits.
        let ids: Vec<u16> =
            (0..60).map(|_| publisher.send_publish(&OutgoingPublish::new("x", AtLeastOnce, b""))).collect();
        publisher.expect_puback(ids[0]);
        publisher.expect_puback(ids[1]);
        assert!(world.metric("clients_paused_for_rate") >= 1);
        world.reload("[limits]\npublish_messages_per_s = 100000\n").expect(200);
        ids[2..40].iter().for_each(|id| _ = publisher.expect_puback(*id));
        world.reload("").expect(200);
        ids[40..].iter().for_each(|id| _ = publisher.expect_puback(*id));
    }
}

/// Data beyond a lowered limit stays, and nothing more is accepted until enough has been freed.
#[test]
fn the_memory_budget_follows_its_limit() {
    for threads in [1, 2] {
        let world =
            World::new(threads, "[limits]\nmemory_bytes = 67108864\n", &["limits.spill_threshold_bytes=1099511627776"]);
        let mut away = world.broker.connecting(V5, "away").persistent().open();
        away.subscribe("q", AtLeastOnce);
        away.disconnect();
        let mut publisher = world.broker.connect(V5, "publisher");
        let large = vec![b'l'; 100_000];
        for _ in 0..30 {
            assert_eq!(publisher.publish("q", AtLeastOnce, &large), 0);
        }
        world.reload("[limits]\nmemory_bytes = 1048576\n").expect(200);
        assert_eq!(publisher.publish("q", AtLeastOnce, b"no room"), 0x97);
        world.reload("[limits]\nmemory_bytes = 67108864\n").expect(200);
        assert_eq!(publisher.publish("q", AtLeastOnce, b"last"), 0);
        let mut back = world.broker.connecting(V5, "away").clean_start(false).session_expiry_s(60).open();
        for _ in 0..30 {
            assert_eq!(back.receive().payload().len(), large.len());
        }
        assert_eq!(back.receive().text(), "last");
    }
}

#[test]
fn topic_retained_and_sys_limits_apply_at_once() {
    for threads in [1, 2] {
        let world = World::new(threads, "[sys]\ninterval_s = 0\n", &[]);
        let mut client = world.broker.connect(V5, "client");
        assert_eq!(client.deliver(&OutgoingPublish::new("a/b/c", AtLeastOnce, b"r").retained()), 0x10);
        client.subscribe("$SYS/broker/uptime", AtMostOnce);
        client.expect_nothing();
        world.reload("[limits]\ntopic_levels = 4\nretained_messages = 1\n[sys]\ninterval_s = 1\n").expect(200);
        await_number(&mut client, "clients/connected", |count| count >= 1.0);
        let mut publisher = world.broker.connect(V5, "publisher");
        assert_eq!(publisher.publish("a/b/c/d/e", AtLeastOnce, b""), 0x90);
        assert_eq!(publisher.deliver(&OutgoingPublish::new("one/more", AtLeastOnce, b"r").retained()), 0x97);
        world.reload("[sys]\ninterval_s = 1\n").expect(200);
        assert_eq!(publisher.deliver(&OutgoingPublish::new("one/more", AtLeastOnce, b"r").retained()), 0x10);
    }
}
