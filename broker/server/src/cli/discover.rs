//! `tautwire discover`: lists the contracts of a broker over MQTT.

use std::process::ExitCode;

use super::arguments::{Argument, Arguments, Command, OptionGroup, flag, value};
use super::client_options::{CONNECTION_OPTIONS, ClientOptions, NOTES, environment_password};
use super::contract::{description, index_json, table};
use super::server_options::TLS_OPTIONS;
use super::{CommandExit, Exit, print};
use crate::client::discovery;

pub(crate) static COMMAND: Command = Command {
    name: "discover",
    usage: &["[OPTION]… [NAME]"],
    about: "Lists the contracts of a broker, or shows one with its schema. It uses MQTT, as any client can.",
    groups: &[
        OptionGroup {
            title: "Output",
            options: &[
                value(None, "topic", "TOPIC", "Show the contract that covers this topic."),
                flag(None, "json", "Print JSON, as the broker publishes it below $SYS/contracts/."),
            ],
        },
        OptionGroup { title: "Connection", options: CONNECTION_OPTIONS },
        OptionGroup { title: "TLS", options: TLS_OPTIONS },
    ],
    notes: &[NOTES],
};

pub(super) fn run(parser: lexopt::Parser) -> Result<ExitCode, CommandExit> {
    let mut arguments = Arguments::new(&COMMAND, parser);
    let mut client = ClientOptions::default();
    let (mut topic, mut json, mut name) = (None, false, None);
    while let Some(argument) = arguments.next()? {
        match argument {
            Argument::Option("topic") => topic = Some(arguments.string()?),
            Argument::Option("json") => json = true,
            Argument::Option(option) if client.take(option, &mut arguments)? => {}
            Argument::Option(_) => return Err(arguments.failure("is not supported by this command")),
            Argument::Positional(text) => {
                if name.replace(text).is_some() {
                    return Err(arguments.command_failure("only one contract can be named"));
                }
            }
        }
    }
    let connect = client.connect_options(&arguments, "find", environment_password())?;
    let catalogue = match discovery::contracts(&connect, topic.as_deref()) {
        Err(error) if client.quiet => {
            return match CommandExit::from(error) {
                CommandExit::Failure { exit, .. } => Ok(exit.into()),
                stop => Err(stop),
            };
        }
        found => found?,
    };
    let none = |subject: String| CommandExit::failure(Exit::Usage, format!("the broker has no contract {subject}"));
    Ok(print(&match (&name, &topic) {
        (Some(name), _) => {
            let contract = catalogue.named(name).ok_or_else(|| none(name.escape_debug().to_string()))?;
            description(contract, json)
        }
        (None, Some(topic)) => {
            let contract = catalogue.find(topic).ok_or_else(|| none(format!("for {}", topic.escape_debug())))?;
            description(contract, json)
        }
        (None, None) if json => index_json(&catalogue),
        (None, None) => table(&catalogue),
    }))
}
