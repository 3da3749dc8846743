//! Explaining deliveries and drops: each reason from the state of a running broker.

mod agrees;

use std::time::{Duration, Instant};

use tautwire_engine::PublishRefusal;
use tautwire_protocol::{Property, RetainHandling, SubscriptionOptions};

use super::clients::texts;
use crate::contracts::support;
use crate::reload::World;
use crate::support::property::{maximum_packet_size, receive_maximum};
use crate::support::{
    AtLeastOnce, AtMostOnce, ConnectBuilder, EXPECT_TIMEOUT, ExactlyOnce, Folder, OutgoingPublish, Transport, V3_1_1,
    V5, options, sleep,
};

impl World {
    /// The explanation of a message for a client: the outcome, and the codes of the findings.
    #[track_caller]
    fn why(&self, client_id: &str, query: &str) -> (String, Vec<String>) {
        let body = self.get(&format!("/v1/clients/{client_id}/why?{query}")).expect(200).body;
        (texts(&body, "outcome").remove(0), texts(&body, "code"))
    }

    /// The last messages dropped for a client: reason, topic and count.
    #[track_caller]
    fn drops(&self, client_id: &str) -> Vec<String> {
        let body = self.get(&format!("/v1/clients/{client_id}")).expect(200).body;
        let (_, drops) = body.split_once("\"drops\":[").expect("the drops are listed");
        let counts = drops.split("\"count\":").skip(1).map(|rest| rest.split(',').next().unwrap_or_default());
        let reasons = texts(drops, "reason").into_iter().zip(texts(drops, "topic")).zip(counts);
        reasons.map(|((reason, topic), count)| format!("{reason} {topic} {count}")).collect()
    }
}

#[track_caller]
fn is((outcome, codes): (String, Vec<String>), expected: &str, expected_codes: &[&str]) {
    let codes: Vec<&str> = codes.iter().map(String::as_str).collect();
    assert_eq!((outcome.as_str(), codes), (expected, expected_codes.to_vec()));
}

#[test]
fn the_reason_for_a_missing_message_is_reported() {
    for threads in [1, 2] {
        let world = World::new(threads, "[limits]\nsession_queue_messages = 2\n", &[]);
        is(world.why("nobody", "topic=a"), "does_not_arrive", &["no_session"]);

        let mut client = world.broker.connecting(V5, "c").property(receive_maximum(1)).persistent().open();
        client.subscribe("one", AtMostOnce);
        client.subscribe_all(&[("own", SubscriptionOptions { no_local: true, ..options(ExactlyOnce) })], &[]);
        client.subscribe("$share/g/shared", AtLeastOnce);
        client.subscribe("window", AtLeastOnce);
        is(world.why("c", "topic=Two"), "does_not_arrive", &["not_subscribed"]);
        is(world.why("c", "topic=$share/x"), "does_not_arrive", &["topic_reserved", "not_subscribed"]);
        is(world.why("c", "topic=one&qos=0"), "arrives", &["subscribed"]);
        is(world.why("c", "topic=one&qos=2"), "arrives", &["subscribed", "qos_reduced"]);
        is(world.why("c", "topic=own&qos=2"), "arrives", &["subscribed", "no_local"]);
        is(world.why("c", "topic=shared"), "shared", &["shared", "shared_selection"]);

        let mut publisher = world.broker.connect(V5, "p");
        for text in ["1", "2", "3"] {
            publisher.publish("window", AtLeastOnce, text.as_bytes());
        }
        let first = client.expect_publish();
        world.await_sum(&["stored_messages"], 3);
        is(world.why("c", "topic=window"), "does_not_arrive", &["queue_full", "subscribed"]);
        publisher.publish("window", AtLeastOnce, b"4");
        world.await_sum(&["dropped_queue_full"], 1);
        assert_eq!(world.drops("c"), ["queue_full window 1"]);
        client.acknowledge(&first);
        let second = client.expect_publish();
        is(world.why("c", "topic=window"), "queued", &["in_flight_full", "queued_messages", "subscribed"]);
        client.acknowledge(&second);
        let third = client.expect_publish();
        client.acknowledge(&third);
        client.ping();
        is(world.why("c", "topic=window"), "arrives", &["subscribed"]);

        world.leave("offline", "a/+/c");
        is(world.why("offline", "topic=a/b/c"), "queued", &["offline", "subscribed"]);
        is(world.why("offline", "topic=a/b/c&qos=0"), "does_not_arrive", &["offline_qos_0", "subscribed"]);
        let body = world.get("/v1/clients/offline/why?topic=a/B").expect(200).body;
        assert!(body.contains("nearest: a/+/c"), "{body}");
        for wrong in ["", "topic=", "topic=%2B", "topic=a&qos=3", "topic=a&colour=red"] {
            world.get(&format!("/v1/clients/c/why?{wrong}")).expect(400);
        }
    }
}

impl World {
    /// The last messages of the groups that a client is in, without times.
    #[track_caller]
    fn turns(&self, client_id: &str, topic: &str) -> String {
        let body = self.get(&format!("/v1/clients/{client_id}/why?topic={topic}")).expect(200).body;
        let (_, turns) = body.split_once("\"shared_selection\",\"text\":\"").expect("the turns are listed");
        let words = turns.split('"').next().unwrap_or_default().split(' ');
        let is_time = |word: &str| word.starts_with("20") && word.contains("Z");
        words
            .map(|word| if is_time(word) { word.get(20..).unwrap_or_default() } else { word })
            .collect::<Vec<_>>()
            .join(" ")
    }
}

#[test]
fn group_queue_lengths_are_reported() {
    for threads in [1, 2] {
        let world = World::new(threads, "", &[]);
        let mut publisher = world.broker.connect(V5, "p");
        let mut member = world.broker.connecting(V5, "c").property(receive_maximum(1)).open();
        member.subscribe("$share/g/jobs", AtLeastOnce);
        for text in ["1", "2", "3"] {
            publisher.publish("jobs", AtLeastOnce, text.as_bytes());
        }
        let first = member.expect_publish();
        world.await_sum(&["stored_messages"], 3);
        let (outcome, codes) = world.why("c", "topic=jobs");
        assert_eq!(outcome, "shared");
        assert!(codes.iter().any(|code| code == "shared_queue"), "{codes:?}");
        member.acknowledge(&first);
        assert_eq!(member.receive_texts(2), ["2", "3"]);
        world.await_sum(&["stored_messages"], 0);
        let (_, codes) = world.why("c", "topic=jobs");
        assert!(!codes.iter().any(|code| code == "shared_queue"), "{codes:?}");
    }
}

#[test]
fn the_selected_members_of_a_shared_group_are_reported() {
    for threads in [1, 2] {
        let world = World::new(threads, "", &[]);
        let mut publisher = world.broker.connect(V5, "p");
        let mut first = world.broker.connect(V5, "first");
        first.subscribe("$share/g/jobs/#", AtLeastOnce);
        assert_eq!(
            world.turns("first", "jobs/1"),
            "none of the last 16 messages of $share/g/jobs/# were on this topic"
        );
        publisher.publish("jobs/1", AtLeastOnce, b"1");
        first.receive();
        assert_eq!(
            world.turns("first", "jobs/1"),
            "the last messages of $share/g/jobs/# on this topic: 1 for this client, the last at "
        );
        assert_eq!(
            world.turns("first", "jobs/2"),
            "none of the last 16 messages of $share/g/jobs/# were on this topic"
        );

        // An offline member gets no messages as long as another member is connected.
        let names = ["second", "third", "fourth"];
        let mut others = names.map(|name| world.broker.connecting(V5, name).persistent().open());
        others.iter_mut().for_each(|client| client.subscribe("$share/g/jobs/#", AtLeastOnce));
        for client in others {
            client.disconnect();
        }
        let mut second = world.broker.connecting(V5, "second").persistent().open();
        second.ping();
        first.disconnect();
        world.await_sum(&["connections"], 2);
        for text in ["2", "3"] {
            publisher.publish("jobs/1", AtMostOnce, text.as_bytes());
            assert_eq!(second.receive().text(), text);
        }
        let own = "the last messages of $share/g/jobs/# on this topic: 2 for this client, the last at ; \
                   1 for other members, the last at ";
        assert_eq!(world.turns("second", "jobs/1"), own, "the session of the other member has ended");
        for name in ["third", "fourth"] {
            let others =
                "the last messages of $share/g/jobs/# on this topic: 3 for other members, the last for second at ";
            assert_eq!(world.turns(name, "jobs/1"), others);
        }
    }
}

/// Everybody may do everything, except subscribe below `closed`.
const RULES: &str = r##"
[[role]]
name = "all"
rules = [{ deny = "subscribe", topics = "closed/#" }, { allow = ["publish", "subscribe"], topics = "#" }]

[[assign]]
everyone = true
roles = "all"
"##;

const TABLES: &str = "[acl]\nfile = \"access.toml\"\n[contracts]\npath = \"contracts\"\n\
                      [limits]\ntopic_levels = 9\nconnection_output_bytes = 100000\n\
                      [[listener]]\naddress = \"127.0.0.1:0\"\nname = \"mounted\"\nmount_point = \"m/\"\n";

/// With access rules, contracts, and a listener with the mount point `m/`.
fn world_with_rules(threads: usize) -> World {
    let folder = support::World::folder(support::MANIFEST);
    support::write_schemas(&folder);
    folder.write("access.toml", RULES);
    World::within(folder, threads, TABLES, &["sys.interval_s=3600"])
}

#[test]
fn rules_contracts_formats_and_options_are_explained() {
    for threads in [1, 2] {
        let world = world_with_rules(threads);
        let mut client = world.broker.connecting(V5, "c").property(maximum_packet_size(1_000)).open();
        client.subscribe("open", AtLeastOnce);
        is(world.why("c", "topic=closed/x"), "does_not_arrive", &["not_subscribed", "not_allowed"]);
        is(world.why("c", "topic=1/2/3/4/5/6/7/8/9/10"), "does_not_arrive", &["topic_refused", "not_subscribed"]);
        is(world.why("c", "topic=open"), "arrives", &["subscribed", "packet_limit"]);

        let mut client = world.broker.connect(V5, "formats");
        client.subscribe("strict/#", AtLeastOnce);
        client.subscribe("$as/protobuf/watched/#", AtLeastOnce);
        is(world.why("formats", "topic=strict/1"), "arrives", &["subscribed", "contract"]);
        is(world.why("formats", "topic=watched/1"), "does_not_arrive", &["subscribed", "not_transcodable", "contract"]);

        world.broker.connect(V5, "p").deliver(&OutgoingPublish::new("kept", AtLeastOnce, b"x").retained());
        let wants = |retain_handling| SubscriptionOptions { retain_handling, ..options(AtLeastOnce) };
        for (name, filter, retain_handling, is_sent) in [
            ("always", "kept", RetainHandling::SendAtSubscribe, true),
            ("new", "kept", RetainHandling::SendIfNew, false),
            ("never", "kept", RetainHandling::DoNotSend, false),
            ("shared", "$share/g/kept", RetainHandling::SendAtSubscribe, false),
        ] {
            let mut client = world.broker.connect(V5, name);
            client.subscribe_as(filter, wants(retain_handling));
            let (_, codes) = world.why(name, "topic=kept");
            assert!(codes.contains(&"retained".to_owned()), "{name}: {codes:?}");
            assert_eq!(!codes.contains(&"retain_handling".to_owned()), is_sent, "{name}: {codes:?}");
        }

        let mounted = ConnectBuilder::new(Transport::Tcp(world.broker.other_address(0)), V5, "inside").open();
        is(world.why("inside", "mount_point=m/&topic=open"), "does_not_arrive", &["outside_mount"]);
        is(world.why("inside", "mount_point=m/&topic=m/open"), "does_not_arrive", &["not_subscribed"]);
        is(world.why("inside", "topic=m/open"), "does_not_arrive", &["no_session"]);
        drop(mounted);
    }
}

#[test]
fn a_user_limit_is_distinguished_from_a_full_queue() {
    let folder = Folder::new(&[("users", crate::user_quotas::USERS)]);
    let file = "[auth]\npassword_file = \"users\"\n[limits]\nuser_queue_messages = 1\n";
    let world = World::within(folder, 1, file, &[]);
    let connecting = |name| world.broker.connecting(V5, name).user_name("ann").password(b"password").persistent();
    for name in ["a1", "a2"] {
        let mut client = connecting(name).open();
        client.subscribe(name, AtLeastOnce);
        client.disconnect();
    }
    let mut publisher = world.broker.connecting(V5, "p").user_name("bob").password(b"password").open();
    publisher.publish("a1", AtLeastOnce, b"x");
    for name in ["a1", "a2"] {
        let (outcome, codes) = world.why(name, &format!("topic={name}"));
        assert_eq!((outcome.as_str(), codes[0].as_str()), ("does_not_arrive", "queue_full_for_user"), "{name}");
    }
}

#[test]
fn messages_that_a_client_cannot_accept_are_reported_with_the_reason() {
    for threads in [1, 2] {
        let world = world_with_rules(threads);
        let mut publisher = world.broker.connect(V5, "p");
        let mut small = world.broker.connecting(V5, "small").property(maximum_packet_size(60)).persistent().open();
        small.subscribe("large/#", AtLeastOnce);
        for (topic, qos) in [("large/0", AtMostOnce), ("large/1", AtLeastOnce), ("large/1", AtLeastOnce)] {
            publisher.publish(topic, qos, &[b'x'; 100]);
        }
        publisher.publish("large/last", AtLeastOnce, b"last");
        assert_eq!(small.receive().text(), "last");
        assert_eq!(world.drops("small"), ["too_large large/0 1", "too_large large/1 2"]);

        // The message was sent, and the client reconnects with a lower limit.
        let connecting = world.broker.connecting(V5, "smaller").persistent();
        let mut client = connecting.open();
        client.subscribe("large/#", AtLeastOnce);
        publisher.publish("large/2", AtLeastOnce, &[b'x'; 100]);
        client.expect_publish();
        client.cut();
        let mut client = world.broker.connecting(V5, "smaller").persistent().property(maximum_packet_size(60)).open();
        client.ping();
        assert_eq!(world.drops("smaller"), ["too_large large/2 1"]);

        let mut old = world.broker.connect(V3_1_1, "old");
        old.subscribe("$as/protobuf/watched/#", AtLeastOnce);
        publisher.publish("watched/1", AtLeastOnce, b"{\"n\": 1}");
        assert_eq!(world.drops("old"), ["untranscodable watched/1 1"]);
        publisher.deliver(&OutgoingPublish::new("watched/2", AtLeastOnce, b"{\"n\": 1}").retained());
        let mut late = world.broker.connect(V3_1_1, "late");
        late.subscribe("$as/protobuf/watched/#", AtLeastOnce);
        late.ping();
        assert_eq!(world.drops("late"), ["untranscodable watched/2 1"]);
    }
}

#[test]
fn expired_messages_are_reported_with_the_reason() {
    for threads in [1, 2] {
        let world = world_with_rules(threads);
        let mut publisher = world.broker.connect(V5, "p");
        let mut client = world.broker.connecting(V5, "c").property(receive_maximum(1)).open();
        client.subscribe("a", AtLeastOnce);
        publisher.publish("a", AtLeastOnce, b"first");
        publisher
            .deliver(&OutgoingPublish::new("a", AtLeastOnce, b"expired").property(Property::MessageExpiryInterval(1)));
        let first = client.expect_publish();
        sleep(Duration::from_millis(2_200));
        client.acknowledge(&first);
        client.ping();
        assert_eq!(world.drops("c"), ["expired a 1"]);

        world.leave("offline", "secret/#");
        publisher.publish("secret/1", AtLeastOnce, b"x");
        world.folder.write("access.toml", &RULES.replace("closed/#", "secret/#"));
        world.reload_again().expect(200);
        let mut client = world.broker.connecting(V5, "offline").persistent().open();
        client.ping();
        assert_eq!(world.drops("offline"), ["not_authorized secret/1 1"]);
    }
}

#[test]
fn a_client_that_does_not_read_is_reported() {
    for threads in [1, 2] {
        let world = world_with_rules(threads);
        let mut stuck = world.broker.connect(V5, "stuck");
        stuck.subscribe("flood", ExactlyOnce);
        let mut publisher = world.broker.connect(V5, "p");
        let payload = vec![b'x'; 60_000];
        // The socket buffers of the system fill up first.
        let mut sent = 0;
        while world.drops("stuck").is_empty() {
            publisher.publish("flood", AtMostOnce, &payload);
            publisher.ping();
            sent += 1;
            assert!(sent < 2_000, "nothing is dropped");
        }
        assert!(world.drops("stuck")[0].starts_with("output_full flood "), "{:?}", world.drops("stuck"));
        is(world.why("stuck", "topic=flood&qos=0"), "arrives", &["output_nearly_full", "subscribed"]);
        // Acknowledged messages exceed the limit by one at most.
        publisher.publish("flood", AtLeastOnce, &payload);
        is(world.why("stuck", "topic=flood&qos=0"), "does_not_arrive", &["output_full", "subscribed"]);
        is(world.why("stuck", "topic=flood"), "queued", &["output_full", "subscribed"]);
    }
}

#[test]
fn clients_dropped_for_lack_of_output_memory_are_reported() {
    for threads in [1, 2] {
        let world = World::new(threads, "[limits]\nmemory_bytes = 1048576\n", &["sys.interval_s=3600"]);
        let names: Vec<String> = (0..40).map(|number| format!("c{number}")).collect();
        let mut clients: Vec<_> = names.iter().map(|name| world.broker.connect(V5, name)).collect();
        clients.iter_mut().for_each(|client| client.subscribe("large", AtMostOnce));
        let mut publisher = world.broker.connect(V5, "p");
        // More than twice the memory, sent to all of them in one turn.
        publisher.publish("large", AtMostOnce, &[b'x'; 60_000]);
        let deadline = Instant::now() + EXPECT_TIMEOUT;
        let drops = loop {
            let drops: Vec<String> = names.iter().flat_map(|name| world.drops(name)).collect();
            if !drops.is_empty() {
                break drops;
            }
            assert!(Instant::now() < deadline, "nothing is dropped");
        };
        assert!(drops.iter().all(|drop| drop == "memory_full large 1"), "{drops:?}");
    }
}

/// `#` behind the mount point `m/` is `m/#`, which matches `m` as well.
#[test]
fn matches_outside_of_the_mount_point_are_not_disclosed() {
    for threads in [1, 2] {
        let world = world_with_rules(threads);
        let mut inside = ConnectBuilder::new(Transport::Tcp(world.broker.other_address(0)), V5, "inside").open();
        inside.subscribe("#", AtLeastOnce);
        let mut publisher = world.broker.connect(V5, "p");
        for (topic, qos) in [("m", AtMostOnce), ("m/$x", AtMostOnce), ("m", AtLeastOnce)] {
            publisher.publish(topic, qos, b"x");
        }
        publisher.publish("m/last", AtLeastOnce, b"last");
        assert_eq!(inside.receive().text(), "last");
        let body = world.get("/v1/clients/inside?mount_point=m/").expect(200).body;
        assert_eq!(texts(&body, "reason"), ["outside_mount"; 3], "{body}");
        for topic in ["m", "m/$x"] {
            let query = format!("mount_point=m/&topic={topic}");
            is(world.why("inside", &query), "does_not_arrive", &["outside_mount"]);
        }
        is(world.why("inside", "mount_point=m/&topic=m/last"), "arrives", &["subscribed"]);
    }
}

/// Each code is explained in the guide and in the description of the API.
#[test]
fn every_code_is_explained() {
    let source = include_str!("../../../src/admin/why.rs");
    let guide = include_str!("../../../../../docs/guides/why-not-delivered.md");
    let reference = include_str!("../../../../../docs/reference/admin-api.md");
    let quoted = source.split('"').skip(1).step_by(2);
    let is_code = |text: &&str| {
        text.contains('_') && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_' || byte == b'0')
    };
    let refusals = PublishRefusal::ALL.iter().map(|refusal| refusal.code());
    let parameters = ["mount_point", "payload_bytes"];
    let codes: Vec<&str> = quoted.filter(is_code).filter(|text| !parameters.contains(text)).chain(refusals).collect();
    assert!(codes.len() > 15, "{codes:?}");
    for code in codes {
        assert!(guide.contains(&format!("`{code}`")), "the guide does not explain {code}");
        assert!(reference.contains(&format!("`{code}`")), "the reference does not list {code}");
    }
}
