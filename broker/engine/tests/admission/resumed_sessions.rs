//! A client resumes a session with subscriptions that the rules no longer allow.

use tautwire_protocol::{ConnectReason, Packet, Property, QoS};

use crate::world::World;
use crate::{V5, connack, connect, member, publish, subscribe, subscribe_at, topics};

const BEFORE: &str = r##"
[[role]]
name = "reader"
rules = [{ allow = "subscribe", topics = ["a/#", "b/#"] }]
[[role]]
name = "writer"
rules = [{ allow = "publish", topics = "#" }]
[users]
reader = "reader"
writer = "writer"
"##;

#[test]
fn subscriptions_and_messages_no_longer_allowed_are_dropped() {
    // A few are checked in one turn, many over several turns.
    for filters in [2, 400] {
        let mut world = World::new(2);
        world.set_rules(BEFORE);
        let reader = member(&mut world, "r", "reader");
        let names: Vec<_> = (0..filters).flat_map(|number| [format!("a/{number}"), format!("b/{number}")]).collect();
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        assert!(subscribe(&mut world, reader, &names).iter().all(|code| *code == 1));
        world.lose(reader);
        let writer = member(&mut world, "w", "writer");
        for topic in ["a/0", "b/0", "a/1", "b/1"] {
            publish(&mut world, writer, topic, QoS::AtLeastOnce, false);
        }
        world.set_rules(&BEFORE.replace("[\"a/#\", \"b/#\"]", "\"b/#\""));

        let reader = world.connection();
        let expiry = [Property::SessionExpiryInterval(3_600)];
        world.send(reader, &Packet::Connect(connect("r", &expiry)));
        world.admit(reader, "reader");
        let mut seen = world.received(V5, reader, |packet| match packet {
            Packet::Publish(publish) => publish.topic.map(|topic| topic.as_str().to_owned()),
            packet => {
                assert_eq!(connack(packet), (true, ConnectReason::Success));
                None
            }
        });
        assert_eq!(seen.remove(0), None, "the first packet is not CONNACK");
        assert_eq!(seen, [Some("b/0".to_owned()), Some("b/1".to_owned())]);
        let dropped = (0..2).map(|shard| world.counters(shard).dropped_not_authorized.get()).sum::<u64>();
        assert_eq!(dropped, 2);

        publish(&mut world, writer, "a/0", QoS::AtMostOnce, false);
        publish(&mut world, writer, "b/1", QoS::AtMostOnce, false);
        assert_eq!(topics(&mut world, reader), ["b/1"]);
        let revoked = (0..2).map(|shard| world.counters(shard).subscriptions_revoked.get()).sum::<u64>();
        assert_eq!(revoked, filters);
    }
}

/// A session belongs to a Client Identifier, which another user can use. That user may not be allowed to receive
/// the messages that the previous user has not acknowledged.
#[test]
fn an_unauthorized_user_does_not_receive_unacknowledged_messages_of_another() {
    for qos in [QoS::AtLeastOnce, QoS::ExactlyOnce] {
        for (user, expected) in [("reader", "a/0"), ("writer", "")] {
            let mut world = World::new(2);
            world.set_rules(BEFORE);
            let reader = member(&mut world, "r", "reader");
            subscribe_at(&mut world, reader, "a/#", qos);
            let writer = member(&mut world, "w", "writer");
            publish(&mut world, writer, "a/0", qos, false);
            assert_eq!(topics(&mut world, reader), ["a/0"]);
            world.lose(reader);

            let resumed = world.connection();
            world.send(resumed, &Packet::Connect(connect("r", &[Property::SessionExpiryInterval(3_600)])));
            world.admit(resumed, user);
            let seen = world.received(V5, resumed, |packet| match packet {
                Packet::Publish(publish) => publish.topic.map_or(String::new(), |topic| topic.as_str().to_owned()),
                // The client may hold the Packet Identifier. PUBREL releases it.
                Packet::PubRel(_) => String::new(),
                packet => {
                    assert_eq!(connack(packet), (true, ConnectReason::Success));
                    "CONNACK".to_owned()
                }
            });
            let seen: Vec<&str> = seen.iter().map(|topic| &**topic).filter(|topic| !topic.is_empty()).collect();
            let expected: Vec<&str> = ["CONNACK", expected].into_iter().filter(|topic| !topic.is_empty()).collect();
            assert_eq!(seen, expected, "{user} at {qos:?}");
        }
    }
}

/// The check of many subscriptions takes several turns. The rules at its end count.
#[test]
fn rules_that_change_during_a_session_review_apply() {
    let mut world = World::new(1);
    world.set_rules(BEFORE);
    let reader = member(&mut world, "r", "reader");
    let names: Vec<_> = (0..4_000).map(|number| format!("a/{number}")).collect();
    let names: Vec<&str> = names.iter().map(|name| &**name).collect();
    assert!(subscribe(&mut world, reader, &names).iter().all(|code| *code == 1));
    world.lose(reader);
    let writer = member(&mut world, "w", "writer");
    let reader = world.connection();
    let expiry = [Property::SessionExpiryInterval(3_600)];
    world.send(reader, &Packet::Connect(connect("r", &expiry)));
    world.admit_and_change(reader, "reader", &BEFORE.replace("[\"a/#\", \"b/#\"]", "\"b/#\""));
    assert_eq!(world.received(V5, reader, connack), [(true, ConnectReason::Success)]);
    for topic in ["a/0", "a/3999"] {
        publish(&mut world, writer, topic, QoS::AtMostOnce, false);
    }
    assert!(topics(&mut world, reader).is_empty());
    assert_eq!(world.counters(0).subscriptions_revoked.get(), 4_000);
}

#[test]
fn another_user_of_a_client_identifier_gets_only_its_permissions() {
    let mut world = World::new(2);
    world.set_rules(BEFORE);
    let reader = member(&mut world, "r", "reader");
    assert_eq!(subscribe(&mut world, reader, &["a/x"]), [1]);
    world.lose(reader);
    let writer = member(&mut world, "w", "writer");
    publish(&mut world, writer, "a/x", QoS::AtLeastOnce, false);
    let other_user = member(&mut world, "r", "writer");
    assert!(topics(&mut world, other_user).is_empty());
}
