//! Changes to a shard's connections and sessions, and writes to connections.

use tautwire_memory::ShardMemory;
use tautwire_protocol::Packet;
use tautwire_router::ShardIndex;
use tautwire_session::{Change, PendingMessage, SessionNumber, share_of_queue};

use super::ShardState;
use crate::connection::connections::{Connections, PauseReason};
use crate::connection::paused_readers::PausedReaders;
use crate::connection::quota_state::QuotaState;
use crate::counters::Counters;
use crate::index::{ConnectionId, ConnectionIndex, SessionIndex};
use crate::mode::Mode;
use crate::operations::latency::LatencyRecorder;
use crate::operations::state::OperationsState;
use crate::routing::shard_outbox::ShardOutboxes;
use crate::routing::state::RoutingState;
use crate::scheduling::clock::Clock;
use crate::scheduling::jobs::Jobs;
use crate::scheduling::timer_wheel::Timer;
use crate::scheduling::work_budget::WorkBudget;
use crate::session::drops::DropReason;
use crate::session::message_loss::LossLog;
use crate::session::sessions::Sessions;
use crate::session::throttled::ThrottledSessions;
use crate::settings::current_config::CurrentConfig;
use crate::shard_context::ShardContext;
use crate::shared::Shared;
use crate::storage::journal_writer::JournalWriter;
use crate::storage::memory_budget::MemoryBudget;
use crate::storage::spill::SpillState;

impl<M: Mode> ShardState<M> {
    pub(crate) fn new(shard: ShardIndex, shared: Shared, mode: M, now_ms: u64) -> ShardState<M> {
        let mut context = ShardContext::new(shard, &shared);
        let (journal, mode) = mode.begin(&mut context);
        let Shared { config_cell, memory, throttle, users, .. } = shared;
        let config = config_cell.current();
        let settings = &config.settings;
        let share = ShardMemory::new(memory, usize::from(shard.0));
        ShardState {
            quota_state: QuotaState::new(settings.quotas(), settings.flapping(), users),
            clock: Clock::new(now_ms),
            connections: Connections::new(share.ledger()),
            sessions: Sessions::new(shard, share.ledger()),
            outboxes: ShardOutboxes::new(context.exchange().shards()),
            paused_readers: PausedReaders::default(),
            log: JournalWriter::new(journal),
            memory: MemoryBudget::new(share, settings.connection_output_bytes),
            work_budget: WorkBudget::default(),
            latency_recorder: LatencyRecorder::default(),
            jobs: Jobs::default(),
            spill: SpillState::default(),
            throttled: ThrottledSessions::new(throttle),
            loss_log: LossLog::default(),
            routing: RoutingState::new(config.metered().clone(), settings.contract_discovery),
            operations: OperationsState::new(shard, settings, now_ms),
            config: CurrentConfig::new(&config),
            mode,
            context,
        }
    }

    #[inline]
    pub(crate) fn counters(&self) -> &Counters {
        self.context.counters()
    }

    // Time.

    /// Records the start of a turn, which is when its input counts as read.
    #[inline]
    pub(crate) fn begin_turn_timing(&mut self, now_us: u64) {
        self.latency_recorder.begin_turn(now_us);
    }

    /// Records that the turn has written its output.
    #[inline]
    pub(crate) fn end_turn_timing(&mut self, now_us: u64) {
        let ShardState { latency_recorder, context, .. } = self;
        latency_recorder.finish(now_us, context.latencies());
    }

    // Connections.

    pub(crate) fn id(&self, index: ConnectionIndex) -> ConnectionId {
        self.connections.id(index)
    }

    /// Ends one reason to pause reading from a connection, if the connection still exists.
    #[cold]
    pub(crate) fn resume_reading(&mut self, id: ConnectionId, reason: PauseReason) {
        self.connections.resume_reading(id, reason, self.clock.now_ms());
    }

    /// Opens a slot for a new connection. Returns `None` if no slot is left.
    pub(crate) fn open_connection(&mut self) -> Option<ConnectionIndex> {
        let index = self.connections.open(self.clock.now_ms())?;
        self.connections[index].set_ack_level(self.config.settings().acks.default);
        self.counters().connections.add(1);
        let deadline_ms = self.clock.now_ms() + u64::from(self.config.settings().connect_timeout_s) * 1000;
        self.arm_connection(index, deadline_ms);
        Some(index)
    }

    /// Frees the slot of a connection whose socket has been closed or moved.
    pub(crate) fn free_slot(&mut self, index: ConnectionIndex) {
        self.discard_output(index);
        self.connections.release_output(index);
        self.connections.free_slot(index);
        self.counters().connections.subtract(1);
    }

    /// Discards the pending output.
    pub(crate) fn discard_output(&mut self, index: ConnectionIndex) {
        if let Some(output) = self.connections[index].output() {
            output.clear();
            let delta = output.count();
            self.counters().output_bytes.add(delta);
        }
    }

    /// Arms the connection's timer for `at_ms` at the latest.
    pub(crate) fn arm_connection(&mut self, index: ConnectionIndex, at_ms: u64) {
        self.clock.arm(Timer::Connection(index), at_ms, |at_ms| self.connections[index].arm(at_ms));
    }

    #[inline]
    pub(crate) fn mark_dirty(&mut self, index: ConnectionIndex) {
        if M::is_output_blocked(self, index) {
            return;
        }
        self.connections.mark_dirty(index);
    }

    /// Appends to the connection's output.
    #[inline]
    pub(crate) fn write(&mut self, index: ConnectionIndex, write: impl FnOnce(&mut Vec<u8>)) {
        self.connections.output_or_insert(index).append(write);
        self.mark_dirty(index);
    }

    /// Appends a control packet. Returns false if it is larger than the client accepts [MQTT-3.1.2-24] or cannot be encoded in the
    /// connection's version.
    pub(crate) fn write_packet(&mut self, index: ConnectionIndex, packet: &Packet<'_>) -> bool {
        let parameters = *self.connections[index].connect_parameters();
        let version = parameters.version;
        if let Some(maximum) = parameters.maximum_packet_size_bytes
            && packet.encoded_len(version).is_ok_and(|len| len > maximum.get() as usize)
        {
            return false;
        }
        let mut result = Ok(0);
        self.write(index, |tail| result = packet.append_to(version, tail));
        if let Err(error) = &result {
            log::error!("cannot encode {:?} in {version}: {error}", packet.packet_type());
        }
        self.counters().packets_sent.add(u64::from(result.is_ok()));
        result.is_ok()
    }

    // Sessions.

    /// Opens a new session. Returns `None` if no slot is left.
    pub(crate) fn open_session(&mut self, name: &str) -> Option<SessionIndex> {
        let index = self.sessions.open(name)?;
        self.counters().sessions.add(1);
        Some(index)
    }

    /// Ends a session; the caller cleans up after it. Returns its number in the log if the log keeps it until the cleanup is done.
    pub(crate) fn end_session(&mut self, index: SessionIndex) -> Option<SessionNumber> {
        self.end_episode(index);
        self.clear_stale(index);
        let number = M::record_ended(self, index);
        let is_client_session = share_of_queue(self.sessions[index].name()).is_none();
        self.sessions.end(index);
        self.counters().sessions.subtract(u64::from(is_client_session));
        number
    }

    /// Whether all changes of the session are persisted.
    #[inline]
    pub(crate) fn is_fully_persistent(&self, index: SessionIndex) -> bool {
        M::session_number(self, index).is_some()
    }

    pub(crate) fn arm_session(&mut self, index: SessionIndex, at_ms: u64) {
        self.clock.arm(Timer::Session(index), at_ms, |at_ms| self.sessions.entry(index).arm(at_ms));
    }

    /// Records that a session did not get a message, for operators who ask why.
    #[cold]
    pub(crate) fn record_drop(&mut self, session: SessionIndex, reason: DropReason, topic: &str) {
        let now_ms = self.clock.now_ms();
        self.sessions.record_drop(session, reason, topic, now_ms);
    }

    /// Persists a change if its kind is persistent, and applies it.
    pub(crate) fn commit(&mut self, index: SessionIndex, change: Change) {
        self.commit_inline(index, change);
    }

    /// The same, always inlined, for the changes that each acknowledged message causes. The compiler knows their kind in the caller and
    /// leaves out the code for other kinds.
    #[inline(always)]
    pub(crate) fn commit_inline(&mut self, index: SessionIndex, change: Change) {
        if let Change::Queued(delivery) | Change::Started(delivery) = &change {
            self.work_budget.count_deliveries(1);
            self.counters().stored_messages.add(1);
            self.counters().stored_bytes.add(delivery.counted_bytes() as u64);
        }
        M::commit(self, index, change);
    }

    /// Applies a change, and frees what the session no longer needs.
    #[inline(always)]
    pub(crate) fn apply_change(&mut self, index: SessionIndex, change: Change) {
        if let Some(removed) = self.sessions.entry(index).apply(change) {
            self.subtract_stored(&removed);
        }
        self.unblock_caught_up(index);
    }

    /// Adds all messages of a restored session to the counters.
    pub(crate) fn add_stored(&self, session: SessionIndex) {
        let Some(outbound) = self.sessions[session].outbound() else { return };
        self.counters().stored_messages.add(outbound.messages() as u64);
        self.counters().stored_bytes.add(outbound.counted_bytes() as u64);
    }

    pub(crate) fn subtract_stored(&self, delivery: &PendingMessage) {
        self.counters().stored_messages.subtract(1);
        self.counters().stored_bytes.subtract(delivery.counted_bytes() as u64);
    }
}
