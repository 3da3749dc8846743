//! Looks at the retained messages that operators take, over many turns.

use std::ops::ControlFlow;

use tautwire_message::Body;
use tautwire_topics::RetainedCursor;

use crate::exchange::{Exchange, SEARCH_STEPS};

/// A look at the retained messages, in no order that means anything. What comes or goes while it is under way may be seen or not; what stays
/// is seen once. It may be dropped at any time.
#[derive(Debug)]
pub struct RetainedListing {
    pub(crate) cursor: RetainedCursor,
    /// The topic looked at last: room that is used again.
    pub(crate) topic: String,
}

impl RetainedListing {
    /// Whether all has been looked at.
    pub fn is_done(&self) -> bool {
        self.cursor.is_finished()
    }
}

impl Exchange {
    /// A look at the messages that `filter` covers, or at all of them, those below `$SYS` included. Looks at none of them; `None` where there
    /// can be none.
    pub fn list_retained(&self, filter: Option<&str>) -> Option<RetainedListing> {
        self.read().retained.list(filter)
    }

    /// Goes on with a look until `visit` breaks, `steps` is used up, or it comes to its end. Takes off `steps` what it used, and holds the lock
    /// for a few steps at a time; `visit` is called meanwhile, so it must be short.
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
