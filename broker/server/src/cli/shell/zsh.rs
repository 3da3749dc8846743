//! Completion for zsh, using its function `_arguments`.

use std::fmt::Write as _;

use super::{OptionValue, first_sentence, first_words, keys, longest_first, second_words};
use crate::cli::arguments::{Command, OptionSpec};

pub(super) fn script() -> String {
    let mut script = format!(
        "#compdef tautwire\n\
         # Completion of tautwire for zsh: tautwire completion zsh\n\n\
         _tautwire_keys() {{\n    \
             compadd -S = -- {}\n\
         }}\n\n\
         _tautwire() {{\n    \
             local -a commands\n    \
             if (( CURRENT == 2 )); then\n        \
                 commands=(\n",
        keys()
    );
    let firsts = first_words();
    for (word, summary) in &firsts {
        push_described(&mut script, 12, word, summary);
    }
    script.push_str("        )\n        _describe -t commands command commands\n        return\n    fi\n    if (( CURRENT == 3 )); then\n        case $words[2] in\n");
    for (first, _) in &firsts {
        let seconds = second_words(first);
        if seconds.is_empty() {
            continue;
        }
        let _ = writeln!(script, "        {first})\n            commands=(");
        for (word, summary) in seconds {
            push_described(&mut script, 16, word, summary);
        }
        script.push_str(
            "            )\n            _describe -t commands command commands\n            return\n            ;;\n",
        );
    }
    script.push_str("        esac\n    fi\n    case \"$words[2] $words[3] \" in\n");
    for command in longest_first() {
        push_command(&mut script, command);
    }
    script.push_str(
        "    esac\n\
         }\n\n\
         # If sourced, register the function; if autoloaded from $fpath, call it.\n\
         if [[ $funcstack[1] == _tautwire ]]; then\n    \
             _tautwire \"$@\"\n\
         else\n    \
             compdef _tautwire tautwire\n\
         fi\n",
    );
    script
}

fn push_described(script: &mut String, indent: usize, word: &str, summary: &str) {
    let _ = writeln!(script, "{:indent$}{}", "", quoted(&format!("{word}:{summary}")));
}

fn push_command(script: &mut String, command: &Command) {
    let words = command.name.split(' ').count();
    let _ = writeln!(
        script,
        "    '{} '*)\n        shift {words} words\n        (( CURRENT -= {words} ))\n        _arguments \\",
        command.name
    );
    for option in command.options() {
        let help = escaped(first_sentence(option.help));
        let accepts = action(option);
        let (equals, short_argument) = if accepts.is_empty() { ("", "") } else { ("=", "+") };
        if let Some(short) = option.short {
            let _ =
                writeln!(script, "            {} \\", quoted(&format!("*-{short}{short_argument}[{help}]{accepts}")));
        }
        let _ = writeln!(script, "            {} \\", quoted(&format!("*--{}{equals}[{help}]{accepts}", option.name)));
    }
    let actions = command.actions();
    if !actions.is_empty() {
        let _ = writeln!(script, "            '1:action:({})' \\", actions.join(" "));
    }
    script.push_str("            '--help[Explain the command]' \\\n            '*:file:_files'\n        ;;\n");
}

/// The action of `_arguments` that completes the value of an option.
fn action(option: &OptionSpec) -> String {
    let Some(values) = option.values else { return String::new() };
    let action = match OptionValue::of(option) {
        OptionValue::Nothing => return String::new(),
        OptionValue::File => "_files".to_owned(),
        OptionValue::Directory => "_files -/".to_owned(),
        OptionValue::Words(words) => format!("({})", words.join(" ")),
        OptionValue::Key => "_tautwire_keys".to_owned(),
        OptionValue::Anything => " ".to_owned(),
    };
    format!(":{}:{action}", escaped(values))
}

/// Escapes characters that are special for `_arguments`.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('[', "\\[").replace(']', "\\]").replace(':', "\\:")
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
