//! The clock of the broker.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The end of the year 9999. Later times are not represented, so additions cannot overflow.
const LATEST_MS: u64 = 253_402_300_799_999;

/// Unix time in milliseconds as of the start, advanced by the monotonic clock: it is comparable across restarts, and never goes back, not
/// even to before what an earlier run has stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    started: Instant,
    started_ms: u64,
}

/// A point in time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Now {
    /// Milliseconds since the Unix epoch.
    pub(crate) ms: u64,
    /// Microseconds since the start.
    pub(crate) us: u64,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Clock { started: Instant::now(), started_ms: since_epoch.as_millis() as u64 }
    }

    /// Returns a clock that starts no earlier than `last_ms`, in case the system clock was set back since, and by how much it was.
    pub(crate) fn not_before(self, last_ms: u64) -> (Clock, Duration) {
        let behind_ms = last_ms.min(LATEST_MS).saturating_sub(self.now_ms());
        (Clock { started_ms: self.started_ms + behind_ms, ..self }, Duration::from_millis(behind_ms))
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.now().ms
    }

    /// Returns the current time in both units.
    pub(crate) fn now(&self) -> Now {
        let us = self.now_us();
        Now { ms: self.started_ms + us / 1_000, us }
    }

    /// Microseconds since the start.
    pub(crate) fn now_us(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }
}
