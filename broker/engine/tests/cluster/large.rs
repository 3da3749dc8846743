//! Sessions whose state is as large as the cluster allows.

use tautwire_protocol::{ConnectReason, DisconnectReason, QoS};

use crate::client::WillMessage;
use crate::world::World;

const HOUR_S: u32 = 3600;
const STATE_MAX_BYTES: usize = 2_000;
const REFUSED: u8 = 0x97;

#[test]
fn a_subscription_that_makes_the_state_too_large_is_refused() {
    let mut world = World::with_state_limit(2, STATE_MAX_BYTES);
    let (client, temporary) = (world.client("c"), world.client("temporary"));
    world.connect(client, 0, false, HOUR_S);
    world.connect(temporary, 0, true, 0);
    let filter = |number: usize| format!("{number:0>189}");
    let subscribe = |world: &mut World, client: usize, number: usize| {
        world.clients[client].suback.clear();
        world.subscribe(client, &filter(number), QoS::AtLeastOnce)
    };
    for number in 0..5 {
        assert_eq!(subscribe(&mut world, client, number), [1], "{number}");
    }
    assert_eq!(subscribe(&mut world, client, 5), [REFUSED]);
    assert_eq!(subscribe(&mut world, client, 0), [1], "the session has this filter");
    for number in 0..10 {
        assert_eq!(subscribe(&mut world, temporary, number), [1], "its session is not persistent");
    }
    // The next node counts them as well, and unsubscribing makes room.
    world.cut_off(client);
    assert!(world.connect(client, 1, false, HOUR_S));
    assert_eq!(subscribe(&mut world, client, 5), [REFUSED]);
    world.clients[client].unsubscribe(&filter(0));
    world.run_until("UNSUBACK has arrived", |world| world.clients[client].unsubacks == 1);
    assert_eq!(subscribe(&mut world, client, 5), [1]);
    assert_eq!(world.broker_totals(1).subscriptions_refused_state_size, 1);
}

#[test]
fn a_client_whose_will_cannot_be_stored_is_refused() {
    let mut world = World::with_state_limit(2, STATE_MAX_BYTES);
    let client = world.client("c");
    for (bytes, expected) in [(STATE_MAX_BYTES / 5 * 2, ConnectReason::QuotaExceeded), (200, ConnectReason::Success)] {
        world.clients[client].will = Some(WillMessage::new("w", &"x".repeat(bytes)));
        world.begin_connecting(client, 0, false, HOUR_S);
        world.run_until("CONNACK has arrived", |world| world.clients[client].connack.is_some());
        assert_eq!(world.clients[client].connack, Some((expected, false)), "{bytes}");
    }
    assert_eq!(world.broker_totals(0).wills_too_large, 1);
}

#[test]
fn retained_messages_in_flight_leave_space_in_the_state() {
    let mut world = World::with_state_limit(2, STATE_MAX_BYTES);
    let (publisher, client, other) = (world.client("p"), world.client("c"), world.client("other"));
    world.connect(publisher, 0, true, 0);
    for number in 0..20 {
        world.clients[publisher].publish(&format!("r/{number}"), &"x".repeat(100), QoS::AtLeastOnce, true);
    }
    world.clients[publisher].publish("r/too-large", &"x".repeat(STATE_MAX_BYTES), QoS::AtLeastOnce, true);
    world.run_until("all messages are retained", |world| world.clients[publisher].is_idle());
    world.connect(other, 0, false, HOUR_S);
    world.connect(client, 0, false, HOUR_S);
    world.clients[client].withholds_acks = true;
    world.subscribe(client, "r/#", QoS::AtLeastOnce);
    world.run(1_000);
    let got = world.clients[client].received.len();
    assert!((1..20).contains(&got), "{got} at once");
    world.clients[client].withholds_acks = false;
    world.clients[client].acknowledge();
    world.run(2_000);
    assert_eq!(world.clients[client].received.len(), 20);
    assert!(world.clients[client].is_connected() && world.clients[other].is_connected());
    let totals = world.broker_totals(0);
    assert_eq!((totals.session_states_too_large, totals.dropped_too_large), (0, 1));
}

#[test]
fn a_state_that_is_too_large_ends_the_connection_and_keeps_the_last_save() {
    let mut world = World::with_state_limit(2, STATE_MAX_BYTES);
    let (client, other) = (world.client("c"), world.client("other"));
    world.connect(client, 0, false, HOUR_S);
    world.connect(other, 0, false, HOUR_S);
    world.subscribe(client, "a", QoS::AtLeastOnce);
    // As if the limit of the servers was lowered.
    world.limit_state_size(0, 60);
    world.clients[client].subscribe("b", QoS::AtLeastOnce, false);
    world.run_until("the client is disconnected", |world| world.clients[client].at.is_none());
    assert_eq!(world.clients[client].disconnected, Some(DisconnectReason::QuotaExceeded));
    assert_eq!(world.broker_totals(0).session_states_too_large, 1);
    assert!(world.clients[other].is_connected(), "other clients stay connected");
    world.limit_state_size(0, STATE_MAX_BYTES);
    assert!(world.connect(client, 1, false, HOUR_S), "its session has the last saved state");
    world.connect(other, 1, false, HOUR_S);
    world.publish_and_wait(other, "a", "x", QoS::AtLeastOnce);
    world.run(500);
    assert_eq!(world.clients[client].payloads(), ["x"]);
}
