//! What is wrong with bytes that are no record.

use std::fmt;

/// Bytes that are no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordError {
    /// What is wrong.
    pub fault: RecordFault,
    /// Where in the frame's body, in bytes.
    pub offset: usize,
}

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordFault {
    /// There is no record of this number.
    UnknownRecord,
    /// The frame ends within a field.
    Truncated,
    /// A text is not UTF-8.
    InvalidUtf8,
    /// A number is 0 that cannot be, or has a bit that means nothing, or is too large.
    InvalidValue,
    /// A stored message is none.
    InvalidMessage,
}

impl RecordFault {
    /// A stable name.
    pub fn code(self) -> &'static str {
        match self {
            RecordFault::UnknownRecord => "record_unknown",
            RecordFault::Truncated => "record_cut_short",
            RecordFault::InvalidUtf8 => "record_not_text",
            RecordFault::InvalidValue => "record_impossible_value",
            RecordFault::InvalidMessage => "record_not_a_message",
        }
    }
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.fault {
            RecordFault::UnknownRecord => "there is no such record",
            RecordFault::Truncated => "the frame ends within a field",
            RecordFault::InvalidUtf8 => "a text is not UTF-8",
            RecordFault::InvalidValue => "a number cannot be",
            RecordFault::InvalidMessage => "a stored message is none",
        };
        write!(f, "byte {} of the frame: {what} [{}]", self.offset, self.fault.code())
    }
}

impl std::error::Error for RecordError {}
