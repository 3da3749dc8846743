//! Why a file cannot be read.

use std::fmt;

/// What is wrong with a file, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatabaseError {
    /// Bytes from the beginning of the file.
    pub at: usize,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It does not begin as such a file does.
    NotADatabase,
    /// It is a database of SQLite, as a plugin of Mosquitto 2.1 writes it.
    Sqlite,
    /// Mosquitto before 1.6 has written it.
    OldVersion(u32),
    /// A later Mosquitto has written it.
    NewVersion(u32),
    /// It ends within a chunk.
    Truncated,
    /// A chunk of that number has another length than what is in it.
    Length(u32),
    /// Numbers of messages have so many bytes.
    NumberBytes(u8),
    /// A time lies after the year 30,000: a machine with another order of bytes may have written it.
    Time,
}

impl DatabaseError {
    /// A code that stays the same.
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
            Fault::NotADatabase => f.write_str("is no mosquitto.db"),
            Fault::Sqlite => f.write_str(
                "is a database of SQLite, as the plugin mosquitto_persist_sqlite writes it; only mosquitto.db is read. \
                 Retained messages can be copied while Mosquitto runs",
            ),
            Fault::OldVersion(version) => write!(
                f,
                "has version {version}; 5 and 6 are read. Start Mosquitto 2.0 on it and stop it in order: it writes version 6"
            ),
            Fault::NewVersion(version) => write!(f, "has version {version}; 5 and 6 are read"),
            Fault::Truncated => {
                write!(
                    f,
                    "ends within the chunk at byte {}; take a file that is whole, such as mosquitto.db.old",
                    self.at
                )
            }
            Fault::Length(kind) => write!(
                f,
                "the chunk of kind {kind} at byte {} has another length than what is in it: the file is damaged",
                self.at
            ),
            Fault::NumberBytes(bytes) => {
                write!(f, "numbers of messages have {bytes} bytes (byte {}); 8 are read", self.at)
            }
            Fault::Time => write!(
                f,
                "the chunk at byte {} has a time after the year 30,000: the file is damaged, or was written by a big-endian machine",
                self.at
            ),
        }
    }
}

impl std::error::Error for DatabaseError {}
