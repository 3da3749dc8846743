//! A connection that has ended, and the wills to be published.

use crate::record::{DueWill, Will};

/// A session whose client has disconnected.
#[derive(Debug, Clone, Copy)]
pub(super) struct Disconnection {
    pub(super) since_ms: u64,
    /// How long it had been offline when this node took the session over.
    pub(super) before_ms: u64,
    /// When a delayed will is due. The session stays with this node until then, unless another node requests it.
    pub(super) will_due_ms: Option<u64>,
}

/// Wills to be published, in order.
#[derive(Debug)]
pub(super) struct Wills {
    last: u64,
    pub(super) due: Vec<(u64, DueWill)>,
}

impl Disconnection {
    pub(super) fn away_ms(&self, now_ms: u64) -> u64 {
        self.before_ms + now_ms.saturating_sub(self.since_ms)
    }
}

impl Wills {
    pub(super) fn new(due: &[DueWill]) -> Wills {
        let due: Vec<_> = (1..).zip(due.iter().cloned()).collect();
        Wills { last: due.len() as u64, due }
    }

    pub(super) fn push(&mut self, will: Will) {
        self.last += 1;
        self.due.push((self.last, DueWill { will, intent: None }));
    }

    pub(super) fn published(&mut self, id: u64) {
        self.due.retain(|(known, _)| *known != id);
    }

    pub(super) fn are_published(&self) -> bool {
        self.due.is_empty()
    }

    pub(super) fn records(&self) -> Vec<DueWill> {
        self.due.iter().map(|(_, due)| due.clone()).collect()
    }
}
