//! Arbitrary records in any order: they produce a state, or are rejected, or are skipped if that is requested. The state can be written and
//! read again, and a broker starts with it, on any number of threads, and writes only records that fit it.

#![no_main]

#[allow(dead_code, unused_imports, reason = "tests use more of it")]
#[path = "../../engine/tests/support/mod.rs"]
mod support;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use tautwire_durable::{FrameWriter, Recovery};
use tautwire_engine::Settings;
use tautwire_message::{Format, Message, MessageId, MessageRef};
use tautwire_protocol::{PacketId, QoS, SubscriptionId, SubscriptionOptions};
use tautwire_router::RetainedLimits;
use tautwire_session::{
    Change, Journal, LogPosition, NoClusterBox, PendingMessage, Receivers, Record, Replay, RetainedChange,
    SessionNumber, ShardNumber, ShardPlacement, StoredWill, SubscriptionIds, SubscriptionRecord,
};

use support::{NoDelays, SimulatedBroker};

const RETAINED: RetainedLimits = RetainedLimits { messages: 1_000, bytes: 1 << 20 };
const FRAMES_MAX: usize = 300;
const CLIENTS: [&str; 3] = ["a", "b", "c"];
const TOPICS: [&str; 4] = ["t", "t/u", "$q", "x"];
const FILTERS: [&str; 6] = ["t", "t/#", "#", "$share/g/#", "$share/g/t", "not/#/one"];
const TIMES_MS: [u64; 4] = [0, 1_699_999_000_000, 1_700_000_500_000, u64::MAX];
const SECONDS: [u32; 4] = [0, 60, 4_000, u32::MAX];

fuzz_target!(|input: &[u8]| {
    let mut play = Play(input);
    let how = play.byte();
    let mut recovery = Recovery::new(None);
    if how & 3 != 0 {
        recovery.skip_inconsistent_records();
    }
    for _ in 0..FRAMES_MAX {
        if play.0.is_empty() {
            break;
        }
        let body = if how & 4 == 0 { play.frame() } else { play.bytes() };
        let taken = if how & 8 == 0 { recovery.frame(&body) } else { recovery.snapshot_frame(&body) };
        if let Err(error) = taken {
            assert!(how & 3 == 0, "nothing is rejected if it is skipped: {error}");
            assert!(!error.code().is_empty() && !error.to_string().is_empty());
            return;
        }
    }
    let state = recovery.finish();
    let written = describe(&state);
    let mut again = Recovery::new(None);
    again.snapshot_frame(&written).unwrap_or_else(|error| panic!("a state can be read again: {error}"));
    let again = again.finish();
    assert!(describe(&again) == written, "a written state differs when it is read");
    begin(state, again, 1 + usize::from(how >> 4) % 3);
});

fn describe(state: &Replay) -> Vec<u8> {
    let mut frame = FrameWriter::default();
    state.describe(|_| None, |record| frame.add(record)).expect("everything is in memory");
    frame.take(Vec::new())
}

/// Starts a broker with the state, lets some time pass, and ends what has expired.
fn begin(state: Replay, model: Replay, shards: usize) {
    let settings = Settings { sys_interval_s: 0, max_session_expiry_s: u32::MAX, ..Settings::default() };
    let log = Rc::new(RefCell::new(Model { replay: Replay::default(), last_session: model.last_session().0 }));
    let journal = |_| ModelJournal { log: log.clone(), frames: 0, has_begun: false };
    let mut broker = SimulatedBroker::new(shards, settings, RETAINED, journal);
    log.borrow_mut().replay = model;
    broker.restart(shards, RETAINED, state, journal);
    for ms in [0, 1_000, 100_000, 5_000_000] {
        broker.advance(ms);
        broker.settle(&mut NoDelays);
        check(&broker, &log.borrow().replay);
    }
}

/// Checks that the broker has the state that it has written.
fn check(broker: &SimulatedBroker<ModelJournal>, replay: &Replay) {
    let totals = broker.totals();
    let (mut messages, mut subscriptions) = (0, 0);
    for replayed in replay.sessions() {
        let session = &replayed.session;
        assert!(session.expiry_interval_s() > 0, "session {} has ended", replayed.number.0);
        messages += session.outbound().map_or(0, |outbound| outbound.messages());
        subscriptions += session.subscriptions().len();
    }
    assert_eq!(totals.sessions, replay.sessions().count() as u64);
    assert_eq!(totals.stored_messages, messages as u64);
    // Invalid filters are skipped.
    assert!(totals.subscriptions <= subscriptions as u64, "{} of {subscriptions}", totals.subscriptions);
}

/// The state that results from the log of all shards.
struct Model {
    replay: Replay,
    last_session: u64,
}

/// A log that is always durable.
struct ModelJournal {
    log: Rc<RefCell<Model>>,
    frames: u64,
    has_begun: bool,
}

impl Journal for ModelJournal {
    type ClusterBox<T: Send> = NoClusterBox<T>;

    const PERSISTENT: bool = true;

    fn next_session(&mut self) -> SessionNumber {
        let mut log = self.log.borrow_mut();
        log.last_session = log.last_session.checked_add(1).expect("there are many");
        SessionNumber(log.last_session)
    }

    fn record(&mut self, record: Record<'_>) -> LogPosition {
        self.has_begun = true;
        let taken = self.log.borrow_mut().replay.apply(&record);
        taken.unwrap_or_else(|error| panic!("the broker has written a record that does not fit: {error}: {record:?}"));
        LogPosition(self.frames + 1)
    }

    fn mark_forwarded(&mut self, _: MessageId) {}

    fn end_frame(&mut self) {
        self.frames += u64::from(std::mem::take(&mut self.has_begun));
    }

    fn has_submitted_all(&self) -> bool {
        true
    }

    fn durable(&self) -> LogPosition {
        LogPosition(self.frames)
    }

    fn is_lagging(&self) -> bool {
        false
    }
}

/// The rest of an input, read as records.
struct Play<'a>(&'a [u8]);

impl Play<'_> {
    fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *byte
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[usize::from(self.byte()) % items.len()]
    }

    /// Raw bytes of the input.
    fn bytes(&mut self) -> Vec<u8> {
        let (bytes, rest) = self.0.split_at(usize::from(self.byte()).min(self.0.len()));
        self.0 = rest;
        bytes.to_vec()
    }

    /// The body of a frame with one to four records.
    fn frame(&mut self) -> Vec<u8> {
        let mut frame = FrameWriter::default();
        for _ in 0..=self.byte() % 4 {
            self.record(&mut frame);
        }
        frame.take(Vec::new())
    }

    fn record(&mut self, frame: &mut FrameWriter) {
        let kind = self.byte();
        let session = SessionNumber(1 + u64::from(self.byte() % 5));
        let at_ms = self.pick(&TIMES_MS);
        match kind % 24 {
            0 | 1 => {
                frame.add(&Record::Opened { session, client_id: self.pick(&CLIENTS), at_ms });
                let change = Change::ExpiryInterval(self.pick(&SECONDS));
                frame.add(&Record::Changed { session, change: &change, packet_id: None });
            }
            2 => frame.add(&Record::Opened { session, client_id: self.pick(&CLIENTS), at_ms }),
            3 => frame.add(&Record::Returned { session, at_ms }),
            4 => frame.add(&Record::Left { session, at_ms }),
            5 => frame.add(&Record::Ended(session)),
            6 => {
                let last_sequence = u64::from(self.byte());
                frame.add(&Record::Counted { last_session: SessionNumber(last_sequence), last_sequence });
            }
            7 => {
                let shards = u16::from(1 + self.byte() % 4);
                frame.add(&Record::RunStarted(ShardPlacement { shards, seed: u64::from(self.byte()) }));
            }
            8 | 9 => {
                let (from, to) = (self.shard(), self.shard());
                let (sequence, message) = (u64::from(self.byte()), self.message());
                let share = self.pick(&FILTERS);
                let receivers = if kind % 24 == 8 { Receivers::Subscribers } else { Receivers::Member(session, share) };
                frame.add(&Record::Forwarded { from, to, sequence, message: &message, receivers });
            }
            10 => {
                let (from, to) = (self.shard(), self.shard());
                frame.add(&Record::ForwardAccepted { from, to, sequence: u64::from(self.byte()) });
            }
            11 => {
                let change = match self.byte() {
                    0..100 => RetainedChange::Cleared(self.pick(&TOPICS).into()),
                    _ => RetainedChange::Set(self.message()),
                };
                frame.add(&Record::Retained { sequence: u64::from(self.byte()), change: &change });
            }
            _ => {
                let (change, packet_id) = self.change(kind);
                frame.add(&Record::Changed { session, change: &change, packet_id });
            }
        }
    }

    fn change(&mut self, kind: u8) -> (Change, Option<PacketId>) {
        let id = self.packet_id();
        let change = match kind % 24 {
            12 => Change::ExpiryInterval(self.pick(&SECONDS)),
            13 => Change::Will((self.byte() & 1 == 0).then(|| {
                let message_expiry_s = Some(self.pick(&SECONDS)).filter(|seconds| *seconds > 0);
                Box::new(StoredWill { message: self.message(), delay_s: self.pick(&SECONDS), message_expiry_s })
            })),
            14 => {
                let options = SubscriptionOptions::with_qos(self.qos());
                let identifier = SubscriptionId::new(self.byte().into());
                let format = self.pick(&[None, None, Some(Format::Json)]);
                Change::Subscribed(self.pick(&FILTERS).into(), SubscriptionRecord { options, identifier, format })
            }
            15 => Change::Unsubscribed(self.pick(&FILTERS).into()),
            16 | 17 => Change::Queued(self.delivery()),
            18 => Change::Unqueued,
            19 => return (Change::Started(self.delivery()), Some(id)),
            20 => return (Change::StartedQueued, Some(id)),
            21 => self.pick(&[Change::Received, Change::Completed, Change::Completed])(id),
            22 => self.pick(&[Change::Taken, Change::Released])(id),
            _ if self.byte() & 1 == 0 => Change::NextPacketId(id),
            _ => Change::AwaitingPubComp(id),
        };
        (change, None)
    }

    fn shard(&mut self) -> ShardNumber {
        ShardNumber(u16::from(self.byte() % 4))
    }

    fn qos(&mut self) -> QoS {
        self.pick(&[QoS::AtLeastOnce, QoS::ExactlyOnce, QoS::AtMostOnce])
    }

    /// Mostly one of the first, which are the assigned ones.
    fn packet_id(&mut self) -> PacketId {
        let id = match self.byte() {
            255 => 65_535,
            low => u16::from(low % 8) + 1,
        };
        PacketId::new(id).unwrap_or_else(|| unreachable!("above zero"))
    }

    /// The same number gives the same message.
    fn message(&mut self) -> Message {
        let number = self.byte() % 8;
        let payload = vec![number; usize::from(number) * 40];
        MessageRef {
            id: MessageId { run: 7, number: number.into() },
            topic: TOPICS[usize::from(number) % TOPICS.len()],
            properties: &[],
            payload: &payload,
            qos: if number & 1 == 0 { QoS::AtLeastOnce } else { QoS::ExactlyOnce },
            retain: number & 2 != 0,
            expires_at_ms: (number == 5).then_some(1_700_000_050_000),
        }
        .to_message()
    }

    fn delivery(&mut self) -> PendingMessage {
        let message = self.message();
        let share = (self.byte() & 1 != 0).then(|| Arc::from(self.pick(&FILTERS[3..5])));
        let qos = self.pick(&[QoS::AtLeastOnce, QoS::ExactlyOnce]);
        let subscription_ids = SubscriptionIds::from(SubscriptionId::new(self.byte().into()).as_slice());
        PendingMessage { message: message.into(), qos, retain: false, subscription_ids, share }
    }
}
