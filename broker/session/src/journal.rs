//! The seam for durability.

use tautwire_message::Message;
use tautwire_protocol::PacketId;

use crate::change::Change;

/// A place in the log: the number of a frame. An acknowledgement may leave once the frames that it speaks of are durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct LogPosition(pub u64);

/// Names a session in the log. The number is never given to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SessionNumber(pub u64);

/// A change of the retained messages.
#[derive(Debug, Clone, PartialEq)]
pub enum RetainedChange {
    /// The message replaces what its topic held.
    Set(Message),
    /// The topic holds nothing any more.
    Cleared(Box<str>),
}

/// One thing to write down.
#[derive(Debug)]
pub enum Record<'a> {
    /// A session begins without state.
    Opened {
        /// What the session is called from now on.
        session: SessionNumber,
        /// Whose it is.
        client_id: &'a str,
        /// When, in milliseconds of Unix time.
        at_ms: u64,
    },
    /// A session changes.
    Changed {
        /// The session.
        session: SessionNumber,
        /// What changes.
        change: &'a Change,
        /// The identifier that the change gives to a message.
        packet_id: Option<PacketId>,
    },
    /// The session's client is connected: what runs while it is away stands still.
    Returned {
        /// Whose client it is.
        session: SessionNumber,
        /// Since when, in milliseconds of Unix time.
        at_ms: u64,
    },
    /// The session's client is away.
    Left {
        /// Whose client it is.
        session: SessionNumber,
        /// Since when, in milliseconds of Unix time.
        at_ms: u64,
    },
    /// A session ends and its state goes with it.
    Ended(SessionNumber),
    /// Numbers up to these have been given. Said where state is written down as a whole.
    Counted {
        /// To sessions.
        last_session: SessionNumber,
        /// To changes of the retained messages.
        last_sequence: u64,
    },
    /// The retained messages change. They are common to all shards: of two changes of one topic, the one with the higher
    /// number took effect later, whichever was written down first.
    Retained {
        /// Counts the changes of all retained messages.
        sequence: u64,
        /// What changes.
        change: &'a RetainedChange,
    },
}

/// Where a shard writes down its changes before they take effect, in frames of which a crash leaves all or nothing.
pub trait Journal {
    /// Whether anything is kept at all. Where it is not, nothing else here is called.
    const KEEPS: bool;

    /// A number for a session that has none.
    fn next_session(&mut self) -> SessionNumber;

    /// Adds a record to the frame that has been begun, and gives that frame's position.
    fn record(&mut self, record: Record<'_>) -> LogPosition;

    /// The frame is complete; the next record begins another one. Does nothing where no record has been added.
    fn end_frame(&mut self);

    /// How far the log is safe.
    fn durable(&self) -> LogPosition;

    /// Whether the log is too far behind to take much more.
    fn is_behind(&self) -> bool;
}

/// No log: everything is as durable as it will ever be, at once.
#[derive(Debug, Default, Clone, Copy)]
pub struct Volatile;

impl Journal for Volatile {
    const KEEPS: bool = false;

    fn next_session(&mut self) -> SessionNumber {
        SessionNumber(0)
    }

    #[inline]
    fn record(&mut self, _record: Record<'_>) -> LogPosition {
        LogPosition(0)
    }

    #[inline]
    fn end_frame(&mut self) {}

    #[inline]
    fn durable(&self) -> LogPosition {
        LogPosition(0)
    }

    #[inline]
    fn is_behind(&self) -> bool {
        false
    }
}
