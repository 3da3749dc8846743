//! Messages reach the clients of all nodes.

use tautwire_protocol::QoS;

use crate::world::{Plan, World};

const HOUR_S: u32 = 3600;

#[test]
fn messages_of_every_qos_reach_clients_of_all_nodes() {
    let mut world = World::new(3);
    let clients: Vec<_> = (0..6).map(|number| world.client(&format!("c{number}"))).collect();
    for (number, client) in clients.iter().enumerate() {
        world.connect(*client, number % 3, true, 0);
        world.subscribe(*client, "a/+", QoS::ExactlyOnce);
    }
    for (number, qos) in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce].into_iter().enumerate() {
        world.publish(clients[number], "a/b", &number.to_string(), qos);
    }
    world.run(500);
    for client in &clients {
        let mut received = world.clients[*client].received.clone();
        received.sort_by(|one, other| one.payload.cmp(&other.payload));
        let found: Vec<_> = received.iter().map(|one| (&*one.payload, one.qos)).collect();
        assert_eq!(found, [("0", QoS::AtMostOnce), ("1", QoS::AtLeastOnce), ("2", QoS::ExactlyOnce)]);
    }
}

#[test]
fn nodes_listen_only_to_subscribed_topics() {
    let mut world = World::new(2);
    let clients: Vec<_> = (0..4).map(|number| world.client(&format!("c{number}"))).collect();
    for client in &clients {
        world.connect(*client, 0, true, 0);
        world.subscribe(*client, "a/#", QoS::AtMostOnce);
        world.subscribe(*client, "b", QoS::AtMostOnce);
    }
    world.clients[clients[0]].unsubscribe("a/#");
    world.run(50);
    let publisher = world.client("p");
    world.connect(publisher, 1, true, 0);
    for topic in ["a/x", "b"] {
        world.publish(publisher, topic, topic, QoS::AtMostOnce);
    }
    world.run(50);
    assert_eq!(world.clients[clients[0]].payloads(), ["b"]);
    // The order between topics is not defined.
    let mut payloads = world.clients[clients[1]].payloads();
    payloads.sort_unstable();
    assert_eq!(payloads, ["a/x", "b"]);
    for client in clients {
        world.disconnect(client);
    }
    assert!(world.places[0].node.as_ref().expect("the node runs").has_no_interest());
}

#[test]
fn messages_of_one_publisher_topic_and_qos_stay_in_order_across_nodes() {
    let mut world = World::new(2);
    let (publisher, subscriber) = (world.client("p"), world.client("s"));
    world.connect(subscriber, 1, false, HOUR_S);
    world.subscribe(subscriber, "a/#", QoS::ExactlyOnce);
    for round in 0..4 {
        world.connect(publisher, round % 2, false, HOUR_S);
        for number in 0..20 {
            let qos = if number % 2 == 0 { QoS::AtLeastOnce } else { QoS::ExactlyOnce };
            world.publish(publisher, "a/b", &format!("{:03}", round * 20 + number), qos);
        }
        world.run_until("all messages are acknowledged", |world| world.clients[publisher].is_idle());
    }
    world.run(500);
    for parity in 0..2 {
        let has_parity = |number: &usize| number % 2 == parity;
        let payloads = world.clients[subscriber].payloads().into_iter();
        let received: Vec<usize> =
            payloads.map(|payload| payload.parse().expect("a number")).filter(has_parity).collect();
        assert_eq!(received, (0..80).filter(has_parity).collect::<Vec<_>>());
    }
}

#[test]
fn no_local_applies_to_a_publishers_own_messages() {
    let mut world = World::new(2);
    let (own, other) = (world.client("own"), world.client("other"));
    world.connect(own, 0, false, HOUR_S);
    world.clients[own].subscribe("a", QoS::AtLeastOnce, true);
    world.run(100);
    world.connect(other, 1, true, 0);
    world.publish_and_wait(own, "a", "mine", QoS::AtLeastOnce);
    world.publish_and_wait(other, "a", "theirs", QoS::AtLeastOnce);
    world.run(100);
    assert_eq!(world.clients[own].payloads(), ["theirs"], "[MQTT-3.8.3-3]");
    // Nor when they are read from the log later.
    world.publish(own, "a", "mine too", QoS::AtLeastOnce);
    world.run(50);
    world.disconnect(own);
    world.publish_and_wait(other, "a", "theirs too", QoS::AtLeastOnce);
    world.connect(own, 1, false, HOUR_S);
    world.run(500);
    assert_eq!(world.clients[own].payloads(), ["theirs", "theirs too"]);
}

#[test]
fn a_full_queue_leaves_further_messages_in_the_log() {
    let mut world = World::with(2, 0, Plan::default(), |settings| settings.session_queue_messages = 20, |_| {});
    let (slow, publisher) = (world.client("slow"), world.client("p"));
    world.clients[slow].withholds_acks = true;
    world.clients[slow].receive_maximum = Some(5);
    world.connect(slow, 0, false, HOUR_S);
    world.subscribe(slow, "a/#", QoS::AtLeastOnce);
    world.connect(publisher, 1, true, 0);
    for number in 0..200 {
        world.publish(publisher, &format!("a/{}", number % 7), &format!("{number:03}"), QoS::AtLeastOnce);
        if number % 10 == 9 {
            world.run_until("all messages are acknowledged", |world| world.clients[publisher].is_idle());
        }
    }
    world.run(200);
    let totals = world.broker_totals(0);
    assert!(totals.messages_deferred_to_log > 0);
    assert!(totals.stored_messages <= 25, "{} are in memory", totals.stored_messages);
    assert_eq!(totals.dropped_queue_full, 0);
    world.clients[slow].withholds_acks = false;
    world.clients[slow].acknowledge();
    world.run_until("all messages have arrived", |world| world.clients[slow].received.len() >= 200);
    // Later messages arrive live again.
    world.publish_and_wait(publisher, "a/0", "last", QoS::AtLeastOnce);
    world.run(300);
    let mut payloads = world.clients[slow].payloads();
    assert_eq!(payloads.pop(), Some("last"));
    for topic in 0..7 {
        let of_topic = |number: &usize| number % 7 == topic;
        let received: Vec<usize> =
            payloads.iter().map(|payload| payload.parse().expect("a number")).filter(of_topic).collect();
        assert_eq!(received, (0..200).filter(of_topic).collect::<Vec<_>>(), "each message must arrive once, in order");
    }
}

#[test]
fn publishers_ahead_of_the_log_are_paused() {
    let mut world = World::with(2, 0, Plan::default(), |_| {}, |cluster| cluster.publishing_max_bytes = 2_000);
    let (publisher, subscriber) = (world.client("p"), world.client("s"));
    world.connect(publisher, 0, true, 0);
    world.connect(subscriber, 1, true, 0);
    world.subscribe(subscriber, "a", QoS::AtLeastOnce);
    let payload = "x".repeat(300);
    for _ in 0..20 {
        world.publish(publisher, "a", &payload, QoS::AtLeastOnce);
    }
    world.settle(0);
    assert!(world.broker_totals(0).clients_paused_for_cluster > 0);
    world.run_until("all messages are acknowledged", |world| world.clients[publisher].is_idle());
    world.run(100);
    assert_eq!(world.clients[subscriber].received.len(), 20);
}

#[test]
fn a_resent_qos_2_message_is_delivered_once_after_its_node_died() {
    for after_ms in 0..40 {
        let mut world = World::new(3);
        let (publisher, subscriber) = (world.client("p"), world.client("s"));
        world.connect(subscriber, 1, false, HOUR_S);
        world.subscribe(subscriber, "a", QoS::ExactlyOnce);
        world.connect(publisher, 0, false, HOUR_S);
        world.publish(publisher, "a", "once", QoS::ExactlyOnce);
        world.run(after_ms);
        world.kill(0);
        world.run(8_000);
        world.connect(publisher, 2, false, HOUR_S);
        world.run_until("the message is complete", |world| world.clients[publisher].is_idle());
        world.run(500);
        assert_eq!(world.clients[subscriber].payloads(), ["once"], "after {after_ms} ms");
    }
}

#[test]
fn messages_expired_from_the_log_are_counted() {
    let mut world = World::new(2);
    let (client, publisher) = (world.client("c"), world.client("p"));
    world.connect(client, 0, false, HOUR_S);
    world.subscribe(client, "a", QoS::AtLeastOnce);
    world.disconnect(client);
    world.connect(publisher, 0, true, 0);
    world.publish_and_wait(publisher, "a", "old", QoS::AtLeastOnce);
    world.store.age_out();
    world.publish_and_wait(publisher, "a", "new", QoS::AtLeastOnce);
    world.connect(client, 1, false, HOUR_S);
    world.run_until("the new message has arrived", |world| world.clients[client].payloads() == ["new"]);
    assert!(world.broker_totals(1).dropped_log_retention > 0);
}

#[test]
fn an_idle_session_is_saved_periodically() {
    let mut world = World::new(2);
    let (idle, publisher) = (world.client("idle"), world.client("p"));
    world.connect(idle, 0, false, HOUR_S);
    world.subscribe(idle, "nothing", QoS::AtLeastOnce);
    world.connect(publisher, 1, true, 0);
    for number in 0..20 {
        world.publish_and_wait(publisher, &format!("a/{number}"), "x", QoS::AtLeastOnce);
    }
    world.run(61_000);
    world.store.age_out();
    world.kill(0);
    world.run(8_000);
    world.connect(idle, 1, false, HOUR_S);
    world.run(200);
    assert_eq!(world.broker_totals(1).dropped_log_retention, 0, "its saved position must be past these messages");
}
