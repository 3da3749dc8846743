//! `tautwire listeners` and `tautwire stats`: the state of a running broker.

use std::ffi::OsString;
use std::process::ExitCode;

use super::super::arguments::{Arguments, Command, OptionGroup, value};
use super::super::{CommandExit, parser, print};
use super::clients::split;
use super::{ADMIN, CA, EXITS, JSON, RemoteArguments, TOKEN_FILE, parsed, shown, table, wrong_group};
use crate::json::Value;
use crate::stderr;

const BROKER: OptionGroup = OptionGroup { title: "Broker", options: &[ADMIN, TOKEN_FILE, CA, JSON] };

pub(crate) static LISTENERS: Command = Command {
    name: "listeners list",
    usage: &["--admin URL --token-file FILE [OPTION]…"],
    about: "Lists the listeners with their numbers of open, accepted and refused connections.",
    groups: &[BROKER],
    notes: &[EXITS],
};

pub(crate) static STATS: Command = Command {
    name: "stats show",
    usage: &["--admin URL --token-file FILE [OPTION]…"],
    about: "Prints all metrics of the broker that are not 0.",
    groups: &[
        OptionGroup {
            title: "Options",
            options: &[value(None, "search", "TEXT", "Only metrics whose names contain this text.")],
        },
        BROKER,
    ],
    notes: &["docs/operating/metrics.md describes the metrics.", EXITS],
};

pub(in crate::cli) fn run_listeners(arguments: Vec<OsString>) -> Result<ExitCode, CommandExit> {
    let (action, rest) = split(arguments);
    match action.as_deref() {
        Some("list") => listeners(Arguments::new(&LISTENERS, parser(rest))),
        other => Err(wrong_group(&[&LISTENERS], other)),
    }
}

pub(in crate::cli) fn run_stats(arguments: Vec<OsString>) -> Result<ExitCode, CommandExit> {
    let (action, rest) = split(arguments);
    match action.as_deref() {
        Some("show") => stats(Arguments::new(&STATS, parser(rest))),
        other => Err(wrong_group(&[&STATS], other)),
    }
}

fn listeners(mut arguments: Arguments) -> Result<ExitCode, CommandExit> {
    let given = RemoteArguments::read(&mut arguments, |_, _, arguments| {
        Err(arguments.failure("is not supported by this command"))
    })?;
    let [] = given.word(&arguments, "no further arguments")?;
    let response = given.request(&arguments, "GET", "/v1/listeners")?;
    if given.json {
        return Ok(print(&response.body));
    }
    const COLUMNS: [&str; 5] = ["name", "address", "connections", "accepted", "refused"];
    let value = parsed(&response)?;
    let row = |listener: &Value| COLUMNS.iter().map(|name| shown(listener.get(name))).collect();
    let rows: Vec<Vec<String>> = value.list("listeners").iter().map(row).collect();
    Ok(print(&table(&COLUMNS, &rows)))
}

fn stats(mut arguments: Arguments) -> Result<ExitCode, CommandExit> {
    let mut search = String::new();
    let given = RemoteArguments::read(&mut arguments, |_, _, arguments| {
        search = arguments.string()?;
        Ok(())
    })?;
    let [] = given.word(&arguments, "no further arguments")?;
    let response = given.request(&arguments, "GET", "/metrics")?;
    if given.json {
        return Ok(print(&response.body));
    }
    let Value::Object(members) = parsed(&response)? else { return Ok(print("")) };
    let is_shown = |(name, value): &&(String, Value)| name.contains(&*search) && shown(Some(value)) != "0";
    let mut selected = members.iter().filter(is_shown).peekable();
    if selected.peek().is_none() {
        let is_known = members.iter().any(|(name, _)| name.contains(&*search));
        let reason = if is_known {
            "all matching metrics are 0"
        } else {
            "no metric has such a name; omit --search to show all"
        };
        stderr::write_line(format_args!("tautwire: nothing to show for --search {search:?}: {reason}"));
    }
    Ok(print(&selected.map(|(name, value)| format!("{:<44} {}\n", name, shown(Some(value)))).collect::<String>()))
}
