//! `tautwire contract add`: adds a contract to a folder or to a running broker.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::super::arguments::{Argument, Arguments, Command, OptionGroup, value};
use super::super::serve::failure;
use super::super::{CommandExit, Exit, print};
use super::inspect::NOTES;
use super::source::{self, Source, SourceOptions};
use crate::contracts::{self, Entry};

pub(crate) static COMMAND: Command = Command {
    name: "contract add",
    usage: &[
        "[--path DIR | --admin URL --token-file FILE] --topics PATTERN --format FORMAT --schema FILE [OPTION]… NAME",
    ],
    about: "Adds a contract: to contracts.toml of a folder, with a copy of the schema, or to a running broker, where it takes\n\
            effect at once, persists, and replaces one with the same name. If there is an error, nothing changes.",
    groups: &[
        OptionGroup { title: "Options", options: source::OPTIONS },
        OptionGroup {
            title: "Contract",
            options: &[
                value(None, "topics", "PATTERN", "The topics: sensors/{device_id}/reading, or a topic filter."),
                value(
                    None,
                    "format",
                    "FORMAT",
                    "protobuf, messagepack or json. May be repeated; the first one is preferred.",
                ),
                value(None, "schema", "FILE", "The .proto file or JSON Schema (.json)."),
                value(None, "message", "NAME", "The message type, if the file has several."),
                value(None, "on-violation", "POLICY", "observe, reject, quarantine or disconnect. Default: reject."),
                value(
                    None,
                    "unacknowledged",
                    "POLICY",
                    "drop or disconnect, for messages that cannot be refused. Default: drop.",
                ),
                value(None, "unknown-fields", "POLICY", "allow or reject. Default: allow."),
                value(None, "topic-field", "LEVEL=FIELD", "A topic level that must equal a field. May be repeated."),
            ],
        },
    ],
    notes: &[NOTES],
};

/// Options for string keys of the contract.
const TEXTS: [(&str, &str); 5] = [
    ("topics", "topics"),
    ("message", "message"),
    ("on-violation", "on_violation"),
    ("unacknowledged", "unacknowledged"),
    ("unknown-fields", "unknown_fields"),
];

pub(super) fn run(parser: lexopt::Parser) -> Result<ExitCode, CommandExit> {
    let mut arguments = Arguments::new(&COMMAND, parser);
    let mut options = SourceOptions::default();
    let mut entry = Entry::default();
    let (mut formats, mut topic_fields, mut schema, mut names) = (Vec::new(), Vec::new(), None, Vec::new());
    let mut has_topics = false;
    while let Some(argument) = arguments.next()? {
        match argument {
            Argument::Option("format") => formats.push(arguments.string()?),
            Argument::Option("schema") => schema = Some(PathBuf::from(arguments.os_string()?)),
            Argument::Option("topic-field") => {
                let text = arguments.string()?;
                let tie = text.split_once('=').ok_or_else(|| arguments.failure("expected LEVEL=FIELD"))?;
                topic_fields.push((tie.0.to_owned(), tie.1.to_owned()));
            }
            Argument::Option(name) if options.take(name, &mut arguments)? => {}
            Argument::Option(name) => {
                let Some((_, key)) = TEXTS.into_iter().find(|(option, _)| *option == name) else {
                    return Err(arguments.failure("is not supported by this command"));
                };
                has_topics |= key == "topics";
                entry.text(key, &arguments.string()?);
            }
            Argument::Positional(name) => names.push(name),
        }
    }
    let [name] = names.as_slice() else { return Err(arguments.command_failure("write the name of one contract")) };
    let schema = schema.ok_or_else(|| arguments.command_failure("--schema is missing"))?;
    if !has_topics || formats.is_empty() {
        return Err(arguments.command_failure("--topics and --format are required"));
    }
    entry.formats(&formats.iter().map(String::as_str).collect::<Vec<_>>());
    if !topic_fields.is_empty() {
        entry.topic_fields(topic_fields);
    }
    let text = std::fs::read_to_string(&schema)
        .map_err(|error| CommandExit::failure(Exit::Usage, format!("{} cannot be read: {error}", schema.display())))?;
    let file = schema.file_name().and_then(|file| file.to_str()).unwrap_or_default();
    match options.source(&arguments)? {
        Source::Folder(folder) => add_to_folder(&folder, name, &entry, &schema, &text),
        Source::Admin(admin) => {
            (entry.schema, entry.schema_file) = (Some(text), Some(file.to_owned()));
            let response = admin.request("PUT", &format!("/v1/contracts/{}", escaped(name)), &entry.to_json())?;
            match response.status {
                200 => Ok(print(&format!("contract {name} replaced\n"))),
                201 => Ok(print(&format!("contract {name} added\n"))),
                _ => Err(response.refusal()),
            }
        }
    }
}

fn add_to_folder(folder: &Path, name: &str, entry: &Entry, schema: &Path, text: &str) -> Result<ExitCode, CommandExit> {
    let added = contracts::append(folder, name, entry, schema, text).map_err(|errors| match errors {
        contracts::AppendError::Wrong(errors) => failure(&contracts::format_errors(folder, &errors)),
        contracts::AppendError::Other(message) => CommandExit::failure(Exit::Usage, message),
    });
    added?;
    Ok(print(&format!("contract {name} added to {}\n", folder.join(tautwire_contracts::MANIFEST).display())))
}

/// Escapes a name for a URL; the API rejects invalid names.
fn escaped(name: &str) -> String {
    name.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
        out
    })
}
