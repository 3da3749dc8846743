//! `tautwire cluster`: shows and administers the cluster of a broker.

use std::ffi::OsString;
use std::process::ExitCode;

use super::super::arguments::{Arguments, Command, OptionGroup, flag};
use super::super::serve::{CONFIG_OPTIONS, configuration_failure, load};
use super::super::{CommandExit, Exit, parser, print};
use super::clients::split;
use super::{ADMIN, CA, EXITS, JSON, RemoteArguments, TOKEN_FILE, parsed, shared, shown, table, wrong_group};
use crate::cluster::{Node, Plan};
use crate::json::Value;
use crate::stderr;

const BROKER: OptionGroup = OptionGroup { title: "Broker", options: &[ADMIN, TOKEN_FILE, CA, JSON] };

pub(crate) static STATUS: Command = Command {
    name: "cluster status",
    usage: &["--admin URL --token-file FILE [OPTION]…"],
    about: "Shows the nodes of a cluster as seen by the broker, and the state of the broker.",
    groups: &[BROKER],
    notes: &[EXITS],
};

pub(crate) static DRAIN: Command = Command {
    name: "cluster drain",
    usage: &["--admin URL --token-file FILE [OPTION]… NODE"],
    about: "Drains a node before you stop it: it accepts no more clients, redirects MQTT 5.0 clients to other nodes, and hands over\n\
            their sessions. NODE is its name in `tautwire cluster status`. You can use any broker of the cluster.",
    groups: &[
        OptionGroup {
            title: "Options",
            options: &[flag(None, "permanent", "Redirect clients permanently: 0x9D instead of 0x9C.")],
        },
        BROKER,
    ],
    notes: &["`tautwire cluster status` shows when it is drained. After a restart, it accepts clients again.", EXITS],
};

pub(crate) static REBALANCE: Command = Command {
    name: "cluster rebalance",
    usage: &["--admin URL --token-file FILE [OPTION]…"],
    about: "Redirects clients of a node with more sessions than its share to other nodes.",
    groups: &[BROKER],
    notes: &[EXITS],
};

pub(crate) static CHECK: Command = Command {
    name: "cluster check",
    usage: &["[--config FILE] [--cluster SERVERS] [--set KEY=VALUE]…"],
    about: "Checks whether a broker with this configuration could join its cluster: whether the NATS servers accept it, are new enough,\n\
            and sync to disk before they confirm. Like the start of a broker, it creates missing streams.",
    groups: &[OptionGroup { title: "Options", options: CONFIG_OPTIONS }],
    notes: &["Exit codes: 0 it could; 1 invalid configuration; 2 it could not."],
};

pub(in crate::cli) fn run(arguments: Vec<OsString>) -> Result<ExitCode, CommandExit> {
    let (action, rest) = split(arguments);
    match action.as_deref() {
        Some("status") => status(Arguments::new(&STATUS, parser(rest))),
        Some("drain") => drain(Arguments::new(&DRAIN, parser(rest))),
        Some("rebalance") => rebalance(Arguments::new(&REBALANCE, parser(rest))),
        Some("config") => shared::run(Arguments::new(&shared::COMMAND, parser(rest))),
        Some("check") => check(Arguments::new(&CHECK, parser(rest))),
        other => Err(wrong_group(&[&STATUS, &DRAIN, &REBALANCE, &shared::COMMAND, &CHECK], other)),
    }
}

fn status(mut arguments: Arguments) -> Result<ExitCode, CommandExit> {
    let given = RemoteArguments::read(&mut arguments, |_, _, arguments| {
        Err(arguments.failure("is not supported by this command"))
    })?;
    let [] = given.word(&arguments, "no further arguments")?;
    let response = given.request(&arguments, "GET", "/v1/cluster")?;
    if given.json {
        return Ok(print(&response.body));
    }
    let value = parsed(&response)?;
    const COLUMNS: [&str; 6] = ["name", "state", "sessions", "reference", "age_ms", "incarnation"];
    let row = |node: &Value| COLUMNS.iter().map(|name| shown(node.get(name))).collect();
    let rows: Vec<Vec<String>> = value.list("nodes").iter().map(row).collect();
    let mut text = table(&COLUMNS, &rows);
    text.push('\n');
    for (label, name) in [("node", "name"), ("serving", "serving"), ("draining", "draining")] {
        text.push_str(&format!("{label:<18} {}\n", shown(value.get(name))));
    }
    text.push_str(&configuration(value.get("configuration")));
    let nats = value.get("nats");
    for (label, name) in [("NATS", "state"), ("reason", "reason")] {
        let shown = shown(nats.and_then(|nats| nats.get(name)));
        if shown != "-" {
            text.push_str(&format!("{label:<18} {shown}\n"));
        }
    }
    Ok(print(&text))
}

/// Describes the shared configuration.
fn configuration(status: Option<&Value>) -> String {
    let get = |name: &str| status.and_then(|status| status.get(name));
    let (current, latest) = (shown(get("current")), shown(get("latest")));
    let mut text = match (get("lagging") == Some(&Value::Bool(true)), current == latest) {
        (true, _) => format!(
            "{:<18} revision {current}; it cannot apply the latest one, and accepts no new clients\n",
            "configuration"
        ),
        (false, true) => format!("{:<18} revision {current}\n", "configuration"),
        (false, false) => format!("{:<18} revision {current}; {latest} is being applied\n", "configuration"),
    };
    for why in status.map(|status| status.list("reasons")).unwrap_or_default() {
        text.push_str(&format!("{:<18} {}\n", "reason", shown(Some(why))));
    }
    text
}

fn drain(mut arguments: Arguments) -> Result<ExitCode, CommandExit> {
    let mut given = RemoteArguments::read(&mut arguments, |given, name, arguments| match name {
        "permanent" => {
            given.query.push(("permanent", "true".to_owned()));
            Ok(())
        }
        _ => Err(arguments.failure("is not supported by this command")),
    })?;
    let [node] = given.word(&arguments, "the name of the node")?;
    let node = node.to_owned();
    given.query.push(("node", node.clone()));
    given.request(&arguments, "POST", "/v1/cluster/drain")?;
    Ok(print(&format!("{node} is being drained; `tautwire cluster status` shows when it is done\n")))
}

fn rebalance(mut arguments: Arguments) -> Result<ExitCode, CommandExit> {
    let given = RemoteArguments::read(&mut arguments, |_, _, arguments| {
        Err(arguments.failure("is not supported by this command"))
    })?;
    let [] = given.word(&arguments, "no further arguments")?;
    given.request(&arguments, "POST", "/v1/cluster/rebalance")?;
    Ok(print("the node is redirecting its excess clients to other nodes\n"))
}

fn check(arguments: Arguments) -> Result<ExitCode, CommandExit> {
    let config = load(arguments)?.map_err(configuration_failure)?;
    let plan = Plan::read(&config).map_err(|errors| super::super::serve::failure(&errors))?;
    let Some(plan) = plan else {
        return Err(CommandExit::failure(
            Exit::Usage,
            "a broker with this configuration is not in a cluster: set --cluster to the NATS servers",
        ));
    };
    let outcome = Node::check(&plan);
    outcome.map_err(|why| CommandExit::failure(Exit::Connection, why))?;
    let mut warnings = Vec::new();
    config.warn_of_weak_quorum(&mut warnings);
    for warning in warnings {
        stderr::write_line(format_args!("tautwire: warning: {warning}"));
    }
    Ok(print("a broker with this configuration can join its cluster\n"))
}
