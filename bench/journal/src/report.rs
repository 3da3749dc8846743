//! Prints the table, and writes the result file.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tautwire_bench_timing::{Arguments, median, rounded};

use crate::load::FRAMES;
use crate::sample::Sample;

const SAMPLE_MS: u64 = 300;

/// All samples so far, in the terms of `bench/schema/result.json`: an alternative is a `broker`, a situation a `placement`.
pub(crate) struct Report {
    started: Instant,
    sample_time: Duration,
    order: Vec<(String, String)>,
    figures: BTreeMap<(String, String), BTreeMap<&'static str, Vec<f64>>>,
    samples: Vec<Value>,
}

impl Report {
    pub(crate) fn new(arguments: &Arguments) -> Report {
        let sample_ms = arguments.other("--sample-ms").and_then(|ms| ms.parse().ok()).unwrap_or(SAMPLE_MS);
        Report {
            started: Instant::now(),
            sample_time: Duration::from_millis(sample_ms),
            order: Vec::new(),
            figures: BTreeMap::new(),
            samples: Vec::new(),
        }
    }

    pub(crate) fn sample_time(&self) -> Duration {
        self.sample_time
    }

    pub(crate) fn add(&mut self, round: usize, situation: &str, alternative: &str, sample: &Sample) {
        let key = (situation.to_owned(), alternative.to_owned());
        if !self.figures.contains_key(&key) {
            self.order.push(key.clone());
        }
        let figures = self.figures.entry(key).or_default();
        let mut metrics = serde_json::Map::new();
        for (name, value) in sample.figures() {
            figures.entry(name).or_default().push(value);
            metrics.insert(name.to_owned(), rounded(value).into());
        }
        self.samples.push(json!({
            "broker": alternative,
            "placement": situation,
            "round": round,
            "load_average": load_average(),
            "took_s": rounded(sample.took.as_secs_f64()),
            "exact": true,
            "metrics": metrics,
        }));
    }

    pub(crate) fn table(&self) -> String {
        let mut text = format!(
            "{:<30} {:<32} {:>11} {:>8} {:>8} {:>9} {:>9}\n",
            "situation", "alternative", "syncs/frame", "p50 µs", "p99 µs", "CPU µs", "frames/s"
        );
        let mut last = "";
        for key in &self.order {
            let figures = &self.figures[key];
            let of = |name| median(&figures[name]);
            let situation = if key.0 == last { "" } else { &key.0 };
            let _ = writeln!(
                text,
                "{situation:<30} {:<32} {:>11.3} {:>8.0} {:>8.0} {:>9.1} {:>9.0}",
                key.1,
                of("syncs_per_frame"),
                of("p50_us"),
                of("p99_us"),
                of("cpu_us_per_frame"),
                of("frames_per_s")
            );
            last = &key.0;
        }
        text
    }

    pub(crate) fn json(&self, arguments: &Arguments) -> Value {
        let mut summary = serde_json::Map::new();
        for ((situation, alternative), figures) in &self.figures {
            let figures: serde_json::Map<String, Value> =
                figures.iter().map(|(name, values)| ((*name).to_owned(), summarised(values))).collect();
            let of_situation = summary.entry(situation).or_insert_with(|| json!({}));
            of_situation[alternative] = figures.into();
        }
        json!({
            "name": "journal",
            "title": "what it costs to make frames durable: ways to write a file, and who does it for how many threads",
            "definition_version": 1,
            "commit": arguments.other("--commit").unwrap_or("unknown"),
            "date": command("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]),
            "quick": arguments.rounds < 3,
            "took_s": rounded(self.started.elapsed().as_secs_f64()),
            "rounds": arguments.rounds,
            "machine": machine(),
            "versions": { "rustc": command("rustc", &["--version"]) },
            "left_out": {},
            "parameters": {
                "kind": "journal",
                "sample_ms": self.sample_time.as_millis() as u64,
                "frame_bytes": FRAMES.iter().map(|(name, bytes)| ((*name).to_owned(), (*bytes).into()))
                    .collect::<serde_json::Map<_, _>>(),
                "file_system": command("stat", &["-f", "-c", "%T", "."]),
            },
            "summary": summary,
            "checks": [],
            "verdict": "pass",
            "samples": self.samples,
        })
    }
}

fn summarised(values: &[f64]) -> Value {
    let (middle, min) = (median(values), values.iter().copied().fold(f64::INFINITY, f64::min));
    let max = values.iter().copied().fold(0.0, f64::max);
    let spread = if middle > 0.0 { (max - min) / 2.0 / middle * 100.0 } else { 0.0 };
    json!({
        "median": rounded(middle),
        "min": rounded(min),
        "max": rounded(max),
        "spread_percent": rounded(spread),
        "rounds": values.len(),
    })
}

fn machine() -> Value {
    let field = |file: &str, name: &str| -> String {
        let text = fs::read_to_string(file).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_once([':', '=']).map_or("", |(_, value)| value).trim().trim_matches('"').to_owned()
    };
    let read = |file: &str| fs::read_to_string(file).map_or("none".to_owned(), |text| text.trim().to_owned());
    let memory_kib: u64 = field("/proc/meminfo", "MemTotal").trim_end_matches(" kB").parse().unwrap_or(0);
    json!({
        "cpu_model": field("/proc/cpuinfo", "model name"),
        "cores": std::thread::available_parallelism().map_or(1, usize::from),
        "memory_mib": memory_kib / 1024,
        "kernel": read("/proc/sys/kernel/osrelease"),
        "operating_system": field("/etc/os-release", "PRETTY_NAME"),
        "governor": read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "loopback_mtu_bytes": read("/sys/class/net/lo/mtu").parse::<u64>().unwrap_or(0),
    })
}

fn load_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0.0)
}

fn command(program: &str, arguments: &[&str]) -> String {
    let output = std::process::Command::new(program).args(arguments).output();
    output.map_or("unknown".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
