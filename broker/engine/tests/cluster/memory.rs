//! The memory of an idle session, and its return to activity.

use allocation_counter::measure;
use tautwire_engine::Settings;
use tautwire_engine::Volatile;
use tautwire_protocol::QoS;
use tautwire_router::RetainedLimits;

use crate::client::{Client, WillMessage};
use crate::node::{Node, SHARDS};
use crate::support::{NoDelays, SimulatedBroker};
use crate::world::World;

const DAY_S: u32 = 86_400;
const SESSIONS: usize = 1_000;
/// Clients that connect at the same time.
const CONCURRENT_CONNECTS: usize = 50;
/// Maximum heap bytes for each session in the node, and in its shards compared to a single broker. An allocator adds some overhead.
const NODE_MAX_BYTES: i64 = 210;
/// The same for a filter of its own, in the filters that the node announces.
const PATTERN_MAX_BYTES: i64 = 105;
const SHARDS_MAX_BYTES: i64 = 70;

#[derive(Clone, Copy)]
enum Filters {
    None,
    Same,
    OneEach,
}

impl Filters {
    fn of(self, number: usize) -> Option<String> {
        match self {
            Filters::None => None,
            Filters::Same => Some("same".to_owned()),
            Filters::OneEach => Some(format!("d/{number}/cmd")),
        }
    }
}

fn name(number: usize) -> String {
    format!("device-{number:05}")
}

/// The bytes that a node and its shards hold for this many idle sessions.
fn cluster_bytes(sessions: usize, filters: Filters) -> (i64, i64) {
    let mut world = World::new(1);
    for number in 0..sessions {
        let client = world.client(&name(number));
        world.begin_connecting(client, 0, false, DAY_S);
        if number % CONCURRENT_CONNECTS == CONCURRENT_CONNECTS - 1 {
            world.run(40);
            assert!(world.clients.iter().all(|client| client.is_connected()));
        }
    }
    for number in 0..sessions {
        if let Some(filter) = filters.of(number) {
            world.clients[number].subscribe(&filter, QoS::AtLeastOnce, false);
        }
        if number % CONCURRENT_CONNECTS == CONCURRENT_CONNECTS - 1 {
            world.run(40);
        }
    }
    world.run(5_000);
    let Node { member, broker, .. } = world.places[0].node.take().expect("the node runs");
    let shards = broker.into_shards();
    (-measure(|| drop(member)).bytes_current, -measure(|| drop(shards)).bytes_current)
}

/// The bytes that the shards of a single broker hold for the same.
fn single_broker_bytes(sessions: usize, filters: Filters) -> i64 {
    let retained = RetainedLimits { messages: 100, bytes: 1 << 20 };
    let mut broker = SimulatedBroker::new(SHARDS, Settings::default(), retained, |_| Volatile);
    let connect = |number| {
        let mut client = Client::new(&name(number));
        client.connect(false, DAY_S);
        (client, broker.connect(number % SHARDS, 1 << 20))
    };
    let mut clients: Vec<_> = (0..sessions).map(connect).collect();
    for is_first in [true, false] {
        for (number, (client, socket)) in clients.iter_mut().enumerate() {
            if let Some(filter) = filters.of(number).filter(|_| !is_first) {
                client.subscribe(&filter, QoS::AtLeastOnce, false);
            }
            broker.send(*socket, &client.take_output());
        }
        broker.settle(&mut NoDelays);
        for (client, socket) in &mut clients {
            client.receive(&broker.take(*socket, usize::MAX));
            assert!(client.is_connected());
        }
    }
    let shards = broker.into_shards();
    -measure(|| drop(shards)).bytes_current
}

#[test]
fn an_idle_session_uses_little_memory() {
    let each = |none: i64, all: i64| (all - none) / SESSIONS as i64;
    for filters in [Filters::None, Filters::Same, Filters::OneEach] {
        let (none, all) = (cluster_bytes(0, filters), cluster_bytes(SESSIONS, filters));
        let alone = each(single_broker_bytes(0, filters), single_broker_bytes(SESSIONS, filters));
        let (node, shards) = (each(none.0, all.0), each(none.1, all.1) - alone);
        let pattern_max_bytes = if matches!(filters, Filters::OneEach) { PATTERN_MAX_BYTES } else { 0 };
        assert!(node <= NODE_MAX_BYTES + pattern_max_bytes, "{node} bytes in the node for each session");
        assert!(
            shards <= SHARDS_MAX_BYTES,
            "{shards} bytes in the shards for each session, compared to {alone} in a single broker"
        );
    }
}

#[test]
fn an_idle_session_resumes() {
    let mut world = World::new(2);
    let (client, other, watcher) = (world.client("c"), world.client("other"), world.client("watcher"));
    world.clients[client].will = Some(WillMessage::new("will/c", "gone"));
    world.connect(client, 0, false, DAY_S);
    world.subscribe(client, "a/#", QoS::ExactlyOnce);
    world.connect(other, 1, true, 0);
    world.connect(watcher, 1, true, 0);
    world.subscribe(watcher, "#", QoS::ExactlyOnce);
    for round in 0..3 {
        world.run(10_000);
        world.publish_and_wait(client, "b", &format!("from {round}"), QoS::ExactlyOnce);
        world.run(10_000);
        world.publish_and_wait(other, "a/1", &format!("to {round}"), QoS::ExactlyOnce);
        world.run_until("the message has arrived", |world| world.clients[client].received.len() == round + 1);
    }
    world.run(10_000);
    // The next node finds the last saved state, and the will.
    world.cut_off(client);
    world.publish_and_wait(other, "a/1", "while it was offline", QoS::ExactlyOnce);
    world.run_until("the will has arrived", |world| world.clients[watcher].payloads().contains(&"gone"));
    world.clients[client].will = None;
    assert!(world.connect(client, 1, false, DAY_S), "the session was not resumed");
    world.run_until("the message has arrived", |world| {
        world.clients[client].payloads().contains(&"while it was offline")
    });
    // An idle session moves to the node to which its client connects.
    world.run(10_000);
    let again = world.client("c");
    assert!(world.connect(again, 0, false, DAY_S), "the session was not resumed");
    world.publish_and_wait(other, "a/1", "at last", QoS::ExactlyOnce);
    world.run_until("the message has arrived", |world| world.clients[again].payloads().contains(&"at last"));
    let seen = world.clients[watcher].payloads();
    assert_eq!(seen.iter().filter(|payload| payload.starts_with("from")).count(), 3, "{seen:?}");
}
