//! From the frames of a log to sessions and retained messages.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use tautwire_journal::SessionId;
use tautwire_journal::record::{PendingRecord, Record, RecordError, Records};
use tautwire_memory::MemoryLedger;
use tautwire_message::{Body, Message, MessageId};
use tautwire_session::{
    Change, PendingMessage, Receivers, Record as Kept, Replay, ReplayError, RetainedChange, SessionNumber, ShardNumber,
    ShardPlacement, StoredWill, SubscriptionIds, SubscriptionRecord,
};

use crate::mutant::{Mutant, is};
use crate::salvage::SalvageState;
use crate::spill_queue::{SpillQueue, SpillStore};

/// The store is told what is in memory whenever so much has been read, and an eighth of what was read before: looking takes longer the more
/// there is.
const REPORT_INTERVAL_BYTES: u64 = 16 << 20;

/// Why the frames of a log cannot be made sense of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecoveryError {
    /// The body of a frame is not records.
    Record(RecordError),
    /// The records do not belong together.
    Replay(ReplayError),
    /// A record names a message that is not in the log before it.
    MessageMissing(MessageId),
    /// A message that was put on disk to leave memory cannot be read back.
    UnreadableMessage(MessageId),
}

impl RecoveryError {
    /// A code that stays the same.
    pub fn code(&self) -> &'static str {
        match self {
            RecoveryError::Record(error) => error.fault.code(),
            RecoveryError::Replay(error) => error.code(),
            RecoveryError::MessageMissing(_) => "recovery-message-missing",
            RecoveryError::UnreadableMessage(_) => "recovery-message-unreadable",
        }
    }
}

impl fmt::Display for RecoveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecoveryError::Record(error) => error.fmt(f),
            RecoveryError::Replay(error) => error.fmt(f),
            RecoveryError::MessageMissing(id) => {
                write!(f, "a record names message {id}, which is not in the log before it; part of the log is missing")
            }
            RecoveryError::UnreadableMessage(id) => {
                write!(
                    f,
                    "message {id} cannot be read back from the folder for cold messages; look at the disk, and start again"
                )
            }
        }
    }
}

impl std::error::Error for RecoveryError {}

impl From<ReplayError> for RecoveryError {
    fn from(error: ReplayError) -> Self {
        RecoveryError::Replay(error)
    }
}

/// What belongs to messages, whose identities no client chooses.
pub(crate) type ById<T> = HashMap<MessageId, T, foldhash::fast::RandomState>;

/// Takes the frames of a snapshot, if there is one, and then those of the log behind it, in order.
#[derive(Debug)]
pub struct Recovery<'s> {
    pub(crate) replay: Replay,
    /// Those that the frame, or the snapshot so far, has brought.
    messages: ById<Body>,
    /// Those of them that are retained, in a snapshot.
    retained: Vec<MessageId>,
    spill_queue: SpillQueue<'s>,
    /// Filters of shared subscriptions that messages name, each once.
    shares: HashMap<Box<str>, Arc<str>>,
    ledger: Option<Arc<MemoryLedger>>,
    /// The last moment that a record names.
    last_ms: u64,
    read_bytes: u64,
    /// With so much read, the store is told again what is in memory.
    next_report_bytes: u64,
    /// What is in memory for it elsewhere.
    pub(crate) other_bytes: usize,
    /// Where records that do not fit are passed over, what they were.
    pub(crate) salvage: Option<SalvageState>,
}

impl<'s> Recovery<'s> {
    /// Nothing yet. Messages are entered in `ledger`, if one is given; only the thread of that ledger's shard may go on then,
    /// or any one before there are threads.
    pub fn new(ledger: Option<Arc<MemoryLedger>>) -> Recovery<'s> {
        let (replay, messages, shares) = (Replay::default(), ById::default(), HashMap::new());
        let (retained, spill_queue) = (Vec::new(), SpillQueue::default());
        let (read_bytes, next_report_bytes, other_bytes) = (0, 0, 0);
        Recovery {
            replay,
            messages,
            retained,
            spill_queue,
            shares,
            ledger,
            last_ms: 0,
            read_bytes,
            next_report_bytes,
            other_bytes,
            salvage: None,
        }
    }

    /// Messages in queues and retained ones go to `store` when it wants them.
    #[must_use]
    pub fn spill_into(mut self, store: &'s mut dyn SpillStore) -> Recovery<'s> {
        self.spill_queue = SpillQueue::into(store);
        self
    }

    /// What was taken so far was from a snapshot that is not whole.
    pub(crate) fn clear(&mut self) {
        self.replay = Replay::default();
        self.messages.clear();
        self.retained.clear();
        self.spill_queue.clear();
        self.last_ms = 0;
        self.next_report_bytes = 0;
        if let Some(salvage) = &mut self.salvage {
            *salvage = SalvageState::default();
        }
    }

    /// The last moment at which a client came or went, in milliseconds of Unix time; 0 for none.
    pub fn last_ms(&self) -> u64 {
        self.last_ms
    }

    /// Takes the body of the next frame of a snapshot. Its records may name messages of all its frames so far.
    ///
    /// # Errors
    /// As for [`Recovery::frame`].
    pub fn snapshot_frame(&mut self, body: &[u8]) -> Result<(), RecoveryError> {
        let taken = self.records(body);
        // They may be most of all there is, and a snapshot that we write names none of them in a later frame.
        for id in self.retained.drain(..) {
            self.messages.remove(&id);
        }
        taken
    }

    /// Takes the body of the next frame of a log. Its records may name messages that it brings itself, and those that are on their
    /// way between shards.
    ///
    /// # Errors
    /// See [`RecoveryError`]. Records before the one that is wrong have been taken.
    pub fn frame(&mut self, body: &[u8]) -> Result<(), RecoveryError> {
        self.begin_frame();
        self.records(body)
    }

    /// A frame of the log names no messages of those before.
    pub(crate) fn begin_frame(&mut self) {
        self.messages.clear();
        self.retained.clear();
    }

    fn records(&mut self, body: &[u8]) -> Result<(), RecoveryError> {
        for record in Records::new(body) {
            if self.salvage.is_some() {
                self.apply_or_skip(record);
                continue;
            }
            self.record(&record.map_err(RecoveryError::Record)?)?;
        }
        self.end_frame(body.len());
        Ok(())
    }

    /// All records of a frame of so many bytes have been taken.
    pub(crate) fn end_frame(&mut self, bytes: usize) {
        if self.spill_queue.is_full() {
            self.spill();
        }
        self.read_bytes += bytes as u64;
        if self.read_bytes >= self.next_report_bytes {
            self.next_report_bytes = self.read_bytes + REPORT_INTERVAL_BYTES.max(self.read_bytes / 8);
            self.report_held_bytes();
        }
    }

    fn report_held_bytes(&mut self) {
        let by_id_bytes = self.messages.capacity() * size_of::<(MessageId, Body)>()
            + self.retained.capacity() * size_of::<MessageId>();
        self.spill_queue.set_held_bytes(self.replay.held_bytes() + by_id_bytes + self.other_bytes);
    }

    /// Messages that later records may name.
    #[cfg(test)]
    pub(crate) fn kept_by_id(&self) -> usize {
        self.messages.len()
    }

    /// All that the frames have led to. Messages that nobody holds are forgotten.
    pub fn finish(mut self) -> Replay {
        self.spill();
        self.replay
    }

    fn spill(&mut self) {
        let Recovery { replay, messages, spill_queue, .. } = self;
        spill_queue.write(replay, |id, cold| {
            if let Some(body) = messages.get_mut(&id) {
                *body = Body::Spilled(cold.clone());
            }
        });
    }

    pub(crate) fn record(&mut self, record: &Record<'_>) -> Result<(), RecoveryError> {
        match *record {
            Record::Message(message) => {
                self.messages.entry(message.id).or_insert_with(|| kept(&message, self.ledger.as_ref()).into());
            }
            Record::Opened { session, at_ms, client_id } => {
                self.last_ms = self.last_ms.max(at_ms);
                self.replay.apply(&Kept::Opened { session: number(session), client_id, at_ms })?;
            }
            Record::Ended { session } => self.replay.apply(&Kept::Ended(number(session)))?,
            Record::Connected { session, at_ms } => {
                self.last_ms = self.last_ms.max(at_ms);
                self.replay.apply(&Kept::Returned { session: number(session), at_ms })?;
            }
            Record::Disconnected { session, at_ms } => {
                self.last_ms = self.last_ms.max(at_ms);
                self.replay.apply(&Kept::Left { session: number(session), at_ms })?;
            }
            Record::ExpiryInterval { session, seconds } => self.change(session, &Change::ExpiryInterval(seconds))?,
            Record::Will { session, delay_s, message_expiry_s, message } => {
                let message = kept(&message, self.ledger.as_ref());
                let will = StoredWill { message, delay_s, message_expiry_s };
                self.change(session, &Change::Will(Some(Box::new(will))))?;
            }
            Record::WillGone { session } => self.change(session, &Change::Will(None))?,
            Record::Subscribed { session, options, identifier, format, filter } => {
                let made = SubscriptionRecord { options, identifier, format };
                self.change(session, &Change::Subscribed(filter.into(), made))?;
            }
            Record::Unsubscribed { session, filter } => self.change(session, &Change::Unsubscribed(filter.into()))?,
            Record::Queued { session, delivery } => {
                let pending = self.pending(&delivery)?;
                let message = pending.message.loaded().cloned();
                self.change(session, &Change::Queued(pending))?;
                self.spill_queue.add_queued(message.as_ref(), number(session), &self.replay);
            }
            Record::Unqueued { session } => self.change(session, &Change::Unqueued)?,
            Record::Started { session, packet_id, delivery } => {
                let change = Change::Started(self.pending(&delivery)?);
                let (session, packet_id) = (number(session), Some(packet_id));
                self.replay.apply(&Kept::Changed { session, change: &change, packet_id })?;
            }
            Record::StartedQueued { session, packet_id } => {
                let (session, packet_id) = (number(session), Some(packet_id));
                self.replay.apply(&Kept::Changed { session, change: &Change::StartedQueued, packet_id })?;
            }
            Record::Received { session, packet_id } => self.change(session, &Change::Received(packet_id))?,
            Record::Completed { session, packet_id } => self.change(session, &Change::Completed(packet_id))?,
            Record::Taken { .. } if is(Mutant::ForgetsTakenIdentifiers) => {}
            Record::Taken { session, packet_id } => self.change(session, &Change::Taken(packet_id))?,
            Record::Released { session, packet_id } => self.change(session, &Change::Released(packet_id))?,
            Record::NextPacketId { session, packet_id } => self.change(session, &Change::NextPacketId(packet_id))?,
            Record::AwaitingPubComp { session, packet_id } => {
                let (session, change) = (number(session), Change::AwaitingPubComp(packet_id));
                self.replay.apply(&Kept::Changed { session, change: &change, packet_id: Some(packet_id) })?;
            }
            Record::Counted { last_session, last_sequence } => {
                self.replay.apply(&Kept::Counted { last_session: SessionNumber(last_session), last_sequence })?;
            }
            Record::RetainedSet { sequence, message } => {
                // Whose topic is needed.
                let message = match self.message(message)? {
                    Body::Loaded(message) => message,
                    Body::Spilled(cold) => {
                        self.spill_queue.read(&cold).ok_or(RecoveryError::UnreadableMessage(message))?
                    }
                };
                self.retained.push(message.id());
                let change = RetainedChange::Set(message.clone());
                self.replay.apply(&Kept::Retained { sequence, change: &change })?;
                self.spill_queue.add_retained(&message, &self.replay);
            }
            Record::RetainedCleared { sequence, topic } => {
                let change = RetainedChange::Cleared(topic.into());
                self.replay.apply(&Kept::Retained { sequence, change: &change })?;
            }
            Record::RunStarted { shards, seed } => {
                self.replay.apply(&Kept::RunStarted(ShardPlacement { shards, seed }))?
            }
            Record::Forwarded { from, to, sequence, message, member } => {
                let message = match self.message(message)? {
                    Body::Loaded(message) => message,
                    Body::Spilled(cold) => {
                        self.spill_queue.read(&cold).ok_or(RecoveryError::UnreadableMessage(message))?
                    }
                };
                let receivers = member
                    .map_or(Receivers::Subscribers, |member| Receivers::Member(number(member.session), member.share));
                let (from, to, message) = (shard(from), shard(to), &message);
                self.replay.apply(&Kept::Forwarded { from, to, sequence, message, receivers })?;
            }
            Record::ForwardAccepted { from, to, sequence } => {
                self.replay.apply(&Kept::ForwardAccepted { from: shard(from), to: shard(to), sequence })?;
            }
        }
        Ok(())
    }

    fn change(&mut self, session: SessionId, change: &Change) -> Result<(), ReplayError> {
        self.replay.apply(&Kept::Changed { session: number(session), change, packet_id: None })
    }

    fn message(&self, id: MessageId) -> Result<Body, RecoveryError> {
        let handed = || self.replay.forwarded_message(id).map(|message| message.clone().into());
        let retained = || self.replay.retained().find(|body| body.id() == id).cloned();
        self.messages.get(&id).cloned().or_else(handed).or_else(retained).ok_or(RecoveryError::MessageMissing(id))
    }

    fn pending(&mut self, delivery: &PendingRecord<'_>) -> Result<PendingMessage, RecoveryError> {
        let ids: Vec<_> = delivery.subscription_ids.iter().collect();
        let share = delivery
            .share
            .map(|share| self.shares.entry(share.into()).or_insert_with_key(|share| Arc::from(&**share)).clone());
        Ok(PendingMessage {
            message: self.message(delivery.message)?,
            qos: delivery.qos,
            retain: delivery.retain,
            subscription_ids: SubscriptionIds::from(&ids[..]),
            share,
        })
    }
}

fn kept(message: &tautwire_message::MessageRef<'_>, ledger: Option<&Arc<MemoryLedger>>) -> Message {
    match ledger {
        Some(ledger) => message.to_message_in(ledger),
        None => message.to_message(),
    }
}

fn number(session: SessionId) -> SessionNumber {
    SessionNumber(session.get())
}

fn shard(number: tautwire_journal::ShardNumber) -> ShardNumber {
    ShardNumber(number.0)
}
