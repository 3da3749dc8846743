//! Prints the table and writes the JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};
use tautwire_bench_timing::{median, rounded, versions};

use crate::sample::{Kind, Sample, Scenario};

const PACKAGES: [&str; 3] = ["tautwire-client", "rumqttc", "tokio"];

pub struct Summary {
    pub library: &'static str,
    pub scenario: Scenario,
    /// One for each round; `None` if it did not complete.
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
            messages_per_cpu_s: over(&samples, |sample| sample.messages as f64 / sample.cpu_s),
            messages_per_s: over(&samples, |sample| sample.messages as f64 / sample.elapsed_s),
            p50_us: over(&samples, |sample| sample.p50_us),
            samples,
        })
        .collect()
}

/// The median of those that completed.
fn over(samples: &[Option<Sample>], figure: impl Fn(&Sample) -> f64) -> f64 {
    median(&samples.iter().flatten().map(figure).collect::<Vec<_>>())
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
        "versions": versions(include_str!("../Cargo.lock"), &PACKAGES),
        "rounds": rounds,
        "results": results.iter().map(|result| json!({
            "scenario": result.scenario.name,
            "library": result.library,
            "messages": result.scenario.messages,
            "samples": result.samples.iter().map(|sample| sample.as_ref().map(|sample| json!({
                "cpu_s": sample.cpu_s,
                "elapsed_s": sample.elapsed_s,
                "p50_us": rounded(sample.p50_us),
            }))).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
    })
}
