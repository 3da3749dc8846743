//! What several brokers do not do together yet is refused.

use tautwire_protocol::{ConnectReason, DisconnectReason, QoS, SubscribeReason};

use crate::world::World;

#[test]
fn wills_are_refused() {
    let mut world = World::new(1);
    let client = world.client("c");
    world.begin_with_will(client, 0, true, 0, Some("a"));
    world.run_until("it is answered", |world| world.clients[client].connack.is_some());
    assert_eq!(world.clients[client].connack, Some((ConnectReason::ImplementationSpecificError, false)));
}

#[test]
fn retained_messages_are_refused() {
    let mut world = World::new(1);
    let client = world.client("c");
    for qos in [QoS::AtMostOnce, QoS::AtLeastOnce] {
        world.connect(client, 0, true, 0);
        world.clients[client].publish("a", "1", qos, true);
        world.run(50);
        assert_eq!(world.clients[client].disconnected, Some(DisconnectReason::RetainNotSupported));
    }
}

#[test]
fn shared_subscriptions_are_refused() {
    let mut world = World::new(1);
    let client = world.client("c");
    world.connect(client, 0, true, 0);
    let refused = SubscribeReason::SharedSubscriptionsNotSupported.as_u8();
    assert_eq!(world.subscribe(client, "$share/g/a", QoS::AtLeastOnce), [refused]);
}
