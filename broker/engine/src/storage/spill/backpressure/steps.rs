//! What [`super`] does with several parts of a shard.

use crate::connection::connections::PauseReason;
use crate::index::ConnectionIndex;
use crate::mode::Mode;
use crate::shard::ShardState;

/// The store wakes only the shard that it answers. Those who wait on another one are heard after so long.
const CHECK_MS: u64 = 5;

/// Bytes of messages that come in a turn before it is looked which can leave memory, but no more than may stay there.
const TURN_MAX_BYTES: u64 = 4 << 20;

/// Clients heard again in a turn.
const RESUMED_MAX: usize = 64;

impl<M: Mode> ShardState<M> {
    /// Whether half as much again as may be in memory waits for the store, besides what it is writing, which counts up to what may be in
    /// memory: the limits of the account are not to be met first. What can never leave memory may be as much; but then it is writing
    /// nothing, or only what the present turn has brought is to be looked at first.
    #[inline]
    fn is_store_behind(&self) -> bool {
        let writing_bytes = self.context.backlog().moving_bytes(self.clock.now_ms());
        let (hot_bytes, loaded_max_bytes) = (self.hot_bytes(), self.spill.loaded_max_bytes);
        self.spill.port.is_some()
            && (writing_bytes > 0 || hot_bytes > self.spill.looked_at_bytes + TURN_MAX_BYTES.min(loaded_max_bytes))
            && hot_bytes.saturating_sub(writing_bytes.min(loaded_max_bytes)) > loaded_max_bytes + loaded_max_bytes / 2
    }

    /// Has a PUBLISH wait whose message would stay in memory because the store is behind; says whether that is so. Messages of QoS 0 that are
    /// not to be retained go on, and so does what can overtake a PUBLISH.
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

    /// Whether some who wait may be heard.
    #[inline]
    pub(in crate::storage::spill) fn can_resume_after_spill(&self) -> bool {
        self.paused_readers.any_for_spill() && !self.is_store_behind()
    }

    /// It has been looked what could leave memory.
    pub(in crate::storage::spill) fn resume_after_spill(&mut self) {
        self.spill.looked_at_bytes = self.hot_bytes();
        if self.can_resume_after_spill() {
            for _ in 0..RESUMED_MAX {
                let Some(id) = self.paused_readers.next_for_spill() else { return };
                self.resume_reading(id, PauseReason::Spill);
            }
        }
    }

    /// When it is looked again whether some may be heard.
    pub(in crate::storage::spill) fn next_spill_check_ms(&self) -> Option<u64> {
        self.paused_readers.any_for_spill().then_some(self.clock.now_ms() + CHECK_MS)
    }
}
