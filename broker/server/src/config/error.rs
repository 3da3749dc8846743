//! Configuration errors and their locations.

use std::fmt;
use std::path::PathBuf;

/// A configuration error: a stable code, the location, and a message that says what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigError {
    pub(crate) code: ErrorCode,
    pub(crate) location: ErrorLocation,
    pub(crate) message: String,
}

/// Stable error codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorCode {
    /// The file cannot be read.
    Unreadable,
    /// The text is not TOML.
    Syntax,
    UnknownKey,
    WrongType,
    OutOfRange,
    /// Another key must be set, too.
    Missing,
}

impl ErrorCode {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Unreadable => "config_unreadable",
            Self::Syntax => "config_syntax",
            Self::UnknownKey => "config_unknown_key",
            Self::WrongType => "config_wrong_type",
            Self::OutOfRange => "config_out_of_range",
            Self::Missing => "config_missing",
        }
    }
}

/// The location of an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ErrorLocation {
    /// A position in the file; line and column are counted from 1, the column in characters.
    File { path: PathBuf, line: usize, column: usize },
    /// The whole file.
    WholeFile { path: PathBuf },
    /// An option of the command line, as given, for example `--set mqtt.max_qos`.
    Option { option: String },
    /// A key, wherever it was set.
    Key { key: &'static str },
}

impl fmt::Display for ErrorLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line, column } => write!(f, "{}:{line}:{column}", path.display()),
            Self::WholeFile { path } => write!(f, "{}", path.display()),
            Self::Option { option } => f.write_str(option),
            Self::Key { key } => f.write_str(key),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} [{}]", self.location, self.message, self.code.as_str())
    }
}

impl std::error::Error for ConfigError {}
