//! Clients are redirected to another node.

use tautwire_protocol::{ConnectReason, DisconnectReason, QoS};

use crate::client::WillMessage;
use crate::world::World;

const HOUR_S: u32 = 3600;

fn drain(world: &mut World, place: usize, is_for_good: bool) {
    let now_ms = world.now_ms;
    world.places[place].node.as_mut().expect("the node runs").member.drain(now_ms, is_for_good);
    world.settle(place);
}

#[test]
fn clients_of_a_draining_node_are_redirected() {
    for is_for_good in [false, true] {
        let mut world = World::new(2);
        // Nodes announce their references with heartbeats.
        world.run(3_000);
        let (client, publisher) = (world.client("c"), world.client("p"));
        world.connect(client, 0, false, HOUR_S);
        world.subscribe(client, "a", QoS::AtLeastOnce);
        world.connect(publisher, 1, true, 0);
        drain(&mut world, 0, is_for_good);
        world.run(1_000);
        let reason = if is_for_good { DisconnectReason::ServerMoved } else { DisconnectReason::UseAnotherServer };
        assert_eq!(world.clients[client].disconnected, Some(reason));
        assert_eq!(world.clients[client].reference.as_deref(), Some("node-1"), "[MQTT 5.0 section 3.14.2.2.5]");
        world.publish_and_wait(publisher, "a", "1", QoS::AtLeastOnce);
        assert!(world.connect(client, 1, false, HOUR_S));
        world.run_until("the message has arrived", |world| world.clients[client].payloads() == ["1"]);
    }
}

#[test]
fn a_client_that_connects_to_a_draining_node_is_redirected() {
    let mut world = World::new(3);
    world.run(3_000);
    let (waiting, client) = (world.client("waiting"), world.client("c"));
    // Its will keeps the node from finishing the drain at once.
    world.clients[waiting].will = Some(WillMessage { delay_s: 100, ..WillMessage::new("w", "gone") });
    world.connect(waiting, 0, false, HOUR_S);
    world.clients[client].withholds_acks = true;
    drain(&mut world, 0, false);
    world.begin_connecting(client, 0, false, HOUR_S);
    world.run_until("CONNACK has arrived", |world| world.clients[client].connack.is_some());
    assert_eq!(world.clients[client].connack, Some((ConnectReason::UseAnotherServer, false)));
    let reference = world.clients[client].reference.clone().expect("[MQTT 5.0 section 3.2.2.3.16]");
    assert!(reference == "node-1" || reference == "node-2", "{reference}");
}

#[test]
fn a_client_of_3_1_1_is_disconnected_without_a_packet() {
    let mut world = World::new(2);
    world.run(3_000);
    let client = world.client("c");
    world.clients[client].is_v3 = true;
    world.connect(client, 0, false, HOUR_S);
    drain(&mut world, 0, true);
    world.run(1_000);
    assert_eq!((world.clients[client].at, world.clients[client].disconnected), (None, None));
    assert!(world.connect(client, 1, false, HOUR_S));
}
