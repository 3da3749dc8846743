//! `tautwire retained`: lists, shows and deletes retained messages of a running broker.

use std::ffi::OsString;
use std::process::ExitCode;

use super::super::arguments::{Arguments, Command, OptionGroup, value};
use super::super::{CommandExit, parser, print};
use super::clients::split;
use super::{
    ADMIN, CA, EXITS, JSON, RemoteArguments, TOKEN_FILE, compact, moment, parsed, percent_encoded, shown, table,
    wrong_group,
};
use crate::json::Value;

const BROKER: OptionGroup = OptionGroup { title: "Broker", options: &[ADMIN, TOKEN_FILE, CA, JSON] };

pub(crate) static LIST: Command = Command {
    name: "retained list",
    usage: &["--admin URL --token-file FILE [OPTION]… [FILTER]"],
    about: "Lists retained messages ordered by topic: all of them, or those whose topics match FILTER.",
    groups: &[
        OptionGroup {
            title: "Options",
            options: &[
                value(None, "limit", "N", "Maximum number of rows, 1 to 1,000. Default: 100."),
                value(None, "after", "TOPIC", "Continue after this topic."),
            ],
        },
        BROKER,
    ],
    notes: &["`tautwire retained list '$SYS/#'` lists the topics of the broker itself.", EXITS],
};

pub(crate) static SHOW: Command = Command {
    name: "retained show",
    usage: &["--admin URL --token-file FILE [OPTION]… TOPIC"],
    about: "Shows the retained message of TOPIC with its payload: as JSON if the topic has a contract, otherwise as text or base64.",
    groups: &[BROKER],
    notes: &[EXITS],
};

pub(crate) static DELETE: Command = Command {
    name: "retained delete",
    usage: &["--admin URL --token-file FILE [OPTION]… FILTER"],
    about: "Deletes the retained messages whose topics match FILTER, like an empty retained message to each topic. Subscribers of\n\
            such a topic get an empty message.",
    groups: &[BROKER],
    notes: &["Quote FILTER: '#' begins a comment in most shells.", EXITS],
};

pub(in crate::cli) fn run(arguments: Vec<OsString>) -> Result<ExitCode, CommandExit> {
    let (action, rest) = split(arguments);
    match action.as_deref() {
        Some("list") => list(Arguments::new(&LIST, parser(rest))),
        Some("show") => show(Arguments::new(&SHOW, parser(rest))),
        Some("delete") => delete(Arguments::new(&DELETE, parser(rest))),
        other => Err(wrong_group(&[&LIST, &SHOW, &DELETE], other)),
    }
}

fn list(mut arguments: Arguments) -> Result<ExitCode, CommandExit> {
    let mut given = RemoteArguments::read(&mut arguments, |given, name, arguments| {
        given.query.push((name, arguments.string()?));
        Ok(())
    })?;
    if !given.words.is_empty() {
        let [filter] = given.word(&arguments, "one FILTER at most")?.map(str::to_owned);
        given.query.push(("filter", filter));
    }
    let response = given.request(&arguments, "GET", "/v1/retained")?;
    if given.json {
        return Ok(print(&response.body));
    }
    let value = parsed(&response)?;
    const COLUMNS: [&str; 6] = ["topic", "qos", "payload_bytes", "expires_ms", "content_type", "contract"];
    let row = |message: &Value| {
        let cell = |name: &&str| match *name {
            "expires_ms" => moment(message.get(name), 1_000),
            name => shown(message.get(name)),
        };
        COLUMNS.iter().map(cell).collect()
    };
    let rows: Vec<Vec<String>> = value.list("messages").iter().map(row).collect();
    let mut text = table(&["topic", "qos", "bytes", "expires", "content type", "contract"], &rows);
    text.push_str(&format!("{} of {}\n", rows.len(), shown(value.get("matched"))));
    if !value.text("next").is_empty() {
        text.push_str(&format!("more: --after '{}'\n", shown(value.get("next"))));
    }
    Ok(print(&text))
}

fn show(mut arguments: Arguments) -> Result<ExitCode, CommandExit> {
    let given = RemoteArguments::read(&mut arguments, |_, _, arguments| {
        Err(arguments.failure("is not supported by this command"))
    })?;
    let [topic] = given.word(&arguments, "the TOPIC")?;
    let response = given.request(&arguments, "GET", &format!("/v1/retained/{}", percent_encoded(topic)))?;
    if given.json {
        return Ok(print(&response.body));
    }
    let value = parsed(&response)?;
    let mut text = String::new();
    for (name, shown) in [
        ("topic", shown(value.get("topic"))),
        ("qos", shown(value.get("qos"))),
        ("bytes", shown(value.get("payload_bytes"))),
        ("expires", moment(value.get("expires_ms"), 1_000)),
        ("content type", shown(value.get("content_type"))),
        ("contract", shown(value.get("contract"))),
        ("payload", payload(&value)),
    ] {
        text.push_str(&format!("{name:<13} {shown}\n"));
    }
    Ok(print(&text))
}

/// Formats a payload for people.
pub(super) fn payload(value: &Value) -> String {
    let visible = |text: &str| text.chars().filter(|character| *character == '\n' || !character.is_control()).collect();
    match (value.get("decoded"), value.get("text"), value.get("payload_base64")) {
        (Some(decoded), ..) => compact(decoded),
        (None, Some(Value::Text(text)), _) => visible(text),
        (_, _, Some(Value::Text(base64))) => format!("{base64} (base64)"),
        _ => String::new(),
    }
}

fn delete(mut arguments: Arguments) -> Result<ExitCode, CommandExit> {
    let mut given = RemoteArguments::read(&mut arguments, |_, _, arguments| {
        Err(arguments.failure("is not supported by this command"))
    })?;
    let [filter] = given.word(&arguments, "the FILTER")?.map(str::to_owned);
    given.query.push(("filter", filter));
    let mut deleted = 0;
    loop {
        let response = given.request(&arguments, "DELETE", "/v1/retained")?;
        let value = parsed(&response)?;
        let number = |name| shown(value.get(name)).parse::<u64>().unwrap_or(0);
        deleted += number("deleted");
        let has_more = matches!(value.get("more"), Some(Value::Bool(true)));
        if has_more && number("deleted") > 0 {
            continue;
        }
        let refused = number("refused");
        if given.json {
            return Ok(print(&format!("{{\"deleted\":{deleted},\"refused\":{refused},\"more\":{has_more}}}\n")));
        }
        let mut text = format!("deleted {deleted}\n");
        if refused > 0 {
            text.push_str(&format!("not allowed: {refused}\n"));
        }
        if has_more {
            text.push_str("not all were deleted because the broker is busy; try again\n");
        }
        return Ok(print(&text));
    }
}
