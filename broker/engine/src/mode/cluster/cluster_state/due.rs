//! A queue of sessions to check, ordered by due time.

use std::collections::VecDeque;

use super::queue::pop_front_if;
use crate::index::SessionIndex;

/// A session, by its index and the epoch of its claim, which distinguishes it from a later session at the same index.
pub(super) type ClaimedSession = (SessionIndex, u64);

#[derive(Debug, Default)]
pub(super) struct DueQueue(VecDeque<(u64, ClaimedSession)>);

impl DueQueue {
    /// Adds a session. Due times must not decrease.
    pub(super) fn push(&mut self, at_ms: u64, claimed: ClaimedSession) {
        self.0.push_back((at_ms, claimed));
    }

    /// Removes the next session that is due.
    pub(super) fn next(&mut self, now_ms: u64) -> Option<ClaimedSession> {
        pop_front_if(&mut self.0, |(at_ms, _)| *at_ms <= now_ms).map(|(_, claimed)| claimed)
    }

    /// When the first session is due.
    pub(super) fn first_ms(&self) -> Option<u64> {
        self.0.front().map(|(at_ms, _)| *at_ms)
    }
}
