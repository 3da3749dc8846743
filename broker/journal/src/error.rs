//! The errors of a log.

use std::fmt;

use crate::disk::DiskError;
use crate::format::FORMAT_VERSION;
use crate::reader::Damage;

/// Why a log cannot be opened, read, or written any more.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogError {
    /// Another process holds the directory's lock.
    Locked,
    /// The log was written by a newer program.
    UnsupportedVersion {
        /// The file that has the version.
        file: Box<str>,
        /// The version found.
        version: u32,
    },
    /// The directory has segments but no `VERSION` file.
    VersionMissing,
    /// The `VERSION` file is corrupt.
    VersionDamaged,
    /// The settings are invalid; the message says which.
    Settings(&'static str),
    /// Durable data is lost. There may be more damage after it.
    Damaged(Box<Damage>),
    /// A disk operation failed. For an open log this is final.
    Disk(DiskError),
    /// The caller stopped reading because of the content of a frame.
    Refused {
        /// The frame's position.
        at: crate::Position,
        /// The reason.
        cause: Box<str>,
    },
    /// The writer thread has ended.
    WriterStopped,
    /// A snapshot that is needed is damaged.
    SnapshotDamaged(Box<str>),
    /// The directory contains no log.
    Empty,
    /// Files were removed during each attempt to read them.
    ChangedWhileReading,
}

impl LogError {
    /// Returns the stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            LogError::Locked => "journal_locked",
            LogError::UnsupportedVersion { .. } => "journal_newer",
            LogError::VersionMissing => "journal_version_missing",
            LogError::VersionDamaged => "journal_version_damaged",
            LogError::Settings(_) => "journal_options",
            LogError::Damaged(_) => "journal_damaged",
            LogError::Disk(_) => "journal_disk",
            LogError::Refused { .. } => "journal_closed",
            LogError::WriterStopped => "journal_writer_gone",
            LogError::SnapshotDamaged(_) => "journal_snapshot_damaged",
            LogError::Empty => "journal_empty",
            LogError::ChangedWhileReading => "journal_changed_while_reading",
        }
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogError::Locked => write!(f, "another process has the journal open; stop it, or use another directory"),
            LogError::UnsupportedVersion { file, version } => write!(
                f,
                "{file} has version {version} of the format, and this program reads versions up to {FORMAT_VERSION}; use a program that reads version {version}"
            ),
            LogError::VersionMissing => {
                write!(f, "the directory has segments but no VERSION file; restore VERSION from a backup")
            }
            LogError::VersionDamaged => {
                write!(f, "the VERSION file is corrupt; restore it from a backup")
            }
            LogError::Settings(what) => write!(f, "{what}"),
            LogError::Damaged(damage) => write!(f, "{damage}"),
            LogError::Disk(error) => write!(f, "{error}"),
            LogError::Refused { at, cause } => write!(f, "cannot use the frame at position {at}: {cause}"),
            LogError::WriterStopped => write!(f, "the journal's writer thread has ended; restart the broker"),
            LogError::SnapshotDamaged(name) => write!(f, "{name} is damaged"),
            LogError::Empty => write!(f, "the directory contains no journal"),
            LogError::ChangedWhileReading => {
                write!(f, "the broker removed files during each attempt to read them; try again, or stop the broker")
            }
        }?;
        write!(f, " [{}]", self.code())
    }
}

impl std::error::Error for LogError {}

impl From<DiskError> for LogError {
    fn from(error: DiskError) -> Self {
        LogError::Disk(error)
    }
}
