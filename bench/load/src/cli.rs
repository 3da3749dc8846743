//! The command line.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use lexopt::prelude::*;

use crate::broker::{BrokerKind, Programs, become_program, repository_root};
use crate::compare::{Definition, Options, compare, load_definitions, run_once, validate_result};
use crate::failure::{ErrorContext, Failure, Result};
use crate::mqtt::ProtocolVersion;
use crate::nats::serve_nats_publisher;
use crate::net::{serve_echo, serve_relay, serve_tls_relay};
use crate::scenario::{KINDS, Scenario};
use crate::system::{Placement, raise_open_files_limit};

const HELP: &str = "\
tautwire-bench: measures MQTT brokers on this machine and accounts for every message

tautwire-bench compare [NAME...]   run the suite, or the scenarios of bench/scenarios whose names start with NAME
    --list                         list the scenarios
    --quick                        quick run: one round, smaller parameters, the first placement and three brokers
    --rounds N                     number of rounds in which the brokers alternate (3)
    --brokers A,B                  tautwire, tautwire-Nt (N threads), tautwire-contracts, mosquitto, nats, mochi, aedes,
                                   rumqttd, rmqtt, hivemq, relay; clusters: tautwire-cluster (3 nodes),
                                   tautwire-cluster-N, nats-cluster; TLS: tautwire-tls, mosquitto-tls,
                                   nats-tls, relay-tls
    --pin broker=CPU,generator=CPU | --free
    --nice N                       scheduling priority of both sides
    --out FOLDER                   folder for results; default: bench/results/HARDWARE, or bench/results/quick for a quick
                                   run or with other brokers or placements, or fewer rounds, than in the definition

tautwire-bench KIND [--broker NAME] [--pin ...] [--v5] [--PARAMETER VALUE]...
                                   one run; prints the measurement as JSON; KIND and parameters as in bench/scenarios,
                                   such as flood --qos 1 --payload-bytes 64 --duration-ms 5000

tautwire-bench validate FILE...    validate results with bench/schema/result.json

    --tautwire FILE                the program to measure instead of bin/tautwire

Exit code: 0 no threshold failed and every run was exact; 1 otherwise; 2 a measurement failed.
";

/// Runs the command of the arguments.
pub(crate) fn run() -> Result<ExitCode> {
    let mut parser = lexopt::Parser::from_env();
    let command = match parser.next()? {
        Some(Value(command)) => command.string()?,
        Some(Long("help") | Short('h')) | None => {
            print!("{HELP}");
            return Ok(ExitCode::SUCCESS);
        }
        Some(other) => return Err(other.unexpected().into()),
    };
    match command.as_str() {
        "compare" => run_compare(parser),
        "validate" => validate(parser),
        kind if KINDS.contains(&kind) => run_single(kind, parser),
        // Internal: the processes for the raw figures.
        "echo" => serve_echo().map(|()| ExitCode::SUCCESS),
        "relay" => serve_relay().map(|()| ExitCode::SUCCESS),
        "nats-publisher" => {
            let servers = parser.value()?.string()?;
            serve_nats_publisher(&servers, parser.value()?.parse()?, parser.value()?.parse()?)
                .map(|()| ExitCode::SUCCESS)
        }
        "relay-tls" => {
            let (certificate, key) = (PathBuf::from(parser.value()?), PathBuf::from(parser.value()?));
            serve_tls_relay(&certificate, &key).map(|()| ExitCode::SUCCESS)
        }
        "become" => {
            let program = parser.value()?;
            let arguments: Vec<OsString> = parser.raw_args()?.collect();
            Err(become_program(&program, &arguments))
        }
        other => Err(Failure::new(format!("unknown command {other:?}; see --help"))),
    }
}

fn run_compare(mut parser: lexopt::Parser) -> Result<ExitCode> {
    let mut options = Options::default();
    let mut prefixes: Vec<String> = Vec::new();
    let mut list = false;
    while let Some(argument) = parser.next()? {
        match argument {
            Value(name) => prefixes.push(name.string()?),
            Long("list") => list = true,
            Long("quick") => options.quick = true,
            Long("rounds") => options.rounds = Some(parser.value()?.parse()?),
            Long("brokers") => {
                let names = parser.value()?.string()?;
                options.brokers = names.split(',').map(str::parse).collect::<Result<_>>()?;
            }
            Long("pin") => options.placements = vec![parser.value()?.string()?.parse()?],
            Long("free") => options.placements = vec![Placement::default()],
            Long("nice") => options.nice = parser.value()?.parse()?,
            Long("out") => options.out = Some(parser.value()?.into()),
            Long("tautwire") => options.programs = programs_with(parser.value()?)?,
            other => return Err(other.unexpected().into()),
        }
    }
    if options.rounds == Some(0) {
        return Err(Failure::new("--rounds must be at least 1"));
    }
    let definitions = chosen_definitions(&prefixes)?;
    if list {
        for definition in &definitions {
            let note = if definition.in_suite { "" } else { " (only when named in full)" };
            println!("{:<28} {}{note}", definition.name, definition.title);
        }
        return Ok(ExitCode::SUCCESS);
    }
    Ok(if compare(&definitions, &options)? { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn chosen_definitions(prefixes: &[String]) -> Result<Vec<Definition>> {
    let root =
        repository_root().ok_or_else(|| Failure::new("no bench/scenarios here: run this inside the repository"))?;
    let mut definitions = load_definitions(&root.join("bench"))?;
    if let Some(unknown) = prefixes.iter().find(|prefix| !definitions.iter().any(|d| begins_with(&d.name, prefix))) {
        return Err(Failure::new(format!("no scenario starts with {unknown:?}; compare --list lists them")));
    }
    // A complete name selects only that scenario, even if longer names start with it.
    let whole_names: Vec<String> = definitions.iter().map(|definition| definition.name.clone()).collect();
    definitions.retain(|definition| {
        (prefixes.is_empty() && definition.in_suite)
            || prefixes.iter().any(|prefix| match whole_names.contains(prefix) {
                true => definition.name == *prefix,
                false => definition.in_suite && begins_with(&definition.name, prefix),
            })
    });
    Ok(definitions)
}

/// Matches whole words: `b1` does not select `b10-fan-out`.
fn begins_with(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

fn validate(mut parser: lexopt::Parser) -> Result<ExitCode> {
    let mut are_valid = true;
    while let Some(argument) = parser.next()? {
        let Value(path) = argument else { return Err(argument.unexpected().into()) };
        let path = PathBuf::from(path);
        let text = fs::read_to_string(&path).during(|| format!("reading {}", path.display()))?;
        if let Err(error) = validate_result(&text) {
            println!("{}: {error}", path.display());
            are_valid = false;
        }
    }
    Ok(if are_valid { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn run_single(kind: &str, mut parser: lexopt::Parser) -> Result<ExitCode> {
    let mut broker = BrokerKind::Tautwire { threads: 1 };
    let mut programs = Programs::default();
    let mut placement = Placement::default();
    let mut version = ProtocolVersion::V3_1_1;
    let mut parameters = toml::Table::new();
    parameters.insert("kind".to_owned(), kind.into());
    while let Some(argument) = parser.next()? {
        match argument {
            Long("broker") => broker = parser.value()?.string()?.parse()?,
            Long("tautwire") => programs = programs_with(parser.value()?)?,
            Long("pin") => placement = parser.value()?.string()?.parse()?,
            Long("free") => placement = Placement::default(),
            Long("v5") => version = ProtocolVersion::V5,
            Long(name @ ("subscribe" | "lasting")) => _ = parameters.insert(name.to_owned(), true.into()),
            Long(name) => {
                let name = name.replace('-', "_");
                let value = parser.value()?.string()?;
                let value = value.parse::<i64>().map_or_else(|_| value.into(), toml::Value::from);
                parameters.insert(name, value);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let scenario: Scenario = parameters.try_into().map_err(|error: toml::de::Error| Failure::new(error.message()))?;
    if let Some(reason) = scenario.missing_feature(broker, version) {
        return Err(Failure::new(reason));
    }
    raise_open_files_limit()?;
    let measurement = run_once(&scenario, broker, version, &placement, &programs)?;
    println!("{}", serde_json::to_string_pretty(&measurement).during(|| "writing JSON".to_owned())?);
    Ok(if measurement.is_exact() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// The broker runs in a separate folder, so the path of its program must be absolute.
fn programs_with(tautwire: OsString) -> Result<Programs> {
    let path = std::path::absolute(PathBuf::from(tautwire))?;
    Ok(Programs { tautwire: Some(path) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_benchmark_is_named_by_whole_words() {
        assert!(begins_with("b1-baseline", "b1") && begins_with("b1-baseline", "b1-baseline"));
        assert!(!begins_with("b10-fan-out", "b1") && !begins_with("b1", "b1-baseline"));
    }
}
