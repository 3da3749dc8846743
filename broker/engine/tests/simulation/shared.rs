//! Members of a shared subscription that are stuck, slow, or offline for a while, while the broker crashes.
//!
//! Each acknowledged message reaches a member, a QoS 2 message exactly once, and a member without credit does not delay the others.

use std::collections::{BTreeMap, BTreeSet};

use tautwire_engine::Settings;
use tautwire_protocol::{
    DecodeOptions, Delivery, OwnedPacket, Packet, PacketId, Properties, ProtocolVersion, PubAck, PubAckReason, PubComp,
    PubRec, PubRecReason, PubRel, Publish, QoS, RetainHandling, TopicFilter, TopicName, Unsubscribe, decode,
};

use crate::journal::{SharedLog, SlowJournal};
use crate::ledger::Request;
use crate::packets::{ConnectOptions, connect_bytes, id, subscribe_bytes};
use crate::random_clients::{SeedReporter, seeds};
use crate::support::{Choices, Random, SimulatedBroker, SocketId};
use crate::world::{RETAINED, returning};

const SHARE: &str = "$share/g/m/+";
const TIMEOUT_S: u32 = 10;

/// How fast a member acknowledges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// All messages at once.
    Immediate,
    /// One message at a time, sometimes.
    Slow,
    /// No message.
    Stuck,
}

struct Member {
    name: String,
    socket: Option<SocketId>,
    options: ConnectOptions,
    qos: QoS,
    pace: Pace,
    /// Whether its session ends with its connection.
    is_transient: bool,
    input: Vec<u8>,
    /// Acknowledgements that it has not sent.
    pending_answers: Vec<Packet<'static>>,
    /// The received messages, and how often each arrived without DUP.
    received: BTreeMap<usize, usize>,
    order: Vec<usize>,
}

struct Publisher {
    socket: SocketId,
    version: ProtocolVersion,
    input: Vec<u8>,
    next_id: u16,
    in_flight: BTreeMap<PacketId, (usize, QoS)>,
}

struct World {
    broker: SimulatedBroker<SlowJournal>,
    log: SharedLog,
    random: Random,
    members: Vec<Member>,
    publishers: Vec<Publisher>,
    /// The QoS of each message.
    published: Vec<QoS>,
    accepted: BTreeSet<usize>,
    refused: BTreeSet<usize>,
}

impl Member {
    fn new(name: &str, pace: Pace, receive_maximum: Option<u16>) -> Member {
        Member {
            name: name.into(),
            socket: None,
            options: ConnectOptions { receive_maximum, expiry_interval_s: u32::MAX, ..returning() },
            qos: QoS::ExactlyOnce,
            pace,
            is_transient: false,
            input: Vec::new(),
            pending_answers: Vec::new(),
            received: BTreeMap::new(),
            order: Vec::new(),
        }
    }

    fn without_persistent_session(self) -> Member {
        // A QoS 2 message in flight is lost with its session [MQTT-4.8.2-5].
        let options = ConnectOptions { expiry_interval_s: 0, ..self.options };
        Member { is_transient: true, qos: QoS::AtLeastOnce, options, ..self }
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        for packet in packets(&mut self.input, ProtocolVersion::V5) {
            match packet.as_packet() {
                Packet::Publish(publish) => {
                    let number = number_of(publish.payload);
                    *self.received.entry(number).or_default() += usize::from(!is_dup(&publish));
                    self.order.push(number);
                    match publish.delivery {
                        Delivery::AtMostOnce => panic!("message {number} arrived at QoS 0"),
                        Delivery::AtLeastOnce { packet_id, .. } => {
                            self.pending_answers.push(Packet::PubAck(PubAck::success(packet_id)));
                        }
                        Delivery::ExactlyOnce { packet_id, .. } => {
                            self.pending_answers.push(Packet::PubRec(PubRec::success(packet_id)));
                        }
                    }
                }
                Packet::PubRel(release) => {
                    self.pending_answers.push(Packet::PubComp(PubComp::success(release.packet_id)))
                }
                _ => {}
            }
        }
    }
}

impl World {
    fn new(shards: usize, settings: Settings, random: Random) -> World {
        let log = SharedLog::default();
        log.sync_immediately();
        let broker = SimulatedBroker::new(shards, settings, RETAINED, |shard| log.journal(shard));
        let members = Vec::new();
        let (publishers, published) = (Vec::new(), Vec::new());
        let (accepted, refused) = (BTreeSet::new(), BTreeSet::new());
        World { broker, log, random, members, publishers, published, accepted, refused }
    }

    fn settle(&mut self) {
        self.broker.settle(&mut self.random);
    }

    fn open(&mut self, name: &str, version: ProtocolVersion, options: &ConnectOptions) -> SocketId {
        let shard = self.random.below(self.broker.shards());
        let socket = self.broker.connect(shard, 1 << 30);
        self.broker.send(socket, &connect_bytes(name, version, options, None));
        socket
    }

    fn add(&mut self, member: Member) -> usize {
        self.members.push(member);
        let at = self.members.len() - 1;
        self.connect(at);
        self.subscribe(at);
        at
    }

    fn connect(&mut self, at: usize) {
        let Member { name, options, .. } = &self.members[at];
        let (name, options) = (name.clone(), options.clone());
        let socket = self.open(&name, ProtocolVersion::V5, &options);
        let member = &mut self.members[at];
        member.socket = Some(socket);
        member.input.clear();
        member.pending_answers.clear();
    }

    fn subscribe(&mut self, at: usize) {
        let Some(socket) = self.members[at].socket else { return };
        let request = Request {
            filter: SHARE.into(),
            qos: self.members[at].qos,
            no_local: false,
            retain_as_published: false,
            retain_handling: RetainHandling::SendAtSubscribe,
            identifier: None,
        };
        self.broker.send(socket, &subscribe_bytes(ProtocolVersion::V5, id(1), &[request]));
    }

    fn unsubscribe(&mut self, at: usize) {
        let Some(socket) = self.members[at].socket else { return };
        let filters = [TopicFilter::new(SHARE).expect("our filter is valid")];
        let packet = Unsubscribe { packet_id: id(2), properties: Properties::EMPTY, filters: (&filters[..]).into() };
        self.broker.send(socket, &bytes_of(&Packet::Unsubscribe(packet), ProtocolVersion::V5));
    }

    /// Breaks the connection after received bytes are read.
    fn cut(&mut self, at: usize) {
        self.read(at);
        if let Some(socket) = self.members[at].socket.take() {
            self.broker.cut(socket);
        }
    }

    fn read(&mut self, at: usize) {
        let Some(socket) = self.members[at].socket else { return };
        let bytes = self.broker.take(socket, usize::MAX);
        self.members[at].receive(&bytes);
    }

    fn answer(&mut self, at: usize, most: usize) {
        let member = &mut self.members[at];
        let Some(socket) = member.socket else { return };
        let most = most.min(member.pending_answers.len());
        if most == 0 {
            return;
        }
        let answers: Vec<u8> =
            member.pending_answers.drain(..most).flat_map(|packet| bytes_of(&packet, ProtocolVersion::V5)).collect();
        self.broker.send(socket, &answers);
    }

    /// Has a member read, and acknowledge at its pace.
    fn work(&mut self, at: usize) {
        self.read(at);
        let most = match self.members[at].pace {
            Pace::Immediate => usize::MAX,
            Pace::Slow => self.random.below(3).saturating_sub(1),
            Pace::Stuck => 0,
        };
        self.answer(at, most);
    }

    fn add_publisher(&mut self, version: ProtocolVersion) -> usize {
        let name = format!("publisher-{}", self.publishers.len());
        let socket = self.open(&name, version, &returning());
        self.publishers.push(Publisher { socket, version, input: Vec::new(), next_id: 1, in_flight: BTreeMap::new() });
        self.publishers.len() - 1
    }

    fn publish(&mut self, at: usize, qos: QoS) {
        let number = self.published.len();
        let publisher = &mut self.publishers[at];
        if publisher.in_flight.len() >= 900 {
            return;
        }
        self.published.push(qos);
        let packet_id = id(publisher.next_id);
        publisher.next_id = publisher.next_id % 60_000 + 1;
        publisher.in_flight.insert(packet_id, (number, qos));
        let delivery = match qos {
            QoS::ExactlyOnce => Delivery::ExactlyOnce { packet_id, dup: false },
            _ => Delivery::AtLeastOnce { packet_id, dup: false },
        };
        let (topic, payload) = (TopicName::new("m/x").ok(), format!("{number:>100}"));
        let properties = Properties::EMPTY;
        let publish = Publish { delivery, retain: false, topic, properties, payload: payload.as_bytes() };
        self.broker.send(publisher.socket, &bytes_of(&Packet::Publish(publish), publisher.version));
    }

    fn read_answers(&mut self) {
        for publisher in &mut self.publishers {
            publisher.input.extend(self.broker.take(publisher.socket, usize::MAX));
            for packet in packets(&mut publisher.input, publisher.version) {
                let (packet_id, is_accepted, is_quota) = match packet.as_packet() {
                    Packet::PubAck(ack) => {
                        (ack.packet_id, ack.reason == PubAckReason::Success, ack.reason == PubAckReason::QuotaExceeded)
                    }
                    Packet::PubRec(ack) => {
                        (ack.packet_id, ack.reason == PubRecReason::Success, ack.reason == PubRecReason::QuotaExceeded)
                    }
                    Packet::ConnAck(_) | Packet::PubComp(_) => continue,
                    other => panic!("a publisher received {other:?}"),
                };
                let Some((number, qos)) = publisher.in_flight.remove(&packet_id) else {
                    panic!("{packet_id:?} is not in flight")
                };
                assert!(is_accepted || is_quota, "message {number} is refused for a reason other than Quota Exceeded");
                assert!(
                    is_accepted || publisher.version.is_v5(),
                    "message {number} is refused, which 3.1.1 does not have"
                );
                if is_accepted { &mut self.accepted } else { &mut self.refused }.insert(number);
                if is_accepted && qos == QoS::ExactlyOnce {
                    let release = Packet::PubRel(PubRel::success(packet_id));
                    self.broker.send(publisher.socket, &bytes_of(&release, publisher.version));
                }
            }
        }
    }

    /// Crashes the broker and restarts it with another number of shards from the durable records.
    fn crash(&mut self) {
        self.read_answers();
        for at in 0..self.members.len() {
            if self.random.chance(50) {
                self.read(at);
            }
            // Unread bytes are lost with the connection.
            self.members[at].socket = None;
        }
        let versions: Vec<_> = self.publishers.drain(..).map(|publisher| publisher.version).collect();
        self.broker.cut_all_but(&[]);
        self.log.crash();
        self.log.hold_frames(false);
        let shards = 1 + self.random.below(3);
        let log = self.log.clone();
        self.broker.restart(shards, RETAINED, self.log.replay(), |shard| log.journal(shard));
        for version in versions {
            // A new Client Identifier: messages in flight of the old session do not matter.
            let name = format!("publisher-{}-{}", self.publishers.len(), self.published.len());
            let socket = self.open(&name, version, &returning());
            self.publishers.push(Publisher {
                socket,
                version,
                input: Vec::new(),
                next_id: 1,
                in_flight: BTreeMap::new(),
            });
        }
        self.log.sync_immediately();
        for at in 0..self.members.len() {
            if self.members[at].is_transient || self.random.chance(60) {
                self.connect(at);
                if self.members[at].is_transient {
                    self.subscribe(at);
                }
            }
        }
    }

    /// Connects all members, which acknowledge everything, until nothing is stored or in flight.
    fn quiesce(&mut self) {
        self.log.sync_immediately();
        self.broker.wake_all();
        for at in 0..self.members.len() {
            if self.members[at].socket.is_none() {
                self.connect(at);
                self.subscribe(at);
            }
        }
        for _ in 0..5_000 {
            let before = self.broker.progress();
            self.settle();
            for at in 0..self.members.len() {
                self.read(at);
                self.answer(at, usize::MAX);
            }
            self.read_answers();
            self.broker.advance(200);
            self.settle();
            let is_idle = self.publishers.iter().all(|publisher| publisher.in_flight.is_empty());
            if is_idle && self.broker.progress() == before && self.stored() == 0 {
                return;
            }
        }
        panic!(
            "{} messages are still stored, and {:?} are in flight from publishers",
            self.stored(),
            self.publishers.iter().map(|p| p.in_flight.len()).collect::<Vec<_>>()
        );
    }

    fn stored(&self) -> u64 {
        self.broker.totals().stored_messages
    }

    /// Checks that each acknowledged message reached a member, and each QoS 2 message only one.
    fn check(&self) {
        let mut counts = BTreeMap::<usize, usize>::new();
        for member in &self.members {
            for (number, count) in &member.received {
                *counts.entry(*number).or_default() += (*count).max(1);
            }
        }
        let missing: Vec<_> = self.accepted.iter().filter(|number| !counts.contains_key(number)).collect();
        assert!(missing.is_empty(), "of {} acknowledged messages, {missing:?} did not arrive", self.accepted.len());
        for (number, count) in &counts {
            let is_once =
                self.published[*number] == QoS::AtLeastOnce || self.members.iter().any(|m| m.qos == QoS::AtLeastOnce);
            assert!(is_once || *count == 1, "message {number} of QoS 2 arrived {count} times");
        }
        let refused: Vec<_> = self.refused.iter().filter(|number| counts.contains_key(number)).collect();
        assert!(refused.is_empty(), "{refused:?} were refused and arrived");
        let totals = self.broker.totals();
        assert_eq!((totals.dropped_queue_full, totals.dropped_no_member, totals.dropped_memory_full), (0, 0, 0));
    }
}

fn settings() -> Settings {
    // Queues of sessions hold no messages of shared subscriptions.
    Settings {
        sys_interval_s: 0,
        session_queue_messages: 1,
        shared_ack_timeout_s: TIMEOUT_S,
        incomplete_packet_timeout_s: 1_000_000,
        ..Settings::default()
    }
}

fn is_dup(publish: &Publish<'_>) -> bool {
    matches!(publish.delivery, Delivery::AtLeastOnce { dup: true, .. } | Delivery::ExactlyOnce { dup: true, .. })
}

fn number_of(payload: &[u8]) -> usize {
    String::from_utf8_lossy(payload).trim().parse().expect("payloads are numbers")
}

fn bytes_of(packet: &Packet<'_>, version: ProtocolVersion) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet.append_to(version, &mut bytes).expect("our packets are valid");
    bytes
}

fn packets(input: &mut Vec<u8>, version: ProtocolVersion) -> Vec<OwnedPacket> {
    let (mut at, mut packets) = (0, Vec::new());
    while let Ok((packet, length)) = decode(&input[at..], &DecodeOptions::new(version)) {
        packets.push(packet.to_owned_packet().expect("a decoded packet can be owned"));
        at += length;
    }
    input.drain(..at);
    packets
}

fn random_member(random: &mut Random, number: usize) -> Member {
    let pace = random.pick(&[Pace::Immediate, Pace::Slow, Pace::Slow, Pace::Stuck]);
    let receive_maximum = random.pick(&[None, Some(1), Some(1), Some(2), Some(10)]);
    let member = Member::new(&format!("member-{number}"), pace, receive_maximum);
    let member = Member { qos: random.pick(&[QoS::ExactlyOnce, QoS::AtLeastOnce]), ..member };
    if random.chance(30) { member.without_persistent_session() } else { member }
}

/// Runs the simulation of one seed, and panics on a failure.
pub(crate) fn run_seed(seed: u64) {
    let mut random = Random::new(seed ^ 0x5A4E);
    let has_spill_store = random.chance(25);
    let settings = Settings {
        in_flight_per_client: random.pick(&[1, 3, 50, 1_024]),
        shared_queue_bytes: random.pick(&[2_000, 20_000, 1 << 20]),
        shared_ack_timeout_s: random.pick(&[0, TIMEOUT_S]),
        shard_queue_batches: random.pick(&[1, 2, 8, 64]),
        spill_threshold_bytes: if has_spill_store { 0 } else { 1 << 30 },
        ..settings()
    };
    let shards = 1 + random.below(3);
    let mut world = World::new(shards, settings, random);
    if has_spill_store {
        world.broker.connect_spill_store();
    }
    // It stays a member, so that the group exists, but it need not be connected.
    world.add(Member::new("keeper", Pace::Immediate, Some(5)));
    for number in 0..1 + world.random.below(4) {
        let member = random_member(&mut world.random, number);
        world.add(member);
    }
    world.add_publisher(ProtocolVersion::V5);
    world.add_publisher(ProtocolVersion::V3_1_1);
    world.settle();
    let crashes = world.random.below(3);
    for part in 0..=crashes {
        if world.random.chance(50) {
            world.log.stop_syncing();
        }
        for _ in 0..world.random.pick(&[50, 200, 600]) {
            step(&mut world);
        }
        if part < crashes {
            world.crash();
        }
    }
    world.quiesce();
    world.check();
}

fn step(world: &mut World) {
    let at = world.random.below(world.members.len());
    match world.random.below(20) {
        0..=6 => {
            let shard = world.random.below(world.broker.shards());
            world.broker.turn(shard, &mut world.random);
        }
        7..=10 => {
            let publisher = world.random.below(world.publishers.len());
            for _ in 0..1 + world.random.below(20) {
                let qos = world.random.pick(&[QoS::AtLeastOnce, QoS::AtLeastOnce, QoS::ExactlyOnce]);
                world.publish(publisher, qos);
            }
        }
        11..=14 => world.work(at),
        15 => world.read_answers(),
        16 => match world.members[at].socket {
            Some(_) if world.random.chance(40) => world.cut(at),
            Some(_) => {}
            None => {
                world.connect(at);
                world.subscribe(at);
            }
        },
        17 if at > 0 && world.random.chance(40) => world.unsubscribe(at),
        17 => world.subscribe(at),
        18 => {
            world.log.make_durable(&mut world.random);
            world.broker.wake_all();
        }
        _ => {
            let ms = world.random.pick(&[0, 1, 100, 3_000]);
            world.broker.advance(ms);
        }
    }
}

#[test]
fn messages_that_members_cannot_accept_are_not_lost() {
    for seed in seeds() {
        let _reporter = SeedReporter(seed);
        run_seed(seed);
    }
}

fn world(shards: usize, settings: Settings) -> World {
    World::new(shards, settings, Random::new(shards as u64))
}

/// Publishes `count` messages of QoS 1, and has `members` work until nothing happens.
fn publish_all(world: &mut World, publisher: usize, count: usize, members: &[usize]) {
    let mut left = count;
    for _ in 0..10_000 {
        let before = world.broker.progress();
        for _ in 0..left.min(50) {
            world.publish(publisher, QoS::AtLeastOnce);
            left -= 1;
        }
        world.settle();
        world.read_answers();
        members.iter().for_each(|at| world.work(*at));
        world.settle();
        if left == 0 && world.broker.progress() == before {
            return;
        }
    }
    panic!("the exchange does not end");
}

#[test]
fn a_stuck_member_gets_its_window_and_the_others_the_rest() {
    for shards in 1..=3 {
        let mut world = world(shards, settings());
        let stuck = world.add(Member::new("stuck", Pace::Stuck, Some(1)));
        let idle = world.add(Member::new("idle", Pace::Immediate, None));
        let publisher = world.add_publisher(ProtocolVersion::V5);
        world.settle();
        publish_all(&mut world, publisher, 1_000, &[stuck, idle]);
        assert_eq!((world.accepted.len(), world.refused.len()), (1_000, 0));
        assert_eq!((world.members[stuck].received.len(), world.members[idle].received.len()), (1, 999));
        world.check();
    }
}

/// Messages are redispatched in the order in which they were sent; QoS 2 messages are not [MQTT-4.8.2-4].
#[test]
fn unacknowledged_messages_of_a_stuck_member_are_redispatched_in_order() {
    for (shards, is_connected) in [(1, true), (2, true), (3, true), (1, false), (3, false)] {
        let mut world = world(shards, settings());
        let stuck = world.add(Member::new("stuck", Pace::Stuck, Some(10)));
        let publisher = world.add_publisher(ProtocolVersion::V5);
        world.settle();
        for number in 0..10 {
            world.publish(publisher, if number == 4 { QoS::ExactlyOnce } else { QoS::AtLeastOnce });
            world.settle();
        }
        world.read_answers();
        world.read(stuck);
        assert_eq!(world.members[stuck].order, (0..10).collect::<Vec<_>>());
        if !is_connected {
            world.cut(stuck);
        }
        let other = world.add(Member::new("other", Pace::Immediate, None));
        world.settle();
        let check_interval_ms = u64::from(TIMEOUT_S) * 500;
        world.broker.advance(2 * check_interval_ms - 1);
        world.settle();
        world.work(other);
        assert!(world.members[other].order.is_empty(), "messages are redispatched before the timeout");
        for _ in 0..4 {
            world.broker.advance(check_interval_ms);
            world.settle();
            world.work(other);
        }
        assert_eq!(world.members[other].order, [0, 1, 2, 3, 5, 6, 7, 8, 9]);
        assert_eq!(world.broker.totals().shared_messages_redispatched, 9, "messages are redispatched more than once");
        if is_connected {
            // It receives no more messages until it acknowledges one.
            publish_all(&mut world, publisher, 20, &[stuck, other]);
            assert_eq!(world.members[stuck].received.len(), 10);
            world.answer(stuck, usize::MAX);
            world.settle();
            publish_all(&mut world, publisher, 20, &[stuck, other]);
            assert!(world.members[stuck].received.len() > 10);
        } else {
            world.connect(stuck);
            world.settle();
            world.read(stuck);
            assert_eq!(world.members[stuck].order[10..], [4]);
        }
    }
}

#[test]
fn unacknowledged_messages_of_an_ended_session_are_redispatched_in_order() {
    for shards in 1..=3 {
        let mut world = world(shards, settings());
        let leaving = world.add(Member::new("leaving", Pace::Stuck, Some(30)).without_persistent_session());
        let publisher = world.add_publisher(ProtocolVersion::V5);
        world.settle();
        publish_all(&mut world, publisher, 50, &[leaving]);
        assert_eq!(world.members[leaving].order.len(), 30);
        let other = world.add(Member::new("other", Pace::Immediate, None));
        world.settle();
        world.work(other);
        assert_eq!(world.members[other].order, (30..50).collect::<Vec<_>>(), "the queued messages do not arrive");
        world.cut(leaving);
        world.settle();
        world.work(other);
        assert_eq!(world.members[other].order[20..], (0..30).collect::<Vec<_>>());
    }
}

/// No member is connected: publishers are refused when the queue is full, and all acknowledged messages arrive later, in order.
#[test]
fn a_full_queue_refuses_publishers_and_loses_nothing() {
    for shards in 1..=3 {
        let mut world = world(shards, Settings { shared_queue_bytes: 10_000, ..settings() });
        let offline = world.add(Member::new("absent", Pace::Immediate, None));
        let new = world.add_publisher(ProtocolVersion::V5);
        let old = world.add_publisher(ProtocolVersion::V3_1_1);
        world.settle();
        world.cut(offline);
        world.settle();
        publish_all(&mut world, new, 200, &[]);
        let (accepted, refused) = (world.accepted.len(), world.refused.len());
        assert!(accepted > 10 && refused > 100 && accepted + refused == 200, "{accepted} accepted, {refused} refused");
        publish_all(&mut world, old, 10, &[]);
        assert_eq!(world.publishers[old].in_flight.len(), 10, "reading from the publisher is not paused");
        let totals = world.broker.totals();
        assert!(totals.publishes_refused_shared_queue > 100 && totals.publishes_refused_memory == 0);
        world.connect(offline);
        world.quiesce();
        let order = world.members[offline].order.clone();
        assert_eq!(order, world.accepted.iter().copied().collect::<Vec<_>>());
        assert_eq!(order.len(), accepted + 10);
        world.check();
    }
}

/// The last member unsubscribes: queued messages are dropped, and the queue is removed.
#[test]
fn a_queue_ends_with_its_group() {
    for shards in 1..=3 {
        for comes_back in [false, true] {
            let mut world = world(shards, settings());
            let last = world.add(Member::new("last", Pace::Stuck, Some(1)));
            let publisher = world.add_publisher(ProtocolVersion::V5);
            world.settle();
            publish_all(&mut world, publisher, 20, &[last]);
            assert_eq!(world.stored(), 20);
            if comes_back {
                // The queue is empty when the group ends.
                world.members[last].pace = Pace::Immediate;
                publish_all(&mut world, publisher, 0, &[last]);
                assert_eq!(world.stored(), 0);
            }
            world.unsubscribe(last);
            world.settle();
            world.read(last);
            world.answer(last, usize::MAX);
            world.settle();
            assert_eq!((world.stored(), world.broker.exchange().shares()), (0, 0));
            let dropped = if comes_back { 0 } else { 19 };
            assert_eq!(world.broker.totals().dropped_no_member, dropped);
            let names: Vec<_> =
                world.log.replay().sessions().map(|replayed| replayed.session.name().to_owned()).collect();
            assert!(names.iter().all(|name| !name.contains('\0')), "{names:?}");
        }
    }
}
