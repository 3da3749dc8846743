//! The seam for durability.

use crate::change::Change;
use tautwire_message::Message;

/// A place in the log. An acknowledgement made after a record may leave once the log is durable up to that record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct LogPosition(pub u64);

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
    Opened(&'a str),
    /// A session changes.
    Changed(&'a str, &'a Change),
    /// A session ends and its state goes with it.
    Ended(&'a str),
    /// The retained messages change. They are common to all shards: of two changes of one topic, the one with the higher
    /// number took effect later, whichever was written down first.
    Retained {
        /// Counts the changes of all retained messages.
        sequence: u64,
        /// What changes.
        change: &'a RetainedChange,
    },
}

/// Where changes are written down before they take effect.
pub trait Journal {
    /// Takes a record on; the position is durable once [`Journal::durable`] has reached it.
    fn record(&mut self, record: Record<'_>) -> LogPosition;

    /// How far the log is safe.
    fn durable(&self) -> LogPosition;
}

/// No log: everything is as durable as it will ever be, at once.
#[derive(Debug, Default, Clone, Copy)]
pub struct Volatile;

impl Journal for Volatile {
    #[inline]
    fn record(&mut self, _record: Record<'_>) -> LogPosition {
        LogPosition(0)
    }

    #[inline]
    fn durable(&self) -> LogPosition {
        LogPosition(0)
    }
}
