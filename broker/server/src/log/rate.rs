//! The rate limit for audit events of unauthenticated clients.

use std::time::Instant;

/// Bytes per second: some hundred lines, or 5 GiB a day.
const BYTES_PER_S: u64 = 64 << 10;
/// Burst size: all clients of a large broker may be refused at once.
const BURST_BYTES: u64 = 16 << 20;

/// A token bucket for bytes.
pub(super) struct ByteRateLimiter {
    level_bytes: u64,
    filled_at: Instant,
    /// Lines rejected since the last call of `take_suppressed`.
    suppressed: u64,
}

impl ByteRateLimiter {
    pub(super) fn new(now: Instant) -> ByteRateLimiter {
        ByteRateLimiter { level_bytes: BURST_BYTES, filled_at: now, suppressed: 0 }
    }

    /// Whether a line of this size may be written.
    pub(super) fn admit(&mut self, bytes: usize, now: Instant) -> bool {
        let elapsed_ms = u64::try_from(now.saturating_duration_since(self.filled_at).as_millis()).unwrap_or(u64::MAX);
        let refill = elapsed_ms.saturating_mul(BYTES_PER_S) / 1_000;
        if refill > 0 {
            self.level_bytes = self.level_bytes.saturating_add(refill).min(BURST_BYTES);
            self.filled_at = now;
        }
        let left = self.level_bytes.checked_sub(bytes as u64);
        self.level_bytes = left.unwrap_or(self.level_bytes);
        self.suppressed += u64::from(left.is_none());
        left.is_some()
    }

    /// Returns and resets the number of rejected lines.
    pub(super) fn take_suppressed(&mut self) -> u64 {
        std::mem::take(&mut self.suppressed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_burst_passes_and_then_the_rate_applies() {
        let start = Instant::now();
        let mut limiter = ByteRateLimiter::new(start);
        let mut passed = |lines: usize, at_ms| {
            let now = start + Duration::from_millis(at_ms);
            (0..lines).filter(|_| limiter.admit(1_024, now)).count()
        };
        assert_eq!(passed(20_000, 0), 16 << 10);
        assert_eq!(passed(100, 1), 0, "not enough for a line yet");
        assert_eq!(passed(100, 1_001), 64, "fractions accumulate");
        assert_eq!(passed(20_000, 1_000_000), 16 << 10, "no more than the burst after a long pause");
        assert_eq!(passed(1, 900_000), 0, "a clock that goes back refills nothing");
        assert_eq!((limiter.take_suppressed(), limiter.take_suppressed()), (3_616 + 100 + 36 + 3_616 + 1, 0));
    }
}
