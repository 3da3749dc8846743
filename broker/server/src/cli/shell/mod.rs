//! `tautwire completion` and `tautwire man`: shell completion and manual pages, from the tables for parsing and help.

mod bash;
mod fish;
mod man;
mod zsh;

use std::path::PathBuf;
use std::process::ExitCode;

use super::arguments::{Argument, Arguments, Command, OptionSpec};
use super::{COMMANDS, CommandExit, Exit, print};
use crate::config::KEYS;

pub(crate) static COMPLETION: Command = Command {
    name: "completion",
    usage: &["bash|zsh|fish"],
    about: "Prints a shell completion script for commands, options and configuration keys.",
    groups: &[],
    notes: &[
        "To enable it in new shells:\n  \
         bash    tautwire completion bash > ~/.local/share/bash-completion/completions/tautwire\n  \
         zsh     tautwire completion zsh > DIR/_tautwire, where DIR is one of $fpath\n  \
         fish    tautwire completion fish > ~/.config/fish/completions/tautwire.fish",
        "Exit codes: 0 printed; 1 unknown shell.",
    ],
};

pub(crate) static MAN: Command = Command {
    name: "man",
    usage: &["DIR"],
    about: "Writes manual pages into an existing directory: one for each command, and tautwire.toml(5).",
    groups: &[],
    notes: &["Exit codes: 0 written; 1 failed."],
};

pub(super) fn run_completion(parser: lexopt::Parser) -> Result<ExitCode, CommandExit> {
    let mut arguments = Arguments::new(&COMPLETION, parser);
    let script = match read_argument(&mut arguments)?.as_deref() {
        Some("bash") => bash::script(),
        Some("zsh") => zsh::script(),
        Some("fish") => fish::script(),
        _ => return Err(arguments.command_failure("write bash, zsh or fish")),
    };
    Ok(print(&script))
}

pub(super) fn run_man(parser: lexopt::Parser) -> Result<ExitCode, CommandExit> {
    let mut arguments = Arguments::new(&MAN, parser);
    let Some(folder) = read_argument(&mut arguments)?.map(PathBuf::from) else {
        return Err(arguments.command_failure("write the directory for the pages"));
    };
    for page in man::pages() {
        let path = folder.join(page.file);
        std::fs::write(&path, page.text).map_err(|error| {
            CommandExit::failure(Exit::Usage, format!("{}: cannot be written: {error}", path.display()))
        })?;
    }
    Ok(Exit::Success.into())
}

/// Reads the single argument of a command without options.
fn read_argument(arguments: &mut Arguments) -> Result<Option<String>, CommandExit> {
    let mut given = None;
    while let Some(argument) = arguments.next()? {
        if let Argument::Positional(text) = argument {
            if given.is_some() {
                return Err(arguments.command_failure(&format!("unexpected argument \"{text}\"")));
            }
            given = Some(text);
        }
    }
    Ok(given)
}

/// The value of an option.
enum OptionValue {
    Nothing,
    File,
    Directory,
    /// One of these words.
    Words(Vec<&'static str>),
    /// A configuration key, `=` and a value.
    Key,
    Anything,
}

impl OptionValue {
    fn of(option: &OptionSpec) -> OptionValue {
        match option.values {
            None => OptionValue::Nothing,
            Some("FILE" | "PATH") => OptionValue::File,
            Some("DIR") => OptionValue::Directory,
            Some("KEY=VALUE") => OptionValue::Key,
            Some("QOS") => OptionValue::Words(vec!["0", "1", "2"]),
            Some(words) if words.contains('|') => OptionValue::Words(words.split('|').collect()),
            Some(_) => OptionValue::Anything,
        }
    }
}

/// The distinct first words of commands.
///
/// Each has the summary of its command, or the list of its subcommands.
fn first_words() -> Vec<(&'static str, String)> {
    let mut found: Vec<(&str, String)> = Vec::new();
    for (command, summary) in COMMANDS {
        match command.name.split_once(' ') {
            None => found.push((command.name, (*summary).to_owned())),
            Some((first, second)) => match found.iter_mut().find(|(word, _)| *word == first) {
                Some((_, seconds)) => {
                    seconds.push_str(", ");
                    seconds.push_str(second);
                }
                None => found.push((first, second.to_owned())),
            },
        }
    }
    found.push(("help", "explain a command".to_owned()));
    found
}

/// The second words of commands that begin with `first`, with their summaries.
fn second_words(first: &str) -> Vec<(&'static str, &'static str)> {
    COMMANDS
        .iter()
        .filter_map(|(command, summary)| {
            let (word, second) = command.name.split_once(' ')?;
            (word == first).then_some((second, *summary))
        })
        .collect()
}

/// The commands, those with two words first.
///
/// A shell that matches prefixes then finds these first.
fn longest_first() -> Vec<&'static Command> {
    let mut commands: Vec<&Command> = COMMANDS.iter().map(|(command, _)| *command).collect();
    commands.sort_by_key(|command| !command.name.contains(' '));
    commands
}

/// The first sentence of a help text, for menus.
fn first_sentence(help: &str) -> &str {
    let end = help.find(". ").unwrap_or(help.len());
    help[..end].trim_end_matches('.')
}

/// The keys for `--set`, separated by spaces.
fn keys() -> String {
    let names: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
    names.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_listed_once() {
        let words: Vec<&str> = first_words().iter().map(|(word, _)| *word).collect();
        let mut once = words.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(words.len(), once.len());
        assert!(words.contains(&"serve") && words.contains(&"clients"));
        assert!(second_words("clients").iter().any(|(word, _)| *word == "show"));
    }

    #[test]
    fn a_menu_shows_the_first_sentence() {
        assert_eq!(first_sentence("Set a key. May be repeated."), "Set a key");
        assert_eq!(first_sentence("Set a key, for example mqtt.max_qos=1."), "Set a key, for example mqtt.max_qos=1");
    }
}
