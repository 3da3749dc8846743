//! What still fits into memory, and who has to wait or is refused because of it.
//!
//! QoS 0 is dropped where there is no room. A message of QoS 1 or 2 is let in by its publisher's shard or refused there: once
//! it has been acknowledged, every shard takes it. A session that has taken more than its share closes its filters for
//! further messages, on all shards, until its client has caught up: see [`crate::session::throttled`].

mod steps;

use std::sync::Arc;

use tautwire_memory::{Kind, Limits, MemoryLedger, ShardMemory};

use crate::connection::connections::CONNECTION_BYTES;
use crate::session::throttle::Throttle;
use crate::session::throttled::ThrottledSessions;

/// What one more receiver of a message may take besides the message: its entry in a queue, with some for the growth of
/// the queue.
const PER_RECEIVER_BYTES: usize = 160;

/// Output that each connection may have however scarce memory is: without it, nobody could be answered.
const OUTPUT_RESERVED_BYTES: usize = 4 << 10;

/// The account of memory as this shard sees it: what its clients hold, what it may still take, and who has taken more than its share.
pub(crate) struct MemoryBudget {
    share: ShardMemory,
    /// Bytes that are free, less what has been taken since that was last looked at.
    free_bytes: u64,
    /// As long as so many are spare, other shards need not be looked at.
    refresh_below_bytes: u64,
    output_max_bytes: usize,
    /// The sessions of this shard for whose sake filters are closed on all shards.
    pub(crate) throttled: ThrottledSessions,
}

impl MemoryBudget {
    /// Before it has been looked at. One connection may have so much output.
    pub(crate) fn new(share: ShardMemory, output_max_bytes: usize, closed: Arc<Throttle>) -> MemoryBudget {
        let throttled = ThrottledSessions::new(closed);
        MemoryBudget { share, free_bytes: u64::MAX, refresh_below_bytes: 0, output_max_bytes, throttled }
    }

    /// What stands in it for this shard.
    #[inline]
    pub(crate) fn ledger(&self) -> &Arc<MemoryLedger> {
        self.share.ledger()
    }

    /// What fits, by the account of all shards.
    #[inline]
    pub(crate) fn share(&self) -> &ShardMemory {
        &self.share
    }

    /// From now on so much may be held.
    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.share.set_limits(limits);
    }

    /// Output of one connection beyond which it gets no more, and is not heard: the setting, or less where memory is scarce.
    #[inline]
    pub(crate) fn output_max_bytes(&self) -> usize {
        self.output_max_bytes
    }

    /// Whether an output in which so many bytes wait takes a message of QoS 0. An empty one takes any, so that one larger than the limit is not
    /// refused for ever.
    #[inline(always)]
    pub(crate) fn has_output_room(&self, pending_bytes: usize, payload_bytes: usize) -> bool {
        pending_bytes == 0 || pending_bytes + payload_bytes <= self.output_max_bytes
    }

    /// Looks at all shards, at the beginning of each turn. One connection may have `output_max_bytes` of output.
    #[inline]
    fn refresh(&mut self, retained_bytes: u64, output_max_bytes: usize) {
        self.share.look(retained_bytes);
        self.set_free_bytes(self.share.free_bytes());
        // A buffer that grows takes twice what is in it.
        let share_bytes = usize::try_from(self.share.unreserved_of(self.free_bytes) / 2).unwrap_or(usize::MAX);
        self.output_max_bytes = output_max_bytes.min(share_bytes.max(OUTPUT_RESERVED_BYTES));
    }

    /// Whether there is room for more output of a client for whom `pending_bytes` wait.
    #[inline]
    pub(crate) fn has_free_memory(&self, pending_bytes: usize, more_bytes: usize) -> bool {
        (pending_bytes + more_bytes) as u64 <= self.free_bytes
    }

    /// Takes room for output of a client for whom `pending_bytes` wait; false where there is none.
    #[inline]
    pub(crate) fn reserve_memory(&mut self, pending_bytes: usize, more_bytes: usize) -> bool {
        let fits = self.has_free_memory(pending_bytes, more_bytes);
        if fits {
            self.free_bytes -= more_bytes as u64;
            if self.free_bytes < self.refresh_below_bytes {
                // Other shards take of it too.
                self.set_free_bytes(self.free_bytes.min(self.share.free_bytes()));
            }
        }
        fits
    }

    /// The spare bytes are as the account has them. They may fall so far before it is looked at again.
    #[inline]
    fn set_free_bytes(&mut self, bytes: u64) {
        self.free_bytes = bytes;
        self.refresh_below_bytes = bytes.saturating_sub(self.share.step_bytes());
    }

    /// Whether one more connection may be there, before it holds anything. Connections take half of all at most.
    pub(crate) fn has_room_for_connection(&self) -> bool {
        let memory = self.share.memory();
        let held_bytes = memory.held(Kind::Connection) + memory.held(Kind::Transport);
        held_bytes + CONNECTION_BYTES as u64 <= self.share.limits().all_bytes / 2
    }

    /// Whether there is memory for a message of QoS 1 or 2 for so many receivers of this shard. One client must be able to hold it, and
    /// all of them together what they hold.
    #[inline(always)]
    pub(crate) fn has_room_for_message(&self, stored_bytes: usize, receivers: usize) -> bool {
        let one_bytes = stored_bytes.saturating_add(PER_RECEIVER_BYTES);
        let all_bytes = stored_bytes.saturating_add(receivers.max(1).saturating_mul(PER_RECEIVER_BYTES));
        // What is free for all of them is free for one.
        one_bytes as u64 <= self.share.limits().client_bytes && self.share.has_free(all_bytes)
    }

    /// What the messages of one session may take.
    #[inline]
    pub(crate) fn client_max_bytes(&self) -> u64 {
        self.free_bytes.min(self.share.limits().client_bytes)
    }
}
