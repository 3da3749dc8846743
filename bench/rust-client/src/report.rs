//! The table for people and the JSON for programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use serde_json::{Value, json};

use crate::sample::{Kind, Sample, Scenario};

const LOCK_FILE: &str = include_str!("../Cargo.lock");

pub struct Summary {
    pub library: &'static str,
    pub scenario: Scenario,
    /// One for each round; `None` where it did not get to the end.
    pub samples: Vec<Option<Sample>>,
    /// Medians over the rounds.
    pub messages_per_cpu_s: f64,
    pub messages_per_s: f64,
    pub p50_us: f64,
}

pub fn summarise(samples: Vec<(&'static str, Scenario, Vec<Option<Sample>>)>) -> Vec<Summary> {
    samples
        .into_iter()
        .map(|(library, scenario, samples)| Summary {
            library,
            scenario,
            messages_per_cpu_s: median(samples.iter().flatten().map(|sample| sample.messages as f64 / sample.cpu_s)),
            messages_per_s: median(samples.iter().flatten().map(|sample| sample.messages as f64 / sample.elapsed_s)),
            p50_us: median(samples.iter().flatten().map(|sample| sample.p50_us)),
            samples,
        })
        .collect()
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    if sorted.is_empty() {
        return f64::NAN;
    }
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) { (sorted[middle - 1] + sorted[middle]) / 2.0 } else { sorted[middle] }
}

pub fn table(results: &[Summary]) -> String {
    let mut text = format!(
        "{:<20} {:<20} {:>14} {:>12} {:>10}\n",
        "scenario", "library", "msg/CPU second", "msg/second", "p50 µs"
    );
    let mut last = "";
    for result in results {
        let name = if result.scenario.name == last { "" } else { result.scenario.name };
        last = result.scenario.name;
        let p50 = if result.scenario.kind == Kind::RoundTrip { format!("{:.1}", result.p50_us) } else { String::new() };
        let _ = writeln!(
            text,
            "{name:<20} {:<20} {:>14.0} {:>12.0} {p50:>10}",
            result.library, result.messages_per_cpu_s, result.messages_per_s
        );
    }
    text
}

pub fn json(results: &[Summary], rounds: usize) -> Value {
    json!({
        "versions": versions(),
        "rounds": rounds,
        "results": results.iter().map(|result| json!({
            "scenario": result.scenario.name,
            "library": result.library,
            "messages": result.scenario.messages,
            "samples": result.samples.iter().map(|sample| sample.as_ref().map(|sample| json!({
                "cpu_s": sample.cpu_s,
                "elapsed_s": sample.elapsed_s,
                "p50_us": round(sample.p50_us),
            }))).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
    })
}

pub fn write(path: &Path, json: &Value) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(path, format!("{json:#}\n"))
}

/// The libraries' versions as the lock file has them.
fn versions() -> BTreeMap<&'static str, &'static str> {
    let mut versions = BTreeMap::new();
    for package in LOCK_FILE.split("[[package]]") {
        let field = |name: &str| {
            package.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \"")?.strip_suffix('"'))
        };
        if let (Some(name), Some(version)) = (field("name"), field("version"))
            && ["tautwire-client", "rumqttc", "tokio"].contains(&name)
        {
            versions.insert(name, version);
        }
    }
    versions
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
