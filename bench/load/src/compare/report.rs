use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use super::definition::Threshold;
use super::summary::Summary;
use super::{Definition, Options};
use crate::broker::{BrokerKind, repository_root};
use crate::failure::{Failure, Result, While};
use crate::measure::Measurement;
use crate::scenario::Scenario;
use crate::system::{Machine, Placement, revision};

/// What is written to `bench/results/HARDWARE/NAME.json`.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    name: String,
    title: String,
    definition_version: u32,
    commit: String,
    quick: bool,
    nice: i32,
    rounds: u32,
    mqtt_version: &'static str,
    machine: Machine,
    /// By broker: what its program calls its version.
    versions: BTreeMap<String, String>,
    /// By broker: why it was not measured.
    left_out: BTreeMap<String, String>,
    parameters: Scenario,
    /// By placement, broker, metric.
    summary: BTreeMap<String, BTreeMap<String, BTreeMap<String, Summary>>>,
    checks: Vec<Check>,
    samples: Vec<Sample>,
}

/// One run, as measured.
#[derive(Debug, Serialize)]
pub(crate) struct Sample {
    broker: String,
    placement: String,
    round: u32,
    /// Of the machine before the run: above the number of running measurements, others were at work too.
    load_average: f64,
    exact: bool,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    measurement: Option<Measurement>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip)]
    is_ours: bool,
}

#[derive(Debug, Clone, Serialize)]
struct Check {
    what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    threshold: Option<Threshold>,
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<f64>,
    verdict: Verdict,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Pass,
    Fail,
    /// A broker of the threshold was left out.
    NotMeasured,
}

/// Where results go when not told otherwise.
pub(super) fn default_folder(machine: &Machine, quick: bool) -> Result<PathBuf> {
    let root = repository_root().ok_or_else(|| Failure::new("not inside the repository: say --out FOLDER"))?;
    Ok(root.join("bench/results").join(if quick { "quick".to_owned() } else { machine.slug() }))
}

impl Sample {
    pub(super) fn new(
        kind: BrokerKind,
        placement: &Placement,
        round: u32,
        load_average: f64,
        outcome: Result<Measurement>,
    ) -> Self {
        let (measurement, error) = match outcome {
            Ok(measurement) => (Some(measurement), None),
            Err(error) => (None, Some(error.to_string())),
        };
        Self {
            broker: kind.to_string(),
            placement: placement.to_string(),
            round,
            load_average,
            exact: measurement.as_ref().is_some_and(|measurement| measurement.account.is_exact()),
            measurement,
            error,
            is_ours: kind.is_ours(),
        }
    }
}

impl Report {
    pub(super) fn begin(
        definition: &Definition,
        scenario: &Scenario,
        machine: &Machine,
        options: &Options,
        rounds: u32,
    ) -> Self {
        Self {
            name: definition.name.clone(),
            title: definition.title.clone(),
            definition_version: definition.definition_version,
            commit: revision(),
            quick: options.quick,
            nice: options.nice,
            rounds,
            mqtt_version: if definition.version.is_v5() { "5.0" } else { "3.1.1" },
            machine: machine.clone(),
            versions: BTreeMap::new(),
            left_out: BTreeMap::new(),
            parameters: scenario.clone(),
            summary: BTreeMap::new(),
            checks: Vec::new(),
            samples: Vec::new(),
        }
    }

    pub(super) fn add_version(&mut self, kind: BrokerKind, version: String) {
        self.versions.insert(kind.to_string(), version);
    }

    pub(super) fn leave_out(&mut self, kind: BrokerKind, reason: &str) {
        self.left_out.insert(kind.to_string(), reason.to_owned());
    }

    pub(super) fn add(&mut self, sample: Sample) {
        self.samples.push(sample);
    }

    /// Sums up the samples and checks the thresholds.
    pub(super) fn conclude(&mut self, definition: &Definition) {
        let mut values: BTreeMap<(String, String, String), Vec<f64>> = BTreeMap::new();
        for sample in &self.samples {
            // A run that lost messages did less work than it should have: its figures are not figures of the scenario.
            let Some(measurement) = sample.measurement.as_ref().filter(|_| sample.exact) else {
                continue;
            };
            for (metric, &value) in &measurement.metrics {
                let key = (sample.placement.clone(), sample.broker.clone(), metric.clone());
                values.entry(key).or_default().push(value);
            }
        }
        for ((placement, broker, metric), values) in values {
            if let Some(summary) = Summary::of(values) {
                self.summary.entry(placement).or_default().entry(broker).or_default().insert(metric, summary);
            }
        }
        self.checks.push(self.check_exactness());
        let first_placement = definition.placements.first().map(Placement::to_string).unwrap_or_default();
        for threshold in &definition.thresholds {
            self.checks.push(self.check(threshold, &first_placement));
        }
    }

    pub(super) fn passed(&self) -> bool {
        self.checks.iter().all(|check| check.verdict != Verdict::Fail)
    }

    pub(super) fn to_json(&self) -> Result<String> {
        let mut text = serde_json::to_string_pretty(self).during(|| "writing JSON".to_owned())?;
        text.push('\n');
        Ok(text)
    }

    /// The medians as a table for people, and the verdicts.
    pub(super) fn print(&self) {
        for (placement, brokers) in &self.summary {
            println!("{}  [{placement}]", self.name);
            for (broker, metrics) in brokers {
                println!("  {broker}");
                for (metric, summary) in metrics {
                    println!("    {metric:<42} {:>12}  ±{:.0} %", short(summary.median), summary.spread_percent);
                }
            }
        }
        for (broker, reason) in &self.left_out {
            println!("  left out: {broker}: {reason}");
        }
        let inexact = self.samples.iter().filter(|sample| !sample.exact);
        for sample in inexact {
            let why = match (&sample.measurement, &sample.error) {
                (Some(measurement), _) => format!("{:?}", measurement.account),
                (None, Some(error)) => error.clone(),
                (None, None) => String::new(),
            };
            println!("  failed run: {} [{}] round {}: {why}", sample.broker, sample.placement, sample.round + 1);
        }
        for check in &self.checks {
            let verdict = match check.verdict {
                Verdict::Pass => "pass",
                Verdict::Fail => "FAIL",
                Verdict::NotMeasured => "not measured",
            };
            let measured = check.measured.map(|value| format!(" (is {})", short(value))).unwrap_or_default();
            println!("  {verdict}: {}{measured}", check.what);
        }
    }

    fn check_exactness(&self) -> Check {
        let ours: Vec<&Sample> = self.samples.iter().filter(|sample| sample.is_ours).collect();
        let verdict = match ours.as_slice() {
            [] => Verdict::NotMeasured,
            ours if ours.iter().all(|sample| sample.exact) => Verdict::Pass,
            _ => Verdict::Fail,
        };
        Check {
            what: "tautwire: every message once, whole and in order, in every run".to_owned(),
            threshold: None,
            measured: None,
            verdict,
        }
    }

    fn check(&self, threshold: &Threshold, placement: &str) -> Check {
        let median = |broker: &str| Some(self.summary.get(placement)?.get(broker)?.get(&threshold.metric)?.median);
        let unit = match &threshold.times_that_of {
            Some(broker) => median(broker),
            None => Some(1.0),
        };
        let measured = median(&threshold.broker).zip(unit).map(|(value, unit)| value / unit);
        let was_tried = self.samples.iter().any(|sample| sample.broker == threshold.broker);
        let verdict = match measured {
            Some(value)
                if threshold.at_most.is_none_or(|bound| value <= bound)
                    && threshold.at_least.is_none_or(|bound| value >= bound) =>
            {
                Verdict::Pass
            }
            Some(_) => Verdict::Fail,
            None if was_tried && unit.is_some() => Verdict::Fail,
            None => Verdict::NotMeasured,
        };
        let (relation, bound) = match (threshold.at_most, threshold.at_least) {
            (Some(bound), _) => ("≤", bound),
            (None, bound) => ("≥", bound.unwrap_or_default()),
        };
        let times = threshold.times_that_of.as_ref().map(|broker| format!(" × that of {broker}")).unwrap_or_default();
        let what = format!("{}: {} {relation} {bound}{times}", threshold.broker, threshold.metric);
        Check { what, threshold: Some(threshold.clone()), measured, verdict }
    }
}

/// A figure with about three digits that matter.
fn short(value: f64) -> String {
    match value.abs() {
        magnitude if magnitude >= 100.0 => format!("{value:.0}"),
        magnitude if magnitude >= 10.0 => format!("{value:.1}"),
        magnitude if magnitude >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Account;
    use crate::mqtt::ProtocolVersion;
    use crate::scenario::Flood;

    fn threshold(at_most: f64, times_that_of: Option<&str>) -> Threshold {
        Threshold {
            metric: "cost".to_owned(),
            broker: "tautwire".to_owned(),
            at_most: Some(at_most),
            at_least: None,
            times_that_of: times_that_of.map(str::to_owned),
        }
    }

    fn report(samples: &[(BrokerKind, f64, u64)], thresholds: Vec<Threshold>) -> Report {
        let definition = Definition {
            name: "x".to_owned(),
            definition_version: 1,
            title: String::new(),
            version: ProtocolVersion::V3_1_1,
            brokers: vec![],
            placements: vec![Placement::default()],
            run: Scenario::Flood(Flood::default()),
            thresholds,
        };
        let machine = Machine::describe(1024);
        let mut report = Report::begin(&definition, &definition.run, &machine, &Options::default(), 1);
        for (round, &(kind, cost, lost)) in samples.iter().enumerate() {
            let account = Account { expected: 10, delivered: 10 - lost, lost, ..Account::default() };
            let mut measurement = Measurement::of(account);
            measurement.set("cost", cost);
            report.add(Sample::new(kind, &Placement::default(), round as u32, 0.0, Ok(measurement)));
        }
        report.conclude(&definition);
        report
    }

    const OURS: BrokerKind = BrokerKind::Tautwire { threads: 1 };

    #[test]
    fn a_threshold_is_held_against_the_median() {
        let passing = report(&[(OURS, 1.0, 0), (OURS, 9.0, 0), (OURS, 2.0, 0)], vec![threshold(2.0, None)]);
        assert!(passing.passed());
        let failing = report(&[(OURS, 1.0, 0), (OURS, 9.0, 0), (OURS, 2.0, 0)], vec![threshold(1.9, None)]);
        assert!(!failing.passed());
    }

    #[test]
    fn a_run_that_loses_fails_however_fast() {
        let failing = report(&[(OURS, 1.0, 0), (OURS, 1.0, 1)], vec![threshold(2.0, None)]);
        assert!(!failing.passed());
        let never_exact = report(&[(OURS, 1.0, 1)], vec![threshold(2.0, None)]);
        assert!(never_exact.checks.iter().all(|check| check.verdict == Verdict::Fail));
    }

    #[test]
    fn a_relative_threshold_needs_the_other_broker() {
        let relative = vec![threshold(0.5, Some("mosquitto"))];
        let passing = report(&[(OURS, 1.0, 0), (BrokerKind::Mosquitto, 4.0, 0)], relative.clone());
        assert!(passing.passed());
        assert_eq!(passing.checks[1].measured, Some(0.25));
        let alone = report(&[(OURS, 1.0, 0)], relative);
        assert_eq!(alone.checks[1].verdict, Verdict::NotMeasured);
    }

    #[test]
    fn a_report_is_json_with_samples_and_machine() {
        let text = report(&[(OURS, 1.0, 0)], vec![]).to_json().expect("serialises");
        let json: serde_json::Value = serde_json::from_str(&text).expect("valid JSON");
        assert_eq!(json["samples"][0]["metrics"]["cost"], 1.0);
        assert!(json["machine"]["kernel"].is_string());
        assert_eq!(json["parameters"]["kind"], "flood");
    }
}
