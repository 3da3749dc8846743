//! Shell completions, as the shells request them, and manual pages, as `man` reads them.

use std::fs;
use std::process::{Command, Output};

use crate::contracts::Folder;
use crate::process::run;

/// Writes the completion script for a shell to a file.
fn script(shell: &str, folder: &Folder) -> String {
    let path = folder.path(shell);
    fs::write(&path, run(&["completion", shell]).expect(0).stdout).expect("written");
    path
}

/// Runs a program and returns its output; `None` if it is not installed and not required.
fn run_program(program: &str, arguments: &[&str]) -> Option<String> {
    // A shell that hangs fails the test.
    match Command::new("timeout").arg("60").arg(program).args(arguments).env("LC_ALL", "C.UTF-8").output() {
        Ok(Output { status, .. }) if status.code() == Some(127) => {
            assert!(std::env::var_os("TAUTWIRE_REQUIRED").is_none(), "{program} is not installed");
            None
        }
        Ok(output) => {
            let stderr_text = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && stderr_text.is_empty(), "{program}: {}: {stderr_text}", output.status);
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Err(error) => panic!("timeout: {error}"),
    }
}

#[test]
fn bash_completes_commands_options_and_keys() {
    let folder = Folder::new(&[]);
    let ask = format!(
        "source {}; compopt() {{ :; }}; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _tautwire; echo \"${{COMPREPLY[@]}}\"",
        script("bash", &folder)
    );
    for (typed, expected) in [
        (&["clie"][..], "clients"),
        (&["clients", ""], "list show disconnect"),
        (&["serve", "--lis"], "--listen"),
        (&["clients", "list", "--des"], "--descending"),
        (&["serve", "--set", "mqtt.max_q"], "mqtt.max_qos="),
        (&["sub", "-q", ""], "0 1 2"),
        (&["cluster", "con"], "config"),
        (&["cluster", "config", ""], "show push pull"),
        (&["cluster", "config", "push", "--rem"], "--remove"),
        (&["cluster", "drain", "--per"], "--permanent"),
        (&["completion", "f"], "fish"),
        (&["generate", "--lang", "p"], "python"),
        (&["pub", "--host", "x"], ""),
    ] {
        let words = [&["-c", &ask, "bash", "tautwire"], typed].concat();
        assert_eq!(run_program("bash", &words).expect("bash is there").trim_end(), expected, "{typed:?}");
    }
}

#[test]
fn fish_completes_commands_options_and_keys() {
    let folder = Folder::new(&[]);
    let script = script("fish", &folder);
    for (typed, expected) in [
        ("tautwire clie", "clients\t"),
        ("tautwire clients ", "disconnect\tdisconnect a client"),
        ("tautwire serve --lis", "--listen\t"),
        ("tautwire serve --set mqtt.max_q", "mqtt.max_qos=\t"),
        ("tautwire generate --lang p", "python\t"),
        ("tautwire cluster config pu", "push"),
        ("tautwire cluster drain --per", "--permanent\t"),
    ] {
        let ask = format!("source {script}; complete -C '{typed}'");
        let Some(answer) = run_program("fish", &["--no-config", "-c", &ask]) else { return };
        assert!(answer.lines().any(|line| line.starts_with(expected)), "{typed}: {answer}");
    }
}

#[test]
fn zsh_completes_commands_options_and_keys() {
    let folder = Folder::new(&[]);
    let script = script("zsh", &folder);
    for (typed, expected) in [
        ("tautwire clie", "tautwire clients"),
        ("tautwire serve --lis", "--listen"),
        ("tautwire serve --set mqtt.max_q", "mqtt.max_qos="),
        ("tautwire user add --no-s", "--no-scram"),
        ("tautwire cluster config sh", "show"),
    ] {
        // Type into a shell in a pseudo-terminal; each read waits for the expected output.
        let ask = format!(
            "zmodload zsh/zpty; zpty tty zsh -f -i; \
             zpty -w tty 'PS1=; autoload -U compinit; compinit -u -D; source {script}; echo rea\"\"dy'; \
             zpty -r tty text $'*ready\\r*'; zpty -w -n tty $'{typed}\\t'; zpty -r tty text '*{expected}*'; zpty -d tty"
        );
        if run_program("zsh", &["-f", "-c", &ask]).is_none() {
            return;
        }
    }
}

#[test]
fn each_command_has_a_valid_man_page() {
    let folder = Folder::new(&[]);
    let _ = run(&["man", &folder.path("")]).expect(0);
    let overview = run(&["--help"]).expect(0).text();
    let pages: Vec<_> =
        fs::read_dir(folder.path("")).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    for line in overview.lines().filter(|line| line.starts_with("  ") && !line.starts_with("  tautwire")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let names = [format!("tautwire-{}.1", words[0]), format!("tautwire-{}-{}.1", words[0], words[1])];
        let is_there = pages.iter().any(|page| names.iter().any(|name| page.ends_with(name)));
        assert!(is_there || words[0] == "help", "{line}");
    }
    for page in &pages {
        let Some(text) = run_program("man", &["--warnings", "-E", "UTF-8", "-l", &page.display().to_string()]) else {
            return;
        };
        assert!(text.contains("NAME") && text.contains("SEE ALSO"), "{}: {text}", page.display());
    }
    let _ = run(&["man", "/no/such/folder"]).expect(1);
    let _ = run(&["completion", "csh"]).expect(1);
}
