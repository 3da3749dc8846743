//! Acknowledgement levels of messages in a cluster.

use tautwire_cluster::mutant::{Mutant, mutate};
use tautwire_engine::{ClusterSettings, Settings};
use tautwire_protocol::{QoS, ReasonCode};
use tautwire_session::AckLevel;

use crate::world::{Plan, World};

const HOUR_S: u32 = 3600;
const TIMEOUT_MS: u64 = 2_000;
/// The maximum number of pending messages of one client.
const PENDING_MAX: usize = 1_024;

/// Sets acknowledgement levels by the first level of the topic.
fn by_topic(settings: &mut Settings) {
    let levels = [AckLevel::Memory, AckLevel::Os, AckLevel::Disk, AckLevel::Quorum];
    let filters = ["memory/#", "os/#", "disk/#", "quorum/#"].map(Box::from);
    settings.acks.topics = filters.into_iter().zip(levels).collect();
}

fn set_nothing(_: &mut ClusterSettings) {}

/// A world of nodes, with a publisher on the first one.
fn world(nodes: usize) -> (World, usize) {
    let mut world = World::with(nodes, 0, Plan::default(), by_topic, set_nothing);
    let publisher = world.client("p");
    world.connect(publisher, 0, false, HOUR_S);
    (world, publisher)
}

/// A client on the last node that subscribes to everything.
fn reader(world: &mut World) -> usize {
    let (reader, place) = (world.client("reader"), world.places.len() - 1);
    world.connect(reader, place, true, 0);
    world.subscribe(reader, "#", QoS::ExactlyOnce);
    reader
}

#[test]
fn ack_level_memory_acknowledges_before_the_log() {
    let (mut world, publisher) = world(2);
    let reader = reader(&mut world);
    world.places[0].is_cut = true;
    world.publish(publisher, "memory/a", "memory", QoS::AtLeastOnce);
    world.settle(0);
    assert_eq!(world.clients[publisher].done, ["memory"]);
    for level in ["os", "disk", "quorum", "as for all"] {
        world.publish(publisher, &format!("{level}/a"), level, QoS::AtLeastOnce);
    }
    world.run(1_000);
    assert_eq!(world.clients[publisher].done, ["memory"], "the others must wait for the quorum");
    world.places[0].is_cut = false;
    world.run_until("all messages are acknowledged", |world| world.clients[publisher].is_idle());
    world.run(500);
    let mut payloads = world.clients[reader].payloads();
    payloads.sort_unstable();
    assert_eq!(payloads, ["as for all", "disk", "memory", "os", "quorum"]);
    assert_eq!(world.broker_totals(0).acknowledged_messages_lost, 0);
}

#[test]
fn acknowledgements_keep_the_message_order_across_levels() {
    for qos in [QoS::AtLeastOnce, QoS::ExactlyOnce] {
        let (mut world, publisher) = world(1);
        world.places[0].is_cut = true;
        for (number, level) in ["memory", "quorum", "memory", "disk", "memory"].into_iter().enumerate() {
            world.publish(publisher, &format!("{level}/a"), &number.to_string(), qos);
        }
        world.run(1_000);
        assert_eq!(world.clients[publisher].answers, 1, "only the first does not wait for others [MQTT-4.6.0-2]");
        world.places[0].is_cut = false;
        world.run_until("all messages are acknowledged", |world| world.clients[publisher].is_idle());
        assert_eq!(world.clients[publisher].done, ["0", "1", "2", "3", "4"]);
        assert_eq!(world.clients[publisher].answers, 5);
    }
}

#[test]
fn an_acknowledgement_does_not_wait_for_an_earlier_pubcomp() {
    let (mut world, publisher) = world(1);
    world.store.is_log_closed = true;
    world.publish(publisher, "memory/a", "twice", QoS::ExactlyOnce);
    world.run(100);
    world.publish(publisher, "memory/a", "once", QoS::AtLeastOnce);
    world.run(100);
    // PUBCOMP means that the packet identifier is free in the whole cluster.
    assert_eq!(world.clients[publisher].done, ["once"]);
    world.store.is_log_closed = false;
    world.run_until("all messages are complete", |world| world.clients[publisher].is_idle());
}

#[test]
fn acknowledged_messages_that_the_log_refuses_are_counted() {
    for is_v3 in [false, true] {
        let set_member = |member: &mut tautwire_cluster::Settings| member.publish_timeout_ms = TIMEOUT_MS;
        let mut world = World::with_members(1, 0, Plan::default(), by_topic, set_nothing, set_member);
        let publisher = world.client("p");
        let reader = reader(&mut world);
        world.clients[publisher].is_v3 = is_v3;
        world.connect(publisher, 0, false, HOUR_S);
        world.store.is_log_closed = true;
        // A message in a group that is being appended may arrive, so it is not refused.
        world.publish(publisher, "memory/a", "first", QoS::AtLeastOnce);
        world.run(100);
        world.publish(publisher, "memory/a", "lost", QoS::AtLeastOnce);
        world.publish(publisher, "memory/a", "lost, too", QoS::ExactlyOnce);
        world.run(100);
        assert_eq!(world.clients[publisher].done, ["first", "lost"]);
        assert_eq!(world.clients[publisher].in_flight(), 1, "one message must wait for PUBCOMP");
        world.run(4_000);
        world.store.is_log_closed = false;
        world.run_until("the last message is complete", |world| world.clients[publisher].is_idle());
        assert!(world.clients[publisher].is_connected());
        assert_eq!(world.clients[publisher].done, ["first", "lost", "lost, too"]);
        assert_eq!(world.clients[publisher].refused, [""; 0]);
        let totals = world.broker_totals(0);
        assert_eq!((totals.acknowledged_messages_lost, totals.publishes_refused), (2, 0));
        // All packet identifiers are free, and messages of any level are accepted.
        for number in 0..30 {
            let topic = ["memory/a", "quorum/a"][number % 2];
            world.publish_and_wait(publisher, topic, &number.to_string(), QoS::ExactlyOnce);
        }
        world.run(100);
        assert_eq!(world.clients[publisher].answers, 33, "each message is acknowledged once");
        let payloads = world.clients[reader].payloads();
        assert!(payloads.len() == 31 && payloads.contains(&"first"), "{payloads:?}");
    }
}

#[test]
fn a_refusal_is_reported_even_if_an_earlier_one_was_not() {
    let set_member = |member: &mut tautwire_cluster::Settings| member.publish_timeout_ms = TIMEOUT_MS;
    let mut world = World::with_members(1, 0, Plan::default(), by_topic, set_nothing, set_member);
    let publisher = world.client("p");
    world.connect(publisher, 0, false, HOUR_S);
    world.store.is_log_closed = true;
    for payload in ["memory first", "memory lost", "quorum first", "quorum refused"] {
        let level = payload.split(' ').next().unwrap_or_default();
        world.publish(publisher, &format!("{level}/a"), payload, QoS::AtLeastOnce);
        world.run(100);
    }
    world.run(4_000);
    world.store.is_log_closed = false;
    world.run_until("all messages are acknowledged", |world| world.clients[publisher].is_idle());
    assert_eq!(world.clients[publisher].done, ["memory first", "memory lost", "quorum first"]);
    assert_eq!(world.clients[publisher].refused, ["quorum refused"]);
    assert_eq!(world.clients[publisher].reasons, [ReasonCode::ImplementationSpecificError]);
    let totals = world.broker_totals(0);
    assert_eq!((totals.acknowledged_messages_lost, totals.publishes_refused), (1, 1));
}

#[test]
fn an_early_acknowledgement_after_an_unreported_refusal_stays() {
    let set_member = |member: &mut tautwire_cluster::Settings| member.publish_timeout_ms = TIMEOUT_MS;
    let mut world = World::with_members(1, 0, Plan::default(), by_topic, set_nothing, set_member);
    let (publisher, reader) = (world.client("p"), reader(&mut world));
    world.connect(publisher, 0, false, HOUR_S);
    world.store.is_log_closed = true;
    // The second message is refused; the refusal is sent when the outcome of the first is known.
    for payload in ["first", "lost"] {
        world.publish(publisher, "memory/a", payload, QoS::AtLeastOnce);
        world.run(100);
    }
    world.run(3_000);
    for (payload, qos) in [("later", QoS::AtLeastOnce), ("later, too", QoS::ExactlyOnce)] {
        world.publish(publisher, "memory/a", payload, qos);
    }
    world.run(100);
    world.store.is_log_closed = false;
    world.run_until("all messages are complete", |world| world.clients[publisher].is_idle());
    world.run(500);
    assert_eq!(world.clients[reader].payloads(), ["first", "later", "later, too"]);
    assert_eq!(world.broker_totals(0).acknowledged_messages_lost, 1);
}

/// Small messages of a topic are acknowledged at once, and large ones are not.
fn send_again_behind_a_refused_message() {
    let set_cluster = |cluster: &mut ClusterSettings| cluster.ack_before_stored_max_bytes = 200;
    let set_member = |member: &mut tautwire_cluster::Settings| member.publish_timeout_ms = TIMEOUT_MS;
    let mut world = World::with_members(1, 0, Plan::default(), by_topic, set_cluster, set_member);
    let (publisher, reader) = (world.client("p"), reader(&mut world));
    world.clients[publisher].is_v3 = true;
    world.connect(publisher, 0, false, HOUR_S);
    world.store.is_log_closed = true;
    world.publish(publisher, "memory/a", "first", QoS::AtLeastOnce);
    world.run(100);
    let large = "x".repeat(300);
    world.publish(publisher, "memory/a", &large, QoS::AtLeastOnce);
    world.run(3_000);
    // It is refused by now; the refusal is sent when the outcome of the first is known.
    world.publish(publisher, "memory/a", "later", QoS::AtLeastOnce);
    world.run(100);
    assert_eq!(world.clients[publisher].done, ["first"]);
    world.store.is_log_closed = false;
    world.run_until("the client is disconnected", |world| world.clients[publisher].at.is_none());
    world.connect(publisher, 0, false, HOUR_S);
    world.run_until("both messages are sent again and acknowledged", |world| world.clients[publisher].is_idle());
    world.run(500);
    assert_eq!(world.clients[reader].payloads(), ["first", &large, "later"]);
}

#[test]
fn resent_messages_of_3_1_1_keep_their_order_at_memory() {
    send_again_behind_a_refused_message();
    mutate(Some(Mutant::AcceptsAfterRefusal));
    let found = std::panic::catch_unwind(send_again_behind_a_refused_message);
    mutate(None);
    assert!(found.is_err(), "the test does not detect the mutant");
}

#[test]
fn only_ack_level_memory_loses_messages_with_its_node() {
    let (mut world, publisher) = world(3);
    let reader = reader(&mut world);
    world.places[0].is_cut = true;
    for level in ["memory", "quorum"] {
        world.publish(publisher, &format!("{level}/a"), level, QoS::AtLeastOnce);
    }
    world.run(500);
    assert_eq!(world.clients[publisher].done, ["memory"]);
    world.kill(0);
    world.run(8_000);
    world.connect(publisher, 1, false, HOUR_S);
    world.run_until("the other message is sent again and acknowledged", |world| world.clients[publisher].is_idle());
    world.run(500);
    assert_eq!(world.clients[reader].payloads(), ["quorum"]);
}

#[test]
fn acknowledged_messages_of_a_node_declared_dead_are_counted() {
    let (mut world, publisher) = world(2);
    world.places[0].is_cut = true;
    world.publish(publisher, "memory/a", "x", QoS::AtLeastOnce);
    world.run(9_000);
    assert_eq!(world.clients[publisher].done, ["x"]);
    world.places[0].is_cut = false;
    world.run(2_000);
    assert_eq!(world.broker_totals(0).acknowledged_messages_lost, 1);
}

#[test]
fn early_acknowledgements_do_not_raise_the_in_flight_limit() {
    let (mut world, publisher) = world(1);
    let reader = reader(&mut world);
    world.store.is_log_closed = true;
    let mut published = 0;
    while world.clients[publisher].is_idle() {
        world.publish(publisher, "memory/a", &published.to_string(), QoS::AtLeastOnce);
        world.settle(0);
        published += 1;
        assert!(published < 2 * PENDING_MAX, "reading is never paused");
    }
    assert_eq!(world.clients[publisher].done.len(), PENDING_MAX);
    assert_eq!(world.broker_totals(0).clients_paused_for_cluster, 1);
    world.store.is_log_closed = false;
    world.run_until("reading from it is resumed", |world| world.clients[publisher].is_idle());
    world.run_until("all messages have arrived", |world| world.clients[reader].received.len() == published);
}

#[test]
fn a_message_that_may_be_too_large_is_not_acknowledged_early() {
    let set_cluster = |cluster: &mut ClusterSettings| cluster.ack_before_stored_max_bytes = 200;
    let mut world = World::with(1, 0, Plan::default(), by_topic, set_cluster);
    let publisher = world.client("p");
    world.connect(publisher, 0, false, HOUR_S);
    world.store.is_log_closed = true;
    let (small, large) = ("x".repeat(100), "x".repeat(300));
    world.publish(publisher, "memory/a", &small, QoS::AtLeastOnce);
    world.publish(publisher, "memory/a", &large, QoS::AtLeastOnce);
    world.run(500);
    assert_eq!(world.clients[publisher].done, [small]);
    world.store.is_log_closed = false;
    world.run_until("both messages are complete", |world| world.clients[publisher].is_idle());
}

#[test]
fn session_acknowledgements_wait_for_the_record_at_any_level() {
    let set = |settings: &mut Settings| settings.acks.default = AckLevel::Memory;
    let mut world = World::with(1, 0, Plan::default(), set, set_nothing);
    let client = world.client("c");
    world.connect(client, 0, false, HOUR_S);
    world.subscribe(client, "a", QoS::AtLeastOnce);
    world.places[0].is_cut = true;
    world.clients[client].unsubscribe("a");
    world.publish(client, "b", "x", QoS::AtLeastOnce);
    world.run(1_000);
    assert_eq!(world.clients[client].done, ["x"], "messages have their own level");
    assert_eq!(world.clients[client].unsubacks, 0);
    world.places[0].is_cut = false;
    world.run_until("UNSUBACK has arrived", |world| world.clients[client].unsubacks == 1);
}
