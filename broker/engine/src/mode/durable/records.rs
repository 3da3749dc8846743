//! Journal records of sessions, and the pauses until they are durable.

use tautwire_message::Message;
use tautwire_protocol::{FixedHeader, PacketType};
use tautwire_router::{BatchPayload, ShardIndex};
use tautwire_session::{
    Change, Journal, LogPosition, LogState, PendingMessage, Receivers, Record, RetainedChange, SessionNumber,
    ShardNumber,
};

use crate::connection::connections::PauseReason;
use crate::index::{ConnectionIndex, SessionIndex};
use crate::mutant::{Mutant, is};
use crate::routing::publish_packets::OutgoingPublish;
use crate::session::sessions::{PersistedSession, PersistenceScope};
use crate::shard::ShardState;

/// Bits in the first byte of PUBLISH [MQTT 5.0 section 3.3.1].
const QOS_BITS: u8 = 0b110;
const RETAIN_BIT: u8 = 0b1;

impl<J: Journal + 'static> ShardState<J> {
    /// Records a change of a session, if the session is persistent.
    pub(super) fn persist(&mut self, index: SessionIndex, change: &Change) {
        let ShardState { sessions, log, clock, .. } = self;
        let session = match (sessions.persisted(index), PersistenceScope::of(change)) {
            (Some(written), _) if written.extent.includes(change) => written.number,
            // No acknowledgement depends on the will.
            (None, Some(PersistenceScope::WillOnly)) if log.state() == LogState::Failed => return,
            (None, Some(extent)) => {
                let (number, position) = log.open(sessions[index].name(), clock.now_ms());
                sessions.entry(index).persist(PersistedSession { number, extent, position });
                number
            }
            _ => return,
        };
        if is(Mutant::OmitsReceivedPacketId) && matches!(change, Change::Taken(_)) {
            return;
        }
        let starts = matches!(change, Change::Started(_) | Change::StartedQueued);
        let packet_id = if starts { sessions[index].next_packet_id() } else { None };
        let position = log.record_for_packet(Record::Changed { session, change, packet_id });
        sessions.entry(index).count_written(position);
    }

    /// The session's number in the journal, if all of its state is recorded.
    pub(crate) fn number_in_log(&self, index: SessionIndex) -> Option<SessionNumber> {
        let written = self.sessions.persisted(index).filter(|written| written.extent == PersistenceScope::All);
        written.map(|written| written.number)
    }

    /// Records a session without expiry that gets a message of a shared subscription with persistent members. After a crash the session
    /// ends, and its unacknowledged messages go to the other members.
    #[cold]
    #[inline(never)]
    pub(crate) fn persist_for_group(&mut self, index: SessionIndex, delivery: &PendingMessage) {
        let group = delivery.share.as_ref().and_then(|share| self.context.exchange().group(share));
        let is_needed = group.is_some_and(|group| group.has_persistent_member());
        if !is_needed || self.log.state() == LogState::Failed || is(Mutant::OmitsTransientMemberRecord) {
            return;
        }
        let ShardState { sessions, log, clock, .. } = self;
        if sessions[index].outbound().is_some_and(|outbound| outbound.memory_bytes() < outbound.counted_bytes()) {
            // Some of its messages are spilled to a file that does not survive a crash, and cannot be recorded from there.
            return;
        }
        let (number, mut position) = match sessions.persisted(index) {
            Some(written) => (written.number, written.position),
            None => log.open(sessions[index].name(), clock.now_ms()),
        };
        sessions[index].describe(|change, packet_id| {
            position = log.record_for_packet(Record::Changed { session: number, change, packet_id });
        });
        sessions.entry(index).persist(PersistedSession { number, extent: PersistenceScope::All, position });
    }

    /// Records that the client of a session has connected.
    #[inline]
    pub(crate) fn persist_connected(&mut self, index: SessionIndex) {
        let at_ms = self.clock.now_ms();
        self.persist_presence(index, |session| Record::Returned { session, at_ms });
    }

    /// Records that the client of a session has disconnected.
    #[inline]
    pub(crate) fn persist_disconnected(&mut self, index: SessionIndex) {
        let at_ms = self.clock.now_ms();
        self.persist_presence(index, |session| Record::Left { session, at_ms });
    }

    fn persist_presence(&mut self, index: SessionIndex, record: impl FnOnce(SessionNumber) -> Record<'static>) {
        if let Some(written) = self.sessions.persisted(index).filter(|written| written.extent == PersistenceScope::All)
        {
            let position = self.log.record_for_packet(record(written.number));
            self.sessions.entry(index).count_written(position);
        }
    }

    /// Records the end of a session. A session with pending messages, which may have to go to others, stays in the journal with an expiry
    /// of 0 until [`Mode::record_cleared`](crate::mode::Mode::record_cleared); its number is returned.
    #[inline]
    pub(crate) fn persist_ended(&mut self, index: SessionIndex) -> Option<SessionNumber> {
        let PersistedSession { number, extent, .. } = self.sessions.persisted(index)?;
        let has_pending = self.sessions[index].outbound().is_some_and(|outbound| !outbound.is_empty());
        if extent == PersistenceScope::All && has_pending {
            self.persist(index, &Change::ExpiryInterval(0));
            return Some(number);
        }
        self.log.record_for_packet(Record::Ended(number));
        None
    }

    /// Records a message that goes to another shard, for persistent sessions there. The publisher's acknowledgement waits for this record;
    /// records about the receivers follow. Returns the message's number in the channel between the two shards.
    pub(crate) fn persist_forwarded(&mut self, to: ShardIndex, message: &Message, receivers: Receivers<'_>) -> u64 {
        let sequence = self.outboxes.next_forwarded(to);
        let (from, to) = (number(self.context.shard()), number(to));
        if is(Mutant::OmitsForwardedRecord) {
            return sequence;
        }
        self.log.record_for_packet(Record::Forwarded { from, to, sequence, message, receivers });
        sequence
    }

    /// Marks a message from another shard, whose record is in an earlier frame of that shard.
    pub(crate) fn begin_transfer(&mut self, payload: &BatchPayload<'_>) {
        let message = match payload {
            BatchPayload::Route { message, .. } => message.id,
            BatchPayload::Share(_, delivery) => delivery.message.id(),
            // An update carries no message.
            BatchPayload::Update(_) => return,
        };
        self.log.mark_forwarded(message);
    }

    /// Records in the current frame that this shard accepted everything that `from` forwarded up to `sequence`.
    pub(crate) fn persist_received(&mut self, from: ShardIndex, sequence: u64) {
        if !is(Mutant::OmitsForwardAcceptedRecord) {
            let (from, to) = (number(from), number(self.context.shard()));
            self.log.record(Record::ForwardAccepted { from, to, sequence });
        }
    }

    /// Records the change that a message made to the retained messages. Those of `$SYS` are created again after a restart.
    pub(super) fn persist_retained(&mut self, outgoing: &OutgoingPublish<'_>, sequence: u64) {
        if outgoing.message.topic.starts_with("$SYS/") || is(Mutant::OmitsRetainedRecord) {
            return;
        }
        let change = match &outgoing.stored {
            Some(message) if !outgoing.message.payload.is_empty() => RetainedChange::Set(message.clone()),
            _ => RetainedChange::Cleared(outgoing.message.topic.into()),
        };
        self.log.record_for_packet(Record::Retained { sequence, change: &change });
    }

    /// The frame that must be durable before the packet of a connection's client is acknowledged.
    pub(crate) fn ack_position(&self, index: ConnectionIndex) -> LogPosition {
        let session = self.connections[index].session();
        let written = session.and_then(|session| self.sessions.persisted(session));
        let is_whole = written.is_some_and(|written| written.extent == PersistenceScope::All);
        if !is_whole && self.log.state() == LogState::Failed {
            // The packet was refused, because it could not be recorded.
            return LogPosition::default();
        }
        written.map_or(self.log.packet_position(), |written| written.position.max(self.log.packet_position()))
    }

    /// Blocks all output of a connection, from CONNACK on, until its session is durable.
    #[inline]
    pub(crate) fn pause_output(&mut self, index: ConnectionIndex) {
        if !is(Mutant::SendsConnAckBeforeDurable) {
            let position = self.ack_position(index);
            if position > self.log.reached(self.connections[index].ack_level()) {
                self.connections[index].block_output(position);
                self.log.pause_output(index);
            }
        }
    }

    /// Releases all that waits for records that are durable now.
    #[inline]
    pub(crate) fn release_durable(&mut self) {
        self.log.record_release();
        self.resume_output();
        self.release_acks();
        self.resume_after_log();
    }

    /// Pauses reading from a client whose packet would add to a lagging log; returns whether it does. `first` is the first byte of the
    /// packet. Packets that add nothing, such as messages of QoS 0 without RETAIN, are still read.
    pub(crate) fn pause_for_log(&mut self, index: ConnectionIndex, header: &FixedHeader, first: u8) -> bool {
        if !self.log.is_lagging() {
            return false;
        }
        let session = self.connections[index].session();
        let is_written = session.is_some_and(|session| self.sessions.persisted(session).is_some());
        let may_add = match header.packet_type {
            PacketType::Publish => needs_persistence(first),
            PacketType::PingReq => false,
            PacketType::Connect => true,
            _ => is_written,
        };
        if may_add && self.connections[index].pause_reading(PauseReason::Log) {
            self.counters().clients_paused_for_log.add(1);
            let id = self.id(index);
            self.paused_readers.wait_for_log(id);
        }
        may_add
    }

    fn resume_after_log(&mut self) {
        if self.paused_readers.any_for_log() && !self.log.is_lagging() {
            for id in self.paused_readers.take_for_log() {
                self.resume_reading(id, PauseReason::Log);
            }
        }
    }

    /// Copies blocked output, which outlives the turn and must not refer to read buffers.
    #[inline]
    pub(crate) fn detach_paused_output(&mut self) {
        for index in self.log.paused_output() {
            if let Some(output) = self.connections[*index].output() {
                output.settle();
            }
        }
    }

    /// Whether more records became durable since the last release.
    #[inline]
    pub(crate) fn has_durable_progress(&self) -> bool {
        self.log.has_durable_progress() || (self.paused_readers.any_for_log() && !self.log.is_lagging())
    }

    fn resume_output(&mut self) {
        for index in self.log.take_paused_output() {
            let connection = &mut self.connections[index];
            if connection.unblock_output(|level| self.log.reached(level)) {
                if connection.pending_bytes() > 0 {
                    self.mark_dirty(index);
                }
            } else if connection.is_output_blocked() {
                self.log.pause_output(index);
            }
        }
    }
}

/// Whether a PUBLISH with this first byte is retained or acknowledged.
#[inline]
pub(crate) fn needs_persistence(first: u8) -> bool {
    first & (QOS_BITS | RETAIN_BIT) != 0
}

fn number(shard: ShardIndex) -> ShardNumber {
    ShardNumber(u16::from(shard.0))
}
