//! Messages that the log does not store in time.

use tautwire_engine::mutant::{Mutant, mutate};
use tautwire_protocol::{QoS, ReasonCode};

use crate::world::{Plan, World};

const HOUR_S: u32 = 3600;
const TIMEOUT_MS: u64 = 2_000;

/// A world whose nodes refuse messages that have waited too long, and a publisher whose node was just cut off from the store, with a first
/// pending message.
fn world() -> (World, usize) {
    let set_member = |member: &mut tautwire_cluster::Settings| member.publish_timeout_ms = TIMEOUT_MS;
    let mut world = World::with_members(1, 0, Plan::default(), |_| {}, |_| {}, set_member);
    let publisher = world.client("p");
    world.connect(publisher, 0, false, HOUR_S);
    world.places[0].is_cut = true;
    // A message in a group that is being appended may arrive, so it is not refused.
    world.publish(publisher, "a", "first", QoS::AtLeastOnce);
    world.settle(0);
    (world, publisher)
}

#[test]
fn a_message_that_the_log_refuses_is_refused_and_the_connection_stays() {
    let run = || {
        let (mut world, publisher) = world();
        let reader = world.client("reader");
        world.publish(publisher, "a", "1", QoS::AtLeastOnce);
        world.clients[publisher].publish("a", "0", QoS::AtMostOnce, true);
        world.publish(publisher, "a", "3", QoS::AtLeastOnce);
        world.run(4_000);
        assert!(!world.clients[publisher].is_idle(), "the outcome of earlier messages is not known");
        world.places[0].is_cut = false;
        world.run_until("all messages are acknowledged", |world| world.clients[publisher].is_idle());
        assert!(world.clients[publisher].is_connected());
        assert_eq!(world.clients[publisher].done, ["first"]);
        assert_eq!(
            world.clients[publisher].refused,
            ["1", "3"],
            "refusals must keep the order of the packets [MQTT-4.6.0-2]"
        );
        assert_eq!(world.clients[publisher].reasons, [ReasonCode::ImplementationSpecificError; 2]);
        // Publishing continues, and the packet identifiers are free. The pending messages have been routed from the log before the reader
        // subscribes.
        world.run(2_000);
        world.connect(reader, 0, true, 0);
        world.subscribe(reader, "a", QoS::ExactlyOnce);
        for number in 0..30 {
            world.publish_and_wait(publisher, "a", &number.to_string(), QoS::ExactlyOnce);
        }
        world.run(100);
        assert_eq!(world.clients[reader].received.len(), 30, "{:?}", world.clients[reader].payloads());
    };
    run();
    mutate(Some(Mutant::AcknowledgesRefusedMessages));
    let found = std::panic::catch_unwind(run);
    mutate(None);
    assert!(found.is_err(), "the test does not detect the mutant");
}

#[test]
fn a_refused_qos_2_message_frees_its_identifier() {
    let set_member = |member: &mut tautwire_cluster::Settings| member.publish_timeout_ms = TIMEOUT_MS;
    let mut world = World::with_members(1, 0, Plan::default(), |_| {}, |_| {}, set_member);
    let (publisher, reader) = (world.client("p"), world.client("reader"));
    world.connect(publisher, 0, false, HOUR_S);
    world.connect(reader, 0, true, 0);
    world.subscribe(reader, "#", QoS::ExactlyOnce);
    world.store.is_log_closed = true;
    world.publish(publisher, "a", "first", QoS::ExactlyOnce);
    world.run(500);
    for number in 0..5 {
        world.publish(publisher, "a", &number.to_string(), QoS::ExactlyOnce);
    }
    // Acknowledgements come in the order of the packets, and the outcome of the first is not known [MQTT-4.6.0-3].
    world.run(5_000);
    assert_eq!(world.clients[publisher].in_flight(), 6);
    world.store.is_log_closed = false;
    world.run_until("the messages are complete", |world| world.clients[publisher].is_idle());
    assert_eq!(world.clients[publisher].done, ["first"]);
    assert_eq!(world.clients[publisher].refused, ["0", "1", "2", "3", "4"]);
    for number in 0..30 {
        world.publish_and_wait(publisher, "a", &format!("again {number}"), QoS::ExactlyOnce);
    }
    world.run(100);
    assert_eq!(world.clients[reader].received.len(), 31);
}

#[test]
fn a_client_of_3_1_1_is_disconnected() {
    let (mut world, publisher) = world();
    let old = world.client("old");
    world.clients[old].is_v3 = true;
    world.places[0].is_cut = false;
    world.run(100);
    world.connect(old, 0, false, HOUR_S);
    world.store.is_log_closed = true;
    world.publish(old, "a", "first", QoS::AtLeastOnce);
    world.run(100);
    world.publish(old, "a", "second", QoS::AtLeastOnce);
    world.run(20_000);
    assert_eq!(world.clients[old].at, None);
    assert!(world.clients[publisher].is_connected());
    world.store.is_log_closed = false;
    world.connect(old, 0, false, HOUR_S);
    world.run_until("both messages are complete", |world| world.clients[old].is_idle());
}

#[test]
fn resent_messages_of_3_1_1_keep_their_order() {
    for qos in [QoS::AtLeastOnce, QoS::ExactlyOnce] {
        let set_member = |member: &mut tautwire_cluster::Settings| member.publish_timeout_ms = TIMEOUT_MS;
        let mut world = World::with_members(2, 0, Plan::default(), |_| {}, |_| {}, set_member);
        let (old, reader) = (world.client("old"), world.client("reader"));
        world.clients[old].is_v3 = true;
        world.connect(old, 0, false, HOUR_S);
        world.connect(reader, 1, true, 0);
        world.subscribe(reader, "a", QoS::ExactlyOnce);
        world.store.is_log_closed = true;
        for payload in ["1", "2", "3", "4"] {
            world.publish(old, "a", payload, qos);
            world.run(TIMEOUT_MS / 3);
        }
        // The second message has waited too long by now, those after it have not, and the outcome of the first is known when the log is
        // open.
        world.run(100);
        world.store.is_log_closed = false;
        world.run_until("the client is disconnected", |world| world.clients[old].at.is_none());
        world.connect(old, 1, false, HOUR_S);
        world.run_until("all messages are complete", |world| world.clients[old].is_idle());
        world.run(1_000);
        let mut first: Vec<&str> = Vec::new();
        for payload in world.clients[reader].payloads() {
            if !first.contains(&payload) {
                first.push(payload);
            }
        }
        assert_eq!(first, ["1", "2", "3", "4"], "{qos:?} [MQTT-4.6.0-6]");
    }
}
