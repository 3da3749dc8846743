//! Scans and listings of the retained messages that run over many turns.

use std::collections::VecDeque;

use tautwire_message::{Body, Spilled};
use tautwire_topics::RetainedCursor;

/// The retained messages that match a filter, as of the time of a subscription. Messages that are replaced before the scan reaches them are
/// skipped, because they are delivered live.
///
/// A scan is a cursor in the tree and a sequence number, not a list: nothing is visited before [`crate::Exchange::next_retained`] is
/// called. It may be dropped at any time.
#[derive(Debug)]
pub struct Scan {
    pub(crate) cursor: RetainedCursor,
    /// Found and not yet taken.
    pub(crate) found: VecDeque<Body>,
    /// The last change of the retained messages that it sees.
    pub(crate) sequence: u64,
}

impl Scan {
    pub(crate) fn new(cursor: RetainedCursor, sequence: u64) -> Scan {
        Scan { cursor, found: VecDeque::new(), sequence }
    }

    /// Returns the spilled messages among those found and not yet taken, in order.
    pub fn spilled_ahead(&self) -> impl Iterator<Item = &Spilled> {
        self.found.iter().filter_map(Body::spilled)
    }

    /// The filter.
    pub fn filter(&self) -> &str {
        self.cursor.filter()
    }
}

/// The result of a search for the next message of a [`Scan`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// The next message. It may have expired or been replaced by now.
    Found(Body),
    /// The steps are used up. Continue the scan later.
    Paused,
    /// There are no more.
    Ended,
}

/// A walk through all retained messages in memory, over many turns.
#[derive(Debug, Default)]
pub struct SpillScan {
    pub(crate) cursor: Option<RetainedCursor>,
}

impl SpillScan {
    /// Whether the walk has begun and not ended.
    pub fn is_running(&self) -> bool {
        self.cursor.is_some()
    }
}

/// A listing of the retained messages, in no particular order. Messages that are added or removed meanwhile may be seen or not; all others
/// are seen once. It may be dropped at any time.
#[derive(Debug)]
pub struct RetainedListing {
    pub(crate) cursor: RetainedCursor,
    /// The last topic, in a reused buffer.
    pub(crate) topic: String,
}

impl RetainedListing {
    /// Whether all messages were visited.
    pub fn is_done(&self) -> bool {
        self.cursor.is_finished()
    }
}
