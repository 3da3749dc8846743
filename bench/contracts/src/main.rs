//! What it costs to hold a payload to its contract and to turn it into another format, beside libraries that parse the same
//! bytes, in one run.
//!
//! ```text
//! cargo run --release [-- [--rounds N] [--quick] [--case NAME] [--output FILE]]
//! ```
//!
//! Prints a table, and writes all samples to FILE. See `README.md` for what the figures mean.

#![forbid(unsafe_code)]

mod libraries;
#[path = "../../codec/src/measure.rs"]
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
            eprintln!(
                "{message}\nusage: tautwire-bench-contracts [--rounds N] [--quick] [--case NAME] [--output FILE]"
            );
            return ExitCode::from(2);
        }
    };
    let reading = workload::Reading::new();
    let mut contenders = libraries::contenders(&reading);
    contenders.retain(|contender| arguments.case.as_ref().is_none_or(|case| case == contender.case));
    let results = measure::run(contenders, &Settings { rounds: arguments.rounds });
    print!("{}", report::table(&results));
    if let Some(output) = arguments.output
        && let Err(error) = report::write(&output, &report::json(&reading, &results, arguments.rounds))
    {
        eprintln!("cannot write {}: {error}", output.display());
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

struct Arguments {
    rounds: usize,
    case: Option<String>,
    output: Option<PathBuf>,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut arguments = Self { rounds: DEFAULT_ROUNDS, case: None, output: None };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--quick" => arguments.rounds = QUICK_ROUNDS,
                "--rounds" => {
                    let rounds = words.next().and_then(|rounds| rounds.parse().ok()).filter(|&rounds| rounds > 0);
                    arguments.rounds = rounds.ok_or("--rounds needs a number above 0")?;
                }
                "--case" => arguments.case = Some(words.next().ok_or("--case needs a name")?),
                "--output" => arguments.output = Some(words.next().ok_or("--output needs a file")?.into()),
                other => return Err(format!("unknown argument {other}")),
            }
        }
        Ok(arguments)
    }
}
