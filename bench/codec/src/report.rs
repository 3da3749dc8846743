//! The table for people and the JSON for programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use serde_json::{Value, json};

use crate::measure::Measured;

const LOCK_FILE: &str = include_str!("../Cargo.lock");

pub fn table(results: &[Measured]) -> String {
    let mut text = format!("{:<30} {:<20} {:>9} {:>9} {:>9}\n", "case", "library", "median ns", "min", "max");
    let mut last_case = "";
    for result in results {
        let min = result.ns_per_op.iter().copied().fold(f64::INFINITY, f64::min);
        let max = result.ns_per_op.iter().copied().fold(0.0, f64::max);
        let case = if result.case == last_case { "" } else { result.case };
        let _ = writeln!(text, "{case:<30} {:<20} {:>9.2} {min:>9.2} {max:>9.2}", result.library, result.median);
        last_case = result.case;
    }
    text
}

pub fn json(results: &[Measured], rounds: usize) -> Value {
    json!({
        "versions": versions(),
        "unit": "CPU ns per packet",
        "rounds": rounds,
        "results": results.iter().map(|result| json!({
            "case": result.case,
            "library": result.library,
            "ns_per_op": result.ns_per_op.iter().map(|ns| round(*ns)).collect::<Vec<_>>(),
            "median": round(result.median),
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
            && ["tautwire-protocol", "mqttbytes", "rumqttc", "mqtt-protocol-core"].contains(&name)
        {
            versions.insert(name, version);
        }
    }
    versions
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_library_has_its_version() {
        assert_eq!(super::versions().len(), 4);
    }
}
