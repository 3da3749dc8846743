//! Measures the cost of checking a payload against its contract and of converting it, compared with libraries that parse the same
//! bytes, in one run.
//!
//! ```text
//! cargo run --release [-- [--rounds N] [--quick] [--case NAME] [--output FILE]]
//! ```
//!
//! Prints a table, and writes all samples to FILE. `README.md` defines the figures.

#![forbid(unsafe_code)]

mod libraries;
mod workload;

use std::process::ExitCode;

use tautwire_bench_timing::{Arguments, json, run, table, versions, write};

const DEFAULT_ROUNDS: usize = 21;
const QUICK_ROUNDS: usize = 5;
const PACKAGES: [&str; 5] = ["tautwire-contracts", "jsonschema", "prost-reflect", "rmpv", "serde_json"];

fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args().skip(1), DEFAULT_ROUNDS, QUICK_ROUNDS, &["--case"]) {
        Ok(arguments) => arguments,
        Err(message) => {
            eprintln!(
                "{message}\nusage: tautwire-bench-contracts [--rounds N] [--quick] [--case NAME] [--output FILE]"
            );
            return ExitCode::from(2);
        }
    };
    let versions = versions(include_str!("../Cargo.lock"), &PACKAGES);
    let reading = workload::Reading::new();
    let mut contenders = libraries::contenders(&reading);
    contenders.retain(|contender| arguments.other("--case").is_none_or(|case| case == contender.case));
    let results = run(contenders, arguments.rounds);
    print!("{}", table(&results));
    let mut json = json("CPU ns per payload", &versions, &results, arguments.rounds);
    json["payload_bytes"] = serde_json::json!({
        "protobuf": reading.protobuf.len(),
        "messagepack": reading.message_pack.len(),
        "json": reading.json.len(),
    });
    if let Some(output) = arguments.output
        && let Err(error) = write(&output, &json)
    {
        eprintln!("cannot write {}: {error}", output.display());
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
