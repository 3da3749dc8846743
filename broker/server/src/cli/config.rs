//! `tautwire config check` and `tautwire config show`, and the hidden `config doc` that writes the reference page.

use std::ffi::OsString;
use std::process::ExitCode;

use super::arguments::{Arguments, Command, OptionGroup};
use super::serve::{CONFIG_OPTIONS, configuration_failure, load, prepare};
use super::{Exit, Stop, parser, print, unknown_command};
use crate::config::{to_markdown, to_toml};

pub(crate) static CHECK: Command = Command {
    name: "config check",
    usage: &["[--config FILE] [--listen ADDRESS]… [--threads N] [--set KEY=VALUE]…"],
    about: "Says whether a configuration and the contracts it names are right, and everything that is wrong with them.",
    groups: &[OptionGroup { title: "Options", options: CONFIG_OPTIONS }],
    notes: &["Exit codes: 0 right; 1 wrong."],
};

pub(crate) static SHOW: Command = Command {
    name: "config show",
    usage: &["[--config FILE] [--listen ADDRESS]… [--threads N] [--set KEY=VALUE]…"],
    about: "Prints the effective configuration as a TOML file, each key with its meaning and default.",
    groups: &[OptionGroup { title: "Options", options: CONFIG_OPTIONS }],
    notes: &["Exit codes: 0 shown; 1 the configuration is wrong."],
};

pub(super) fn run(arguments: Vec<OsString>) -> Result<ExitCode, Stop> {
    let mut arguments = arguments.into_iter();
    let action = arguments.next().map(|word| word.to_string_lossy().into_owned());
    let rest = parser(arguments.collect());
    match action.as_deref() {
        Some("check") => {
            let config = load(Arguments::new(&CHECK, rest))?.map_err(configuration_failure)?;
            prepare(&config)?;
            for warning in config.warnings() {
                eprintln!("tautwire: warning: {warning}");
            }
            Ok(print("the configuration is right\n"))
        }
        Some("show") => {
            let config = load(Arguments::new(&SHOW, rest))?.map_err(configuration_failure)?;
            Ok(print(&to_toml(&config)))
        }
        Some("doc") => Ok(print(&to_markdown())),
        Some("--help") => Err(Stop::Text(format!("{}\n{}", CHECK.help(), SHOW.help()))),
        Some(other) => Err(unknown_command(&format!("config {other}"))),
        None => Err(Stop::failure(Exit::Usage, "write `tautwire config check` or `tautwire config show`")),
    }
}
