//! One shard of the broker: the methods that drive it.

use std::sync::Arc;

use tautwire_memory::MemoryLedger;
use tautwire_protocol::{Disconnect, DisconnectReason, Packet, ReasonCode};
use tautwire_router::ShardIndex;
use tautwire_session::AckLevel;

use super::{Shard, ShardState};
use crate::connection::connections::{Output, PauseReason, Phase};
use crate::connection::origin::ConnectionOrigin;
use crate::counters::Counters;
use crate::index::{ConnectionId, ConnectionIndex};
use crate::mode::Mode;
use crate::routing::publish_packets::SHARED_PAYLOAD_BYTES;
use crate::routing::route::SubscriptionTable;
use crate::scheduling::fan_out::FanOutBudget;
use crate::scheduling::timer_wheel::Timer;
use crate::settings::config::ConfigReader;
use crate::settings::values::Settings;
use crate::shared::Shared;

/// How often expired retained messages are removed, and how many at a time.
const RETAINED_EXPIRY_MS: u64 = 5_000;
const RETAINED_EXPIRY_MAX: usize = 1_000;

/// The bytes that a will is assumed to cost for each receiver once its size is unknown: no more are copied.
const WILL_BYTES: usize = SHARED_PAYLOAD_BYTES;

impl<M: Mode> Shard<M> {
    /// Creates shard `index` of the broker.
    pub fn new(index: ShardIndex, shared: Shared, mode: M, now_ms: u64) -> Shard<M> {
        let config_cell = ConfigReader::new(shared.config_cell.clone());
        let partial_batches = (0..shared.exchange.shards()).map(|_| None).collect();
        let state = ShardState::new(index, shared, mode, now_ms);
        Shard {
            state,
            table: SubscriptionTable::default(),
            config_cell,
            next_retained_expiry_ms: now_ms,
            partial_batches,
        }
    }

    /// Registers a new network connection. Returns `None` if a limit is reached; close the connection then.
    pub fn accept(&mut self, now_ms: u64) -> Option<ConnectionId> {
        self.state.clock.set(now_ms);
        // Clients of a new listener need the rest of the new configuration.
        self.apply_config_update();
        if self.state.context.sum(|counters| &counters.connections) >= self.state.config.settings().connections as u64 {
            self.state.counters().connections_refused.add(1);
            return None;
        }
        if !self.state.memory.has_room_for_connection() {
            self.state.counters().connections_refused.add(1);
            return None;
        }
        let index = self.state.open_connection()?;
        Some(self.state.id(index))
    }

    /// The durability for which acknowledgements to a connection wait.
    pub fn ack_level(&mut self, id: ConnectionId) -> AckLevel {
        self.state.connections.get(id).map_or(AckLevel::default(), |connection| connection.ack_level())
    }

    /// Overrides [`Acks::default`](crate::Acks::default) for a connection.
    pub fn set_ack_level(&mut self, id: ConnectionId, level: AckLevel) {
        if let Some(connection) = self.state.connections.get(id) {
            connection.set_ack_level(level);
        }
    }

    /// Sets the origin of a connection: after [`Shard::accept`], before the first bytes.
    pub fn set_origin(&mut self, id: ConnectionId, origin: Arc<ConnectionOrigin>) {
        if let Some(connection) = self.state.connections.get(id) {
            connection.set_origin(origin);
        }
    }

    /// The origin of a connection, if it is set.
    pub fn origin(&mut self, id: ConnectionId) -> Option<Arc<ConnectionOrigin>> {
        self.state.connections.get(id)?.origin().cloned()
    }

    /// Updates the origin of a connection.
    pub fn update_origin(&mut self, id: ConnectionId, complete: impl FnOnce(&mut ConnectionOrigin)) {
        if let Some(peer_info) = self.state.connections.get(id).and_then(|connection| connection.peer_info()) {
            peer_info.update(complete);
        }
    }

    /// Whether reading from the connection is paused until [`Action::Resume`](crate::Action::Resume).
    pub fn is_reading_paused(&mut self, id: ConnectionId) -> bool {
        self.state.connections.get(id).is_some_and(|connection| connection.is_reading_paused())
    }

    /// Handles the loss of a connection: the peer has closed it, or the network has failed.
    pub fn connection_lost(&mut self, id: ConnectionId, now_ms: u64) {
        self.state.clock.set(now_ms);
        if let Some(index) = self.state.connections.find(id) {
            M::abandon_claim(self, id);
            self.detach(index);
            self.state.free_slot(index);
        }
    }

    /// Whether input of the connection is processed now: it is not paused, closing or moving.
    pub fn is_reading(&mut self, id: ConnectionId) -> bool {
        self.find_reading(id).is_some()
    }

    fn find_reading(&self, id: ConnectionId) -> Option<ConnectionIndex> {
        let index = self.state.connections.find(id)?;
        let connection = &self.state.connections[index];
        (connection.phase() != Phase::Closing && !connection.is_reading_paused()).then_some(index)
    }

    /// Handles a close by the peer that its transport must answer, unlike [`Shard::connection_lost`]: pending output is written, then the
    /// connection is closed.
    #[cold]
    pub fn peer_closed(&mut self, id: ConnectionId, now_ms: u64) {
        self.state.clock.set(now_ms);
        if let Some(index) = self.find_reading(id) {
            self.detach(index);
            self.close(index);
        }
    }

    /// Disconnects a peer that has violated its transport protocol, with `reason` and `why` if its version has DISCONNECT.
    #[cold]
    pub fn transport_error(&mut self, id: ConnectionId, reason: DisconnectReason, why: &str, now_ms: u64) {
        self.state.clock.set(now_ms);
        if let Some(index) = self.find_reading(id) {
            self.disconnect(index, reason, why);
        }
    }

    /// Closes all connections because the broker shuts down. MQTT 5.0 clients get DISCONNECT.
    pub fn shut_down(&mut self, now_ms: u64) {
        self.state.clock.set(now_ms);
        for index in self.state.connections.indices() {
            let connection = &self.state.connections[index];
            match connection.phase() {
                Phase::Open if connection.is_v5() => {
                    let disconnect = Disconnect::new(DisconnectReason::ServerShuttingDown);
                    self.state.write_packet(index, &Packet::Disconnect(disconnect));
                    M::release_for_shutdown(self, index);
                    self.close(index);
                }
                Phase::Open | Phase::AwaitingConnect => {
                    M::release_for_shutdown(self, index);
                    self.close(index);
                }
                Phase::Closing | Phase::Vacant => {}
            }
        }
    }

    /// Frees the slot of a connection that the engine asked to close or move.
    pub fn connection_closed(&mut self, id: ConnectionId) {
        if let Some(index) = self.state.connections.find(id) {
            M::abandon_claim(self, id);
            self.state.free_slot(index);
        }
    }

    /// Runs everything that is due by the clock or the journal.
    pub(crate) fn run_due_work(&mut self) {
        self.state.check_throttled();
        self.state.resume_after_memory();
        self.state.resume_for_input();
        self.state.resume_rate_limited();
        self.state.run_spill();
        M::release_durable_waiters(&mut self.state);
        self.state.clock.collect_due();
        self.run_timers();
        self.do_jobs();
        self.drop_expired_retained();
        self.publish_sys();
        self.publish_contracts();
        self.state.check_members();
        if self.state.routing.any_unanswered() {
            self.state.report_to_more_queues();
        }
        self.continue_scans();
        self.disconnect_overruns();
    }

    /// Runs the timers that are due. Many may be due at once, each with a will to publish; what is too much for one turn is left for the
    /// next ones.
    #[inline]
    fn run_timers(&mut self) {
        if !self.state.clock.has_due() {
            return;
        }
        let mut budget = FanOutBudget::begin(&self.state);
        while let Some(timer) = self.state.clock.next_due() {
            let deliveries_before = self.state.work_budget.deliveries();
            match timer {
                Timer::Connection(index) => self.connection_timer(index),
                Timer::Session(index) => self.session_timer(index),
            }
            self.state.log.end_large_frame();
            let will_bytes = if self.state.work_budget.deliveries() > deliveries_before { WILL_BYTES } else { 0 };
            if budget.is_spent_after(&self.state, will_bytes) {
                break;
            }
        }
        self.finish_source(&budget);
    }

    /// The time at which the next work is due if nothing else happens.
    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        let next = [
            self.state.clock.next_ms(),
            self.state.operations.next_due_ms(),
            self.state.paused_readers.next_retry_ms(),
            self.state.next_spill_ms(),
            self.state.throttled.next_check_ms(),
            self.state.routing.next_due_ms(),
        ];
        let earliest_ms = next.iter().fold(u64::MAX, |earliest_ms, due_ms| earliest_ms.min(due_ms.unwrap_or(u64::MAX)));
        (earliest_ms < u64::MAX).then_some(earliest_ms)
    }

    /// The next connection with new output.
    #[inline]
    pub(crate) fn next_dirty(&mut self) -> Option<ConnectionId> {
        self.state.connections.pop_dirty()
    }

    /// The pending output of a connection.
    pub fn output(&mut self, id: ConnectionId) -> Option<&mut Output> {
        let index = self.state.connections.find(id)?;
        if M::is_write_suspended(&self.state, index) {
            return None;
        }
        self.state.connections[index].output()
    }

    /// Records that `written` bytes of the output were sent. Returns whether output is still pending.
    pub fn advance_output(&mut self, id: ConnectionId, written: usize, now_ms: u64) -> bool {
        self.state.clock.set(now_ms);
        self.state.counters().bytes_sent.add(written as u64);
        self.state.work_budget.count_written(written);
        let Some(index) = self.state.connections.find(id) else { return false };
        let connection = &mut self.state.connections[index];
        let session = connection.session();
        let Some(output) = connection.output() else { return false };
        output.advance(written);
        let pending_bytes = output.pending_bytes();
        let delta = output.count();
        self.state.counters().output_bytes.add(delta);
        if pending_bytes > 0 {
            self.wait_for_room(index, written > 0);
        } else {
            self.state.connections.release_output(index);
        }
        self.resume_after_output(index, pending_bytes);
        if written > 0
            && let Some(session) = session
        {
            self.state.send_pending(session);
        }
        self.state.connections[index].pending_bytes() > 0
    }

    /// Prepares output to stay pending beyond the turn: detaches it from input chunks, and starts the stall timeout.
    fn wait_for_room(&mut self, index: ConnectionIndex, progress: bool) {
        let now_ms = self.state.clock.now_ms();
        let stall_s = self.state.config.settings().write_stall_timeout_s;
        let Some(output) = self.state.connections[index].output() else { return };
        output.settle();
        if output.record_stall(progress, now_ms) && stall_s > 0 {
            self.state.arm_connection(index, now_ms + u64::from(stall_s) * 1000);
        }
    }

    /// Resumes reading from a client that has read enough of its output.
    fn resume_after_output(&mut self, index: ConnectionIndex, pending_bytes: usize) {
        let enough = pending_bytes <= self.state.memory.output_max_bytes() / 2;
        if enough && self.state.connections[index].is_paused_for(PauseReason::Output) {
            let id = self.state.id(index);
            self.state.resume_reading(id, PauseReason::Output);
        }
    }

    /// Sets how many batches the channel to `shard` accepts now.
    pub(crate) fn set_capacity(&mut self, shard: ShardIndex, batches: usize) {
        self.state.outboxes.set_capacity(shard, batches);
    }

    /// Frees spare capacity. Call it after many clients have left.
    pub fn shrink(&mut self) {
        self.state.connections.shrink();
        self.state.sessions.shrink();
    }

    /// This shard's memory ledger.
    pub fn ledger(&self) -> &Arc<MemoryLedger> {
        self.state.memory.ledger()
    }

    /// This shard's counters.
    pub fn counters(&self) -> &Counters {
        self.state.counters()
    }

    /// Bytes that the clients of all shards use, with the index of retained messages.
    pub fn held_bytes(&self) -> u64 {
        let exchange = self.state.context.exchange();
        let index_bytes = exchange.retained_held_bytes().saturating_sub(exchange.retained_message_bytes());
        self.state.memory.share().memory().total_held() + index_bytes
    }

    /// The current settings.
    pub fn settings(&self) -> &Settings {
        self.state.config.settings()
    }

    /// Removes expired retained messages from time to time, on shard 0 only. Expired messages are not sent even before that.
    fn drop_expired_retained(&mut self) {
        let now_ms = self.state.clock.now_ms();
        if self.state.context.is_first() && now_ms >= self.next_retained_expiry_ms {
            let dropped = self.state.context.exchange().drop_expired_retained(now_ms, RETAINED_EXPIRY_MAX);
            self.state.counters().dropped_expired.add(dropped as u64);
            let pause_ms = if dropped == RETAINED_EXPIRY_MAX { 1 } else { RETAINED_EXPIRY_MS };
            self.next_retained_expiry_ms = now_ms + pause_ms;
        }
    }

    /// Disconnects clients whose session queue has overflowed, if the settings say so.
    pub(crate) fn disconnect_overruns(&mut self) {
        while let Some(index) = self.state.connections.next_overrun() {
            self.disconnect(index, DisconnectReason::QuotaExceeded, "the session's queue is full");
        }
    }

    /// Logs why a connection ends.
    pub(crate) fn log_disconnect(&self, index: ConnectionIndex, reason: ReasonCode, why: &str) {
        let client =
            self.state.connections[index].session().map_or("", |session| self.state.sessions[session].client_id());
        log::debug!("client {client:?} disconnected: {} (0x{:02x}), {why}", reason.name(), reason.as_u8());
        self.state.audit_disconnect(index, reason, why);
    }
}
