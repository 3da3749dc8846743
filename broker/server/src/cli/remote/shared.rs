//! `tautwire cluster config`: shows and changes the rules, users, contracts and bans that a cluster shares.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::super::arguments::{Arguments, Command, OptionGroup, value};
use super::super::serve::failure;
use super::super::{CommandExit, Exit, print};
use super::{ADMIN, CA, EXITS, JSON, RemoteArguments, TOKEN_FILE, parsed, shown, table};
use crate::contracts;
use crate::files;
use crate::json::{Value, push_string};
use crate::shared::Part;

const PATH: &str = "/v1/cluster/configuration";
/// Largest file that is read. The limit of a revision is lower, and the broker reports it.
const FILE_MAX_BYTES: usize = 16 << 20;
/// Parts that consist of one file, with its name for `pull`.
const FILES: [(Part, &str); 3] = [(Part::Acl, "access.toml"), (Part::Users, "users"), (Part::Bans, "bans.json")];
const CONTRACTS_FOLDER: &str = "contracts";

pub(crate) static COMMAND: Command = Command {
    name: "cluster config",
    usage: &[
        "show --admin URL --token-file FILE [OPTION]…",
        "push [--acl FILE] [--users FILE] [--contracts DIR] [--bans FILE] [--remove PART]… [--if-revision NUMBER] --admin URL --token-file FILE",
        "pull --admin URL --token-file FILE [OPTION]… DIR",
    ],
    about: "Shows and changes the shared configuration of a cluster: access rules, users, contracts and bans, in numbered revisions. You\n\
            can use any node. With `push`, the nodes check and apply a new revision; parts that are not given are unchanged. `pull` writes\n\
            the shared configuration to a directory, including password hashes.",
    groups: &[
        OptionGroup {
            title: "Options of push",
            options: &[
                value(None, "acl", "FILE", "Access rules, replacing acl.file on each node."),
                value(None, "users", "FILE", "Users, replacing auth.password_file on each node."),
                value(None, "contracts", "DIR", "Contracts, replacing contracts.path on each node."),
                value(None, "bans", "FILE", "Bans, replacing the shared ones, in the format of pull."),
                value(
                    None,
                    "remove",
                    "acl|users|contracts|bans",
                    "Stop sharing this part: each node uses its own again.",
                ),
                value(None, "if-revision", "NUMBER", "Replace only this revision. Default: the current one."),
            ],
        },
        OptionGroup { title: "Broker", options: &[ADMIN, TOKEN_FILE, CA, JSON] },
    ],
    notes: &[EXITS],
};

/// The arguments of `push`.
#[derive(Default)]
struct PushArguments {
    /// Files, and the folder of contracts.
    parts: Vec<(Part, PathBuf)>,
    removed: Vec<String>,
    expected: Option<String>,
}

pub(super) fn run(mut arguments: Arguments) -> Result<ExitCode, CommandExit> {
    let mut pushed = PushArguments::default();
    let given = RemoteArguments::read(&mut arguments, |_, name, arguments| {
        match (Part::of(name), name) {
            (Some(part), _) => pushed.parts.push((part, arguments.os_string()?.into())),
            (None, "remove") => pushed.removed.push(arguments.string()?),
            (None, _) => pushed.expected = Some(arguments.string()?),
        }
        Ok(())
    })?;
    let words: Vec<&str> = given.words.iter().map(String::as_str).collect();
    match words[..] {
        ["show"] => show(&given, &arguments),
        ["push"] => push(&given, pushed, &arguments),
        ["pull", folder] => pull(&given, Path::new(folder), &arguments),
        _ => Err(arguments.command_failure("write show, push, or pull and a directory")),
    }
}

fn show(given: &RemoteArguments, arguments: &Arguments) -> Result<ExitCode, CommandExit> {
    let response = given.request(arguments, "GET", PATH)?;
    if given.json {
        return Ok(print(&response.body));
    }
    Ok(print(&described(&parsed(&response)?)))
}

/// Formats the shared configuration for people.
fn described(value: &Value) -> String {
    let mut text = String::new();
    for (label, name) in [("revision", "number"), ("current", "current"), ("lagging", "lagging")] {
        text.push_str(&format!("{label:<11} {}\n", shown(value.get(name))));
    }
    for why in value.list("reasons") {
        text.push_str(&format!("reason      {}\n", shown(Some(why))));
    }
    let parts = value.get("parts");
    let row = |name: &str, part: &Value| vec![name.to_owned(), shown(part.get("bytes")), shown(part.get("sha256"))];
    let mut rows = Vec::new();
    for part in Part::ALL {
        let Some(summary) = parts.and_then(|parts| parts.get(part.name())) else { continue };
        rows.push(row(part.name(), summary));
        rows.extend(summary.list("files").iter().map(|file| row(&format!("  {}", shown(file.get("path"))), file)));
    }
    text.push('\n');
    text.push_str(&match rows.is_empty() {
        true => "nothing is shared: each node has its own rules, users and contracts\n".to_owned(),
        false => table(&["part", "bytes", "sha256"], &rows),
    });
    text
}

fn push(given: &RemoteArguments, pushed: PushArguments, arguments: &Arguments) -> Result<ExitCode, CommandExit> {
    let body = pushed.body(arguments)?;
    let expected = match pushed.expected {
        Some(expected) => expected,
        None => shown(parsed(&given.request(arguments, "GET", PATH)?)?.get("number")),
    };
    let path = format!("{PATH}?if_revision={}", super::percent_encoded(&expected));
    let response = given.request_with_body(arguments, "PUT", &path, &body)?;
    if given.json {
        return Ok(print(&response.body));
    }
    Ok(print(&described(&parsed(&response)?)))
}

impl PushArguments {
    /// The request: each part to replace or to remove.
    fn body(&self, arguments: &Arguments) -> Result<String, CommandExit> {
        let mut members = Vec::new();
        for (part, path) in &self.parts {
            let value = match part {
                Part::Contracts => contracts_json(path)?,
                Part::Acl | Part::Users | Part::Bans => {
                    let text = files::text(path, FILE_MAX_BYTES);
                    json_text(&text.map_err(|why| failure(&[format!("{} {why}", path.display())]))?)
                }
            };
            members.push((*part, value));
        }
        for name in &self.removed {
            let part = Part::of(name);
            let part = part.ok_or_else(|| arguments.command_failure("--remove takes acl, users, contracts or bans"))?;
            members.push((part, "null".to_owned()));
        }
        if members.is_empty() {
            return Err(arguments.command_failure("write --acl, --users, --contracts, --bans or --remove"));
        }
        for (at, (part, _)) in members.iter().enumerate() {
            if members[..at].iter().any(|(other, _)| other == part) {
                return Err(arguments.command_failure(&format!("{} is given twice", part.name())));
            }
        }
        let members: Vec<String> = members.iter().map(|(part, value)| format!("\"{}\":{value}", part.name())).collect();
        Ok(format!("{{{}}}", members.join(",")))
    }
}

/// The files of a folder as JSON, by relative path.
fn contracts_json(folder: &Path) -> Result<String, CommandExit> {
    let files = contracts::read(folder).map_err(|errors| failure(&contracts::format_errors(folder, &errors)))?;
    let files: Vec<String> =
        files.iter().map(|(path, text)| format!("{}:{}", json_text(path), json_text(text))).collect();
    Ok(format!("{{{}}}", files.join(",")))
}

fn json_text(text: &str) -> String {
    let mut json = String::new();
    push_string(&mut json, text);
    json
}

fn pull(given: &RemoteArguments, folder: &Path, arguments: &Arguments) -> Result<ExitCode, CommandExit> {
    let response = given.request(arguments, "GET", &format!("{PATH}?content=true"))?;
    let value = parsed(&response)?;
    let content = value.get("content");
    let mut written = Vec::new();
    let mut write = |name: &str, text: &str| {
        let path = folder.join(name);
        write_new(&path, text).map_err(|error| failure(&[format!("{}: {error}", path.display())]))?;
        written.push(format!("{}\n", path.display()));
        Ok::<(), CommandExit>(())
    };
    for (part, name) in FILES {
        if let Some(text) = content.and_then(|content| content.get(part.name())?.as_text()) {
            write(name, text)?;
        }
    }
    if let Some(Value::Object(files)) = content.and_then(|content| content.get(Part::Contracts.name())) {
        for (path, text) in files {
            // Paths from the broker must not lead outside the directory.
            let Some(text) = text.as_text().filter(|_| contracts::is_file(path)) else {
                return Err(CommandExit::failure(
                    Exit::Connection,
                    format!("{path:?} is not a path of a contract file"),
                ));
            };
            write(&format!("{CONTRACTS_FOLDER}/{path}"), text)?;
        }
    }
    let number = shown(value.get("number"));
    written.push(format!("revision {number}; to change it: tautwire cluster config push --if-revision {number}\n"));
    Ok(print(&written.concat()))
}

/// Writes a new file with access for its owner only, because it may contain password hashes.
fn write_new(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(text.as_bytes())
}
