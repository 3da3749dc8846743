//! Searches for retained messages that wait for the stream to confirm one.

use std::collections::BTreeSet;

use crate::index::ConnectionId;

/// They are retried after this time, even if the stream brought nothing, in milliseconds.
const RETRY_MS: u64 = 1_000;

#[derive(Debug, Default)]
pub(crate) struct StalledSearches {
    connections: BTreeSet<ConnectionId>,
    due_ms: Option<u64>,
}

impl StalledSearches {
    /// Adds a connection whose search waits.
    pub(crate) fn add(&mut self, id: ConnectionId, now_ms: u64) {
        self.connections.insert(id);
        self.due_ms.get_or_insert(now_ms + RETRY_MS);
    }

    /// Takes all connections, to retry their searches.
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
