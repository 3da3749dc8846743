//! `tautwire cert`: creates a certificate authority and certificates for development.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use super::arguments::{Argument, Arguments, Command, OptionGroup, flag, value};
use super::{CommandExit, Exit, print};
use crate::certificates::{CertificateFiles, ClientName, ExistingFiles, Folder, Request, ServerName};

const FOLDER: &str = "tls";
const DAYS: i32 = 365;
const AUTHORITY_DAYS: i32 = 3_650;
const DAYS_MAX: i32 = 36_500;

pub(crate) static COMMAND: Command = Command {
    name: "cert",
    usage: &["[OPTION]… [NAME]…"],
    about: "Creates certificates for development: a certificate authority (ca.pem, ca.key), and a certificate for the broker\n\
            (server.pem, server.key) with the names and addresses that clients connect to. The default is localhost,\n\
            127.0.0.1, ::1 and the host name. An existing authority is reused.",
    groups: &[OptionGroup {
        title: "Options",
        options: &[
            value(None, "dir", "DIR", "The directory; it is created if it does not exist. Default: tls."),
            value(
                None,
                "client",
                "NAME",
                "Create a client certificate with this name (NAME.pem, NAME.key). May be repeated.",
            ),
            value(
                None,
                "days",
                "N",
                "Validity of certificates in days. Default: 365. A negative number creates an expired one, to test clients.",
            ),
            value(None, "ca-days", "N", "Validity of a new authority in days. Default: 3650."),
            value(
                None,
                "revoke",
                "FILE",
                "Write a certificate revocation list (revoked.pem) with the certificate in this file. May be repeated: the list \
                 contains exactly the named ones.",
            ),
            flag(
                None,
                "force",
                "Replace existing files. The authority is never replaced: clients would have to trust a new one.",
            ),
        ],
    }],
    notes: &[
        "Only their owner can read the keys. They are not encrypted: use them for development and tests, or protect the\n\
              directory.\n\n\
              Exit codes: 0 done; 1 invalid arguments, or existing or mismatched files.",
    ],
};

pub(super) fn run(parser: lexopt::Parser) -> Result<ExitCode, CommandExit> {
    let mut arguments = Arguments::new(&COMMAND, parser);
    let mut folder = PathBuf::from(FOLDER);
    let mut request = Request {
        folder: Folder::at(folder.clone()),
        names: Vec::new(),
        clients: Vec::new(),
        revoke: Vec::new(),
        days: DAYS,
        authority_days: AUTHORITY_DAYS,
        existing: ExistingFiles::Keep,
    };
    while let Some(argument) = arguments.next()? {
        match argument {
            Argument::Option("dir") => folder = arguments.os_string()?.into(),
            Argument::Option("client") => {
                let name = ClientName::parse(&arguments.string()?);
                let name = name.map_err(|why| arguments.failure(&why))?;
                if !request.clients.contains(&name) {
                    request.clients.push(name);
                }
            }
            Argument::Option("days") => request.days = days(&mut arguments, -DAYS_MAX)?,
            Argument::Option("ca-days") => request.authority_days = days(&mut arguments, 1)?,
            Argument::Option("revoke") => request.revoke.push(arguments.os_string()?.into()),
            Argument::Option("force") => request.existing = ExistingFiles::Replace,
            Argument::Option(_) => return Err(arguments.failure("is not supported by this command")),
            Argument::Positional(text) => {
                let name = ServerName::parse(&text).map_err(|why| arguments.command_failure(&why))?;
                request.names.push(name);
            }
        }
    }
    request.folder = Folder::at(folder);
    let done = request.carry_out(SystemTime::now()).map_err(|error| CommandExit::failure(Exit::Usage, error))?;
    let mut text = String::new();
    let width = done.files.iter().map(|(path, _)| path.display().to_string().chars().count()).max().unwrap_or(0);
    for (path, content) in &done.files {
        let _ = writeln!(text, "{:width$}  {content}", path.display().to_string());
    }
    if let Some(server) = &done.server {
        text.push_str(&to_try(&request.folder, server, request.clients.first()));
    }
    Ok(print(&text))
}

fn days(arguments: &mut Arguments, least: i32) -> Result<i32, CommandExit> {
    let text = arguments.string()?;
    text.parse().ok().filter(|days| (least..=DAYS_MAX).contains(days)).ok_or_else(|| {
        arguments
            .failure(&format!("expected a whole number from {least} to {DAYS_MAX}, found \"{}\"", text.escape_debug()))
    })
}

/// Commands that start a broker and connect to it.
fn to_try(folder: &Folder, server: &CertificateFiles, client: Option<&ClientName>) -> String {
    let authority = quoted(&folder.pair("ca").certificate);
    let mut serve = format!(
        "tautwire serve --listen mqtts://127.0.0.1:8883 --set tls.certificate={} --set tls.key={}",
        quoted(&server.certificate),
        quoted(&server.key)
    );
    let mut connect = format!("--ca {authority}");
    if let Some(client) = client {
        let pair = folder.pair(client.as_str());
        let _ = write!(serve, " --set tls.client_certificates=required --set tls.client_ca={authority}");
        let _ = write!(connect, " --cert {} --key {}", quoted(&pair.certificate), quoted(&pair.key));
    }
    format!("\nTo try it:\n  {serve}\n  tautwire sub {connect} 'demo/#'\n  tautwire pub {connect} demo/hello hi\n")
}

/// Quotes a path for a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_for_a_shell_if_necessary() {
        assert_eq!(quoted(Path::new("tls/ca.pem")), "tls/ca.pem");
        assert_eq!(quoted(Path::new("my tls/it's.pem")), "'my tls/it'\\''s.pem'");
    }
}
