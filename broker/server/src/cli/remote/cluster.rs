//! `tautwire cluster`: the broker as one of several.

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

const BROKER: OptionGroup = OptionGroup { title: "The broker", options: &[ADMIN, TOKEN_FILE, CA, JSON] };

pub(crate) static STATUS: Command = Command {
    name: "cluster status",
    usage: &["--admin URL --token-file FILE [OPTION]…"],
    about: "Shows the nodes of a broker's cluster as that broker sees them, and how it is with itself.",
    groups: &[BROKER],
    notes: &[EXITS],
};

pub(crate) static DRAIN: Command = Command {
    name: "cluster drain",
    usage: &["--admin URL --token-file FILE [OPTION]… NODE"],
    about: "Empties a node before it is stopped: it takes no clients any more, those of MQTT 5.0 are told where to go, and their\n\
            sessions go with them. NODE is its name, as `tautwire cluster status` has it. Any broker of the cluster can be asked.",
    groups: &[
        OptionGroup {
            title: "Options",
            options: &[flag(None, "for-good", "Tell clients not to come back: 0x9D instead of 0x9C.")],
        },
        BROKER,
    ],
    notes: &["`tautwire cluster status` says when nothing of it is left. Started again, it takes clients.", EXITS],
};

pub(crate) static REBALANCE: Command = Command {
    name: "cluster rebalance",
    usage: &["--admin URL --token-file FILE [OPTION]…"],
    about: "Has a node that has more sessions than its share send some of its clients to other nodes.",
    groups: &[BROKER],
    notes: &[EXITS],
};

pub(crate) static CHECK: Command = Command {
    name: "cluster check",
    usage: &["[--config FILE] [--cluster SERVERS] [--set KEY=VALUE]…"],
    about: "Says whether a broker with this configuration could take part in its cluster: whether the NATS servers let it in, are new\n\
            enough, and keep what they confirm. As the start of a broker does, it makes streams that are not there.",
    groups: &[OptionGroup { title: "Options", options: CONFIG_OPTIONS }],
    notes: &["Exit codes: 0 it could; 1 the configuration is wrong; 2 it could not."],
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
    let given =
        RemoteArguments::read(&mut arguments, |_, _, arguments| Err(arguments.failure("is not understood here")))?;
    let [] = given.word(&arguments, "no more")?;
    let answer = given.ask(&arguments, "GET", "/v1/cluster")?;
    if given.json {
        return Ok(print(&answer.body));
    }
    let value = parsed(&answer)?;
    const COLUMNS: [&str; 6] = ["name", "state", "sessions", "reference", "age_ms", "life"];
    let row = |node: &Value| COLUMNS.iter().map(|name| shown(node.get(name))).collect();
    let rows: Vec<Vec<String>> = value.list("nodes").iter().map(row).collect();
    let mut text = table(&COLUMNS, &rows);
    text.push('\n');
    for (name, told) in [("node", "name"), ("serves clients", "serving"), ("is being drained", "draining")] {
        text.push_str(&format!("{name:<18} {}\n", shown(value.get(told))));
    }
    text.push_str(&configuration(value.get("configuration")));
    let nats = value.get("nats");
    for (name, told) in [("NATS", "state"), ("because", "why")] {
        let shown = shown(nats.and_then(|nats| nats.get(told)));
        if shown != "-" {
            text.push_str(&format!("{name:<18} {shown}\n"));
        }
    }
    Ok(print(&text))
}

/// How it is with what the cluster shares.
fn configuration(told: Option<&Value>) -> String {
    let get = |name: &str| told.and_then(|told| told.get(name));
    let (held, latest) = (shown(get("held")), shown(get("latest")));
    let mut text = match (get("behind") == Some(&Value::Bool(true)), held == latest) {
        (true, _) => format!(
            "{:<18} revision {held}; it cannot take on the last one, and takes no new clients\n",
            "configuration"
        ),
        (false, true) => format!("{:<18} revision {held}\n", "configuration"),
        (false, false) => format!("{:<18} revision {held}; {latest} is about to hold\n", "configuration"),
    };
    for why in told.map(|told| told.list("why")).unwrap_or_default() {
        text.push_str(&format!("{:<18} {}\n", "because", shown(Some(why))));
    }
    text
}

fn drain(mut arguments: Arguments) -> Result<ExitCode, CommandExit> {
    let mut given = RemoteArguments::read(&mut arguments, |given, name, arguments| match name {
        "for-good" => {
            given.query.push(("for_good", "true".to_owned()));
            Ok(())
        }
        _ => Err(arguments.failure("is not understood here")),
    })?;
    let [node] = given.word(&arguments, "the name of the node")?;
    let node = node.to_owned();
    given.query.push(("node", node.clone()));
    given.ask(&arguments, "POST", "/v1/cluster/drain")?;
    Ok(print(&format!("{node} is being drained; `tautwire cluster status` says when nothing of it is left\n")))
}

fn rebalance(mut arguments: Arguments) -> Result<ExitCode, CommandExit> {
    let given =
        RemoteArguments::read(&mut arguments, |_, _, arguments| Err(arguments.failure("is not understood here")))?;
    let [] = given.word(&arguments, "no more")?;
    given.ask(&arguments, "POST", "/v1/cluster/rebalance")?;
    Ok(print("what the node has beyond its share is on its way to others\n"))
}

fn check(arguments: Arguments) -> Result<ExitCode, CommandExit> {
    let config = load(arguments)?.map_err(configuration_failure)?;
    let plan = Plan::read(&config).map_err(|errors| super::super::serve::failure(&errors))?;
    let Some(plan) = plan else {
        return Err(CommandExit::failure(
            Exit::Usage,
            "a broker with this configuration is alone: name NATS servers by --cluster",
        ));
    };
    let outcome = Node::check(&plan);
    outcome.map_err(|why| CommandExit::failure(Exit::Connection, why))?;
    let mut warnings = Vec::new();
    config.warn_of_weak_quorum(&mut warnings);
    for warning in warnings {
        stderr::write_line(format_args!("tautwire: warning: {warning}"));
    }
    Ok(print("a broker with this configuration can take part in its cluster\n"))
}
