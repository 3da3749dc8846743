//! After SUBACK, a client gets all messages published at any node, at QoS 0 as well.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tautwire_cluster::mutant as of_member;
use tautwire_engine::mutant::{Mutant, mutate};
use tautwire_protocol::QoS;

use crate::world::{Plan, World};

const HOUR_S: u32 = 3600;
/// The maximum time a subscription waits for other nodes; twice that if another one was requested before it.
const INTEREST_SYNC_TIMEOUT_MS: u64 = 1_000;

/// Three nodes whose bus servers exchange subscriptions slowly.
fn world(seed: u64) -> World {
    let mut world = World::with(3, seed, Plan::default(), |_| {}, |_| {});
    world.bus.latency_ms = 300;
    world
}

/// Publishers on the second and the third node.
fn publishers(world: &mut World) -> [usize; 2] {
    [1, 2].map(|place| {
        let publisher = world.client(&format!("p{place}"));
        world.connect(publisher, place, true, 0);
        publisher
    })
}

/// Asserts that `client` gets a message to `topic` from each of these publishers.
fn assert_receives(world: &mut World, client: usize, topic: &str, publishers: &[usize]) {
    for publisher in publishers {
        world.publish(*publisher, topic, &format!("{topic} {publisher}"), QoS::AtMostOnce);
    }
    world.run(20);
    let mut payloads = world.clients[client].payloads();
    payloads.sort_unstable();
    let expected: Vec<_> = publishers.iter().map(|publisher| format!("{topic} {publisher}")).collect();
    assert_eq!(payloads, expected);
    world.clients[client].received.clear();
}

/// Clients that subscribe one after the other, and concurrently.
fn subscribe_and_receive(seed: u64) {
    let mut world = world(seed);
    let publishers = publishers(&mut world);
    let clients: Vec<_> = (0..4).map(|number| world.client(&format!("c{number}"))).collect();
    for client in &clients {
        world.connect(*client, 0, true, 0);
    }
    for (number, client) in clients.iter().enumerate() {
        // The last client has the same filter as the first one, and both wait for it.
        world.clients[*client].subscribe(&format!("a/{}", number % 3), QoS::AtMostOnce, false);
        world.run(seed % 50);
    }
    for (number, client) in clients.iter().enumerate().take(3) {
        let is_same = |other: usize| other % 3 == number;
        world.run_until("SUBACK has arrived", |world| !world.clients[*client].suback.is_empty());
        let last =
            clients.iter().enumerate().rfind(|(other, _)| is_same(*other)).expect("at least the client itself").1;
        world.run_until("SUBACK has arrived", |world| !world.clients[*last].suback.is_empty());
        world.clients[*last].received.clear();
        assert_receives(&mut world, *client, &format!("a/{number}"), &publishers);
        assert_eq!(world.clients[*last].received.len(), if last == client { 0 } else { 2 });
    }
    // A filter that is subscribed to again is announced again.
    for _ in 0..3 {
        world.clients[clients[1]].unsubscribe("a/1");
        world.clients[clients[1]].suback.clear();
        world.subscribe(clients[1], "a/1", QoS::AtMostOnce);
        assert_receives(&mut world, clients[1], "a/1", &publishers);
    }
    for place in 0..3 {
        let status = world.places[place].node.as_ref().expect("the node runs").member.status(world.now_ms);
        assert_eq!(status.counters.spreads_unanswered, 0);
    }
}

/// Whether one of several runs fails.
fn is_found(run: impl Fn(u64)) -> bool {
    (0..20).any(|seed| catch_unwind(AssertUnwindSafe(|| run(seed))).is_err())
}

#[test]
fn messages_published_on_other_nodes_after_suback_arrive() {
    (0..20).for_each(subscribe_and_receive);
    mutate(Some(Mutant::SendsSubAckBeforeInterestSync));
    let found = is_found(subscribe_and_receive);
    mutate(None);
    assert!(found, "the test does not detect a SUBACK that does not wait");
    for mutant in [
        of_member::Mutant::ReportsBeforeVerified,
        of_member::Mutant::ProbesTooEarly,
        of_member::Mutant::CountsOneEchoForAll,
    ] {
        of_member::mutate(Some(mutant));
        let found = is_found(subscribe_and_receive);
        of_member::mutate(None);
        assert!(found, "the test does not detect {mutant:?}");
    }
}

#[test]
fn messages_published_on_other_nodes_after_a_session_moves_arrive() {
    let run = |seed| {
        let mut world = world(seed);
        let client = world.client("c");
        world.connect(client, 1, false, HOUR_S);
        world.subscribe(client, "a", QoS::AtLeastOnce);
        world.subscribe(client, "b/+", QoS::AtLeastOnce);
        world.disconnect(client);
        let publishers = publishers(&mut world);
        assert!(world.connect(client, 0, false, HOUR_S), "the session was not resumed");
        assert_receives(&mut world, client, "a", &publishers);
        assert_receives(&mut world, client, "b/c", &publishers);
        // The node has dropped the filters when the client returns, and so have the others.
        world.disconnect(client);
        world.run(1_000);
        assert!(world.connect(client, 0, false, HOUR_S), "the session was not resumed");
        assert_receives(&mut world, client, "b/c", &publishers);
    };
    (0..20).for_each(run);
    mutate(Some(Mutant::SendsSubAckBeforeInterestSync));
    let found = is_found(run);
    mutate(None);
    assert!(found, "the test does not detect a CONNACK that does not wait");
}

#[test]
fn a_node_that_does_not_support_probes_is_awaited_once() {
    let mut world = world(0);
    world.ignores_probes = Some(2);
    let [beside, _] = publishers(&mut world);
    let client = world.client("c");
    world.connect(client, 0, true, 0);
    let unanswered = |world: &World| {
        let status = world.places[0].node.as_ref().expect("the node runs").member.status(world.now_ms);
        status.counters.spreads_unanswered
    };
    let began_ms = world.now_ms;
    world.subscribe(client, "a", QoS::AtMostOnce);
    let waited_ms = world.now_ms - began_ms;
    assert!((INTEREST_SYNC_TIMEOUT_MS..INTEREST_SYNC_TIMEOUT_MS + 200).contains(&waited_ms), "{waited_ms}");
    assert_eq!(unanswered(&world), 1);
    // Nodes that answer are still waited for.
    for filter in ["b", "c", "d"] {
        let began_ms = world.now_ms;
        world.clients[client].suback.clear();
        world.subscribe(client, filter, QoS::AtMostOnce);
        assert!(world.now_ms - began_ms < 500, "{}", world.now_ms - began_ms);
        assert_receives(&mut world, client, filter, &[beside]);
    }
    assert_eq!(unanswered(&world), 1);
}

#[test]
fn a_node_that_responds_again_is_awaited_again() {
    (0..20).for_each(|seed| {
        let mut world = world(seed);
        let publishers = publishers(&mut world);
        let client = world.client("c");
        world.connect(client, 0, true, 0);
        world.ignores_probes = Some(2);
        world.subscribe(client, "a", QoS::AtMostOnce);
        // The next probe reaches it without being waited for; the one after that is waited for.
        world.ignores_probes = None;
        for filter in ["b", "c"] {
            world.run(1_000);
            world.clients[client].suback.clear();
            world.subscribe(client, filter, QoS::AtMostOnce);
        }
        assert_receives(&mut world, client, "c", &publishers);
    });
}

#[test]
fn dead_nodes_are_not_awaited_and_a_single_node_does_not_wait() {
    let mut world = world(0);
    let client = world.client("c");
    world.connect(client, 0, true, 0);
    world.kill(1);
    world.kill(2);
    world.clients[client].subscribe("a", QoS::AtMostOnce, false);
    world.run(INTEREST_SYNC_TIMEOUT_MS + 200);
    assert!(!world.clients[client].suback.is_empty());
    // Dead nodes are removed after a while.
    world.run(10_000);
    world.bus.latency_ms = 1_000_000;
    world.clients[client].suback.clear();
    world.clients[client].subscribe("b", QoS::AtMostOnce, false);
    world.run(50);
    assert!(!world.clients[client].suback.is_empty());
}
