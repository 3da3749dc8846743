//! The time of a shard, as its surroundings tell it, and what comes due.

use std::collections::VecDeque;

use crate::scheduling::timer_wheel::{Timer, TimerWheel};

/// A deadline further away is looked at before it comes: entries are never taken out of the wheel, so one for a far moment
/// would stay long after its connection or session.
const RECHECK_MS: u64 = 60_000;

/// What time it is, and which deadlines there are.
#[derive(Debug)]
pub(crate) struct Clock {
    now_ms: u64,
    wheel: TimerWheel,
    /// Deadlines that have come, and that no turn has met yet.
    due: VecDeque<Timer>,
}

impl Clock {
    pub(crate) fn new(now_ms: u64) -> Clock {
        Clock { now_ms, wheel: TimerWheel::new(now_ms), due: VecDeque::new() }
    }

    /// The surroundings say what time it is.
    #[inline]
    pub(crate) fn set(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    /// Milliseconds since the Unix epoch.
    #[inline]
    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Makes sure that whoever `timer` belongs to is looked at no later than `at_ms`. `arm` is told when that will be, and says whether
    /// it needs an entry of its own: whoever has a sooner one does not.
    pub(crate) fn arm(&mut self, timer: Timer, at_ms: u64, arm: impl FnOnce(u64) -> bool) {
        let at_ms = at_ms.min(self.now_ms + RECHECK_MS);
        if arm(at_ms) {
            self.wheel.arm(timer, at_ms);
        }
    }

    /// Finds the deadlines that have come.
    #[inline(always)]
    pub(crate) fn collect_due(&mut self) {
        self.wheel.expire(self.now_ms, &mut self.due);
    }

    /// Whether deadlines that have come have not been met yet.
    #[inline]
    pub(crate) fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// The next deadline that has come, for whoever meets it.
    pub(crate) fn next_due(&mut self) -> Option<Timer> {
        self.due.pop_front()
    }

    /// When the next deadline may come; `None` while there is none.
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
        Timer::Connection(ConnectionIndex::new(0).expect("a place"))
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
