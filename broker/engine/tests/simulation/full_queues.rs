//! Sessions with full queues, and the effect on publishers and other clients.

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

struct Fixture {
    broker: SimulatedBroker<Volatile>,
    next_packet_id: u16,
}

impl Fixture {
    fn new(shards: usize, settings: Settings) -> Fixture {
        let settings = Settings { sys_interval_s: 0, ..settings };
        Fixture { broker: SimulatedBroker::new(shards, settings, RETAINED, |_| Volatile), next_packet_id: 0 }
    }

    fn connect(&mut self, shard: usize, client_id: &str, options: &ConnectOptions) -> SocketId {
        let socket = self.broker.connect(shard, ROOM_BYTES);
        self.broker.send(socket, &connect_bytes(client_id, V5, options, None));
        self.broker.settle(&mut NoDelays);
        socket
    }

    /// Connects a client whose session belongs to `shard`.
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

    /// Creates an offline session on `shard` with subscriptions.
    fn create_offline_session(&mut self, shard: usize, name: &str, filters: &[&str]) {
        let socket = self.client(shard, name);
        self.subscribe(socket, filters);
        self.broker.cut(socket);
        self.broker.settle(&mut NoDelays);
    }

    /// Sends a PUBLISH of QoS 1 without running a turn. Returns its Packet Identifier.
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

    /// The reasons of the received PUBACK packets.
    fn answers(&mut self, socket: SocketId) -> Vec<PubAckReason> {
        each_packet(&self.broker.take(socket, usize::MAX), |packet| match packet {
            Packet::PubAck(PubAck { reason, .. }) => Some(*reason),
            _ => None,
        })
    }

    /// Publishes and runs turns until all shards sleep. Returns the reason of PUBACK, if one arrived.
    fn publish(&mut self, socket: SocketId, topic: &str, payload: &[u8]) -> Option<PubAckReason> {
        self.send(socket, topic, payload);
        self.broker.settle(&mut NoDelays);
        self.answers(socket).pop()
    }

    /// Acknowledges all received messages. Returns the first byte of each payload.
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

    /// Advances the clock and runs turns without input.
    fn advance(&mut self, ms: u64) {
        for _ in 0..10 {
            self.broker.advance(ms / 10);
            self.broker.wake_all();
            self.broker.settle(&mut NoDelays);
        }
    }

    /// The user properties of the received CONNACK.
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
fn the_limit_of_a_client_does_not_bound_the_receivers_of_a_message() {
    const RECEIVERS: usize = 1_000;
    let mut fixture = Fixture::new(1, Settings { memory_bytes_per_client: 64 << 10, ..Settings::default() });
    for number in 0..RECEIVERS {
        fixture.create_offline_session(0, &format!("offline-{number}"), &["t"]);
    }
    let publisher = fixture.client(0, "publisher");
    assert_eq!(fixture.publish(publisher, "t", b"eighteen bytes....."), Some(PubAckReason::Success));
    assert_eq!(fixture.broker.totals().stored_messages, RECEIVERS as u64);
    // The limit of a client applies to a single message.
    assert_eq!(fixture.publish(publisher, "t", &[0; 65 << 10]), Some(PubAckReason::QuotaExceeded));
}

#[test]
fn a_full_channel_pauses_only_publishers_to_its_shard() {
    let mut fixture = Fixture::new(3, Settings { shard_queue_batches: 1, ..Settings::default() });
    fixture.create_offline_session(0, "here", &["here"]);
    fixture.create_offline_session(1, "slow", &["slow"]);
    fixture.create_offline_session(2, "idle", &["idle"]);
    let flooding = fixture.client(0, "flooding");
    let local = fixture.client(0, "local");
    // Shard 1 runs no turn, and each message fills a batch.
    for _ in 0..8 {
        fixture.send(flooding, "slow", &[0; 70 << 10]);
        fixture.broker.turn(0, &mut NoDelays);
    }
    assert!(fixture.broker.totals().publishers_paused_for_shard_queue > 0, "the channel to shard 1 is not full");
    for topic in ["here", "idle", "nobody"] {
        fixture.send(local, topic, b"x");
        fixture.broker.turn(0, &mut NoDelays);
        assert_eq!(fixture.answers(local).len(), 1, "{topic}");
    }
    fixture.broker.settle(&mut NoDelays);
    assert_eq!(fixture.answers(flooding).len(), 8, "the publisher does not resume when the shard has caught up");
}

#[test]
fn sessions_over_their_share_block_a_topic_until_they_have_caught_up() {
    const SESSIONS: usize = 300;
    let settings = Settings {
        memory_bytes_per_client: 64 << 10,
        session_queue_bytes: 1 << 40,
        session_queue_memory: false,
        ..Settings::default()
    };
    let mut fixture = Fixture::new(1, settings);
    for number in 0..SESSIONS {
        fixture.create_offline_session(0, &format!("offline-{number}"), &["t"]);
    }
    let publisher = fixture.client(0, "publisher");
    assert_eq!(fixture.publish(publisher, "t", &[0; 40 << 10]), Some(PubAckReason::Success));
    assert_eq!(
        fixture.publish(publisher, "t", &[0; 40 << 10]),
        Some(PubAckReason::Success),
        "the message that exceeds the share is refused"
    );
    assert_eq!(fixture.broker.totals().sessions_throttled, SESSIONS as u64);
    assert_eq!(fixture.publish(publisher, "t", b"x"), Some(PubAckReason::QuotaExceeded));
    // The topic stays blocked until the last session has caught up.
    for number in 0..SESSIONS {
        let client_id = fixture.broker.client_id_on(0, &format!("offline-{number}"));
        let socket = fixture.connect(0, &client_id, &returning());
        assert_eq!(fixture.received(socket).len(), 2);
        let reason = fixture.publish(publisher, "t", b"");
        fixture.broker.cut(socket);
        fixture.broker.settle(&mut NoDelays);
        assert_eq!(reason == Some(PubAckReason::Success), number == SESSIONS - 1, "{number}: {reason:?}");
    }
}

const POLICIES: [SlowConsumer; 2] = [SlowConsumer::Refuse, SlowConsumer::PausePublisher];

/// The session on the last shard has room for ten messages. All messages arrive in order. A refused message reaches no client
/// before it is sent again.
#[test]
fn a_full_queue_stops_publishers_on_any_shard_and_loses_nothing() {
    for (policy, shards) in POLICIES.into_iter().flat_map(|policy| [(policy, 1), (policy, 3)]) {
        let settings = Settings { session_queue_messages: 10, slow_consumer: policy.into(), ..Settings::default() };
        let mut fixture = Fixture::new(shards, settings);
        fixture.create_offline_session(shards - 1, "offline", &["t/#"]);
        let other = fixture.client(0, "other");
        fixture.subscribe(other, &["t/#"]);
        let publisher = fixture.client(0, "publisher");
        let mut refused = 0;
        for number in 0..10u8 {
            assert_eq!(fixture.publish(publisher, "t/a", &[number]), Some(PubAckReason::Success));
        }
        let answer = fixture.publish(publisher, "t/b", &[10]);
        match policy {
            SlowConsumer::Refuse => {
                assert_eq!(answer, Some(PubAckReason::QuotaExceeded));
                refused += 1;
            }
            _ => assert_eq!(answer, None, "the publisher is not paused"),
        }
        let seen = fixture.received(other);
        assert_eq!(seen, (0..10).collect::<Vec<u8>>(), "a refused message was delivered");
        // Other clients publish to other topics meanwhile.
        let elsewhere = fixture.client(0, "elsewhere");
        assert_eq!(fixture.publish(elsewhere, "u", b"x"), Some(PubAckReason::NoMatchingSubscribers));
        // The client reconnects and receives the queued messages.
        let client_id = fixture.broker.client_id_on(shards - 1, "offline");
        let back = fixture.connect(shards - 1, &client_id, &returning());
        assert_eq!(fixture.received(back), (0..10).collect::<Vec<u8>>());
        fixture.advance(1_500);
        if policy == SlowConsumer::Refuse {
            assert_eq!(fixture.publish(publisher, "t/b", &[10]), Some(PubAckReason::Success));
        } else {
            assert_eq!(fixture.answers(publisher), [PubAckReason::Success], "the publisher does not resume");
        }
        assert_eq!((fixture.received(back), fixture.received(other)), (vec![10], vec![10]));
        let totals = fixture.broker.totals();
        assert_eq!((totals.dropped_queue_full, totals.publishes_refused_queue_full), (0, refused));
        assert_eq!(totals.publishers_paused_for_session_queue > 0, policy == SlowConsumer::PausePublisher);
    }
}

#[test]
fn a_publisher_of_3_1_1_is_paused_where_others_are_refused() {
    let settings =
        Settings { session_queue_messages: 1, slow_consumer: SlowConsumer::Refuse.into(), ..Settings::default() };
    let mut fixture = Fixture::new(1, settings);
    fixture.create_offline_session(0, "offline", &["t"]);
    let publisher = fixture.broker.connect(0, ROOM_BYTES);
    let options = ConnectOptions { clean_start: true, ..returning() };
    fixture.broker.send(publisher, &connect_bytes("old", ProtocolVersion::V3_1_1, &options, None));
    let publish = |number: u8| [0x32, 0x06, 0x00, 0x01, b't', 0x00, number, number];
    fixture.broker.send(publisher, &publish(1));
    fixture.broker.send(publisher, &publish(2));
    fixture.broker.settle(&mut NoDelays);
    assert_eq!(fixture.broker.take(publisher, usize::MAX), [0x20, 2, 0, 0, 0x40, 2, 0, 1]);
    let client_id = fixture.broker.client_id_on(0, "offline");
    let back = fixture.connect(0, &client_id, &returning());
    assert_eq!(fixture.received(back), [1]);
    fixture.advance(1_500);
    assert_eq!(fixture.broker.take(publisher, usize::MAX), [0x40, 2, 0, 2]);
    assert_eq!(fixture.received(back), [2]);
}

#[test]
fn the_policy_of_a_topic_takes_precedence() {
    let policies = SlowConsumers {
        topics: vec![("orders/#".into(), SlowConsumer::Refuse)],
        ..SlowConsumers::from(SlowConsumer::DropNew)
    };
    let mut fixture =
        Fixture::new(2, Settings { session_queue_messages: 2, slow_consumer: policies, ..Settings::default() });
    fixture.create_offline_session(1, "offline", &["#"]);
    let publisher = fixture.client(0, "publisher");
    for (topic, reason) in [
        ("telemetry", PubAckReason::Success),
        ("orders/1", PubAckReason::Success),
        ("orders/2", PubAckReason::QuotaExceeded),
        // The message is dropped for that session.
        ("telemetry", PubAckReason::Success),
        ("orders/3", PubAckReason::QuotaExceeded),
    ] {
        assert_eq!(fixture.publish(publisher, topic, b"x"), Some(reason), "{topic}");
    }
    let totals = fixture.broker.totals();
    assert_eq!((totals.dropped_queue_full, totals.stored_messages), (1, 2));
}

/// A message for a full session reaches the other receivers. The next CONNACK reports the loss to the client, once.
#[test]
fn messages_dropped_for_a_full_queue_are_reported_once() {
    let mut fixture = Fixture::new(1, Settings { session_queue_messages: 3, ..Settings::default() });
    fixture.create_offline_session(0, "offline", &["t"]);
    let publisher = fixture.client(0, "publisher");
    for number in 0..8u8 {
        assert_eq!(fixture.publish(publisher, "t", &[number]), Some(PubAckReason::Success));
        fixture.broker.advance(1_000);
    }
    assert_eq!(fixture.broker.totals().dropped_queue_full, 5);
    let client_id = fixture.broker.client_id_on(0, "offline");
    // The CONNACK would exceed the Maximum Packet Size, so the next one reports the loss.
    let small = ConnectOptions { maximum_packet_bytes: Some(80), ..returning() };
    let socket = fixture.connect(0, &client_id, &small);
    assert_eq!(fixture.user_properties(socket), []);
    fixture.broker.cut(socket);
    fixture.broker.settle(&mut NoDelays);
    let socket = fixture.connect(0, &client_id, &returning());
    let expected = [
        ("tautwire-dropped-messages", "5"),
        ("tautwire-dropped-from", "2023-11-14T22:13:23Z"),
        ("tautwire-dropped-until", "2023-11-14T22:13:27Z"),
    ];
    assert_eq!(fixture.user_properties(socket), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    fixture.broker.cut(socket);
    fixture.broker.settle(&mut NoDelays);
    let socket = fixture.connect(0, &client_id, &returning());
    assert_eq!(fixture.user_properties(socket), []);
}

/// By default a session can hold as much memory as it leaves free, and at most the limit of one client.
#[test]
fn a_queue_at_its_memory_limit_is_full_and_does_not_stop_publishers() {
    const SESSIONS: usize = 10;
    let settings = Settings { memory_bytes: 8 << 20, memory_bytes_per_client: 1 << 20, ..Settings::default() };
    let mut fixture = Fixture::new(1, settings);
    for number in 0..SESSIONS {
        fixture.create_offline_session(0, &format!("offline-{number}"), &[&format!("t/{number}")]);
    }
    let publisher = fixture.client(0, "publisher");
    for number in 0..SESSIONS * 2_000 {
        let answer = fixture.publish(publisher, &format!("t/{}", number % SESSIONS), &[0; 500]);
        assert_eq!(answer, Some(PubAckReason::Success), "message {number}");
    }
    let totals = fixture.broker.totals();
    assert!(totals.dropped_queue_full > 0, "all messages fit");
    assert_eq!(totals.dropped_queue_full, totals.dropped_queue_full_for_memory);
    assert_eq!(totals.sessions_throttled, 0);
}

#[test]
fn a_session_with_unread_messages_counts_as_stale_until_it_resumes() {
    let mut fixture = Fixture::new(1, Settings { stale_session_s: 1_000, ..Settings::default() });
    fixture.create_offline_session(0, "offline", &["t"]);
    fixture.create_offline_session(0, "empty", &["u"]);
    let publisher = fixture.client(0, "publisher");
    fixture.publish(publisher, "t", b"x");
    fixture.advance(900_000);
    assert_eq!(fixture.broker.totals().sessions_stale, 0);
    fixture.advance(110_000);
    assert_eq!(fixture.broker.totals().sessions_stale, 1);
    // The other session becomes stale once a message is queued.
    fixture.publish(publisher, "u", b"x");
    fixture.advance(200_000);
    assert_eq!(fixture.broker.totals().sessions_stale, 2);
    for (name, left) in [("offline", 1), ("empty", 0)] {
        let client_id = fixture.broker.client_id_on(0, name);
        fixture.connect(0, &client_id, &returning());
        assert_eq!(fixture.broker.totals().sessions_stale, left, "{name} is connected");
    }
}
