//! `tautwire bridges`: lists, shows, pauses, resumes and tests bridges.

use std::ffi::OsString;
use std::process::ExitCode;

use super::super::arguments::{Arguments, Command, OptionGroup};
use super::super::{CommandExit, parser, print};
use super::clients::split;
use super::{
    ADMIN, CA, EXITS, JSON, RemoteArguments, TOKEN_FILE, moment, parsed, percent_encoded, shown, table, wrong_group,
};
use crate::json::Value;

const BROKER: OptionGroup = OptionGroup { title: "Broker", options: &[ADMIN, TOKEN_FILE, CA, JSON] };

pub(crate) static LIST: Command = Command {
    name: "bridges list",
    usage: &["--admin URL --token-file FILE [OPTION]…"],
    about: "Lists the bridges to other brokers.",
    groups: &[BROKER],
    notes: &[EXITS],
};

pub(crate) static SHOW: Command = Command {
    name: "bridges show",
    usage: &["--admin URL --token-file FILE [OPTION]… NAME"],
    about: "Shows a bridge with its state, its counters and its rules.",
    groups: &[BROKER],
    notes: &[EXITS],
};

pub(crate) static PAUSE: Command = Command {
    name: "bridges pause",
    usage: &["--admin URL --token-file FILE [OPTION]… NAME"],
    about: "Disconnects a bridge until it is resumed or the broker restarts. Messages wait in its session.",
    groups: &[BROKER],
    notes: &[EXITS],
};

pub(crate) static RESUME: Command = Command {
    name: "bridges resume",
    usage: &["--admin URL --token-file FILE [OPTION]… NAME"],
    about: "Connects a paused bridge, or one that waits for its next attempt.",
    groups: &[BROKER],
    notes: &[EXITS],
};

pub(crate) static TEST: Command = Command {
    name: "bridges test",
    usage: &["--admin URL --token-file FILE [OPTION]… NAME"],
    about: "Connects to each address of the other broker with the credentials of a bridge, and disconnects.",
    groups: &[BROKER],
    notes: &["The client identifier ends with -test, so the bridge itself stays connected.", EXITS],
};

pub(in crate::cli) fn run(arguments: Vec<OsString>) -> Result<ExitCode, CommandExit> {
    let (action, rest) = split(arguments);
    let arguments = |command| Arguments::new(command, parser(rest));
    match action.as_deref() {
        Some("list") => list(arguments(&LIST)),
        Some("show") => show(arguments(&SHOW)),
        Some("pause") => change(arguments(&PAUSE), "pause"),
        Some("resume") => change(arguments(&RESUME), "resume"),
        Some("test") => test(arguments(&TEST)),
        other => Err(wrong_group(&[&LIST, &SHOW, &PAUSE, &RESUME, &TEST], other)),
    }
}

fn read(arguments: &mut Arguments) -> Result<RemoteArguments, CommandExit> {
    RemoteArguments::read(arguments, |_, _, arguments| Err(arguments.failure("is not supported by this command")))
}

fn path(name: &str) -> String {
    format!("/v1/bridges/{}", percent_encoded(name))
}

fn list(mut arguments: Arguments) -> Result<ExitCode, CommandExit> {
    let given = read(&mut arguments)?;
    let [] = given.word(&arguments, "no further arguments")?;
    let response = given.request(&arguments, "GET", "/v1/bridges")?;
    if given.json {
        return Ok(print(&response.body));
    }
    let columns = ["name", "state", "address", "messages_out", "messages_in", "queued_messages"];
    let row = |bridge: &Value| -> Vec<String> {
        let error = bridge.get("error").and_then(|error| error.get("message"));
        columns.iter().map(|column| shown(bridge.get(column))).chain([shown(error)]).collect()
    };
    let rows: Vec<Vec<String>> = parsed(&response)?.list("bridges").iter().map(row).collect();
    Ok(print(&table(&["name", "state", "address", "out", "in", "queued", "error"], &rows)))
}

fn show(mut arguments: Arguments) -> Result<ExitCode, CommandExit> {
    let given = read(&mut arguments)?;
    let [name] = given.word(&arguments, "the name of a bridge")?;
    let response = given.request(&arguments, "GET", &path(name))?;
    if given.json {
        return Ok(print(&response.body));
    }
    let bridge = parsed(&response)?;
    let mut text = String::new();
    let mut push = |label: &str, value: String| {
        if value != "-" {
            text.push_str(&format!("{label:<18} {value}\n"));
        }
    };
    for name in ["name", "state"] {
        push(name, shown(bridge.get(name)));
    }
    push("since", moment(bridge.get("since_unix_s"), 1));
    for name in ["address", "addresses", "protocol", "start", "client_id", "session", "mount_point"] {
        push(&name.replace('_', " "), shown(bridge.get(name)));
    }
    push("error", shown(bridge.get("error").and_then(|error| error.get("message"))));
    push("next attempt", moment(bridge.get("next_attempt_unix_s"), 1));
    for name in [
        "connections",
        "failures",
        "messages_out",
        "messages_in",
        "refused_out",
        "refused_in",
        "looped",
        "unmatched",
        "unmappable",
        "rate_pauses",
        "queued_messages",
        "queued_bytes",
        "dropped_messages",
    ] {
        push(&name.replace('_', " "), shown(bridge.get(name)));
    }
    let columns = ["direction", "qos", "filter", "local_prefix", "remote_prefix", "retain", "rate"];
    let row = |rule: &Value| -> Vec<String> {
        let refused = rule.get("refused").and_then(|refused| refused.get("reason"));
        columns.iter().map(|column| shown(rule.get(column))).chain([shown(refused)]).collect()
    };
    let rows: Vec<Vec<String>> = bridge.list("rules").iter().map(row).collect();
    text.push('\n');
    text.push_str(&table(
        &["direction", "QoS", "filter", "local prefix", "remote prefix", "retain", "rate", "refused"],
        &rows,
    ));
    Ok(print(&text))
}

fn change(mut arguments: Arguments, action: &str) -> Result<ExitCode, CommandExit> {
    let given = read(&mut arguments)?;
    let [name] = given.word(&arguments, "the name of a bridge")?;
    given.request(&arguments, "POST", &format!("{}/{action}", path(name)))?;
    Ok(print(""))
}

fn test(mut arguments: Arguments) -> Result<ExitCode, CommandExit> {
    let given = read(&mut arguments)?;
    let [name] = given.word(&arguments, "the name of a bridge")?;
    let response = given.request(&arguments, "POST", &format!("{}/test", path(name)))?;
    if given.json {
        return Ok(print(&response.body));
    }
    let result = |address: &Value| {
        let error = address.get("error").and_then(|error| error.get("message"));
        vec![shown(address.get("address")), error.map_or_else(|| "accepted".to_owned(), |error| shown(Some(error)))]
    };
    let rows: Vec<Vec<String>> = parsed(&response)?.list("addresses").iter().map(result).collect();
    Ok(print(&table(&["address", "result"], &rows)))
}
