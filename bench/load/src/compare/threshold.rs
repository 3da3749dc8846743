//! Thresholds for the medians: pass, warn or fail. Defined in `bench/thresholds`, next to the scenarios.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::broker::BrokerKind;
use crate::failure::{Failure, Result};

/// A threshold for a median at the first placement of the definition. Between `pass_*` and `fail_*` it is a warning;
/// without `fail_*` there is no warning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Threshold {
    #[serde(skip_serializing)]
    pub scenario: String,
    pub metric: String,
    /// The broker of the median.
    #[serde(default = "ours")]
    pub broker: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass_at_most: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fail_above: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass_at_least: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fail_below: Option<f64>,
    /// The bounds above are multiples of this broker's median of the same metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times_that_of: Option<String>,
}

/// The result of a check, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Pass,
    /// A broker of the threshold was left out, or its figure was limited by the generator.
    NotMeasured,
    Warn,
    Fail,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ThresholdFile {
    #[serde(default)]
    threshold: Vec<Threshold>,
}

/// Reads a file of thresholds; none if there is no file.
pub(super) fn read_thresholds(path: &Path) -> Result<Vec<Threshold>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let file: ThresholdFile = toml::from_str(&text).map_err(|error| Failure::new(error.to_string()))?;
    Ok(file.threshold)
}

impl Threshold {
    pub(super) fn check(&self, measured: &[BrokerKind]) -> Result<()> {
        let wrong =
            |what: String| Err(Failure::new(format!("threshold {} of {:?}: {what}", self.metric, self.scenario)));
        let (low, high) = match (self.pass_at_most, self.pass_at_least) {
            (Some(pass), None) if self.fail_below.is_none() => (pass, self.fail_above.unwrap_or(pass)),
            (None, Some(pass)) if self.fail_above.is_none() => (self.fail_below.unwrap_or(pass), pass),
            _ => return wrong("it needs pass_at_most (and fail_above), or pass_at_least (and fail_below)".to_owned()),
        };
        if low > high {
            return wrong("it fails before it passes".to_owned());
        }
        for broker in self.times_that_of.iter().chain([&self.broker]) {
            let kind: BrokerKind = broker.parse()?;
            if !measured.contains(&kind) {
                return wrong(format!("it names {broker:?}, which is not measured"));
            }
        }
        Ok(())
    }

    pub(crate) fn judge(&self, value: f64) -> Verdict {
        let passes = self.pass_at_most.is_none_or(|bound| value <= bound)
            && self.pass_at_least.is_none_or(|bound| value >= bound);
        let is_between =
            self.fail_above.is_some_and(|bound| value <= bound) || self.fail_below.is_some_and(|bound| value >= bound);
        // A figure that is not a number does not pass.
        match (passes && !value.is_nan(), is_between) {
            (true, _) => Verdict::Pass,
            (false, true) => Verdict::Warn,
            (false, false) => Verdict::Fail,
        }
    }

    /// Describes the condition.
    pub(crate) fn wording(&self) -> String {
        let (relation, bound) = match (self.pass_at_most, self.pass_at_least) {
            (Some(bound), _) => ("≤", bound),
            (None, bound) => ("≥", bound.unwrap_or_default()),
        };
        let times = self.times_that_of.as_ref().map(|broker| format!(" × that of {broker}")).unwrap_or_default();
        let between = match (self.fail_above, self.fail_below) {
            (Some(bound), _) => format!(" (fails above {bound})"),
            (_, Some(bound)) => format!(" (fails below {bound})"),
            _ => String::new(),
        };
        format!("{}: {} {relation} {bound}{times}{between}", self.broker, self.metric)
    }
}

fn ours() -> String {
    "tautwire".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threshold(text: &str) -> Result<Threshold> {
        let threshold: Threshold = toml::from_str(&format!("scenario = \"s\"\nmetric = \"m\"\n{text}"))
            .map_err(|error| Failure::new(error.to_string()))?;
        threshold.check(&[BrokerKind::Tautwire { threads: 1 }, BrokerKind::Mosquitto])?;
        Ok(threshold)
    }

    #[test]
    fn values_pass_warn_or_fail_on_both_sides() {
        let at_most = threshold("pass_at_most = 10\nfail_above = 12").expect("valid");
        let at_least = threshold("pass_at_least = 0.8\nfail_below = 0.7").expect("valid");
        for (value, verdict) in
            [(10.0, Verdict::Pass), (10.1, Verdict::Warn), (12.1, Verdict::Fail), (f64::NAN, Verdict::Fail)]
        {
            assert_eq!(at_most.judge(value), verdict, "{value}");
        }
        for (value, verdict) in [(0.8, Verdict::Pass), (0.75, Verdict::Warn), (0.69, Verdict::Fail)] {
            assert_eq!(at_least.judge(value), verdict, "{value}");
        }
    }

    #[test]
    fn without_a_fail_bound_values_pass_or_warn() {
        let strict = threshold("pass_at_most = 10").expect("valid");
        assert_eq!((strict.judge(10.0), strict.judge(10.001)), (Verdict::Pass, Verdict::Fail));
    }

    #[test]
    fn invalid_thresholds_are_refused() {
        for text in [
            "",
            "pass_at_most = 1\npass_at_least = 1",
            "pass_at_most = 1\nfail_below = 2",
            "pass_at_most = 2\nfail_above = 1",
            "pass_at_least = 1\nfail_below = 2",
            "pass_at_most = 1\nbroker = \"nats\"",
            "pass_at_most = 1\ntimes_that_of = \"nats\"",
            "pass_at_mots = 1",
        ] {
            assert!(threshold(text).is_err(), "{text}");
        }
    }
}
