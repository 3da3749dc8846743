//! What encoding and decoding a packet costs in CPU time, beside three other Rust codecs, in one run.
//!
//! ```text
//! cargo run --release [-- [--rounds N] [--quick] [--output FILE]]
//! ```
//!
//! Prints a table and writes `bench/results/codec/latest.json`. See `README.md` for what the figures mean.

#![forbid(unsafe_code)]

mod bars;
mod libraries;
mod machine;
mod measure;
mod report;
mod workload;

use std::path::PathBuf;
use std::process::ExitCode;

use measure::Settings;

const DEFAULT_ROUNDS: usize = 21;
const QUICK_ROUNDS: usize = 5;

fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(message) => {
            eprintln!("{message}\nusage: tautwire-bench-codec [--rounds N] [--quick] [--output FILE]");
            return ExitCode::from(2);
        }
    };
    let results = measure::run(libraries::contenders(), &Settings { rounds: arguments.rounds });
    print!("{}", report::table(&results));
    let verdicts = bars::verdicts(&results);
    print!("\n{}", report::bars(&verdicts));
    let json = report::json(&results, &verdicts, arguments.rounds);
    if let Err(error) = report::write(&arguments.output, &json) {
        eprintln!("cannot write {}: {error}", arguments.output.display());
        return ExitCode::FAILURE;
    }
    println!("\nwritten to {}", arguments.output.display());
    if verdicts.iter().all(|verdict| verdict.holds) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct Arguments {
    rounds: usize,
    output: PathBuf,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut arguments = Self {
            rounds: DEFAULT_ROUNDS,
            output: PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../results/codec/latest.json")),
        };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--quick" => arguments.rounds = QUICK_ROUNDS,
                "--rounds" => {
                    let rounds = words.next().and_then(|rounds| rounds.parse().ok()).filter(|&rounds| rounds > 0);
                    arguments.rounds = rounds.ok_or("--rounds needs a number above 0")?;
                }
                "--output" => arguments.output = words.next().ok_or("--output needs a file")?.into(),
                other => return Err(format!("unknown argument {other}")),
            }
        }
        Ok(arguments)
    }
}
