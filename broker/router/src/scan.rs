//! Searches among the retained messages that go on over many turns.

use std::collections::VecDeque;

use tautwire_message::{Body, Spilled};
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
    pub(crate) found: VecDeque<Body>,
    /// The last change of the retained messages that it sees.
    pub(crate) sequence: u64,
}

impl Scan {
    pub(crate) fn new(cursor: RetainedCursor, sequence: u64) -> Scan {
        Scan { cursor, found: VecDeque::new(), sequence }
    }

    /// The cold ones among those that have been found and not taken, in order.
    pub fn spilled_ahead(&self) -> impl Iterator<Item = &Spilled> {
        self.found.iter().filter_map(Body::spilled)
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
    Found(Body),
    /// The steps are used up. The scan goes on with others.
    Paused,
    /// There are no more.
    Ended,
}

/// A walk through all retained messages that goes on over many turns, for those that are hot.
#[derive(Debug, Default)]
pub struct SpillScan {
    pub(crate) cursor: Option<RetainedCursor>,
}

impl SpillScan {
    /// Whether it has begun and not come to its end.
    pub fn is_running(&self) -> bool {
        self.cursor.is_some()
    }
}
