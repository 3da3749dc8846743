//! `tautwire listeners` and `tautwire stats`: how a running broker is.

use std::ffi::OsString;
use std::process::ExitCode;

use super::super::arguments::{Arguments, Command, OptionGroup, value};
use super::super::{CommandExit, parser, print};
use super::clients::split;
use super::{ADMIN, CA, EXITS, JSON, RemoteArguments, TOKEN_FILE, parsed, shown, table, wrong_group};
use crate::json::Value;
use crate::stderr;

const BROKER: OptionGroup = OptionGroup { title: "The broker", options: &[ADMIN, TOKEN_FILE, CA, JSON] };

pub(crate) static LISTENERS: Command = Command {
    name: "listeners list",
    usage: &["--admin URL --token-file FILE [OPTION]…"],
    about: "Lists the listeners, with the connections that are open, were let in and were closed on arrival.",
    groups: &[BROKER],
    notes: &[EXITS],
};

pub(crate) static STATS: Command = Command {
    name: "stats show",
    usage: &["--admin URL --token-file FILE [OPTION]…"],
    about: "Prints the counters of the broker that are not 0.",
    groups: &[
        OptionGroup {
            title: "Options",
            options: &[value(None, "search", "TEXT", "Only those whose names contain this.")],
        },
        BROKER,
    ],
    notes: &["docs/operating/metrics.md says what each means.", EXITS],
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
    let given =
        RemoteArguments::read(&mut arguments, |_, _, arguments| Err(arguments.failure("is not understood here")))?;
    let [] = given.word(&arguments, "no more")?;
    let answer = given.ask(&arguments, "GET", "/v1/listeners")?;
    if given.json {
        return Ok(print(&answer.body));
    }
    const COLUMNS: [&str; 5] = ["name", "address", "connections", "accepted", "refused"];
    let value = parsed(&answer)?;
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
    let [] = given.word(&arguments, "no more")?;
    let answer = given.ask(&arguments, "GET", "/metrics")?;
    if given.json {
        return Ok(print(&answer.body));
    }
    let Value::Object(members) = parsed(&answer)? else { return Ok(print("")) };
    let is_wanted = |(name, value): &&(String, Value)| name.contains(&*search) && shown(Some(value)) != "0";
    let mut wanted = members.iter().filter(is_wanted).peekable();
    if wanted.peek().is_none() {
        let is_known = members.iter().any(|(name, _)| name.contains(&*search));
        let reason = if is_known { "each is 0" } else { "no counter has such a name; without --search all are shown" };
        stderr::write_line(format_args!("tautwire: nothing to show for --search {search:?}: {reason}"));
    }
    Ok(print(&wanted.map(|(name, value)| format!("{:<44} {}\n", name, shown(Some(value)))).collect::<String>()))
}
