//! Latencies in nanoseconds, in high dynamic range histograms: a quantile is off by at most 0.1 %.

use serde::Serialize;

const SIGNIFICANT_DIGITS: u8 = 3;

/// The precision of histograms in result files: enough for a chart, a fifth of the size.
const WRITTEN_SIGNIFICANT_DIGITS: u8 = 2;

#[derive(Debug, Clone)]
pub(crate) struct Histogram(hdrhistogram::Histogram<u64>);

/// A histogram in result files: the highest value of each non-empty bucket, and its count.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct WrittenHistogram {
    pub count: u64,
    pub max_ns: u64,
    pub values_ns: Vec<u64>,
    pub counts: Vec<u64>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self(empty(SIGNIFICANT_DIGITS))
    }
}

impl Histogram {
    #[inline]
    pub(crate) fn record(&mut self, value_ns: u64) {
        add(&mut self.0, value_ns, 1);
    }

    pub(crate) fn add(&mut self, other: &Histogram) {
        for step in other.0.iter_recorded() {
            add(&mut self.0, step.value_iterated_to(), step.count_at_value());
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    pub(crate) fn max_ns(&self) -> u64 {
        self.0.max()
    }

    /// The smallest recorded value (to bucket precision) that `fraction` of all values do not exceed; 0 if empty.
    pub(crate) fn quantile_ns(&self, fraction: f64) -> u64 {
        self.0.value_at_quantile(fraction)
    }

    pub(crate) fn quantile_us(&self, fraction: f64) -> f64 {
        self.quantile_ns(fraction) as f64 / 1e3
    }

    pub(crate) fn written(&self) -> WrittenHistogram {
        let mut coarse = empty(WRITTEN_SIGNIFICANT_DIGITS);
        for step in self.0.iter_recorded() {
            add(&mut coarse, step.value_iterated_to(), step.count_at_value());
        }
        let (values_ns, counts) =
            coarse.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value())).unzip();
        WrittenHistogram { count: self.count(), max_ns: self.max_ns(), values_ns, counts }
    }
}

fn empty(digits: u8) -> hdrhistogram::Histogram<u64> {
    let mut histogram = hdrhistogram::Histogram::new(digits).unwrap_or_else(|_| unreachable!("digits are 2 or 3"));
    histogram.auto(true);
    histogram
}

#[inline]
fn add(histogram: &mut hdrhistogram::Histogram<u64>, value_ns: u64, count: u64) {
    // It grows as needed, up to any u64: no value is refused.
    let _ = histogram.record_n(value_ns, count);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::default();
        values.into_iter().for_each(|value| histogram.record(value));
        histogram
    }

    #[test]
    fn quantiles_are_within_the_stated_error() {
        let histogram = of((1..=10_000).map(|value| value * 100));
        for (fraction, exact) in [(0.5, 500_000.0), (0.99, 990_000.0), (0.999, 999_000.0), (1.0, 1_000_000.0)] {
            let found = histogram.quantile_ns(fraction) as f64;
            assert!((found / exact - 1.0).abs() <= 0.001, "{fraction}: {found}");
        }
    }

    #[test]
    fn an_empty_histogram_has_no_latency() {
        assert_eq!(Histogram::default().quantile_ns(0.99), 0);
        assert!(Histogram::default().written().counts.is_empty());
    }

    #[test]
    fn hours_are_recorded_as_well_as_nanoseconds() {
        let histogram = of([1, 3_600_000_000_000 * 5]);
        assert_eq!((histogram.quantile_ns(0.5), histogram.count()), (1, 2));
        assert!(histogram.max_ns() >= 3_600_000_000_000 * 5);
    }

    #[test]
    fn adding_keeps_every_value() {
        let mut sum = of(1..=1000);
        sum.add(&of(1001..=2000));
        assert_eq!((sum.count(), sum.quantile_ns(0.5)), (2000, 1000));
    }

    #[test]
    fn the_written_form_holds_all_counts_in_order_within_one_percent() {
        let histogram = of((1..=100_000).map(|value| value * 37));
        let written = histogram.written();
        assert_eq!(written.counts.iter().sum::<u64>(), 100_000);
        assert!(written.values_ns.is_sorted());
        let mut seen = 0;
        let median =
            written.values_ns.iter().zip(&written.counts).find(|(_, count)| (seen += **count, seen >= 50_000).1);
        let median = *median.expect("half of them").0 as f64;
        assert!((median / (50_000.0 * 37.0) - 1.0).abs() < 0.01, "{median}");
    }
}
