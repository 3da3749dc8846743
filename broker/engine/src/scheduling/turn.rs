//! The order of a turn, and whether a shard may sleep after it.
//!
//! [`turn`] is the only way to drive a shard through a turn. A reactor, the simulation, the fuzzers and the benchmarks bring their
//! own [`Io`]; what happens in which order, and what still has to be done afterwards, is decided here alone.

use tautwire_router::ShardIndex;

use crate::connection::connections::PauseReason;
use crate::mode::Mode;
use crate::mutant::{Mutant, is};
use crate::scheduling::io::{Io, NextTurn};
use crate::shard::Shard;
use crate::shard::ShardState;

/// Batches taken from one other shard in one turn, so that shards which flood each other still read their sockets.
const BATCHES_MAX: usize = 16;

/// Makes one turn of a shard, at `now_ms`.
///
/// The order matters. Mail comes before reading, so that what other shards sent is older than what is read now. Batches are sent
/// before paused publishers are heard again, and never after that: a publisher that is paused when the turn ends waits for a way
/// that is full at that moment, and whoever makes room in it wakes the shard. Those who stand in line for a fan-out are written to
/// after all others.
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
    // A job that takes several turns does its share here; one that is not finished is a reason in `Shard::is_busy`.
    shard.perform_actions(io);

    if is(Mutant::ResumesBeforeItSends) && shard.resume_paused() {
        shard.perform_actions(io);
    }
    // What a batch brings about elsewhere is in a later frame than what brought it about here.
    if !is(Mutant::SendsBeforeItPosts) {
        shard.state.log.end_frame();
    }
    shard.send_batches(io);
    if !is(Mutant::ResumesBeforeItSends) && shard.resume_paused() {
        shard.perform_actions(io);
    }

    io.write_ready(shard);
    shard.write_output(io);
    if shard.state.latency_recorder.has_measurements() {
        shard.state.end_turn_timing(io.now_us());
    }
    // Writing lets waiting messages go on, and may show that a client is gone.
    shard.perform_actions(io);
    shard.state.log.end_frame();
    M::detach_paused_output(&mut shard.state);
    M::end_turn(shard, io);
    if shard.state.tap.traces.has_open() {
        shard.state.end_spans();
    }

    shard.next_turn(io)
}

impl<M: Mode> Shard<M> {
    /// The other shards, from the next one on. A shard that is alone learns that at once.
    #[inline]
    fn others(&self) -> impl Iterator<Item = ShardIndex> + use<M> {
        let (own, count) = (usize::from(self.state.context.shard().0), self.state.outboxes.shards());
        let wrapped = move |at: usize| if at < count { at } else { at - count };
        (1..count).map(move |step| ShardIndex(wrapped(own + step) as u8))
    }

    #[inline]
    fn check_channels(&mut self, io: &mut impl Io<M>) {
        for to in self.others() {
            self.set_room(to, io.room(to));
        }
    }

    /// Does what the engine wants done, oldest first, and what comes of that. Only the turn calls it, so that thousands of
    /// clients who are heard again do not stand on each other's shoulders on the stack.
    #[inline]
    pub(crate) fn perform_actions(&mut self, io: &mut impl Io<M>) {
        while let Some(action) = self.state.connections.next_action() {
            io.perform(self, action);
        }
    }

    /// Takes what other shards have sent, but nothing while the receivers of an earlier batch stand in line.
    fn take_batches(&mut self, io: &mut impl Io<M>) {
        for from in self.others() {
            for _ in 0..BATCHES_MAX {
                if !self.accepts_batches() || !self.state.work_budget.can_transcode() {
                    break;
                }
                let begun = self.partial_batches[usize::from(from.0)].take();
                let Some((batch, done)) = begun.or_else(|| Some((io.next_batch(from)?, 0))) else { break };
                // Its messages have been let in by what its sender has taken on, so it is delivered by nothing older.
                self.apply_config_update();
                self.state.latency_recorder.begin_batch(batch.read_at_us());
                let left = self.receive_batch(from, &batch, done);
                self.state.latency_recorder.end_batch();
                self.state.log.end_large_frame();
                self.partial_batches[usize::from(from.0)] = left.map(|done| (batch, done));
            }
            io.batches_taken(from);
        }
    }

    /// Whether batches of other shards are taken now. While they are not, those that have come are no reason to stay awake: receivers
    /// who stand in line are one, and a log that is behind wakes the shard when it is not.
    #[inline]
    pub fn accepts_batches(&self) -> bool {
        self.state.paused_readers.accepts_batches() && !self.state.log.is_lagging()
    }

    /// Sends batches, unless frames that speak of them wait: what a shard writes of what it has taken stands behind them in the log.
    fn send_batches(&mut self, io: &mut impl Io<M>) {
        if !self.can_send_batches() {
            return;
        }
        for to in self.others() {
            if self.state.outboxes.has_batch(to) {
                self.state.outboxes.set_room(to, io.room(to));
                self.state.outboxes.send(to, |batches| io.send(to, batches));
            }
        }
    }

    #[inline]
    fn can_send_batches(&self) -> bool {
        self.state.log.has_submitted_all()
    }

    /// Reads again from connections that waited for another shard, once that is not behind any more; says whether there are any.
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

    /// Writes each connection's output once: the fresh output of all, then that of some who stand in line. Where that is much,
    /// the others stand in line for the next turns.
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
            // Writing may have let more messages go.
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
        // First of all: from here on others wake us.
        let theirs = io.end_turn(self);
        let mut is_busy = self.is_busy();
        // Where frames wait, the journal wakes the shard.
        let can_send = self.can_send_batches();
        for to in self.others() {
            if can_send && self.state.outboxes.has_batch(to) && !is(Mutant::SleepsOnBatches) {
                is_busy |= io.has_room_or_arm_waker(to);
            }
        }
        match theirs {
            NextTurn::Until(at_ms) if !is_busy => {
                let next = [at_ms, self.next_due_ms(), M::next_due_ms(&self.state)];
                NextTurn::Until(next.into_iter().flatten().min())
            }
            _ => NextTurn::Busy,
        }
    }

    /// Whether the engine itself has something left to do that no event brings back. Batches count only when their way has room.
    fn is_busy(&self) -> bool {
        self.state.connections.has_actions()
            || self.state.connections.dirty_len() > 0
            || (self.has_deferred_fan_outs() && !is(Mutant::SleepsOnFanOuts))
            || (self.partial_batches.iter().any(Option::is_some)
                && self.accepts_batches()
                && !is(Mutant::SleepsOnBegunBatches))
            || (self.can_resume_paused() && !is(Mutant::ResumesBeforeItSends))
            || self.state.paused_readers.any_for_transcoding()
            || self.has_jobs()
            || self.state.clock.has_due()
            || M::has_progress(&self.state)
            || self.state.log.has_unreported_failure()
            || self.state.has_spill_work()
            || self.has_scans()
            || self.state.share_queues.any_unanswered()
            || self.has_contracts_to_publish()
            || self.config_cell.has_update()
            || M::has_work(self)
    }
}
