//! `tautwire contract`: contracts in a folder or in a running broker, looked at, tried, compared and added.

mod add;
mod diff;
pub(super) mod http;
mod look;
pub(super) mod source;
mod test;

use std::ffi::OsString;
use std::process::ExitCode;

pub(crate) use add::COMMAND as ADD;
pub(crate) use diff::COMMAND as DIFF;
pub(crate) use look::{CHECK, LIST, SHOW};
pub(super) use look::{description, index_json, table};
pub(crate) use test::COMMAND as TEST;

use super::{Exit, Stop, parser, unknown_command};

pub(super) fn run(arguments: Vec<OsString>) -> Result<ExitCode, Stop> {
    let mut arguments = arguments.into_iter();
    let action = arguments.next().map(|word| word.to_string_lossy().into_owned());
    let rest = parser(arguments.collect());
    match action.as_deref() {
        Some("check") => look::check(rest),
        Some("list") => look::list(rest),
        Some("show") => look::show(rest),
        Some("test") => test::run(rest),
        Some("diff") => diff::run(rest),
        Some("add") => add::run(rest),
        Some("--help") => {
            let commands = [&CHECK, &LIST, &SHOW, &TEST, &DIFF, &ADD];
            Err(Stop::Text(commands.map(|command| command.help()).join("\n")))
        }
        Some(other) => Err(unknown_command(&format!("contract {other}"))),
        None => Err(Stop::failure(
            Exit::Usage,
            "write `tautwire contract check`, `list`, `show`, `test`, `diff` or `add`; `tautwire contract --help` explains",
        )),
    }
}
