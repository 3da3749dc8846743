//! Errors in a file, with their positions.

use std::fmt;

/// An error in a file. It never contains a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    /// The kind of error.
    pub code: ErrorCode,
    /// The file, as it was named.
    pub file: String,
    /// The line, from 1; `None` for the whole file.
    pub line: Option<usize>,
    /// What is wrong, and what to do about it.
    pub message: String,
}

/// Kinds of errors, with stable names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// A line or a document is malformed.
    Syntax,
    /// An invalid user name.
    UserName,
    /// A user without a password hash.
    NoHash,
    /// A hash of an unknown kind.
    UnknownHash,
    /// A hash that costs too much, or too little, to compute.
    Cost,
    /// Two users with the same name.
    Duplicate,
    /// A limit is exceeded.
    Limit,
}

impl ErrorCode {
    /// Every code.
    pub const ALL: [Self; 7] =
        [Self::Syntax, Self::UserName, Self::NoHash, Self::UnknownHash, Self::Cost, Self::Duplicate, Self::Limit];

    /// The stable code.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Syntax => "users_syntax",
            Self::UserName => "users_name",
            Self::NoHash => "users_no_hash",
            Self::UnknownHash => "users_unknown_hash",
            Self::Cost => "users_cost",
            Self::Duplicate => "users_duplicate",
            Self::Limit => "users_limit",
        }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {} [{}]", self.message, self.code.as_str())
    }
}

impl std::error::Error for FileError {}
