//! Choosing retained messages to spill.

use tautwire_message::{Body, MessageRef};

use crate::mode::Mode;
use crate::routing::publish_packets::OutgoingPublish;
use crate::shard::ShardState;
use crate::storage::spill::spilling::{ORDER_BYTES, SPILL_MIN_BYTES, SpillBatch};
use crate::storage::spill::{Holder, SpillState};

/// Nodes of the tree of retained messages visited in a turn.
const WALK_STEPS: u64 = 4 << 10;

impl SpillState {
    /// The maximum size of the queue. The rest is left to the walk: the store has failed, or is too slow.
    fn leaving_max_bytes(&self) -> u64 {
        self.loaded_max_bytes / 2
    }

    /// Above this many bytes of retained messages in memory, new ones are queued.
    fn spill_queue_threshold_bytes(&self) -> u64 {
        self.loaded_max_bytes / 4
    }
}

impl<M: Mode> ShardState<M> {
    /// Queues a new retained message for spilling if many are in memory.
    #[inline]
    pub(crate) fn queue_retained_for_spill(&mut self, outgoing: &OutgoingPublish<'_>) {
        if self.can_use_spill_store()
            && self.context.exchange().retained_loaded_bytes() > self.spill.spill_queue_threshold_bytes()
        {
            self.queue_retained(outgoing);
        }
    }

    #[cold]
    fn queue_retained(&mut self, outgoing: &OutgoingPublish<'_>) {
        let MessageRef { topic, payload, .. } = outgoing.message;
        let bytes = outgoing.message.allocated_bytes();
        if payload.is_empty() || bytes < SPILL_MIN_BYTES || topic.starts_with("$SYS/") {
            return;
        }
        let ShardState { spill, context, .. } = self;
        let exchange = context.exchange();
        spill.retained.push(topic, bytes, exchange);
        while spill.retained.bytes as u64 > spill.leaving_max_bytes() {
            spill.retained.pop(exchange);
        }
    }

    /// Clears the queue if few messages are in memory, since most entries were replaced or cleared.
    #[inline]
    pub(in crate::storage::spill) fn remove_replaced(&mut self) {
        let ShardState { spill, context, .. } = self;
        let exchange = context.exchange();
        if !spill.retained.is_empty() && exchange.retained_loaded_bytes() <= spill.spill_queue_threshold_bytes() {
            while spill.retained.pop(exchange).is_some() {}
        }
    }

    /// Writes queued retained messages, as far as the store accepts them now.
    pub(in crate::storage::spill) fn write_retained(&mut self) {
        while !self.spill.retained.is_empty() && self.can_spill() {
            let mut picked = SpillBatch::default();
            let mut written = Vec::new();
            let most_bytes = ORDER_BYTES.min(usize::try_from(self.excess_bytes()).unwrap_or(usize::MAX));
            let ShardState { spill, context, .. } = self;
            let exchange = context.exchange();
            while picked.bytes < most_bytes
                && let Some(topic) = spill.retained.pop(exchange)
            {
                let Some(Body::Loaded(message)) = exchange.retained_message(&topic) else { continue };
                match spill.known.get(message.id()).cloned() {
                    Some(spill) => written.push((message, spill)),
                    None => spill.pick(message, Holder::Retained, &mut picked),
                }
            }
            if !written.is_empty() {
                self.context.exchange().spill_retained(written);
            }
            self.write_spilled(picked);
        }
    }

    /// Whether this shard must walk the retained messages. The first shard does so for all, when they take half of the limit and many
    /// have changed since the last walk.
    pub(in crate::storage::spill) fn must_walk(&self) -> bool {
        let loaded_bytes = self.context.exchange().retained_resident_bytes();
        self.context.is_first()
            && loaded_bytes > self.spill.loaded_max_bytes / 2
            && (self.spill.walk.is_running()
                || loaded_bytes.abs_diff(self.spill.walked_bytes) > self.spill.loaded_max_bytes / 8)
    }

    pub(in crate::storage::spill) fn pick_retained(&mut self, picked: &mut SpillBatch, most_bytes: usize) {
        let mut found = Vec::new();
        let mut steps = WALK_STEPS;
        let excess_bytes =
            self.context.exchange().retained_resident_bytes().saturating_sub(self.spill.loaded_max_bytes / 4);
        let most_bytes = most_bytes.min(usize::try_from(excess_bytes).unwrap_or(usize::MAX));
        self.context.exchange().loaded_retained(
            &mut self.spill.walk,
            &mut steps,
            SPILL_MIN_BYTES,
            most_bytes,
            &mut found,
        );
        if !self.spill.walk.is_running() {
            self.spill.walked_bytes = self.context.exchange().retained_resident_bytes();
        }
        for message in found {
            self.spill.pick(message, Holder::Retained, picked);
        }
    }
}
