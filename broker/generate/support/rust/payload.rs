//! Payloads and their errors.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// Maximum nesting of values.
pub(super) const DEPTH_MAX: usize = 100;

/// Why a payload does not match its contract, or a topic is not valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadError {
    /// What was expected.
    pub expected: String,
    /// The offset in the payload, in bytes; `None` if unknown.
    pub offset: Option<usize>,
}

impl PayloadError {
    pub(super) fn new(expected: impl Into<String>, offset: usize) -> PayloadError {
        PayloadError {
            expected: expected.into(),
            offset: Some(offset),
        }
    }
}

impl fmt::Display for PayloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}", self.expected)?;
        match self.offset {
            Some(offset) => write!(f, " at byte {offset}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for PayloadError {}

/// A timestamp: seconds since 1970-01-01T00:00:00Z, and 0 to 999,999,999 nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds.
    pub seconds: i64,
    /// Nanoseconds.
    pub nanos: i32,
}

/// A duration; both numbers have the same sign.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration {
    /// Seconds.
    pub seconds: i64,
    /// Nanoseconds.
    pub nanos: i32,
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Timestamp {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Timestamp {
                seconds: after.as_secs() as i64,
                nanos: after.subsec_nanos() as i32,
            },
            Err(before) => {
                let before = before.duration();
                let nanos = before.subsec_nanos() as i32;
                Timestamp {
                    seconds: -(before.as_secs() as i64) - i64::from(nanos > 0),
                    nanos: if nanos > 0 { 1_000_000_000 - nanos } else { 0 },
                }
            }
        }
    }
}

/// An untyped value in the encoding of its format. Empty means null.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Raw(pub Vec<u8>);

/// Checks that the text can be a level of a topic, or, with `rest`, its last levels.
pub(super) fn check_level(name: &str, text: &str, rest: bool) -> Result<(), PayloadError> {
    if text.contains(['+', '#', '\0']) || (!rest && text.contains('/')) {
        let characters = if rest {
            "+, # and U+0000"
        } else {
            "/, +, # and U+0000"
        };
        return Err(PayloadError {
            expected: format!("no {characters} in {name}"),
            offset: None,
        });
    }
    Ok(())
}
