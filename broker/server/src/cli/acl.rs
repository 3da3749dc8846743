//! `tautwire acl`: access rules, checked and explained.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use tautwire_access::{Request, Subject};
use tautwire_protocol::{QoS, TopicFilter, TopicName};
use tautwire_reactor::counted;

use super::arguments::{Argument, Arguments, Command, OptionGroup, OptionSpec, flag, value};
use super::remote::rules as rules_of_broker;
use super::serve::{configuration_failure, failure};
use super::{CommandExit, Exit, parser, print, unknown_command};
use crate::config::Config;
use crate::rules;
use crate::shared::Parts;
use crate::stderr;

const FILE: OptionSpec = value(None, "file", "FILE", "The file with the access rules. Default: access.toml.");

const CONFIG: OptionSpec = value(
    None,
    "config",
    "FILE",
    "The configuration of the broker, in place of --file: the rules are those that it names for the listener.",
);

pub(crate) static CHECK: Command = Command {
    name: "acl check",
    usage: &["[--file FILE]"],
    about: "Says whether a file of access rules is right, and everything that is wrong with it: file, line, column.",
    groups: &[OptionGroup { title: "Options", options: &[FILE] }],
    notes: &[
        "A rule that never applies, because rules of its role that come first match all of its topics, is a warning on standard error.",
        "Exit codes: 0 right, also with warnings; 1 wrong.",
    ],
};

pub(crate) static EXPLAIN: Command = Command {
    name: "acl explain",
    usage: &["[OPTION]… CLIENT publish TOPIC", "[OPTION]… CLIENT subscribe FILTER"],
    about: "Says whether the rules let a client publish to a topic or make a subscription, which rule decides, and why.",
    groups: &[
        OptionGroup {
            title: "Who it is",
            options: &[
                value(
                    None,
                    "user",
                    "NAME",
                    "The user that the client has shown to be. Default: none, an anonymous client.",
                ),
                value(None, "listener", "NAME", "The listener that it comes by. Default: mqtt."),
                value(None, "claim", "NAME=VALUE", "A claim of its token or certificate. May be repeated."),
                value(None, "role", "NAME", "A role that authentication gives. May be repeated."),
            ],
        },
        OptionGroup {
            title: "What it wants",
            options: &[
                value(Some('q'), "qos", "QOS", "The QoS of the message, or the one that is asked for. Default: 0."),
                flag(Some('r'), "retain", "The message is to be retained."),
            ],
        },
        OptionGroup { title: "Options", options: &[FILE, CONFIG] },
    ],
    notes: &["Exit codes: 0 allowed; 3 denied; 1 the arguments or the file are wrong."],
};

/// The file where none is named.
const DEFAULT_FILE: &str = "access.toml";

pub(super) fn run(arguments: Vec<OsString>) -> Result<ExitCode, CommandExit> {
    let mut arguments = arguments.into_iter();
    let action = arguments.next().map(|word| word.to_string_lossy().into_owned());
    let rest = parser(arguments.collect());
    match action.as_deref() {
        Some("check") => check(rest),
        Some("explain") => explain(rest),
        Some("list") => rules_of_broker::list(rest),
        Some("--help") => {
            let commands = [&CHECK, &EXPLAIN, &rules_of_broker::LIST];
            Err(CommandExit::Text(commands.map(Command::help).join("\n")))
        }
        Some(other) => Err(unknown_command(&format!("acl {other}"))),
        None => Err(CommandExit::failure(
            Exit::Usage,
            "write `tautwire acl check`, `tautwire acl explain` or `tautwire acl list`",
        )),
    }
}

fn check(parser: lexopt::Parser) -> Result<ExitCode, CommandExit> {
    let mut arguments = Arguments::new(&CHECK, parser);
    let mut file = PathBuf::from(DEFAULT_FILE);
    while let Some(argument) = arguments.next()? {
        match argument {
            Argument::Option("file") => file = arguments.os_string()?.into(),
            Argument::Option(_) => return Err(arguments.failure("is not understood here")),
            Argument::Positional(text) => {
                return Err(arguments.command_failure(&format!("unexpected argument \"{text}\"")));
            }
        }
    }
    let policy = rules::load(&file).map_err(|errors| failure(&errors))?;
    let warnings = policy.warnings();
    for warning in &warnings {
        stderr::write_line(format_args!("tautwire: warning: {warning}"));
    }
    let (rules, roles, users) = (policy.rule_count(), policy.role_count(), policy.user_count());
    let (rules, roles, users) = (counted(rules, "rule"), counted(roles, "role"), counted(users, "user"));
    let said = if warnings.is_empty() { String::new() } else { format!(", {}", counted(warnings.len(), "warning")) };
    Ok(print(&format!("the rules are right: {rules} in {roles}, {users}{said}\n")))
}

fn explain(parser: lexopt::Parser) -> Result<ExitCode, CommandExit> {
    let mut arguments = Arguments::new(&EXPLAIN, parser);
    let (mut file, mut config) = (PathBuf::from(DEFAULT_FILE), None);
    let (mut user, mut listener, mut claims, mut roles) = (None, "mqtt".to_owned(), Vec::new(), Vec::new());
    let (mut qos, mut retain, mut words) = (QoS::AtMostOnce, false, Vec::new());
    while let Some(argument) = arguments.next()? {
        match argument {
            Argument::Option("file") => file = arguments.os_string()?.into(),
            Argument::Option("config") => config = Some(PathBuf::from(arguments.os_string()?)),
            Argument::Option("user") => user = Some(arguments.string()?),
            Argument::Option("listener") => listener = arguments.string()?,
            Argument::Option("role") => roles.push(arguments.string()?),
            Argument::Option("claim") => {
                let text = arguments.string()?;
                let claim = text.split_once('=').ok_or_else(|| arguments.failure("expected NAME=VALUE"))?;
                claims.push((claim.0.to_owned(), claim.1.to_owned()));
            }
            Argument::Option("qos") => {
                qos = arguments.choice(&[("0", QoS::AtMostOnce), ("1", QoS::AtLeastOnce), ("2", QoS::ExactlyOnce)])?;
            }
            Argument::Option("retain") => retain = true,
            Argument::Option(_) => return Err(arguments.failure("is not understood here")),
            Argument::Positional(word) => words.push(word),
        }
    }
    let [client_id, action, topic] = words.as_slice() else {
        return Err(arguments.command_failure("write CLIENT publish TOPIC, or CLIENT subscribe FILTER"));
    };
    let wrong = |error: &dyn std::fmt::Display| arguments.command_failure(&format!("\"{topic}\": {error}"));
    let request = match action.as_str() {
        "publish" => {
            let topic = TopicName::new(topic).map_err(|error| wrong(&error))?;
            Request::Publish { topic: topic.as_str(), qos, retain }
        }
        "subscribe" => Request::Subscribe { filter: TopicFilter::new(topic).map_err(|error| wrong(&error))?, qos },
        other => return Err(arguments.command_failure(&format!("\"{other}\": expected publish or subscribe"))),
    };
    let policy = match config {
        None => rules::load(&file).map_err(|errors| failure(&errors))?,
        Some(config) => {
            let config = Config::load(Some(&config), &[]).map_err(configuration_failure)?;
            let listeners = config.listeners();
            if !listeners.iter().any(|known| known.name == listener) {
                let names: Vec<&str> = listeners.iter().map(|known| known.name.as_str()).collect();
                let message = format!("there is no listener \"{listener}\"; there are {}", names.join(", "));
                return Err(arguments.command_failure(&message));
            }
            rules::load_all(&config, &Parts::default()).map_err(|errors| failure(&errors))?
        }
    };
    let claims: Vec<(&str, &str)> = claims.iter().map(|(name, value)| (&**name, &**value)).collect();
    let roles: Vec<&str> = roles.iter().map(|role| &**role).collect();
    let subject = Subject { client_id, user: user.as_deref(), listener: &listener, claims: &claims, roles: &roles };
    let explanation = policy.explain(&subject, &request);
    let printed = print(&explanation.to_string());
    Ok(if explanation.verdict.is_allowed() { printed } else { Exit::Refused.into() })
}
