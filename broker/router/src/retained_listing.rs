//! Listings of the retained messages for operators, over many turns.

use std::ops::ControlFlow;

use tautwire_message::Body;
use tautwire_topics::RetainedCursor;

use crate::exchange::{Exchange, SEARCH_STEPS};

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

impl Exchange {
    /// Starts a listing of the messages that match `filter`, or of all, including those below `$SYS`. Visits none of them yet; returns
    /// `None` if there can be none.
    pub fn list_retained(&self, filter: Option<&str>) -> Option<RetainedListing> {
        self.read().retained.list(filter)
    }

    /// Continues a listing until `visit` breaks, `steps` is used up, or the listing ends. Subtracts the steps used, and holds the lock for
    /// a few steps at a time; `visit` is called with the lock held, so it must be short.
    pub fn continue_listing(
        &self,
        look: &mut RetainedListing,
        steps: &mut u64,
        mut visit: impl FnMut(&str, &Body) -> ControlFlow<()>,
    ) {
        while *steps > 0 && !look.is_done() {
            let portion = SEARCH_STEPS.min(*steps);
            let mut left = portion;
            let flow = self.read().retained.continue_listing(look, &mut left, &mut visit);
            *steps -= portion - left;
            if flow.is_break() {
                return;
            }
        }
    }
}
