//! Manual pages in the format of `man(7)`.

use std::fmt::Write as _;

use crate::cli::COMMANDS;
use crate::cli::arguments::{Command, OptionSpec};
use crate::config::{Config, to_toml};

const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(super) struct Page {
    pub(super) file: String,
    pub(super) text: String,
}

pub(super) fn pages() -> Vec<Page> {
    let mut pages = vec![program(), configuration()];
    pages.extend(COMMANDS.iter().map(|(command, summary)| page(command, summary)));
    pages
}

/// tautwire(1): the list of commands.
fn program() -> Page {
    let mut text = head("tautwire", 1, "an MQTT 3.1.1 and 5.0 broker and its tools");
    text.push_str(".SH SYNOPSIS\n.B tautwire\n.I COMMAND\n[\\fIOPTION\\fR]…\n.SH COMMANDS\n");
    for (command, summary) in COMMANDS {
        let _ = writeln!(text, ".TP\n.BR {} (1)\n{}", escaped(&page_name(command)), line(summary));
    }
    text.push_str(
        ".SH ENVIRONMENT\n\
         .TP\n.B TAUTWIRE_PASSWORD\nThe password of commands that connect or change users, if no password file is given.\n\
         .SH FILES\n\
         .TP\n.I /etc/tautwire/tautwire.toml\nThe configuration of the service.\n\
         .TP\n.I /var/lib/tautwire\nThe data of the service.\n\
         .SH SEE ALSO\n.BR tautwire.toml (5)\n",
    );
    Page { file: "tautwire.1".to_owned(), text }
}

/// tautwire.toml(5): all keys with meaning and default.
fn configuration() -> Page {
    let mut text = head("tautwire.toml", 5, "configuration of the tautwire broker");
    text.push_str(
        ".SH DESCRIPTION\n\
         A file in TOML, read by\n.BR tautwire\\-serve (1)\nwith\n.BR \\-\\-config .\n\
         All keys are listed below with their meaning and default.\n\
         .BR tautwire\\-config\\-check (1)\nreports all errors of a file.\n\
         .SH KEYS\n",
    );
    push_literal(&mut text, &to_toml(&Config::default()));
    text.push_str(".SH SEE ALSO\n.BR tautwire (1)\n");
    Page { file: "tautwire.toml.5".to_owned(), text }
}

fn page(command: &Command, summary: &str) -> Page {
    let name = page_name(command);
    let mut text = head(&name, 1, summary);
    text.push_str(".SH SYNOPSIS\n.nf\n");
    for usage in command.usage {
        let _ = writeln!(text, "\\fBtautwire {}\\fR {}", escaped(command.name), escaped(usage));
    }
    let _ = write!(text, ".fi\n.SH DESCRIPTION\n{}", paragraph(command.about));
    for group in command.groups {
        let _ = writeln!(text, ".SH {}", escaped(&group.title.to_uppercase()));
        for option in group.options {
            push_option(&mut text, option);
        }
    }
    if !command.notes.is_empty() {
        text.push_str(".SH NOTES\n");
        for note in command.notes {
            push_literal(&mut text, note);
            text.push_str(".PP\n");
        }
    }
    text.push_str(".SH SEE ALSO\n.BR tautwire (1)\n");
    Page { file: format!("{name}.1"), text }
}

fn push_option(text: &mut String, option: &OptionSpec) {
    text.push_str(".TP\n");
    if let Some(short) = option.short {
        let _ = write!(text, "\\fB\\-{short}\\fR, ");
    }
    let _ = write!(text, "\\fB\\-\\-{}\\fR", escaped(option.name));
    if let Some(values) = option.values {
        let _ = write!(text, " \\fI{}\\fR", escaped(values));
    }
    let _ = writeln!(text, "\n{}", line(option.help));
}

fn head(name: &str, section: u8, summary: &str) -> String {
    format!(
        ".TH {} {section} \"\" \"tautwire {VERSION}\"\n.SH NAME\n{} \\- {}\n",
        escaped(&name.to_uppercase()),
        escaped(name),
        escaped(summary)
    )
}

fn page_name(command: &Command) -> String {
    format!("tautwire-{}", command.name.replace(' ', "-"))
}

/// Appends lines verbatim.
fn push_literal(text: &mut String, literal: &str) {
    text.push_str(".nf\n");
    for each in literal.lines() {
        text.push_str(&line(each));
        text.push('\n');
    }
    text.push_str(".fi\n");
}

/// Formats lines as a paragraph, to be filled.
fn paragraph(about: &str) -> String {
    about.lines().map(|each| line(each) + "\n").collect()
}

/// Formats a line of text so that man does not parse it as a request.
///
/// Requests begin with a full stop or an apostrophe.
fn line(text: &str) -> String {
    let is_request = text.starts_with(['.', '\'']);
    format!("{}{}", if is_request { "\\&" } else { "" }, escaped(text))
}

/// Escapes backslashes, hyphens and quotes so that they are printed and copied unchanged.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\e")
        .replace('-', "\\-")
        .replace('\'', "\\(aq")
        .replace('`', "\\(ga")
        .replace('^', "\\(ha")
        .replace('~', "\\(ti")
}
