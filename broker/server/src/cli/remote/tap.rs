//! `tautwire tap`: prints messages as they are published.

use std::io::{BufRead as _, Write as _};
use std::process::ExitCode;

use super::super::arguments::{Arguments, Command, OptionGroup, value};
use super::super::{CommandExit, Exit};
use super::retained::payload;
use super::{ADMIN, CA, JSON, RemoteArguments, TOKEN_FILE, moment, shown};
use crate::json;
use crate::stderr;

pub(crate) static COMMAND: Command = Command {
    name: "tap",
    usage: &["--admin URL --token-file FILE [OPTION]… [FILTER]"],
    about: "Prints messages as they are published: time, client, topic and payload, as JSON if the topic has a contract. FILTER is a topic\n\
            filter that includes mount points; without it, all messages are shown except those of the broker itself.",
    groups: &[
        OptionGroup {
            title: "Options",
            options: &[
                value(
                    None,
                    "rate",
                    "N",
                    "Maximum number of messages per second, 1 to 500; the others are counted. Default: 50.",
                ),
                value(Some('C'), "count", "N", "End after this many messages."),
            ],
        },
        OptionGroup { title: "Broker", options: &[ADMIN, TOKEN_FILE, CA, JSON] },
    ],
    notes: &[
        "The audit log records taps. A tap shows messages even if nobody subscribes to them, and has no effect on their delivery.",
        "Exit codes: 0 done; 1 invalid arguments; 2 no connection to the broker, or the broker ended the tap; 3 refused.",
    ],
};

pub(in crate::cli) fn run(parser: lexopt::Parser) -> Result<ExitCode, CommandExit> {
    let mut arguments = Arguments::new(&COMMAND, parser);
    let mut count = None;
    let mut given = RemoteArguments::read(&mut arguments, |given, name, arguments| {
        match name {
            "count" => count = Some(arguments.number(1..=u64::MAX)?),
            name => given.query.push((name, arguments.string()?)),
        }
        Ok(())
    })?;
    if !given.words.is_empty() {
        let [filter] = given.word(&arguments, "one FILTER at most")?.map(str::to_owned);
        given.query.push(("filter", filter));
    }
    let events = given.open(&arguments, "/v1/tap")?;
    let mut event = String::new();
    for line in events.lines() {
        let line = line.map_err(|error| CommandExit::failure(Exit::Connection, format!("the tap ended: {error}")))?;
        if let Some(name) = line.strip_prefix("event: ") {
            name.clone_into(&mut event);
        } else if let Some(data) = line.strip_prefix("data: ") {
            let value = json::parse(data).map_err(|error| {
                CommandExit::failure(Exit::Connection, format!("invalid event in the tap: {}", error.message))
            })?;
            if event == "skipped" {
                stderr::write_line(format_args!(
                    "tautwire: {} messages were skipped; use --rate to show more",
                    shown(value.get("count"))
                ));
                continue;
            }
            let text = if given.json {
                format!("{data}\n")
            } else {
                let [client, topic] = ["client_id", "topic"].map(|name| shown(value.get(name)));
                let truncated = if value.get("truncated").is_some() { " …" } else { "" };
                format!("{} {client} {topic} {}{truncated}\n", moment(value.get("at_ms"), 1_000), payload(&value))
            };
            if std::io::stdout().lock().write_all(text.as_bytes()).is_err() {
                return Ok(ExitCode::SUCCESS);
            }
            count = count.map(|left: u64| left - 1);
            if count == Some(0) {
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
    Err(CommandExit::failure(Exit::Connection, "the broker ended the tap"))
}
