//! `tautwire import`: the configuration of another broker, and its state, as ours.

mod database;
mod mosquitto;
mod options;
mod plugins;

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tautwire_mosquitto::MountPoints;

use super::arguments::{Argument, Arguments, Command, OptionGroup, flag, value};
use super::{Exit, Stop, parser, print};
use mosquitto::Imported;

pub(crate) static COMMAND: Command = Command {
    name: "import mosquitto",
    usage: &["[--dir DIR] [--force] [--data DIR] FILE…"],
    about: "Takes over what Mosquitto has. Each FILE is a mosquitto.conf, a mosquitto.db, or one of both.\n\
            Of mosquitto.conf it writes a configuration that means the same: tautwire.toml, and access.toml where there is an acl_file,\n\
            another one for each listener that has its own.\n\
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
            value(
                None,
                "data",
                "DIR",
                "The data directory to make, which is not there yet or empty. Where no mosquitto.db is given, the one that mosquitto.conf names is taken.",
            ),
        ],
    }],
    notes: &["Stop Mosquitto before its state is taken over: it writes mosquitto.db when it ends.\n\n\
              Exit codes: 0 written, whatever has no counterpart; 1 the arguments or a file are wrong.\n\n\
              Then: tautwire config check --config tautwire.toml"],
};

/// What the arguments ask for.
struct Asked {
    folder: PathBuf,
    force: bool,
    data: Option<PathBuf>,
    configuration: Option<PathBuf>,
    database: Option<PathBuf>,
}

pub(super) fn run(mut arguments: Vec<OsString>) -> Result<ExitCode, Stop> {
    // There is one broker to import from, so its name may be left out.
    if arguments.first().is_some_and(|word| word == "mosquitto") {
        arguments.remove(0);
    }
    let Asked { folder, force, data, configuration, database } =
        Asked::parse(Arguments::new(&COMMAND, parser(arguments)))?;
    let wrong = |error: String| Stop::failure(Exit::Usage, error);
    let imported = configuration.map(|file| mosquitto::read(&file, data.as_deref())).transpose().map_err(wrong)?;
    let named = imported.as_ref().and_then(|imported| imported.database.clone()).filter(|_| data.is_some());
    let database = match (database, named) {
        (Some(given), _) => Some(given),
        (None, Some(named)) => Some(named),
        (None, None) if data.is_some() => {
            return Err(wrong("--data: no mosquitto.db is given, and none is named by a configuration".to_owned()));
        }
        (None, None) => None,
    };
    let taken = match (&database, &data) {
        (Some(file), Some(data)) => {
            database::expect_free(data)?;
            let none = MountPoints::new();
            let mount_points = imported.as_ref().map_or(&none, |imported| &imported.mount_points);
            Some((database::read(file, mount_points).map_err(wrong)?, file, data))
        }
        _ => None,
    };
    let (mut told, mut notes) = (String::new(), Vec::new());
    if let Some(Imported { configuration, rules, notes: found, .. }) = imported {
        fs::create_dir_all(&folder).map_err(|error| wrong(format!("{} cannot be made: {error}", folder.display())))?;
        for (name, text) in [("tautwire.toml".to_owned(), configuration)].into_iter().chain(rules) {
            let path = folder.join(name);
            write(&path, &text, force).map_err(wrong)?;
            told.push_str(&format!("written: {}\n", path.display()));
        }
        notes = found;
    }
    if let Some((taken, file, data)) = taken {
        database::write(&taken, data)?;
        told.push_str(&format!("written: {}, of {}\n{}", data.display(), file.display(), database::told(&taken)));
        notes.extend(database::notes(&taken, file));
    }
    if !notes.is_empty() {
        told.push_str("without a counterpart, or not the same:\n");
        told.extend(notes.iter().map(|note| format!("  {note}\n")));
    }
    Ok(print(&told))
}

impl Asked {
    fn parse(mut arguments: Arguments) -> Result<Asked, Stop> {
        let (mut folder, mut force, mut data) = (PathBuf::from("."), false, None);
        let (mut configurations, mut databases) = (Vec::new(), Vec::new());
        while let Some(argument) = arguments.next()? {
            match argument {
                Argument::Option("dir") => folder = arguments.os_string()?.into(),
                Argument::Option("data") => data = Some(arguments.os_string()?.into()),
                Argument::Option("force") => force = true,
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
        Ok(Asked { folder, force, data, configuration, database })
    }
}

fn write(path: &Path, text: &str, force: bool) -> Result<(), String> {
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => format!("{} is there already; --force replaces it", path.display()),
        _ => format!("{} cannot be written: {error}", path.display()),
    };
    if force {
        match fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o640).open(path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)
}
