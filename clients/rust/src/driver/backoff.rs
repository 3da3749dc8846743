//! The delay before the next attempt.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use crate::Reconnect;

/// The minimum duration of a stable connection. Shorter ones count as failures, so that the client does not keep reconnecting
/// to a server that accepts it and then drops it at once.
const STABLE: Duration = Duration::from_secs(5);

/// Counts consecutive failures.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// An accepted connection has ended; after a stable one the failure count starts again.
    pub(super) fn connection_ended(&mut self, lasted: Duration) {
        if lasted >= STABLE {
            self.failures = 0;
        }
    }

    /// The delay after another failure.
    pub(super) fn next(&mut self, reconnect: Reconnect) -> Duration {
        let random = RandomState::new().hash_one(self.failures);
        self.next_with(reconnect, random)
    }

    fn next_with(&mut self, reconnect: Reconnect, random: u64) -> Duration {
        let full = reconnect.min.saturating_mul(1u32.checked_shl(self.failures.min(31)).unwrap_or(u32::MAX));
        self.failures = self.failures.saturating_add(1);
        let full = full.min(reconnect.max);
        // Random between half and all of it.
        full / 2 + (full / 2).mul_f64((random >> 11) as f64 / (1u64 << 53) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_maximum_with_jitter() {
        let reconnect = Reconnect { min: Duration::from_millis(100), max: Duration::from_secs(1) };
        for random in [0, u64::MAX] {
            let mut backoff = Backoff::default();
            for full_ms in [100, 200, 400, 800, 1000, 1000] {
                let waited = backoff.next_with(reconnect, random);
                let full = Duration::from_millis(full_ms);
                assert!(waited >= full / 2 && waited <= full, "{waited:?} of {full:?}");
            }
            let before = backoff.failures;
            backoff.connection_ended(Duration::from_secs(1));
            assert_eq!(backoff.failures, before, "the connection was too short");
            backoff.connection_ended(STABLE);
            assert!(backoff.next_with(reconnect, random) <= reconnect.min);
            for _ in 0..100 {
                assert!(backoff.next_with(reconnect, random) <= reconnect.max);
            }
        }
    }
}
