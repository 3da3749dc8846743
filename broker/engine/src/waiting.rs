//! Who is not heard, by the reason for it: all connections of a shard that wait for something which they cannot bring about
//! themselves.
//!
//! A connection that waits for its own client to take output, or for a packet of its own to be worked off, is not here: it is
//! heard again by whoever notices that.

use std::collections::VecDeque;

use crate::place::ConnectionId;

/// How often those who wait for memory are heard again, to see whether there is some.
const RETRY_MS: u64 = 100;
/// How many of them at a time.
const RETRIES_MAX: usize = 64;

/// The connections that wait.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    for_transit: Vec<ConnectionId>,
    for_fan_out: Vec<ConnectionId>,
    /// Batches of other shards are not taken while those stand in line who are to get what an earlier one brought.
    batches: bool,
    for_memory: VecDeque<ConnectionId>,
    /// When those who wait for memory are heard again.
    retry_ms: u64,
}

impl Waiting {
    // For another shard to take what is meant for it.

    pub(crate) fn wait_for_transit(&mut self, id: ConnectionId) {
        self.for_transit.push(id);
    }

    #[inline]
    pub(crate) fn any_for_transit(&self) -> bool {
        !self.for_transit.is_empty()
    }

    /// No way to another shard is full any more.
    pub(crate) fn end_of_transit(&mut self) -> Vec<ConnectionId> {
        std::mem::take(&mut self.for_transit)
    }

    // For those who stand in line for a fan-out to be written to.

    pub(crate) fn wait_for_fan_out(&mut self, id: ConnectionId) {
        self.for_fan_out.push(id);
    }

    pub(crate) fn hold_batches(&mut self) {
        self.batches = true;
    }

    /// Whether batches of other shards are taken now.
    #[inline]
    pub(crate) fn takes_batches(&self) -> bool {
        !self.batches
    }

    /// How many connections wait.
    pub(crate) fn len_for_fan_out(&self) -> usize {
        self.for_fan_out.len()
    }

    /// Whether anybody waits, or batches do.
    #[inline]
    pub(crate) fn any_for_fan_out(&self) -> bool {
        self.batches || !self.for_fan_out.is_empty()
    }

    /// Nobody stands in line any more.
    pub(crate) fn end_of_fan_out(&mut self) -> Vec<ConnectionId> {
        self.batches = false;
        std::mem::take(&mut self.for_fan_out)
    }

    // For memory.

    pub(crate) fn wait_for_memory(&mut self, id: ConnectionId) {
        self.for_memory.push_back(id);
    }

    /// Those who are to try now, the longest waiting first.
    #[inline]
    pub(crate) fn retries(&mut self, now_ms: u64) -> Vec<ConnectionId> {
        if self.for_memory.is_empty() || now_ms < self.retry_ms {
            return Vec::new();
        }
        self.retry_ms = now_ms + RETRY_MS;
        let count = self.for_memory.len().min(RETRIES_MAX);
        self.for_memory.drain(..count).collect()
    }

    /// When some are to try again.
    #[inline]
    pub(crate) fn next_retry_ms(&self) -> Option<u64> {
        (!self.for_memory.is_empty()).then_some(self.retry_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(index: u32) -> ConnectionId {
        ConnectionId { index, generation: 0 }
    }

    #[test]
    fn whoever_waits_for_memory_tries_again_from_time_to_time_and_not_all_at_once() {
        let mut waiting = Waiting::default();
        assert_eq!((waiting.next_retry_ms(), waiting.retries(1_000)), (None, Vec::new()));
        for index in 0..RETRIES_MAX as u32 + 1 {
            waiting.wait_for_memory(id(index));
        }
        assert_eq!(waiting.retries(1_000).len(), RETRIES_MAX);
        assert_eq!(waiting.next_retry_ms(), Some(1_000 + RETRY_MS));
        assert_eq!(waiting.retries(1_000 + RETRY_MS - 1), []);
        assert_eq!(waiting.retries(1_000 + RETRY_MS), [id(RETRIES_MAX as u32)]);
        assert_eq!(waiting.next_retry_ms(), None);
    }

    #[test]
    fn reasons_end_one_by_one() {
        let mut waiting = Waiting::default();
        waiting.wait_for_transit(id(1));
        waiting.wait_for_fan_out(id(2));
        waiting.hold_batches();
        assert!(waiting.any_for_transit() && waiting.any_for_fan_out() && !waiting.takes_batches());
        assert_eq!(waiting.end_of_fan_out(), [id(2)]);
        assert!(waiting.takes_batches() && !waiting.any_for_fan_out());
        assert_eq!(waiting.end_of_transit(), [id(1)]);
        assert!(!waiting.any_for_transit());
    }
}
