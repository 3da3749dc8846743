//! Measures the cost of durable frames: ways to write and sync a file, and which thread does it for how many threads.
//!
//! ```text
//! cargo run --release [-- [--rounds N] [--quick] [--folder FOLDER] [--commit NAME] [--output FILE]]
//! ```
//!
//! Prints a table, and writes every sample to FILE with the schema `bench/schema/result.json`. See `README.md`.

#![forbid(unsafe_code)]

mod file;
mod layout;
mod load;
mod product;
mod report;
mod sample;
mod waker;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tautwire_bench_timing::Arguments;

use crate::file::{Medium, Syncing};
use crate::layout::Layout;
use crate::load::{FRAMES, Load};
use crate::report::Report;

const DEFAULT_ROUNDS: usize = 7;
const QUICK_ROUNDS: usize = 1;
const OPTIONS: [&str; 3] = ["--folder", "--commit", "--sample-ms"];

const THREADS: [usize; 3] = [1, 2, 4];
/// The windows: the maximum number of frames of one thread that are not durable yet.
const WINDOWS: [usize; 2] = [1, 16];

fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args().skip(1), DEFAULT_ROUNDS, QUICK_ROUNDS, &OPTIONS) {
        Ok(arguments) => arguments,
        Err(message) => {
            eprintln!(
                "{message}\nusage: tautwire-bench-journal [--rounds N] [--quick] [--folder FOLDER] [--output FILE]"
            );
            return ExitCode::from(2);
        }
    };
    let folder = arguments.other("--folder").map_or_else(|| PathBuf::from("target/journal"), PathBuf::from);
    match measure(&arguments, &folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot measure in {}: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}

/// Each round takes one sample of every alternative, so that other load affects all of them.
fn measure(arguments: &Arguments, folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut report = Report::new(arguments);
    for round in 0..arguments.rounds {
        for (size, frame_bytes) in FRAMES {
            for medium in Medium::ALL {
                for syncing in Syncing::ALL {
                    let sample = file::sample(folder, medium, syncing, frame_bytes, report.sample_time())?;
                    report.add(
                        round,
                        &format!("file {size}"),
                        &format!("{} {}", medium.name(), syncing.name()),
                        &sample,
                    );
                }
            }
            for threads in THREADS {
                for window in WINDOWS {
                    for layout in Layout::ALL {
                        let load = Load { threads, window, frame_bytes, time: report.sample_time() };
                        let sample = layout::sample(folder, layout, load)?;
                        let situation = format!("{threads} threads, {size}, window {window}");
                        report.add(round, &situation, layout.name(), &sample);
                    }
                }
            }
        }
        eprintln!("round {} of {}", round + 1, arguments.rounds);
    }
    std::fs::remove_dir_all(folder)?;
    print!("{}", report.table());
    if let Some(output) = &arguments.output {
        tautwire_bench_timing::write(output, &report.json(arguments))?;
    }
    Ok(())
}
