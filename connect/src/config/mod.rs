//! `connect.toml`: keys, defaults and checks, with the position of each error.

mod broker;
mod error;
mod sink;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tautwire_contracts::{Catalogue, Files, LoadLimits};

pub(crate) use broker::Broker;
pub(crate) use error::ConfigError;
pub(crate) use sink::{RECEIVE_MAXIMUM_MAX, SinkConfig, SinkKind};

use crate::logger::LogFormat;
use error::Source;

/// Directories below the contracts folder that are searched.
const FOLDER_DEPTH_MAX: usize = 16;

/// The checked configuration.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) broker: Broker,
    pub(crate) http: Http,
    pub(crate) log: LogSettings,
    pub(crate) sinks: Vec<SinkConfig>,
}

/// The file as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    broker: Broker,
    #[serde(default)]
    contracts: Option<Contracts>,
    #[serde(default)]
    http: Http,
    #[serde(default)]
    log: LogSettings,
    #[serde(default)]
    sink: Vec<sink::SinkTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contracts {
    /// The folder, relative to the configuration.
    path: toml::Spanned<PathBuf>,
}

/// The server of metrics and health.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Http {
    #[serde(default)]
    pub(crate) listen: Option<SocketAddr>,
}

/// The log.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogSettings {
    #[serde(default)]
    level: LogLevel,
    #[serde(default)]
    pub(crate) format: LogFormat,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum LogLevel {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
}

impl LogSettings {
    pub(crate) fn level(&self) -> log::LevelFilter {
        match self.level {
            LogLevel::Error => log::LevelFilter::Error,
            LogLevel::Warn => log::LevelFilter::Warn,
            LogLevel::Info => log::LevelFilter::Info,
            LogLevel::Debug => log::LevelFilter::Debug,
        }
    }
}

impl Config {
    /// Reads the file and the contracts, and checks both.
    ///
    /// # Errors
    /// All errors, with file, line and column.
    pub(crate) fn read(path: &Path) -> Result<Config, Vec<ConfigError>> {
        let text = fs::read_to_string(path).map_err(|error| vec![ConfigError::of_file(path, "config_file", error)])?;
        Config::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<Config, Vec<ConfigError>> {
        let source = Source { path, text };
        let document: Document = toml::from_str(text).map_err(|error| vec![source.syntax(&error)])?;
        let mut errors = Vec::new();
        let contracts = match &document.contracts {
            Some(contracts) => load_contracts(source, &contracts.path, &mut errors),
            None => Catalogue::default(),
        };
        let mut sinks: Vec<SinkConfig> = Vec::new();
        for table in document.sink {
            let name = table.name.clone();
            let sink = table.check(source, &document.broker, &contracts, &mut errors);
            if sinks.iter().any(|sink| sink.name == *name.get_ref()) {
                errors.push(source.at(
                    name.span(),
                    "config_duplicate",
                    format!("there are two sinks {:?}", name.get_ref()),
                ));
            }
            sinks.extend(sink);
        }
        if sinks.is_empty() && errors.is_empty() {
            errors.push(source.at(0..0, "config_missing", "there is no connector; add a [[sink]]".into()));
        }
        if errors.is_empty() {
            let Document { broker, http, log, .. } = document;
            Ok(Config { broker, http, log, sinks })
        } else {
            Err(errors)
        }
    }
}

fn load_contracts(source: Source<'_>, path: &toml::Spanned<PathBuf>, errors: &mut Vec<ConfigError>) -> Catalogue {
    let folder = source.path.parent().unwrap_or(Path::new("")).join(path.get_ref());
    let limits = LoadLimits::default();
    let mut files = Files::new();
    if let Err(error) = read_folder(&folder, "", 0, &limits, &mut files) {
        let text = format!("the contracts folder {} cannot be read: {error}", folder.display());
        errors.push(source.at(path.span(), "contracts_path", text));
        return Catalogue::default();
    }
    Catalogue::load(&files, &limits).unwrap_or_else(|found| {
        errors.extend(found.iter().map(|error| ConfigError::of_contract(&folder, error)));
        Catalogue::default()
    })
}

/// Reads contracts, `.proto` files and JSON Schemas, as the broker does.
fn read_folder(
    folder: &Path,
    prefix: &str,
    depth: usize,
    limits: &LoadLimits,
    files: &mut Files,
) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else { continue };
        let path = format!("{prefix}{name}");
        if entry.path().is_dir() {
            if depth < FOLDER_DEPTH_MAX {
                read_folder(&entry.path(), &format!("{path}/"), depth + 1, limits, files)?;
            }
            continue;
        }
        let is_managed = path.starts_with(tautwire_contracts::MANAGED) && name.ends_with(".toml");
        let is_schema = name.ends_with(".proto") || name.ends_with(".json");
        // One more than the limit, so that the catalogue reports it.
        if (path == tautwire_contracts::MANIFEST || is_managed || is_schema) && files.len() <= limits.files {
            files.insert(path, fs::read_to_string(entry.path())?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
