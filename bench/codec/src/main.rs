//! Measures the CPU time of encoding and decoding a packet, compared with three other Rust codecs, in one run.
//!
//! ```text
//! cargo run --release [-- [--rounds N] [--quick] [--output FILE]]
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
const PACKAGES: [&str; 4] = ["tautwire-protocol", "mqttbytes", "rumqttc", "mqtt-protocol-core"];

fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args().skip(1), DEFAULT_ROUNDS, QUICK_ROUNDS, &[]) {
        Ok(arguments) => arguments,
        Err(message) => {
            eprintln!("{message}\nusage: tautwire-bench-codec [--rounds N] [--quick] [--output FILE]");
            return ExitCode::from(2);
        }
    };
    let versions = versions(include_str!("../Cargo.lock"), &PACKAGES);
    let results = run(libraries::contenders(), arguments.rounds);
    print!("{}", table(&results));
    if let Some(output) = arguments.output
        && let Err(error) = write(&output, &json("CPU ns per packet", &versions, &results, arguments.rounds))
    {
        eprintln!("cannot write {}: {error}", output.display());
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
