//! Sessions are claimed and move between nodes with their state.

use tautwire_protocol::{ConnectReason, DisconnectReason, QoS};

use crate::world::World;

const HOUR_S: u32 = 3600;

#[test]
fn a_session_follows_its_client_to_another_node() {
    let mut world = World::new(2);
    let (client, other) = (world.client("mobile"), world.client("other"));
    assert!(!world.connect(client, 0, false, HOUR_S));
    world.subscribe(client, "a/#", QoS::AtLeastOnce);
    world.cut_off(client);
    world.connect(other, 0, true, 0);
    for number in 0..30 {
        world.publish_and_wait(other, &format!("a/{}", number % 5), &number.to_string(), QoS::AtLeastOnce);
    }
    assert!(world.connect(client, 1, false, HOUR_S), "the session was not resumed");
    world.run_until("all messages have arrived", |world| world.clients[client].received.len() >= 30);
    world.run(500);
    let mut numbers: Vec<u32> =
        world.clients[client].payloads().iter().map(|payload| payload.parse().expect("a number")).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..30).collect::<Vec<_>>(), "each message must arrive once");
    // It also gets new messages.
    world.publish_and_wait(other, "a/x", "live", QoS::AtLeastOnce);
    world.run_until("the message has arrived", |world| world.clients[client].payloads().contains(&"live"));
}

#[test]
fn a_connection_on_another_node_is_taken_over() {
    let mut world = World::new(2);
    let (first, second) = (world.client("same"), world.client("same"));
    world.connect(first, 0, false, HOUR_S);
    world.subscribe(first, "a", QoS::ExactlyOnce);
    assert!(world.connect(second, 1, false, HOUR_S), "the session was not resumed");
    assert_eq!(world.clients[first].disconnected, Some(DisconnectReason::SessionTakenOver));
    assert_eq!(world.clients[first].at, None, "its connection is still open");
    world.publish_and_wait(second, "a", "1", QoS::ExactlyOnce);
    world.run(100);
    assert_eq!(world.clients[second].payloads(), ["1"]);
    assert_eq!(world.broker_totals(0).sessions, 0, "the session is still on the first node");
    assert_eq!(world.broker_totals(0).subscriptions, 0);
}

#[test]
fn a_connection_on_the_same_node_is_taken_over() {
    let mut world = World::new(2);
    let (first, second) = (world.client("same"), world.client("same"));
    world.connect(first, 0, false, HOUR_S);
    world.subscribe(first, "a", QoS::AtLeastOnce);
    assert!(world.connect(second, 0, false, HOUR_S));
    assert_eq!(world.clients[first].disconnected, Some(DisconnectReason::SessionTakenOver));
    world.publish_and_wait(second, "a", "1", QoS::AtLeastOnce);
    world.run(100);
    assert_eq!(world.clients[second].payloads(), ["1"]);
}

#[test]
fn one_of_many_simultaneous_connections_of_a_client_is_served() {
    let mut world = World::new(3);
    let clients: Vec<_> = (0..6).map(|_| world.client("same")).collect();
    for (number, client) in clients.iter().enumerate() {
        world.begin_connecting(*client, number % 3, false, HOUR_S);
    }
    world.run(20_000);
    let served = clients.iter().filter(|client| world.clients[**client].is_connected()).count();
    assert_eq!(served, 1);
    assert!(clients.iter().all(|client| world.clients[*client].is_connected() || world.clients[*client].at.is_none()));
}

#[test]
fn a_clean_start_resumes_nothing_and_leaves_nothing() {
    let mut world = World::new(2);
    let client = world.client("c");
    world.connect(client, 0, false, HOUR_S);
    world.subscribe(client, "a", QoS::AtLeastOnce);
    world.disconnect(client);
    assert!(!world.connect(client, 1, true, 0), "[MQTT-3.1.2-4]");
    world.publish_and_wait(client, "a", "1", QoS::AtLeastOnce);
    world.run(100);
    assert!(world.clients[client].received.is_empty());
    world.disconnect(client);
    assert!(!world.connect(client, 0, false, HOUR_S), "the session outlived its connection");
}

#[test]
fn a_session_survives_the_death_of_its_node() {
    let mut world = World::new(3);
    let (client, other) = (world.client("c"), world.client("other"));
    world.connect(client, 0, true, HOUR_S);
    world.subscribe(client, "a", QoS::AtLeastOnce);
    world.kill(0);
    world.connect(other, 1, true, 0);
    world.publish_and_wait(other, "a", "1", QoS::AtLeastOnce);
    // A client that connects before the lease has expired is refused for now.
    world.begin_connecting(client, 1, false, HOUR_S);
    world.run_until("CONNACK has arrived", |world| world.clients[client].connack.is_some());
    assert_eq!(world.clients[client].connack, Some((ConnectReason::ServerUnavailable, false)));
    world.run(8_000);
    assert!(world.connect(client, 2, false, HOUR_S));
    world.run_until("the message has arrived", |world| world.clients[client].payloads() == ["1"]);
}

#[test]
fn a_clean_session_ends_with_its_node() {
    let mut world = World::new(2);
    let client = world.client("c");
    world.connect(client, 0, true, 0);
    world.subscribe(client, "a", QoS::AtLeastOnce);
    world.publish(client, "b", "1", QoS::ExactlyOnce);
    world.kill(0);
    world.run(10_000);
    assert!(!world.connect(client, 1, false, 0), "the session was not removed");
    world.run_until("its message is acknowledged", |world| world.clients[client].is_idle());
}

#[test]
fn messages_in_flight_are_resent_in_order_with_their_identifiers() {
    let mut world = World::new(2);
    let (client, other) = (world.client("c"), world.client("other"));
    world.clients[client].withholds_acks = true;
    world.connect(client, 0, false, HOUR_S);
    world.subscribe(client, "a/#", QoS::ExactlyOnce);
    world.connect(other, 0, true, 0);
    for number in 0..8 {
        let qos = if number % 2 == 0 { QoS::AtLeastOnce } else { QoS::ExactlyOnce };
        world.publish_and_wait(other, &format!("a/{}", number % 3), &number.to_string(), qos);
    }
    world.run_until("all messages have arrived", |world| world.clients[client].received.len() == 8);
    let before: Vec<_> =
        world.clients[client].received.iter().map(|one| (one.packet_id, one.payload.clone())).collect();
    world.clients[client].received.clear();
    world.cut_off(client);
    // The client has dropped its QoS 2 state, so that it shows them again.
    world.clients[client] = crate::client::Client::new("c");
    world.clients[client].withholds_acks = true;
    assert!(world.connect(client, 1, false, HOUR_S));
    world.run_until("all messages have arrived again", |world| world.clients[client].received.len() == 8);
    let after: Vec<_> = world.clients[client].received.iter().map(|one| (one.packet_id, one.payload.clone())).collect();
    assert_eq!(after, before, "[MQTT-4.4.0-1], [MQTT-4.6.0-1]");
    assert!(world.clients[client].received.iter().all(|one| one.is_dup));
    world.clients[client].withholds_acks = false;
    world.clients[client].acknowledge();
    world.run(500);
    world.publish_and_wait(other, "a/0", "last", QoS::ExactlyOnce);
    world.run_until("the next message has arrived", |world| world.clients[client].payloads().last() == Some(&"last"));
    assert_eq!(world.clients[client].received.len(), 9);
}

#[test]
fn a_received_qos_2_message_is_released_on_the_next_node() {
    let mut world = World::new(2);
    let (client, other) = (world.client("c"), world.client("other"));
    world.connect(client, 0, false, HOUR_S);
    world.subscribe(client, "a", QoS::ExactlyOnce);
    world.connect(other, 1, true, 0);
    world.clients[client].withholds_acks = true;
    world.publish_and_wait(other, "a", "1", QoS::ExactlyOnce);
    world.run_until("the message has arrived", |world| world.clients[client].received.len() == 1);
    // PUBREC is sent; PUBREL is not answered.
    world.clients[client].acknowledge();
    world.run_until("PUBREL has arrived", |world| world.clients[client].releases.len() == 1);
    world.cut_off(client);
    world.connect(client, 1, false, HOUR_S);
    world.run_until("PUBREL has arrived again", |world| world.clients[client].releases.len() == 2);
    assert_eq!(world.clients[client].releases[0], world.clients[client].releases[1]);
    assert_eq!(world.clients[client].received.len(), 1, "PUBLISH must not arrive again");
}

#[test]
fn a_session_is_not_resumed_after_its_expiry_interval() {
    let mut world = World::new(2);
    let client = world.client("c");
    world.connect(client, 0, false, 5);
    world.subscribe(client, "a", QoS::AtLeastOnce);
    world.disconnect(client);
    world.run(3_000);
    assert!(world.connect(client, 1, false, 5));
    world.run(60_000);
    world.disconnect(client);
    world.run(6_000);
    assert!(!world.connect(client, 0, false, 5), "[MQTT-4.1.0-2]");
}

#[test]
fn an_assigned_identifier_is_kept_while_the_client_waits() {
    let mut world = World::new(1);
    let client = world.client("");
    world.connect(client, 0, true, HOUR_S);
    let assigned = world.clients[client].assigned.clone().expect("[MQTT-3.2.2-16]");
    world.disconnect(client);
    let again = world.client(&assigned);
    assert!(world.connect(again, 0, false, HOUR_S), "the session has another name in the cluster");
}

#[test]
fn a_connection_that_ends_before_connack_holds_nothing() {
    let mut world = World::new(2);
    for after_ms in 0..12 {
        let client = world.client(&format!("c{after_ms}"));
        world.begin_connecting(client, 0, false, HOUR_S);
        world.run(after_ms);
        world.cut_off(client);
        world.run(100);
        world.connect(client, 1, false, HOUR_S);
        assert_eq!(world.broker_totals(0).sessions, 0, "after {after_ms} ms");
    }
}

#[test]
fn removed_subscriptions_stay_removed() {
    let mut world = World::new(2);
    let client = world.client("c");
    world.connect(client, 0, false, HOUR_S);
    world.subscribe(client, "a", QoS::AtLeastOnce);
    world.subscribe(client, "b", QoS::AtLeastOnce);
    world.clients[client].unsubscribe("a");
    world.run_until("UNSUBACK has arrived", |world| world.clients[client].unsubacks == 1);
    world.kill(0);
    world.run(8_000);
    assert!(world.connect(client, 1, false, HOUR_S));
    world.publish_and_wait(client, "a", "1", QoS::AtLeastOnce);
    world.publish_and_wait(client, "b", "2", QoS::AtLeastOnce);
    world.run_until("the message has arrived", |world| !world.clients[client].payloads().is_empty());
    world.run(100);
    assert_eq!(world.clients[client].payloads(), ["2"]);
}

#[test]
fn a_new_subscription_on_a_lagging_node_gets_nothing_twice() {
    let mut world = World::new(2);
    let (client, other) = (world.client("c"), world.client("other"));
    world.connect(client, 0, false, HOUR_S);
    world.connect(other, 0, true, 0);
    world.subscribe(client, "a", QoS::ExactlyOnce);
    world.without_log = Some(1);
    world.publish_and_wait(other, "a", "1", QoS::ExactlyOnce);
    world.run_until("the message has arrived", |world| world.clients[client].payloads() == ["1"]);
    world.clients[client].unsubscribe("a");
    world.run_until("UNSUBACK has arrived", |world| world.clients[client].unsubacks == 1);
    world.disconnect(client);
    assert!(world.connect(client, 1, false, HOUR_S), "the session was not resumed");
    world.subscribe(client, "a", QoS::ExactlyOnce);
    world.without_log = None;
    world.publish_and_wait(other, "a", "2", QoS::ExactlyOnce);
    world.run_until("the message has arrived", |world| world.clients[client].payloads().contains(&"2"));
    assert_eq!(world.clients[client].payloads(), ["1", "2"], "each message must arrive once");
}
