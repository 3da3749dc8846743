//! Why a log cannot be replayed or compacted.

use std::fmt;

use tautwire_journal::LogError;
use tautwire_journal::record::RecordError;
use tautwire_message::MessageId;
use tautwire_session::ReplayError;

/// Why the frames of a log cannot be replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecoveryError {
    /// The body of a frame is not a sequence of records.
    Record(RecordError),
    /// The records are inconsistent.
    Replay(ReplayError),
    /// A record names a message that does not precede it in the log.
    MessageMissing(MessageId),
    /// A spilled message cannot be read back.
    UnreadableMessage(MessageId),
}

impl RecoveryError {
    /// Returns the stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            RecoveryError::Record(error) => error.fault.code(),
            RecoveryError::Replay(error) => error.code(),
            RecoveryError::MessageMissing(_) => "recovery-message-missing",
            RecoveryError::UnreadableMessage(_) => "recovery-message-unreadable",
        }
    }
}

impl fmt::Display for RecoveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecoveryError::Record(error) => error.fmt(f),
            RecoveryError::Replay(error) => error.fmt(f),
            RecoveryError::MessageMissing(id) => {
                write!(f, "a record names message {id}, which is not in the log before it; part of the log is missing")
            }
            RecoveryError::UnreadableMessage(id) => {
                write!(f, "cannot read message {id} back from the spill directory; check the disk and start again")
            }
        }
    }
}

impl std::error::Error for RecoveryError {}

impl From<ReplayError> for RecoveryError {
    fn from(error: ReplayError) -> Self {
        RecoveryError::Replay(error)
    }
}

/// Why a snapshot failed.
#[derive(Debug)]
pub enum CompactError {
    /// The log cannot be read, or the snapshot cannot be written.
    Log(LogError),
    /// The records of the log are invalid.
    Records(RecoveryError),
    /// The store for the messages cannot be created.
    Store(std::io::Error),
}

impl fmt::Display for CompactError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompactError::Log(error) => error.fmt(f),
            CompactError::Store(error) => write!(f, "cannot create a directory for its messages: {error}"),
            CompactError::Records(error) => write!(f, "{error} [{}]", error.code()),
        }
    }
}

impl std::error::Error for CompactError {}

impl From<LogError> for CompactError {
    fn from(error: LogError) -> CompactError {
        CompactError::Log(error)
    }
}

impl From<RecoveryError> for CompactError {
    fn from(error: RecoveryError) -> CompactError {
        CompactError::Records(error)
    }
}
