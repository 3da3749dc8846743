//! `tautwire token`: manages a file with tokens of the admin API.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use super::arguments::{Argument, Arguments, Command, OptionGroup, OptionSpec, flag, value};
use super::{CommandExit, Exit, parser, print, unknown_command};
use crate::admin::{Grant, NamedToken, Role, Token, generate_token, tokens};
use crate::file_edit::{self, FileEditError};
use crate::files;
use crate::time::UtcTime;
use crate::time::since_epoch;

const FILE: OptionSpec =
    value(Some('f'), "file", "FILE", "The file of admin.tokens_file. Default: tokens.toml in the working directory.");
const NOTES: &str = "Exit codes: 0 done; 1 invalid arguments, file or token.";
/// Prefix of tokens, by which secret scanners can find leaked ones.
const PREFIX: &str = "tautwire_";
const DAY_S: u64 = 86_400;

pub(crate) static ADD: Command = Command {
    name: "token add",
    usage: &["[--file FILE] --role ROLE [--payloads] [--expires TIME | --days DAYS] NAME"],
    about: "Adds a token to a file and prints it. It is printed only once: the file contains only its digest. A missing file is created.",
    groups: &[OptionGroup {
        title: "Options",
        options: &[
            FILE,
            value(
                None,
                "role",
                "ROLE",
                "read: view everything except payloads; operate: also disconnect, ban, publish, delete retained messages, reload; \
                 administer: everything.",
            ),
            flag(None, "payloads", "The token may see payloads."),
            value(None, "expires", "TIME", "Expiry time, for example 2027-01-31T00:00:00Z. Default: never."),
            value(None, "days", "DAYS", "Expires after this many days."),
        ],
    }],
    notes: &["A running broker accepts it after its next reload.", NOTES],
};

pub(crate) static LIST: Command = Command {
    name: "token list",
    usage: &["[--file FILE]"],
    about: "Lists the tokens of a file, and reports all errors in the file.",
    groups: &[OptionGroup { title: "Options", options: &[FILE] }],
    notes: &[NOTES],
};

pub(crate) static REMOVE: Command = Command {
    name: "token remove",
    usage: &["[--file FILE] NAME"],
    about: "Removes a token from a file.",
    groups: &[OptionGroup { title: "Options", options: &[FILE] }],
    notes: &["A running broker refuses it after its next reload, and ends its login sessions.", NOTES],
};

pub(super) fn run(arguments: Vec<OsString>) -> Result<ExitCode, CommandExit> {
    let mut arguments = arguments.into_iter();
    let action = arguments.next().map(|word| word.to_string_lossy().into_owned());
    let rest = parser(arguments.collect());
    match action.as_deref() {
        Some("add") => add(Arguments::new(&ADD, rest)),
        Some("list") => list(Arguments::new(&LIST, rest)),
        Some("remove") => remove(Arguments::new(&REMOVE, rest)),
        Some("--help") => Err(CommandExit::Text([&ADD, &LIST, &REMOVE].map(|command| command.help()).join("\n"))),
        Some(other) => Err(unknown_command(&format!("token {other}"))),
        None => Err(CommandExit::failure(
            Exit::Usage,
            "write `tautwire token add`, `list` or `remove`; `tautwire token --help` explains",
        )),
    }
}

/// The values of the arguments.
struct TokenArguments {
    file: PathBuf,
    role: Option<Role>,
    payloads: bool,
    expires_unix_s: Option<u64>,
    names: Vec<String>,
}

impl TokenArguments {
    fn read(arguments: &mut Arguments) -> Result<TokenArguments, CommandExit> {
        let mut given = TokenArguments {
            file: "tokens.toml".into(),
            role: None,
            payloads: false,
            expires_unix_s: None,
            names: Vec::new(),
        };
        while let Some(argument) = arguments.next()? {
            match argument {
                Argument::Option("file") => given.file = arguments.os_string()?.into(),
                Argument::Option("role") => {
                    given.role = Some(arguments.choice(&Role::ALL.map(|role| (role.name(), role)))?);
                }
                Argument::Option("payloads") => given.payloads = true,
                Argument::Option(name @ ("expires" | "days")) => {
                    if given.expires_unix_s.is_some() {
                        return Err(arguments.failure("--expires and --days exclude each other; use one of them"));
                    }
                    given.expires_unix_s = Some(end(name, arguments)?);
                }
                Argument::Option(_) => return Err(arguments.failure("is not supported by this command")),
                Argument::Positional(name) => given.names.push(name),
            }
        }
        Ok(given)
    }

    /// The name; exactly one must be given.
    fn name(&self, arguments: &Arguments) -> Result<&str, CommandExit> {
        let [name] = self.names.as_slice() else {
            return Err(arguments.command_failure("write the name of one token"));
        };
        if !tokens::is_name(name) {
            return Err(arguments.command_failure(&format!("{name:?}: a name has 1 to 64 letters, digits and ._-")));
        }
        Ok(name)
    }

    fn change(
        &self,
        creates: bool,
        change: impl FnOnce(&str, &str) -> Result<String, String>,
    ) -> Result<(), CommandExit> {
        let file = self.file.display().to_string();
        file_edit::change(&self.file, creates, tokens::FILE_BYTES_MAX, |text| change(&file, text)).map_err(|why| {
            let why = match why {
                FileEditError::Refused(why) => why,
                FileEditError::File(error) => format!("the file {file} cannot be changed: {error}"),
            };
            CommandExit::failure(Exit::Usage, why)
        })
    }
}

/// The expiry time of a token.
fn end(option: &str, arguments: &mut Arguments) -> Result<u64, CommandExit> {
    let now_unix_s = since_epoch().as_secs();
    let text = arguments.string()?;
    let found = match option {
        "days" => text.parse().ok().and_then(|days: u64| days.checked_mul(DAY_S)?.checked_add(now_unix_s)),
        _ => tokens::parse_rfc3339(&text),
    };
    // Years have four digits.
    let is_possible = |end: &u64| *end > now_unix_s && UtcTime::from_unix(*end, 0).year <= 9_999;
    found.filter(is_possible).ok_or_else(|| {
        arguments.failure(match option {
            "days" => "expected a number of days, at least 1",
            _ => "expected a future time with Z or an offset, such as 2027-01-31T00:00:00Z",
        })
    })
}

fn add(mut arguments: Arguments) -> Result<ExitCode, CommandExit> {
    let given = TokenArguments::read(&mut arguments)?;
    let name = given.name(&arguments)?;
    let role =
        given.role.ok_or_else(|| arguments.command_failure("--role is required: read, operate or administer"))?;
    let secret = generate_token().map_err(|why| CommandExit::failure(Exit::Usage, why))?;
    let text = format!("{PREFIX}{secret}");
    let token = NamedToken {
        name: name.into(),
        grant: Grant { role, payloads: given.payloads },
        expires_unix_s: given.expires_unix_s,
        token: Token::of_text(&text),
    };
    given.change(true, |file, text| tokens::add(file, text, &token))?;
    Ok(print(&format!("{text}\n")))
}

fn list(mut arguments: Arguments) -> Result<ExitCode, CommandExit> {
    let given = TokenArguments::read(&mut arguments)?;
    if !given.names.is_empty() {
        return Err(arguments.command_failure("this command lists all tokens and takes no name"));
    }
    let file = given.file.display().to_string();
    let text = files::text(&given.file, tokens::FILE_BYTES_MAX);
    let text = text.map_err(|why| CommandExit::failure(Exit::Usage, format!("{file} {why}")))?;
    let tokens = tokens::parse(&file, &text).map_err(|errors| CommandExit::failure(Exit::Usage, errors.join("\n")))?;
    let width = tokens.iter().map(|token| token.name.len()).max().unwrap_or_default();
    let now_unix_s = since_epoch().as_secs();
    let lines = tokens.iter().map(|NamedToken { name, grant, expires_unix_s, .. }| {
        let payloads = if grant.payloads { ", payloads" } else { "" };
        let end = expires_unix_s.map_or_else(String::new, |end| {
            let word = if end <= now_unix_s { "expired" } else { "until" };
            format!(", {word} {}", UtcTime::from_unix(end, 0).to_rfc3339())
        });
        format!("{name:width$}  {}{payloads}{end}\n", grant.role)
    });
    Ok(print(&lines.collect::<String>()))
}

fn remove(mut arguments: Arguments) -> Result<ExitCode, CommandExit> {
    let given = TokenArguments::read(&mut arguments)?;
    let name = given.name(&arguments)?;
    given.change(false, |file, text| tokens::remove(file, text, name))?;
    Ok(print(&format!("token {name} removed from {}\n", given.file.display())))
}
