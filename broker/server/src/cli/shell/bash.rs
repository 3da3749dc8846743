//! Completion for bash; it does not need the package bash-completion.

use std::fmt::Write as _;

use super::{OptionValue, first_words, keys, longest_first, second_words};
use crate::cli::arguments::Command;

pub(super) fn script() -> String {
    let firsts: Vec<&str> = first_words().iter().map(|(word, _)| *word).collect();
    let mut script = format!(
        "# Completion of tautwire for bash: tautwire completion bash\n\
         _tautwire_keys='{}'\n\n\
         # Completes from the words given.\n\
         _tautwire_words() {{\n    \
             mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$current\")\n\
         }}\n\n\
         _tautwire() {{\n    \
             local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} options=\n    \
             COMPREPLY=()\n    \
             if ((COMP_CWORD == 1)); then\n        \
                 _tautwire_words '{}'\n        \
                 return\n    \
             fi\n    \
             if ((COMP_CWORD == 2)); then\n        \
                 case ${{COMP_WORDS[1]}} in\n",
        keys(),
        firsts.join(" ")
    );
    for first in &firsts {
        let seconds: Vec<&str> = second_words(first).iter().map(|(word, _)| *word).collect();
        if !seconds.is_empty() {
            let _ = writeln!(
                script,
                "        {first})\n            _tautwire_words '{}'\n            return\n            ;;",
                seconds.join(" ")
            );
        }
    }
    script.push_str("        esac\n    fi\n    case \"${COMP_WORDS[1]} ${COMP_WORDS[2]} \" in\n");
    for command in longest_first() {
        push_command(&mut script, command);
    }
    script.push_str(
        "    esac\n    \
             if [[ $current == -* ]]; then\n        \
                 _tautwire_words \"$options\"\n    \
             fi\n\
         }\n\
         complete -o default -F _tautwire tautwire\n",
    );
    script
}

fn push_command(script: &mut String, command: &Command) {
    let _ = writeln!(script, "    '{} '*)", command.name);
    let options: Vec<String> =
        command.options().map(|option| format!("--{}", option.name)).chain(["--help".to_owned()]).collect();
    let _ = writeln!(script, "        options='{}'", options.join(" "));
    let mut cases = String::new();
    for option in command.options() {
        let completes = match OptionValue::of(option) {
            OptionValue::Nothing => continue,
            OptionValue::File => {
                "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$current\")".to_owned()
            }
            OptionValue::Directory => {
                "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- \"$current\")".to_owned()
            }
            OptionValue::Words(words) => format!("_tautwire_words '{}'", words.join(" ")),
            OptionValue::Key => {
                "compopt -o nospace; mapfile -t COMPREPLY < <(compgen -S = -W \"$_tautwire_keys\" -- \"$current\")"
                    .to_owned()
            }
            OptionValue::Anything => "compopt +o default".to_owned(),
        };
        let short = option.short.map(|short| format!("-{short} | ")).unwrap_or_default();
        let _ = writeln!(
            cases,
            "        {short}--{})\n            {completes}\n            return\n            ;;",
            option.name
        );
    }
    if !cases.is_empty() {
        let _ = write!(script, "        case $previous in\n{cases}        esac\n");
    }
    let actions = command.actions();
    if !actions.is_empty() {
        let _ = writeln!(
            script,
            "        if ((COMP_CWORD == {})) && [[ $current != -* ]]; then\n            _tautwire_words '{}'\n            return\n        fi",
            command.name.split(' ').count() + 1,
            actions.join(" ")
        );
    }
    script.push_str("        ;;\n");
}
