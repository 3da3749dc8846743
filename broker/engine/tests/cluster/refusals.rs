//! What several brokers do not do together yet is refused.

use tautwire_protocol::{QoS, SubscribeReason};

use crate::world::World;

#[test]
fn shared_subscriptions_are_refused() {
    let mut world = World::new(1);
    let client = world.client("c");
    world.connect(client, 0, true, 0);
    let refused = SubscribeReason::SharedSubscriptionsNotSupported.as_u8();
    assert_eq!(world.subscribe(client, "$share/g/a", QoS::AtLeastOnce), [refused]);
}
