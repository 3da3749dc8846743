use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::definition::{Curve, Definition, Published, Shape};
use super::json::to_json;
use super::options::Options;
use super::schema::validate_result;
use super::summary::Summary;
use super::threshold::{Threshold, Verdict};
use crate::broker::{BrokerKind, repository_root, versions_of_tools};
use crate::failure::{ErrorContext, Failure, Result};
use crate::measure::{Histogram, Measurement, WrittenHistogram};
use crate::scenario::Scenario;
use crate::system::{Machine, Placement, date, revision};

/// By placement, broker and name.
type Figures<T> = BTreeMap<String, BTreeMap<String, BTreeMap<String, T>>>;

/// The content of `bench/results/HARDWARE/COMMIT_NAME.json`, with the schema `bench/schema/result.json`.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    name: String,
    title: String,
    definition_version: u32,
    commit: String,
    date: String,
    quick: bool,
    took_s: f64,
    nice: i32,
    rounds: u32,
    mqtt_version: &'static str,
    machine: Machine,
    /// The version of each broker and tool.
    versions: BTreeMap<String, String>,
    /// The reason why a broker was not measured.
    left_out: BTreeMap<String, String>,
    /// The reason why this machine cannot run a step of the curve.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    left_out_steps: BTreeMap<String, String>,
    parameters: Scenario,
    #[serde(skip_serializing_if = "Option::is_none")]
    curve: Option<Curve>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    published: Vec<Published>,
    verdict: Verdict,
    checks: Vec<Check>,
    summary: Figures<Summary>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    histograms: Figures<WrittenHistogram>,
    samples: Vec<Sample>,
}

/// One measured run.
#[derive(Debug, Serialize)]
pub(crate) struct Sample {
    broker: String,
    placement: String,
    round: u32,
    /// The load of the machine before the run: above the number of running benchmarks, other processes were active.
    load_average: f64,
    took_s: f64,
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

/// The position of a run in the comparison.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunPosition<'a> {
    pub kind: BrokerKind,
    pub placement: &'a Placement,
    pub round: u32,
    pub load_average: f64,
    pub took_s: f64,
}

/// The default path for results.
pub(super) fn default_folder(machine: &Machine, of_record: bool) -> Result<PathBuf> {
    let root = repository_root().ok_or_else(|| Failure::new("not inside the repository: say --out FOLDER"))?;
    Ok(root.join("bench/results").join(if of_record { machine.slug() } else { "quick".to_owned() }))
}

impl Sample {
    pub(super) fn new(turn: RunPosition<'_>, outcome: Result<Measurement>) -> Self {
        let (measurement, error) = match outcome {
            Ok(measurement) => (Some(measurement), None),
            Err(error) => (None, Some(error.to_string())),
        };
        Self {
            broker: turn.kind.to_string(),
            placement: turn.placement.to_string(),
            round: turn.round,
            load_average: turn.load_average,
            took_s: turn.took_s,
            exact: measurement.as_ref().is_some_and(Measurement::is_exact),
            measurement,
            error,
            is_ours: turn.kind.is_ours(),
        }
    }

    /// The measurement, if nothing was lost. A run that lost messages did less work than it should have: its figures
    /// are not those of the scenario. A curve has only the figures of the exact steps.
    fn exact_measurement(&self) -> Option<&Measurement> {
        self.measurement.as_ref().filter(|measurement| self.exact || measurement.is_curve)
    }
}

impl Report {
    pub(super) fn begin(
        definition: &Definition,
        shape: &Shape,
        machine: &Machine,
        options: &Options,
        rounds: u32,
    ) -> Self {
        Self {
            name: definition.name.clone(),
            title: definition.title.clone(),
            definition_version: definition.definition_version,
            commit: revision(),
            date: date(),
            quick: options.quick,
            took_s: 0.0,
            nice: options.nice,
            rounds,
            mqtt_version: if definition.version.is_v5() { "5.0" } else { "3.1.1" },
            machine: machine.clone(),
            versions: versions_of_tools(),
            left_out: BTreeMap::new(),
            left_out_steps: BTreeMap::new(),
            parameters: shape.parameters.clone(),
            curve: shape.curve.clone(),
            published: definition.published.clone(),
            verdict: Verdict::NotMeasured,
            checks: Vec::new(),
            summary: BTreeMap::new(),
            histograms: BTreeMap::new(),
            samples: Vec::new(),
        }
    }

    pub(super) fn add_version(&mut self, kind: BrokerKind, version: String) {
        self.versions.insert(kind.to_string(), version);
    }

    pub(super) fn skip_broker(&mut self, kind: BrokerKind, reason: &str) {
        self.left_out.insert(kind.to_string(), reason.to_owned());
    }

    pub(super) fn add(&mut self, sample: Sample) {
        self.samples.push(sample);
    }

    pub(super) fn skip_step(&mut self, step: &str, reason: String) {
        self.left_out_steps.insert(step.to_owned(), reason);
    }

    /// Summarizes the samples and checks the thresholds.
    pub(super) fn conclude(&mut self, definition: &Definition, took_s: f64) {
        self.took_s = took_s;
        let mut values: Figures<Vec<f64>> = BTreeMap::new();
        let mut latencies: Figures<Histogram> = BTreeMap::new();
        for sample in &self.samples {
            let Some(measurement) = sample.exact_measurement() else { continue };
            for (metric, &value) in &measurement.metrics {
                entry(&mut values, sample, metric).push(value);
            }
            for (name, histogram) in &measurement.histograms {
                entry(&mut latencies, sample, name).add(histogram);
            }
        }
        self.summary = map_figures(values, |values| Summary::of(values).filter(|summary| summary.median.is_finite()));
        self.histograms = map_figures(latencies, |histogram| Some(histogram.written()));
        self.checks.push(self.check_exactness());
        self.checks.push(self.check_generator());
        let first_placement = definition.placements.first().map(Placement::to_string).unwrap_or_default();
        for threshold in &definition.thresholds {
            self.checks.push(self.check(threshold, &first_placement));
        }
        self.verdict = self.checks.iter().map(|check| check.verdict).max().unwrap_or(Verdict::NotMeasured);
    }

    pub(super) fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Writes `COMMIT_NAME.json` and `latest-NAME.json` if the result matches the schema.
    pub(super) fn write(&self, folder: &Path) -> Result<PathBuf> {
        let text = to_json(self)?;
        validate_result(&text).during(|| "the result is not as bench/schema/result.json says".to_owned())?;
        let latest = folder.join(format!("latest-{}.json", self.name));
        for path in [&folder.join(format!("{}_{}.json", self.commit, self.name)), &latest] {
            fs::write(path, &text).during(|| format!("writing {}", path.display()))?;
        }
        Ok(latest)
    }

    /// Prints the medians as a table, and the results of the thresholds.
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
        for (what, reason) in self.left_out.iter().chain(&self.left_out_steps) {
            println!("  left out: {what}: {reason}");
        }
        let reasons: BTreeSet<(&str, &str)> = self
            .samples
            .iter()
            .filter_map(|sample| Some((&*sample.broker, &*sample.measurement.as_ref()?.invalid.as_ref()?.reason)))
            .collect();
        for (broker, reason) in reasons {
            println!("  invalid: {broker}: {reason}");
        }
        let inexact = self.samples.iter().filter(|sample| !sample.exact);
        for sample in inexact {
            let why = match (&sample.measurement, &sample.error) {
                (Some(measurement), _) if measurement.is_curve => format!("{:?}", measurement.failed_steps),
                (Some(measurement), _) => format!("{:?}", measurement.account),
                (None, Some(error)) => error.clone(),
                (None, None) => String::new(),
            };
            println!("  failed run: {} [{}] round {}: {why}", sample.broker, sample.placement, sample.round + 1);
        }
        for check in &self.checks {
            let verdict = match check.verdict {
                Verdict::Pass => "pass",
                Verdict::Warn => "warn",
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

    fn check_generator(&self) -> Check {
        let ours: Vec<&Measurement> =
            self.samples.iter().filter(|s| s.is_ours).filter_map(|sample| sample.measurement.as_ref()).collect();
        let verdict = match ours.as_slice() {
            [] => Verdict::NotMeasured,
            ours if ours.iter().all(|measurement| measurement.invalid.is_none()) => Verdict::Pass,
            _ => Verdict::Warn,
        };
        let what = "tautwire: the generator was not the bottleneck in any run".to_owned();
        Check { what, threshold: None, measured: None, verdict }
    }

    fn check(&self, threshold: &Threshold, placement: &str) -> Check {
        let median = |broker: &str| Some(self.summary.get(placement)?.get(broker)?.get(&threshold.metric)?.median);
        let unit = match &threshold.times_that_of {
            Some(broker) => median(broker),
            None => Some(1.0),
        };
        let measured = median(&threshold.broker).zip(unit).map(|(value, unit)| value / unit);
        let of_broker = || self.samples.iter().filter(|sample| sample.broker == threshold.broker);
        // Exact runs without the metric: it was limited by the generator, or a step that this machine cannot run.
        let was_tried_in_vain = of_broker().next().is_some() && of_broker().all(|sample| !sample.exact);
        let verdict = match measured {
            Some(value) => threshold.judge(value),
            None if was_tried_in_vain => Verdict::Fail,
            None => Verdict::NotMeasured,
        };
        let measured = measured.filter(|value| value.is_finite());
        Check { what: threshold.wording(), threshold: Some(threshold.clone()), measured, verdict }
    }
}

fn entry<'a, T: Default>(figures: &'a mut Figures<T>, sample: &Sample, name: &str) -> &'a mut T {
    let of_broker = figures.entry(sample.placement.clone()).or_default().entry(sample.broker.clone()).or_default();
    of_broker.entry(name.to_owned()).or_default()
}

fn map_figures<T, U>(figures: Figures<T>, make: impl Fn(T) -> Option<U>) -> Figures<U> {
    let of_broker = |named: BTreeMap<String, T>| -> BTreeMap<String, U> {
        named.into_iter().filter_map(|(name, value)| Some((name, make(value)?))).collect()
    };
    figures
        .into_iter()
        .map(|(placement, brokers)| {
            (placement, brokers.into_iter().map(|(broker, named)| (broker, of_broker(named))).collect())
        })
        .collect()
}

/// Formats a figure with about three significant digits.
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
    use crate::compare::definition::parse;
    use crate::measure::Account;

    fn threshold(pass_at_most: f64, fail_above: Option<f64>, times_that_of: Option<&str>) -> Threshold {
        Threshold {
            scenario: "x".to_owned(),
            metric: "cost".to_owned(),
            broker: "tautwire".to_owned(),
            pass_at_most: Some(pass_at_most),
            fail_above,
            pass_at_least: None,
            fail_below: None,
            times_that_of: times_that_of.map(str::to_owned),
        }
    }

    fn measurement(cost: f64, lost: u64) -> Measurement {
        let account = Account { expected: 10, delivered: 10 - lost, lost, ..Account::default() };
        let mut measurement = Measurement::of(account);
        measurement.set("cost", cost);
        let mut latencies = Histogram::default();
        latencies.record(1000);
        measurement.set_latencies("", latencies);
        measurement
    }

    fn report_of(samples: Vec<(BrokerKind, Measurement)>, thresholds: Vec<Threshold>) -> Report {
        let text = r#"
            definition_version = 1
            [[scenario]]
            name = "x"
            title = "x"
            brokers = ["tautwire"]
            placements = ["free"]
            run = { kind = "flood" }"#;
        let mut definition = parse(text).expect("valid").remove(0);
        definition.thresholds = thresholds;
        let machine = Machine::describe(1024);
        let shape = definition.shape(false).expect("valid");
        let mut report = Report::begin(&definition, &shape, &machine, &Options::default(), 1);
        for (round, (kind, measurement)) in samples.into_iter().enumerate() {
            let placement = Placement::default();
            let turn = RunPosition { kind, placement: &placement, round: round as u32, load_average: 0.0, took_s: 1.0 };
            report.add(Sample::new(turn, Ok(measurement)));
        }
        report.conclude(&definition, 3.0);
        report
    }

    fn report(samples: &[(BrokerKind, f64, u64)], thresholds: Vec<Threshold>) -> Report {
        report_of(samples.iter().map(|&(kind, cost, lost)| (kind, measurement(cost, lost))).collect(), thresholds)
    }

    const OURS: BrokerKind = BrokerKind::Tautwire { threads: 1 };

    #[test]
    fn a_threshold_is_compared_with_the_median() {
        let costs = [(OURS, 1.0, 0), (OURS, 9.0, 0), (OURS, 2.0, 0)];
        assert_eq!(report(&costs, vec![threshold(2.0, None, None)]).verdict(), Verdict::Pass);
        assert_eq!(report(&costs, vec![threshold(1.9, Some(2.0), None)]).verdict(), Verdict::Warn);
        assert_eq!(report(&costs, vec![threshold(1.9, None, None)]).verdict(), Verdict::Fail);
    }

    #[test]
    fn a_run_with_losses_fails_regardless_of_its_speed() {
        let failing = report(&[(OURS, 1.0, 0), (OURS, 1.0, 1)], vec![threshold(2.0, None, None)]);
        assert_eq!(failing.verdict(), Verdict::Fail);
        let never_exact = report(&[(OURS, 1.0, 1)], vec![threshold(2.0, None, None)]);
        assert_eq!(never_exact.checks[2].verdict, Verdict::Fail);
    }

    #[test]
    fn losses_of_another_broker_are_shown_and_do_not_fail_the_run() {
        let report = report(&[(OURS, 1.0, 0), (BrokerKind::Mosquitto, 1.0, 1)], vec![]);
        assert_eq!(report.verdict(), Verdict::Pass);
        assert!(!report.summary["free"].contains_key("mosquitto"));
    }

    #[test]
    fn an_invalid_generator_result_is_a_warning_and_excluded_from_summaries() {
        let mut bound = measurement(1.0, 0);
        bound.invalidate("the generator was the bottleneck", |name| name == "cost");
        let report = report_of(vec![(OURS, bound)], vec![threshold(2.0, None, None)]);
        assert_eq!(report.verdict(), Verdict::Warn);
        assert_eq!(report.checks[2].verdict, Verdict::NotMeasured);
        assert!(!report.summary["free"]["tautwire"].contains_key("cost"));
    }

    #[test]
    fn a_relative_threshold_needs_the_other_broker() {
        let relative = vec![threshold(0.5, None, Some("mosquitto"))];
        let passing = report(&[(OURS, 1.0, 0), (BrokerKind::Mosquitto, 4.0, 0)], relative.clone());
        assert_eq!(passing.verdict(), Verdict::Pass);
        assert_eq!(passing.checks[2].measured, Some(0.25));
        let alone = report(&[(OURS, 1.0, 0)], relative);
        assert_eq!(alone.checks[2].verdict, Verdict::NotMeasured);
    }

    #[test]
    fn a_written_report_matches_the_schema_and_its_histogram_has_all_rounds() {
        let folder = std::env::temp_dir().join(format!("tautwire-bench-report-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let report = report(&[(OURS, 1.0, 0), (OURS, 2.0, 0)], vec![threshold(2.0, None, None)]);
        let path = report.write(&folder).expect("written");
        let json: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(&path).expect("there")).expect("valid JSON");
        assert_eq!(json["samples"][0]["metrics"]["cost"], 1.0);
        assert_eq!(json["histograms"]["free"]["tautwire"]["latency"]["count"], 2);
        assert_eq!(json["parameters"]["kind"], "flood");
        assert_eq!(fs::read_dir(&folder).expect("there").count(), 2);
        fs::remove_dir_all(&folder).expect("ours");
    }
}
