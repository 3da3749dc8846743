//! Limits the rate of log lines that the network can trigger.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::now_ms;

/// The interval between lines of one kind. Suppressed events are counted elsewhere.
const PAUSE_MS: u64 = 10_000;

/// Allows a log line now and then.
#[derive(Debug, Default)]
pub(crate) struct LogLimiter {
    /// 0 before the first time.
    next_ms: AtomicU64,
}

impl LogLimiter {
    pub(crate) fn should_log(&self) -> bool {
        let (now_ms, next_ms) = (now_ms(), self.next_ms.load(Ordering::Relaxed));
        let next = now_ms + PAUSE_MS;
        next_ms <= now_ms && self.next_ms.compare_exchange(next_ms, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}
