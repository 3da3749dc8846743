//! What encoding and decoding a packet costs in CPU time, beside three other Rust codecs, in one run.
//!
//! ```text
//! cargo run --release [-- [--rounds N] [--quick] [--output FILE]]
//! ```
//!
//! Prints a table, and writes all samples to FILE. See `README.md` for what the figures mean.

#![forbid(unsafe_code)]

mod libraries;
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
    if let Some(output) = arguments.output
        && let Err(error) = report::write(&output, &report::json(&results, arguments.rounds))
    {
        eprintln!("cannot write {}: {error}", output.display());
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

struct Arguments {
    rounds: usize,
    output: Option<PathBuf>,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut arguments = Self { rounds: DEFAULT_ROUNDS, output: None };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--quick" => arguments.rounds = QUICK_ROUNDS,
                "--rounds" => {
                    let rounds = words.next().and_then(|rounds| rounds.parse().ok()).filter(|&rounds| rounds > 0);
                    arguments.rounds = rounds.ok_or("--rounds needs a number above 0")?;
                }
                "--output" => arguments.output = Some(words.next().ok_or("--output needs a file")?.into()),
                other => return Err(format!("unknown argument {other}")),
            }
        }
        Ok(arguments)
    }
}
