//! `tautwire data backup`: copies a data directory, also while the broker runs.

use std::path::PathBuf;
use std::process::ExitCode;

use super::super::arguments::{Argument, Arguments, Command, OptionGroup};
use super::super::{CommandExit, Exit, print};
use super::directory_copy::{CopyReport, directory_copy, is_free};
use super::grouped::grouped;
use super::source::{self, Source};

pub(crate) static COMMAND: Command = Command {
    name: "data backup",
    usage: &["[--data DIR | --config FILE | --set data.path=DIR] BACKUP"],
    about: "Copies a data directory to the directory BACKUP, which must not exist or be empty. The broker may be running: the copy\n\
            contains everything that was acknowledged before the command started. The copy is verified and durable before it gets its\n\
            name, and a broker can use it as it is.",
    groups: &[OptionGroup { title: "Options", options: source::OPTIONS }],
    notes: &["A damaged directory is not copied.", source::EXIT_CODES],
};

pub(super) fn run(parser: lexopt::Parser) -> Result<ExitCode, CommandExit> {
    let mut arguments = Arguments::new(&COMMAND, parser);
    let (mut source, mut target) = (Source::default(), None);
    while let Some(argument) = arguments.next()? {
        match argument {
            Argument::Option(name) if source.take(name, &mut arguments)? => {}
            Argument::Option(_) => return Err(arguments.failure("is not supported by this command")),
            Argument::Positional(text) if target.is_none() => target = Some(PathBuf::from(text)),
            Argument::Positional(_) => return Err(arguments.command_failure("write one directory for the backup")),
        }
    }
    let target = target.ok_or_else(|| arguments.command_failure("write the directory for the backup"))?;
    let path = source.path(&arguments)?;
    let (disk, is_in_use) = source::open(&path)?;
    if !is_free(&target)? {
        return Err(CommandExit::failure(Exit::Usage, format!("{}: not empty; use a new directory", target.display())));
    }
    let CopyReport { copied, .. } = directory_copy(&path, &disk, &target)?;
    // While a broker runs, it is the current write, which began after the command.
    let torn = copied.torn.as_ref().filter(|_| !is_in_use);
    let not_copied = torn.map_or_else(String::new, |torn| {
        let bytes = grouped(torn.bytes);
        format!("not copied: the last write, which is incomplete and may have been acknowledged: {bytes} bytes\n")
    });
    let printed = print(&format!(
        "{}: {} bytes in {} files, up to position {}\n{not_copied}",
        target.display(),
        grouped(copied.bytes),
        copied.files,
        copied.log.end.last
    ));
    Ok(if torn.is_some() { Exit::TORN.into() } else { printed })
}
