//! `tautwire import`: the configuration of another broker, and its state, as ours.

mod database;
mod listener;
mod mosquitto;
mod options;
mod plugins;
mod staging;
mod translate;
mod unsupported;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tautwire_mosquitto::MountPoints;

use super::arguments::{Argument, Arguments, Command, OptionGroup, flag, value};
use super::{CommandExit, Exit, parser, print};
use staging::Staging;
use translate::{CONFIGURATION, Imported};

pub(crate) static COMMAND: Command = Command {
    name: "import mosquitto",
    usage: &["[--dir DIR] [--force] [--dry-run] [--data DIR] FILE…"],
    about: "Takes over what Mosquitto has. Each FILE is a mosquitto.conf, a mosquitto.db, or one of both.\n\
            Of mosquitto.conf it writes a configuration that means the same: tautwire.toml, and access.toml where there is an acl_file,\n\
            another one for each listener that has its own.\n\
            Each option is translated, or listed with the reason and what follows. Where clients could do more than before, nothing is written, and\n\
            it says why. The new configuration is checked as by `tautwire config check` before anything is in its place.\n\
            Password files are read as they are. Of mosquitto.db it makes a data directory with sessions, subscriptions, messages\n\
            that wait or are in flight, and retained messages. Everything that has no counterpart is listed.",
    groups: &[OptionGroup {
        title: "Options",
        options: &[
            value(
                None,
                "dir",
                "DIR",
                "Where the files are written; it is made if it is not there. Default: this directory.",
            ),
            flag(None, "force", "Replace files that are there. A data directory is never replaced."),
            flag(None, "dry-run", "Print what would be written, and write nothing."),
            value(
                None,
                "data",
                "DIR",
                "The data directory to make, which is not there yet or empty. Where no mosquitto.db is given, the one that mosquitto.conf names is taken.",
            ),
        ],
    }],
    notes: &["Stop Mosquitto before its state is taken over: it writes mosquitto.db when it ends.\n\n\
              Exit codes: 0 written, whatever has no counterpart; 1 the arguments or a file are wrong, or what would be written would let clients do\n\
              more than before or does not start. Nothing has been written then.\n\n\
              Then: tautwire serve --config tautwire.toml"],
};

/// What the arguments ask for.
struct ImportArguments {
    folder: PathBuf,
    force: bool,
    is_dry_run: bool,
    data: Option<PathBuf>,
    configuration: Option<PathBuf>,
    database: Option<PathBuf>,
}

pub(super) fn run(mut arguments: Vec<OsString>) -> Result<ExitCode, CommandExit> {
    // There is one broker to import from, so its name may be left out.
    if arguments.first().is_some_and(|word| word == "mosquitto") {
        arguments.remove(0);
    }
    let asked = ImportArguments::parse(Arguments::new(&COMMAND, parser(arguments)))?;
    let imported = asked.configuration.as_deref().map(|file| asked.translate(file)).transpose()?;
    let database = asked.database(imported.as_ref())?;
    let taken = match (&database, &asked.data) {
        (Some(file), Some(data)) => {
            database::expect_free(data)?;
            let none = MountPoints::new();
            let mount_points = imported.as_ref().map_or(&none, |imported| &imported.mount_points);
            Some((database::read(file, mount_points).map_err(wrong)?, file, data))
        }
        _ => None,
    };
    let (mut summary, mut notes) = (String::new(), Vec::new());
    // All of it is checked before any of it is in its place.
    let staged = match &imported {
        Some(imported) => {
            let (staging, warnings) = asked.stage(&imported.files)?;
            notes.extend(imported.notes.iter().cloned());
            notes.extend(warnings.into_iter().map(|warning| format!("warning: {warning}")));
            Some((staging, &imported.files))
        }
        None => None,
    };
    if let Some((taken, file, data)) = &taken {
        if !asked.is_dry_run {
            database::write(taken, data)?;
        }
        let done = asked.done();
        summary.push_str(&format!("{done}: {}, of {}\n{}", data.display(), file.display(), database::summary(taken)));
        notes.extend(database::notes(taken, file));
    }
    if let Some((staging, files)) = staged {
        if !asked.is_dry_run {
            staging.put(files, &asked.folder).map_err(wrong)?;
        }
        for (name, text) in files {
            summary.push_str(&format!("{}: {}\n", asked.done(), asked.folder.join(name).display()));
            if asked.is_dry_run {
                summary.extend(text.lines().map(|line| format!("  | {line}\n")));
            }
        }
    }
    if !notes.is_empty() {
        summary.push_str("without a counterpart, or not the same:\n");
        summary.extend(notes.iter().map(|note| format!("  {note}\n")));
    }
    Ok(print(&summary))
}

fn wrong(error: String) -> CommandExit {
    CommandExit::failure(Exit::Usage, error)
}

impl ImportArguments {
    fn parse(mut arguments: Arguments) -> Result<ImportArguments, CommandExit> {
        let (mut folder, mut force, mut is_dry_run, mut data) = (PathBuf::from("."), false, false, None);
        let (mut configurations, mut databases) = (Vec::new(), Vec::new());
        while let Some(argument) = arguments.next()? {
            match argument {
                Argument::Option("dir") => folder = arguments.os_string()?.into(),
                Argument::Option("data") => data = Some(arguments.os_string()?.into()),
                Argument::Option("force") => force = true,
                Argument::Option("dry-run") => is_dry_run = true,
                Argument::Option(_) => return Err(arguments.failure("is not understood here")),
                Argument::Positional(file) => {
                    let file = PathBuf::from(file);
                    if database::is_one(&file) { databases.push(file) } else { configurations.push(file) }
                }
            }
        }
        if configurations.len() > 1 || databases.len() > 1 || configurations.len() + databases.len() == 0 {
            return Err(
                arguments.command_failure("write the name of a mosquitto.conf, of a mosquitto.db, or of one of both")
            );
        }
        let (configuration, database) = (configurations.pop(), databases.pop());
        if database.is_some() && data.is_none() {
            return Err(arguments.command_failure("write with --data DIR where the data directory is to be"));
        }
        Ok(ImportArguments { folder, force, is_dry_run, data, configuration, database })
    }

    /// Reads and translates a configuration.
    fn translate(&self, file: &Path) -> Result<Imported, CommandExit> {
        let reading = mosquitto::read(file).map_err(wrong)?;
        reading
            .translate(file, self.data.as_deref())
            .map_err(|refusals| wrong(format!("nothing is written:\n  {}", refusals.join("\n  "))))
    }

    /// The mosquitto.db that is taken over: the one that is given, or the one that the configuration names.
    fn database(&self, imported: Option<&Imported>) -> Result<Option<PathBuf>, CommandExit> {
        let named = imported.and_then(|imported| imported.database.clone()).filter(|_| self.data.is_some());
        match self.database.clone().or(named) {
            None if self.data.is_some() => {
                Err(wrong("--data: no mosquitto.db is given, and none is named by a configuration".to_owned()))
            }
            database => Ok(database),
        }
    }

    /// Writes files where they are not seen yet, and checks them; gives the warnings.
    fn stage(&self, files: &[(String, String)]) -> Result<(Staging, Vec<String>), CommandExit> {
        for (name, _) in files.iter().filter(|_| !self.force && !self.is_dry_run) {
            let path = self.folder.join(name);
            if path.symlink_metadata().is_ok() {
                return Err(wrong(format!("{} is there already; --force replaces it", path.display())));
            }
        }
        let parent = if self.is_dry_run { std::env::temp_dir() } else { self.folder.clone() };
        let staging = Staging::write(&parent, files).map_err(wrong)?;
        let warnings = staging.check(CONFIGURATION, &self.folder).map_err(|errors| {
            wrong(format!("nothing is written, because the broker would not start:\n  {}", errors.join("\n  ")))
        })?;
        Ok((staging, warnings))
    }

    /// What is said of a file.
    fn done(&self) -> &'static str {
        if self.is_dry_run { "would be written" } else { "written" }
    }
}
