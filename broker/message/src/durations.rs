//! Latency histograms.

use std::sync::atomic::{AtomicU64, Ordering};

/// Four for each doubling, up to about a minute.
const BUCKETS: usize = 104;
/// Buckets per doubling, as a power of two.
const PARTS_LOG2: u32 = 2;
const PARTS: u64 = 1 << PARTS_LOG2;

/// A histogram of durations. Only one thread writes, so counting costs a plain addition; any thread may read.
#[derive(Debug)]
pub struct DurationCounts {
    counts: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
}

impl Default for DurationCounts {
    fn default() -> Self {
        DurationCounts { counts: [const { AtomicU64::new(0) }; BUCKETS], sum_us: AtomicU64::new(0) }
    }
}

impl DurationCounts {
    /// Counts `times` durations of `took_us` each. Only one thread may call it.
    #[inline]
    pub fn count(&self, took_us: u64, times: u64) {
        let add = |counter: &AtomicU64, more: u64| {
            counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        };
        add(&self.counts[bucket(took_us)], times);
        add(&self.sum_us, took_us.wrapping_mul(times));
    }

    /// A snapshot of the counts.
    pub fn read(&self) -> Durations {
        let counts = self.counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        Durations { counts, sum_us: self.sum_us.load(Ordering::Relaxed) }
    }
}

/// A snapshot of a histogram of durations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Durations {
    counts: [u64; BUCKETS],
    sum_us: u64,
}

impl Default for Durations {
    fn default() -> Self {
        Durations { counts: [0; BUCKETS], sum_us: 0 }
    }
}

impl Durations {
    /// The durations counted since an earlier snapshot.
    #[must_use]
    pub fn since(&self, earlier: &Durations) -> Durations {
        self.with_each(earlier, u64::wrapping_sub)
    }

    /// The sum of both.
    #[must_use]
    pub fn and(&self, others: &Durations) -> Durations {
        self.with_each(others, u64::wrapping_add)
    }

    fn with_each(&self, others: &Durations, change: impl Fn(u64, u64) -> u64) -> Durations {
        let mut durations = *self;
        durations.counts.iter_mut().zip(others.counts).for_each(|(count, other)| *count = change(*count, other));
        durations.sum_us = change(durations.sum_us, others.sum_us);
        durations
    }

    /// The given percentile in microseconds, at most a quarter too high; `None` if there are no durations.
    pub fn percentile_us(&self, percent: u8) -> Option<u64> {
        let rank = (self.count() * u64::from(percent)).div_ceil(100).max(1);
        let mut below = 0;
        let at = self.counts.iter().position(|count| {
            below += count;
            below >= rank
        });
        at.map(longest_us)
    }

    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of all durations in microseconds.
    pub fn sum_us(&self) -> u64 {
        self.sum_us
    }

    /// The number of durations below two to the power of `doublings` microseconds; `doublings` is at least two.
    pub fn count_below(&self, doublings: u32) -> u64 {
        let buckets = doublings.saturating_sub(PARTS_LOG2 - 1) as usize * PARTS as usize;
        self.counts.iter().take(buckets).sum()
    }
}

fn bucket(took_us: u64) -> usize {
    if took_us < PARTS {
        return took_us as usize;
    }
    let doublings = took_us.ilog2() - PARTS_LOG2;
    let part = (took_us >> doublings) & (PARTS - 1);
    ((u64::from(doublings) + 1) * PARTS + part).min(BUCKETS as u64 - 1) as usize
}

/// The longest duration of a bucket.
fn longest_us(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < PARTS {
        return bucket;
    }
    ((PARTS + bucket % PARTS + 1) << (bucket / PARTS - 1)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_rounded_up_by_at_most_a_quarter() {
        for took_us in (0..5_000).chain([99_999, 1_000_000, 60_000_000]) {
            let reported_us = longest_us(bucket(took_us));
            assert!(
                reported_us >= took_us && reported_us <= took_us + took_us / 4,
                "{took_us} is reported as {reported_us}"
            );
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_cover_an_interval() {
        let counts = DurationCounts::default();
        assert_eq!(counts.read().percentile_us(50), None);
        counts.count(1_000_000, 1);
        let before = counts.read();
        counts.count(2, 99);
        counts.count(1_000, 1);
        let durations = counts.read().since(&before);
        assert_eq!((durations.percentile_us(50), durations.percentile_us(99)), (Some(2), Some(2)));
        assert_eq!(durations.percentile_us(100), Some(1_023));
        assert_eq!((durations.count(), durations.sum_us()), (100, 99 * 2 + 1_000));
        assert_eq!(before.and(&durations), counts.read());
    }

    #[test]
    fn durations_are_counted_up_to_each_power_of_two() {
        for doublings in 2..25 {
            let counts = DurationCounts::default();
            let bound_us = 1 << doublings;
            for took_us in [bound_us - 1, bound_us, bound_us + 1] {
                counts.count(took_us, 1);
            }
            assert_eq!((counts.read().count_below(doublings), counts.read().count_below(doublings + 1)), (1, 3));
        }
    }
}
