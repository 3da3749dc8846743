//! Completion for fish.

use std::fmt::Write as _;

use super::{OptionValue, first_sentence, first_words, keys, second_words};
use crate::cli::COMMANDS;
use crate::cli::arguments::Command;

pub(super) fn script() -> String {
    let mut script = format!(
        "# Completion of tautwire for fish: tautwire completion fish\n\
         function __tautwire_runs --description 'Whether the words after tautwire begin with these'\n    \
             set -l words (commandline -opc)\n    \
             set -e words[1]\n    \
             set -l count (count $argv)\n    \
             test (count $words) -ge $count; and test \"$words[1..$count]\" = \"$argv\"\n\
         end\n\n\
         function __tautwire_awaits --description 'Whether the words after tautwire are exactly these'\n    \
             set -l words (commandline -opc)\n    \
             set -e words[1]\n    \
             test \"$words\" = \"$argv\"\n\
         end\n\n\
         function __tautwire_keys\n    \
             string replace -r '$' = {}\n\
         end\n\n",
        keys()
    );
    for (first, summary) in first_words() {
        let _ = writeln!(script, "complete -c tautwire -f -n __tautwire_awaits -a {first} -d {}", quoted(&summary));
        for (second, summary) in second_words(first) {
            let _ = writeln!(
                script,
                "complete -c tautwire -f -n '__tautwire_awaits {first}' -a {second} -d {}",
                quoted(summary)
            );
        }
    }
    for (command, _) in COMMANDS {
        push_command(&mut script, command);
    }
    script
}

fn push_command(script: &mut String, command: &Command) {
    let actions = command.actions();
    if !actions.is_empty() {
        let _ = writeln!(
            script,
            "complete -c tautwire -f -n '__tautwire_awaits {}' -a '{}'",
            command.name,
            actions.join(" ")
        );
    }
    for option in command.options() {
        let short = option.short.map(|short| format!(" -s {short}")).unwrap_or_default();
        let accepts = match OptionValue::of(option) {
            OptionValue::Nothing => String::new(),
            OptionValue::File => " -r -F".to_owned(),
            OptionValue::Directory => " -x -a '(__fish_complete_directories)'".to_owned(),
            OptionValue::Words(words) => format!(" -x -a '{}'", words.join(" ")),
            OptionValue::Key => " -x -a '(__tautwire_keys)'".to_owned(),
            OptionValue::Anything => " -x".to_owned(),
        };
        let _ = writeln!(
            script,
            "complete -c tautwire -n '__tautwire_runs {}' -l {}{short}{accepts} -d {}",
            command.name,
            option.name,
            quoted(first_sentence(option.help))
        );
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}
