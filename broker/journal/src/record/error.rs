//! Decoding errors.

use std::fmt;

/// Bytes that are not a valid record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordError {
    /// The kind of error.
    pub fault: RecordFault,
    /// The offset in the frame's body, in bytes.
    pub offset: usize,
}

/// The kind of a decoding error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordFault {
    /// The record type is unknown.
    UnknownRecord,
    /// The frame ends within a field.
    Truncated,
    /// A string is not valid UTF-8.
    InvalidUtf8,
    /// A number is 0 although it must not be, has an undefined bit, or is too large.
    InvalidValue,
    /// A stored message is invalid.
    InvalidMessage,
}

impl RecordFault {
    /// Returns the stable error code.
    pub fn code(self) -> &'static str {
        match self {
            RecordFault::UnknownRecord => "record_unknown",
            RecordFault::Truncated => "record_truncated",
            RecordFault::InvalidUtf8 => "record_not_text",
            RecordFault::InvalidValue => "record_invalid_value",
            RecordFault::InvalidMessage => "record_not_a_message",
        }
    }
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.fault {
            RecordFault::UnknownRecord => "unknown record type",
            RecordFault::Truncated => "the frame ends within a field",
            RecordFault::InvalidUtf8 => "a string is not valid UTF-8",
            RecordFault::InvalidValue => "a number is out of range",
            RecordFault::InvalidMessage => "a stored message is invalid",
        };
        write!(f, "byte {} of the frame: {what} [{}]", self.offset, self.fault.code())
    }
}

impl std::error::Error for RecordError {}
