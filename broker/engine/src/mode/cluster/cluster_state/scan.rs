//! A periodic scan of all session slots, in steps.

use std::ops::Range;

/// The number of steps in a round.
const STEPS: u64 = 64;

#[derive(Debug, Default)]
pub(super) struct SessionScan {
    /// When the next step is due; `None` while there is nothing to scan.
    next_ms: Option<u64>,
    /// Slots before this one were scanned in this round.
    at: usize,
}

impl SessionScan {
    /// Starts a scan with one round every `every_ms`.
    pub(super) fn begin(&mut self, now_ms: u64, every_ms: u64) {
        self.next_ms.get_or_insert(now_ms + every_ms / STEPS);
    }

    /// The slots to scan now, out of `slots`. Without any, the scan stops until it is started again.
    pub(super) fn next(&mut self, slots: usize, now_ms: u64, every_ms: u64) -> Range<usize> {
        if self.next_ms.is_none_or(|next_ms| now_ms < next_ms) {
            return 0..0;
        }
        if slots == 0 {
            *self = SessionScan::default();
            return 0..0;
        }
        self.next_ms = Some(now_ms + every_ms / STEPS);
        let from = if self.at < slots { self.at } else { 0 };
        self.at = slots.min(from + slots.div_ceil(STEPS as usize));
        from..self.at
    }

    pub(super) fn next_ms(&self) -> Option<u64> {
        self.next_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY_MS: u64 = 60_000;

    #[test]
    fn each_slot_is_checked_once_in_a_round() {
        for slots in [1, 63, 64, 65, 1_000] {
            let (mut scan, mut visits) = (SessionScan::default(), vec![0; slots]);
            assert!(scan.next(slots, u64::MAX, EVERY_MS).is_empty(), "it has not started");
            scan.begin(0, EVERY_MS);
            let mut now_ms = 0;
            while visits.contains(&0) {
                now_ms = scan.next_ms().expect("a next step");
                scan.next(slots, now_ms, EVERY_MS).for_each(|slot| visits[slot] += 1);
                assert!(scan.next(slots, now_ms, EVERY_MS).is_empty(), "one step at a time");
            }
            assert!(now_ms <= EVERY_MS && visits.iter().all(|count| *count == 1), "{slots} slots until {now_ms}");
        }
    }

    #[test]
    fn removed_slots_are_skipped() {
        let mut scan = SessionScan::default();
        scan.begin(0, EVERY_MS);
        while scan.at < 900 {
            let now_ms = scan.next_ms().expect("a next step");
            scan.next(1_000, now_ms, EVERY_MS);
        }
        assert_eq!(scan.next(64, 1 << 40, EVERY_MS), 0..1);
        assert_eq!((scan.next(0, 1 << 50, EVERY_MS), scan.next_ms()), (0..0, None), "an empty scan stops");
    }
}
