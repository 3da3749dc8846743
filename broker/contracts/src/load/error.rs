//! Errors in a contracts folder, with their positions.

use std::fmt;

/// An error in a contracts folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadError {
    /// The kind of error.
    pub code: ErrorCode,
    /// The file, as a path in the folder.
    pub file: String,
    /// Line and column, from 1, the column in characters; `None` for the whole file.
    pub position: Option<(usize, usize)>,
    /// What is wrong, and what to do about it.
    pub message: String,
}

/// Kinds of errors, with stable names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCode {
    /// A file that is not well-formed.
    Syntax,
    /// An unknown key.
    UnknownKey,
    /// A value that is not allowed for its key.
    Value,
    /// A required key is missing.
    Missing,
    /// A schema that is missing or not valid.
    Schema,
    /// Two contracts with the same name.
    Duplicate,
    /// Two contracts for the same topic.
    Overlap,
    /// A limit is exceeded.
    Limit,
    /// A file that cannot be read or written.
    File,
}

impl ErrorCode {
    /// The stable code.
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorCode::Syntax => "contract_syntax",
            ErrorCode::UnknownKey => "contract_unknown_key",
            ErrorCode::Value => "contract_value",
            ErrorCode::Missing => "contract_missing",
            ErrorCode::Schema => "contract_schema",
            ErrorCode::Duplicate => "contract_duplicate",
            ErrorCode::Overlap => "contract_overlap",
            ErrorCode::Limit => "contract_limit",
            ErrorCode::File => "contract_file",
        }
    }
}

/// A file, and a position in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourcePosition {
    pub(super) file: String,
    pub(super) position: Option<(usize, usize)>,
}

impl LoadError {
    pub(super) fn at(code: ErrorCode, place: SourcePosition, message: impl Into<String>) -> LoadError {
        LoadError { code, file: place.file, position: place.position, message: message.into() }
    }

    pub(super) fn of_file(code: ErrorCode, file: &str, message: impl Into<String>) -> LoadError {
        LoadError { code, file: file.to_owned(), position: None, message: message.into() }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some((line, column)) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {} [{}]", self.message, self.code.as_str())
    }
}

impl std::error::Error for LoadError {}

/// Line and column of a byte offset, from 1.
pub(super) fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}
