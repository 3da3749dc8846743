//! The time of a shard, and its deadlines.

use std::collections::VecDeque;

use crate::scheduling::timer_wheel::{Timer, TimerWheel};

/// A deadline further away is checked before it is due: entries are never removed from the wheel, so an entry for a distant
/// time would stay long after its connection or session has ended.
const RECHECK_MS: u64 = 60_000;

/// The current time and the deadlines of a shard.
#[derive(Debug)]
pub(crate) struct Clock {
    now_ms: u64,
    wheel: TimerWheel,
    /// Due timers that no turn has handled yet.
    due: VecDeque<Timer>,
}

impl Clock {
    pub(crate) fn new(now_ms: u64) -> Clock {
        Clock { now_ms, wheel: TimerWheel::new(now_ms), due: VecDeque::new() }
    }

    /// Sets the current time.
    #[inline]
    pub(crate) fn set(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    /// The current time in milliseconds since the Unix epoch.
    #[inline]
    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Ensures that the owner of `timer` is checked no later than `at_ms`. `arm` gets the time of the check, and returns whether it
    /// needs a new entry in the wheel: not if the owner has an earlier one.
    pub(crate) fn arm(&mut self, timer: Timer, at_ms: u64, arm: impl FnOnce(u64) -> bool) {
        let at_ms = at_ms.min(self.now_ms + RECHECK_MS);
        if arm(at_ms) {
            self.wheel.arm(timer, at_ms);
        }
    }

    /// Collects the timers that are due.
    #[inline(always)]
    pub(crate) fn collect_due(&mut self) {
        self.wheel.expire(self.now_ms, &mut self.due);
    }

    /// Whether there are due timers that have not been handled yet.
    #[inline]
    pub(crate) fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Takes the next due timer.
    pub(crate) fn next_due(&mut self) -> Option<Timer> {
        self.due.pop_front()
    }

    /// The earliest time at which a timer may be due; `None` if there is none.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        self.wheel.next_ms()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::ConnectionIndex;

    const NOW_MS: u64 = 1_700_000_000_000;

    fn timer() -> Timer {
        Timer::Connection(ConnectionIndex::new(0).expect("a valid index"))
    }

    #[test]
    fn a_far_deadline_is_rechecked_early() {
        let mut clock = Clock::new(NOW_MS);
        let mut armed_ms = 0;
        clock.arm(timer(), NOW_MS + 10 * RECHECK_MS, |at_ms| {
            armed_ms = at_ms;
            true
        });
        assert_eq!(armed_ms, NOW_MS + RECHECK_MS);
        clock.set(armed_ms);
        clock.collect_due();
        assert_eq!(clock.next_due(), Some(timer()));
        assert_eq!((clock.has_due(), clock.next_ms()), (false, None));
    }

    #[test]
    fn an_earlier_entry_is_reused() {
        let mut clock = Clock::new(NOW_MS);
        clock.arm(timer(), NOW_MS + 1_000, |_| false);
        assert_eq!(clock.next_ms(), None);
    }
}
