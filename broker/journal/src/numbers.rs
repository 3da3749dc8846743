//! Numbers that must not be taken for each other.

use std::fmt;
use std::num::NonZeroU64;

/// A place in the whole log, in bytes; no two frames of a log have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(pub u64);

impl Position {
    /// Before all frames.
    pub const START: Position = Position(0);
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Counts the segments of a log, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentNumber(pub u64);

impl fmt::Display for SegmentNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One opening of a log: a number drawn at random.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Epoch(NonZeroU64);

impl Epoch {
    /// The epoch with a number that the caller has drawn; `None` for 0.
    pub fn new(random: u64) -> Option<Epoch> {
        NonZeroU64::new(random).map(Epoch)
    }

    /// The number.
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

/// Names a log among all others: drawn at random when its directory is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LogId(pub u64);

/// A shard of the run that wrote the frame. Another run may have another number of shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardNumber(pub u16);

/// Counts the frames of one shard in one epoch, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TurnNumber(pub u64);

/// A session in the log: given once together with its Client Identifier, and never again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(NonZeroU64);

impl SessionId {
    /// The session of that number; `None` for 0.
    pub fn new(number: u64) -> Option<SessionId> {
        NonZeroU64::new(number).map(SessionId)
    }

    /// The number.
    pub fn get(self) -> u64 {
        self.0.get()
    }
}
