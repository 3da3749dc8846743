//! Number types that must not be confused.

use std::fmt;
use std::num::NonZeroU64;

/// A byte position in the whole log. No two frames of a log have the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(pub u64);

impl Position {
    /// The position before all frames.
    pub const START: Position = Position(0);
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a segment of a log, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentNumber(pub u64);

impl fmt::Display for SegmentNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Identifies one opening of a log: a random number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Epoch(NonZeroU64);

impl Epoch {
    /// Creates an epoch from a random number; `None` for 0.
    pub fn new(random: u64) -> Option<Epoch> {
        NonZeroU64::new(random).map(Epoch)
    }

    /// Returns the number.
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

/// Identifies a log among all others: a random number, drawn when its directory is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LogId(pub u64);

/// A shard of the run that wrote the frame. Another run may have another number of shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardNumber(pub u16);

/// The number of a frame of one shard in one epoch, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TurnNumber(pub u64);

/// Identifies a session in the log. Assigned once, together with its Client Identifier, and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(NonZeroU64);

impl SessionId {
    /// Creates the identifier with this number; `None` for 0.
    pub fn new(number: u64) -> Option<SessionId> {
        NonZeroU64::new(number).map(SessionId)
    }

    /// Returns the number.
    pub fn get(self) -> u64 {
        self.0.get()
    }
}
