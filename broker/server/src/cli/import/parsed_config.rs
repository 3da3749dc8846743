//! A parsed configuration of mosquitto.

use std::path::{Path, PathBuf};

use super::bridge::Bridge;
use super::listener::{Listener, Security};
use super::output_text::absolute;
use super::plugins::Plugins;

/// The location of Mosquitto's state.
#[derive(Debug, Default)]
pub(super) struct StateFile {
    pub(super) is_persistent: bool,
    pub(super) folder: Option<String>,
    pub(super) name: Option<String>,
    /// It is imported, too.
    pub(super) is_imported: bool,
}

/// The parsed configuration.
#[derive(Debug, Default)]
pub(super) struct ParsedConfig {
    /// The first is for the lines before any `listener`.
    pub(super) listeners: Vec<Listener>,
    pub(super) per_listener: bool,
    pub(super) common: Security,
    pub(super) plugins: Plugins,
    /// Options of bridges belong to the last one.
    pub(super) bridges: Vec<Bridge>,
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
    pub(super) included: usize,
}

impl ParsedConfig {
    pub(super) fn note(&mut self, line: &str, why: &str) {
        self.notes.push(self.format_note(line, why));
    }

    /// Formats a note about a line.
    pub(super) fn format_note(&self, line: &str, why: &str) -> String {
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
