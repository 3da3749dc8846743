//! A slow journal: its records are sufficient to rebuild all state, and no acknowledgement is sent before its record is durable.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use tautwire_engine::Mode;
use tautwire_engine::Settings;
use tautwire_message::{Body, Message, MessageId};
use tautwire_protocol::{Packet, PacketId, Properties, PubRecReason, Publish, QoS, TopicName};
use tautwire_session::{
    Change, ForwardTarget, Journal, LogPosition, LogState, PendingMessage, Record, Replay, ReplayedSession,
    ReplayedState, Resend, RetainedChange, Session, SessionNumber, ShardNumber, ShardPlacement,
};

use crate::client::{Acknowledged, Client, PACKET_IDS_MAX, Phase};
use crate::ledger::SHARED_PREFIX;
use crate::random_clients::{SeedReporter, seeds};
use crate::support::{Choices, Random};
use crate::world::{Plan, RETAINED, World, returning, settings};

/// A stored record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum StoredRecord {
    Opened(SessionNumber, String),
    Changed(SessionNumber, Change, Option<PacketId>),
    Returned(SessionNumber),
    Left(SessionNumber, u64),
    Ended(SessionNumber),
    Counted(SessionNumber, u64),
    RunStarted(ShardPlacement),
    Forwarded {
        from: ShardNumber,
        to: ShardNumber,
        sequence: u64,
        message: Message,
        receivers: ForwardTarget,
    },
    ForwardAccepted {
        from: ShardNumber,
        to: ShardNumber,
        sequence: u64,
    },
    /// Numbered, because shards record changes in another order than they make them.
    Retained(u64, RetainedChange),
}

impl StoredRecord {
    pub(crate) fn of(record: &Record<'_>) -> StoredRecord {
        match *record {
            Record::Opened { session, client_id, .. } => StoredRecord::Opened(session, client_id.into()),
            Record::Changed { session, change, packet_id } => StoredRecord::Changed(session, change.clone(), packet_id),
            Record::Returned { session, .. } => StoredRecord::Returned(session),
            Record::Left { session, at_ms } => StoredRecord::Left(session, at_ms),
            Record::Ended(session) => StoredRecord::Ended(session),
            Record::Counted { last_session, last_sequence } => StoredRecord::Counted(last_session, last_sequence),
            Record::RunStarted(homes) => StoredRecord::RunStarted(homes),
            Record::Forwarded { from, to, sequence, message, receivers } => {
                StoredRecord::Forwarded { from, to, sequence, message: message.clone(), receivers: receivers.into() }
            }
            Record::ForwardAccepted { from, to, sequence } => StoredRecord::ForwardAccepted { from, to, sequence },
            Record::Retained { sequence, change } => StoredRecord::Retained(sequence, change.clone()),
        }
    }

    pub(crate) fn record(&self) -> Record<'_> {
        match self {
            StoredRecord::Opened(session, client_id) => Record::Opened { session: *session, client_id, at_ms: 0 },
            StoredRecord::Changed(session, change, packet_id) => {
                Record::Changed { session: *session, change, packet_id: *packet_id }
            }
            StoredRecord::Returned(session) => Record::Returned { session: *session, at_ms: 0 },
            StoredRecord::Left(session, at_ms) => Record::Left { session: *session, at_ms: *at_ms },
            StoredRecord::Ended(session) => Record::Ended(*session),
            StoredRecord::Counted(last_session, last_sequence) => {
                Record::Counted { last_session: *last_session, last_sequence: *last_sequence }
            }
            StoredRecord::RunStarted(homes) => Record::RunStarted(*homes),
            StoredRecord::Forwarded { from, to, sequence, message, receivers } => {
                let receivers = receivers.as_receivers();
                Record::Forwarded { from: *from, to: *to, sequence: *sequence, message, receivers }
            }
            StoredRecord::ForwardAccepted { from, to, sequence } => {
                Record::ForwardAccepted { from: *from, to: *to, sequence: *sequence }
            }
            StoredRecord::Retained(sequence, change) => Record::Retained { sequence: *sequence, change },
        }
    }
}

#[derive(Debug)]
struct Frame {
    shard: usize,
    records: Vec<StoredRecord>,
}

#[derive(Debug, Default)]
struct Log {
    frames: Vec<Frame>,
    /// The number of durable frames.
    durable: usize,
    /// The number of durable frames of each shard.
    durable_of: BTreeMap<usize, u64>,
    /// Frames are durable as soon as they are submitted.
    syncs_immediately: bool,
    /// Complete frames wait in their shard.
    holds_frames: bool,
    state: Option<LogState>,
    /// The disk fails at the next frame.
    fails_with_next_frame: bool,
    /// The disk fails at the next record.
    fails_with_next_record: bool,
    sessions: u64,
    client_ids: BTreeMap<SessionNumber, String>,
}

impl Log {
    fn make_durable(&mut self, until: usize) {
        for frame in &self.frames[self.durable..until] {
            *self.durable_of.entry(frame.shard).or_default() += 1;
        }
        self.durable = until;
    }
}

/// The journal of one shard. All shards write to one log, and each counts its own frames from 1.
#[derive(Debug)]
pub(crate) struct SlowJournal {
    log: SharedLog,
    shard: usize,
    ended: u64,
    open: Vec<StoredRecord>,
    waiting: Vec<Frame>,
}

#[derive(Debug, Default, Clone)]
pub(crate) struct SharedLog(Rc<RefCell<Log>>);

impl Journal for SlowJournal {
    const PERSISTENT: bool = true;

    fn next_session(&mut self) -> SessionNumber {
        let mut log = self.log.0.borrow_mut();
        log.sessions += 1;
        SessionNumber(log.sessions)
    }

    fn record(&mut self, record: Record<'_>) -> LogPosition {
        if let Record::Opened { session, client_id, .. } = record {
            self.log.0.borrow_mut().client_ids.insert(session, client_id.into());
        }
        self.open.push(StoredRecord::of(&record));
        let mut log = self.log.0.borrow_mut();
        if log.fails_with_next_record {
            (log.state, log.fails_with_next_record, log.fails_with_next_frame) = (Some(LogState::Failed), false, true);
        }
        LogPosition(self.ended + 1)
    }

    fn end_frame(&mut self) {
        if !self.open.is_empty() {
            self.ended += 1;
            self.waiting.push(Frame { shard: self.shard, records: std::mem::take(&mut self.open) });
        }
        let mut log = self.log.0.borrow_mut();
        if log.holds_frames {
            return;
        }
        if log.fails_with_next_frame && !self.waiting.is_empty() {
            log.state = Some(LogState::Failed);
            return;
        }
        log.frames.append(&mut self.waiting);
        if log.syncs_immediately {
            let all = log.frames.len();
            log.make_durable(all);
        }
    }

    /// Shard 0 ends its frames at the end of a turn, the others as soon as possible.
    fn frame_bytes(&self) -> usize {
        if self.shard == 0 { usize::MAX } else { 0 }
    }

    fn mark_forwarded(&mut self, _: MessageId) {}

    fn has_submitted_all(&self) -> bool {
        self.waiting.is_empty()
    }

    fn durable(&self) -> LogPosition {
        LogPosition(self.log.0.borrow().durable_of.get(&self.shard).copied().unwrap_or_default())
    }

    /// Submitted frames count as written.
    fn written(&self) -> LogPosition {
        LogPosition(self.ended - self.waiting.len() as u64)
    }

    fn is_lagging(&self) -> bool {
        let log = self.log.0.borrow();
        log.frames.len() - log.durable > LAGGING_FRAMES
    }

    fn state(&self) -> LogState {
        self.log.0.borrow().state.unwrap_or(LogState::Open)
    }
}

/// The journal lags with more frames that are not durable.
const LAGGING_FRAMES: usize = 40;

impl SharedLog {
    pub(crate) fn journal(&self, shard: usize) -> SlowJournal {
        SlowJournal { log: self.clone(), shard, ended: 0, open: Vec::new(), waiting: Vec::new() }
    }

    pub(crate) fn make_durable(&self, choices: &mut impl Choices) {
        let mut log = self.0.borrow_mut();
        let behind = log.frames.len() - log.durable;
        let until = log.durable + choices.below(behind + 1);
        log.make_durable(until);
    }

    /// Makes all frames durable, and later ones at once.
    pub(crate) fn sync_immediately(&self) {
        let mut log = self.0.borrow_mut();
        let all = log.frames.len();
        log.make_durable(all);
        log.syncs_immediately = true;
        log.holds_frames = false;
    }

    /// Sets whether complete frames wait in their shards.
    pub(crate) fn hold_frames(&self, holds: bool) {
        self.0.borrow_mut().holds_frames = holds;
    }

    /// Sets the state of the log, such as full or failed.
    pub(crate) fn set_state(&self, state: LogState) {
        self.0.borrow_mut().state = Some(state);
    }

    /// Fails the disk during the next turn that submits a frame, without waking a shard.
    pub(crate) fn fail_with_next_frame(&self) {
        self.0.borrow_mut().fails_with_next_frame = true;
    }

    /// Fails the disk during the packet that causes the next record.
    pub(crate) fn fail_with_next_record(&self) {
        self.0.borrow_mut().fails_with_next_record = true;
    }

    /// Makes frames durable only by `make_durable`.
    pub(crate) fn stop_syncing(&self) {
        self.0.borrow_mut().syncs_immediately = false;
    }

    /// Whether all records that match are durable. `concerns` gets the Client Identifier of a record's session.
    fn is_durable(&self, concerns: impl Fn(&str, &StoredRecord) -> bool) -> bool {
        let log = self.0.borrow();
        let client_id = |record: &StoredRecord| match record {
            StoredRecord::Opened(session, _) | StoredRecord::Changed(session, ..) => log.client_ids[session].as_str(),
            _ => "",
        };
        let pending_frames = &log.frames[log.durable..];
        pending_frames.iter().flat_map(|frame| &frame.records).all(|record| !concerns(client_id(record), record))
    }

    /// Drops the frames that are not durable.
    pub(crate) fn crash(&self) {
        let mut log = self.0.borrow_mut();
        let Log { frames, durable, durable_of, .. } = &mut *log;
        frames.truncate(*durable);
        // After the restart, shards count their frames from 1 again.
        durable_of.clear();
    }

    /// Replays the records.
    pub(crate) fn replay(&self) -> Replay {
        let mut replay = Replay::default();
        for stored in self.0.borrow().frames.iter().flat_map(|frame| &frame.records) {
            replay.apply(&stored.record()).unwrap_or_else(|error| panic!("{error}"));
        }
        replay
    }
}

/// Sessions by Client Identifier, and retained messages by topic.
fn by_name(replay: Replay) -> (BTreeMap<String, Session>, BTreeMap<String, MessageId>) {
    let ReplayedState { sessions, retained, pending_forwards, .. } = replay.finish();
    assert_eq!(pending_forwards, [], "forwarded messages are pending");
    let mut named = BTreeMap::new();
    for ReplayedSession { session, .. } in sessions {
        if is_queue(&session) {
            continue;
        }
        let client_id = session.client_id().to_owned();
        assert!(named.insert(client_id, session).is_none(), "a client has two sessions");
    }
    (named, retained.iter().map(|(topic, _, body)| (topic.to_owned(), body.id())).collect())
}

/// Whether a session is the queue of a shared subscription.
fn is_queue(session: &Session) -> bool {
    session.name().starts_with('\0')
}

/// Limits so large that all queued messages are sent at once, to compare them with the replayed state.
pub(crate) fn large_limits(random: &mut Random) -> Settings {
    Settings {
        spill_threshold_bytes: 0,
        receive_maximum: 65_535,
        in_flight_per_client: 10_000,
        connection_output_bytes: 100 << 20,
        sys_interval_s: 0,
        ..settings(random)
    }
}

fn world(seed: u64, shards: usize) -> (World<SlowJournal>, SharedLog) {
    let journal = SharedLog::default();
    let mut random = Random::new(!seed);
    let plan = Plan { shards, clients: 2 + random.below(5), steps: 600, prompt_clients: true };
    let world = World::new(seed, plan, large_limits(&mut random), |shard| journal.journal(shard));
    (world, journal)
}

#[test]
fn acknowledgements_wait_until_their_records_are_durable() {
    for seed in seeds() {
        let _reporter = SeedReporter(seed);
        run_with_slow_log(seed);
    }
}

/// Runs the simulation of one seed, and panics if an acknowledgement is sent before its record is durable.
pub(crate) fn run_with_slow_log(seed: u64) {
    let (mut world, journal) = world(seed, 1);
    let mut random = Random::new(seed ^ 0x5EED);
    for _ in 0..600 {
        world.step().unwrap_or_else(|error| panic!("{error}"));
        check_acknowledged(&mut world, &journal);
        if random.chance(20) {
            journal.make_durable(&mut random);
            world.broker.wake_all();
        }
    }
    journal.sync_immediately();
    world.broker.wake_all();
    world.quiesce().unwrap_or_else(|error| panic!("{error}"));
}

fn check_acknowledged(world: &mut World<SlowJournal>, journal: &SharedLog) {
    // The whole session of a member may be recorded after it received a message.
    let is_transient = |client: &&Client| client.options.as_ref().is_some_and(|options| options.expiry_interval_s == 0);
    let transient: BTreeSet<String> =
        world.clients.iter().filter(is_transient).map(|client| client.id.clone()).collect();
    for client in &mut world.clients {
        let is_persistent = client.options.as_ref().is_some_and(|options| options.expiry_interval_s > 0);
        for acknowledged in std::mem::take(&mut client.acknowledged) {
            let is_own = |id: &str, record: &StoredRecord, is_meant: &dyn Fn(&Change) -> bool| matches!(record, StoredRecord::Changed(_, change, _) if *id == client.id && is_meant(change));
            let is_durable = match &acknowledged {
                Acknowledged::Message(number) => {
                    let publication = &world.ledger.publications[*number];
                    // Other messages may have later records.
                    let once = !publication.retain && !publication.resent && !publication.topic.starts_with('$');
                    !once
                        || journal
                            .is_durable(|id, record| !transient.contains(id) && contains_payload(record, &publication.payload))
                }
                Acknowledged::Delivered(number) => {
                    let payload = &world.ledger.publications[*number].payload;
                    let starts = |change: &Change| match change {
                        Change::Started(delivery) => {
                            delivery.qos == QoS::ExactlyOnce && loaded(&delivery.message).payload() == *payload
                        }
                        _ => false,
                    };
                    journal.is_durable(|id, record| is_own(id, record, &starts))
                }
                Acknowledged::Connected => journal.is_durable(|id, record| {
                    let confirms = |change: &Change| matches!(change, Change::ExpiryInterval(_));
                    is_own(id, record, &confirms) || (id == client.id && matches!(record, StoredRecord::Opened(..)))
                }),
                Acknowledged::Received(packet_id) => {
                    journal.is_durable(|id, record| is_own(id, record, &|change| *change == Change::Received(*packet_id)))
                }
                Acknowledged::Release(packet_id) => {
                    journal.is_durable(|id, record| is_own(id, record, &|change| *change == Change::Released(*packet_id)))
                }
                Acknowledged::Subscribed(filters) => journal.is_durable(|id, record| {
                    is_own(id, record, &|change| matches!(change, Change::Subscribed(filter, _) if filters.iter().any(|held| **held == **filter)))
                }),
                Acknowledged::Unsubscribed(filters) => journal.is_durable(|id, record| {
                    is_own(id, record, &|change| matches!(change, Change::Unsubscribed(filter) if filters.iter().any(|held| **held == **filter)))
                }),
            };
            assert!(
                is_durable || !is_persistent,
                "client {} received {acknowledged:?} before it was durable",
                client.index
            );
        }
    }
}

/// A recorded message, which is in memory.
fn loaded(body: &Body) -> &Message {
    body.loaded().expect("a recorded message is in memory")
}

/// Whether a record contains a message with this payload.
fn contains_payload(record: &StoredRecord, payload: &[u8]) -> bool {
    match record {
        StoredRecord::Changed(_, Change::Queued(delivery) | Change::Started(delivery), _) => {
            loaded(&delivery.message).payload() == payload
        }
        StoredRecord::Retained(_, RetainedChange::Set(message)) => message.payload() == payload,
        _ => false,
    }
}

#[test]
fn replayed_records_give_the_state_of_the_broker() {
    for seed in seeds() {
        let _reporter = SeedReporter(seed);
        let (mut world, journal) = world(seed, 1 + seed as usize % 3);
        journal.sync_immediately();
        for _ in 0..600 {
            world.step().unwrap_or_else(|error| panic!("{error}"));
        }
        // Connecting clients receive CONNACK. Then all connections break, and forwarded messages arrive.
        world.broker.settle(&mut Random::new(seed));
        for client in &mut world.clients {
            client.read(&mut world.broker, &mut world.ledger, usize::MAX).unwrap_or_else(|error| panic!("{error}"));
        }
        world.broker.cut_all_but(&[]);
        world.broker.settle(&mut Random::new(seed));
        compare(&mut world, journal.replay(), Run::First);
    }
}

#[test]
fn a_crashed_broker_continues_with_durable_records() {
    crash_and_restart(|_| {});
}

/// The same with spilled messages: those in flight and in queues are sent again in the same order, with the same identifiers.
#[test]
fn a_crashed_broker_continues_with_spilled_messages() {
    crash_and_restart(|world| {
        world.broker.connect_spill_store();
    });
}

fn crash_and_restart(prepare: impl Fn(&mut World<SlowJournal>)) {
    for seed in seeds() {
        let _reporter = SeedReporter(seed);
        let (mut world, journal) = world(seed, 1 + seed as usize % 3);
        prepare(&mut world);
        let mut random = Random::new(seed ^ 0xC4A5);
        for _ in 0..600 {
            world.step().unwrap_or_else(|error| panic!("{error}"));
            if random.chance(10) {
                journal.make_durable(&mut random);
                world.broker.wake_all();
            }
        }
        for client in &mut world.clients {
            client.abandon(&world.broker, &mut world.ledger);
        }
        journal.crash();
        // The number of shards can change.
        world.broker.restart(1 + random.below(3), RETAINED, journal.replay(), |shard| journal.journal(shard));
        journal.sync_immediately();
        for ms in [TIMER_TICK_MS, 1_000, 10_000] {
            world.broker.advance(ms);
            world.broker.settle(&mut random);
            check_nothing_is_overdue(&world, journal.replay());
        }
        compare(&mut world, journal.replay(), Run::AfterCrash);
    }
}

/// Timers expire at most so much later.
pub(crate) const TIMER_TICK_MS: u64 = 250;

/// Checks that wills are published and sessions expire in time, counted from the disconnect or the crash.
pub(crate) fn check_nothing_is_overdue<M: Mode>(world: &World<M>, replay: Replay) {
    let sessions = replay.finish().sessions;
    let mut messages = 0;
    for ReplayedSession { session, disconnected_at_ms, .. } in sessions {
        messages += session.outbound().map_or(0, |outbound| outbound.messages());
        if is_queue(&session) {
            continue;
        }
        let offline_ms = world.broker.now_ms() - disconnected_at_ms.expect("all clients are offline");
        let is_due = |after_s: u32| offline_ms >= u64::from(after_s) * 1000 + TIMER_TICK_MS;
        assert!(!is_due(session.expiry_interval_s()), "the expired session of {} still exists", session.client_id());
        assert!(
            !session.will().is_some_and(|will| is_due(will.delay_s)),
            "the will of {} is overdue",
            session.client_id()
        );
    }
    assert_eq!(world.broker.totals().stored_messages, messages as u64);
}

/// Whether the broker has crashed. The model does not know what a crash has lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Run {
    First,
    AfterCrash,
}

/// A packet that a client receives when it resumes its session.
#[derive(Debug, PartialEq, Eq)]
enum Sent {
    Publish { id: PacketId, dup: bool, retain: bool, qos: QoS, topic: String, payload: String },
    Release(PacketId),
}

pub(crate) fn compare<M: Mode>(world: &mut World<M>, replay: Replay, run: Run) {
    let (mut sessions, retained) = by_name(replay);
    let subscriptions: usize = sessions.values().map(|session| session.subscriptions().len()).sum();
    assert_eq!(world.broker.totals().subscriptions, subscriptions as u64);
    for topic in world.ledger.retained_topics() {
        let held = world.broker.exchange().retained_message(topic);
        assert_eq!(held.map(|body| body.id()).as_ref(), retained.get(topic), "{topic}");
    }
    assert_eq!(world.broker.exchange().retained().0, retained.len());
    assert_eq!(world.broker.totals().sessions, sessions.len() as u64);
    for index in 0..world.clients.len() {
        let client = &mut world.clients[index];
        let session = sessions.remove(&client.id);
        let now_ms = world.broker.now_ms();
        let shard = index % world.broker.shards();
        client.connect(&mut world.broker, &mut world.ledger, shard, returning());
        let socket = client.socket().expect("the client connects");
        world.broker.settle(&mut Random::new(7));
        let bytes = world.broker.take(socket, usize::MAX);
        let mut packets = client.decode_all(&bytes).into_iter();
        let connack = packets.next().expect("the broker sends CONNACK");
        let Packet::ConnAck(connack) = connack.as_packet() else { panic!("{connack:?}") };
        assert_eq!(connack.session_present, session.is_some(), "client {index}");
        let Some(mut session) = session else { continue };
        let mut seen: Vec<Sent> = packets.map(|packet| sent(&packet.as_packet())).collect();
        let mut expected = expected(&mut session, now_ms);
        if world.broker.spilled().is_some() {
            // Loading takes many turns. In each turn, QoS 2 messages wait for the log and QoS 1 messages do not.
            let waits = |sent: &Sent| !matches!(sent, Sent::Publish { qos: QoS::AtLeastOnce, .. });
            seen.sort_by_key(waits);
            expected.sort_by_key(waits);
        }
        // The first members that connect also receive the queued messages of their groups.
        seen.retain(|sent| expected.contains(sent) || !may_be_from_queue(sent));
        assert_eq!(seen, expected, "client {index}");
        if run == Run::First {
            check_subscriptions(world, index, &session);
        }
        check_unreleased_ids(world, index, &session);
    }
}

fn may_be_from_queue(sent: &Sent) -> bool {
    matches!(sent, Sent::Publish { dup: false, topic, .. } if topic.starts_with(SHARED_PREFIX))
}

fn sent(packet: &Packet<'_>) -> Sent {
    match packet {
        Packet::Publish(publish) => Sent::Publish {
            id: publish.packet_id().expect("an offline client receives no QoS 0"),
            dup: publish.dup(),
            retain: publish.retain,
            qos: publish.qos(),
            topic: publish.topic.expect("the client accepts no topic aliases").as_str().to_owned(),
            payload: name_of(publish.payload),
        },
        Packet::PubRel(release) => Sent::Release(release.packet_id),
        other => panic!("{other:?}"),
    }
}

/// The number of a message from its payload, and the payload's length.
fn name_of(payload: &[u8]) -> String {
    let number = payload.split(|byte| *byte == b':').next().unwrap_or_default();
    format!("{} ({} bytes)", String::from_utf8_lossy(number), payload.len())
}

/// The packets that a session must send when its client resumes it.
fn expected(session: &mut Session, now_ms: u64) -> Vec<Sent> {
    let mut expected = Vec::new();
    let publish = |id, dup, delivery: &PendingMessage| Sent::Publish {
        id,
        dup,
        retain: delivery.retain,
        qos: delivery.qos,
        topic: loaded(&delivery.message).topic().to_owned(),
        payload: name_of(loaded(&delivery.message).payload()),
    };
    if let Some(outbound) = session.outbound_mut() {
        outbound.rewind();
    }
    while let Some(resend) = session.outbound_mut().and_then(|outbound| outbound.resend()) {
        expected.push(match resend {
            Resend::Publish(id, delivery) => publish(id, true, delivery),
            Resend::Release(id) => Sent::Release(id),
        });
    }
    while let Some(delivery) = session.outbound().and_then(|outbound| outbound.front()).cloned() {
        if delivery.message.is_expired(now_ms) {
            session.apply(Change::Unqueued);
            continue;
        }
        let id = session.outbound().and_then(|outbound| outbound.next_packet_id()).expect("an identifier is free");
        session.apply(Change::StartedQueued);
        expected.push(publish(id, false, &delivery));
    }
    expected
}

/// Checks that all certain subscriptions exist, and no impossible ones.
fn check_subscriptions<M: Mode>(world: &World<M>, client: usize, session: &Session) {
    let Some(model) = world.clients[client].session.map(|number| &world.ledger.sessions[number]) else {
        return;
    };
    for (filter, record) in session.subscriptions().iter() {
        let held = model.subscriptions.iter().find(|held| held.filter == filter && held.possible_until.is_none());
        let held = held.unwrap_or_else(|| panic!("client {client} never subscribed to {filter:?}"));
        assert!(held.qos.contains(&record.options.qos), "{filter:?} has the impossible {:?}", record.options.qos);
    }
    let is_certain =
        |held: &&crate::ledger::Subscription| held.certain.last().is_some_and(|(_, until)| until.is_none());
    for held in model.subscriptions.iter().filter(is_certain) {
        assert!(session.subscriptions().get(&held.filter).is_some(), "client {client} has lost {:?}", held.filter);
    }
}

/// Checks that the broker has the same unreleased QoS 2 identifiers of the client.
///
/// For an unreleased identifier, it does not publish the message again, so PUBREC has no `NoMatchingSubscribers`. 3.1.1 has no reasons.
fn check_unreleased_ids<M: Mode>(world: &mut World<M>, client: usize, session: &Session) {
    let client = &mut world.clients[client];
    client.phase = Phase::Offline;
    if !client.is_v5() {
        return;
    }
    let socket = client.socket().expect("the client is connected");
    let ids: Vec<PacketId> = (1..=PACKET_IDS_MAX).filter_map(PacketId::new).collect();
    for packet_id in &ids {
        let probe = Publish {
            delivery: tautwire_protocol::Delivery::ExactlyOnce { packet_id: *packet_id, dup: true },
            retain: false,
            topic: TopicName::new("$nobody").ok(),
            properties: Properties::EMPTY,
            payload: b"",
        };
        client.send(&mut world.broker, &Packet::Publish(probe));
    }
    world.broker.settle(&mut Random::new(8));
    let bytes = world.broker.take(socket, usize::MAX);
    let received = client.decode_all(&bytes);
    assert_eq!(received.len(), ids.len(), "{received:?}");
    for (id, packet) in ids.into_iter().zip(received) {
        let Packet::PubRec(received) = packet.as_packet() else { panic!("{packet:?}") };
        assert_eq!(received.packet_id, id);
        let known = received.reason == PubRecReason::Success;
        let held = session.held().is_some_and(|held| held.contains(id));
        assert_eq!(known, held, "identifier {}", id.get());
    }
}
