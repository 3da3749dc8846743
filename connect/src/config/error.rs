//! Errors of the configuration, with their positions.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// An error of the configuration or of a contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigError {
    file: PathBuf,
    /// Line and column, from 1.
    position: Option<(usize, usize)>,
    code: &'static str,
    text: String,
}

impl ConfigError {
    pub(super) fn of_file(path: &Path, code: &'static str, error: impl fmt::Display) -> ConfigError {
        ConfigError { file: path.into(), position: None, code, text: format!("the file cannot be read: {error}") }
    }

    /// The text of such an error has the file, the position and the code.
    pub(super) fn of_contract(folder: &Path, error: &tautwire_contracts::LoadError) -> ConfigError {
        ConfigError { file: folder.into(), position: None, code: "contracts", text: error.to_string() }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if let Some((line, column)) = self.position {
            write!(f, "{line}:{column}:")?;
        }
        write!(f, " {} [{}]", self.text, self.code)
    }
}

/// The text of the configuration, which turns offsets into positions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) path: &'a Path,
    pub(super) text: &'a str,
}

impl Source<'_> {
    pub(super) fn at(&self, span: Range<usize>, code: &'static str, text: String) -> ConfigError {
        let before = self.text.get(..span.start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        ConfigError { file: self.path.into(), position: Some((line, column)), code, text }
    }

    pub(super) fn syntax(&self, error: &toml::de::Error) -> ConfigError {
        let text = error.message().trim_end().replace('\n', "; ");
        let code = if text.starts_with("unknown field") { "config_unknown_key" } else { "config_syntax" };
        self.at(error.span().unwrap_or_default(), code, text)
    }
}
