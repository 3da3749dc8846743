//! `tautwire contract`: inspects, tests, compares and adds contracts in a folder or in a running broker.

mod add;
mod diff;
pub(super) mod http;
mod inspect;
pub(super) mod source;
mod test;

use std::ffi::OsString;
use std::process::ExitCode;

pub(crate) use add::COMMAND as ADD;
pub(crate) use diff::COMMAND as DIFF;
pub(crate) use inspect::{CHECK, LIST, SHOW};
pub(super) use inspect::{description, index_json, table};
pub(crate) use test::COMMAND as TEST;

use super::{CommandExit, Exit, parser, unknown_command};

pub(super) fn run(arguments: Vec<OsString>) -> Result<ExitCode, CommandExit> {
    let mut arguments = arguments.into_iter();
    let action = arguments.next().map(|word| word.to_string_lossy().into_owned());
    let rest = parser(arguments.collect());
    match action.as_deref() {
        Some("check") => inspect::check(rest),
        Some("list") => inspect::list(rest),
        Some("show") => inspect::show(rest),
        Some("test") => test::run(rest),
        Some("diff") => diff::run(rest),
        Some("add") => add::run(rest),
        Some("--help") => {
            let commands = [&CHECK, &LIST, &SHOW, &TEST, &DIFF, &ADD];
            Err(CommandExit::Text(commands.map(|command| command.help()).join("\n")))
        }
        Some(other) => Err(unknown_command(&format!("contract {other}"))),
        None => Err(CommandExit::failure(
            Exit::Usage,
            "write `tautwire contract check`, `list`, `show`, `test`, `diff` or `add`; `tautwire contract --help` explains",
        )),
    }
}
