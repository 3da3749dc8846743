//! Measures the CPU time of the Rust client, compared with rumqttc, in one run with one broker.
//!
//! ```text
//! cargo run --release [-- [--rounds N] [--quick] [--broker PROGRAM] [--output FILE]]
//! ```
//!
//! Prints a table, and writes all samples to FILE. `README.md` defines the figures.

#![forbid(unsafe_code)]

mod broker;
mod library;
mod report;
mod rumqttc_v3;
mod rumqttc_v5;
mod sample;
mod tautwire;
mod tautwire_blocking;

use std::process::{Command, ExitCode};

use broker::Broker;
use library::LIBRARIES;
use sample::{SCENARIOS, Sample, Scenario};
use tautwire_bench_timing::{Arguments, write};

const DEFAULT_ROUNDS: usize = 9;
const QUICK_ROUNDS: usize = 3;
const BROKER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bin/tautwire");

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [word, library, scenario, port] = words.as_slice()
        && word == "sample"
    {
        return one_sample(library, scenario, port);
    }
    let arguments = match Arguments::parse(words, DEFAULT_ROUNDS, QUICK_ROUNDS, &["--broker"]) {
        Ok(arguments) => arguments,
        Err(message) => {
            eprintln!(
                "{message}\nusage: tautwire-bench-rust-client [--rounds N] [--quick] [--broker PROGRAM] [--output FILE]"
            );
            return ExitCode::from(2);
        }
    };
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let program = arguments.other("--broker").unwrap_or(BROKER);
    let mut samples: Vec<(&'static str, Scenario, Vec<Option<Sample>>)> = SCENARIOS
        .iter()
        .flat_map(|scenario| LIBRARIES.iter().map(|library| (*library, *scenario, Vec::new())))
        .collect();
    for round in 0..arguments.rounds {
        // Other load affects all of them, and none always follows the same one.
        let count = samples.len();
        for at in 0..count {
            let (library, scenario, taken) = &mut samples[(at + round) % count];
            let broker = Broker::start(program.as_ref())?;
            let sample = sample_apart(library, scenario, broker.port())?;
            if sample.is_none() {
                eprintln!("{library} did not get to the end of {}", scenario.name);
            }
            taken.push(sample);
        }
        eprintln!("round {} of {}", round + 1, arguments.rounds);
    }
    let results = report::summarise(samples);
    print!("{}", report::table(&results));
    if let Some(output) = &arguments.output {
        write(output, &report::json(&results, arguments.rounds))
            .map_err(|error| format!("{}: {error}", output.display()))?;
    }
    Ok(())
}

/// Returns `None` if it did not complete. In a separate process, whose CPU time is that of the library and the loop around it.
fn sample_apart(library: &str, scenario: &Scenario, port: u16) -> Result<Option<Sample>, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(program)
        .args(["sample", library, scenario.name, &port.to_string()])
        .output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(Sample::parse(text.trim()))
}

fn one_sample(library: &str, scenario: &str, port: &str) -> ExitCode {
    let scenario = SCENARIOS.iter().find(|known| known.name == scenario);
    let (Some(scenario), Ok(port)) = (scenario, port.parse()) else { return ExitCode::from(2) };
    match library::take(library, scenario, port) {
        Some(sample) => {
            println!("{sample}");
            ExitCode::SUCCESS
        }
        None => ExitCode::from(2),
    }
}
