//! Sessions that are to be looked at, in the order in which that comes due.

use std::collections::VecDeque;

use super::queue::pop_front_if;
use crate::index::SessionIndex;

/// A session, by its place and the epoch of its claim: that tells it from whichever has the place after it, even with the same client.
pub(super) type ClaimedSession = (SessionIndex, u64);

#[derive(Debug, Default)]
pub(super) struct DueQueue(VecDeque<(u64, ClaimedSession)>);

impl DueQueue {
    /// None of those before comes due later.
    pub(super) fn push(&mut self, at_ms: u64, claimed: ClaimedSession) {
        self.0.push_back((at_ms, claimed));
    }

    /// The next one that has come due.
    pub(super) fn next(&mut self, now_ms: u64) -> Option<ClaimedSession> {
        pop_front_if(&mut self.0, |(at_ms, _)| *at_ms <= now_ms).map(|(_, claimed)| claimed)
    }

    /// When the first one comes due.
    pub(super) fn first_ms(&self) -> Option<u64> {
        self.0.front().map(|(at_ms, _)| *at_ms)
    }
}
