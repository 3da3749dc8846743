//! Runs the defined scenarios with several brokers and writes the results.

mod definition;
mod json;
mod options;
mod report;
mod schema;
mod summary;
mod threshold;

use std::fs::{self, File};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

pub(crate) use definition::{Definition, load_definitions};
pub(crate) use options::Options;
pub(crate) use schema::validate_result;

use self::definition::Shape;
use self::options::ROUNDS;
use self::report::{Report, RunPosition, Sample};
use self::threshold::Verdict;
use crate::broker::{Broker, BrokerKind, Programs};
use crate::failure::{ErrorContext, Failure, Result};
use crate::measure::Measurement;
use crate::mqtt::ProtocolVersion;
use crate::scenario::{Context, Scenario};
use crate::system::{Machine, Placement, cores, load_average, pin_self, raise_open_files_limit};

/// The brokers of a quick run, in the order of the definition: Tautwire and the first peers.
const QUICK_BROKERS: usize = 3;

/// Runs all `definitions`. Returns true if no check failed: all thresholds were met and every run of Tautwire was exact.
pub(crate) fn compare(definitions: &[Definition], options: &Options) -> Result<bool> {
    let _alone = wait_for_other_runs()?;
    let machine = Machine::describe(raise_open_files_limit()?);
    if options.nice != 0 {
        rustix::process::nice(options.nice).during(|| format!("setting the priority to nice {}", options.nice))?;
    }
    let folder = match &options.out {
        Some(folder) => folder.clone(),
        None => report::default_folder(&machine, options.is_complete_run())?,
    };
    fs::create_dir_all(&folder).during(|| format!("creating {}", folder.display()))?;
    let mut verdicts = Vec::new();
    for (index, definition) in definitions.iter().enumerate() {
        eprintln!("[{}/{}] {}: {}", index + 1, definitions.len(), definition.name, definition.title);
        let report = measure(definition, options, &machine)?;
        report.print();
        verdicts.push((definition.name.as_str(), report.verdict()));
        println!("  written to {}\n", report.write(&folder)?.display());
    }
    pin_self(&Placement::default().generator)?;
    if let [_, _, ..] = verdicts.as_slice() {
        let names = |wanted: Verdict| -> Vec<&str> {
            verdicts.iter().filter(|(_, verdict)| *verdict == wanted).map(|(name, _)| *name).collect()
        };
        println!("{} scenarios, {} passed", verdicts.len(), names(Verdict::Pass).len());
        for (what, verdict) in
            [("failed", Verdict::Fail), ("warnings", Verdict::Warn), ("partly not measured", Verdict::NotMeasured)]
        {
            if !names(verdict).is_empty() {
                println!("{what}: {}", names(verdict).join(" "));
            }
        }
    }
    Ok(verdicts.iter().all(|(_, verdict)| *verdict != Verdict::Fail))
}

/// Starts a new broker, runs the scenario once, and stops the broker.
pub(crate) fn run_once(
    scenario: &Scenario,
    kind: BrokerKind,
    version: ProtocolVersion,
    placement: &Placement,
    programs: &Programs,
) -> Result<Measurement> {
    if let Some(cpu) = placement.absent_cpu(cores()) {
        return Err(Failure::new(format!("placement {placement} needs CPU {cpu}, which this machine does not have")));
    }
    let broker = Broker::start(kind, programs, placement)?;
    let nanoseconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_nanos());
    let context = Context { broker: &broker, version, placement, run: nanoseconds as u32 };
    let measurement = scenario.run(&context)?;
    // A broker may have started threads since: the figure of a misplaced one is not comparable.
    broker.pin_all_threads()?;
    Ok(measurement)
}

/// One run of each step, each with a new broker.
fn run_all_steps(
    shape: &Shape,
    kind: BrokerKind,
    version: ProtocolVersion,
    placement: &Placement,
    programs: &Programs,
) -> Result<Measurement> {
    let mut whole = Measurement::default();
    for (step, scenario) in &shape.scenarios {
        if step.as_ref().is_some_and(|step| shape.is_skipped(kind, step)) {
            continue;
        }
        let outcome = run_once(scenario, kind, version, placement, programs);
        match step {
            None => return outcome,
            Some(step) => whole.add_step(step, outcome),
        }
    }
    Ok(whole)
}

fn measure(definition: &Definition, options: &Options, machine: &Machine) -> Result<Report> {
    let mut shape = definition.shape(options.quick)?;
    let placements = if options.placements.is_empty() { &definition.placements } else { &options.placements };
    let placements = if options.quick { &placements[..1] } else { placements };
    let rounds = options.rounds.unwrap_or(if options.quick { 1 } else { ROUNDS });

    let mut report = Report::begin(definition, &shape, machine, options, rounds);
    skip_impossible_steps(&mut shape, &mut report, machine);
    let present = brokers_present(definition, options, &shape, &mut report);
    for (&kind, step) in present.iter().flat_map(|kind| shape.steps().map(move |step| (kind, step))) {
        if shape.is_skipped(kind, step) {
            report.skip_step(&format!("{step} of {kind}"), "it takes this broker too long".to_owned());
        }
    }
    let started = Instant::now();
    let total = placements.len() * rounds as usize * present.len();
    let mut done = 0;
    for placement in placements {
        for round in 0..rounds {
            // Each round starts with a different broker, so that none always follows the same one.
            let first = round as usize % present.len().max(1);
            for &kind in present[first..].iter().chain(&present[..first]) {
                let load_average = load_average();
                let begun = Instant::now();
                let outcome = run_all_steps(&shape, kind, definition.version, placement, &options.programs);
                let took_s = begun.elapsed().as_secs_f64();
                done += 1;
                let left_s = started.elapsed().as_secs_f64() / done as f64 * (total - done) as f64;
                let problem = match &outcome {
                    Err(error) => format!(": {error}"),
                    Ok(measurement) if !measurement.is_exact() => ": not exact".to_owned(),
                    Ok(_) => String::new(),
                };
                eprintln!(
                    "  {done}/{total} round {} {kind} [{placement}] {took_s:.1} s, about {left_s:.0} s left{problem}",
                    round + 1
                );
                report.add(Sample::new(RunPosition { kind, placement, round, load_average, took_s }, outcome));
            }
        }
    }
    report.conclude(definition, started.elapsed().as_secs_f64());
    Ok(report)
}

fn skip_impossible_steps(shape: &mut Shape, report: &mut Report, machine: &Machine) {
    shape.scenarios.retain(|(step, scenario)| {
        let obstacle = scenario.unsupported_reason(machine);
        if let (Some(step), Some(reason)) = (step, &obstacle) {
            report.skip_step(step, reason.clone());
        }
        // Without steps, the run itself has the reason.
        step.is_none() || obstacle.is_none()
    });
}

/// Returns the brokers that are installed and support the scenario; the report lists the others with the reason.
fn brokers_present(definition: &Definition, options: &Options, shape: &Shape, report: &mut Report) -> Vec<BrokerKind> {
    let brokers = if options.brokers.is_empty() { &definition.brokers } else { &options.brokers };
    let mut present = Vec::new();
    for &kind in brokers {
        let lack = shape.parameters.missing_feature(kind, definition.version);
        if let Some(reason) = lack {
            report.skip_broker(kind, reason);
            continue;
        }
        match options.programs.version(kind) {
            Err(error) => report.skip_broker(kind, &error.to_string()),
            Ok(_) if options.quick && options.brokers.is_empty() && present.len() == QUICK_BROKERS => {
                report.skip_broker(kind, "not in quick runs; --brokers names others");
            }
            Ok(version) => {
                report.add_version(kind, version);
                present.push(kind);
            }
        }
    }
    present
}

/// Locks, because two concurrent measurements would affect each other. Dropping the file releases the lock.
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
