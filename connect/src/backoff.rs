//! The delays between attempts.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The delay after the first failure.
const FIRST: Duration = Duration::from_millis(100);
/// The longest delay.
const LONGEST: Duration = Duration::from_secs(10);

/// Doubles from [`FIRST`] to [`LONGEST`]; each delay is random between half and all of that value.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The delay before the next attempt.
    pub(crate) fn next(&mut self) -> Duration {
        let delay = FIRST.saturating_mul(1 << self.failures.min(16)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        // Each hasher of the standard library has another seed.
        let random = RandomState::new().hash_one(self.failures) as u32;
        delay / 2 + (delay / 2).mul_f64(f64::from(random) / f64::from(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_and_have_a_maximum() {
        let mut backoff = Backoff::default();
        let first = backoff.next();
        assert!(first >= FIRST / 2 && first <= FIRST, "{first:?}");
        let last = (0..40).map(|_| backoff.next()).last().unwrap_or_default();
        assert!(last >= LONGEST / 2 && last <= LONGEST, "{last:?}");
    }
}
