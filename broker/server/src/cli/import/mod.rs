//! `tautwire import`: converts the configuration and the state of another broker.

mod authorities;
mod bridge;
mod bridge_table;
mod database;
mod listener;
mod mosquitto;
mod options;
mod outcome;
mod output_text;
mod parsed_config;
mod plugins;
mod staging;
mod translate;
mod unsupported;
mod values;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tautwire_mosquitto::{BridgeSessions, MountPoints};

use super::arguments::{Argument, Arguments, Command, OptionGroup, flag, value};
use super::{CommandExit, Exit, parser, print};
use staging::{NewFile, Staging};
use translate::{CONFIGURATION, Imported};

pub(crate) static COMMAND: Command = Command {
    name: "import mosquitto",
    usage: &["[--dir DIR] [--force] [--dry-run] [--data DIR] FILE…"],
    about: "Imports the configuration and the state of Mosquitto. FILE is a mosquitto.conf, a mosquitto.db, or one of each.\n\
            From mosquitto.conf it writes an equivalent configuration: tautwire.toml, and access.toml if there is an acl_file,\n\
            with another one for each listener that has its own. Passwords of bridges are written to files of their own with mode 600.\n\
            Each option is translated, or listed with the reason and the consequence. If clients could do more than before, it reports\n\
            the reason and writes nothing. The new configuration is checked like by `tautwire config check` before any file is replaced.\n\
            Password files are used as they are. From mosquitto.db it creates a data directory with sessions, subscriptions, queued and\n\
            in-flight messages, and retained messages. Everything without a counterpart is listed.",
    groups: &[OptionGroup {
        title: "Options",
        options: &[
            value(
                None,
                "dir",
                "DIR",
                "The output directory; it is created if it does not exist. Default: the working directory.",
            ),
            flag(None, "force", "Replace existing files. A data directory is never replaced."),
            flag(None, "dry-run", "Print what would be written, and write nothing."),
            value(
                None,
                "data",
                "DIR",
                "The data directory to create, which must not exist or be empty. Without a mosquitto.db argument, the one named in mosquitto.conf is imported.",
            ),
        ],
    }],
    notes: &["Stop Mosquitto before you import its state: it writes mosquitto.db when it stops.\n\n\
              Exit codes: 0 written, possibly with options that have no counterpart; 1 invalid arguments or file, or the new configuration would\n\
              allow clients more than before or would not start. Nothing is written then.\n\n\
              Then: tautwire serve --config tautwire.toml"],
};

/// The values of the arguments.
struct ImportArguments {
    folder: PathBuf,
    force: bool,
    is_dry_run: bool,
    data: Option<PathBuf>,
    configuration: Option<PathBuf>,
    database: Option<PathBuf>,
}

pub(super) fn run(mut arguments: Vec<OsString>) -> Result<ExitCode, CommandExit> {
    // The name of the broker is optional: only one is supported.
    if arguments.first().is_some_and(|word| word == "mosquitto") {
        arguments.remove(0);
    }
    let request = ImportArguments::parse(Arguments::new(&COMMAND, parser(arguments)))?;
    let imported = request.configuration.as_deref().map(|file| request.translate(file)).transpose()?;
    let database = request.database(imported.as_ref())?;
    let state = match (&database, &request.data) {
        (Some(file), Some(data)) => {
            database::expect_free(data)?;
            let (no_mount_points, no_bridges) = (MountPoints::new(), BridgeSessions::new());
            let known = imported.as_ref().map(|imported| (&imported.mount_points, &imported.bridge_sessions));
            let (mount_points, bridges) = known.unwrap_or((&no_mount_points, &no_bridges));
            Some((database::read(file, mount_points, bridges).map_err(wrong)?, file, data))
        }
        _ => None,
    };
    let (mut summary, mut notes) = (String::new(), Vec::new());
    // Check everything before any file is replaced.
    let staged = match &imported {
        Some(imported) => {
            let (staging, warnings) = request.stage(&imported.files)?;
            notes.extend(imported.notes.iter().cloned());
            notes.extend(warnings.into_iter().map(|warning| format!("warning: {warning}")));
            Some((staging, &imported.files))
        }
        None => None,
    };
    if let Some((state, file, data)) = &state {
        if !request.is_dry_run {
            database::write(state, data)?;
        }
        let done = request.done();
        summary.push_str(&format!("{done}: {}, from {}\n{}", data.display(), file.display(), database::summary(state)));
        notes.extend(database::notes(state, file));
    }
    if let Some((staging, files)) = staged {
        if !request.is_dry_run {
            staging.move_to(files, &request.folder).map_err(wrong)?;
        }
        for file in files {
            summary.push_str(&format!("{}: {}\n", request.done(), request.folder.join(&file.name).display()));
            if request.is_dry_run && !file.is_secret {
                summary.extend(file.text.lines().map(|line| format!("  | {line}\n")));
            }
        }
    }
    if !notes.is_empty() {
        summary.push_str("without an exact counterpart:\n");
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
                Argument::Option(_) => return Err(arguments.failure("is not supported by this command")),
                Argument::Positional(file) => {
                    let file = PathBuf::from(file);
                    if database::is_one(&file) { databases.push(file) } else { configurations.push(file) }
                }
            }
        }
        if configurations.len() > 1 || databases.len() > 1 || configurations.len() + databases.len() == 0 {
            return Err(arguments.command_failure("write a mosquitto.conf, a mosquitto.db, or one of each"));
        }
        let (configuration, database) = (configurations.pop(), databases.pop());
        if database.is_some() && data.is_none() {
            return Err(arguments.command_failure("use --data DIR to name the data directory"));
        }
        Ok(ImportArguments { folder, force, is_dry_run, data, configuration, database })
    }

    /// Reads and translates a configuration.
    fn translate(&self, file: &Path) -> Result<Imported, CommandExit> {
        let config = mosquitto::read(file).map_err(wrong)?;
        config
            .translate(file, self.data.as_deref())
            .map_err(|refusals| wrong(format!("nothing is written:\n  {}", refusals.join("\n  "))))
    }

    /// The mosquitto.db to import: the one that is given, or the one that the configuration names.
    fn database(&self, imported: Option<&Imported>) -> Result<Option<PathBuf>, CommandExit> {
        let named = imported.and_then(|imported| imported.database.clone()).filter(|_| self.data.is_some());
        match self.database.clone().or(named) {
            None if self.data.is_some() => {
                Err(wrong("--data: no mosquitto.db is given, and the configuration names none".to_owned()))
            }
            database => Ok(database),
        }
    }

    /// Writes the files to a staging directory and checks them; returns the warnings.
    fn stage(&self, files: &[NewFile]) -> Result<(Staging, Vec<String>), CommandExit> {
        for file in files.iter().filter(|_| !self.force && !self.is_dry_run) {
            let path = self.folder.join(&file.name);
            if path.symlink_metadata().is_ok() {
                return Err(wrong(format!("{} already exists; --force replaces it", path.display())));
            }
        }
        let parent = if self.is_dry_run { std::env::temp_dir() } else { self.folder.clone() };
        let staging = Staging::write(&parent, files).map_err(wrong)?;
        let warnings = staging.check(CONFIGURATION, &self.folder).map_err(|errors| {
            wrong(format!("nothing is written, because the broker would not start:\n  {}", errors.join("\n  ")))
        })?;
        Ok((staging, warnings))
    }

    /// The verb for a file in the summary.
    fn done(&self) -> &'static str {
        if self.is_dry_run { "would be written" } else { "written" }
    }
}
