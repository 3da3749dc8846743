//! `tautwire contract diff`: compares contracts for compatibility.

use std::path::Path;
use std::process::ExitCode;

use tautwire_contracts::Catalogue;
use tautwire_contracts::compare::{Effect, compare, effect};

use super::super::arguments::{Argument, Arguments, Command, OptionGroup, OptionSpec, flag, value};
use super::super::serve::failure;
use super::super::{CommandExit, Exit, print};
use super::source::{self, SourceOptions};
use crate::contracts;
use crate::json::push_string;

pub(crate) static COMMAND: Command = Command {
    name: "contract diff",
    usage: &[
        "[--json] [--allow COMPATIBILITY] OLD NEW",
        "[--json] [--allow COMPATIBILITY] --admin URL --token-file FILE NEW",
    ],
    about: "Compares two folders of contracts, or those of a running broker with a folder, field by field.",
    groups: &[OptionGroup { title: "Options", options: OPTIONS }],
    notes: &["Verdicts:\n\
            compatible  old and new contracts accept old and new payloads\n\
            backward    the new contracts accept old payloads; old readers may not accept new payloads\n\
            forward     old readers accept new payloads; the new contracts may refuse old payloads\n\
            breaking    neither\n\n\
            Exit codes: 0 compatible, or allowed; 1 invalid arguments, files or contracts; 2 no connection to the admin API;\n\
            3 refused by it; 4 backward; 5 forward; 6 breaking."],
};

const OPTIONS: &[OptionSpec] = &[
    flag(None, "json", "Print JSON."),
    value(None, "allow", "COMPATIBILITY", "Exit with 0 for this verdict, too: backward or forward."),
    source::ADMIN,
    source::TOKEN_FILE,
    source::CA,
];

pub(super) fn run(parser: lexopt::Parser) -> Result<ExitCode, CommandExit> {
    let mut arguments = Arguments::new(&COMMAND, parser);
    let mut options = SourceOptions::default();
    let (mut json, mut allowed, mut folders) = (false, None, Vec::new());
    while let Some(argument) = arguments.next()? {
        match argument {
            Argument::Option("json") => json = true,
            Argument::Option("allow") => {
                allowed = Some(arguments.choice(&[("backward", Effect::OldReaders), ("forward", Effect::OldWriters)])?);
            }
            Argument::Option(name) if options.take(name, &mut arguments)? => {}
            Argument::Option(_) => return Err(arguments.failure("is not supported by this command")),
            Argument::Positional(folder) => folders.push(folder),
        }
    }
    let (old, new) = match (options.is_admin(), folders.as_slice()) {
        (true, [new]) => (options.source(&arguments)?.load()?, load(new)?),
        (false, [old, new]) => (load(old)?, load(new)?),
        (true, _) => {
            return Err(arguments.command_failure("write the folder to compare with the contracts of the broker"));
        }
        (false, _) => return Err(arguments.command_failure("write two folders, the old one first")),
    };
    let differences = compare(&old, &new);
    let verdict = effect(&differences);
    let mut text = String::new();
    if json {
        text.push_str(&format!("{{\"verdict\":\"{}\",\"differences\":[", verdict.verdict()));
        for (at, difference) in differences.iter().enumerate() {
            text.push_str(if at > 0 { ",{" } else { "{" });
            let members = [
                ("\"contract\":", difference.contract.as_str()),
                (",\"path\":", &difference.path),
                (",\"change\":", &difference.what),
                (",\"verdict\":", difference.effect.verdict()),
            ];
            for (name, value) in members {
                text.push_str(name);
                push_string(&mut text, value);
            }
            text.push('}');
        }
        text.push_str("]}\n");
    } else {
        differences.iter().for_each(|difference| text.push_str(&format!("{difference}\n")));
        text.push_str(&format!("{}\n", verdict.verdict()));
    }
    let printed = print(&text);
    Ok(match verdict {
        Effect::None => printed,
        verdict if allowed == Some(verdict) => printed,
        Effect::OldReaders => Exit::Backward.into(),
        Effect::OldWriters => Exit::Forward.into(),
        Effect::Both => Exit::Breaking.into(),
    })
}

fn load(folder: &str) -> Result<Catalogue, CommandExit> {
    let folder = Path::new(folder);
    contracts::load(folder).map_err(|errors| failure(&contracts::format_errors(folder, &errors)))
}
