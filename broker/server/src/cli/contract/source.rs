//! The source of contracts for a command: a folder, or the admin API of a running broker.

use std::path::PathBuf;

use tautwire_contracts::{Catalogue, Format, discovery};

use super::super::arguments::{Arguments, OptionSpec, value};
use super::super::serve::failure;
use super::super::{CommandExit, Exit};
use super::http::AdminClient;
use crate::contracts;
use crate::json::{self, Value};

pub(super) const OPTIONS: &[OptionSpec] = &[PATH, ADMIN, TOKEN_FILE, CA];
pub(super) const PATH: OptionSpec =
    value(None, "path", "DIR", "The contracts folder. Default: contracts, unless --admin is given.");
pub(in crate::cli) const ADMIN: OptionSpec =
    value(None, "admin", "URL", "The URL of the admin API of a running broker, such as http://127.0.0.1:9183.");
pub(in crate::cli) const TOKEN_FILE: OptionSpec =
    value(None, "token-file", "FILE", "The file with a token for the admin API.");
pub(in crate::cli) const CA: OptionSpec = value(
    None,
    "ca",
    "FILE",
    "For https://: trust the certificate authorities in this PEM file, such as tls/ca.pem of `tautwire cert`. Default: those of the system.",
);

/// The default folder.
const FOLDER: &str = "contracts";

/// The values of the options.
#[derive(Debug, Default)]
pub(super) struct SourceOptions {
    path: Option<PathBuf>,
    admin: Option<String>,
    token_file: Option<PathBuf>,
    ca: Option<PathBuf>,
}

/// A source of contracts.
#[derive(Debug)]
pub(super) enum Source {
    Folder(PathBuf),
    Admin(AdminClient),
}

impl SourceOptions {
    /// Reads the option if it is one of these.
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
            return Err(arguments.command_failure("--ca requires --admin"));
        }
        match (self.path, self.admin, self.token_file) {
            (path, None, None) => Ok(Source::Folder(path.unwrap_or_else(|| FOLDER.into()))),
            (None, Some(url), Some(file)) => {
                let admin = AdminClient::open(&url, &file, self.ca.as_deref())
                    .map_err(|error| arguments.command_failure(&error))?;
                Ok(Source::Admin(admin))
            }
            (None, Some(_), None) => Err(arguments.command_failure("--admin needs --token-file")),
            (Some(_), Some(_), _) => {
                Err(arguments.command_failure("--path and --admin exclude each other; use one of them"))
            }
            (_, None, Some(_)) => Err(arguments.command_failure("--token-file requires --admin")),
        }
    }

    /// Whether the source is a running broker.
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
                let index = json::parse(&index).map_err(|error| invalid_response(error.message))?;
                let names = index.list("contracts").iter().map(|contract: &Value| contract.text("name"));
                let pages = names
                    .map(|name| {
                        let response = admin.get(&format!("/v1/contracts/{name}"))?;
                        discovery::read(Format::Json, response.as_bytes()).map_err(invalid_response)
                    })
                    .collect::<Result<Vec<_>, CommandExit>>()?;
                Catalogue::of_pages(&pages).map_err(invalid_response)
            }
        }
    }
}

fn invalid_response(why: impl std::fmt::Display) -> CommandExit {
    CommandExit::failure(Exit::Connection, format!("invalid response from the admin API: {why}"))
}
