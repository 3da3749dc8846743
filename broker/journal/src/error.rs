//! What can go wrong with a log.

use std::fmt;

use crate::disk::DiskError;
use crate::format::FORMAT_VERSION;
use crate::reader::Damage;

/// Why a log cannot be opened, read, or written any more.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogError {
    /// Another process has the directory.
    Locked,
    /// A newer program has written it.
    UnsupportedVersion {
        /// Where its version stands.
        file: Box<str>,
        /// The version found.
        version: u32,
    },
    /// There are segments, and no `VERSION`.
    VersionMissing,
    /// `VERSION` is not what was written.
    VersionDamaged,
    /// The settings are impossible: the sentence says which.
    Settings(&'static str),
    /// Something durable is gone. There may be more of it behind.
    Damaged(Box<Damage>),
    /// The disk did not do what it was asked for. While the log is open this is final.
    Disk(DiskError),
    /// The caller stopped reading because of what a frame said.
    Refused {
        /// The frame's position.
        at: crate::Position,
        /// Why.
        cause: Box<str>,
    },
    /// The thread that wrote the log is gone.
    WriterStopped,
    /// A snapshot is not whole, and was needed.
    SnapshotDamaged(Box<str>),
    /// There is nothing of a log.
    Empty,
    /// Files went while they were read, each time that it was tried.
    ChangedWhileReading,
}

impl LogError {
    /// A stable name.
    pub fn code(&self) -> &'static str {
        match self {
            LogError::Locked => "journal_locked",
            LogError::UnsupportedVersion { .. } => "journal_newer",
            LogError::VersionMissing => "journal_version_missing",
            LogError::VersionDamaged => "journal_version_damaged",
            LogError::Settings(_) => "journal_settings",
            LogError::Damaged(_) => "journal_damaged",
            LogError::Disk(_) => "journal_disk",
            LogError::Refused { .. } => "journal_refused",
            LogError::WriterStopped => "journal_writer_gone",
            LogError::SnapshotDamaged(_) => "journal_snapshot_damaged",
            LogError::Empty => "journal_empty",
            LogError::ChangedWhileReading => "journal_unsteady",
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
                write!(f, "there are segments but no VERSION; put the file back from a copy of the directory")
            }
            LogError::VersionDamaged => {
                write!(f, "VERSION has been changed; put the file back from a copy of the directory")
            }
            LogError::Settings(what) => write!(f, "{what}"),
            LogError::Damaged(damage) => write!(f, "{damage}"),
            LogError::Disk(error) => write!(f, "{error}"),
            LogError::Refused { at, cause } => write!(f, "the frame at position {at} cannot be used: {cause}"),
            LogError::WriterStopped => write!(f, "the thread that wrote the journal has ended; restart"),
            LogError::SnapshotDamaged(name) => write!(f, "{name} is damaged"),
            LogError::Empty => write!(f, "there is no state in the directory"),
            LogError::ChangedWhileReading => {
                write!(
                    f,
                    "files were released while they were read, each time that it was tried; try again, or stop the broker"
                )
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
