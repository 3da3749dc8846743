//! A timer wheel: thousands of deadlines in a ring of slots.

use std::collections::VecDeque;

use crate::index::{ConnectionIndex, SessionIndex};

/// The length of one slot. Timers fire up to this late.
const TICK_MS: u64 = 250;
const SLOTS: usize = 256;

/// The owner of a deadline. An entry is never removed: when it fires, the current owner of the slot sets its next deadline. So
/// a slot has one entry, however many connections reuse it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    Connection(ConnectionIndex),
    Session(SessionIndex),
}

/// A timer wheel of [`SLOTS`] slots. Deadlines further away than one revolution stay in their slot for several revolutions.
#[derive(Debug)]
pub(crate) struct TimerWheel {
    slots: Box<[Vec<(Ticks, Timer)>]>,
    occupied: [u64; SLOTS / 64],
    /// The tick in which the wheel was created. Others are counted from it.
    first: u64,
    /// All ticks before this one have been handled.
    tick: u64,
}

/// Ticks since the wheel was created: enough for 34 years, in half the size of a timestamp. Each connection has an entry.
type Ticks = u32;

impl TimerWheel {
    pub(crate) fn new(now_ms: u64) -> TimerWheel {
        let tick = now_ms / TICK_MS;
        TimerWheel { slots: vec![Vec::new(); SLOTS].into_boxed_slice(), occupied: [0; SLOTS / 64], first: tick, tick }
    }

    /// Arms `timer` for `at_ms`. It fires then or up to one tick later.
    pub(crate) fn arm(&mut self, timer: Timer, at_ms: u64) {
        // A deadline further away fires after these years; its owner then sets it again.
        let ticks = Ticks::try_from(at_ms.div_ceil(TICK_MS).max(self.tick) - self.first).unwrap_or(Ticks::MAX);
        let slot = ((self.first + u64::from(ticks)) % SLOTS as u64) as usize;
        self.slots[slot].push((ticks, timer));
        self.occupied[slot / 64] |= 1 << (slot % 64);
    }

    /// The earliest time at which a timer may be due; `None` if none is armed.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        let from = (self.tick % SLOTS as u64) as usize;
        let words = self.occupied.len();
        (0..=words).find_map(|nth| {
            let word = (from / 64 + nth) % words;
            // The first word is checked twice: from `from` on, and at the end up to it.
            let mask = match nth {
                0 => u64::MAX << (from % 64),
                nth if nth == words => !(u64::MAX << (from % 64)),
                _ => u64::MAX,
            };
            let bits = self.occupied[word] & mask;
            let slot = word * 64 + bits.trailing_zeros() as usize;
            (bits != 0).then(|| (self.tick + ((slot + SLOTS - from) % SLOTS) as u64) * TICK_MS)
        })
    }

    /// Advances to `now_ms` and moves all due timers to `due`.
    #[inline(always)]
    pub(crate) fn expire(&mut self, now_ms: u64, due: &mut VecDeque<Timer>) {
        let now = now_ms / TICK_MS;
        if now >= self.tick {
            self.advance_to(now, due);
        }
    }

    // Most turns of a busy shard are in the same tick as the previous one and skip this.
    #[inline(never)]
    fn advance_to(&mut self, now: u64, due: &mut VecDeque<Timer>) {
        let last = (now - self.tick).min(SLOTS as u64 - 1);
        for ahead in 0..=last {
            let slot = ((self.tick + ahead) % SLOTS as u64) as usize;
            if self.occupied[slot / 64] & 1 << (slot % 64) == 0 {
                continue;
            }
            let entries = &mut self.slots[slot];
            let elapsed = now - self.first;
            entries.retain(|(ticks, timer)| {
                let is_due = u64::from(*ticks) <= elapsed;
                if is_due {
                    due.push_back(*timer);
                }
                !is_due
            });
            if entries.is_empty() {
                *entries = Vec::new();
                self.occupied[slot / 64] &= !(1 << (slot % 64));
            }
        }
        self.tick = now + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timer(number: usize) -> Timer {
        Timer::Session(SessionIndex::new(number).expect("a valid index"))
    }

    #[test]
    fn timers_expire_once_and_never_early() {
        let start_ms = 1_000_000;
        let mut wheel = TimerWheel::new(start_ms);
        assert_eq!(wheel.next_ms(), None);
        let delays_ms = [1, 249, 250, 1_000, 63_999, 64_000, 64_001, 500_000];
        for (index, delay_ms) in delays_ms.iter().enumerate() {
            wheel.arm(timer(index), start_ms + delay_ms);
        }
        let mut seen = vec![None; delays_ms.len()];
        let mut now_ms = start_ms;
        while now_ms < start_ms + 600_000 {
            let mut due = VecDeque::new();
            wheel.expire(now_ms, &mut due);
            for timer in due {
                let Timer::Session(index) = timer else { panic!("only sessions") };
                assert_eq!(seen[index.number()].replace(now_ms), None);
            }
            now_ms += 100;
        }
        for (index, delay_ms) in delays_ms.iter().enumerate() {
            let at_ms = seen[index].expect("the timer fired");
            assert!(
                at_ms >= start_ms + delay_ms && at_ms < start_ms + delay_ms + TICK_MS + 100,
                "{delay_ms} at {at_ms}"
            );
        }
        assert_eq!(wheel.next_ms(), None);
    }

    #[test]
    fn a_deadline_takes_twelve_bytes_and_can_be_centuries_ahead() {
        assert_eq!(size_of::<(Ticks, Timer)>(), 12);
        let start_ms = 1_900_000_000_000;
        let mut wheel = TimerWheel::new(start_ms);
        wheel.arm(timer(0), u64::MAX);
        let mut due = VecDeque::new();
        wheel.expire(start_ms + 1_000 * 86_400 * 365 * 30, &mut due);
        assert!(due.is_empty() && wheel.next_ms().is_some());
        wheel.expire(start_ms + 1_000 * 86_400 * 365 * 35, &mut due);
        assert_eq!(due, [timer(0)]);
    }

    #[test]
    fn a_long_pause_loses_no_timers() {
        let mut wheel = TimerWheel::new(0);
        for index in 0..1000 {
            wheel.arm(timer(index), index as u64 * 77);
        }
        let mut due = VecDeque::new();
        wheel.expire(10_000_000, &mut due);
        assert_eq!(due.len(), 1000);
    }
}
