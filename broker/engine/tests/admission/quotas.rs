//! The quotas that all clients of a user share.

use std::num::NonZeroU16;

use tautwire_engine::Settings;
use tautwire_protocol::{ConnectReason, Packet, Property, QoS};

use crate::world::{Client, World};
use crate::{V5, connack, connect, member, publish, subscribe, topics};

/// A client of a user with a Receive Maximum of 1.
fn slow_client(world: &mut World, client_id: &str, user: &str) -> Client {
    let client = world.connection();
    let one = NonZeroU16::new(1).expect("not 0");
    let properties = [Property::SessionExpiryInterval(3_600), Property::ReceiveMaximum(one)];
    world.send(client, &Packet::Connect(connect(client_id, &properties)));
    world.admit(client, user);
    assert_eq!(world.received(V5, client, connack)[0].1, ConnectReason::Success);
    client
}

/// How many messages a client receives when it resumes its session.
fn resumed_messages(world: &mut World, client_id: &str, user: &str) -> usize {
    let client = world.connection();
    world.send(client, &Packet::Connect(connect(client_id, &[Property::SessionExpiryInterval(3_600)])));
    world.admit(client, user);
    let packets = world.received(V5, client, |packet| matches!(packet, Packet::Publish(_)));
    packets.into_iter().filter(|is_publish| *is_publish).count()
}

#[test]
fn pending_retained_messages_of_an_offline_client_count_for_its_user() {
    for (user_queue_messages, kept_by_first) in [(0, 6), (5, 4), (2, 1)] {
        let mut world = World::with(1, Settings { user_queue_messages, ..Settings::default() });
        let publisher = member(&mut world, "p", "bob");
        for number in 0..6 {
            publish(&mut world, publisher, &format!("r/{number}"), QoS::AtLeastOnce, true);
        }
        let second = member(&mut world, "a2", "ann");
        assert_eq!(subscribe(&mut world, second, &["q"]), [1]);
        world.lose(second);
        for _ in 0..2 {
            publish(&mut world, publisher, "q", QoS::AtLeastOnce, false);
        }
        let first = slow_client(&mut world, "a1", "ann");
        crate::send_subscribe(&mut world, first, &["r/#"]);
        assert_eq!(topics(&mut world, first).len(), 2, "expected SUBACK and one unacknowledged message");
        world.lose(first);
        let left_out = 6 - kept_by_first as u64;
        let counters = world.counters(0);
        assert_eq!(
            counters.dropped_queue_full_for_user.get(),
            u64::from(left_out > 0),
            "only the first dropped message is counted"
        );
        assert_eq!(resumed_messages(&mut world, "a1", "ann"), kept_by_first);
    }
}
