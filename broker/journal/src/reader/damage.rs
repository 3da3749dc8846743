//! The findings of a reader about a log that is damaged or ends in a torn write.

use std::fmt;
use std::ops::Range;

use crate::numbers::{Position, SegmentNumber, SessionId};

/// Durable data that is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The kind of damage.
    pub kind: DamageKind,
    /// The segment in which it begins.
    pub segment: SegmentNumber,
    /// The bytes in the file; up to its end if the next frame is in another segment.
    pub bytes: Range<u64>,
    /// The last frame before it.
    pub after: Position,
    /// The first frame after it; `None` if there is none.
    pub before: Option<Position>,
    /// The sessions and topics that may be affected.
    pub possibly_affected: PossiblyAffected,
}

/// The kind of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DamageKind {
    /// Durable frames are missing.
    FramesLost,
    /// The file of the segment is missing, and perhaps those of later segments; only the number of bytes is known.
    SegmentMissing,
    /// Both copies of a segment's header are damaged or belong to another file: none of its frames can be read.
    HeaderLost,
    /// The disk cannot read these bytes. Whether they held data is unknown.
    Unreadable,
}

/// What can still be decoded of damaged frames. These are hints, because no checksum protects these bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PossiblyAffected {
    /// Sessions that are named there.
    pub sessions: Vec<SessionId>,
    /// Topics and filters that are named there.
    pub topics: Vec<String>,
    /// There are more than are listed.
    pub more: bool,
}

/// The end of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEnd {
    /// The last valid frame.
    pub last: Position,
    /// Whether the log was closed cleanly. Otherwise, a group after the last frame that the disk has lost completely would go undetected,
    /// unless it was sealed.
    pub closed: bool,
    /// An incomplete write after the last frame.
    pub torn: Option<TornWrite>,
}

/// An incomplete write after the last frame of a log. It may be a write that never finished, and was never acknowledged, or a durable one
/// that was damaged later; the log does not say which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornWrite {
    /// The segment that contains it.
    pub segment: SegmentNumber,
    /// The offset of its first trace in the file.
    pub offset: u64,
    /// Its size in bytes, as far as it can be determined.
    pub bytes: u64,
    /// The sessions and topics that may be affected.
    pub possibly_affected: PossiblyAffected,
}

impl Damage {
    pub(super) fn at_end(segment: SegmentNumber, after: Position) -> Damage {
        Damage {
            kind: DamageKind::FramesLost,
            segment,
            bytes: 0..0,
            after,
            before: None,
            possibly_affected: PossiblyAffected::default(),
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            DamageKind::FramesLost => "frames are lost",
            DamageKind::SegmentMissing => "the file is missing",
            DamageKind::HeaderLost => "the header and its copy are damaged",
            DamageKind::Unreadable => "the disk cannot read the data",
        };
        let Damage { segment, bytes, after, .. } = self;
        write!(f, "segment {segment}")?;
        if !bytes.is_empty() {
            write!(f, ", bytes {} to {}", bytes.start, bytes.end)?;
        }
        write!(f, ": {what}, after position {after}")?;
        if let Some(before) = self.before {
            write!(f, " and before {before}")?;
        }
        let PossiblyAffected { sessions, topics, more } = &self.possibly_affected;
        if !sessions.is_empty() || !topics.is_empty() {
            let more = if *more { ", and more" } else { "" };
            let counted = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
            let (sessions, topics) = (counted(sessions.len(), "session"), counted(topics.len(), "topic"));
            write!(f, "; {sessions} and {topics} may be affected{more}")?;
        }
        Ok(())
    }
}
