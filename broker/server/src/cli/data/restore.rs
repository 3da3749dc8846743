//! `tautwire data restore`: a backup in the place of a data directory.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tautwire_durable::Inspection;
use tautwire_journal::{Directory, DirectoryUsage, LogError, lock_directory};

use super::super::arguments::{Argument, Arguments, Command, OptionGroup, flag};
use super::super::{CommandExit, Exit, print};
use super::directory_copy::{CopyReport, directory_copy, is_free};
use super::grouped::grouped_count;
use super::report;
use super::source::{self, Source};

pub(crate) static COMMAND: Command = Command {
    name: "data restore",
    usage: &["[--data DIR | --config FILE | --set data.path=DIR] [--force] BACKUP"],
    about: "Checks a backup and copies it to the data directory, which is not there or empty, while no broker runs. The copy is made\n\
            beside the directory and gets its name when it is durable, so that there is all of it or nothing.",
    groups: &[
        OptionGroup { title: "Options", options: source::OPTIONS },
        OptionGroup {
            title: "What is there",
            options: &[flag(
                None,
                "force",
                "Put the backup in the place of a data directory that is not empty. What was there gets another name beside it.",
            )],
        },
    ],
    notes: &[source::EXIT_CODES],
};

pub(super) fn run(parser: lexopt::Parser) -> Result<ExitCode, CommandExit> {
    let mut arguments = Arguments::new(&COMMAND, parser);
    let (mut source, mut backup, mut force) = (Source::default(), None, false);
    while let Some(argument) = arguments.next()? {
        match argument {
            Argument::Option("force") => force = true,
            Argument::Option(name) if source.take(name, &mut arguments)? => {}
            Argument::Option(_) => return Err(arguments.failure("is not understood here")),
            Argument::Positional(text) if backup.is_none() => backup = Some(PathBuf::from(text)),
            Argument::Positional(_) => return Err(arguments.command_failure("write one directory of a backup")),
        }
    }
    let backup = backup.ok_or_else(|| arguments.command_failure("write the directory of the backup"))?;
    let path = source.path(&arguments)?;
    let (disk, is_in_use) = source::open(&backup)?;
    if is_in_use {
        return Err(CommandExit::failure(
            Exit::Usage,
            format!("{}: a broker is running on it; make a backup of it first", backup.display()),
        ));
    }
    let found = Inspection::of(&disk, false).map_err(|error| source::failed(&backup, &error))?;
    if !found.is_whole() {
        let mut losses = String::new();
        report::push_losses(&mut losses, &found);
        let message =
            format!("{}: the backup is damaged; nothing was restored\n{}", backup.display(), losses.trim_end());
        return Err(CommandExit::failure(Exit::DAMAGED, message));
    }
    // Held until the command ends, so that no broker begins to write to what is put aside.
    let _held = take(&path, force)?;
    let CopyReport { copied, replaced } = directory_copy(&backup, &disk, &path)?;
    let mut text = format!(
        "{}: {} in {}, {} and {}\n",
        path.display(),
        grouped_count(copied.bytes, "byte"),
        grouped_count(copied.files, "file"),
        grouped_count(found.state.sessions().count() as u64, "session"),
        grouped_count(found.state.retained().count() as u64, "retained message")
    );
    if let Some(replaced) = replaced {
        text.push_str(&format!("what was there is in {}\n", replaced.display()));
    }
    Ok(print(&text))
}

/// Holds a directory that is not empty, if it may be replaced.
fn take(path: &Path, force: bool) -> Result<Option<impl Send + use<>>, CommandExit> {
    if is_free(path)? {
        return Ok(None);
    }
    let shown = path.display();
    let refused = |why: &str| CommandExit::failure(Exit::Usage, format!("{shown}: {why}"));
    let in_use = "a broker is running; stop it before its state is replaced [journal_locked]";
    let (there, is_in_use) = source::open(path)?;
    if is_in_use {
        return Err(refused(in_use));
    }
    if DirectoryUsage::of(&there).map_err(|error| source::failed(path, &error))? == DirectoryUsage::default() {
        return Err(refused("is not empty, and is no data directory"));
    }
    if !force {
        return Err(refused("is not empty; --force puts the backup in its place, and what is there beside it"));
    }
    let directory = Directory::open(path).map_err(|error| source::failed(path, &error.into()))?;
    let held = lock_directory(&directory).map_err(|error| match error {
        LogError::Locked => refused(in_use),
        other => source::failed(path, &other),
    })?;
    Ok(Some(held))
}
