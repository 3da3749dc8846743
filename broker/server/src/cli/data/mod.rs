//! `tautwire data`: inspects, compacts, backs up and restores a data directory.

mod backup;
mod check;
pub(super) mod compact;
pub(super) mod directory_copy;
mod dump;
pub(super) mod grouped;
mod record;
mod report;
mod restore;
pub(super) mod source;
mod stats;

use std::ffi::OsString;
use std::process::ExitCode;

pub(crate) use backup::COMMAND as BACKUP;
pub(crate) use check::COMMAND as CHECK;
pub(crate) use compact::COMMAND as COMPACT;
pub(crate) use dump::COMMAND as DUMP;
pub(crate) use restore::COMMAND as RESTORE;
pub(crate) use stats::COMMAND as STATS;

use super::{CommandExit, Exit, parser, unknown_command};

pub(super) fn run(arguments: Vec<OsString>) -> Result<ExitCode, CommandExit> {
    let mut arguments = arguments.into_iter();
    let action = arguments.next().map(|word| word.to_string_lossy().into_owned());
    let rest = parser(arguments.collect());
    match action.as_deref() {
        Some("check") => check::run(rest),
        Some("stats") => stats::run(rest),
        Some("dump") => dump::run(rest),
        Some("compact") => compact::run(rest),
        Some("backup") => backup::run(rest),
        Some("restore") => restore::run(rest),
        Some("--help") => {
            let commands = [&CHECK, &STATS, &DUMP, &COMPACT, &BACKUP, &RESTORE];
            Err(CommandExit::Text(commands.map(|command| command.help()).join("\n")))
        }
        Some(other) => Err(unknown_command(&format!("data {other}"))),
        None => Err(CommandExit::failure(
            Exit::Usage,
            "write `tautwire data check`, `stats`, `dump`, `compact`, `backup` or `restore`; `tautwire data --help` explains",
        )),
    }
}
