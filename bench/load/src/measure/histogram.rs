//! Latencies in nanoseconds, log-linear: 256 steps per power of two, so a quantile is off by at most 0.4 %.

const STEP_BITS: u32 = 8;
const STEPS: usize = 1 << STEP_BITS;

#[derive(Debug, Clone)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; bucket_of(u64::MAX) + 1], total: 0 }
    }
}

impl Histogram {
    #[inline]
    pub(crate) fn record(&mut self, value_ns: u64) {
        self.counts[bucket_of(value_ns)] += 1;
        self.total += 1;
    }

    /// The smallest recorded value (to bucket precision) that `fraction` of all values do not exceed; 0 when empty.
    pub(crate) fn quantile_ns(&self, fraction: f64) -> u64 {
        let rank = ((self.total as f64 * fraction).ceil() as u64).clamp(1, self.total.max(1));
        let mut seen = 0;
        for (bucket, &count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return upper_bound_of(bucket);
            }
        }
        0
    }
}

fn bucket_of(value: u64) -> usize {
    if value < STEPS as u64 {
        return value as usize;
    }
    let shift = value.ilog2() - STEP_BITS;
    ((shift as usize + 1) << STEP_BITS) + ((value >> shift) as usize - STEPS)
}

fn upper_bound_of(bucket: usize) -> u64 {
    if bucket < STEPS {
        return bucket as u64;
    }
    let shift = (bucket >> STEP_BITS) - 1;
    let step = (bucket & (STEPS - 1)) + STEPS;
    (((step as u128 + 1) << shift) - 1) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous_and_hold_their_values() {
        let mut last = None;
        for value in (0..100_000u64).chain((17..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1])) {
            let bucket = bucket_of(value);
            assert!(upper_bound_of(bucket) >= value, "{value}");
            assert!(bucket == 0 || upper_bound_of(bucket - 1) < value, "{value}");
            if let Some((last_value, last_bucket)) = last
                && value == last_value + 1
            {
                assert!(bucket - last_bucket <= 1, "{value}");
            }
            last = Some((value, bucket));
        }
    }

    #[test]
    fn quantiles_are_within_the_stated_error() {
        let mut histogram = Histogram::default();
        for value in 1..=10_000u64 {
            histogram.record(value * 100);
        }
        for (fraction, exact) in [(0.5, 500_000.0), (0.99, 990_000.0), (0.999, 999_000.0), (1.0, 1_000_000.0)] {
            let found = histogram.quantile_ns(fraction) as f64;
            assert!((found / exact - 1.0).abs() <= 1.0 / 256.0, "{fraction}: {found}");
        }
    }

    #[test]
    fn an_empty_histogram_has_no_latency() {
        assert_eq!(Histogram::default().quantile_ns(0.99), 0);
    }
}
