use std::collections::BTreeMap;

use serde::Serialize;

use super::{Account, Histogram};
use crate::failure::Result;

/// One run of one scenario with one broker. Metric names include their unit; `bench/README.md` has the definitions.
#[derive(Debug, Default, Clone, Serialize)]
pub(crate) struct Measurement {
    pub metrics: BTreeMap<String, f64>,
    pub account: Account,
    /// Figures that were limited by the generator: recorded, but not in the summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<Invalid>,
    /// By step of a curve: the reason why it failed. Such a step has no metrics; those of the others are valid.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub failed_steps: BTreeMap<String, String>,
    /// Whether the metrics are those of the exact steps only.
    #[serde(skip)]
    pub is_curve: bool,
    /// Latencies by name. Result files contain the sum of all rounds.
    #[serde(skip)]
    pub histograms: BTreeMap<String, Histogram>,
}

/// Metrics that were removed from a measurement, and why.
#[derive(Debug, Default, Clone, Serialize)]
pub(crate) struct Invalid {
    pub reason: String,
    pub metrics: BTreeMap<String, f64>,
}

impl Measurement {
    pub(crate) fn of(account: Account) -> Self {
        Self { account, ..Self::default() }
    }

    pub(crate) fn set(&mut self, name: &str, value: f64) {
        self.metrics.insert(name.to_owned(), value);
    }

    /// Sets the percentiles of `histogram` as `PREFIXp50_us`, `PREFIXp99_us`, `PREFIXp999_us`, `PREFIXmax_us`, and the histogram itself.
    pub(crate) fn set_latencies(&mut self, prefix: &str, histogram: Histogram) {
        for (name, fraction) in [("p50_us", 0.5), ("p99_us", 0.99), ("p999_us", 0.999)] {
            self.set(&format!("{prefix}{name}"), histogram.quantile_us(fraction));
        }
        self.set(&format!("{prefix}max_us"), histogram.max_ns() as f64 / 1e3);
        self.histograms.insert(format!("{prefix}latency"), histogram);
    }

    /// Removes the metrics whose names satisfy `are_meant`.
    pub(crate) fn invalidate(&mut self, reason: &str, are_meant: impl Fn(&str) -> bool) {
        let (taken, kept) = std::mem::take(&mut self.metrics).into_iter().partition(|(name, _)| are_meant(name));
        self.metrics = kept;
        let invalid = self.invalid.get_or_insert_default();
        if !invalid.reason.contains(reason) {
            let separator = if invalid.reason.is_empty() { "" } else { "; " };
            invalid.reason = format!("{}{separator}{reason}", invalid.reason);
        }
        invalid.metrics.extend::<BTreeMap<_, _>>(taken);
    }

    /// Adds the measurement of one step of a curve: its names get `@STEP`, and its accounts are added.
    pub(crate) fn add_step(&mut self, step: &str, outcome: Result<Measurement>) {
        let at_step = |name: String| format!("{name}@{step}");
        self.is_curve = true;
        let other = match outcome {
            Ok(measurement) => measurement,
            Err(error) => {
                self.failed_steps.insert(step.to_owned(), error.to_string());
                return;
            }
        };
        self.account.add(&other.account);
        if !other.account.is_exact() {
            self.failed_steps.insert(step.to_owned(), format!("not exact: {:?}", other.account));
            return;
        }
        self.metrics.extend(other.metrics.into_iter().map(|(name, value)| (at_step(name), value)));
        self.histograms.extend(other.histograms.into_iter().map(|(name, histogram)| (at_step(name), histogram)));
        if let Some(theirs) = other.invalid {
            let ours = self.invalid.get_or_insert_default();
            let separator = if ours.reason.is_empty() { "" } else { "; " };
            ours.reason = format!("{}{separator}at {step}: {}", ours.reason, theirs.reason);
            ours.metrics.extend(theirs.metrics.into_iter().map(|(name, value)| (at_step(name), value)));
        }
    }

    /// Whether every message arrived once, complete and in order, and every step ran.
    pub(crate) fn is_exact(&self) -> bool {
        self.account.is_exact() && self.failed_steps.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;

    #[test]
    fn invalid_metrics_are_kept_separate() {
        let mut measurement = Measurement::default();
        measurement.set("deliveries_per_s", 5.0);
        measurement.set("rss_bytes", 7.0);
        measurement.invalidate("the generator was the bottleneck", |name| name.ends_with("_per_s"));
        assert_eq!(measurement.metrics.keys().collect::<Vec<_>>(), ["rss_bytes"]);
        assert_eq!(measurement.invalid.expect("taken out").metrics["deliveries_per_s"], 5.0);
    }

    fn step(lost: u64) -> Measurement {
        let mut step = Measurement::of(Account { expected: 3, delivered: 3 - lost, lost, ..Account::default() });
        step.set("cost", 1.0);
        step.set_latencies("", Histogram::default());
        step
    }

    #[test]
    fn steps_keep_separate_names_and_add_their_messages() {
        let mut curve = Measurement::default();
        let mut generator_bound = step(0);
        generator_bound.invalidate("slow", |name| name == "cost");
        curve.add_step("10", Ok(step(0)));
        curve.add_step("1000", Ok(generator_bound));
        assert!(curve.metrics.contains_key("cost@10") && !curve.metrics.contains_key("cost@1000"));
        assert!(curve.histograms.contains_key("latency@1000"));
        assert!(curve.is_exact());
        assert_eq!(curve.invalid.expect("one step").metrics["cost@1000"], 1.0);
        assert_eq!(curve.account.expected, 6);
    }

    #[test]
    fn a_failed_step_has_no_results_and_does_not_affect_the_others() {
        let mut curve = Measurement::default();
        curve.add_step("10", Ok(step(0)));
        curve.add_step("100", Ok(step(1)));
        curve.add_step("1000", Err(Failure::new("nothing moved")));
        assert!(!curve.is_exact());
        assert_eq!(curve.failed_steps.keys().collect::<Vec<_>>(), ["100", "1000"]);
        assert!(curve.metrics.contains_key("cost@10") && !curve.metrics.contains_key("cost@100"));
        assert_eq!((curve.account.expected, curve.account.lost), (6, 1));
    }
}
