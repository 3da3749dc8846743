//! Paused connections by the reason for the pause: those that wait for something they cannot bring about themselves.
//!
//! A connection that waits for its own client to read output, or for its own packet to be processed, is not listed here: whatever ends the
//! wait resumes it.

use std::collections::{BTreeSet, VecDeque};

use tautwire_router::ShardIndex;

use crate::index::ConnectionId;

/// How often connections that wait for memory are resumed, to see whether there is some.
const RETRY_MS: u64 = 100;
/// How many of them at a time.
const RETRIES_MAX: usize = 64;

/// A connection that is paused within a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartialPacket {
    pub(super) id: ConnectionId,
    /// When the packet began.
    pub(super) since_ms: u64,
    /// The memory it needs: the rest of the packet, and as much as it has sent, so that clients leave room for each other.
    pub(super) wanted_bytes: usize,
}

/// The paused connections of a shard.
#[derive(Debug)]
pub(crate) struct PausedReaders {
    /// Each with the shard that it waits for.
    for_shard: Vec<(ShardIndex, ConnectionId)>,
    for_fan_out: Vec<ConnectionId>,
    /// Batches of other shards are not processed while receivers of an earlier one are deferred.
    batches_paused: bool,
    for_memory: VecDeque<ConnectionId>,
    /// When connections that wait for memory are resumed.
    retry_ms: u64,
    /// Connections with an incomplete packet, the longest waiting first.
    for_input: VecDeque<PartialPacket>,
    /// When they are resumed if there is room.
    input_retry_ms: u64,
    /// The one that may exceed the input budget.
    priority: Option<PartialPacket>,
    for_log: Vec<ConnectionId>,
    /// The longest waiting first.
    for_spill: VecDeque<ConnectionId>,
    /// The longest waiting first.
    for_transcoding: VecDeque<ConnectionId>,
    /// Connections over their publish rate, by the time at which they resume.
    for_rate: BTreeSet<(u64, ConnectionId)>,
    /// The first of these times.
    next_rate_ms: u64,
}

/// A time that is never reached.
const NEVER_MS: u64 = u64::MAX;

impl Default for PausedReaders {
    fn default() -> PausedReaders {
        PausedReaders {
            for_shard: Vec::new(),
            for_fan_out: Vec::new(),
            batches_paused: false,
            for_memory: VecDeque::new(),
            retry_ms: 0,
            for_input: VecDeque::new(),
            input_retry_ms: 0,
            priority: None,
            for_log: Vec::new(),
            for_spill: VecDeque::new(),
            for_transcoding: VecDeque::new(),
            for_rate: BTreeSet::new(),
            next_rate_ms: NEVER_MS,
        }
    }
}

impl PausedReaders {
    // Waiting for the channel to another shard.

    pub(crate) fn wait_for_shard(&mut self, shard: ShardIndex, id: ConnectionId) {
        self.for_shard.push((shard, id));
    }

    #[inline]
    pub(crate) fn any_for_shard(&self) -> bool {
        !self.for_shard.is_empty()
    }

    /// Whether a connection waits for a shard whose channel is not full.
    pub(crate) fn any_ready(&self, is_full_to: impl Fn(ShardIndex) -> bool) -> bool {
        self.for_shard.iter().any(|(shard, _)| !is_full_to(*shard))
    }

    /// Removes the connections that wait for a shard whose channel is not full.
    pub(crate) fn take_ready_for_shard(&mut self, is_full_to: impl Fn(ShardIndex) -> bool) -> Vec<ConnectionId> {
        let ready = self.for_shard.extract_if(.., |(shard, _)| !is_full_to(*shard));
        ready.map(|(_, id)| id).collect()
    }

    // Waiting for a turn with time to transcode payloads.

    pub(crate) fn pause_for_transcoding(&mut self, id: ConnectionId) {
        self.for_transcoding.push_back(id);
    }

    /// Whether a connection waits.
    #[inline]
    pub(crate) fn any_for_transcoding(&self) -> bool {
        !self.for_transcoding.is_empty()
    }

    /// Removes the connection that has waited longest.
    #[inline]
    pub(crate) fn next_for_transcoding(&mut self) -> Option<ConnectionId> {
        self.for_transcoding.pop_front()
    }

    // Waiting for the deferred receivers of a fan-out.

    pub(crate) fn wait_for_fan_out(&mut self, id: ConnectionId) {
        self.for_fan_out.push(id);
    }

    pub(crate) fn pause_batches(&mut self) {
        self.batches_paused = true;
    }

    /// Whether batches of other shards are processed now.
    #[inline]
    pub(crate) fn accepts_batches(&self) -> bool {
        !self.batches_paused
    }

    /// How many connections wait.
    pub(crate) fn len_for_fan_out(&self) -> usize {
        self.for_fan_out.len()
    }

    /// Whether connections or batches wait.
    #[inline]
    pub(crate) fn any_for_fan_out(&self) -> bool {
        self.batches_paused || !self.for_fan_out.is_empty()
    }

    /// Removes all: no receiver is deferred any more.
    pub(crate) fn take_for_fan_out(&mut self) -> Vec<ConnectionId> {
        self.batches_paused = false;
        std::mem::take(&mut self.for_fan_out)
    }

    // Waiting for memory.

    pub(crate) fn pause_for_memory(&mut self, id: ConnectionId) {
        self.for_memory.push_back(id);
    }

    /// Removes the connections to resume now, the longest waiting first.
    #[inline(always)]
    pub(crate) fn retries(&mut self, now_ms: u64) -> Vec<ConnectionId> {
        if self.for_memory.is_empty() || now_ms < self.retry_ms { Vec::new() } else { self.take_retries(now_ms) }
    }

    #[cold]
    fn take_retries(&mut self, now_ms: u64) -> Vec<ConnectionId> {
        self.retry_ms = now_ms + RETRY_MS;
        let count = self.for_memory.len().min(RETRIES_MAX);
        self.for_memory.drain(..count).collect()
    }

    /// When the next connections are resumed.
    #[inline]
    pub(crate) fn next_retry_ms(&self) -> Option<u64> {
        let for_memory_ms = if self.for_memory.is_empty() { NEVER_MS } else { self.retry_ms };
        let for_input_ms = if self.for_input.is_empty() { NEVER_MS } else { self.input_retry_ms };
        let next_ms = for_memory_ms.min(for_input_ms).min(self.next_rate_ms);
        (next_ms != NEVER_MS).then_some(next_ms)
    }

    // Waiting for the log to accept writes.

    pub(crate) fn wait_for_log(&mut self, id: ConnectionId) {
        self.for_log.push(id);
    }

    #[inline]
    pub(crate) fn any_for_log(&self) -> bool {
        !self.for_log.is_empty()
    }

    /// Removes all: the log accepts writes again.
    pub(crate) fn take_for_log(&mut self) -> Vec<ConnectionId> {
        std::mem::take(&mut self.for_log)
    }

    // Waiting for the spill store to write.

    pub(crate) fn wait_for_spill(&mut self, id: ConnectionId) {
        self.for_spill.push_back(id);
    }

    #[inline]
    pub(crate) fn any_for_spill(&self) -> bool {
        !self.for_spill.is_empty()
    }

    /// Removes the connection that has waited longest.
    pub(crate) fn next_for_spill(&mut self) -> Option<ConnectionId> {
        self.for_spill.pop_front()
    }

    // Waiting for the publish rate.

    pub(crate) fn wait_for_rate(&mut self, at_ms: u64, id: ConnectionId) {
        self.for_rate.insert((at_ms, id));
        self.update_next_rate();
    }

    /// Removes a connection that ends.
    pub(crate) fn remove_rate(&mut self, at_ms: u64, id: ConnectionId) {
        self.for_rate.remove(&(at_ms, id));
        self.update_next_rate();
    }

    /// Whether a connection is due.
    #[inline]
    pub(crate) fn is_due_for_rate(&self, now_ms: u64) -> bool {
        now_ms >= self.next_rate_ms
    }

    /// Removes the next connection that is due.
    pub(crate) fn next_for_rate(&mut self, now_ms: u64) -> Option<ConnectionId> {
        self.for_rate.first().filter(|(at_ms, _)| *at_ms <= now_ms)?;
        let next = self.for_rate.pop_first();
        self.update_next_rate();
        next.map(|(_, id)| id)
    }

    fn update_next_rate(&mut self) {
        self.next_rate_ms = self.for_rate.first().map_or(NEVER_MS, |(at_ms, _)| *at_ms);
    }

    // Waiting for memory for the rest of a packet.

    pub(crate) fn wait_for_input(&mut self, partial: PartialPacket) {
        let at = self.for_input.partition_point(|other| other.since_ms <= partial.since_ms);
        self.for_input.insert(at, partial);
    }

    #[inline]
    pub(crate) fn any_for_input(&self) -> bool {
        !self.for_input.is_empty()
    }

    /// Removes those that fit into `free_bytes`, the longest waiting first.
    pub(crate) fn input_retries(&mut self, now_ms: u64, mut free_bytes: usize) -> Vec<ConnectionId> {
        if now_ms < self.input_retry_ms {
            return Vec::new();
        }
        self.input_retry_ms = now_ms + RETRY_MS;
        let mut retries = Vec::new();
        while let Some(partial) = self.for_input.front()
            && partial.wanted_bytes <= free_bytes
            && retries.len() < RETRIES_MAX
        {
            free_bytes -= partial.wanted_bytes;
            retries.push(partial.id);
            self.for_input.pop_front();
        }
        retries
    }

    /// The one that may exceed the input budget, if any.
    pub(crate) fn priority(&self) -> Option<PartialPacket> {
        self.priority
    }

    /// Whether this one has priority, still with the same packet.
    pub(crate) fn has_priority(&self, partial: &PartialPacket) -> bool {
        self.priority.is_some_and(|first| first.id == partial.id && first.since_ms == partial.since_ms)
    }

    /// Gives priority to the longest waiting, or continues with `first`, which has it. Returns the connection to resume.
    pub(crate) fn next_priority(&mut self, first: Option<PartialPacket>) -> Option<ConnectionId> {
        let next = match first {
            None => self.for_input.pop_front(),
            Some(first) => {
                let at = self.for_input.iter().position(|partial| partial.id == first.id)?;
                self.for_input.remove(at)
            }
        };
        self.priority = next;
        next.map(|next| next.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(index: u32) -> ConnectionId {
        ConnectionId { index, generation: 0 }
    }

    #[test]
    fn clients_that_wait_for_memory_retry_at_different_times() {
        let mut paused_readers = PausedReaders::default();
        assert_eq!((paused_readers.next_retry_ms(), paused_readers.retries(1_000)), (None, Vec::new()));
        for index in 0..RETRIES_MAX as u32 + 1 {
            paused_readers.pause_for_memory(id(index));
        }
        assert_eq!(paused_readers.retries(1_000).len(), RETRIES_MAX);
        assert_eq!(paused_readers.next_retry_ms(), Some(1_000 + RETRY_MS));
        assert_eq!(paused_readers.retries(1_000 + RETRY_MS - 1), []);
        assert_eq!(paused_readers.retries(1_000 + RETRY_MS), [id(RETRIES_MAX as u32)]);
        assert_eq!(paused_readers.next_retry_ms(), None);
    }

    #[test]
    fn incomplete_packets_resume_oldest_first_when_memory_is_free() {
        let mut paused_readers = PausedReaders::default();
        for (index, since_ms, wanted_bytes) in [(1, 30, 100), (2, 10, 300), (3, 20, 50)] {
            paused_readers.wait_for_input(PartialPacket { id: id(index), since_ms, wanted_bytes });
        }
        assert_eq!(paused_readers.input_retries(1_000, 299), [], "there is no room for the oldest");
        assert_eq!(paused_readers.next_retry_ms(), Some(1_000 + RETRY_MS));
        assert_eq!(paused_readers.input_retries(1_000 + RETRY_MS, 350), [id(2), id(3)]);
        assert_eq!(paused_readers.next_priority(None), Some(id(1)));
        let partial = PartialPacket { id: id(1), since_ms: 30, wanted_bytes: 60 };
        assert!(paused_readers.has_priority(&partial));
        assert!(!paused_readers.has_priority(&PartialPacket { since_ms: 31, ..partial }), "that is another packet");
        // It has used all the room, and waits like others.
        paused_readers.wait_for_input(PartialPacket { id: id(4), since_ms: 5, wanted_bytes: 1 });
        paused_readers.wait_for_input(partial);
        assert_eq!(paused_readers.next_priority(paused_readers.priority()), Some(id(1)));
        assert_eq!(paused_readers.next_priority(paused_readers.priority()), None, "it is being read from");
        assert_eq!(paused_readers.next_priority(None), Some(id(4)));
        assert_eq!(
            (paused_readers.next_priority(None), paused_readers.priority(), paused_readers.next_retry_ms()),
            (None, None, None)
        );
    }

    #[test]
    fn a_rate_limited_publisher_resumes_at_its_deadline() {
        let mut paused_readers = PausedReaders::default();
        for (at_ms, index) in [(1_300, 1), (1_100, 2), (1_200, 3)] {
            paused_readers.wait_for_rate(at_ms, id(index));
        }
        assert_eq!((paused_readers.next_retry_ms(), paused_readers.next_for_rate(1_099)), (Some(1_100), None));
        paused_readers.remove_rate(1_200, id(3));
        assert_eq!(paused_readers.next_for_rate(1_300), Some(id(2)));
        assert_eq!(paused_readers.next_for_rate(1_300), Some(id(1)));
        assert_eq!((paused_readers.next_for_rate(1_300), paused_readers.next_retry_ms()), (None, None));
    }

    #[test]
    fn pause_reasons_end_one_by_one() {
        let mut paused_readers = PausedReaders::default();
        let (full, other) = (ShardIndex(1), ShardIndex(2));
        paused_readers.wait_for_shard(full, id(1));
        paused_readers.wait_for_shard(other, id(3));
        paused_readers.wait_for_fan_out(id(2));
        paused_readers.pause_batches();
        assert!(paused_readers.any_ready(|shard| shard == full));
        assert!(paused_readers.any_for_fan_out() && !paused_readers.accepts_batches());
        assert_eq!(paused_readers.take_for_fan_out(), [id(2)]);
        assert!(paused_readers.accepts_batches() && !paused_readers.any_for_fan_out());
        assert_eq!(paused_readers.take_ready_for_shard(|shard| shard == full), [id(3)]);
        assert!(!paused_readers.any_ready(|shard| shard == full));
        assert_eq!(paused_readers.take_ready_for_shard(|_| false), [id(1)]);
        assert!(!paused_readers.any_ready(|_| false));
    }
}
