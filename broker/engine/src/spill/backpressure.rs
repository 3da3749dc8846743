//! Publishers wait while messages come faster than the store writes them, so that there is an end to what is in memory.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::connections::PauseReason;
use crate::index::ConnectionIndex;
use crate::mode::Mode;
use crate::state::ShardState;

/// Once the store has answered no shard for so long, nobody waits for it: the account of memory refuses what is too much.
const STALLED_MS: u64 = 10_000;
/// The store wakes only the shard that it answers. Those who wait on another one are heard after so long.
const CHECK_MS: u64 = 5;
/// Bytes of messages that come in a turn before it is looked which can leave memory, but no more than may stay there.
const TURN_MAX_BYTES: u64 = 4 << 20;
/// Clients heard again in a turn.
const RESUMED_MAX: usize = 64;

/// What the store has been given to write by all shards. A publisher's messages may be for sessions of any of them.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    bytes: AtomicU64,
    /// When there was none, or the store last answered.
    moved_ms: AtomicU64,
}

impl Backlog {
    pub(super) fn add(&self, bytes: usize, now_ms: u64) {
        if self.bytes.fetch_add(bytes as u64, Ordering::Relaxed) == 0 {
            self.moved_ms.store(now_ms, Ordering::Relaxed);
        }
    }

    pub(super) fn take(&self, bytes: usize, now_ms: u64) {
        self.bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
        self.moved_ms.store(now_ms, Ordering::Relaxed);
    }

    /// What it is about to have written; 0 where that stands still.
    #[inline]
    fn moving_bytes(&self, now_ms: u64) -> u64 {
        let bytes = self.bytes.load(Ordering::Relaxed);
        if bytes > 0 && now_ms < self.moved_ms.load(Ordering::Relaxed) + STALLED_MS { bytes } else { 0 }
    }
}

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
            self.counters().clients_paused_for_cold.add(1);
            let id = self.id(index);
            self.paused_readers.wait_for_spill(id);
        }
        is_behind
    }

    /// Whether some who wait may be heard.
    #[inline]
    pub(super) fn can_resume_after_spill(&self) -> bool {
        self.paused_readers.any_for_spill() && !self.is_store_behind()
    }

    /// It has been looked what could leave memory.
    pub(super) fn resume_after_spill(&mut self) {
        self.spill.looked_at_bytes = self.hot_bytes();
        if self.can_resume_after_spill() {
            for _ in 0..RESUMED_MAX {
                let Some(id) = self.paused_readers.next_for_spill() else { return };
                self.resume_reading(id, PauseReason::Spill);
            }
        }
    }

    /// When it is looked again whether some may be heard.
    pub(super) fn next_spill_check_ms(&self) -> Option<u64> {
        self.paused_readers.any_for_spill().then_some(self.clock.now_ms() + CHECK_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_does_not_answer_is_not_waited_for_for_ever() {
        let backlog = Backlog::default();
        assert_eq!(backlog.moving_bytes(0), 0);
        backlog.add(100, 1_000);
        backlog.add(50, 5_000);
        assert_eq!(backlog.moving_bytes(1_000 + STALLED_MS - 1), 150);
        assert_eq!(backlog.moving_bytes(1_000 + STALLED_MS), 0);
        backlog.take(100, 20_000);
        assert_eq!(backlog.moving_bytes(20_000), 50, "it goes on");
        backlog.take(50, 20_000);
        assert_eq!(backlog.moving_bytes(20_000), 0);
        backlog.add(1, 90_000);
        assert_eq!(backlog.moving_bytes(90_001), 1, "it had nothing to do meanwhile");
    }
}
