//! Parses mosquitto.conf line by line.

use std::fs;
use std::path::{Path, PathBuf};

use super::listener::{Listener, Security};
use super::options::{self, OptionOutcome};
use super::plugins::Plugins;
use crate::files;
use crate::json::push_string;

/// Longest file that is read.
const FILE_MAX_BYTES: usize = 16 << 20;
/// Maximum number of files of `include_dir`.
const INCLUDED_MAX: usize = 256;
/// The default port of mosquitto.
pub(super) const DEFAULT_PORT: u16 = 1883;

/// The location of Mosquitto's state.
#[derive(Debug, Default)]
pub(super) struct StateFile {
    pub(super) is_persistent: bool,
    pub(super) folder: Option<String>,
    pub(super) name: Option<String>,
}

/// The parsed configuration.
#[derive(Debug, Default)]
pub(super) struct ParsedConfig {
    /// The first is for the lines before any `listener`.
    pub(super) listeners: Vec<Listener>,
    pub(super) per_listener: bool,
    pub(super) common: Security,
    pub(super) plugins: Plugins,
    /// Our keys that are not specific to a listener, with values as TOML.
    pub(super) keys: Vec<(&'static str, String)>,
    pub(super) state: StateFile,
    /// `check_retain_source`, which defaults to true.
    pub(super) checks_retain_source: Option<bool>,
    /// The most verbose level of `log_type`.
    pub(super) log_level: Option<log::Level>,
    /// Options without an exact counterpart, in the order of the lines.
    pub(super) notes: Vec<String>,
    /// Reasons to write nothing: options that would be weaker here.
    pub(super) refusals: Vec<String>,
    /// The current line, as FILE:NUMBER.
    pub(super) place: String,
    included: usize,
    /// Whether the lines belong to a bridge.
    in_bridge: bool,
}

/// Reads a configuration of mosquitto with all included files.
///
/// # Errors
/// A file cannot be read.
pub(super) fn read(file: &Path) -> Result<ParsedConfig, String> {
    let mut config = ParsedConfig { listeners: vec![Listener::default()], ..ParsedConfig::default() };
    config.file(file)?;
    Ok(config)
}

impl ParsedConfig {
    fn file(&mut self, file: &Path) -> Result<(), String> {
        let text = text(file)?;
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (key, value) = line.split_once([' ', '\t']).map_or((line, ""), |(key, value)| (key, value.trim()));
            self.place = format!("{}:{}", file.display(), index + 1);
            if key == "include_dir" {
                self.folder(Path::new(value))?;
                continue;
            }
            if key == "connection" {
                self.in_bridge = true;
                self.note(line, options::NO_BRIDGES);
                continue;
            }
            match options::read(self, key, value) {
                OptionOutcome::Translated => self.in_bridge &= key != "listener",
                OptionOutcome::Noted(why) => self.note(line, &why),
                OptionOutcome::Refused(why) => self.refusals.push(self.format_note(line, &why)),
                OptionOutcome::Unknown if self.in_bridge => self.note(line, options::NO_BRIDGES),
                OptionOutcome::Unknown => self.note(line, "unknown option; it has no effect here"),
            }
        }
        Ok(())
    }

    fn folder(&mut self, folder: &Path) -> Result<(), String> {
        let place = self.place.clone();
        let entries = fs::read_dir(folder).map_err(|error| format!("{place}: {}: {error}", folder.display()))?;
        let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "conf"));
        files.sort();
        for file in files {
            self.included += 1;
            if self.included > INCLUDED_MAX {
                return Err(format!("{place}: more than {INCLUDED_MAX} files are included"));
            }
            self.file(&file)?;
        }
        Ok(())
    }

    fn note(&mut self, line: &str, why: &str) {
        self.notes.push(self.format_note(line, why));
    }

    /// Formats a note about a line.
    fn format_note(&self, line: &str, why: &str) -> String {
        let key = line.split([' ', '\t']).next().unwrap_or_default();
        // Omit values that may be secret: passwords of bridges, keys, and plugin options.
        let is_secret = key.contains("opt_") || key.contains("psk") || key.contains("pass") && key != "password_file";
        format!("{}: {}: {why}", self.place, if is_secret { key } else { line })
    }

    /// The current listener.
    pub(super) fn listener(&mut self) -> &mut Listener {
        let last = self.listeners.len() - 1;
        &mut self.listeners[last]
    }

    /// The current security settings.
    pub(super) fn security(&mut self) -> &mut Security {
        if self.per_listener { &mut self.listener().security } else { &mut self.common }
    }

    pub(super) fn set(&mut self, key: &'static str, value: impl ToString) {
        self.keys.retain(|(known, _)| *known != key);
        self.keys.push((key, value.to_string()));
    }
}

impl StateFile {
    /// The path of the state file, if the state is persistent.
    pub(super) fn path(&self, folder: &Path) -> Option<PathBuf> {
        const DEFAULT_NAME: &str = "mosquitto.db";
        let place = self.folder.as_ref().map_or(folder.to_owned(), |place| folder.join(place));
        self.is_persistent.then(|| absolute(place.join(self.name.as_deref().unwrap_or(DEFAULT_NAME))))
    }
}

/// Paths in the new file are absolute, because it may be in another directory.
pub(super) fn relative_to(folder: &Path, file: &str) -> PathBuf {
    absolute(folder.join(file))
}

pub(super) fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::new();
    push_string(&mut quoted, text);
    quoted
}

pub(super) fn text(path: &Path) -> Result<String, String> {
    files::text(path, FILE_MAX_BYTES).map_err(|why| format!("{} {why}", path.display()))
}
