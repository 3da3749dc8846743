//! `tautwire acl`: checks and explains access rules.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use tautwire_access::{Request, Subject};
use tautwire_protocol::{QoS, TopicFilter, TopicName};
use tautwire_reactor::counted;

use super::arguments::{Argument, Arguments, Command, OptionGroup, OptionSpec, flag, value};
use super::remote::rules as remote_rules;
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
    "The configuration of the broker, instead of --file: use its rules for the listener.",
);

pub(crate) static CHECK: Command = Command {
    name: "acl check",
    usage: &["[--file FILE]"],
    about: "Checks a file with access rules and reports all errors with file, line and column.",
    groups: &[OptionGroup { title: "Options", options: &[FILE] }],
    notes: &[
        "A rule that never applies, because earlier rules of its role match all of its topics, is a warning on standard error.",
        "Exit codes: 0 valid, also with warnings; 1 invalid.",
    ],
};

pub(crate) static EXPLAIN: Command = Command {
    name: "acl explain",
    usage: &["[OPTION]… CLIENT publish TOPIC", "[OPTION]… CLIENT subscribe FILTER"],
    about: "Explains whether the rules allow a client to publish or to subscribe, which rule decides, and why.",
    groups: &[
        OptionGroup {
            title: "Client",
            options: &[
                value(None, "user", "NAME", "The authenticated user. Default: none, an anonymous client."),
                value(None, "listener", "NAME", "The listener that it connects to. Default: mqtt."),
                value(None, "claim", "NAME=VALUE", "A claim of its token or certificate. May be repeated."),
                value(None, "role", "NAME", "A role from authentication. May be repeated."),
            ],
        },
        OptionGroup {
            title: "Request",
            options: &[
                value(Some('q'), "qos", "QOS", "The QoS of the message, or the requested QoS. Default: 0."),
                flag(Some('r'), "retain", "The message is retained."),
            ],
        },
        OptionGroup { title: "Options", options: &[FILE, CONFIG] },
    ],
    notes: &["Exit codes: 0 allowed; 3 denied; 1 invalid arguments or file."],
};

/// The default file.
const DEFAULT_FILE: &str = "access.toml";

pub(super) fn run(arguments: Vec<OsString>) -> Result<ExitCode, CommandExit> {
    let mut arguments = arguments.into_iter();
    let action = arguments.next().map(|word| word.to_string_lossy().into_owned());
    let rest = parser(arguments.collect());
    match action.as_deref() {
        Some("check") => check(rest),
        Some("explain") => explain(rest),
        Some("list") => remote_rules::list(rest),
        Some("--help") => {
            let commands = [&CHECK, &EXPLAIN, &remote_rules::LIST];
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
            Argument::Option(_) => return Err(arguments.failure("is not supported by this command")),
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
    let warning_count =
        if warnings.is_empty() { String::new() } else { format!(", {}", counted(warnings.len(), "warning")) };
    Ok(print(&format!("the rules are valid: {rules} in {roles}, {users}{warning_count}\n")))
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
            Argument::Option(_) => return Err(arguments.failure("is not supported by this command")),
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
                let message = format!("unknown listener \"{listener}\"; configured are {}", names.join(", "));
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
    Ok(if explanation.decision.is_allowed() { printed } else { Exit::Refused.into() })
}
