//! Settings, rules and contracts change in one step, also for clients that connect meanwhile.

use std::sync::Arc;

use tautwire_contracts::{Catalogue, LoadLimits};
use tautwire_engine::{ConfigSnapshot, RecheckOutcome, Settings};
use tautwire_protocol::{Connect, ConnectReason, Packet, Properties, Property, QoS, ReasonCode, TopicName, Will};

use crate::world::{Client, World, policy};
use crate::{V5, code, connack, connect, member, publish, subscribe, topics};

const ALLOWED: &str = r##"
[[role]]
name = "all"
rules = [{ allow = ["publish", "subscribe"], topics = "#" }]
[[assign]]
everyone = true
roles = "all"
"##;
const NO_PUBLISH: &str = r##"
[[role]]
name = "readers"
rules = [{ allow = "subscribe", topics = "#" }]
[[assign]]
everyone = true
roles = "readers"
"##;

/// A contract for `t` that the payload `x` violates.
fn contracts() -> Arc<Catalogue> {
    let files = [
        (
            "contracts.toml",
            "[[contract]]\nname = 'c'\ntopics = 't'\nformat = 'json'\nschema = 's.json'\non_violation = 'reject'\n",
        ),
        ("s.json", "{\"type\": \"object\"}"),
    ];
    let files = files.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
    Arc::new(Catalogue::load(&files, &LoadLimits::default()).expect("loads"))
}

fn world(threads: usize) -> World {
    let mut world = World::new(threads);
    world.set_rules(ALLOWED);
    world
}

fn change(world: &mut World, change: impl FnOnce(&mut ConfigSnapshot)) {
    world.config_cell.change(change);
    world.run();
}

/// The reason code of a PUBLISH to `t`.
fn outcome(world: &mut World, client: Client) -> ReasonCode {
    publish(world, client, "t", QoS::AtLeastOnce, false);
    code(world, client)
}

#[test]
fn rules_contracts_and_settings_apply_together() {
    let mut world = world(2);
    let client = member(&mut world, "w", "ann");
    assert_eq!(outcome(&mut world, client), ReasonCode::NoMatchingSubscribers);
    for _ in 0..3 {
        change(&mut world, |next| (next.policy, next.contracts) = (policy(ALLOWED), contracts()));
        assert_eq!(outcome(&mut world, client), ReasonCode::PayloadFormatInvalid);
        change(&mut world, |next| (next.policy, next.contracts) = (policy(NO_PUBLISH), Arc::default()));
        assert_eq!(outcome(&mut world, client), ReasonCode::NotAuthorized);
    }
    change(&mut world, |next| {
        next.policy = policy(ALLOWED);
        next.settings = Arc::new(Settings { topic_bytes: 0, ..Settings::clone(&next.settings) });
    });
    publish(&mut world, client, "t", QoS::AtLeastOnce, false);
    assert_ne!(code(&mut world, client), ReasonCode::NoMatchingSubscribers, "the topic exceeds the new limit");
}

/// The change disconnects the client, so its will is checked against the new configuration.
#[test]
fn the_will_of_a_disconnected_client_is_checked_with_the_new_config() {
    for (has_contract, expected) in [(false, &["t"][..]), (true, &[])] {
        let mut world = world(1);
        let reader = member(&mut world, "r", "ann");
        assert_eq!(subscribe(&mut world, reader, &["t"]), [1]);
        let client = world.connection();
        let topic = TopicName::new("t").expect("a topic");
        let will = Will { topic, payload: b"x", qos: QoS::AtMostOnce, retain: false, properties: Properties::EMPTY };
        world.send(client, &Packet::Connect(Connect { will: Some(will), ..connect("w", &[]) }));
        world.admit(client, "bob");
        assert_eq!(world.received(V5, client, connack), [(false, ConnectReason::Success)]);
        change(&mut world, |next| {
            if has_contract {
                next.contracts = contracts();
            }
            next.recheck_clients(Arc::new(|visitor| {
                if visitor.client_id == "w" { RecheckOutcome::Unknown } else { RecheckOutcome::Accepted }
            }));
        });
        assert_eq!(code(&mut world, client), ReasonCode::NotAuthorized);
        assert_eq!(topics(&mut world, reader), expected);
    }
}

/// Only the new rules may name the user.
#[test]
fn a_client_accepted_during_a_turn_gets_the_new_rules() {
    let mut world = world(1);
    let client = world.connection();
    let mut bytes = Vec::new();
    let topic = TopicName::new("t").expect("a topic");
    let delivery = tautwire_protocol::Delivery::AtLeastOnce {
        packet_id: tautwire_protocol::PacketId::new(7).expect("not 0"),
        dup: false,
    };
    let publish = tautwire_protocol::Publish {
        topic: Some(topic),
        delivery,
        retain: false,
        properties: Properties::EMPTY,
        payload: b"x",
    };
    for packet in [Packet::Connect(connect("w", &[])), Packet::Publish(publish)] {
        packet.append_to(V5, &mut bytes).expect("a valid packet");
    }
    world.send_bytes(client, &bytes);
    assert!(world.auth_request(client).is_some(), "the client is not authenticated");
    world.change_and_admit(client, "bob", |next| next.policy = policy(NO_PUBLISH));
    let received = world.received(V5, client, |packet| match packet {
        Packet::ConnAck(connack) => ReasonCode::from(connack.reason),
        Packet::PubAck(ack) => ack.reason.into(),
        other => panic!("{other:?} is unexpected"),
    });
    assert_eq!(received, [ReasonCode::Success, ReasonCode::NotAuthorized]);
}

#[test]
fn a_client_that_connects_during_a_turn_uses_the_new_authentication() {
    let mut world = World::new(1);
    change(&mut world, |next| next.requires_auth = false);
    let mut bytes = Vec::new();
    let packet = Packet::Connect(connect("w", &[Property::SessionExpiryInterval(1)]));
    packet.append_to(V5, &mut bytes).expect("a valid packet");
    let open = |_: &mut ConfigSnapshot| {};
    let client = world.change_and_connect(&bytes, open);
    assert_eq!(world.received(V5, client, connack), [(false, ConnectReason::Success)]);
    let client = world.change_and_connect(&bytes, |next| next.requires_auth = true);
    assert!(world.auth_request(client).is_some() && world.received_bytes(client).is_empty());
}

/// The recheck runs before CONNECT is accepted, without a lock.
#[test]
fn a_client_that_is_no_longer_known_is_refused() {
    let mut world = world(2);
    for client_id in ["w", "x", "y"] {
        let client = world.connection();
        world.send(client, &Packet::Connect(connect(client_id, &[])));
        assert!(world.auth_request(client).is_some(), "the client is not authenticated");
        world.change_and_admit(client, "bob", |next| next.recheck_clients(Arc::new(|_| RecheckOutcome::Banned)));
        assert_eq!(world.received(V5, client, connack), [(false, ConnectReason::NotAuthorized)]);
    }
}
