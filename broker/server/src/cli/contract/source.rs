//! Where the contracts of a command come from: a folder, or the admin API of a running broker.

use std::path::PathBuf;

use tautwire_contracts::{Catalogue, Format, discovery};

use super::super::arguments::{Arguments, OptionSpec, value};
use super::super::serve::failure;
use super::super::{CommandExit, Exit};
use super::http::Admin;
use crate::contracts;
use crate::json::{self, Value};

pub(super) const OPTIONS: &[OptionSpec] = &[PATH, ADMIN, TOKEN_FILE, CA];
pub(super) const PATH: OptionSpec =
    value(None, "path", "DIR", "The folder of the contracts. Default: contracts, unless --admin says otherwise.");
pub(in crate::cli) const ADMIN: OptionSpec =
    value(None, "admin", "URL", "The admin API of a running broker instead, such as http://127.0.0.1:9183.");
pub(in crate::cli) const TOKEN_FILE: OptionSpec =
    value(None, "token-file", "FILE", "The file with the token of the admin API.");
pub(in crate::cli) const CA: OptionSpec = value(
    None,
    "ca",
    "FILE",
    "For https://: trust the authorities in this PEM file, such as tls/ca.pem of `tautwire cert`. Default: those of the system.",
);

/// The folder that is meant where none is named.
const FOLDER: &str = "contracts";

/// The options as given.
#[derive(Debug, Default)]
pub(super) struct SourceOptions {
    path: Option<PathBuf>,
    admin: Option<String>,
    token_file: Option<PathBuf>,
    ca: Option<PathBuf>,
}

/// A place with contracts.
#[derive(Debug)]
pub(super) enum Source {
    Folder(PathBuf),
    Admin(Admin),
}

impl SourceOptions {
    /// Takes the option if it is one of these.
    pub(super) fn take(&mut self, name: &str, arguments: &mut Arguments) -> Result<bool, CommandExit> {
        match name {
            "path" => self.path = Some(arguments.os_string()?.into()),
            "admin" => self.admin = Some(arguments.string()?),
            "token-file" => self.token_file = Some(arguments.os_string()?.into()),
            "ca" => self.ca = Some(arguments.os_string()?.into()),
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn source(self, arguments: &Arguments) -> Result<Source, CommandExit> {
        if self.ca.is_some() && self.admin.is_none() {
            return Err(arguments.command_failure("--ca is for --admin"));
        }
        match (self.path, self.admin, self.token_file) {
            (path, None, None) => Ok(Source::Folder(path.unwrap_or_else(|| FOLDER.into()))),
            (None, Some(url), Some(file)) => {
                let admin =
                    Admin::open(&url, &file, self.ca.as_deref()).map_err(|error| arguments.command_failure(&error))?;
                Ok(Source::Admin(admin))
            }
            (None, Some(_), None) => Err(arguments.command_failure("--admin needs --token-file")),
            (Some(_), Some(_), _) => Err(arguments.command_failure("--path and --admin are two places; keep one")),
            (_, None, Some(_)) => Err(arguments.command_failure("--token-file is for --admin")),
        }
    }

    /// Whether a running broker is meant.
    pub(super) fn is_admin(&self) -> bool {
        self.admin.is_some()
    }
}

impl Source {
    pub(super) fn load(&self) -> Result<Catalogue, CommandExit> {
        match self {
            Source::Folder(path) => {
                contracts::load(path).map_err(|errors| failure(&contracts::format_errors(path, &errors)))
            }
            Source::Admin(admin) => {
                let index = admin.get("/v1/contracts")?;
                let index = json::parse(&index).map_err(|error| not_understood(error.message))?;
                let names = index.list("contracts").iter().map(|contract: &Value| contract.text("name"));
                let pages = names
                    .map(|name| {
                        let answer = admin.get(&format!("/v1/contracts/{name}"))?;
                        discovery::read(Format::Json, answer.as_bytes()).map_err(not_understood)
                    })
                    .collect::<Result<Vec<_>, CommandExit>>()?;
                Catalogue::of_pages(&pages).map_err(not_understood)
            }
        }
    }
}

fn not_understood(why: impl std::fmt::Display) -> CommandExit {
    CommandExit::failure(Exit::Connection, format!("the answer of the admin API is not understood: {why}"))
}
