//! What can be wrong with a file, and where.

use std::fmt;

/// One thing that is wrong with a file. It never says what a secret in it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    /// What kind of fault it is.
    pub code: ErrorCode,
    /// The file, as it was named.
    pub file: String,
    /// From 1; `None` for the whole file.
    pub line: Option<usize>,
    /// What is wrong, and what to do about it.
    pub message: String,
}

/// Kinds of faults, with names that stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// A line or a document has not the form that it must have.
    Syntax,
    /// A name of a user that cannot be one.
    UserName,
    /// A user without a hash of a password.
    NoHash,
    /// A hash of a kind that is not known.
    UnknownHash,
    /// A hash that costs too much, or too little, to compute.
    Cost,
    /// Two users of one name.
    Duplicate,
    /// More than a limit.
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
