//! Helpers for time and waiting.

use std::ops::RangeInclusive;
use std::thread;
use std::time::{Duration, Instant};

use super::EXPECT_TIMEOUT;

/// Waits in real time, since the standard counts seconds: an expiry is due only after it.
///
/// Never a way to wait for the broker to do something.
pub(crate) fn sleep(duration: Duration) {
    thread::sleep(duration);
}

/// The remaining Message Expiry Interval of `interval_s` that started after `since`, however slow the machine is: the broker rounds to
/// seconds, and so does this.
pub(crate) fn remaining_expiry(interval_s: u32, since: Instant) -> RangeInclusive<u32> {
    let passed_s = u32::try_from(since.elapsed().as_secs() + 2).unwrap_or(u32::MAX);
    interval_s.saturating_sub(passed_s)..=interval_s
}

/// Waits for a condition that other threads bring about.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + EXPECT_TIMEOUT;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: not within {EXPECT_TIMEOUT:?}");
        thread::yield_now();
    }
}
