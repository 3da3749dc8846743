//! Faults at random times, from a seed.

use std::time::Duration;

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

    /// The time until the next fault.
    pub(crate) fn pause(&mut self) -> Duration {
        Duration::from_millis(50 + self.below(700))
    }
}
