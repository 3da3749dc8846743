//! Failed logins: after repeated failures the next attempt has to wait.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Failures without a penalty: people mistype.
const FREE_FAILURES: u32 = 3;
/// Wait after the first failure with a penalty; it doubles with each.
const WAIT_FIRST: Duration = Duration::from_secs(1);
/// Longest wait. An attacker who fails on purpose locks a user out no longer than this, and never the holder of a token.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Failures are forgotten after this long without another.
const EXPIRY: Duration = Duration::from_secs(900);
/// Limit for tracked names. Beyond it, the name whose wait ended first is dropped.
const NAMES_MAX: usize = 1_024;

/// Failures by name.
#[derive(Debug, Default)]
pub(super) struct Attempts(Mutex<HashMap<Box<str>, Failures>>);

#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u32,
    last: Instant,
}

impl Failures {
    fn wait(self) -> Duration {
        match self.count.checked_sub(FREE_FAILURES) {
            None => Duration::ZERO,
            Some(more) => WAIT_FIRST.saturating_mul(1 << more.min(16)).min(WAIT_MAX),
        }
    }
}

impl Attempts {
    /// The remaining wait of this name; `None` if there is none.
    pub(super) fn wait(&self, name: &str, now: Instant) -> Option<Duration> {
        let failures = *self.locked().get(name)?;
        failures.wait().checked_sub(now.saturating_duration_since(failures.last)).filter(|left| !left.is_zero())
    }

    /// Records a failed login.
    pub(super) fn failed(&self, name: &str, now: Instant) {
        let mut names = self.locked();
        if names.len() >= NAMES_MAX && !names.contains_key(name) {
            names.retain(|_, failures| now.saturating_duration_since(failures.last) < EXPIRY);
            let first = names.iter().min_by_key(|(_, failures)| failures.last + failures.wait());
            if let Some(first) = first.map(|(name, _)| name.clone()).filter(|_| names.len() >= NAMES_MAX) {
                names.remove(&first);
            }
        }
        let failures = names.entry(name.into()).or_insert(Failures { count: 0, last: now });
        if now.saturating_duration_since(failures.last) >= EXPIRY {
            failures.count = 0;
        }
        *failures = Failures { count: failures.count.saturating_add(1), last: now };
    }

    /// Resets the failures of this name.
    pub(super) fn succeeded(&self, name: &str) {
        self.locked().remove(name);
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<Box<str>, Failures>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_increases_the_delay_up_to_a_limit() {
        let (attempts, start) = (Attempts::default(), Instant::now());
        let mut waits = Vec::new();
        for _ in 0..12 {
            attempts.failed("ann", start);
            waits.push(attempts.wait("ann", start).unwrap_or_default().as_secs());
        }
        assert_eq!(waits, [0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60]);
        assert_eq!(attempts.wait("bob", start), None);
        assert_eq!(attempts.wait("ann", start + Duration::from_secs(59)), Some(Duration::from_secs(1)));
        assert_eq!(attempts.wait("ann", start + WAIT_MAX), None);
        attempts.failed("ann", start + EXPIRY);
        assert_eq!(attempts.wait("ann", start + EXPIRY), None, "the count starts again");
        attempts.failed("bob", start);
        attempts.succeeded("bob");
        assert_eq!(attempts.locked().len(), 1);
    }

    #[test]
    fn tracked_names_are_bounded_and_delayed_names_are_retained() {
        let (attempts, start) = (Attempts::default(), Instant::now());
        for _ in 0..10 {
            attempts.failed("waits", start);
        }
        for number in 0..2 * NAMES_MAX {
            attempts.failed(&number.to_string(), start);
        }
        assert_eq!(attempts.locked().len(), NAMES_MAX);
        assert!(attempts.wait("waits", start).is_some());
    }
}
