//! Backpressure: publishers are paused while messages arrive faster than the store writes them.

mod steps;

use std::sync::atomic::{AtomicU64, Ordering};

/// After this time without an answer from the store, publishers do not wait for it. The memory budget refuses the excess.
const STALLED_MS: u64 = 10_000;

/// The bytes that all shards have given to the store to write. A publisher's messages may be for sessions of any shard.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    bytes: AtomicU64,
    /// When the backlog was last empty, or the store last answered.
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

    /// The bytes being written; 0 if the store has stalled.
    #[inline]
    fn moving_bytes(&self, now_ms: u64) -> u64 {
        let bytes = self.bytes.load(Ordering::Relaxed);
        if bytes > 0 && now_ms < self.moved_ms.load(Ordering::Relaxed) + STALLED_MS { bytes } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_an_unresponsive_store_has_a_timeout() {
        let backlog = Backlog::default();
        assert_eq!(backlog.moving_bytes(0), 0);
        backlog.add(100, 1_000);
        backlog.add(50, 5_000);
        assert_eq!(backlog.moving_bytes(1_000 + STALLED_MS - 1), 150);
        assert_eq!(backlog.moving_bytes(1_000 + STALLED_MS), 0);
        backlog.take(100, 20_000);
        assert_eq!(backlog.moving_bytes(20_000), 50, "the store answers again");
        backlog.take(50, 20_000);
        assert_eq!(backlog.moving_bytes(20_000), 0);
        backlog.add(1, 90_000);
        assert_eq!(backlog.moving_bytes(90_001), 1, "it had nothing to do meanwhile");
    }
}
