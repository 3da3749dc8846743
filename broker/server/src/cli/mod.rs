//! The command line: runs a command and converts its result to an exit code.

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
mod exit;
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
use std::io::Write as _;
use std::process::ExitCode;

use arguments::Command;
pub(crate) use exit::{CommandExit, Exit};

use crate::nearest::nearest;
use crate::stderr;

/// Runs the command named by the arguments (without the program name).
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
        "bridges" => remote::bridges::run(rest),
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
            // Messages from outside may contain control characters; line breaks are ours.
            let shown: String = message.chars().filter(|c| *c == '\n' || !c.is_control()).collect();
            stderr::write_line(format_args!("tautwire: {shown}"));
            exit.into()
        }
    }
}

/// All commands, in the order of the overview.
const COMMANDS: &[(&Command, &str)] = &[
    (&serve::COMMAND, "run the broker"),
    (&publish::COMMAND, "publish messages"),
    (&subscribe::COMMAND, "subscribe and print messages"),
    (&discover::COMMAND, "list the contracts of a broker"),
    (&contract::CHECK, "check a contracts folder"),
    (&contract::LIST, "list contracts"),
    (&contract::SHOW, "show a contract with its schema"),
    (&contract::TEST, "validate payloads against a contract"),
    (&contract::DIFF, "compare contracts for compatibility"),
    (&contract::ADD, "add a contract"),
    (&generate::COMMAND, "write typed code for clients, or an AsyncAPI document"),
    (&remote::why::COMMAND, "explain whether a message would reach a client"),
    (&remote::top::COMMAND, "show live statistics of a broker"),
    (&remote::tap::COMMAND, "print messages as they are published"),
    (&remote::clients::LIST, "list connected clients"),
    (&remote::clients::SHOW, "show a client"),
    (&remote::clients::DISCONNECT, "disconnect a client"),
    (&remote::clients::SESSIONS, "list sessions"),
    (&remote::clients::DELETE, "end a session"),
    (&remote::clients::SUBSCRIPTIONS, "list the subscriptions of a client"),
    (&remote::retained::LIST, "list retained messages"),
    (&remote::retained::SHOW, "show a retained message"),
    (&remote::retained::DELETE, "remove retained messages"),
    (&remote::bans::LIST, "list bans"),
    (&remote::bans::ADD, "ban a client, a user or a network"),
    (&remote::bans::DELETE, "remove a ban"),
    (&remote::bridges::LIST, "list bridges"),
    (&remote::bridges::SHOW, "show a bridge"),
    (&remote::bridges::PAUSE, "disconnect a bridge"),
    (&remote::bridges::RESUME, "connect a paused bridge"),
    (&remote::bridges::TEST, "test the connection of a bridge"),
    (&remote::state::LISTENERS, "list listeners and their connections"),
    (&remote::state::STATS, "print the counters of a broker"),
    (&remote::cluster::STATUS, "show the nodes of a broker's cluster"),
    (&remote::cluster::DRAIN, "drain a node of a cluster before you stop it"),
    (&remote::cluster::REBALANCE, "redirect clients of a busy node to other nodes"),
    (&remote::shared::COMMAND, "show and change the shared configuration of a cluster"),
    (&remote::cluster::CHECK, "check whether a broker could join its cluster"),
    (&data::CHECK, "check the integrity of a data directory"),
    (&data::STATS, "show statistics of a data directory"),
    (&data::DUMP, "print the records of a data directory"),
    (&data::COMPACT, "compact a data directory into a snapshot"),
    (&data::BACKUP, "back up a data directory, also while the broker runs"),
    (&data::RESTORE, "restore a data directory from a backup"),
    (&acl::CHECK, "check a file with access rules"),
    (&acl::EXPLAIN, "explain which access rule decides, and why"),
    (&remote::rules::LIST, "list the access rules of a running broker"),
    (&cert::COMMAND, "create a certificate authority and certificates to try TLS"),
    (&user::ADD, "add a user to a password file"),
    (&user::PASSWD, "change the password of a user"),
    (&user::REMOVE, "remove a user from a password file"),
    (&user::LIST, "list the users of a password file"),
    (&token::ADD, "add a token for the admin API to a file"),
    (&token::LIST, "list the tokens of a file"),
    (&token::REMOVE, "remove a token from a file"),
    (&import::COMMAND, "import the configuration and the state of Mosquitto"),
    (&config::CHECK, "check a configuration"),
    (&doctor::COMMAND, "check the machine and the configuration for problems"),
    (&config::DIFF, "show what a reload of a running broker would change"),
    (&config::RELOAD, "reload the configuration of a running broker"),
    (&config::SHOW, "print the effective configuration"),
    (&shell::COMPLETION, "print a shell completion script"),
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
    let mut message = format!("unknown command {name}");
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

/// Prints to standard output; a closed pipe is not an error.
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
    fn an_unknown_command_is_reported_with_the_nearest() {
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
            assert!(help.contains("Exit codes:"), "{} has no exit codes", command.name);
        }
    }
}
