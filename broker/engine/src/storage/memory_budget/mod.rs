//! The memory budget of a shard, and what is refused or paused because of it.
//!
//! QoS 0 is dropped if there is no room. A message of QoS 1 or 2 is admitted or refused by its publisher's shard: once it has been
//! acknowledged, every shard accepts it. A session that exceeds its share blocks its filters on all shards until its client has
//! caught up: see [`crate::session::throttled`].

mod steps;

use std::sync::Arc;

use tautwire_memory::{Kind, Limits, MemoryLedger, ShardMemory};

use crate::connection::connections::CONNECTION_BYTES;
use crate::session::throttle::Throttle;
use crate::session::throttled::ThrottledSessions;

/// The memory of one more receiver besides the message: its queue entry, with some spare for the growth of the queue.
const PER_RECEIVER_BYTES: usize = 160;

/// Output bytes reserved for each connection. Without them, clients could not be answered when memory is short.
const OUTPUT_RESERVED_BYTES: usize = 4 << 10;

/// The memory budget as seen by one shard: usage of its clients, free memory, and throttled sessions.
pub(crate) struct MemoryBudget {
    share: ShardMemory,
    /// Free bytes at the last refresh, less what was reserved since.
    free_bytes: u64,
    /// Below this many free bytes, the usage of other shards is read again.
    refresh_below_bytes: u64,
    output_max_bytes: usize,
    /// The sessions of this shard that block filters on all shards.
    pub(crate) throttled: ThrottledSessions,
}

impl MemoryBudget {
    /// A budget before the first refresh, with the limit on output of one connection.
    pub(crate) fn new(share: ShardMemory, output_max_bytes: usize, closed: Arc<Throttle>) -> MemoryBudget {
        let throttled = ThrottledSessions::new(closed);
        MemoryBudget { share, free_bytes: u64::MAX, refresh_below_bytes: 0, output_max_bytes, throttled }
    }

    /// The ledger of this shard.
    #[inline]
    pub(crate) fn ledger(&self) -> &Arc<MemoryLedger> {
        self.share.ledger()
    }

    /// The memory limits, over all shards.
    #[inline]
    pub(crate) fn share(&self) -> &ShardMemory {
        &self.share
    }

    /// Sets the memory limits.
    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.share.set_limits(limits);
    }

    /// The limit on output of one connection, beyond which reading from it is paused: the setting, or less if memory is short.
    #[inline]
    pub(crate) fn output_max_bytes(&self) -> usize {
        self.output_max_bytes
    }

    /// Whether an output with `pending_bytes` accepts a message of QoS 0. An empty output accepts any, so that messages larger than the
    /// limit can be sent.
    #[inline(always)]
    pub(crate) fn has_output_room(&self, pending_bytes: usize, payload_bytes: usize) -> bool {
        pending_bytes == 0 || pending_bytes + payload_bytes <= self.output_max_bytes
    }

    /// Reads the usage of all shards, at the beginning of each turn. `output_max_bytes` is the configured limit on output.
    #[inline]
    fn refresh(&mut self, retained_bytes: u64, output_max_bytes: usize) {
        self.share.look(retained_bytes);
        self.set_free_bytes(self.share.free_bytes());
        // A growing buffer takes twice its content.
        let share_bytes = usize::try_from(self.share.unreserved_of(self.free_bytes) / 2).unwrap_or(usize::MAX);
        self.output_max_bytes = output_max_bytes.min(share_bytes.max(OUTPUT_RESERVED_BYTES));
    }

    /// Whether there is memory for more output of a client with `pending_bytes`.
    #[inline]
    pub(crate) fn has_free_memory(&self, pending_bytes: usize, more_bytes: usize) -> bool {
        (pending_bytes + more_bytes) as u64 <= self.free_bytes
    }

    /// Reserves memory for output of a client with `pending_bytes`; returns false if there is none.
    #[inline]
    pub(crate) fn reserve_memory(&mut self, pending_bytes: usize, more_bytes: usize) -> bool {
        let fits = self.has_free_memory(pending_bytes, more_bytes);
        if fits {
            self.free_bytes -= more_bytes as u64;
            if self.free_bytes < self.refresh_below_bytes {
                // Other shards use the same memory.
                self.set_free_bytes(self.free_bytes.min(self.share.free_bytes()));
            }
        }
        fits
    }

    /// Sets the free bytes, and the level at which they are read again.
    #[inline]
    fn set_free_bytes(&mut self, bytes: u64) {
        self.free_bytes = bytes;
        self.refresh_below_bytes = bytes.saturating_sub(self.share.step_bytes());
    }

    /// Whether there is memory for one more connection. Connections take at most half of all memory.
    pub(crate) fn has_room_for_connection(&self) -> bool {
        let memory = self.share.memory();
        let held_bytes = memory.held(Kind::Connection) + memory.held(Kind::Transport);
        held_bytes + CONNECTION_BYTES as u64 <= self.share.limits().all_bytes / 2
    }

    /// Whether there is memory for a message of QoS 1 or 2 with this many receivers, under the limits of one client and of all.
    #[inline(always)]
    pub(crate) fn has_room_for_message(&self, stored_bytes: usize, receivers: usize) -> bool {
        let one_bytes = stored_bytes.saturating_add(PER_RECEIVER_BYTES);
        let all_bytes = stored_bytes.saturating_add(receivers.max(1).saturating_mul(PER_RECEIVER_BYTES));
        // Memory that is free for all of them is free for one.
        one_bytes as u64 <= self.share.limits().client_bytes && self.share.has_free(all_bytes)
    }

    /// The limit on memory for the messages of one session.
    #[inline]
    pub(crate) fn client_max_bytes(&self) -> u64 {
        self.free_bytes.min(self.share.limits().client_bytes)
    }
}
