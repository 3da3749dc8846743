//! Faults at random times, from a seed.

use std::time::{Duration, Instant};

use super::DEADLINE;

/// Numbers that a seed determines (xorshift).
pub(crate) struct Random(u64);

impl Random {
    /// The seed is that of `CONNECT_SEED`, or the time. It is printed, to repeat a run.
    pub(crate) fn new() -> Random {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let seed = super::number("CONNECT_SEED", now.as_nanos() as u64);
        println!("CONNECT_SEED={seed}");
        Random(seed | 1)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    /// The time until the next fault: usually long enough to recover from the last one.
    pub(crate) fn pause(&mut self) -> Duration {
        let limit_ms = if self.below(4) == 0 { 200 } else { 3000 };
        Duration::from_millis(self.below(limit_ms))
    }
}

/// Fails a test whose sink stores nothing more.
pub(crate) struct Progress {
    stored: u64,
    since: Instant,
}

impl Progress {
    pub(crate) fn new() -> Progress {
        Progress { stored: 0, since: Instant::now() }
    }

    /// Notes how many different messages the target has; returns whether it has all of them.
    pub(crate) fn has_all(&mut self, stored: u64, count: u64) -> bool {
        if stored > self.stored {
            *self = Progress { stored, since: Instant::now() };
        }
        assert!(self.since.elapsed() < DEADLINE, "the target has {stored} of {count} messages, and gets no more");
        stored >= count
    }
}
