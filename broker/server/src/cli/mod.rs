//! The command line: which command runs, and what its end means to the shell.

mod acl;
mod arguments;
mod cert;
mod client_options;
mod config;
mod contract;
mod data;
mod decode;
mod discover;
mod doctor;
mod format;
mod generate;
mod import;
mod properties;
mod publish;
mod refused;
mod remote;
mod serve;
mod server_options;
mod shell;
mod subscribe;
mod token;
mod user;

use std::ffi::OsString;
use std::fmt;
use std::io::Write as _;
use std::process::ExitCode;

use arguments::Command;
use tautwire_client::{Error, TlsFault};

use crate::client::discovery::DiscoveryError;
use crate::nearest::nearest;
use crate::stderr;

/// How a command ended, as its exit code. Commands share the meanings; the help lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Success = 0,
    /// The arguments, the configuration or a file named by them is wrong.
    Usage = 1,
    /// No connection, or it was lost. Of the commands for data directories: see [`Exit::DAMAGED`].
    Connection = 2,
    /// The broker refused the connection, a subscription or a message; or a payload breaks its contract.
    Refused = 3,
    /// `contract diff`: what has changed is backward compatible only.
    Backward = 4,
    /// `contract diff`: what has changed is forward compatible only.
    Forward = 5,
    /// `contract diff`: what has changed is not compatible.
    Breaking = 6,
    /// `sub -W` ran out of time.
    Timeout = 27,
}

impl Exit {
    /// `data`: a part of the data directory is lost.
    pub(crate) const DAMAGED: Exit = Exit::Connection;
    /// `data`: the last write is not whole, and may have been acknowledged.
    pub(crate) const TORN: Exit = Exit::Refused;
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command ends before its work is done.
#[derive(Debug)]
pub(crate) enum CommandExit {
    /// A text was asked for, such as the help.
    Text(String),
    Failure {
        exit: Exit,
        message: String,
    },
}

impl CommandExit {
    pub(crate) fn failure(exit: Exit, message: impl fmt::Display) -> Self {
        Self::Failure { exit, message: message.to_string() }
    }

    /// Whether there is still a connection that can be ended cleanly.
    pub(crate) fn is_connection_usable(&self) -> bool {
        !matches!(self, Self::Failure { exit: Exit::Connection, .. })
    }
}

impl From<Error> for CommandExit {
    fn from(error: Error) -> Self {
        let exit = match &error {
            Error::Options(_)
            | Error::Argument(_)
            | Error::Topic(_)
            | Error::Encode { .. }
            | Error::TooLarge { .. }
            | Error::QoSNotSupported(_)
            | Error::RetainNotSupported
            | Error::NotSupported(_) => Exit::Usage,
            Error::Tls(failure) if failure.fault == TlsFault::Settings => Exit::Usage,
            Error::Refused { .. } => Exit::Refused,
            _ => Exit::Connection,
        };
        let message = match &error {
            // These commands do not connect again, as the client says of itself.
            Error::Lost(how) => format!("the connection is lost: {how} [{}]", error.code()),
            Error::KeepAliveTimeout => format!("the broker did not answer a PINGREQ in time [{}]", error.code()),
            error => match refused::advice(error) {
                Some(advice) => format!("{error}; {advice}"),
                None => error.to_string(),
            },
        };
        Self::failure(exit, message)
    }
}

impl From<DiscoveryError> for CommandExit {
    fn from(error: DiscoveryError) -> Self {
        match error {
            DiscoveryError::Client(error) => error.into(),
            DiscoveryError::Denied(_) => Self::failure(Exit::Refused, error),
            DiscoveryError::Answer(_) => Self::failure(Exit::Connection, error),
        }
    }
}

/// Runs the command that the arguments (without the program's name) ask for.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.into_iter();
    let Some(first) = arguments.next() else {
        stderr::write_line(format_args!("{}", overview().trim_end()));
        return Exit::Usage.into();
    };
    let rest: Vec<OsString> = arguments.collect();
    let name = first.to_string_lossy().into_owned();
    let result = match name.as_str() {
        "--help" => Err(CommandExit::Text(overview())),
        "help" => help(&rest),
        "--version" | "-V" | "version" => Err(CommandExit::Text(format!("tautwire {}\n", env!("CARGO_PKG_VERSION")))),
        "serve" => serve::run(parser(rest)),
        "acl" => acl::run(rest),
        "bans" => remote::bans::run(rest),
        "cert" => cert::run(parser(rest)),
        "clients" => remote::clients::run_clients(rest),
        "cluster" => remote::cluster::run(rest),
        "completion" => shell::run_completion(parser(rest)),
        "config" => config::run(rest),
        "contract" => contract::run(rest),
        "data" => data::run(rest),
        "discover" => discover::run(parser(rest)),
        "doctor" => doctor::run(parser(rest)),
        "generate" => generate::run(parser(rest)),
        "import" => import::run(rest),
        "listeners" => remote::state::run_listeners(rest),
        "man" => shell::run_man(parser(rest)),
        "pub" => publish::run(parser(rest)),
        "retained" => remote::retained::run(rest),
        "sessions" => remote::clients::run_sessions(rest),
        "stats" => remote::state::run_stats(rest),
        "sub" => subscribe::run(parser(rest)),
        "subscriptions" => remote::clients::run_subscriptions(rest),
        "tap" => remote::tap::run(parser(rest)),
        "top" => remote::top::run(parser(rest)),
        "token" => token::run(rest),
        "user" => user::run(rest),
        "why" => remote::why::run(parser(rest)),
        _ => Err(unknown_command(&name)),
    };
    match result {
        Ok(code) => code,
        Err(CommandExit::Text(text)) => print(&text),
        Err(CommandExit::Failure { exit, message }) => {
            // A message of the environment may carry control characters; line breaks are ours.
            let shown: String = message.chars().filter(|c| *c == '\n' || !c.is_control()).collect();
            stderr::write_line(format_args!("tautwire: {shown}"));
            exit.into()
        }
    }
}

/// Every command, in the order of the overview.
const COMMANDS: &[(&Command, &str)] = &[
    (&serve::COMMAND, "run the broker"),
    (&publish::COMMAND, "publish messages"),
    (&subscribe::COMMAND, "subscribe and print messages"),
    (&discover::COMMAND, "list the contracts of a broker"),
    (&contract::CHECK, "say whether a folder of contracts is right"),
    (&contract::LIST, "list contracts"),
    (&contract::SHOW, "show a contract with its schema"),
    (&contract::TEST, "say whether payloads keep a contract"),
    (&contract::DIFF, "say whether a change of contracts breaks anything"),
    (&contract::ADD, "add a contract"),
    (&generate::COMMAND, "write typed code for clients, or an AsyncAPI document"),
    (&remote::why::COMMAND, "say whether a message would reach a client, and why not"),
    (&remote::top::COMMAND, "show how a running broker is, again and again"),
    (&remote::tap::COMMAND, "print messages as they are published"),
    (&remote::clients::LIST, "list the clients that are connected"),
    (&remote::clients::SHOW, "show a client"),
    (&remote::clients::DISCONNECT, "disconnect a client"),
    (&remote::clients::SESSIONS, "list sessions"),
    (&remote::clients::DELETE, "end a session"),
    (&remote::clients::SUBSCRIPTIONS, "list the subscriptions of a client"),
    (&remote::retained::LIST, "list retained messages"),
    (&remote::retained::SHOW, "show a retained message"),
    (&remote::retained::DELETE, "remove retained messages"),
    (&remote::bans::LIST, "list who is banned"),
    (&remote::bans::ADD, "ban a client, a user or a network"),
    (&remote::bans::DELETE, "take a ban back"),
    (&remote::state::LISTENERS, "list listeners and their connections"),
    (&remote::state::STATS, "print the counters of a broker"),
    (&remote::cluster::STATUS, "show the nodes of a broker's cluster"),
    (&remote::cluster::DRAIN, "empty a node of a cluster before it is stopped"),
    (&remote::cluster::REBALANCE, "send clients of a full node to other nodes"),
    (&remote::shared::COMMAND, "show and change what the nodes of a cluster share"),
    (&remote::cluster::CHECK, "say whether a broker could take part in its cluster"),
    (&data::CHECK, "say whether a data directory is whole"),
    (&data::STATS, "say what a data directory holds"),
    (&data::DUMP, "print the records of a data directory"),
    (&data::COMPACT, "put the state of a data directory in a snapshot"),
    (&data::BACKUP, "copy a data directory, also while the broker runs"),
    (&data::RESTORE, "put a backup in the place of a data directory"),
    (&acl::CHECK, "say whether a file of access rules is right"),
    (&acl::EXPLAIN, "say which access rule decides, and why"),
    (&remote::rules::LIST, "list the access rules of a running broker"),
    (&cert::COMMAND, "make an authority and certificates to try TLS"),
    (&user::ADD, "add a user to a password file"),
    (&user::PASSWD, "give a user another password"),
    (&user::REMOVE, "remove a user from a password file"),
    (&user::LIST, "list the users of a password file"),
    (&token::ADD, "add a token for the admin API to a file"),
    (&token::LIST, "list the tokens of a file"),
    (&token::REMOVE, "remove a token from a file"),
    (&import::COMMAND, "take over the configuration and the state of Mosquitto"),
    (&config::CHECK, "say whether a configuration is right"),
    (&doctor::COMMAND, "say what of the machine and the configuration will hurt"),
    (&config::DIFF, "say what a running broker would change on a reload"),
    (&config::RELOAD, "have a running broker read its configuration again"),
    (&config::SHOW, "print the effective configuration"),
    (&shell::COMPLETION, "print what makes a shell complete commands"),
    (&shell::MAN, "write manual pages"),
];

fn overview() -> String {
    let mut text = String::from(
        "Tautwire, an MQTT 3.1.1 and 5.0 broker and its tools.\n\nUsage: tautwire COMMAND [OPTION]…\n\nCommands:\n",
    );
    for (command, summary) in COMMANDS {
        text.push_str(&format!("  {:<15} {summary}\n", command.name));
    }
    text.push_str(
        "  help COMMAND    explain a command\n\n\
         `tautwire --version` prints the version.\n\n\
         To try it:\n  tautwire serve\n  tautwire sub 'demo/#'\n  tautwire pub demo/hello hi\n",
    );
    text
}

fn help(topic: &[OsString]) -> Result<ExitCode, CommandExit> {
    let words: Vec<_> = topic.iter().map(|word| word.to_string_lossy()).collect();
    let name = words.join(" ");
    if name.is_empty() {
        return Err(CommandExit::Text(overview()));
    }
    let texts: Vec<String> = COMMANDS
        .iter()
        .map(|(command, _)| command)
        .filter(|command| command.name == name || command.name.split(' ').next() == Some(&name))
        .map(|command| command.help())
        .collect();
    if texts.is_empty() { Err(unknown_command(&name)) } else { Err(CommandExit::Text(texts.join("\n"))) }
}

fn unknown_command(name: &str) -> CommandExit {
    let mut message = format!("there is no command {name}");
    let groups = COMMANDS.iter().filter_map(|(command, _)| Some(command.name.split_once(' ')?.0)).chain(["help"]);
    let known = COMMANDS.iter().map(|(command, _)| command.name).chain(groups);
    if let Some(near) = nearest(name, known) {
        message.push_str(&format!("; did you mean {near}?"));
    }
    message.push_str("\nTry `tautwire --help`.");
    CommandExit::failure(Exit::Usage, message)
}

fn parser(arguments: Vec<OsString>) -> lexopt::Parser {
    lexopt::Parser::from_args(arguments)
}

/// Prints to standard output; a reader that has gone away is no failure.
fn print(text: &str) -> ExitCode {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            stderr::write_line(format_args!("tautwire: cannot write to standard output: {error}"));
            Exit::Usage.into()
        }
        _ => Exit::Success.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_command_is_named_with_the_nearest() {
        let message = |name| match unknown_command(name) {
            CommandExit::Failure { message, .. } => message,
            CommandExit::Text(text) => text,
        };
        assert!(message("serv").contains("did you mean serve?"));
        assert!(message("conifg").contains("did you mean config?"));
        assert!(message("clutser").contains("did you mean cluster?"));
        assert!(!message("frobnicate").contains("did you mean"));
    }

    #[test]
    fn every_command_has_help_that_names_it() {
        for (command, _) in COMMANDS {
            let help = command.help();
            assert!(help.starts_with(&format!("Usage: tautwire {}", command.name)), "{help}");
            assert!(help.contains("--help") || help.ends_with('\n'));
            assert!(help.contains("Exit codes:"), "{} does not say how it ends", command.name);
        }
    }
}
