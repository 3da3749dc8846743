//! The order of a turn, and whether a shard can sleep after it.
//!
//! [`turn`] is the only way to run a turn of a shard. The reactor, the simulation, the fuzzers and the benchmarks provide their own
//! [`Io`]; only this module decides the order of the steps, and what remains to be done afterwards.

use tautwire_router::ShardIndex;

use crate::connection::connections::PauseReason;
use crate::mode::Mode;
use crate::mutant::{Mutant, is};
use crate::scheduling::io::{Io, NextTurn};
use crate::shard::Shard;
use crate::shard::ShardState;

/// Batches received from one other shard in one turn, so that shards that flood each other still read their sockets.
const BATCHES_MAX: usize = 16;

/// Runs one turn of a shard at `now_ms`.
///
/// The order matters. Batches are received before sockets are read, since the messages in them are older. Batches are sent before
/// reading from paused publishers resumes, and never after that: the channel that a publisher waits for when the turn ends is
/// therefore full, and the receiver that makes room in it wakes the shard. Deferred fan-outs are written after all other output.
pub fn turn<M: Mode, S: Io<M>>(shard: &mut Shard<M>, io: &mut S, now_ms: u64) -> NextTurn {
    shard.state.clock.set(now_ms);
    shard.state.begin_turn_timing(io.began_us());
    shard.apply_config_update();
    M::begin_turn(shard, io);
    shard.state.refresh_memory_budget();
    shard.check_log();
    shard.check_channels(io);

    while io.adopt(shard) {
        shard.perform_actions(io);
        shard.state.log.end_large_frame();
    }
    shard.state.work_budget.begin_phase();
    shard.take_batches(io);
    M::route_arrivals(shard);
    shard.state.work_budget.begin_reading();
    shard.resume_after_transcoding(io);
    while shard.state.work_budget.can_read() && io.read(shard) {
        shard.perform_actions(io);
        shard.state.log.end_large_frame();
    }
    io.accept(shard);
    io.run_commands(shard);

    shard.run_due_work();
    shard.review_addresses(io);
    shard.answer_admin_queries(io);
    // Jobs have run by now; an unfinished job keeps the shard busy, see `Shard::is_busy`.
    shard.perform_actions(io);

    if is(Mutant::ResumesBeforeSending) && shard.resume_paused() {
        shard.perform_actions(io);
    }
    // The frame with the cause of a batch must precede the frames that other shards write because of the batch.
    if !is(Mutant::SendsBatchBeforeFrame) {
        shard.state.log.end_frame();
    }
    shard.send_batches(io);
    if !is(Mutant::ResumesBeforeSending) && shard.resume_paused() {
        shard.perform_actions(io);
    }

    io.write_ready(shard);
    shard.write_output(io);
    if shard.state.latency_recorder.has_measurements() {
        shard.state.end_turn_timing(io.now_us());
    }
    // Writing makes room for pending messages, and may reveal that a client has disconnected.
    shard.perform_actions(io);
    shard.state.log.end_frame();
    M::detach_paused_output(&mut shard.state);
    M::end_turn(shard, io);
    if shard.state.operations.has_open_spans() {
        shard.state.end_spans();
    }

    shard.next_turn(io)
}

impl<M: Mode> Shard<M> {
    /// The other shards, starting after this one.
    #[inline]
    fn others(&self) -> impl Iterator<Item = ShardIndex> + use<M> {
        let (own, count) = (usize::from(self.state.context.shard().0), self.state.outboxes.shards());
        let wrapped = move |at: usize| if at < count { at } else { at - count };
        (1..count).map(move |step| ShardIndex(wrapped(own + step) as u8))
    }

    #[inline]
    fn check_channels(&mut self, io: &mut impl Io<M>) {
        for to in self.others() {
            self.set_capacity(to, io.room(to));
        }
    }

    /// Performs the pending actions of the engine, the oldest first, and those that follow from them. Only the turn calls it, which
    /// avoids deep recursion when reading resumes for thousands of clients.
    #[inline]
    pub(crate) fn perform_actions(&mut self, io: &mut impl Io<M>) {
        while let Some(action) = self.state.connections.next_action() {
            io.perform(self, action);
        }
    }

    /// Receives batches from other shards, except while the fan-out of an earlier batch is deferred.
    fn take_batches(&mut self, io: &mut impl Io<M>) {
        for from in self.others() {
            for _ in 0..BATCHES_MAX {
                if !self.accepts_batches() || !self.state.work_budget.can_transcode() {
                    break;
                }
                let begun = self.partial_batches[usize::from(from.0)].take();
                let Some((batch, done)) = begun.or_else(|| Some((io.next_batch(from)?, 0))) else { break };
                // The sender admitted its messages under its current configuration, so they must not be delivered under an older one.
                self.apply_config_update();
                self.state.latency_recorder.begin_batch(batch.read_at_us());
                let next = self.receive_batch(from, &batch, done);
                self.state.latency_recorder.end_batch();
                self.state.log.end_large_frame();
                self.partial_batches[usize::from(from.0)] = next.map(|done| (batch, done));
            }
            io.batches_taken(from);
        }
    }

    /// Whether batches of other shards are received now. If not, pending batches do not keep the shard busy: deferred fan-outs do, and a
    /// lagging log wakes the shard when it has caught up.
    #[inline]
    pub fn accepts_batches(&self) -> bool {
        self.state.paused_readers.accepts_batches() && !self.state.log.is_lagging()
    }

    /// Sends batches, unless frames with their messages are still to be submitted: these must precede the receivers' frames in the log.
    fn send_batches(&mut self, io: &mut impl Io<M>) {
        if !self.can_send_batches() {
            return;
        }
        for to in self.others() {
            if self.state.outboxes.has_batch(to) {
                self.state.outboxes.set_capacity(to, io.room(to));
                self.state.outboxes.send(to, |batches| io.send(to, batches));
            }
        }
    }

    #[inline]
    fn can_send_batches(&self) -> bool {
        self.state.log.has_submitted_all()
    }

    /// Resumes reading from connections whose shard channel has room again. Returns whether there were any.
    #[inline]
    fn resume_paused(&mut self) -> bool {
        self.can_resume_paused() && self.resume_all_ready()
    }

    #[cold]
    fn resume_all_ready(&mut self) -> bool {
        let ShardState { paused_readers, outboxes, .. } = &mut self.state;
        for id in paused_readers.take_ready_for_shard(|shard| outboxes.is_full_to(shard)) {
            self.state.resume_reading(id, PauseReason::ShardChannel);
        }
        true
    }

    #[inline]
    fn can_resume_paused(&self) -> bool {
        self.state.paused_readers.any_for_shard() && self.can_resume_some()
    }

    #[cold]
    fn can_resume_some(&self) -> bool {
        self.state.paused_readers.any_ready(|shard| self.state.outboxes.is_full_to(shard))
    }

    /// Writes each connection's output once: all fresh output, then some of the deferred output. When the write budget is spent, the
    /// rest is deferred to the next turns.
    fn write_output(&mut self, io: &mut impl Io<M>) {
        self.write_fresh(io);
        if self.has_deferred_fan_outs() {
            for _ in 0..self.deferred_per_turn() {
                if let Some(id) = self.next_deferred() {
                    io.write(self, id);
                }
                if self.state.work_budget.is_write_budget_spent() {
                    break;
                }
            }
            self.resume_after_fan_outs();
            // Writing may have made room for more messages.
            self.write_fresh(io);
        }
        self.state.work_budget.end_writing();
    }

    #[inline]
    fn write_fresh(&mut self, io: &mut impl Io<M>) {
        while let Some(id) = self.next_dirty() {
            io.write(self, id);
            if self.state.work_budget.is_write_budget_spent() {
                self.state.connections.defer(0);
            }
        }
    }

    fn next_turn(&mut self, io: &mut impl Io<M>) -> NextTurn {
        // First, since other threads wake the shard from here on.
        let io_next = io.end_turn(self);
        let mut is_busy = self.is_busy();
        // If frames are still to be submitted, the journal wakes the shard.
        let can_send = self.can_send_batches();
        for to in self.others() {
            if can_send && self.state.outboxes.has_batch(to) && !is(Mutant::SleepsWithUnsentBatches) {
                is_busy |= io.has_room_or_arm_waker(to);
            }
        }
        match io_next {
            NextTurn::Until(at_ms) if !is_busy => {
                let next = [at_ms, self.next_due_ms(), M::next_due_ms(&self.state)];
                NextTurn::Until(next.into_iter().flatten().min())
            }
            _ => NextTurn::Busy,
        }
    }

    /// Whether the engine has work left that no event would wake it for. Batches count only if their channel has room.
    fn is_busy(&self) -> bool {
        self.state.connections.has_actions()
            || self.state.connections.dirty_len() > 0
            || (self.has_deferred_fan_outs() && !is(Mutant::SleepsWithDeferredFanOuts))
            || (self.partial_batches.iter().any(Option::is_some)
                && self.accepts_batches()
                && !is(Mutant::SleepsWithPartialBatches))
            || (self.can_resume_paused() && !is(Mutant::ResumesBeforeSending))
            || self.state.paused_readers.any_for_transcoding()
            || self.has_jobs()
            || self.state.clock.has_due()
            || M::has_progress(&self.state)
            || self.state.log.has_unreported_failure()
            || self.state.has_spill_work()
            || self.has_scans()
            || self.state.routing.any_unanswered()
            || self.has_contracts_to_publish()
            || self.config_cell.has_update()
            || M::has_work(self)
    }
}
