//! A journal that is slow: what it is told is enough to rebuild all state, and nobody is told of anything before it is safe.

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
use crate::random_clients::{Named, seeds};
use crate::support::{Choices, Random};
use crate::world::{Plan, RETAINED, World, returning, settings};

/// A record that has been kept.
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
    /// Numbered, since shards write down in another order than they change.
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
    /// So many of them are safe.
    durable: usize,
    /// By shard: how many of its own that is.
    durable_of: BTreeMap<usize, u64>,
    /// Everything is safe as soon as it is written down.
    is_instant: bool,
    /// Frames that are complete wait with their shard.
    takes_no_frames: bool,
    state: Option<LogState>,
    /// The disk fails as soon as the next frame is there.
    fails_with_next_frame: bool,
    /// The disk fails as soon as the next record is there.
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

/// One log, written to by all shards, each of which counts its own frames, from 1.
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
        if log.takes_no_frames {
            return;
        }
        if log.fails_with_next_frame && !self.waiting.is_empty() {
            log.state = Some(LogState::Failed);
            return;
        }
        log.frames.append(&mut self.waiting);
        if log.is_instant {
            let all = log.frames.len();
            log.make_durable(all);
        }
    }

    /// One shard closes its frames as soon as it may, others at the end of a turn.
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

    /// The system has what has been posted.
    fn written(&self) -> LogPosition {
        LogPosition(self.ended - self.waiting.len() as u64)
    }

    fn is_lagging(&self) -> bool {
        let log = self.log.0.borrow();
        log.frames.len() - log.durable > BEHIND_FRAMES
    }

    fn state(&self) -> LogState {
        self.log.0.borrow().state.unwrap_or(LogState::Open)
    }
}

/// With so many frames that are not safe, the log takes no more.
const BEHIND_FRAMES: usize = 40;

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

    pub(crate) fn become_instant(&self) {
        let mut log = self.0.borrow_mut();
        let all = log.frames.len();
        log.make_durable(all);
        log.is_instant = true;
        log.takes_no_frames = false;
    }

    /// Has frames that are complete wait with their shards, or not any more.
    pub(crate) fn take_no_frames(&self, takes_none: bool) {
        self.0.borrow_mut().takes_no_frames = takes_none;
    }

    /// From now on the disk is full, or has failed.
    pub(crate) fn set_state(&self, state: LogState) {
        self.0.borrow_mut().state = Some(state);
    }

    /// The disk fails in the midst of the turn that writes down something next, and nobody is woken for it.
    pub(crate) fn fail_with_next_frame(&self) {
        self.0.borrow_mut().fails_with_next_frame = true;
    }

    /// The disk fails in the midst of the packet that brings about the next record.
    pub(crate) fn fail_with_next_record(&self) {
        self.0.borrow_mut().fails_with_next_record = true;
    }

    /// From now on what is written down is safe only when that is said.
    pub(crate) fn fall_behind(&self) {
        self.0.borrow_mut().is_instant = false;
    }

    /// Whether every record that `concerns` holds for is safe. It is told whose session a record is of.
    fn is_safe(&self, concerns: impl Fn(&str, &StoredRecord) -> bool) -> bool {
        let log = self.0.borrow();
        let client_id = |record: &StoredRecord| match record {
            StoredRecord::Opened(session, _) | StoredRecord::Changed(session, ..) => log.client_ids[session].as_str(),
            _ => "",
        };
        let unsafe_frames = &log.frames[log.durable..];
        unsafe_frames.iter().flat_map(|frame| &frame.records).all(|record| !concerns(client_id(record), record))
    }

    /// What has not become safe is lost.
    pub(crate) fn crash(&self) {
        let mut log = self.0.borrow_mut();
        let Log { frames, durable, durable_of, .. } = &mut *log;
        frames.truncate(*durable);
        // The shards of the next life count their frames from 1 again.
        durable_of.clear();
    }

    /// All state, from the records alone.
    pub(crate) fn replay(&self) -> Replay {
        let mut replay = Replay::default();
        for kept in self.0.borrow().frames.iter().flat_map(|frame| &frame.records) {
            replay.apply(&kept.record()).unwrap_or_else(|error| panic!("{error}"));
        }
        replay
    }
}

/// Sessions by Client Identifier, and retained messages by topic.
fn by_name(replay: Replay) -> (BTreeMap<String, Session>, BTreeMap<String, MessageId>) {
    let ReplayedState { sessions, retained, pending_forwards, .. } = replay.finish();
    assert_eq!(pending_forwards, [], "everything has arrived");
    let mut named = BTreeMap::new();
    for ReplayedSession { session, .. } in sessions {
        if is_queue(&session) {
            continue;
        }
        let client_id = session.client_id().to_owned();
        assert!(named.insert(client_id, session).is_none(), "a client has one session");
    }
    (named, retained.iter().map(|(topic, _, body)| (topic.to_owned(), body.id())).collect())
}

/// Whether a session is the queue of a shared subscription.
fn is_queue(session: &Session) -> bool {
    session.name().starts_with('\0')
}

/// Limits that let everything that waits go out at once, so that it can be compared with the replayed state.
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
fn acknowledgements_wait_until_what_they_promise_is_safe() {
    for seed in seeds() {
        let _named = Named(seed);
        live_with_slow_log(seed);
    }
}

/// The world of one seed, which panics where somebody is told of something too early.
pub(crate) fn live_with_slow_log(seed: u64) {
    let (mut world, journal) = world(seed, 1);
    let mut random = Random::new(seed ^ 0x5EED);
    for _ in 0..600 {
        world.step().unwrap_or_else(|wrong| panic!("{wrong}"));
        check_acknowledged(&mut world, &journal);
        if random.chance(20) {
            journal.make_durable(&mut random);
            world.broker.wake_all();
        }
    }
    journal.become_instant();
    world.broker.wake_all();
    world.quiesce().unwrap_or_else(|wrong| panic!("{wrong}"));
}

fn check_acknowledged(world: &mut World<SlowJournal>, journal: &SharedLog) {
    // The session of a member may be written down as a whole after it got a message.
    let is_fleeting = |client: &&Client| client.terms.as_ref().is_some_and(|terms| terms.expiry_interval_s == 0);
    let fleeting: BTreeSet<String> = world.clients.iter().filter(is_fleeting).map(|client| client.id.clone()).collect();
    for client in &mut world.clients {
        let lasts = client.terms.as_ref().is_some_and(|terms| terms.expiry_interval_s > 0);
        for acknowledged in std::mem::take(&mut client.acknowledged) {
            let own = |id: &str, record: &StoredRecord, is_meant: &dyn Fn(&Change) -> bool| matches!(record, StoredRecord::Changed(_, change, _) if *id == client.id && is_meant(change));
            let safe = match &acknowledged {
                Acknowledged::Message(number) => {
                    let publication = &world.ledger.publications[*number];
                    // Of others there may be records that have come since.
                    let once = !publication.retain && !publication.resent && !publication.topic.starts_with('$');
                    !once
                        || journal
                            .is_safe(|id, record| !fleeting.contains(id) && contains_payload(record, &publication.payload))
                }
                Acknowledged::Delivered(number) => {
                    let payload = &world.ledger.publications[*number].payload;
                    let starts = |change: &Change| match change {
                        Change::Started(delivery) => {
                            delivery.qos == QoS::ExactlyOnce && loaded(&delivery.message).payload() == *payload
                        }
                        _ => false,
                    };
                    journal.is_safe(|id, record| own(id, record, &starts))
                }
                Acknowledged::Connected => journal.is_safe(|id, record| {
                    let confirms = |change: &Change| matches!(change, Change::ExpiryInterval(_));
                    own(id, record, &confirms) || (id == client.id && matches!(record, StoredRecord::Opened(..)))
                }),
                Acknowledged::Received(packet_id) => {
                    journal.is_safe(|id, record| own(id, record, &|change| *change == Change::Received(*packet_id)))
                }
                Acknowledged::Release(packet_id) => {
                    journal.is_safe(|id, record| own(id, record, &|change| *change == Change::Released(*packet_id)))
                }
                Acknowledged::Subscribed(filters) => journal.is_safe(|id, record| {
                    own(id, record, &|change| matches!(change, Change::Subscribed(filter, _) if filters.iter().any(|held| **held == **filter)))
                }),
                Acknowledged::Unsubscribed(filters) => journal.is_safe(|id, record| {
                    own(id, record, &|change| matches!(change, Change::Unsubscribed(filter) if filters.iter().any(|held| **held == **filter)))
                }),
            };
            assert!(safe || !lasts, "client {} was told {acknowledged:?} too early", client.index);
        }
    }
}

/// What is written down is in memory then.
fn loaded(body: &Body) -> &Message {
    body.loaded().expect("it is in memory")
}

/// Whether a record holds a message with this payload.
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
fn replayed_records_give_the_state_that_the_broker_has() {
    for seed in seeds() {
        let _named = Named(seed);
        let (mut world, journal) = world(seed, 1 + seed as usize % 3);
        journal.become_instant();
        for _ in 0..600 {
            world.step().unwrap_or_else(|wrong| panic!("{wrong}"));
        }
        // Who is connecting learns which session it has; then everybody goes, and what is between shards arrives.
        world.broker.settle(&mut Random::new(seed));
        for client in &mut world.clients {
            client.read(&mut world.broker, &mut world.ledger, usize::MAX).unwrap_or_else(|wrong| panic!("{wrong}"));
        }
        world.broker.cut_all_but(&[]);
        world.broker.settle(&mut Random::new(seed));
        compare(&mut world, journal.replay(), Life::First);
    }
}

#[test]
fn a_broker_that_has_crashed_goes_on_with_what_was_safe() {
    crash_and_go_on(|_| {});
}

/// The same with messages that leave memory: those of windows and queues come back in the same order, with the same identifiers.
#[test]
fn a_broker_that_has_crashed_goes_on_with_what_leaves_memory() {
    crash_and_go_on(|world| {
        world.broker.connect_spill_store();
    });
}

fn crash_and_go_on(prepare: impl Fn(&mut World<SlowJournal>)) {
    for seed in seeds() {
        let _named = Named(seed);
        let (mut world, journal) = world(seed, 1 + seed as usize % 3);
        prepare(&mut world);
        let mut random = Random::new(seed ^ 0xC4A5);
        for _ in 0..600 {
            world.step().unwrap_or_else(|wrong| panic!("{wrong}"));
            if random.chance(10) {
                journal.make_durable(&mut random);
                world.broker.wake_all();
            }
        }
        for client in &mut world.clients {
            client.abandon(&world.broker, &mut world.ledger);
        }
        journal.crash();
        // The number of threads may be another one.
        world.broker.restart(1 + random.below(3), RETAINED, journal.replay(), |shard| journal.journal(shard));
        journal.become_instant();
        for ms in [TIMER_TICK_MS, 1_000, 10_000] {
            world.broker.advance(ms);
            world.broker.settle(&mut random);
            check_nothing_is_overdue(&world, journal.replay());
        }
        compare(&mut world, journal.replay(), Life::Second);
    }
}

/// Timers come up so much later at most.
pub(crate) const TIMER_TICK_MS: u64 = 250;

/// Wills and sessions come up when they are due, counted from when the client left, or from the crash.
pub(crate) fn check_nothing_is_overdue<M: Mode>(world: &World<M>, replay: Replay) {
    let sessions = replay.finish().sessions;
    let mut messages = 0;
    for ReplayedSession { session, disconnected_at_ms, .. } in sessions {
        messages += session.outbound().map_or(0, |outbound| outbound.messages());
        if is_queue(&session) {
            continue;
        }
        let away_ms = world.broker.now_ms() - disconnected_at_ms.expect("no client is connected");
        let is_due = |after_s: u32| away_ms >= u64::from(after_s) * 1000 + TIMER_TICK_MS;
        assert!(!is_due(session.expiry_interval_s()), "the session of {} has expired", session.client_id());
        assert!(!session.will().is_some_and(|will| is_due(will.delay_s)), "the will of {} is due", session.client_id());
    }
    assert_eq!(world.broker.totals().stored_messages, messages as u64);
}

/// Whether the broker has crashed. The model does not know what it has forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    First,
    Second,
}

/// What goes out when a client comes back.
#[derive(Debug, PartialEq, Eq)]
enum Sent {
    Publish { id: PacketId, dup: bool, retain: bool, qos: QoS, topic: String, payload: String },
    Release(PacketId),
}

pub(crate) fn compare<M: Mode>(world: &mut World<M>, replay: Replay, life: Life) {
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
        let connack = packets.next().expect("a CONNACK");
        let Packet::ConnAck(connack) = connack.as_packet() else { panic!("{connack:?}") };
        assert_eq!(connack.session_present, session.is_some(), "client {index}");
        let Some(mut session) = session else { continue };
        let mut seen: Vec<Sent> = packets.map(|packet| sent(&packet.as_packet())).collect();
        let mut expected = expected(&mut session, now_ms);
        if world.broker.spilled().is_some() {
            // They go out over many turns. Those of QoS 2 wait for the log in each, which others do not.
            let waits = |sent: &Sent| !matches!(sent, Sent::Publish { qos: QoS::AtLeastOnce, .. });
            seen.sort_by_key(waits);
            expected.sort_by_key(waits);
        }
        // The first members that come get what waits in the queues of their groups.
        seen.retain(|sent| expected.contains(sent) || !may_be_from_queue(sent));
        assert_eq!(seen, expected, "client {index}");
        if life == Life::First {
            check_subscriptions(world, index, &session);
        }
        check_held(world, index, &session);
    }
}

fn may_be_from_queue(sent: &Sent) -> bool {
    matches!(sent, Sent::Publish { dup: false, topic, .. } if topic.starts_with(SHARED_PREFIX))
}

fn sent(packet: &Packet<'_>) -> Sent {
    match packet {
        Packet::Publish(publish) => Sent::Publish {
            id: publish.packet_id().expect("no QoS 0 for who was away"),
            dup: publish.dup(),
            retain: publish.retain,
            qos: publish.qos(),
            topic: publish.topic.expect("no aliases are accepted").as_str().to_owned(),
            payload: name_of(publish.payload),
        },
        Packet::PubRel(release) => Sent::Release(release.packet_id),
        other => panic!("{other:?}"),
    }
}

/// The part of a payload that says which message it is, and its length.
fn name_of(payload: &[u8]) -> String {
    let number = payload.split(|byte| *byte == b':').next().unwrap_or_default();
    format!("{} ({} bytes)", String::from_utf8_lossy(number), payload.len())
}

/// What a session says that must be sent to its client when it comes back.
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
        let id = session.outbound().and_then(|outbound| outbound.next_packet_id()).expect("few are in flight");
        session.apply(Change::StartedQueued);
        expected.push(publish(id, false, &delivery));
    }
    expected
}

/// What is certain is there, and nothing is there that cannot be.
fn check_subscriptions<M: Mode>(world: &World<M>, client: usize, session: &Session) {
    let Some(incarnation) = world.clients[client].session.map(|number| &world.ledger.incarnations[number]) else {
        return;
    };
    for (filter, record) in session.subscriptions().iter() {
        let held = incarnation.subscriptions.iter().find(|held| held.filter == filter && held.possible_until.is_none());
        let held = held.unwrap_or_else(|| panic!("client {client} never asked for {filter:?}"));
        assert!(held.qos.contains(&record.options.qos), "{filter:?} at {:?}", record.options.qos);
    }
    let certain = |held: &&crate::ledger::Subscription| held.certain.last().is_some_and(|(_, until)| until.is_none());
    for held in incarnation.subscriptions.iter().filter(certain) {
        assert!(session.subscriptions().get(&held.filter).is_some(), "client {client} has {:?}", held.filter);
    }
}

/// The broker holds the same QoS 2 identifiers of the client: one that it holds it does not publish again, so it does not
/// notice that nobody wants the message. Only 5.0 tells.
fn check_held<M: Mode>(world: &mut World<M>, client: usize, session: &Session) {
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
