//! `tautwire contract test`: payloads held to a contract without a broker.

use std::io::Read as _;
use std::process::ExitCode;

use tautwire_contracts::{Contract, Format};
use tautwire_protocol::{TopicName, topic_matches};

use super::super::arguments::{Argument, Arguments, Command, OptionGroup, value};
use super::super::{CommandExit, Exit, print};
use super::inspect::named;
use super::source::{self, SourceOptions};

pub(crate) static COMMAND: Command = Command {
    name: "contract test",
    usage: &["[--path DIR | --admin URL --token-file FILE] [--topic TOPIC] [--format FORMAT] NAME FILE…"],
    about: "Says of each file whether it would be let through as a payload, and if not, what is wrong with it.\n\
            A file of the name - is standard input.",
    groups: &[
        OptionGroup { title: "Options", options: source::OPTIONS },
        OptionGroup {
            title: "Payload",
            options: &[
                value(None, "topic", "TOPIC", "The topic it is for; needed where levels of it are tied to fields."),
                value(
                    None,
                    "format",
                    "FORMAT",
                    "protobuf, messagepack or json, as a content type would say. Default: the first that fits.",
                ),
            ],
        },
    ],
    notes: &[
        "Exit codes: 0 all keep the contract; 1 wrong arguments, files or contracts; 2 no connection to the admin API;\n\
              3 a payload breaks the contract, or the admin API refused.",
    ],
};

/// The largest payload of MQTT.
const PAYLOAD_MAX_BYTES: u64 = 268_435_455;

pub(super) fn run(parser: lexopt::Parser) -> Result<ExitCode, CommandExit> {
    let mut arguments = Arguments::new(&COMMAND, parser);
    let mut options = SourceOptions::default();
    let (mut topic, mut format, mut given) = (None, None, Vec::new());
    while let Some(argument) = arguments.next()? {
        match argument {
            Argument::Option("topic") => topic = Some(arguments.string()?),
            Argument::Option("format") => {
                format = Some(arguments.choice(&Format::ALL.map(|format| (format.name(), format)))?);
            }
            Argument::Option(name) if options.take(name, &mut arguments)? => {}
            Argument::Option(_) => return Err(arguments.failure("is not understood here")),
            Argument::Positional(text) => given.push(text),
        }
    }
    let [name, files @ ..] = given.as_slice() else {
        return Err(arguments.command_failure("the name of a contract is missing"));
    };
    if files.is_empty() {
        return Err(arguments.command_failure("a file with a payload is missing"));
    }
    let catalogue = options.source(&arguments)?.load()?;
    let contract = named(&catalogue, name)?;
    let topic = topic_for(contract, topic, &arguments)?;
    let mut text = String::new();
    let mut breaks = false;
    for file in files {
        let payload = read(file)?;
        match contract.check(&topic, format.map(Format::content_type), &payload) {
            Ok(format) => text.push_str(&format!("{file}: ok ({})\n", format.name())),
            Err(violation) => {
                breaks = true;
                text.push_str(&format!("{file}: {violation}\n"));
            }
        }
    }
    let printed = print(&text);
    Ok(if breaks { Exit::Refused.into() } else { printed })
}

/// The topic given, if it is one of the contract; without one, any will do that is tied to nothing.
fn topic_for(contract: &Contract, given: Option<String>, arguments: &Arguments) -> Result<String, CommandExit> {
    let pattern = contract.topics();
    match given {
        Some(topic) if TopicName::new(&topic).is_ok() && topic_matches(pattern.filter(), &topic) => Ok(topic),
        Some(topic) => {
            let topic = topic.escape_debug();
            Err(arguments.command_failure(&format!("the contract is for {}, not for {topic}", pattern.as_str())))
        }
        None if contract.ties().next().is_some() => Err(arguments.command_failure(&format!(
            "levels of the topic {} are tied to fields: say with --topic for which one the payload is",
            pattern.as_str()
        ))),
        None => Ok(String::new()),
    }
}

fn read(file: &str) -> Result<Vec<u8>, CommandExit> {
    let mut payload = Vec::new();
    let read = if file == "-" {
        std::io::stdin().lock().take(PAYLOAD_MAX_BYTES).read_to_end(&mut payload)
    } else {
        std::fs::File::open(file).and_then(|file| file.take(PAYLOAD_MAX_BYTES).read_to_end(&mut payload))
    };
    read.map_err(|error| CommandExit::failure(Exit::Usage, format!("{file} cannot be read: {error}")))?;
    Ok(payload)
}
