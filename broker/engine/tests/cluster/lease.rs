//! The behavior of a node whose lease has expired.

use tautwire_protocol::{ConnectReason, QoS};

use crate::world::World;

const HOUR_S: u32 = 3600;

#[test]
fn an_isolated_node_stops_serving_and_restarts() {
    let mut world = World::new(3);
    let (client, publisher) = (world.client("c"), world.client("p"));
    world.connect(client, 0, false, HOUR_S);
    world.subscribe(client, "a", QoS::AtLeastOnce);
    world.connect(publisher, 0, false, HOUR_S);
    world.places[0].is_cut = true;
    world.publish(publisher, "a", "1", QoS::AtLeastOnce);
    world.run(5_000);
    assert!(!world.clients[publisher].is_idle(), "the message must not be acknowledged");
    world.run(3_000);
    assert_eq!(world.broker_totals(0).cluster_lease_expirations, 2, "one expiration for each shard");
    // Messages of QoS 0 are not delivered either.
    world.publish(publisher, "a", "0", QoS::AtMostOnce);
    world.run(100);
    assert!(world.clients[client].received.is_empty());
    // A client that connects here now is refused, and one that connects to another node is served.
    let late = world.client("late");
    world.begin_connecting(late, 0, false, HOUR_S);
    world.run_until("CONNACK has arrived", |world| world.clients[late].connack.is_some());
    assert_eq!(world.clients[late].connack, Some((ConnectReason::ServerUnavailable, false)));
    let moved = world.client("c");
    assert!(world.connect(moved, 1, false, HOUR_S));
    assert!(world.clients[client].at.is_some(), "its old connection must stay silent");
    world.places[0].is_cut = false;
    world.run(5_000);
    assert_eq!(world.clients[client].at, None, "the node must notice that it was declared dead");
    assert_eq!(world.clients[client].disconnected, None, "no DISCONNECT may be sent");
    assert_eq!(world.broker_totals(0).sessions, 0);
    // The same shards serve in the next incarnation.
    world.connect(publisher, 0, false, HOUR_S);
    world.run_until("the message is acknowledged", |world| world.clients[publisher].is_idle());
    world.run_until("the message has arrived", |world| world.clients[moved].payloads() == ["1"]);
}

#[test]
fn a_node_with_a_renewed_lease_keeps_serving() {
    let mut world = World::new(1);
    let (client, publisher) = (world.client("c"), world.client("p"));
    world.connect(client, 0, false, HOUR_S);
    world.subscribe(client, "a", QoS::ExactlyOnce);
    world.connect(publisher, 0, false, HOUR_S);
    world.places[0].is_cut = true;
    world.publish(publisher, "a", "1", QoS::ExactlyOnce);
    world.run(20_000);
    assert!(world.broker_totals(0).cluster_lease_expirations > 0);
    world.publish(publisher, "a", "2", QoS::ExactlyOnce);
    world.run(100);
    world.places[0].is_cut = false;
    world.run_until("both messages have arrived", |world| world.clients[client].payloads() == ["1", "2"]);
    world.run_until("both messages are complete", |world| world.clients[publisher].is_idle());
    assert!(world.clients[client].is_connected() && world.clients[publisher].is_connected());
}

#[test]
fn a_paused_node_does_not_act_for_clients_of_other_nodes() {
    let mut world = World::new(3);
    let (client, publisher) = (world.client("c"), world.client("p"));
    world.connect(client, 0, false, HOUR_S);
    world.subscribe(client, "a", QoS::AtLeastOnce);
    world.connect(publisher, 1, true, 0);
    world.places[0].is_paused = true;
    world.run(10_000);
    let moved = world.client("c");
    assert!(world.connect(moved, 2, false, HOUR_S));
    world.publish_and_wait(publisher, "a", "1", QoS::AtLeastOnce);
    world.run_until("the message has arrived", |world| world.clients[moved].payloads() == ["1"]);
    world.places[0].is_paused = false;
    world.run(10_000);
    assert!(world.clients[client].received.is_empty());
    assert_eq!(world.clients[client].at, None);
}
