//! Pausing publishers while the store is behind, and resuming them.

use crate::connection::connections::PauseReason;
use crate::index::ConnectionIndex;
use crate::mode::Mode;
use crate::shard::ShardState;

/// The interval of checks for paused publishers. The store wakes only the shard that it answers.
const CHECK_MS: u64 = 5;

/// Bytes of new messages in a turn before the check for messages to spill, limited by the memory limit.
const TURN_MAX_BYTES: u64 = 4 << 20;

/// Clients resumed in a turn.
const RESUMED_MAX: usize = 64;

impl<M: Mode> ShardState<M> {
    /// Whether half as much again as may be in memory waits for the store, besides what it is writing, which counts up to what may be in
    /// memory: the limits of the account are not to be met first. What can never leave memory may be as much; but then it is writing
    /// nothing, or only what the present turn has brought is to be looked at first.
    #[inline]
    fn is_store_behind(&self) -> bool {
        let writing_bytes = self.context.backlog().moving_bytes(self.clock.now_ms());
        let (loaded_bytes, loaded_max_bytes) = (self.loaded_bytes(), self.spill.loaded_max_bytes);
        self.spill.port.is_some()
            && (writing_bytes > 0 || loaded_bytes > self.spill.looked_at_bytes + TURN_MAX_BYTES.min(loaded_max_bytes))
            && loaded_bytes.saturating_sub(writing_bytes.min(loaded_max_bytes))
                > loaded_max_bytes + loaded_max_bytes / 2
    }

    /// Pauses a publisher if the store is behind. Returns whether it is. QoS 0 messages without RETAIN are not affected, and neither are
    /// packets that can overtake a PUBLISH.
    #[inline]
    pub(crate) fn pause_for_spill(&mut self, index: ConnectionIndex) -> bool {
        let is_behind = self.is_store_behind();
        if is_behind && self.connections[index].pause_reading(PauseReason::Spill) {
            self.counters().clients_paused_for_spill.add(1);
            let id = self.id(index);
            self.paused_readers.wait_for_spill(id);
        }
        is_behind
    }

    /// Whether paused clients can be resumed.
    #[inline]
    pub(in crate::storage::spill) fn can_resume_after_spill(&self) -> bool {
        self.paused_readers.any_for_spill() && !self.is_store_behind()
    }

    /// Resumes paused clients after the check for messages to spill.
    pub(in crate::storage::spill) fn resume_after_spill(&mut self) {
        self.spill.looked_at_bytes = self.loaded_bytes();
        if self.can_resume_after_spill() {
            for _ in 0..RESUMED_MAX {
                let Some(id) = self.paused_readers.next_for_spill() else { return };
                self.resume_reading(id, PauseReason::Spill);
            }
        }
    }

    /// The time of the next check of paused clients.
    pub(in crate::storage::spill) fn next_spill_check_ms(&self) -> Option<u64> {
        self.paused_readers.any_for_spill().then_some(self.clock.now_ms() + CHECK_MS)
    }
}
