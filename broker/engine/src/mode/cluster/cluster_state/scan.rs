//! Each place is looked at once in a while, some of them at a time, so that none has to say when its turn is.

use std::ops::Range;

/// In so many steps all places are looked at.
const STEPS: u64 = 64;

#[derive(Debug, Default)]
pub(super) struct SessionScan {
    /// When the next step is due; `None` where there was nothing to look at.
    next_ms: Option<u64>,
    /// Places before this one have been looked at in this round.
    at: usize,
}

impl SessionScan {
    /// There is something to look at every `every_ms`.
    pub(super) fn begin(&mut self, now_ms: u64, every_ms: u64) {
        self.next_ms.get_or_insert(now_ms + every_ms / STEPS);
    }

    /// Those of so many places that are looked at now. Without places, nothing is due before it begins again.
    pub(super) fn next(&mut self, places: usize, now_ms: u64, every_ms: u64) -> Range<usize> {
        if self.next_ms.is_none_or(|next_ms| now_ms < next_ms) {
            return 0..0;
        }
        if places == 0 {
            *self = SessionScan::default();
            return 0..0;
        }
        self.next_ms = Some(now_ms + every_ms / STEPS);
        let from = if self.at < places { self.at } else { 0 };
        self.at = places.min(from + places.div_ceil(STEPS as usize));
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
    fn each_place_is_looked_at_once_in_a_round() {
        for places in [1, 63, 64, 65, 1_000] {
            let (mut rounds, mut looks) = (SessionScan::default(), vec![0; places]);
            assert!(rounds.next(places, u64::MAX, EVERY_MS).is_empty(), "it has not begun");
            rounds.begin(0, EVERY_MS);
            let mut now_ms = 0;
            while looks.contains(&0) {
                now_ms = rounds.next_ms().expect("it goes on");
                rounds.next(places, now_ms, EVERY_MS).for_each(|place| looks[place] += 1);
                assert!(rounds.next(places, now_ms, EVERY_MS).is_empty(), "one step at a time");
            }
            assert!(now_ms <= EVERY_MS && looks.iter().all(|count| *count == 1), "{places} places until {now_ms}");
        }
    }

    #[test]
    fn places_that_are_gone_are_passed_over() {
        let mut rounds = SessionScan::default();
        rounds.begin(0, EVERY_MS);
        while rounds.at < 900 {
            let now_ms = rounds.next_ms().expect("it goes on");
            rounds.next(1_000, now_ms, EVERY_MS);
        }
        assert_eq!(rounds.next(64, 1 << 40, EVERY_MS), 0..1);
        assert_eq!((rounds.next(0, 1 << 50, EVERY_MS), rounds.next_ms()), (0..0, None), "nobody is woken for nothing");
    }
}
