//! Parses mosquitto.conf line by line.

use std::fs;
use std::path::{Path, PathBuf};

use super::listener::Listener;
use super::options;
use super::outcome::OptionOutcome;
use super::parsed_config::ParsedConfig;
use crate::files;

/// Longest file that is read.
const FILE_MAX_BYTES: usize = 16 << 20;
/// Maximum number of files of `include_dir`.
const INCLUDED_MAX: usize = 256;

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
            match options::read(self, key, value) {
                OptionOutcome::Translated => {}
                OptionOutcome::Noted(why) => self.note(line, &why),
                OptionOutcome::Refused(why) => self.refusals.push(self.format_note(line, &why)),
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
}

pub(super) fn text(path: &Path) -> Result<String, String> {
    files::text(path, FILE_MAX_BYTES).map_err(|why| format!("{} {why}", path.display()))
}
