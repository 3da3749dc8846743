//! The pauses between attempts to connect.

use std::time::Duration;

use crate::identity::random;

/// An attempt that was connected for this long is no failure.
const STABLE: Duration = Duration::from_secs(10);

/// Counts failures in a row.
#[derive(Debug)]
pub(super) struct Backoff {
    min: Duration,
    max: Duration,
    failures: u32,
}

impl Backoff {
    pub(super) fn new(min: Duration, max: Duration) -> Backoff {
        Backoff { min, max: max.max(min), failures: 0 }
    }

    /// The pause after an attempt that was connected for this long: random between half and all of the doubled pause before.
    pub(super) fn next(&mut self, connected: Duration) -> Duration {
        if connected >= STABLE {
            self.failures = 0;
        }
        let full = self.min.saturating_mul(1 << self.failures.min(20)).min(self.max);
        self.failures = self.failures.saturating_add(1);
        let mut byte = [0];
        // Without random numbers, the pause is the shortest one.
        let _ = random(&mut byte);
        full / 2 + full / 2 * u32::from(byte[0]) / u32::from(u8::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_maximum() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(10));
        for full_s in [1, 2, 4, 8, 10, 10] {
            let full = Duration::from_secs(full_s);
            let pause = backoff.next(Duration::ZERO);
            assert!(pause >= full / 2 && pause <= full, "{pause:?} of {full:?}");
        }
        assert!(backoff.next(STABLE) <= Duration::from_secs(1));
    }
}
