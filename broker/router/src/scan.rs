//! Searches among the retained messages that go on over many turns.

use std::collections::VecDeque;

use tautwire_message::Message;
use tautwire_topics::RetainedCursor;

/// The retained messages that match a filter, as they were when a subscription was made; those that have been replaced
/// before they are come to are left out, because they came live.
///
/// A scan is a place in the tree and a number, not a list: nothing is looked at before [`crate::Exchange::next_retained`]
/// is called. It may be dropped at any time.
#[derive(Debug)]
pub struct Scan {
    pub(crate) cursor: RetainedCursor,
    /// Found and not taken yet.
    pub(crate) found: VecDeque<Message>,
    /// The last change of the retained messages that it sees.
    pub(crate) sequence: u64,
}

impl Scan {
    pub(crate) fn new(cursor: RetainedCursor, sequence: u64) -> Scan {
        Scan { cursor, found: VecDeque::new(), sequence }
    }

    /// The filter.
    pub fn filter(&self) -> &str {
        self.cursor.filter()
    }
}

/// What came of a look for the next message of a [`Scan`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// The next message. It may have expired or been replaced by now.
    Found(Message),
    /// The steps are used up. The scan goes on with others.
    Paused,
    /// There are no more.
    Ended,
}
