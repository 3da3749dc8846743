//! The prediction of `why` agrees with what happens to the message, for each reason.

use tautwire_engine::{DropReason, PublishRefusal};
use tautwire_protocol::{Packet, Property, QoS};

use super::{RULES, world_with_rules};
use crate::reload::World;
use crate::support::property::{maximum_packet_size, receive_maximum};
use crate::support::{
    AtLeastOnce, AtMostOnce, Broker, Client, ConnectBuilder, EXPECT_TIMEOUT, ExactlyOnce, Folder, OutgoingPublish,
    TOKEN, Transport, V3_1_1, V5, admin, packet_id, sleep, wait_until,
};

/// A broker in which one reason applies to a message, and the message.
struct Case {
    world: World,
    publisher: Client,
    topic: &'static str,
    qos: QoS,
    retain: bool,
    payload: Vec<u8>,
    /// Further parameters of the `why` query, besides topic, QoS and RETAIN.
    more: &'static str,
    /// Clients that stay connected.
    _others: Vec<Client>,
}

impl Case {
    fn new(world: World, topic: &'static str, qos: QoS) -> Case {
        let publisher = world.broker.connect(V5, "p");
        Case { world, publisher, topic, qos, retain: false, payload: b"x".to_vec(), more: "", _others: Vec::new() }
    }

    fn retained(self) -> Case {
        Case { retain: true, ..self }
    }

    fn with_query(self, more: &'static str) -> Case {
        Case { more, ..self }
    }

    fn with(self, others: impl IntoIterator<Item = Client>) -> Case {
        Case { _others: others.into_iter().collect(), ..self }
    }

    fn sized(self, bytes: usize, more: &'static str) -> Case {
        Case { payload: vec![b'x'; bytes], ..self.with_query(more) }
    }

    /// The prediction for the client `c`: the outcome, and the codes of the findings.
    #[track_caller]
    fn predicted(&self) -> (String, Vec<String>) {
        let Case { topic, qos, retain, more, .. } = self;
        self.world.why("c", &format!("topic={topic}&qos={}&retain={retain}{more}", qos.as_u8()))
    }

    fn outgoing(&self) -> OutgoingPublish<'_> {
        let outgoing = OutgoingPublish::new(self.topic, self.qos, &self.payload);
        if self.retain { outgoing.retained() } else { outgoing }
    }

    /// Publishes the message, which is refused, and returns the code.
    #[track_caller]
    fn refused(mut self) -> u8 {
        let outgoing = self.outgoing();
        let bytes = self.publisher.encoded(&Packet::Publish(outgoing.publish(packet_id(60_000))));
        self.publisher.send_bytes_unless_closed(&bytes);
        self.publisher.expect_refusal()
    }

    /// Publishes such messages until one is refused.
    #[track_caller]
    fn until_refused(mut self) -> Case {
        for _ in 0..5_000 {
            if self.publisher.publish(self.topic, self.qos, &self.payload) != 0 {
                return self;
            }
        }
        panic!("nothing is refused");
    }
}

/// `c` is offline, and its session queues messages published to `kept`.
fn with_offline_session(world: World) -> World {
    world.leave("c", "kept");
    world
}

fn with_data(more: &[&str]) -> World {
    let folder = Folder::new(&[]);
    let data = format!("data.path={}", folder.path().join("data").display());
    let settings: Vec<&str> = [&data[..]].into_iter().chain(more.iter().copied()).collect();
    with_offline_session(World::within(folder, 1, "", &settings))
}

const ROOMY: &str = "limits.session_queue_bytes=1000000000";

fn case_of(refusal: PublishRefusal) -> Case {
    let simple = |file: &str| World::new(1, file, &[]);
    match refusal {
        PublishRefusal::PacketTooLarge => {
            Case::new(simple("mqtt.maximum_packet_size = 1000\n"), "t", AtLeastOnce).sized(2_000, "&payload_bytes=2000")
        }
        PublishRefusal::QoSNotSupported => Case::new(simple("mqtt.max_qos = 1\n"), "t", ExactlyOnce),
        PublishRefusal::RetainNotSupported => {
            Case::new(simple("mqtt.retain_available = false\n"), "t", AtLeastOnce).retained()
        }
        PublishRefusal::TopicTooLong => Case::new(simple("limits.topic_levels = 2\n"), "a/b/c", AtLeastOnce),
        PublishRefusal::TopicReserved => Case::new(simple(""), "$share/x", AtLeastOnce),
        PublishRefusal::NotAuthorized => {
            let rules = RULES.replace("deny = \"subscribe\"", "deny = \"publish\"");
            let world = World::within(Folder::new(&[("access.toml", &rules)]), 1, "acl.file = \"access.toml\"\n", &[]);
            Case::new(world, "closed/x", AtLeastOnce).with_query("&publisher=p")
        }
        PublishRefusal::ContractViolation => {
            Case::new(world_with_rules(1), "strict/1", AtLeastOnce).with_query("&payload=x")
        }
        PublishRefusal::NoMemory => {
            let world = with_offline_session(World::new(1, "limits.memory_bytes = 1048576\n", &[ROOMY]));
            Case::new(world, "kept", AtLeastOnce).sized(20_000, "&payload_bytes=20000").until_refused()
        }
        PublishRefusal::PayloadTooLarge => {
            Case::new(simple("limits.payload_bytes = 100\n"), "t", AtLeastOnce).sized(200, "&payload_bytes=200")
        }
        PublishRefusal::SessionQueueFull => {
            let file = "limits.session_queue_messages = 3\nlimits.slow_consumer = \"refuse\"\n";
            Case::new(with_offline_session(simple(file)), "kept", AtLeastOnce).until_refused()
        }
        PublishRefusal::SharedQueueFull => {
            let world = simple("limits.shared_queue_bytes = 10_000\n");
            let mut member = world.broker.connecting(V5, "c").property(receive_maximum(1)).open();
            member.subscribe("$share/g/kept", AtLeastOnce);
            let case = Case::new(world, "kept", AtLeastOnce).sized(1_000, "&payload_bytes=1000").with([member]);
            case.until_refused()
        }
        PublishRefusal::DiskFull => {
            let world = with_data(&["disk.limit=67108864", ROOMY]);
            Case::new(world, "kept", AtLeastOnce).sized(200_000, "&payload_bytes=200000").until_refused()
        }
        PublishRefusal::DiskFailed => {
            let folder = Folder::new(&[("token", TOKEN)]);
            let at = |name: &str| folder.path().join(name).display().to_string();
            let (data, token) = (format!("data.path={}", at("data")), format!("admin.token_file={}", at("token")));
            let broker = Broker::with_failable_disk(&[&data, &token, "admin.listen=127.0.0.1:0"]);
            let world = with_offline_session(World::of(broker, folder));
            let mut first = world.broker.connect(V5, "first");
            world.broker.fail_disk();
            // The publisher waits for an acknowledgement that never arrives, and is notified.
            first.send_publish(&OutgoingPublish::new("kept", AtLeastOnce, b"x"));
            assert_eq!(first.expect_refusal(), 0x97);
            Case::new(world, "kept", AtLeastOnce)
        }
        PublishRefusal::RetainedFull => {
            let mut case = Case::new(simple("limits.retained_messages = 1\n"), "t", AtLeastOnce).retained();
            case.publisher.deliver(&OutgoingPublish::new("first", AtLeastOnce, b"x").retained());
            case
        }
        PublishRefusal::RetainedQuota => {
            let world = simple("limits.retained_messages_per_client = 1\n");
            let mut case = Case::new(world, "t", AtLeastOnce).retained().with_query("&publisher=p");
            case.publisher.deliver(&OutgoingPublish::new("first", AtLeastOnce, b"x").retained());
            case
        }
    }
}

#[test]
fn the_reason_of_a_refusal_agrees_with_why() {
    for refusal in PublishRefusal::ALL {
        let case = case_of(*refusal);
        let (outcome, codes) = case.predicted();
        assert_eq!((&*outcome, &*codes[0]), ("does_not_arrive", refusal.code()), "{codes:?}");
        let (_, others) = case.world.why("c", "topic=free&qos=0");
        assert!(!others.contains(&refusal.code().to_owned()), "{refusal:?}: {others:?}");
        assert_eq!(case.refused(), refusal.reason().as_u8(), "{refusal:?}");
    }
}

/// A message that a reason does not apply to is accepted: QoS 0 with a full disk.
#[test]
fn a_full_disk_refuses_only_persistent_publishes() {
    let mut case = case_of(PublishRefusal::DiskFull);
    let mut client = case.world.broker.connect(V5, "connected");
    client.subscribe("live", AtLeastOnce);
    let (outcome, codes) = case.world.why("connected", "topic=live&publisher=p");
    assert_eq!((&*outcome, &*codes[0]), ("arrives", "subscribed"));
    assert_eq!(case.publisher.publish("live", AtLeastOnce, b"on"), 0);
    assert_eq!(client.receive().text(), "on");
    let (outcome, codes) = case.world.why("c", "topic=kept&qos=0&retain=true");
    assert_eq!((&*outcome, &*codes[0]), ("does_not_arrive", "disk_full"));
}

/// Each reason for a dropped message, one after the other.
fn after(reason: DropReason) -> Option<DropReason> {
    Some(match reason {
        DropReason::OutputFull => DropReason::MemoryFull,
        DropReason::MemoryFull => DropReason::QueueFull,
        DropReason::QueueFull => DropReason::Expired,
        DropReason::Expired => DropReason::TooLarge,
        DropReason::TooLarge => DropReason::OutsideMount,
        DropReason::OutsideMount => DropReason::NotAuthorized,
        DropReason::NotAuthorized => DropReason::Untranscodable,
        DropReason::Untranscodable => return None,
    })
}

/// The outcome and the code that `why` gives before a message is dropped.
struct Expected(&'static str, &'static str);

const WAITS: Expected = Expected("queued", "in_flight_full");

/// The world, the prediction before the message is published, and the action that makes the broker drop it afterwards.
fn drop_case(reason: DropReason) -> (Case, Expected, fn(&mut Case)) {
    let nothing: fn(&mut Case) = |_| {};
    match reason {
        DropReason::OutputFull => {
            let world = world_with_rules(1);
            let mut stuck = world.broker.connect(V5, "c");
            stuck.subscribe("flood", AtMostOnce);
            let mut case = Case::new(world, "flood", AtMostOnce).sized(60_000, "&payload_bytes=60000").with([stuck]);
            for _ in 0..2_000 {
                if !case.world.drops("c").is_empty() {
                    break;
                }
                case.publisher.publish("flood", AtMostOnce, &case.payload);
                case.publisher.ping();
            }
            (case, Expected("does_not_arrive", "output_nearly_full"), nothing)
        }
        DropReason::MemoryFull => {
            // Only all the copies together exceed the limit, which cannot be known before they are made.
            let world = World::new(1, "limits.memory_bytes = 1048576\n", &["sys.interval_s=3600"]);
            let names = (0..40).map(|number| if number == 39 { "c".to_owned() } else { format!("c{number}") });
            let mut clients: Vec<Client> = names.map(|name| world.broker.connect(V5, &name)).collect();
            clients.iter_mut().for_each(|client| client.subscribe("large", AtMostOnce));
            let case = Case::new(world, "large", AtMostOnce).sized(60_000, "&payload_bytes=60000").with(clients);
            (case, Expected("arrives", "subscribed"), nothing)
        }
        DropReason::QueueFull => {
            let world = with_offline_session(World::new(1, "limits.session_queue_messages = 1\n", &[]));
            let mut case = Case::new(world, "kept", AtLeastOnce);
            case.publisher.publish("kept", AtLeastOnce, b"first");
            (case, Expected("does_not_arrive", "queue_full"), nothing)
        }
        DropReason::Expired => {
            let world = world_with_rules(1);
            let mut client = world.broker.connecting(V5, "c").property(receive_maximum(1)).open();
            client.subscribe("a", AtLeastOnce);
            let mut case = Case::new(world, "a", AtLeastOnce);
            case.publisher.publish("a", AtLeastOnce, b"first");
            (case.with([client]), WAITS, |case| {
                let expiring =
                    OutgoingPublish::new("a", AtLeastOnce, b"late").property(Property::MessageExpiryInterval(1));
                case.publisher.deliver(&expiring);
                let first = case._others[0].expect_publish();
                sleep(std::time::Duration::from_millis(3_200));
                case._others[0].acknowledge(&first);
                // Both queued messages expire; the one without an expiry arrives.
                case._others[0].receive();
            })
        }
        DropReason::TooLarge => {
            let world = world_with_rules(1);
            let mut small = world.broker.connecting(V5, "c").property(maximum_packet_size(60)).open();
            small.subscribe("large", AtLeastOnce);
            let case = Case::new(world, "large", AtLeastOnce).sized(100, "&payload_bytes=100").with([small]);
            (case, Expected("does_not_arrive", "too_large"), nothing)
        }
        DropReason::OutsideMount => {
            let world = world_with_rules(1);
            let mut inside = ConnectBuilder::new(Transport::Tcp(world.broker.other_address(0)), V5, "c").open();
            inside.subscribe("#", AtLeastOnce);
            let case = Case::new(world, "m", AtLeastOnce).with_query("&mount_point=m/").with([inside]);
            (case, Expected("does_not_arrive", "outside_mount"), nothing)
        }
        DropReason::NotAuthorized => {
            let world = world_with_rules(1);
            world.leave("c", "secret/#");
            (Case::new(world, "secret/1", AtLeastOnce), Expected("queued", "offline"), |case| {
                case.world.folder.write("access.toml", &RULES.replace("closed/#", "secret/#"));
                case.world.reload_again().expect(200);
                let mut client = case.world.broker.connecting(V5, "c").persistent().open();
                client.ping();
                case._others.push(client);
            })
        }
        DropReason::Untranscodable => {
            let world = world_with_rules(1);
            let mut old = world.broker.connect(V3_1_1, "c");
            old.subscribe("$as/protobuf/watched/#", AtLeastOnce);
            let case = Case::new(world, "watched/1", AtLeastOnce).with([old]);
            let case = Case { payload: b"{\"n\": 1}".to_vec(), ..case };
            (case, Expected("does_not_arrive", "not_transcodable"), nothing)
        }
    }
}

impl Case {
    /// The number of messages of the topic dropped for a reason, for any client.
    fn dropped(&self, reason: DropReason) -> u64 {
        let client = if self.more.contains("mount_point") { "c?mount_point=m/" } else { "c" };
        let clients = (0..39).map(|number| format!("c{number}")).filter(|_| reason == DropReason::MemoryFull);
        let names: Vec<String> = clients.chain([client.to_owned()]).collect();
        let drops = names.iter().flat_map(|name| self.world.drops(name));
        let counts = drops.filter_map(|drop| {
            let rest = drop.strip_prefix(&format!("{} {} ", reason.code(), self.topic)).map(str::to_owned)?;
            rest.parse::<u64>().ok()
        });
        counts.sum()
    }
}

#[test]
fn the_fate_of_a_message_agrees_with_why() {
    let mut next = Some(DropReason::OutputFull);
    while let Some(reason) = next {
        let (mut case, Expected(expected, code), goes_on) = drop_case(reason);
        let before = case.dropped(reason);
        let (outcome, codes) = case.predicted();
        assert_eq!(outcome, expected, "{reason:?}: {codes:?}");
        assert!(codes.iter().any(|given| given == code), "{reason:?}: {codes:?}");
        // 0x10: no other subscriber.
        let answer = case.publisher.publish(case.topic, case.qos, &case.payload);
        assert!(matches!(answer, 0 | 0x10), "{reason:?}: {answer:#x}");
        case.publisher.ping();
        if expected == "queued" {
            assert_eq!(case.dropped(reason), before, "{reason:?}: it waits");
        }
        goes_on(&mut case);
        wait_until(&format!("{reason:?} within {EXPECT_TIMEOUT:?}"), || case.dropped(reason) > before);
        next = after(reason);
    }
}

/// `why` lists the reasons that keep a client or a publisher out, and its CONNECT meets them.
#[test]
fn refused_clients_are_listed() {
    let world = World::new(1, "", &["limits.flapping_disconnects=1", "limits.flapping_block_s=3600"]);
    let ban = |client_id: &str| {
        let body = format!(r#"{{"client_id": "{client_id}"}}"#);
        admin(world.broker.admin_address(), "POST", "/v1/bans", &body).expect(201);
    };
    world.leave("c", "a");
    let (_, codes) = world.why("c", "topic=a&publisher=p");
    assert_eq!(codes, ["offline", "subscribed", "publisher_not_connected"]);
    let refused = |client_id| world.broker.connecting(V5, client_id).persistent().refused();

    // A message is queued for the client, which cannot connect.
    ban("c");
    let (outcome, codes) = world.why("c", "topic=a");
    assert_eq!((&*outcome, &*codes[codes.len() - 1]), ("queued", "banned"));
    assert_eq!(refused("c"), 0x8A);

    ban("p");
    let (outcome, codes) = world.why("c", "topic=a&publisher=p");
    assert_eq!((&*outcome, &*codes[0]), ("does_not_arrive", "publisher_banned"));
    assert_eq!(refused("p"), 0x8A);

    let mut client = world.broker.connecting(V5, "breaks").persistent().open();
    client.subscribe("a", AtLeastOnce);
    client.cut();
    let (outcome, codes) = world.why("breaks", "topic=a");
    assert_eq!((&*outcome, codes.contains(&"flapping_blocked".to_owned())), ("queued", true), "{codes:?}");
    assert_eq!(refused("breaks"), 0x9F);
    assert_eq!(world.why("c", "topic=a").1.iter().filter(|code| *code == "flapping_blocked").count(), 0);
}
