//! Clients whose search for retained messages has found one that the stream of these has yet to bring.

use std::collections::BTreeSet;

use crate::index::ConnectionId;

/// After this time they are looked at again, whether the stream has brought anything or not, in milliseconds.
const AGAIN_MS: u64 = 1_000;

#[derive(Debug, Default)]
pub(crate) struct StalledSearches {
    connections: BTreeSet<ConnectionId>,
    due_ms: Option<u64>,
}

impl StalledSearches {
    /// Its search waits.
    pub(crate) fn add(&mut self, id: ConnectionId, now_ms: u64) {
        self.connections.insert(id);
        self.due_ms.get_or_insert(now_ms + AGAIN_MS);
    }

    /// All whose searches wait: they are to be looked at again.
    pub(crate) fn take(&mut self) -> BTreeSet<ConnectionId> {
        self.due_ms = None;
        std::mem::take(&mut self.connections)
    }

    pub(crate) fn is_due(&self, now_ms: u64) -> bool {
        self.due_ms.is_some_and(|due_ms| due_ms <= now_ms)
    }

    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        self.due_ms
    }
}
