//! `tautwire contract test`: validates payloads against a contract without a broker.

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
    about: "Validates each file as a payload of the contract, and reports violations.\n\
            The file name - means standard input.",
    groups: &[
        OptionGroup { title: "Options", options: source::OPTIONS },
        OptionGroup {
            title: "Payload",
            options: &[
                value(None, "topic", "TOPIC", "The topic of the payload; required if topic levels must equal fields."),
                value(
                    None,
                    "format",
                    "FORMAT",
                    "protobuf, messagepack or json, like a content type. Default: the first format that matches.",
                ),
            ],
        },
    ],
    notes: &[
        "Exit codes: 0 all payloads are valid; 1 invalid arguments, files or contracts; 2 no connection to the admin API;\n\
              3 a payload violates the contract, or the admin API refused.",
    ],
};

/// Largest payload in MQTT.
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
            Argument::Option(_) => return Err(arguments.failure("is not supported by this command")),
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
    let mut has_violations = false;
    for file in files {
        let payload = read(file)?;
        match contract.check(&topic, format.map(Format::content_type), &payload) {
            Ok(format) => text.push_str(&format!("{file}: ok ({})\n", format.name())),
            Err(violation) => {
                has_violations = true;
                text.push_str(&format!("{file}: {violation}\n"));
            }
        }
    }
    let printed = print(&text);
    Ok(if has_violations { Exit::Refused.into() } else { printed })
}

/// The given topic, if the contract covers it. Without one, any topic will do if no level must equal a field.
fn topic_for(contract: &Contract, given: Option<String>, arguments: &Arguments) -> Result<String, CommandExit> {
    let pattern = contract.topics();
    match given {
        Some(topic) if TopicName::new(&topic).is_ok() && topic_matches(pattern.filter(), &topic) => Ok(topic),
        Some(topic) => {
            let topic = topic.escape_debug();
            Err(arguments.command_failure(&format!("the contract is for {}, not for {topic}", pattern.as_str())))
        }
        None if contract.topic_fields().next().is_some() => Err(arguments.command_failure(&format!(
            "levels of the topic {} must equal fields: use --topic to give the topic of the payload",
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
