//! Wills in a cluster are published once, by any node.

use tautwire_engine::mutant::{Mutant, mutate};
use tautwire_protocol::{DisconnectReason, QoS};

use crate::client::WillMessage;
use crate::world::{Plan, World};

const HOUR_S: u32 = 3600;

/// A world with a watcher of wills on node 1, and a client with a will.
fn world(delay_s: u32) -> (World, usize, usize) {
    world_of(0, delay_s)
}

fn world_of(seed: u64, delay_s: u32) -> (World, usize, usize) {
    let mut world = World::with(3, seed, Plan::default(), |_| {}, |_| {});
    let (watcher, client) = (world.client("watcher"), world.client("c"));
    world.connect(watcher, 1, false, HOUR_S);
    world.subscribe(watcher, "w", QoS::ExactlyOnce);
    world.clients[client].will = Some(WillMessage { delay_s, ..WillMessage::new("w", "gone") });
    (world, watcher, client)
}

#[test]
fn the_will_of_a_broken_connection_is_published() {
    for expiry_s in [0, HOUR_S] {
        let (mut world, watcher, client) = world(0);
        world.connect(client, 0, true, expiry_s);
        world.run(1_000);
        assert!(world.clients[watcher].received.is_empty());
        world.cut_off(client);
        world.run_until("the will has arrived", |world| world.clients[watcher].payloads() == ["gone"]);
        world.run(20_000);
        assert_eq!(world.clients[watcher].payloads(), ["gone"], "the will must arrive once [MQTT-3.1.2-10]");
    }
}

#[test]
fn disconnect_removes_the_will() {
    let run = || {
        for expiry_s in [0, HOUR_S] {
            let (mut world, watcher, client) = world(0);
            world.connect(client, 0, true, expiry_s);
            world.disconnect(client);
            world.run(20_000);
            assert!(world.clients[watcher].received.is_empty(), "[MQTT-3.14.4-3]");
        }
    };
    run();
    mutate(Some(Mutant::OmitsWillRemoval));
    let found = std::panic::catch_unwind(run);
    mutate(None);
    assert!(found.is_err(), "the test does not detect the mutant");
}

#[test]
fn disconnect_with_will_message_publishes_the_will() {
    let (mut world, watcher, client) = world(0);
    world.connect(client, 0, false, HOUR_S);
    world.clients[client].send_disconnect_reason(DisconnectReason::DisconnectWithWillMessage);
    world.settle(0);
    world.run_until("the will has arrived", |world| world.clients[watcher].payloads() == ["gone"]);
}

#[test]
fn a_delayed_will_is_published_unless_the_client_reconnects_anywhere() {
    let (mut world, watcher, client) = world(10);
    world.connect(client, 0, false, HOUR_S);
    world.cut_off(client);
    world.run(9_000);
    world.connect(client, 2, false, HOUR_S);
    world.run(20_000);
    assert!(world.clients[watcher].received.is_empty(), "[MQTT-3.1.3-9]");
    world.cut_off(client);
    world.run(9_900);
    assert!(world.clients[watcher].received.is_empty());
    world.run_until("the will has arrived", |world| world.clients[watcher].payloads() == ["gone"]);
}

#[test]
fn a_delayed_will_is_published_when_its_session_ends_earlier() {
    let (mut world, watcher, client) = world(100);
    world.connect(client, 0, false, 5);
    world.cut_off(client);
    world.run(4_900);
    assert!(world.clients[watcher].received.is_empty());
    world.run(1_000);
    assert_eq!(world.clients[watcher].payloads(), ["gone"], "[MQTT-3.1.2-8]");
    // A clean start also ends the session.
    let (mut world, watcher, client) = self::world(100);
    world.connect(client, 0, false, HOUR_S);
    world.cut_off(client);
    world.clients[client].will = None;
    world.connect(client, 2, true, 0);
    world.run(1_000);
    assert_eq!(world.clients[watcher].payloads(), ["gone"]);
}

#[test]
fn the_wills_of_a_dead_nodes_clients_are_published_by_others() {
    for (expiry_s, delay_s) in [(0, 0), (HOUR_S, 0), (HOUR_S, 20)] {
        let (mut world, watcher, client) = world(delay_s);
        // CONNACK is sent after the will is saved, so the node may die right after it.
        world.connect(client, 0, false, expiry_s);
        world.kill(0);
        world.run(8_000);
        if delay_s > 0 {
            assert!(world.clients[watcher].received.is_empty());
            world.run(20_000);
        }
        world.run(5_000);
        assert_eq!(world.clients[watcher].payloads(), ["gone"], "{expiry_s} {delay_s}");
    }
}

#[test]
fn a_connack_that_does_not_wait_for_the_will_is_found() {
    let run = || {
        let is_published = |seed| {
            let (mut world, watcher, client) = world_of(seed, 0);
            world.plan = Plan { lost: 30, ..Plan::default() };
            world.begin_connecting(client, 0, false, 0);
            while world.clients[client].accepted == 0 && world.clients[client].at.is_some() {
                world.run(1);
            }
            let was_accepted = world.clients[client].accepted > 0;
            world.kill(0);
            world.plan = Plan::default();
            world.run(15_000);
            world.clients[watcher].payloads() == ["gone"] || !was_accepted
        };
        (0..20).all(is_published)
    };
    assert!(run());
    mutate(Some(Mutant::SendsConnAckBeforeWillSaved));
    let is_ok = run();
    mutate(None);
    assert!(!is_ok, "the test does not detect the mutant");
}

#[test]
fn a_taken_over_client_leaves_its_will() {
    for place in [0, 2] {
        let (mut world, watcher, client) = world(0);
        world.connect(client, 0, false, HOUR_S);
        let again = world.client("c");
        world.connect(again, place, false, HOUR_S);
        world.run(1_000);
        assert_eq!(world.clients[watcher].payloads(), ["gone"], "on {place}");
    }
}

#[test]
fn refused_clients_leave_no_wills() {
    let (mut world, watcher, _) = world(0);
    let mut refused = 0;
    for round in 0..20 {
        let clients: Vec<_> = (0..3).map(|_| world.client("same")).collect();
        for (place, client) in clients.iter().enumerate() {
            world.clients[*client].will = Some(WillMessage::new("w", &format!("{round} {place}")));
            world.begin_connecting(*client, place, true, 0);
            world.run(round % 5);
        }
        world.run(8_000);
        clients.iter().for_each(|client| world.disconnect(*client));
        for (place, client) in clients.into_iter().enumerate() {
            let was_accepted = world.clients[client].accepted > 0;
            let is_published = world.clients[watcher].payloads().contains(&&*format!("{round} {place}"));
            assert!(was_accepted || !is_published, "round {round}, node {place}");
            refused += usize::from(!was_accepted);
        }
    }
    assert!(refused > 0, "no client was refused");
}

#[test]
fn a_will_is_retained_and_expires_as_specified() {
    let (mut world, watcher, client) = world(0);
    world.clients[client].will = Some(WillMessage {
        qos: QoS::AtMostOnce,
        is_retained: true,
        message_expiry_s: Some(10),
        ..WillMessage::new("w", "gone")
    });
    world.connect(client, 0, true, 0);
    // The time before the disconnect does not count.
    world.run(15_000);
    world.cut_off(client);
    world.run(1_000);
    let received = &world.clients[watcher].received;
    assert_eq!(received.iter().map(|one| (&*one.payload, one.is_retained)).collect::<Vec<_>>(), [("gone", false)]);
    let subscribe = |world: &mut World| {
        let reader = world.client(&format!("reader-{}", world.clients.len()));
        world.connect(reader, 2, true, 0);
        world.subscribe(reader, "w", QoS::AtLeastOnce);
        world.run(50);
        world.clients[reader].received.len()
    };
    assert_eq!(subscribe(&mut world), 1);
    world.run(10_000);
    assert_eq!(subscribe(&mut world), 0, "[MQTT-3.3.2-5]");
}

#[test]
fn the_store_removes_an_expired_session() {
    let mut world = World::new(2);
    let client = world.client("c");
    world.connect(client, 0, false, 5);
    world.subscribe(client, "a", QoS::AtLeastOnce);
    world.cut_off(client);
    world.run(5_500);
    assert_eq!(world.store.sessions(), 1);
    world.run(5_000);
    assert_eq!(world.store.sessions(), 0, "[MQTT-4.1.0-2]");
}
