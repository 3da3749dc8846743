//! Where it ran.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

/// CPU, cores, kernel and compiler. What cannot be told is `"unknown"`.
pub fn description() -> Value {
    json!({
        "cpu_model": cpu_model(),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "kernel": read("/proc/sys/kernel/osrelease"),
        "rustc": output("rustc", &["--version"]),
        "load_average": read("/proc/loadavg"),
    })
}

fn cpu_model() -> String {
    read("/proc/cpuinfo")
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, model)| model.trim().to_owned()))
        .unwrap_or_else(unknown)
}

fn read(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| unknown(), |text| text.trim().to_owned())
}

fn output(program: &str, arguments: &[&str]) -> String {
    match Command::new(program).args(arguments).output() {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        _ => unknown(),
    }
}

fn unknown() -> String {
    "unknown".to_owned()
}
