//! `tautwire config`: checks and shows configurations. The hidden `config doc` writes the reference page.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use super::arguments::{Argument, Arguments, Command, OptionGroup};
use super::contract::http::AdminClient;
use super::contract::source::{ADMIN, CA, TOKEN_FILE};
use super::serve::{CONFIG_OPTIONS, configuration_failure, load, prepare};
use super::{CommandExit, Exit, parser, print, unknown_command};
use crate::config::{to_markdown, to_toml};
use crate::json::{self, Value};
use crate::stderr;

pub(crate) static CHECK: Command = Command {
    name: "config check",
    usage: &["[--config FILE] [--listen ADDRESS]… [--threads N] [--set KEY=VALUE]…"],
    about: "Checks a configuration and the files that it names, and reports all errors.",
    groups: &[OptionGroup { title: "Options", options: CONFIG_OPTIONS }],
    notes: &["Exit codes: 0 valid; 1 invalid."],
};

pub(crate) static SHOW: Command = Command {
    name: "config show",
    usage: &["[--config FILE] [--listen ADDRESS]… [--threads N] [--set KEY=VALUE]…"],
    about: "Prints the effective configuration as a TOML file, each key with its meaning and default.",
    groups: &[OptionGroup { title: "Options", options: CONFIG_OPTIONS }],
    notes: &["Exit codes: 0 shown; 1 the configuration is invalid."],
};

pub(crate) static DIFF: Command = Command {
    name: "config diff",
    usage: &["--admin URL --token-file FILE [--ca FILE]"],
    about: "Shows what a reload of a running broker would change in its configuration, certificates, rules and contracts:\n\
            what takes effect at once, what after a restart, and all errors. Nothing changes.",
    groups: &[OptionGroup { title: "Options", options: &[ADMIN, TOKEN_FILE, CA] }],
    notes: &[ADMIN_NOTES],
};

pub(crate) static RELOAD: Command = Command {
    name: "config reload",
    usage: &["--admin URL --token-file FILE [--ca FILE]"],
    about: "Reloads the configuration, certificates, rules and contracts of a running broker, as SIGHUP does. If there is an\n\
            error, nothing changes.",
    groups: &[OptionGroup { title: "Options", options: &[ADMIN, TOKEN_FILE, CA] }],
    notes: &[ADMIN_NOTES],
};

const ADMIN_NOTES: &str =
    "Exit codes: 0 done; 1 invalid arguments; 2 no connection to the broker; 3 the new configuration has errors.";

pub(super) fn run(arguments: Vec<OsString>) -> Result<ExitCode, CommandExit> {
    let mut arguments = arguments.into_iter();
    let action = arguments.next().map(|word| word.to_string_lossy().into_owned());
    let rest = parser(arguments.collect());
    match action.as_deref() {
        Some("check") => {
            let config = load(Arguments::new(&CHECK, rest))?.map_err(configuration_failure)?;
            let prepared = prepare(&config)?;
            for warning in config.warnings().into_iter().chain(prepared.warnings()) {
                stderr::write_line(format_args!("tautwire: warning: {warning}"));
            }
            Ok(print("the configuration is valid\n"))
        }
        Some("show") => {
            let config = load(Arguments::new(&SHOW, rest))?.map_err(configuration_failure)?;
            Ok(print(&to_toml(&config)))
        }
        Some("diff") => send_request(&DIFF, rest, "GET", "/v1/config/diff"),
        Some("reload") => send_request(&RELOAD, rest, "POST", "/v1/config/reload"),
        Some("doc") => Ok(print(&to_markdown())),
        Some("--help") => {
            Err(CommandExit::Text([&CHECK, &SHOW, &DIFF, &RELOAD].map(|command| command.help()).join("\n")))
        }
        Some(other) => Err(unknown_command(&format!("config {other}"))),
        None => Err(CommandExit::failure(
            Exit::Usage,
            "write `tautwire config check`, `show`, `diff` or `reload`; `tautwire config --help` explains",
        )),
    }
}

/// Sends a request to a running broker and prints its response.
fn send_request(
    command: &'static Command,
    parser: lexopt::Parser,
    method: &str,
    path: &str,
) -> Result<ExitCode, CommandExit> {
    let mut arguments = Arguments::new(command, parser);
    let (mut url, mut token_file, mut ca) = (None, None, None);
    while let Some(argument) = arguments.next()? {
        match argument {
            Argument::Option("admin") => url = Some(arguments.string()?),
            Argument::Option("token-file") => token_file = Some(PathBuf::from(arguments.os_string()?)),
            Argument::Option("ca") => ca = Some(PathBuf::from(arguments.os_string()?)),
            Argument::Option(_) => return Err(arguments.failure("is not supported by this command")),
            Argument::Positional(text) => {
                return Err(arguments.command_failure(&format!("unexpected argument \"{text}\"")));
            }
        }
    }
    let (Some(url), Some(file)) = (url, token_file) else {
        return Err(arguments.command_failure("--admin and --token-file are required"));
    };
    let admin = AdminClient::open(&url, &file, ca.as_deref()).map_err(|error| arguments.command_failure(&error))?;
    let response = admin.request(method, path, "")?;
    let value = json::parse(&response.body).map_err(|error| {
        CommandExit::failure(Exit::Connection, format!("invalid response from the admin API: {}", error.message))
    })?;
    let texts = |name: &str| value.list(name).iter().filter_map(Value::as_text).map(str::to_owned).collect::<Vec<_>>();
    match response.status {
        200 => {
            let mut text = String::new();
            let headings = [
                ("applied", "at once"),
                ("applied_to_new_connections", "for new connections"),
                ("pending_restart", "after a restart"),
                ("listeners_added", "listener added"),
                ("listeners_removed", "listener removed, its clients are disconnected"),
            ];
            for (name, heading) in headings {
                for key in texts(name) {
                    text.push_str(&format!("{heading}: {key}\n"));
                }
            }
            if text.is_empty() {
                text.push_str("no key has changed; certificates, rules and contracts are valid\n");
            }
            Ok(print(&text))
        }
        422 => Err(CommandExit::failure(Exit::Refused, texts("errors").join("\ntautwire: "))),
        _ => Err(response.refusal()),
    }
}
