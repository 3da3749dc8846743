//! Runs the defined scenarios against several brokers and writes what came of it.

mod definition;
mod report;
mod summary;

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) use definition::{Definition, load_definitions};

use self::report::{Report, Sample};
use crate::broker::{Broker, BrokerKind, Programs};
use crate::failure::{Result, While};
use crate::measure::Measurement;
use crate::mqtt::ProtocolVersion;
use crate::scenario::{Context, Scenario};
use crate::system::{Machine, Placement, load_average, pin_self, raise_open_files_limit};

/// What the person asked of the comparison.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub programs: Programs,
    /// Empty: the brokers that each definition names.
    pub brokers: Vec<BrokerKind>,
    /// Empty: the placements that each definition names.
    pub placements: Vec<Placement>,
    pub rounds: Option<u32>,
    /// About a second of measured time a run and the first placement only.
    pub quick: bool,
    /// Scheduling priority of broker and generator, as `nice` counts.
    pub nice: i32,
    /// The folder results go to; `None`: `bench/results/HARDWARE`, or `bench/results/quick` for quick ones.
    pub out: Option<PathBuf>,
}

/// Rounds of a definition, when not told otherwise: enough for a median and a spread.
const ROUNDS: u32 = 3;

/// Measures all `definitions`. True when every threshold was met and every run of our broker was exact.
pub(crate) fn compare(definitions: &[Definition], options: &Options) -> Result<bool> {
    let _alone = wait_for_other_runs()?;
    let machine = Machine::describe(raise_open_files_limit()?);
    if options.nice != 0 {
        rustix::process::nice(options.nice).during(|| format!("setting the priority to nice {}", options.nice))?;
    }
    let folder = match &options.out {
        Some(folder) => folder.clone(),
        None => report::default_folder(&machine, options.quick)?,
    };
    fs::create_dir_all(&folder).during(|| format!("creating {}", folder.display()))?;
    let mut all_passed = true;
    for definition in definitions {
        let report = measure(definition, options, &machine)?;
        report.print();
        all_passed &= report.passed();
        let path = folder.join(format!("{}.json", definition.name));
        fs::write(&path, report.to_json()?).during(|| format!("writing {}", path.display()))?;
        println!("  written to {}\n", path.display());
    }
    pin_self(&Placement::default().generator)?;
    Ok(all_passed)
}

/// Starts a fresh broker, runs the scenario once, stops the broker.
pub(crate) fn run_once(
    scenario: &Scenario,
    kind: BrokerKind,
    version: ProtocolVersion,
    placement: &Placement,
    programs: &Programs,
) -> Result<Measurement> {
    let broker = Broker::start(kind, programs, placement)?;
    let nanoseconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_nanos());
    let context = Context { broker: &broker, version, placement, run: nanoseconds as u32 };
    let measurement = scenario.run(&context)?;
    // A broker may have started threads of its own since: a figure of a misplaced one would not compare.
    broker.pin_all_threads()?;
    Ok(measurement)
}

fn measure(definition: &Definition, options: &Options, machine: &Machine) -> Result<Report> {
    let scenario = if options.quick { definition.run.clone().quick() } else { definition.run.clone() };
    let brokers = if options.brokers.is_empty() { &definition.brokers } else { &options.brokers };
    let placements = if options.placements.is_empty() { &definition.placements } else { &options.placements };
    let placements = if options.quick { &placements[..1] } else { placements };
    let rounds = options.rounds.unwrap_or(ROUNDS);

    let mut report = Report::begin(definition, &scenario, machine, options, rounds);
    let mut present = Vec::new();
    for &kind in brokers {
        match scenario.lacks(kind, definition.version) {
            Some(reason) => report.leave_out(kind, reason),
            None => match options.programs.version(kind) {
                Ok(version) => {
                    report.add_version(kind, version);
                    present.push(kind);
                }
                Err(error) => report.leave_out(kind, &error.to_string()),
            },
        }
    }
    eprintln!("{}: {}", definition.name, definition.title);
    for placement in placements {
        for round in 0..rounds {
            // Each round begins with another broker, so that none always follows the same one.
            let first = round as usize % present.len().max(1);
            for &kind in present[first..].iter().chain(&present[..first]) {
                let load_average = load_average();
                let outcome = run_once(&scenario, kind, definition.version, placement, &options.programs);
                if let Err(error) = &outcome {
                    eprintln!("  {kind} at {placement}, round {}: {error}", round + 1);
                }
                report.add(Sample::new(kind, placement, round, load_average, outcome));
            }
        }
    }
    report.conclude(definition);
    Ok(report)
}

/// Two measurements at once would measure each other. The lock goes with the returned file.
fn wait_for_other_runs() -> Result<File> {
    let path = std::env::temp_dir().join("tautwire-bench.lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .during(|| format!("opening {}", path.display()))?;
    if file.try_lock().is_err() {
        eprintln!("another measurement is under way; waiting for it");
        file.lock()?;
    }
    Ok(file)
}
