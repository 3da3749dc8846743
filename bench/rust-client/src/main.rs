//! What the Rust client costs in CPU time, beside rumqttc, in one run against one broker.
//!
//! ```text
//! cargo run --release [-- [--rounds N] [--quick] [--broker PROGRAM] [--output FILE]]
//! ```
//!
//! Prints a table and writes `bench/results/rust-client/latest.json`. See `README.md` for what the figures mean.

#![forbid(unsafe_code)]

mod broker;
mod machine;
mod report;
mod rumqttc_v3;
mod rumqttc_v5;
mod sample;
mod tautwire;
mod tautwire_blocking;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use broker::Broker;
use sample::{LIBRARIES, SCENARIOS, Sample, Scenario};

const DEFAULT_ROUNDS: usize = 9;
const QUICK_ROUNDS: usize = 3;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [word, library, scenario, port] = words.as_slice()
        && word == "sample"
    {
        return one_sample(library, scenario, port);
    }
    let arguments = match Arguments::parse(words.into_iter()) {
        Ok(arguments) => arguments,
        Err(message) => {
            eprintln!(
                "{message}\nusage: tautwire-bench-rust-client [--rounds N] [--quick] [--broker PROGRAM] [--output FILE]"
            );
            return ExitCode::from(2);
        }
    };
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

/// Whether the bars hold.
fn run(arguments: &Arguments) -> Result<bool, String> {
    let mut samples: Vec<(&'static str, Scenario, Vec<Sample>)> = SCENARIOS
        .iter()
        .flat_map(|scenario| LIBRARIES.iter().map(|library| (*library, *scenario, Vec::new())))
        .collect();
    for round in 0..arguments.rounds {
        // All meet the same disturbances, and none is always the first after another.
        let count = samples.len();
        for at in 0..count {
            let (library, scenario, taken) = &mut samples[(at + round) % count];
            let broker = Broker::start(&arguments.broker)?;
            match sample_apart(library, scenario, broker.port())? {
                Some(sample) => taken.push(sample),
                // Noted by its absence: fewer samples than rounds.
                None => eprintln!("{library} did not get to the end of {}", scenario.name),
            }
        }
        eprint!("round {} of {}\r", round + 1, arguments.rounds);
    }
    let results = report::summarise(samples);
    print!("{}", report::table(&results));
    let verdicts = report::verdicts(&results);
    print!("\n{}", report::bars(&verdicts));
    let json = report::json(&results, &verdicts, arguments.rounds);
    report::write(&arguments.output, &json).map_err(|error| format!("{}: {error}", arguments.output.display()))?;
    println!("\nwritten to {}", arguments.output.display());
    Ok(verdicts.iter().all(|verdict| verdict.holds))
}

/// `None` where it did not get to the end. In a process of its own, so that its CPU time is all the library's and the loop's around it.
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
    match sample::take(library, scenario, port) {
        Some(sample) => {
            println!("{sample}");
            ExitCode::SUCCESS
        }
        None => ExitCode::from(2),
    }
}

struct Arguments {
    rounds: usize,
    broker: PathBuf,
    output: PathBuf,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let mut arguments = Self {
            rounds: DEFAULT_ROUNDS,
            broker: PathBuf::from(root).join("bin/tautwire"),
            output: PathBuf::from(root).join("bench/results/rust-client/latest.json"),
        };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--quick" => arguments.rounds = QUICK_ROUNDS,
                "--rounds" => {
                    let rounds = words.next().and_then(|rounds| rounds.parse().ok()).filter(|&rounds| rounds > 0);
                    arguments.rounds = rounds.ok_or("--rounds needs a number above 0")?;
                }
                "--broker" => arguments.broker = words.next().ok_or("--broker needs a program")?.into(),
                "--output" => arguments.output = words.next().ok_or("--output needs a file")?.into(),
                other => return Err(format!("unknown argument {other}")),
            }
        }
        Ok(arguments)
    }
}
