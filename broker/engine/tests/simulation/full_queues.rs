//! Sessions that take no more messages, and what that means for publishers and for everybody else.

use tautwire_engine::Volatile;
use tautwire_engine::{Settings, SlowConsumer, SlowConsumers};
use tautwire_protocol::{
    Delivery, Packet, Properties, ProtocolVersion, PubAck, PubAckReason, Publish, QoS, RetainHandling, TopicName,
};

use crate::ledger::Request;
use crate::packets::{ConnectOptions, connect_bytes, each_packet, id, subscribe_bytes};
use crate::support::{NoDelays, SimulatedBroker, SocketId};
use crate::world::{RETAINED, returning};

const V5: ProtocolVersion = ProtocolVersion::V5;
const ROOM_BYTES: usize = 1 << 30;

struct Scene {
    broker: SimulatedBroker<Volatile>,
    next_packet_id: u16,
}

impl Scene {
    fn new(shards: usize, settings: Settings) -> Scene {
        let settings = Settings { sys_interval_s: 0, ..settings };
        Scene { broker: SimulatedBroker::new(shards, settings, RETAINED, |_| Volatile), next_packet_id: 0 }
    }

    fn connect(&mut self, shard: usize, client_id: &str, terms: &ConnectOptions) -> SocketId {
        let socket = self.broker.connect(shard, ROOM_BYTES);
        self.broker.send(socket, &connect_bytes(client_id, V5, terms, None));
        self.broker.settle(&mut NoDelays);
        socket
    }

    /// A client whose session lives on `shard`.
    fn client(&mut self, shard: usize, name: &str) -> SocketId {
        let client_id = self.broker.client_id_on(shard, name);
        let socket = self.connect(shard, &client_id, &returning());
        self.broker.take(socket, usize::MAX);
        socket
    }

    fn subscribe(&mut self, socket: SocketId, filters: &[&str]) {
        let request = |filter: &&str| Request {
            filter: (*filter).into(),
            qos: QoS::AtLeastOnce,
            identifier: None,
            no_local: false,
            retain_as_published: false,
            retain_handling: RetainHandling::DoNotSend,
        };
        let requests: Vec<_> = filters.iter().map(request).collect();
        self.broker.send(socket, &subscribe_bytes(V5, id(1), &requests));
        self.broker.settle(&mut NoDelays);
        self.broker.take(socket, usize::MAX);
    }

    /// A session on `shard` that is subscribed and offline.
    fn offline(&mut self, shard: usize, name: &str, filters: &[&str]) {
        let socket = self.client(shard, name);
        self.subscribe(socket, filters);
        self.broker.cut(socket);
        self.broker.settle(&mut NoDelays);
    }

    /// Sends a PUBLISH of QoS 1; gives its packet identifier. No shard has made a turn yet.
    fn send(&mut self, socket: SocketId, topic: &str, payload: &[u8]) -> u16 {
        self.next_packet_id += 1;
        let packet_id = id(self.next_packet_id);
        let topic = TopicName::new(topic).ok();
        let delivery = Delivery::AtLeastOnce { packet_id, dup: false };
        let publish = Publish { delivery, retain: false, topic, properties: Properties::EMPTY, payload };
        let mut bytes = Vec::new();
        Packet::Publish(publish).append_to(V5, &mut bytes).expect("a valid packet");
        self.broker.send(socket, &bytes);
        self.next_packet_id
    }

    /// The reasons in PUBACK packets that have arrived.
    fn answers(&mut self, socket: SocketId) -> Vec<PubAckReason> {
        each_packet(&self.broker.take(socket, usize::MAX), |packet| match packet {
            Packet::PubAck(PubAck { reason, .. }) => Some(*reason),
            _ => None,
        })
    }

    /// Publishes and waits until nothing happens any more; gives the reason in PUBACK, if there was one.
    fn publish(&mut self, socket: SocketId, topic: &str, payload: &[u8]) -> Option<PubAckReason> {
        self.send(socket, topic, payload);
        self.broker.settle(&mut NoDelays);
        self.answers(socket).pop()
    }

    /// The first byte of the payload of each message that has arrived, all of which are acknowledged.
    fn received(&mut self, socket: SocketId) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            let received = each_packet(&self.broker.take(socket, usize::MAX), |packet| match packet {
                Packet::Publish(publish) => publish.packet_id().zip(publish.payload.first().copied()),
                _ => None,
            });
            if received.is_empty() {
                return all;
            }
            for (packet_id, byte) in received {
                let mut bytes = Vec::new();
                Packet::PubAck(PubAck::success(packet_id)).append_to(V5, &mut bytes).expect("a valid packet");
                self.broker.send(socket, &bytes);
                all.push(byte);
            }
            self.broker.settle(&mut NoDelays);
        }
    }

    /// Lets time pass, in which nothing comes from outside.
    fn pass(&mut self, ms: u64) {
        for _ in 0..10 {
            self.broker.advance(ms / 10);
            self.broker.wake_all();
            self.broker.settle(&mut NoDelays);
        }
    }

    /// The user properties of the CONNACK that has arrived.
    fn user_properties(&mut self, socket: SocketId) -> Vec<(String, String)> {
        let found = each_packet(&self.broker.take(socket, usize::MAX), |packet| match packet {
            Packet::ConnAck(connack) => {
                let found = connack.properties.user_properties();
                Some(found.map(|(name, value)| (name.to_owned(), value.to_owned())).collect::<Vec<_>>())
            }
            _ => None,
        });
        found.into_iter().next().expect("a CONNACK")
    }
}

#[test]
fn the_limit_of_one_client_does_not_bound_how_many_receivers_a_message_has() {
    const RECEIVERS: usize = 1_000;
    let mut scene = Scene::new(1, Settings { memory_bytes_per_client: 64 << 10, ..Settings::default() });
    for number in 0..RECEIVERS {
        scene.offline(0, &format!("offline-{number}"), &["t"]);
    }
    let publisher = scene.client(0, "publisher");
    assert_eq!(scene.publish(publisher, "t", b"eighteen bytes....."), Some(PubAckReason::Success));
    assert_eq!(scene.broker.totals().stored_messages, RECEIVERS as u64);
    // One client's limit still bounds one message.
    assert_eq!(scene.publish(publisher, "t", &[0; 65 << 10]), Some(PubAckReason::QuotaExceeded));
}

#[test]
fn a_full_channel_to_one_shard_pauses_only_those_who_publish_to_it() {
    let mut scene = Scene::new(3, Settings { shard_queue_batches: 1, ..Settings::default() });
    scene.offline(0, "here", &["here"]);
    scene.offline(1, "slow", &["slow"]);
    scene.offline(2, "idle", &["idle"]);
    let flooding = scene.client(0, "flooding");
    let local = scene.client(0, "local");
    // Shard 1 makes no turn, and each message fills a batch.
    for _ in 0..8 {
        scene.send(flooding, "slow", &[0; 70 << 10]);
        scene.broker.turn(0, &mut NoDelays);
    }
    assert!(scene.broker.totals().publishers_paused_for_shard_queue > 0, "the channel to shard 1 is full");
    for topic in ["here", "idle", "nobody"] {
        scene.send(local, topic, b"x");
        scene.broker.turn(0, &mut NoDelays);
        assert_eq!(scene.answers(local).len(), 1, "{topic}");
    }
    scene.broker.settle(&mut NoDelays);
    assert_eq!(scene.answers(flooding).len(), 8, "it goes on when the shard has caught up");
}

#[test]
fn sessions_over_their_share_close_a_topic_once_and_open_it_when_they_have_caught_up() {
    const SESSIONS: usize = 300;
    let settings = Settings {
        memory_bytes_per_client: 64 << 10,
        session_queue_bytes: 1 << 40,
        session_queue_memory: false,
        ..Settings::default()
    };
    let mut scene = Scene::new(1, settings);
    for number in 0..SESSIONS {
        scene.offline(0, &format!("offline-{number}"), &["t"]);
    }
    let publisher = scene.client(0, "publisher");
    assert_eq!(scene.publish(publisher, "t", &[0; 40 << 10]), Some(PubAckReason::Success));
    assert_eq!(scene.publish(publisher, "t", &[0; 40 << 10]), Some(PubAckReason::Success), "over their share");
    assert_eq!(scene.broker.totals().sessions_throttled, SESSIONS as u64);
    assert_eq!(scene.publish(publisher, "t", b"x"), Some(PubAckReason::QuotaExceeded));
    // All but the last come back. The topic stays closed for its sake.
    for number in 0..SESSIONS {
        let client_id = scene.broker.client_id_on(0, &format!("offline-{number}"));
        let socket = scene.connect(0, &client_id, &returning());
        assert_eq!(scene.received(socket).len(), 2);
        let reason = scene.publish(publisher, "t", b"");
        scene.broker.cut(socket);
        scene.broker.settle(&mut NoDelays);
        assert_eq!(reason == Some(PubAckReason::Success), number == SESSIONS - 1, "{number}: {reason:?}");
    }
}

const POLICIES: [SlowConsumer; 2] = [SlowConsumer::Refuse, SlowConsumer::PausePublisher];

/// The session on the last shard has room for ten messages. All 30 arrive in order, and those that were refused reach nobody before they
/// are sent again.
#[test]
fn a_full_queue_stops_publishers_on_whichever_shard_and_nothing_is_lost() {
    for (policy, shards) in POLICIES.into_iter().flat_map(|policy| [(policy, 1), (policy, 3)]) {
        let settings = Settings { session_queue_messages: 10, slow_consumer: policy.into(), ..Settings::default() };
        let mut scene = Scene::new(shards, settings);
        scene.offline(shards - 1, "offline", &["t/#"]);
        let other = scene.client(0, "other");
        scene.subscribe(other, &["t/#"]);
        let publisher = scene.client(0, "publisher");
        let mut refused = 0;
        for number in 0..10u8 {
            assert_eq!(scene.publish(publisher, "t/a", &[number]), Some(PubAckReason::Success));
        }
        let answer = scene.publish(publisher, "t/b", &[10]);
        match policy {
            SlowConsumer::Refuse => {
                assert_eq!(answer, Some(PubAckReason::QuotaExceeded));
                refused += 1;
            }
            _ => assert_eq!(answer, None, "the publisher waits"),
        }
        let seen = scene.received(other);
        assert_eq!(seen, (0..10).collect::<Vec<u8>>(), "nobody got what was refused");
        // Others publish elsewhere meanwhile.
        let elsewhere = scene.client(0, "elsewhere");
        assert_eq!(scene.publish(elsewhere, "u", b"x"), Some(PubAckReason::NoMatchingSubscribers));
        // The client comes back, and takes what has waited.
        let client_id = scene.broker.client_id_on(shards - 1, "offline");
        let back = scene.connect(shards - 1, &client_id, &returning());
        assert_eq!(scene.received(back), (0..10).collect::<Vec<u8>>());
        scene.pass(1_500);
        if policy == SlowConsumer::Refuse {
            assert_eq!(scene.publish(publisher, "t/b", &[10]), Some(PubAckReason::Success));
        } else {
            assert_eq!(scene.answers(publisher), [PubAckReason::Success], "it goes on");
        }
        assert_eq!((scene.received(back), scene.received(other)), (vec![10], vec![10]));
        let totals = scene.broker.totals();
        assert_eq!((totals.dropped_queue_full, totals.publishes_refused_queue_full), (0, refused));
        assert_eq!(totals.publishers_paused_for_session_queue > 0, policy == SlowConsumer::PausePublisher);
    }
}

#[test]
fn a_publisher_of_3_1_1_waits_where_others_are_refused() {
    let settings =
        Settings { session_queue_messages: 1, slow_consumer: SlowConsumer::Refuse.into(), ..Settings::default() };
    let mut scene = Scene::new(1, settings);
    scene.offline(0, "offline", &["t"]);
    let publisher = scene.broker.connect(0, ROOM_BYTES);
    let terms = ConnectOptions { clean_start: true, ..returning() };
    scene.broker.send(publisher, &connect_bytes("old", ProtocolVersion::V3_1_1, &terms, None));
    let publish = |number: u8| [0x32, 0x06, 0x00, 0x01, b't', 0x00, number, number];
    scene.broker.send(publisher, &publish(1));
    scene.broker.send(publisher, &publish(2));
    scene.broker.settle(&mut NoDelays);
    assert_eq!(scene.broker.take(publisher, usize::MAX), [0x20, 2, 0, 0, 0x40, 2, 0, 1]);
    let client_id = scene.broker.client_id_on(0, "offline");
    let back = scene.connect(0, &client_id, &returning());
    assert_eq!(scene.received(back), [1]);
    scene.pass(1_500);
    assert_eq!(scene.broker.take(publisher, usize::MAX), [0x40, 2, 0, 2]);
    assert_eq!(scene.received(back), [2]);
}

#[test]
fn the_policy_of_the_topic_counts_where_there_is_one() {
    let policies = SlowConsumers {
        topics: vec![("orders/#".into(), SlowConsumer::Refuse)],
        ..SlowConsumers::from(SlowConsumer::DropNew)
    };
    let mut scene =
        Scene::new(2, Settings { session_queue_messages: 2, slow_consumer: policies, ..Settings::default() });
    scene.offline(1, "offline", &["#"]);
    let publisher = scene.client(0, "publisher");
    for (topic, reason) in [
        ("telemetry", PubAckReason::Success),
        ("orders/1", PubAckReason::Success),
        ("orders/2", PubAckReason::QuotaExceeded),
        // It is dropped for that session.
        ("telemetry", PubAckReason::Success),
        ("orders/3", PubAckReason::QuotaExceeded),
    ] {
        assert_eq!(scene.publish(publisher, topic, b"x"), Some(reason), "{topic}");
    }
    let totals = scene.broker.totals();
    assert_eq!((totals.dropped_queue_full, totals.stored_messages), (1, 2));
}

/// A message for a session that is full reaches everybody else, and its client is told at its next CONNACK, once.
#[test]
fn what_is_dropped_for_a_full_queue_is_told_to_its_client_once() {
    let mut scene = Scene::new(1, Settings { session_queue_messages: 3, ..Settings::default() });
    scene.offline(0, "offline", &["t"]);
    let publisher = scene.client(0, "publisher");
    for number in 0..8u8 {
        assert_eq!(scene.publish(publisher, "t", &[number]), Some(PubAckReason::Success));
        scene.broker.advance(1_000);
    }
    assert_eq!(scene.broker.totals().dropped_queue_full, 5);
    let client_id = scene.broker.client_id_on(0, "offline");
    // It does not take so large a CONNACK, and is told the next time.
    let small = ConnectOptions { maximum_packet_bytes: Some(80), ..returning() };
    let socket = scene.connect(0, &client_id, &small);
    assert_eq!(scene.user_properties(socket), []);
    scene.broker.cut(socket);
    scene.broker.settle(&mut NoDelays);
    let socket = scene.connect(0, &client_id, &returning());
    let told = [
        ("tautwire-dropped-messages", "5"),
        ("tautwire-dropped-from", "2023-11-14T22:13:23Z"),
        ("tautwire-dropped-until", "2023-11-14T22:13:27Z"),
    ];
    assert_eq!(scene.user_properties(socket), told.map(|(name, value)| (name.to_owned(), value.to_owned())));
    scene.broker.cut(socket);
    scene.broker.settle(&mut NoDelays);
    let socket = scene.connect(0, &client_id, &returning());
    assert_eq!(scene.user_properties(socket), []);
}

/// By default one session may hold as much memory as it leaves free for others, and no more than the limit of one client.
#[test]
fn a_queue_that_takes_the_memory_of_its_client_is_full_and_does_not_stop_publishers() {
    const SESSIONS: usize = 10;
    let settings = Settings { memory_bytes: 8 << 20, memory_bytes_per_client: 1 << 20, ..Settings::default() };
    let mut scene = Scene::new(1, settings);
    for number in 0..SESSIONS {
        scene.offline(0, &format!("offline-{number}"), &[&format!("t/{number}")]);
    }
    let publisher = scene.client(0, "publisher");
    for number in 0..SESSIONS * 2_000 {
        let answer = scene.publish(publisher, &format!("t/{}", number % SESSIONS), &[0; 500]);
        assert_eq!(answer, Some(PubAckReason::Success), "message {number}");
    }
    let totals = scene.broker.totals();
    assert!(totals.dropped_queue_full > 0, "they do not fit");
    assert_eq!(totals.dropped_queue_full, totals.dropped_queue_full_for_memory);
    assert_eq!(totals.sessions_throttled, 0);
}

#[test]
fn a_session_whose_messages_nobody_fetches_is_counted_until_somebody_does() {
    let mut scene = Scene::new(1, Settings { stale_session_s: 1_000, ..Settings::default() });
    scene.offline(0, "offline", &["t"]);
    scene.offline(0, "empty", &["u"]);
    let publisher = scene.client(0, "publisher");
    scene.publish(publisher, "t", b"x");
    scene.pass(900_000);
    assert_eq!(scene.broker.totals().sessions_stale, 0);
    scene.pass(110_000);
    assert_eq!(scene.broker.totals().sessions_stale, 1);
    // The other one becomes so when something waits for it.
    scene.publish(publisher, "u", b"x");
    scene.pass(200_000);
    assert_eq!(scene.broker.totals().sessions_stale, 2);
    for (name, left) in [("offline", 1), ("empty", 0)] {
        let client_id = scene.broker.client_id_on(0, name);
        scene.connect(0, &client_id, &returning());
        assert_eq!(scene.broker.totals().sessions_stale, left, "{name} is back");
    }
}
