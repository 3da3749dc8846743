//! Metrics of the build and of the process, with the names that Prometheus client libraries use.

use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::prometheus::{label, push_head};

/// Appends the metrics that are available on this system.
pub(super) fn push(text: &mut String) {
    let name = "tautwire_build_info";
    push_head(text, name, "gauge", "A constant 1, labelled with the version of the broker.");
    let _ = writeln!(text, "{name}{{{}}} 1", build());
    let metrics: [(&str, &str, &str, Option<f64>); 6] = [
        (
            "process_cpu_seconds_total",
            "counter",
            "Total user and system CPU time spent in seconds.",
            Some(seconds(ClockId::ProcessCPUTime)),
        ),
        ("process_resident_memory_bytes", "gauge", "Resident memory size in bytes.", memory().map(|(_, held)| held)),
        ("process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes.", memory().map(|(size, _)| size)),
        ("process_open_fds", "gauge", "Number of open file descriptors.", open_descriptors()),
        (
            "process_max_fds",
            "gauge",
            "Maximum number of open file descriptors.",
            getrlimit(Resource::Nofile).current.map(|limit| limit as f64),
        ),
        (
            "process_start_time_seconds",
            "gauge",
            "Start time of the process since the Unix epoch in seconds.",
            started_unix_s(),
        ),
    ];
    for (name, kind, meaning, value) in metrics {
        let Some(value) = value else { continue };
        push_head(text, name, kind, meaning);
        let _ = writeln!(text, "{name} {value}");
    }
}

/// The labels of `tautwire_build_info`. Package builds set the commit and the compiler as environment variables.
fn build() -> String {
    let mut labels = format!("version=\"{}\"", env!("CARGO_PKG_VERSION"));
    for (name, value) in [("commit", option_env!("TAUTWIRE_COMMIT")), ("rustc", option_env!("TAUTWIRE_RUSTC"))] {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            let _ = write!(labels, ",{name}=\"{}\"", label(value));
        }
    }
    labels
}

fn seconds(clock: ClockId) -> f64 {
    Duration::try_from(clock_gettime(clock)).unwrap_or_default().as_secs_f64()
}

/// Bytes of virtual and of resident memory.
fn memory() -> Option<(f64, f64)> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = statm.split_ascii_whitespace().map_while(|pages| pages.parse::<f64>().ok());
    let page_bytes = rustix::param::page_size() as f64;
    Some((pages.next()? * page_bytes, pages.next()? * page_bytes))
}

fn open_descriptors() -> Option<f64> {
    // Linux 6.2 and later report the count; a broker with 100,000 connections should not list them.
    let count = std::os::unix::fs::MetadataExt::size(&fs::metadata("/proc/self/fd").ok()?);
    if count > 0 {
        return Some(count as f64);
    }
    // One of them is the directory being listed.
    Some(fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1) as f64)
}

#[cfg(target_os = "linux")]
fn started_unix_s() -> Option<f64> {
    static STARTED: std::sync::LazyLock<Option<f64>> = std::sync::LazyLock::new(|| {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        // The program name, in parentheses, may contain spaces. The start time is field 22, in clock ticks since boot.
        let ticks: f64 = stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()?;
        let booted = seconds(ClockId::Realtime) - seconds(ClockId::Boottime);
        Some(booted + ticks / rustix::param::clock_ticks_per_second() as f64)
    });
    *STARTED
}

#[cfg(not(target_os = "linux"))]
fn started_unix_s() -> Option<f64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn the_process_is_measured() {
        let held = vec![1_u8; 1 << 20];
        let mut text = String::new();
        push(&mut text);
        let value = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name}: {text}"))
        };
        let now = crate::time::since_epoch().as_secs_f64();
        assert!((now - 3_600.0..=now + 1.0).contains(&value("process_start_time_seconds")), "{text}");
        assert!(value("process_resident_memory_bytes") > held.len() as f64);
        assert!(value("process_virtual_memory_bytes") >= value("process_resident_memory_bytes"));
        assert!(value("process_cpu_seconds_total") > 0.0);
        assert!((3.0..=value("process_max_fds")).contains(&value("process_open_fds")), "{text}");
        assert!(text.contains(&format!("tautwire_build_info{{version=\"{}\"", env!("CARGO_PKG_VERSION"))), "{text}");
    }
}
