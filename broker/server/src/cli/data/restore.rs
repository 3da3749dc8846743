//! `tautwire data restore`: restores a data directory from a backup.

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
    about: "Checks a backup and copies it to the data directory, which must not exist or be empty, while no broker runs. The copy\n\
            appears atomically once it is durable: complete or not at all.",
    groups: &[
        OptionGroup { title: "Options", options: source::OPTIONS },
        OptionGroup {
            title: "Existing data",
            options: &[flag(
                None,
                "force",
                "Replace a data directory that is not empty. The old directory is kept next to it under another name.",
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
            Argument::Option(_) => return Err(arguments.failure("is not supported by this command")),
            Argument::Positional(text) if backup.is_none() => backup = Some(PathBuf::from(text)),
            Argument::Positional(_) => return Err(arguments.command_failure("write one backup directory")),
        }
    }
    let backup = backup.ok_or_else(|| arguments.command_failure("write the backup directory"))?;
    let path = source.path(&arguments)?;
    let (disk, is_in_use) = source::open(&backup)?;
    if is_in_use {
        return Err(CommandExit::failure(
            Exit::Usage,
            format!("{}: a broker is using it; make a backup of it first", backup.display()),
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
    // Locked until the command ends, so that no broker starts to write to the replaced directory.
    let _lock = lock(&path, force)?;
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
        text.push_str(&format!("the old directory is in {}\n", replaced.display()));
    }
    Ok(print(&text))
}

/// Locks a directory that is not empty, if it may be replaced.
fn lock(path: &Path, force: bool) -> Result<Option<impl Send + use<>>, CommandExit> {
    if is_free(path)? {
        return Ok(None);
    }
    let shown = path.display();
    let refused = |why: &str| CommandExit::failure(Exit::Usage, format!("{shown}: {why}"));
    let in_use = "a broker is running; stop it before its state is replaced [journal_locked]";
    let (existing, is_in_use) = source::open(path)?;
    if is_in_use {
        return Err(refused(in_use));
    }
    if DirectoryUsage::of(&existing).map_err(|error| source::failed(path, &error))? == DirectoryUsage::default() {
        return Err(refused("not empty, and not a data directory"));
    }
    if !force {
        return Err(refused("not empty; --force replaces it and keeps it under another name"));
    }
    let directory = Directory::open(path).map_err(|error| source::failed(path, &error.into()))?;
    let lock = lock_directory(&directory).map_err(|error| match error {
        LogError::Locked => refused(in_use),
        other => source::failed(path, &other),
    })?;
    Ok(Some(lock))
}
