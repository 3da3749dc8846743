//! Errors of reading a file.

use std::fmt;

/// A fault in a file, and its offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatabaseError {
    /// The offset in the file, in bytes.
    pub at: usize,
    /// The fault.
    pub fault: Fault,
}

/// A fault in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The file does not begin with the magic bytes.
    NotADatabase,
    /// The file is an SQLite database, as a plugin of Mosquitto 2.1 writes it.
    Sqlite,
    /// The file was written by Mosquitto before 1.6.
    OldVersion(u32),
    /// The file was written by a later Mosquitto.
    NewVersion(u32),
    /// The file ends within a chunk.
    Truncated,
    /// The length of a chunk of this kind does not match its fields.
    Length(u32),
    /// Message numbers have this many bytes, not 8.
    NumberBytes(u8),
    /// A time is after the year 30,000: the file may be from a machine with another byte order.
    Time,
}

impl DatabaseError {
    /// A stable code.
    pub fn code(&self) -> &'static str {
        match self.fault {
            Fault::NotADatabase => "mosquitto_db_unknown",
            Fault::Sqlite => "mosquitto_db_sqlite",
            Fault::OldVersion(_) | Fault::NewVersion(_) => "mosquitto_db_version",
            Fault::Truncated => "mosquitto_db_cut_off",
            Fault::Length(_) | Fault::NumberBytes(_) | Fault::Time => "mosquitto_db_damaged",
        }
    }
}

impl fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fault {
            Fault::NotADatabase => f.write_str("is not a mosquitto.db file"),
            Fault::Sqlite => f.write_str(
                "is an SQLite database, as the plugin mosquitto_persist_sqlite writes it; only mosquitto.db is supported. \
                 Retained messages can be copied while Mosquitto runs",
            ),
            Fault::OldVersion(version) => write!(
                f,
                "has version {version}; versions 5 and 6 are supported. Start Mosquitto 2.0 with it and stop it cleanly: it writes version 6"
            ),
            Fault::NewVersion(version) => write!(f, "has version {version}; versions 5 and 6 are supported"),
            Fault::Truncated => {
                write!(
                    f,
                    "is truncated in the chunk at byte {}; use a complete file, such as mosquitto.db.old",
                    self.at
                )
            }
            Fault::Length(kind) => write!(
                f,
                "is damaged: the length of the chunk of kind {kind} at byte {} does not match its contents",
                self.at
            ),
            Fault::NumberBytes(bytes) => {
                write!(f, "has message numbers of {bytes} bytes (at byte {}); only 8 bytes are supported", self.at)
            }
            Fault::Time => write!(
                f,
                "is damaged, or was written by a big-endian machine: the chunk at byte {} has a time after the year 30,000",
                self.at
            ),
        }
    }
}

impl std::error::Error for DatabaseError {}
