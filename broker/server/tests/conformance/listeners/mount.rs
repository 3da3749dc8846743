//! `mount_point` of a listener: its clients' topics have a prefix that they do not see.

use std::num::NonZeroU32;

use tautwire_protocol::{Property, TopicName};

use crate::support::property::topic_alias;
use crate::support::{
    AtLeastOnce, AtMostOnce, Broker, Client, ConnectBuilder, ExactlyOnce, Folder, OutgoingPublish, ProtocolVersion,
    QoS, Transport, V3_1_1, V5, WillMessage, expect_nothing_from, options,
};

/// A broker with one listener for all topics, two with the mount point `a/` and one with `b/c/`.
const TABLES: &str = "[[listener]]\naddress = \"127.0.0.1:0\"\nname = \"a\"\nmount_point = \"a/\"\n\
                      [[listener]]\naddress = \"127.0.0.1:0\"\nname = \"a-too\"\nmount_point = \"a/\"\n\
                      [[listener]]\naddress = \"127.0.0.1:0\"\nname = \"b\"\nmount_point = \"b/c/\"\n";
const A: usize = 0;
const A_TOO: usize = 1;
const B: usize = 2;

/// A broker with clients on all of these listeners.
struct World {
    broker: Broker,
    _folder: Folder,
}

impl World {
    fn new(threads: usize, settings: &[&str]) -> World {
        let folder = Folder::new(&[]);
        let broker = Broker::with_listeners(threads, &folder, TABLES, settings);
        World { broker, _folder: folder }
    }

    fn connecting<'a>(&self, listener: usize, version: ProtocolVersion, client_id: &'a str) -> ConnectBuilder<'a> {
        ConnectBuilder::new(Transport::Tcp(self.broker.other_address(listener)), version, client_id)
    }

    fn connect(&self, listener: usize, client_id: &str) -> Client {
        self.connecting(listener, V5, client_id).open()
    }

    /// A client of the listener without a mount point, which sees all topics in full.
    fn operator(&self, client_id: &str) -> Client {
        self.broker.connect(V5, client_id)
    }
}

fn every_way(body: impl Fn(&World, ProtocolVersion, QoS)) {
    for threads in [1, 3] {
        let world = World::new(threads, &[]);
        for version in [V3_1_1, V5] {
            for qos in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
                body(&world, version, qos);
            }
        }
    }
}

#[track_caller]
fn receives(client: &mut Client, topic: &str, text: &str) {
    let message = client.receive();
    assert_eq!((message.topic(), message.text()), (topic, text));
}

/// Checks that no message of `operator` is pending for a client behind `prefix`.
#[track_caller]
fn nothing_follows(operator: &mut Client, inside: &mut Client, prefix: &str) {
    inside.subscribe("fence", AtLeastOnce);
    operator.publish(&format!("{prefix}fence"), AtLeastOnce, b"fence");
    receives(inside, "fence", "fence");
    inside.unsubscribe(&["fence"]);
}

#[test]
fn the_mount_point_prefix_is_visible_only_to_other_clients() {
    every_way(|world, version, qos| {
        let mut inside = world.connecting(A, version, "inside").open();
        let mut neighbour = world.connecting(A_TOO, version, "neighbour").open();
        let mut stranger = world.connecting(B, version, "stranger").open();
        let mut operator = world.operator("operator");
        for client in [&mut inside, &mut neighbour, &mut stranger] {
            client.subscribe("t/+", qos);
        }
        operator.subscribe("#", qos);
        inside.publish("t/1", qos, b"from a");
        receives(&mut neighbour, "t/1", "from a");
        receives(&mut inside, "t/1", "from a");
        receives(&mut operator, "a/t/1", "from a");
        operator.publish("b/c/t/2", qos, b"from outside");
        receives(&mut stranger, "t/2", "from outside");
        receives(&mut operator, "b/c/t/2", "from outside");
        assert_eq!(inside.unsubscribe(&["t/+", "a/t/+"]).len(), if version.is_v5() { 2 } else { 0 });
        for topic in ["t/3", "a/t/3"] {
            operator.publish(topic, qos, topic.as_bytes());
            receives(&mut operator, topic, topic);
        }
        receives(&mut neighbour, "t/3", "a/t/3");
        operator.unsubscribe(&["#"]);
        nothing_follows(&mut operator, &mut inside, "a/");
        nothing_follows(&mut operator, &mut neighbour, "a/");
        nothing_follows(&mut operator, &mut stranger, "b/c/");
    });
}

#[test]
fn a_client_sees_retained_messages_of_its_mount_point() {
    every_way(|world, version, qos| {
        let mut operator = world.operator("operator");
        // `#` matches the parent level, and must not match topics that start with `$` [MQTT-4.7.2-1].
        let outside = ["a", "a/", "a/$x", "ab", "b/c/t", "t"];
        for topic in outside.into_iter().chain(["a/t"]) {
            operator.deliver(&OutgoingPublish::new(topic, qos, topic.as_bytes()).retained());
        }
        operator.ping();
        let mut inside = world.connecting(A, version, "inside").open();
        inside.subscribe("#", qos);
        receives(&mut inside, "t", "a/t");
        for topic in outside {
            operator.deliver(&OutgoingPublish::new(topic, qos, b"live").retained());
        }
        nothing_follows(&mut operator, &mut inside, "a/");
        inside.deliver(&OutgoingPublish::new("own", qos, b"1").retained());
        inside.ping();
        operator.subscribe("a/own", qos);
        let kept = operator.receive();
        assert_eq!((kept.topic(), kept.text(), kept.retain()), ("a/own", "1", true));
        inside.deliver(&OutgoingPublish::new("own", qos, b"").retained());
    });
}

#[test]
fn topics_of_the_broker_are_not_visible_in_a_mount_point() {
    let world = World::new(1, &["sys.interval_s=1"]);
    for (version, code) in [(V3_1_1, 0x80), (V5, 0x87)] {
        let mut inside = world.connecting(A, version, "inside").open();
        let filters = ["$SYS/#", "$quarantine/#", "$share/g/$SYS/#", "$as/json/$SYS/#", "$any/thing", "fine"];
        let requests = filters.map(|filter| (filter, options(AtMostOnce)));
        assert_eq!(inside.subscribe_all(&requests, &[]), [code, code, code, code, code, 0]);
        for topic in ["$SYS/contracts/request", "$any/thing"] {
            let answer = inside.publish(topic, AtLeastOnce, b"");
            assert_eq!(answer, if version.is_v5() { 0x87 } else { 0 }, "{topic}");
        }
        inside.subscribe("#", AtMostOnce);
        inside.ping();
        inside.publish("first", AtMostOnce, b"");
        receives(&mut inside, "first", "");
        let refused = world.connecting(A, version, "will").will(WillMessage::new("$any/thing", b"")).refused();
        assert_eq!(refused, if version.is_v5() { 0x87 } else { 5 });
    }
    let mut operator = world.operator("operator");
    operator.subscribe("$any/thing", AtMostOnce);
    operator.subscribe("a/$any/thing", AtMostOnce);
    let mut inside = world.connect(A, "inside");
    inside.publish("$any/thing", AtLeastOnce, b"");
    expect_nothing_from(&mut world.operator("publisher"), &mut operator);
}

#[test]
fn wills_and_response_topics_are_mounted() {
    let world = World::new(2, &[]);
    let response = |topic: &'static str| Property::ResponseTopic(TopicName::new(topic).expect("a valid topic"));
    let (mut inside, mut operator) = (world.connect(A, "inside"), world.operator("operator"));
    inside.subscribe("#", AtLeastOnce);
    operator.subscribe("a/#", AtLeastOnce);
    let will = WillMessage::new("gone", b"bye").qos(AtLeastOnce).property(response("re/ply"));
    world.connecting(A_TOO, V5, "mortal").will(will).open().cut();
    for (client, prefix) in [(&mut inside, ""), (&mut operator, "a/")] {
        let message = client.receive();
        assert_eq!(message.topic(), format!("{prefix}gone"));
        let response_topic = message.properties().response_topic().map(|topic| topic.as_str().to_owned());
        assert_eq!(response_topic, Some(format!("{prefix}re/ply")));
    }
    let asked = |topic| OutgoingPublish::new(topic, AtLeastOnce, b"?").property(Property::CorrelationData(b"7"));
    inside.deliver(&asked("q").property(response("re/ply")));
    assert_eq!(operator.receive().properties().response_topic().map(TopicName::as_str), Some("a/re/ply"));
    assert_eq!(inside.receive().properties().response_topic().map(TopicName::as_str), Some("re/ply"));
    // Without access to the response topic, the client does not see it.
    operator.deliver(&asked("a/q").property(response("elsewhere")));
    let message = inside.receive();
    assert_eq!(message.properties().response_topic(), None);
    assert!(message.properties().iter().any(|property| property == Property::CorrelationData(b"7")));
}

#[test]
fn topic_aliases_refer_to_mounted_topics() {
    let world = World::new(2, &[]);
    let mut operator = world.operator("operator");
    let mut inside = world.connecting(A, V5, "inside").property(Property::TopicAliasMaximum(5)).open();
    operator.subscribe("a/#", AtLeastOnce);
    inside.deliver(&OutgoingPublish::new("t", AtLeastOnce, b"1").property(topic_alias(3)));
    inside.deliver(&OutgoingPublish::by_alias(3, AtLeastOnce, b"2"));
    receives(&mut operator, "a/t", "1");
    receives(&mut operator, "a/t", "2");
    assert_eq!(inside.deliver(&OutgoingPublish::new("$x", AtLeastOnce, b"1").property(topic_alias(4))), 0x87);
    assert_eq!(inside.deliver(&OutgoingPublish::by_alias(4, AtLeastOnce, b"2")), 0x87);
    inside.subscribe("#", AtLeastOnce);
    for (topic, alias) in [("u", Some(1)), ("", Some(1)), ("v", Some(2))] {
        let full = if topic == "v" { "a/v" } else { "a/u" };
        operator.publish(full, AtLeastOnce, b"");
        let message = inside.receive();
        assert_eq!((message.topic(), message.properties().topic_alias().map(|alias| alias.get())), (topic, alias));
    }
}

#[test]
fn groups_of_different_mount_points_differ() {
    every_way(|world, version, qos| {
        let mut of_a = world.connecting(A, version, "member").open();
        let mut of_b = world.connecting(B, version, "member").open();
        let mut operator = world.operator("operator");
        for member in [&mut of_a, &mut of_b] {
            member.subscribe("$share/g/t", qos);
        }
        for number in ["1", "2"] {
            operator.publish("a/t", qos, number.as_bytes());
            receives(&mut of_a, "t", number);
            operator.publish("b/c/t", qos, number.as_bytes());
            receives(&mut of_b, "t", number);
        }
        operator.publish("t", qos, b"nobody's");
        for (member, prefix) in [(&mut of_a, "a/"), (&mut of_b, "b/c/")] {
            member.unsubscribe(&["$share/g/t"]);
            nothing_follows(&mut operator, member, prefix);
        }
    });
}

/// Client Identifiers are distinguished by mount point, before and after a restart.
#[test]
fn a_session_belongs_to_its_mount_point() {
    let folder = Folder::new(&[]);
    let data = format!("data.path={}", folder.path().join("data").display());
    for version in [V3_1_1, V5] {
        {
            let world = World::new(2, &[&data]);
            let mut operator = world.operator("operator");
            for listener in [A, B] {
                let mut client = world.connecting(listener, version, "same").persistent().open();
                assert!(!client.session_present());
                client.subscribe("t", AtLeastOnce);
                // The client of the other mount point is not taken over.
                client.ping();
            }
            let mut full = world.broker.connecting(version, "same").persistent().open();
            assert!(!full.session_present());
            full.subscribe("+/t", AtLeastOnce);
            drop(full);
            world.connecting(A, version, "same").persistent().open().disconnect();
            world.connecting(B, version, "same").persistent().open().disconnect();
            operator.publish("a/t", AtLeastOnce, b"for a");
            operator.publish("b/c/t", AtLeastOnce, b"for b");
            world.broker.signal("KILL");
        }
        let world = World::new(2, &[&data]);
        for (listener, text) in [(A_TOO, "for a"), (B, "for b")] {
            let mut client = world.connecting(listener, version, "same").persistent().open();
            assert!(client.session_present());
            receives(&mut client, "t", text);
            client.publish("t", AtLeastOnce, b"after");
            receives(&mut client, "t", "after");
            assert_eq!(client.unsubscribe(&["t"]), if version.is_v5() { vec![0] } else { vec![] });
            client.ping();
            // Removed for the other version.
            drop(client);
            world.connecting(listener, version, "same").open();
        }
        let mut full = world.broker.connecting(version, "same").persistent().open();
        assert!(full.session_present());
        receives(&mut full, "a/t", "for a");
        drop(full);
        world.broker.connecting(version, "same").open();
    }
}

#[test]
fn a_topic_that_is_too_long_with_its_mount_point_is_refused() {
    let world = World::new(1, &[]);
    let longest = "x".repeat(65_535 - "b/c/".len());
    let too_long = format!("{longest}x");
    let mut inside = world.connect(B, "inside");
    inside.subscribe(&longest, AtLeastOnce);
    assert_eq!(inside.publish(&longest, AtLeastOnce, b"1"), 0);
    receives(&mut inside, &longest, "1");
    let refused = inside.subscribe_all(&[(&too_long, options(AtLeastOnce))], &[]);
    assert_eq!(refused, [0x8f]);
    assert_eq!(world.connecting(B, V5, "will").will(WillMessage::new(&too_long, b"")).refused(), 0x90);
    inside.send_publish(&OutgoingPublish::new(&too_long, AtLeastOnce, b"2"));
    assert_eq!(inside.expect_disconnect(), 0x90);
    let world = World::new(1, &["limits.topic_bytes=10"]);
    let mut inside = world.connect(B, "inside");
    assert_eq!(inside.publish("123456", AtLeastOnce, b""), 0x10);
    assert_eq!(inside.publish("1234567", AtLeastOnce, b""), 0x90, "the full topic counts");
}

#[test]
fn the_maximum_packet_size_applies_without_the_mount_prefix() {
    for qos in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
        let world = World::new(1, &[]);
        let maximum = NonZeroU32::new(64).map(Property::MaximumPacketSize).expect("not zero");
        let mut inside = world.connecting(B, V5, "inside").property(maximum).open();
        inside.subscribe("t", qos);
        // Fixed header, topic, packet identifier, property length.
        let most = 64 - 2 - 3 - if qos == AtMostOnce { 0 } else { 2 } - 1;
        let mut operator = world.operator("operator");
        operator.publish("b/c/t", qos, &vec![b'-'; most + 1]);
        operator.publish("b/c/t", qos, &vec![b'+'; most]);
        assert_eq!(inside.receive().payload(), vec![b'+'; most]);
    }
}

#[test]
fn large_payloads_arrive_whole_in_a_mount_point() {
    let world = World::new(2, &[]);
    let payload: Vec<u8> = (0..100_000_u32).map(|number| number as u8).collect();
    for qos in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
        let (mut inside, mut operator) = (world.connect(A, "inside"), world.operator("operator"));
        let mut other = world.connect(A_TOO, "other");
        for client in [&mut inside, &mut other] {
            client.subscribe("t", qos);
        }
        operator.subscribe("a/t", qos);
        inside.publish("t", qos, &payload);
        for (client, topic) in [(&mut inside, "t"), (&mut other, "t"), (&mut operator, "a/t")] {
            let message = client.receive();
            assert_eq!(message.topic(), topic);
            assert!(message.payload() == payload);
        }
    }
}

/// Operators see full topic names, also in access rules.
#[test]
fn access_rules_use_full_topics() {
    let folder = Folder::new(&[]);
    let rules = "[[role]]\nname = \"all\"\nrules = [{ allow = [\"publish\", \"subscribe\"], topics = \"a/open/#\" }]\n\
                 [[assign]]\nclient_id = \"*\"\nroles = \"all\"\n";
    folder.write("acl", rules);
    let world = World::new(1, &[&format!("acl.file={}", folder.path().join("acl").display())]);
    let mut inside = world.connect(A, "inside");
    let requests = ["open/x", "x"].map(|filter| (filter, options(AtMostOnce)));
    assert_eq!(inside.subscribe_all(&requests, &[]), [0, 0x87]);
    assert_eq!(inside.publish("open/x", AtLeastOnce, b"1"), 0);
    receives(&mut inside, "open/x", "1");
    assert_eq!(inside.publish("a/open/x", AtLeastOnce, b"2"), 0x87);
    let refused = world.connecting(A, V5, "will").will(WillMessage::new("x", b"")).refused();
    assert_eq!(refused, 0x87);
    world.connecting(A, V5, "will").will(WillMessage::new("open/x", b"")).open();
}

#[test]
fn an_invalid_mount_point_prevents_the_start() {
    for wrong in ["a", "", "$SYS/", "a/+/", "#/"] {
        let folder = Folder::new(&[]);
        let table = format!("[[listener]]\naddress = \"127.0.0.1:0\"\nmount_point = \"{wrong}\"\n");
        let stderr = Broker::refused_with_listeners(&folder, &table);
        assert!(
            stderr.contains("tautwire.toml:5:15: mount_point: ") && stderr.contains("is not a mount point"),
            "{stderr}"
        );
    }
}
