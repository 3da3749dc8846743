//! `tautwire import`: the configuration of another broker, as one of ours.

mod mosquitto;
mod options;

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::arguments::{Argument, Arguments, Command, OptionGroup, flag, value};
use super::{Exit, Stop, print};
use mosquitto::Imported;

pub(crate) static COMMAND: Command = Command {
    name: "import",
    usage: &["[--dir DIR] [--force] mosquitto.conf"],
    about: "Writes a configuration that means the same as one of mosquitto: tautwire.toml, and access.toml where there is an acl_file.\n\
            Password files are read as they are. Everything that has no counterpart is listed, line by line.",
    groups: &[OptionGroup {
        title: "Options",
        options: &[
            value(None, "dir", "DIR", "Where the files are written. Default: this directory."),
            flag(None, "force", "Replace files that are there."),
        ],
    }],
    notes: &["Exit codes: 0 written, whatever has no counterpart; 1 the arguments or a file are wrong.\n\n\
              Then: tautwire config check --config tautwire.toml"],
};

pub(super) fn run(parser: lexopt::Parser) -> Result<ExitCode, Stop> {
    let mut arguments = Arguments::new(&COMMAND, parser);
    let (mut folder, mut force, mut files) = (PathBuf::from("."), false, Vec::new());
    while let Some(argument) = arguments.next()? {
        match argument {
            Argument::Option("dir") => folder = arguments.os_string()?.into(),
            Argument::Option("force") => force = true,
            Argument::Option(_) => return Err(arguments.failure("is not understood here")),
            Argument::Positional(file) => files.push(PathBuf::from(file)),
        }
    }
    let [file] = files.as_slice() else {
        return Err(arguments.command_failure("write the name of one configuration file of mosquitto"));
    };
    let Imported { configuration, rules, notes } =
        mosquitto::read(file).map_err(|error| Stop::failure(Exit::Usage, error))?;
    let mut written = Vec::new();
    for (name, text) in [("tautwire.toml", Some(configuration)), ("access.toml", rules)] {
        if let Some(text) = text {
            let path = folder.join(name);
            write(&path, &text, force).map_err(|error| Stop::failure(Exit::Usage, error))?;
            written.push(path);
        }
    }
    let mut told: String = written.iter().map(|path| format!("written: {}\n", path.display())).collect();
    if !notes.is_empty() {
        told.push_str("without a counterpart, or not the same:\n");
        told.extend(notes.iter().map(|note| format!("  {note}\n")));
    }
    Ok(print(&told))
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
