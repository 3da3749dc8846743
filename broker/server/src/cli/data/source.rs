//! Selects and opens the data directory of a command.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use tautwire_durable::Inspection;
use tautwire_journal::{LogError, READ_ATTEMPTS, ReadOnlyDirectory};

use super::super::arguments::{Arguments, OptionSpec, value};
use super::super::serve::configuration_failure;
use super::super::{CommandExit, Exit};
use crate::config::{Config, Override};

/// The options that select the directory.
pub(super) const OPTIONS: &[OptionSpec] = &[
    value(None, "data", "DIR", "The data directory. Default: the one that `tautwire serve` would use."),
    value(None, "config", "FILE", "Use data.path of this configuration file."),
    value(None, "set", "KEY=VALUE", "Override a configuration key of the file, such as data.path. May be repeated."),
];

/// Exit codes of these commands.
pub(super) const EXIT_CODES: &str = "Exit codes: 0 done, and nothing is lost; 1 invalid arguments, or a directory that is in use or cannot be read;\n\
                                     2 a part of the data is lost; 3 the last write is incomplete, and may have been acknowledged.";

/// The values of the options.
#[derive(Default)]
pub(super) struct Source {
    given: Option<PathBuf>,
    config: Option<PathBuf>,
    overrides: Vec<Override>,
}

impl Source {
    /// Reads the current option, if it is one of [`OPTIONS`].
    pub(super) fn take(&mut self, name: &str, arguments: &mut Arguments) -> Result<bool, CommandExit> {
        match name {
            "data" => self.given = Some(arguments.os_string()?.into()),
            "config" => self.config = Some(arguments.os_string()?.into()),
            "set" => {
                let text = arguments.string()?;
                let change = Override::from_argument(&text).map_err(|error| configuration_failure(vec![error]))?;
                self.overrides.push(change);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The selected directory.
    pub(super) fn path(self, arguments: &Arguments) -> Result<PathBuf, CommandExit> {
        let is_configured = self.config.is_some() || !self.overrides.is_empty();
        match self.given {
            Some(_) if is_configured => {
                Err(arguments.command_failure("--data cannot be combined with --config or --set: use one of them"))
            }
            Some(path) => Ok(path),
            None => {
                let config = Config::load(self.config.as_deref(), &self.overrides).map_err(configuration_failure)?;
                let path = config.data.path.directory().map_err(|why| arguments.command_failure(why))?;
                path.ok_or_else(|| arguments.command_failure("data.path is empty: use --data DIR"))
            }
        }
    }
}

/// Opens a directory read-only; returns whether a broker is writing to it.
pub(super) fn open(path: &Path) -> Result<(ReadOnlyDirectory, bool), CommandExit> {
    let disk = ReadOnlyDirectory::open(path).map_err(|error| match error.kind {
        ErrorKind::NotFound => CommandExit::failure(Exit::Usage, format!("{}: directory not found", path.display())),
        _ => failed(path, &error.into()),
    })?;
    let is_in_use = disk.is_in_use().map_err(|error| failed(path, &error.into()))?;
    Ok((disk, is_in_use))
}

/// Reads a directory; returns whether a broker is writing to it. If a broker starts or stops meanwhile, the directory is read again.
pub(super) fn inspect(path: &Path) -> Result<(Inspection, bool), CommandExit> {
    let mut result = Err(LogError::ChangedWhileReading);
    for _ in 0..READ_ATTEMPTS {
        let (disk, is_in_use) = open(path)?;
        result = Inspection::of(&disk, is_in_use).map(|found| (found, is_in_use));
        if open(path)?.1 == is_in_use {
            break;
        }
    }
    result.map_err(|error| failed(path, &error))
}

/// An error for a directory that is damaged or cannot be used.
pub(in crate::cli) fn failed(path: &Path, error: &LogError) -> CommandExit {
    let exit = match error {
        LogError::Damaged(_) | LogError::SnapshotDamaged(_) | LogError::Refused { .. } => Exit::DAMAGED,
        _ => Exit::Usage,
    };
    let path = path.display();
    let advice = match error {
        LogError::Damaged(_) | LogError::SnapshotDamaged(_) | LogError::Refused { .. } => {
            format!("; `tautwire data check --data {path}` lists what is damaged")
        }
        LogError::Disk(error) => format!("; {}", error.advice()),
        _ => String::new(),
    };
    CommandExit::failure(exit, format!("{path}: {error}{advice}"))
}
