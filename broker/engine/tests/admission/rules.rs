//! Access rules of clients.

use tautwire_message::{Message, MessageId, MessageRef};
use tautwire_protocol::{ConnectReason, Packet, Properties, Property, QoS, ReasonCode, TopicName, Will};

use crate::world::World;
use crate::{
    V3, V5, code, connack, connect, connect_v3, member, publish, send_publish, suback, subscribe, topics,
    with_subscribe,
};

const RULES: &str = r#"
[[role]]
name = "writer"
rules = [
    { deny = "publish", topics = "open/not" },
    { allow = "publish", topics = "open/#", qos = [0, 1, 2] },
    { allow = "publish", topics = "$SYS/contracts/request" },
]

[[role]]
name = "reader"
rules = [{ allow = "subscribe", topics = ["open/#", "answers/{client_id}"] }]

[users]
writer = "writer"
reader = "reader"
both = ["writer", "reader"]
"#;

fn world() -> World {
    let mut world = World::new(2);
    world.set_rules(RULES);
    world
}

#[test]
fn a_denied_message_is_delivered_to_no_client_and_refused() {
    let mut world = world();
    let reader = member(&mut world, "r", "reader");
    assert_eq!(subscribe(&mut world, reader, &["open/#"]), [1]);
    let writer = member(&mut world, "w", "writer");
    for retain in [false, true] {
        // Twice: the second decision comes from the topic cache.
        for _ in 0..2 {
            publish(&mut world, writer, "open/not", QoS::AtMostOnce, retain);
            publish(&mut world, writer, "open/not", QoS::AtLeastOnce, retain);
            assert_eq!(code(&mut world, writer), ReasonCode::NotAuthorized);
            publish(&mut world, writer, "open/not", QoS::ExactlyOnce, retain);
            assert_eq!(code(&mut world, writer), ReasonCode::NotAuthorized);
            publish(&mut world, writer, "open/yes", QoS::AtLeastOnce, retain);
            assert_eq!(code(&mut world, writer), ReasonCode::Success);
            assert_eq!(topics(&mut world, reader), ["open/yes"]);
        }
    }
    assert_eq!(world.exchange.retained().0, 1);
    let denied = (0..2).map(|shard| world.counters(shard).publishes_not_authorized.get()).sum::<u64>();
    assert_eq!(denied, 12);
}

#[test]
fn a_denied_message_of_3_1_1_is_acknowledged_and_dropped() {
    let mut world = world();
    let client = world.connection();
    world.send_in_version(V3, client, &Packet::Connect(connect_v3("w")));
    world.admit(client, "writer");
    assert_eq!(world.received(V3, client, connack), [(false, ConnectReason::Success)]);
    send_publish(&mut world, V3, client, "open/not", QoS::AtLeastOnce, true);
    assert_eq!(world.received(V3, client, |packet| matches!(packet, Packet::PubAck(_))), [true]);
    assert_eq!(world.exchange.retained().0, 0);
    // 3.1.1 has no other failure code than 0x80.
    world.send_bytes(client, &[0x82, 8, 0, 1, 0, 3, b'a', b'/', b'b', 1]);
    assert_eq!(world.received_bytes(client), [0x90, 3, 0, 1, 0x80]);
}

#[test]
fn a_subscription_is_granted_as_a_whole_or_refused() {
    let mut world = world();
    let reader = member(&mut world, "r", "reader");
    let filters = ["open/#", "#", "+/x", "$share/g/open/a", "$share/g/#", "answers/r", "answers/+", "$SYS/#"];
    assert_eq!(subscribe(&mut world, reader, &filters), [1, 0x87, 0x87, 1, 0x87, 1, 0x87, 0x87]);
    let writer = member(&mut world, "w", "writer");
    assert_eq!(subscribe(&mut world, writer, &["open/a"]), [0x87]);
}

/// `count` rules that deny by the first level, `count` that deny by the second, and one that allows `allowed`.
fn crossing_rules(count: usize, allowed: &str) -> String {
    let denials: String = (0..count)
        .map(|n| format!("{{ deny = 'subscribe', topics = ['+/d{n}/secret', 'p{n}/+/private'] }},\n"))
        .collect();
    format!(
        "[[role]]\nname = 'r'\nrules = [\n{denials}{{ allow = 'subscribe', topics = '{allowed}' }}]\n[users]\nreader = 'r'\n"
    )
}

#[test]
fn subscription_checks_are_budgeted_by_cost() {
    let mut world = World::new(1);
    world.set_rules(&crossing_rules(1_000, "#"));
    let reader = member(&mut world, "r", "reader");
    let names: Vec<String> = (0..100).map(|n| format!("+/+/a{n}")).collect();
    let filters: Vec<&str> = names.iter().map(String::as_str).collect();
    let before = world.turns;
    assert_eq!(subscribe(&mut world, reader, &filters), [1; 100]);
    // A filter is compared with some 3,000 nodes. 32 comparisons are a step, and a turn has 1,024 steps.
    let turns = world.turns - before;
    assert!((5..20).contains(&turns), "{turns} turns");

    let before = world.turns;
    assert_eq!(subscribe(&mut world, reader, &["+/+/secret"]), [0x87]);
    assert!(world.turns - before <= 3, "a denied filter takes more than 3 turns");
}

#[test]
fn a_check_over_several_turns_uses_the_latest_rules() {
    for (allowed, code) in [("#", 1), ("+/+/b", 0x87)] {
        let mut world = World::new(1);
        world.set_rules(&crossing_rules(30_000, "#"));
        let reader = member(&mut world, "r", "reader");
        let before = world.turns;
        assert_eq!(subscribe(&mut world, reader, &["+/+/b"]), [1]);
        assert!(world.turns - before >= 2, "the check takes only one turn");
        let rules = crossing_rules(30_001, allowed);
        with_subscribe(&["+/+/a"], |packet| world.send_and_change(reader, packet, &rules));
        assert_eq!(suback(&mut world, reader), [code]);
    }
}

fn will<'a>(topic: &'a str) -> Will<'a> {
    let topic = TopicName::new(topic).expect("a topic");
    Will { topic, payload: b"gone", qos: QoS::AtLeastOnce, retain: false, properties: Properties::EMPTY }
}

#[test]
fn a_will_is_checked_at_connect_and_when_it_is_due() {
    let mut world = world();
    let reader = member(&mut world, "r", "reader");
    assert_eq!(subscribe(&mut world, reader, &["open/#"]), [1]);

    let client = world.connection();
    world.send(
        client,
        &Packet::Connect(tautwire_protocol::Connect { will: Some(will("open/not")), ..connect("w", &[]) }),
    );
    world.admit(client, "writer");
    assert_eq!(world.received(V5, client, connack), [(false, ConnectReason::NotAuthorized)]);

    for (is_still_allowed, expected) in [(true, &["open/bye"][..]), (false, &[])] {
        let client = world.connection();
        let connect = tautwire_protocol::Connect { will: Some(will("open/bye")), ..connect("w", &[]) };
        world.send(client, &Packet::Connect(connect));
        world.admit(client, "writer");
        assert_eq!(world.received(V5, client, connack), [(false, ConnectReason::Success)]);
        if !is_still_allowed {
            world.set_rules(&RULES.replace("open/not", "open/bye"));
        }
        world.lose(client);
        assert_eq!(topics(&mut world, reader), expected);
    }
}

#[test]
fn a_delayed_will_is_checked_with_the_rules_at_its_publication() {
    for (is_still_allowed, expected) in [(true, &["open/bye"][..]), (false, &[])] {
        let mut world = world();
        let reader = member(&mut world, "r", "reader");
        assert_eq!(subscribe(&mut world, reader, &["open/#"]), [1]);
        let client = world.connection();
        let delay = [Property::WillDelayInterval(10)];
        let later = Will { properties: Properties::from_list(&delay), ..will("open/bye") };
        let expiry = [Property::SessionExpiryInterval(3_600)];
        world.send(client, &Packet::Connect(tautwire_protocol::Connect { will: Some(later), ..connect("w", &expiry) }));
        world.admit(client, "writer");
        assert_eq!(world.received(V5, client, connack), [(false, ConnectReason::Success)]);
        world.lose(client);
        if !is_still_allowed {
            world.set_rules(&RULES.replace("open/not", "open/bye"));
        }
        assert!(topics(&mut world, reader).is_empty());
        world.pass(10_000);
        assert_eq!(topics(&mut world, reader), expected);
    }
}

#[test]
fn new_rules_apply_at_once_and_revoke_subscriptions() {
    for filters in [3, 300] {
        let mut world = world();
        let reader = member(&mut world, "r", "reader");
        let other = member(&mut world, "o", "both");
        assert_eq!(subscribe(&mut world, other, &["open/b"]), [1]);
        let names: Vec<_> = (0..filters).map(|number| format!("open/{number}")).chain(["open/b".into()]).collect();
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        assert!(subscribe(&mut world, reader, &names).iter().all(|code| *code == 1));
        let writer = member(&mut world, "w", "writer");
        publish(&mut world, writer, "open/b", QoS::AtMostOnce, false);
        assert_eq!((topics(&mut world, reader).len(), topics(&mut world, other).len()), (1, 1));

        let narrower = RULES
            .replace("\"open/#\", \"answers", "\"open/1\", \"answers")
            .replace("both = [\"writer\", \"reader\"]", "both = \"wide\"");
        world.set_rules(&format!(
            "[[role]]\nname = \"wide\"\nrules = [{{ allow = \"subscribe\", topics = \"#\" }}]\n{narrower}"
        ));
        let revoked = (0..2).map(|shard| world.counters(shard).subscriptions_revoked.get()).sum::<u64>();
        assert_eq!(revoked, filters, "all subscriptions but one are revoked");
        publish(&mut world, writer, "open/b", QoS::AtMostOnce, false);
        publish(&mut world, writer, "open/1", QoS::AtMostOnce, false);
        assert_eq!(topics(&mut world, reader), ["open/1"]);
        assert_eq!(topics(&mut world, other), ["open/b"], "an allowed subscription is revoked");

        world.set_rules("[[role]]\nname = \"none\"\nrules = [{ allow = \"subscribe\", topics = \"x\" }]");
        publish(&mut world, writer, "open/1", QoS::AtLeastOnce, false);
        assert_eq!(code(&mut world, writer), ReasonCode::NotAuthorized, "the topic cache has an old decision");
    }
}

/// The recheck of all connections takes several turns. The new rules apply to a PUBLISH even before its client is rechecked.
#[test]
fn new_rules_apply_to_a_publish_in_the_same_turn() {
    let mut world = World::new(1);
    world.set_rules(RULES);
    let first = member(&mut world, "c0", "writer");
    for number in 1..2_000 {
        member(&mut world, &format!("c{number}"), "writer");
    }
    let last = member(&mut world, "last", "writer");
    for client in [first, last] {
        publish(&mut world, client, "open/x", QoS::AtLeastOnce, false);
        assert_eq!(code(&mut world, client), ReasonCode::NoMatchingSubscribers);
    }
    let bytes = [&[0x32, 12, 0, 6][..], b"open/x", &[0, 1, 0, b'x']].concat();
    world.set_rules_and_send(&RULES.replace("open/not", "open/x"), last, &bytes);
    assert_eq!(code(&mut world, last), ReasonCode::NotAuthorized);
}

#[test]
fn discovery_requests_are_publishes() {
    let mut world = world();
    for (user, expected) in [("writer", ReasonCode::Success), ("reader", ReasonCode::NotAuthorized)] {
        let client = member(&mut world, user, user);
        publish(&mut world, client, "$SYS/contracts/request", QoS::AtLeastOnce, false);
        let codes = world.received(V5, client, |packet| match packet {
            Packet::PubAck(ack) => Some(ReasonCode::from(ack.reason)),
            _ => None,
        });
        assert!(codes.contains(&Some(expected)), "{codes:?}");
        assert_eq!(
            codes.len(),
            if expected == ReasonCode::Success { 2 } else { 1 },
            "only an allowed request gets a response"
        );
    }
}

#[test]
fn operators_follow_the_rules_of_the_listener_admin() {
    let mut world = world();
    let message = message("open/yes");
    let refused = world.publish_for_operator(&message);
    assert!(
        matches!(refused, Err(tautwire_engine::PublishFailure::Refused(ReasonCode::NotAuthorized, _))),
        "{refused:?}"
    );
    world.set_rules(&format!("{RULES}\n[[assign]]\nlistener = \"admin\"\nroles = \"writer\""));
    assert!(world.publish_for_operator(&message).is_ok());
}

fn message(topic: &str) -> Message {
    let message = MessageRef {
        id: MessageId::NONE,
        topic,
        properties: &[],
        payload: b"x",
        qos: QoS::AtMostOnce,
        retain: false,
        expires_at_ms: None,
    };
    message.to_message()
}
