//! What a reader says about a log that is not whole.

use std::fmt;
use std::ops::Range;

use crate::numbers::{Position, SegmentNumber, SessionId};

/// Something durable that is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// In what way.
    pub kind: DamageKind,
    /// The segment in which it begins.
    pub segment: SegmentNumber,
    /// Where in the file; to its end where the next frame is in another segment.
    pub bytes: Range<u64>,
    /// The last frame before it.
    pub after: Position,
    /// The first frame behind it; `None` where there is none.
    pub before: Option<Position>,
    /// Whom it may concern.
    pub possibly_affected: PossiblyAffected,
}

/// In what way something is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DamageKind {
    /// Frames are missing that were durable.
    FramesLost,
    /// The file of the segment is missing, and perhaps those of others behind it; of the bytes only their number is known.
    SegmentMissing,
    /// Both copies of a segment's header are damaged, or are another file's: none of its frames can be read.
    HeaderLost,
    /// The disk does not read these bytes. Whether anything was in them is not known.
    Unreadable,
}

/// What can still be decoded of damaged frames: hints, since nothing vouches for these bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PossiblyAffected {
    /// Sessions that are named there.
    pub sessions: Vec<SessionId>,
    /// Topics and filters that are named there.
    pub topics: Vec<String>,
    /// There were more than are listed.
    pub more: bool,
}

/// The end of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEnd {
    /// The last frame that counts.
    pub last: Position,
    /// Whether the log was closed in order. Otherwise a group behind the last frame that the disk has lost without a trace would not
    /// be missed, unless it was sealed.
    pub closed: bool,
    /// Something was begun behind it that is not whole.
    pub torn: Option<TornWrite>,
}

/// What follows the last frame of a log, and is not whole. Nothing says whether it ever was: it may be a write that did not come
/// to its end, which nobody has been told of, or one that was durable and has been damaged since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornWrite {
    /// The segment it is in.
    pub segment: SegmentNumber,
    /// Where in the file the first trace of it is.
    pub offset: u64,
    /// How many bytes it has, as far as that can still be told.
    pub bytes: u64,
    /// Whom it may concern.
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
            DamageKind::Unreadable => "the disk does not read",
        };
        let Damage { segment, bytes, after, .. } = self;
        write!(f, "segment {segment}")?;
        if !bytes.is_empty() {
            write!(f, ", bytes {} to {}", bytes.start, bytes.end)?;
        }
        write!(f, ": {what}, behind position {after}")?;
        if let Some(before) = self.before {
            write!(f, " and before {before}")?;
        }
        let PossiblyAffected { sessions, topics, more } = &self.possibly_affected;
        if !sessions.is_empty() || !topics.is_empty() {
            let more = if *more { ", and more" } else { "" };
            let counted = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
            let (sessions, topics) = (counted(sessions.len(), "session"), counted(topics.len(), "topic"));
            write!(f, "; {sessions} and {topics} may be concerned{more}")?;
        }
        Ok(())
    }
}
