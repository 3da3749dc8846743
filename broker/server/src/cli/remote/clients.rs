//! `tautwire clients`, `tautwire sessions` and `tautwire subscriptions`.

use std::ffi::OsString;
use std::process::ExitCode;

use super::super::arguments::{Arguments, Command, OptionGroup, OptionSpec, flag, value};
use super::super::{CommandExit, parser, print};
use super::{
    ADMIN, CA, EXITS, JSON, MOUNT_POINT, RemoteArguments, TOKEN_FILE, moment, parsed, percent_encoded, shown, table,
    wrong_group,
};

const BROKER: OptionGroup = OptionGroup { title: "Broker", options: &[ADMIN, TOKEN_FILE, CA, JSON] };
const CLIENT: OptionGroup = OptionGroup { title: "Client", options: &[MOUNT_POINT] };
const PAGE: [OptionSpec; 2] = [
    value(None, "limit", "N", "Maximum number of rows, 1 to 1,000. Default: 100."),
    value(None, "after", "TEXT", "Continue after this row: the value at the end of the previous page."),
];
const OFFLINE: OptionSpec = flag(None, "offline", "Only sessions of offline clients.");
const NEGLECTED: OptionSpec = flag(
    None,
    "stale",
    "Only sessions with queued messages whose clients have been offline for longer than limits.stale_session_s.",
);
const SEARCH: [OptionSpec; 6] = {
    let [limit, after] = PAGE;
    [
        value(None, "search", "TEXT", "Part of the client identifier or the user name."),
        value(None, "listener", "NAME", "The listener of the connection."),
        value(
            None,
            "sort",
            "KEY",
            "client_id, user, queued_messages, queued_bytes, in_flight, subscriptions, memory_bytes or dropped_messages. Default: client_id.",
        ),
        flag(None, "descending", "Sort in descending order."),
        limit,
        after,
    ]
};

pub(crate) static LIST: Command = Command {
    name: "clients list",
    usage: &["--admin URL --token-file FILE [OPTION]…"],
    about: "Lists connected clients.",
    groups: &[OptionGroup { title: "Options", options: &SEARCH }, BROKER],
    notes: &[EXITS],
};

pub(crate) static SHOW: Command = Command {
    name: "clients show",
    usage: &["--admin URL --token-file FILE [OPTION]… CLIENT"],
    about: "Shows a client: its connection, its session, and the last messages that were not delivered to it.",
    groups: &[CLIENT, BROKER],
    notes: &[EXITS],
};

pub(crate) static DISCONNECT: Command = Command {
    name: "clients disconnect",
    usage: &["--admin URL --token-file FILE [OPTION]… CLIENT"],
    about: "Disconnects a client. Its session remains, and it may reconnect; `tautwire sessions delete` ends the session.",
    groups: &[CLIENT, BROKER],
    notes: &[EXITS],
};

pub(crate) static SESSIONS: Command = Command {
    name: "sessions list",
    usage: &["--admin URL --token-file FILE [OPTION]…"],
    about: "Lists sessions of connected and offline clients.",
    groups: &[
        OptionGroup { title: "Filters", options: &[OFFLINE, NEGLECTED] },
        OptionGroup { title: "Options", options: &SEARCH },
        BROKER,
    ],
    notes: &[EXITS],
};

pub(crate) static DELETE: Command = Command {
    name: "sessions delete",
    usage: &["--admin URL --token-file FILE [OPTION]… CLIENT"],
    about: "Ends a session with its subscriptions and queued messages. A connected client is disconnected.",
    groups: &[CLIENT, BROKER],
    notes: &[EXITS],
};

pub(crate) static SUBSCRIPTIONS: Command = Command {
    name: "subscriptions list",
    usage: &["--admin URL --token-file FILE [OPTION]… CLIENT"],
    about: "Lists the subscriptions of one client.",
    groups: &[CLIENT, OptionGroup { title: "Options", options: &PAGE }, BROKER],
    notes: &[EXITS],
};

pub(in crate::cli) fn run_clients(arguments: Vec<OsString>) -> Result<ExitCode, CommandExit> {
    let (action, rest) = split(arguments);
    match action.as_deref() {
        Some("list") => list(Arguments::new(&LIST, parser(rest)), true),
        Some("show") => show(Arguments::new(&SHOW, parser(rest))),
        Some("disconnect") => end(Arguments::new(&DISCONNECT, parser(rest)), "connection"),
        other => Err(wrong_group(&[&LIST, &SHOW, &DISCONNECT], other)),
    }
}

pub(in crate::cli) fn run_sessions(arguments: Vec<OsString>) -> Result<ExitCode, CommandExit> {
    let (action, rest) = split(arguments);
    match action.as_deref() {
        Some("list") => list(Arguments::new(&SESSIONS, parser(rest)), false),
        Some("delete") => end(Arguments::new(&DELETE, parser(rest)), "session"),
        other => Err(wrong_group(&[&SESSIONS, &DELETE], other)),
    }
}

pub(in crate::cli) fn run_subscriptions(arguments: Vec<OsString>) -> Result<ExitCode, CommandExit> {
    let (action, rest) = split(arguments);
    match action.as_deref() {
        Some("list") => subscriptions(Arguments::new(&SUBSCRIPTIONS, parser(rest))),
        other => Err(wrong_group(&[&SUBSCRIPTIONS], other)),
    }
}

pub(super) fn split(arguments: Vec<OsString>) -> (Option<String>, Vec<OsString>) {
    let mut arguments = arguments.into_iter();
    let action = arguments.next().map(|word| word.to_string_lossy().into_owned());
    (action, arguments.collect())
}

fn list(mut arguments: Arguments, connected: bool) -> Result<ExitCode, CommandExit> {
    let mut is_offline = false;
    let given = RemoteArguments::read(&mut arguments, |given, name, arguments| {
        match name {
            "offline" => is_offline = true,
            "stale" => given.query.push(("stale", "true".to_owned())),
            "descending" => given.query.push(("descending", "true".to_owned())),
            name => given.query.push((name, arguments.string()?)),
        }
        Ok(())
    })?;
    if !given.words.is_empty() {
        return Err(
            arguments.command_failure("unexpected argument; use --search to find clients by a part of their names")
        );
    }
    let mut given = given;
    if connected || is_offline {
        given.query.push(("connected", (!is_offline).to_string()));
    }
    let response = given.request(&arguments, "GET", "/v1/clients")?;
    if given.json {
        return Ok(print(&response.body));
    }
    const COLUMNS: [(&str, &str); 10] = [
        ("client", "client_id"),
        ("user", "user"),
        ("address", "address"),
        ("protocol", "protocol"),
        ("subscriptions", "subscriptions"),
        ("queued", "queued_messages"),
        ("dropped", "dropped_messages"),
        ("in flight", "in_flight"),
        ("memory", "memory_bytes"),
        ("listener", "listener"),
    ];
    let value = parsed(&response)?;
    let clients = value.list("clients");
    let rows: Vec<Vec<String>> =
        clients.iter().map(|client| COLUMNS.iter().map(|(_, name)| shown(client.get(name))).collect()).collect();
    let mut text = table(&COLUMNS.map(|(heading, _)| heading), &rows);
    text.push_str(&format!("{} of {}", rows.len(), shown(value.get("matched"))));
    let next = value.text("next");
    text.push_str(&if next.is_empty() { "\n".to_owned() } else { format!("; more: --after {next}\n") });
    Ok(print(&text))
}

fn show(mut arguments: Arguments) -> Result<ExitCode, CommandExit> {
    let given = RemoteArguments::read(&mut arguments, |_, _, arguments| {
        Err(arguments.failure("is not supported by this command"))
    })?;
    let [client] = given.word(&arguments, "the client identifier")?;
    let response = given.request(&arguments, "GET", &format!("/v1/clients/{}", percent_encoded(client)))?;
    if given.json {
        return Ok(print(&response.body));
    }
    let value = parsed(&response)?;
    let mut text = String::new();
    if let crate::json::Value::Object(members) = &value {
        for (name, member) in members.iter().filter(|(name, _)| name != "drops") {
            let value = if name.ends_with("_ms") { moment(Some(member), 1_000) } else { shown(Some(member)) };
            let name = name.strip_suffix("_ms").unwrap_or(name).replace('_', " ");
            text.push_str(&format!("{name:<26} {value}\n"));
        }
    }
    text.push_str(&drops(&value));
    Ok(print(&text))
}

/// The messages that were not delivered to a client.
pub(super) fn drops(value: &crate::json::Value) -> String {
    let mut text = String::new();
    for event in value.list("drops") {
        let [reason, count, topic] = ["reason", "count", "topic"].map(|name| shown(event.get(name)));
        text.push_str(&format!("not delivered: {count} on {topic} ({reason})\n"));
    }
    text
}

fn end(mut arguments: Arguments, resource: &str) -> Result<ExitCode, CommandExit> {
    let given = RemoteArguments::read(&mut arguments, |_, _, arguments| {
        Err(arguments.failure("is not supported by this command"))
    })?;
    let [client] = given.word(&arguments, "the client identifier")?;
    given.request(&arguments, "DELETE", &format!("/v1/clients/{}/{resource}", percent_encoded(client)))?;
    Ok(print(""))
}

fn subscriptions(mut arguments: Arguments) -> Result<ExitCode, CommandExit> {
    let given = RemoteArguments::read(&mut arguments, |given, name, arguments| {
        given.query.push((name, arguments.string()?));
        Ok(())
    })?;
    let [client] = given.word(&arguments, "the client identifier")?;
    let path = format!("/v1/clients/{}/subscriptions", percent_encoded(client));
    let response = given.request(&arguments, "GET", &path)?;
    if given.json {
        return Ok(print(&response.body));
    }
    let value = parsed(&response)?;
    const COLUMNS: [&str; 7] =
        ["filter", "qos", "no_local", "retain_as_published", "retain_handling", "identifier", "format"];
    let rows: Vec<Vec<String>> = value
        .list("subscriptions")
        .iter()
        .map(|subscription| COLUMNS.iter().map(|name| shown(subscription.get(name))).collect())
        .collect();
    let mut text = table(&COLUMNS.map(|name| name.replace('_', " ")).each_ref().map(String::as_str), &rows);
    if !value.text("next").is_empty() {
        text.push_str(&format!("more: --after '{}'\n", shown(value.get("next"))));
    }
    Ok(print(&text))
}
