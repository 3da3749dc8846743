//! `tautwire tap`: what is published, as it is.

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
    about: "Prints messages as they are published: when, by whom, where, and the payload, as JSON where the contract of the topic knows it.\n\
            FILTER is what a subscription would have, with mount points; without one, all messages are shown but those of the broker.",
    groups: &[
        OptionGroup {
            title: "Options",
            options: &[
                value(
                    None,
                    "rate",
                    "N",
                    "At most so many messages in a second, 1 to 500; the rest is counted. Default: 50.",
                ),
                value(Some('C'), "count", "N", "End after so many messages."),
            ],
        },
        OptionGroup { title: "The broker", options: &[ADMIN, TOKEN_FILE, CA, JSON] },
    ],
    notes: &[
        "The audit log says who has watched what. A tap sees what publishers send, also where nobody subscribes, and changes nothing.",
        "Exit codes: 0 done; 1 the arguments are wrong; 2 the broker could not be asked, or has ended the tap; 3 refused.",
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
        let line =
            line.map_err(|error| CommandExit::failure(Exit::Connection, format!("the tap has ended: {error}")))?;
        if let Some(name) = line.strip_prefix("event: ") {
            name.clone_into(&mut event);
        } else if let Some(data) = line.strip_prefix("data: ") {
            let value = json::parse(data).map_err(|error| {
                CommandExit::failure(Exit::Connection, format!("the tap is not understood: {}", error.message))
            })?;
            if event == "skipped" {
                stderr::write_line(format_args!(
                    "tautwire: {} messages were skipped; --rate shows more",
                    shown(value.get("count"))
                ));
                continue;
            }
            let text = if given.json {
                format!("{data}\n")
            } else {
                let [client, topic] = ["client_id", "topic"].map(|name| shown(value.get(name)));
                let cut = if value.get("cut").is_some() { " …" } else { "" };
                format!("{} {client} {topic} {}{cut}\n", moment(value.get("at_ms"), 1_000), payload(&value))
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
    Err(CommandExit::failure(Exit::Connection, "the broker has ended the tap"))
}
