//! Restores sessions and retained messages from the frames of a log.

use std::collections::HashMap;
use std::sync::Arc;

use tautwire_journal::SessionId;
use tautwire_journal::record::{PendingRecord, Record, Records};
use tautwire_memory::MemoryLedger;
use tautwire_message::{Body, Message, MessageId};
use tautwire_protocol::PacketId;
use tautwire_session::{
    Change, PendingMessage, Receivers, Record as SessionRecord, Replay, ReplayError, RetainedChange, SessionNumber,
    ShardNumber, ShardPlacement, StoredWill, SubscriptionIds, SubscriptionRecord,
};

use crate::error::RecoveryError;
use crate::mutant::{Mutant, is};
use crate::skipped_records::SalvageState;
use crate::spill_queue::{ById, SpillQueue, SpillStore};

/// The store is informed of the memory in use each time this much was read, plus an eighth of what was read before, because determining it
/// takes longer as the state grows.
const REPORT_INTERVAL_BYTES: u64 = 16 << 20;

/// Processes the frames of a snapshot, if there is one, and then those of the log after it, in order.
#[derive(Debug)]
pub struct Recovery<'s> {
    pub(crate) replay: Replay,
    /// The messages of the current frame, or of the snapshot so far.
    messages: ById<Body>,
    /// The identities of the retained ones, in a snapshot.
    retained: Vec<MessageId>,
    spill_queue: SpillQueue<'s>,
    /// Filters of shared subscriptions that messages name, deduplicated.
    shares: HashMap<Box<str>, Arc<str>>,
    ledger: Option<Arc<MemoryLedger>>,
    /// The latest time in a record.
    last_ms: u64,
    read_bytes: u64,
    /// The number of bytes read at which memory use is reported to the store again.
    next_report_bytes: u64,
    /// Memory that the recovery uses elsewhere, in bytes.
    pub(crate) other_bytes: usize,
    /// The skipped records, if inconsistent records are skipped.
    pub(crate) salvage: Option<SalvageState>,
}

impl<'s> Recovery<'s> {
    /// Creates an empty recovery. Messages are charged to `ledger`, if given; then only the thread of that ledger's shard may use the
    /// recovery, or any thread before shards run.
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

    /// Spills messages in queues and retained messages to `store` when memory is short.
    #[must_use]
    pub fn spill_into(mut self, store: &'s mut dyn SpillStore) -> Recovery<'s> {
        self.spill_queue = SpillQueue::into(store);
        self
    }

    /// Discards everything, because it came from a damaged snapshot.
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

    /// Returns the last time at which a client connected or disconnected, in milliseconds of Unix time; 0 for never.
    pub fn last_ms(&self) -> u64 {
        self.last_ms
    }

    /// Processes the body of the next frame of a snapshot. Its records may name messages of all its frames so far.
    ///
    /// # Errors
    /// As for [`Recovery::frame`].
    pub fn snapshot_frame(&mut self, body: &[u8]) -> Result<(), RecoveryError> {
        let taken = self.records(body);
        // Retained messages may be the largest part of the state, and our snapshots do not name them in a later frame.
        for id in self.retained.drain(..) {
            self.messages.remove(&id);
        }
        taken
    }

    /// Processes the body of the next frame of a log. Its records may name messages of the same frame, and messages that are being
    /// forwarded between shards.
    ///
    /// # Errors
    /// See [`RecoveryError`]. Records before the invalid one were applied.
    pub fn frame(&mut self, body: &[u8]) -> Result<(), RecoveryError> {
        self.begin_frame();
        self.records(body)
    }

    /// Drops the messages of earlier frames, which a frame of the log does not name.
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

    /// Ends a frame of this size, all of whose records were applied.
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

    /// Returns the number of messages that later records may name.
    #[cfg(test)]
    pub(crate) fn message_count(&self) -> usize {
        self.messages.len()
    }

    /// Returns the resulting state. Messages that nothing holds are dropped.
    pub fn finish(mut self) -> Replay {
        self.spill();
        self.replay
    }

    fn spill(&mut self) {
        let Recovery { replay, messages, spill_queue, .. } = self;
        spill_queue.write(replay, |id, spilled| {
            if let Some(body) = messages.get_mut(&id) {
                *body = Body::Spilled(spilled.clone());
            }
        });
    }

    pub(crate) fn record(&mut self, record: &Record<'_>) -> Result<(), RecoveryError> {
        match *record {
            Record::Message(message) => {
                self.messages.entry(message.id).or_insert_with(|| to_message(&message, self.ledger.as_ref()).into());
            }
            Record::Opened { session, at_ms, client_id } => {
                self.apply_at(at_ms, &SessionRecord::Opened { session: number(session), client_id, at_ms })?;
            }
            Record::Ended { session } => self.replay.apply(&SessionRecord::Ended(number(session)))?,
            Record::Connected { session, at_ms } => {
                self.apply_at(at_ms, &SessionRecord::Returned { session: number(session), at_ms })?;
            }
            Record::Disconnected { session, at_ms } => {
                self.apply_at(at_ms, &SessionRecord::Left { session: number(session), at_ms })?;
            }
            Record::ExpiryInterval { session, seconds } => self.change(session, &Change::ExpiryInterval(seconds))?,
            Record::Will { session, delay_s, message_expiry_s, message } => {
                let message = to_message(&message, self.ledger.as_ref());
                let will = StoredWill { message, delay_s, message_expiry_s };
                self.change(session, &Change::Will(Some(Box::new(will))))?;
            }
            Record::WillGone { session } => self.change(session, &Change::Will(None))?,
            Record::Subscribed { session, options, identifier, format, filter } => {
                let made = SubscriptionRecord { options, identifier, format };
                self.change(session, &Change::Subscribed(filter.into(), made))?;
            }
            Record::Unsubscribed { session, filter } => self.change(session, &Change::Unsubscribed(filter.into()))?,
            Record::Queued { session, delivery } => self.queue(session, &delivery)?,
            Record::Unqueued { session } => self.change(session, &Change::Unqueued)?,
            Record::Started { session, packet_id, delivery } => {
                let change = Change::Started(self.pending(&delivery)?);
                self.change_with(session, packet_id, &change)?;
            }
            Record::StartedQueued { session, packet_id } => {
                self.change_with(session, packet_id, &Change::StartedQueued)?;
            }
            Record::Received { session, packet_id } => self.change(session, &Change::Received(packet_id))?,
            Record::Completed { session, packet_id } => self.change(session, &Change::Completed(packet_id))?,
            Record::Taken { .. } if is(Mutant::OmitsReceivedPacketIds) => {}
            Record::Taken { session, packet_id } => self.change(session, &Change::Taken(packet_id))?,
            Record::Released { session, packet_id } => self.change(session, &Change::Released(packet_id))?,
            Record::NextPacketId { session, packet_id } => self.change(session, &Change::NextPacketId(packet_id))?,
            Record::AwaitingPubComp { session, packet_id } => {
                self.change_with(session, packet_id, &Change::AwaitingPubComp(packet_id))?;
            }
            Record::Counted { last_session, last_sequence } => {
                self.replay
                    .apply(&SessionRecord::Counted { last_session: SessionNumber(last_session), last_sequence })?;
            }
            Record::RetainedSet { sequence, message } => self.retain(sequence, message)?,
            Record::RetainedCleared { sequence, topic } => {
                let change = RetainedChange::Cleared(topic.into());
                self.replay.apply(&SessionRecord::Retained { sequence, change: &change })?;
            }
            Record::RunStarted { shards, seed } => {
                self.replay.apply(&SessionRecord::RunStarted(ShardPlacement { shards, seed }))?
            }
            Record::Forwarded { from, to, sequence, message, member } => {
                let message = &self.loaded_message(message)?;
                let receivers = member
                    .map_or(Receivers::Subscribers, |member| Receivers::Member(number(member.session), member.share));
                let (from, to) = (shard(from), shard(to));
                self.replay.apply(&SessionRecord::Forwarded { from, to, sequence, message, receivers })?;
            }
            Record::ForwardAccepted { from, to, sequence } => {
                self.replay.apply(&SessionRecord::ForwardAccepted { from: shard(from), to: shard(to), sequence })?;
            }
        }
        Ok(())
    }

    /// Applies a record of something that happened at `at_ms`.
    fn apply_at(&mut self, at_ms: u64, record: &SessionRecord<'_>) -> Result<(), ReplayError> {
        self.last_ms = self.last_ms.max(at_ms);
        self.replay.apply(record)
    }

    fn queue(&mut self, session: SessionId, delivery: &PendingRecord<'_>) -> Result<(), RecoveryError> {
        let pending = self.pending(delivery)?;
        let message = pending.message.loaded().cloned();
        self.change(session, &Change::Queued(pending))?;
        self.spill_queue.add_queued(message.as_ref(), number(session), &self.replay);
        Ok(())
    }

    fn retain(&mut self, sequence: u64, id: MessageId) -> Result<(), RecoveryError> {
        // The topic is needed, so the message must be in memory.
        let message = self.loaded_message(id)?;
        self.retained.push(message.id());
        let change = RetainedChange::Set(message.clone());
        self.replay.apply(&SessionRecord::Retained { sequence, change: &change })?;
        self.spill_queue.add_retained(&message, &self.replay);
        Ok(())
    }

    fn change_with(&mut self, session: SessionId, packet_id: PacketId, change: &Change) -> Result<(), ReplayError> {
        self.replay.apply(&SessionRecord::Changed { session: number(session), change, packet_id: Some(packet_id) })
    }

    fn change(&mut self, session: SessionId, change: &Change) -> Result<(), ReplayError> {
        self.replay.apply(&SessionRecord::Changed { session: number(session), change, packet_id: None })
    }

    fn message(&self, id: MessageId) -> Result<Body, RecoveryError> {
        let forwarded = || self.replay.forwarded_message(id).map(|message| message.clone().into());
        let retained = || self.replay.retained().find(|body| body.id() == id).cloned();
        self.messages.get(&id).cloned().or_else(forwarded).or_else(retained).ok_or(RecoveryError::MessageMissing(id))
    }

    /// Returns a message, read from disk if it was spilled.
    fn loaded_message(&mut self, id: MessageId) -> Result<Message, RecoveryError> {
        match self.message(id)? {
            Body::Loaded(message) => Ok(message),
            Body::Spilled(spilled) => self.spill_queue.read(&spilled).ok_or(RecoveryError::UnreadableMessage(id)),
        }
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

fn to_message(message: &tautwire_message::MessageRef<'_>, ledger: Option<&Arc<MemoryLedger>>) -> Message {
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
