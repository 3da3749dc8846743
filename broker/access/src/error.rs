//! Errors in a rule file, with their positions.

use std::fmt;

/// An error in a rule file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessError {
    /// The kind of error.
    pub code: ErrorCode,
    /// The file, as named in [`crate::Policy::parse`].
    pub file: String,
    /// Line and column, from 1, the column in characters; `None` for the whole file.
    pub position: Option<(usize, usize)>,
    /// What is wrong, and what to do about it.
    pub message: String,
}

/// Kinds of errors, with stable names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// The text is not TOML.
    Syntax,
    /// An unknown key.
    UnknownKey,
    /// A value that is not allowed for its key.
    Value,
    /// A filter is not a valid topic filter, or has an unknown placeholder.
    Filter,
    /// A required key is missing.
    Missing,
    /// A role that is not in the file.
    UnknownRole,
    /// Two roles or users with the same name.
    Duplicate,
    /// A file without any rule.
    Empty,
    /// A limit is exceeded.
    Limit,
}

impl ErrorCode {
    /// Every code.
    pub const ALL: [Self; 9] = [
        Self::Syntax,
        Self::UnknownKey,
        Self::Value,
        Self::Filter,
        Self::Missing,
        Self::UnknownRole,
        Self::Duplicate,
        Self::Empty,
        Self::Limit,
    ];

    /// The stable code.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Syntax => "access_syntax",
            Self::UnknownKey => "access_unknown_key",
            Self::Value => "access_value",
            Self::Filter => "access_filter",
            Self::Missing => "access_missing",
            Self::UnknownRole => "access_unknown_role",
            Self::Duplicate => "access_duplicate",
            Self::Empty => "access_empty",
            Self::Limit => "access_limit",
        }
    }
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some((line, column)) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {} [{}]", self.message, self.code.as_str())
    }
}

impl std::error::Error for AccessError {}
