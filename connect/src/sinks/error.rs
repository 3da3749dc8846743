//! Why a target has not stored messages.

use std::fmt;

/// Why a target has not stored a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SinkError {
    /// It may store the same batch later.
    Transient(String),
    /// It will never store one of the messages.
    Refused(String),
    /// It will store nothing until somebody changes the configuration, or another instance has taken over.
    Fatal(String),
}

impl fmt::Display for SinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (SinkError::Transient(text) | SinkError::Refused(text) | SinkError::Fatal(text)) = self;
        f.write_str(text)
    }
}
