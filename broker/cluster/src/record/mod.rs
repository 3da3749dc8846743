//! The records of the store and the groups of the log, encoded as described in `docs/internals/cluster-format.md`.

mod config;
mod cursors;
mod group;
mod intent;
mod message;
mod node;
mod retained;
mod session;
mod share;
mod will;

use std::fmt;

pub use config::{ConfigPart, ConfigRecord};
pub use cursors::{Cursors, OPEN_MAX, Place};
pub use group::{Body, Group, RetainEntry};
pub use intent::Intent;
pub use message::Publisher;
pub use node::{End, Load, NodeRecord, NodeState};
pub use retained::{MARK_SUBJECT, Retain, RetainedRecord};
pub use session::{Claim, NEVER_EXPIRES, SessionRecord, Taken};
pub use share::{GROUP_MEMBERS_MAX, GROUP_OPEN_MAX, ShareRecord};
pub use will::{DueWill, Will};

/// The version of all records. A node that finds a newer one leaves it alone.
pub const VERSION: u8 = 1;

/// Why bytes cannot be decoded as a record of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordError {
    /// The record was written by a newer broker.
    Newer {
        /// The version of the record.
        version: u8,
    },
    /// The record is truncated, too long, or has a value that no broker writes.
    Malformed {
        /// The expected record.
        record: &'static str,
    },
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::Newer { version } => {
                write!(
                    f,
                    "a record has version {version}, but this broker supports only versions up to {VERSION}; upgrade this node [cluster_record_newer]"
                )
            }
            RecordError::Malformed { record } => {
                write!(
                    f,
                    "the bytes of a {record} are damaged; restore the store from its replicas [cluster_record_malformed]"
                )
            }
        }
    }
}

impl std::error::Error for RecordError {}

/// Decodes all of `bytes` as a record of this version.
fn read<'a, T>(
    bytes: &'a [u8],
    record: &'static str,
    fields: impl FnOnce(&mut crate::bytes::Reader<'a>) -> Option<T>,
) -> Result<T, RecordError> {
    let mut reader = crate::bytes::Reader::new(bytes);
    match reader.u8() {
        Some(version) if version > VERSION => return Err(RecordError::Newer { version }),
        Some(VERSION) => {}
        _ => return Err(RecordError::Malformed { record }),
    }
    fields(&mut reader).filter(|_| reader.is_at_end()).ok_or(RecordError::Malformed { record })
}

#[cfg(test)]
mod tests;
