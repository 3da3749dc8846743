//! Pending messages for other shards.

use std::collections::VecDeque;
use std::sync::Arc;

use tautwire_memory::MemoryLedger;
use tautwire_router::{Batch, BatchSize, ShardIndex};

/// A batch that holds this much is complete, and a new one is started.
const BATCH_BYTES: usize = 64 << 10;

/// The outboxes of a shard, one for each other shard.
#[derive(Debug)]
pub(crate) struct ShardOutboxes {
    outboxes: Box<[ShardOutbox]>,
}

/// Pending batches for one other shard.
#[derive(Debug, Default)]
struct ShardOutbox {
    batches: VecDeque<Batch>,
    /// The number of batches that the channel accepts at present.
    room: usize,
    last: BatchSize,
    /// Messages for the shard that this run has recorded in the log.
    forwarded: u64,
}

impl ShardOutbox {
    fn is_full(&self) -> bool {
        self.batches.len() > self.room
    }

    fn batch(&mut self, read_at_us: u64, ledger: &Arc<MemoryLedger>) -> &mut Batch {
        if self.batches.back().is_none_or(|batch| batch.held_bytes() >= BATCH_BYTES) {
            self.batches.push_back(Batch::with_size_of(&self.last, read_at_us, ledger));
        }
        let last = self.batches.len() - 1;
        &mut self.batches[last]
    }
}

impl ShardOutboxes {
    /// Outboxes for `shards` shards.
    pub(crate) fn new(shards: usize) -> ShardOutboxes {
        ShardOutboxes { outboxes: (0..shards).map(|_| ShardOutbox::default()).collect() }
    }

    /// The number of shards, including this one.
    #[inline]
    pub(crate) fn shards(&self) -> usize {
        self.outboxes.len()
    }

    /// Whether any channel is full, so that messages of QoS 1 and 2 cannot be accepted.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.first_full().is_some()
    }

    /// The first shard whose channel is full.
    #[inline]
    pub(crate) fn first_full(&self) -> Option<ShardIndex> {
        self.outboxes.iter().position(ShardOutbox::is_full).map(|shard| ShardIndex(shard as u8))
    }

    /// Whether the channel to `shard` is full.
    #[inline]
    pub(crate) fn is_full_to(&self, shard: ShardIndex) -> bool {
        self.outboxes[usize::from(shard.0)].is_full()
    }

    /// Sets how many batches the channel to `shard` accepts at present.
    pub(crate) fn set_capacity(&mut self, shard: ShardIndex, batches: usize) {
        self.outboxes[usize::from(shard.0)].room = batches;
    }

    /// Whether there is a batch for `shard`.
    pub(crate) fn has_batch(&self, shard: ShardIndex) -> bool {
        !self.outboxes[usize::from(shard.0)].batches.is_empty()
    }

    /// Sends as many batches to `shard` as its channel has room for.
    pub(crate) fn send(&mut self, shard: ShardIndex, send: impl FnOnce(&mut dyn Iterator<Item = Batch>)) {
        let outbox = &mut self.outboxes[usize::from(shard.0)];
        let count = outbox.room.min(outbox.batches.len());
        if count > 0 {
            let ShardOutbox { batches, last, .. } = outbox;
            send(&mut batches.drain(..count).inspect(|batch| *last = batch.size()));
            outbox.room -= count;
        }
    }

    /// The number of the next recorded message for `shard`.
    pub(crate) fn next_forwarded(&mut self, shard: ShardIndex) -> u64 {
        let forwarded = &mut self.outboxes[usize::from(shard.0)].forwarded;
        *forwarded += 1;
        *forwarded
    }

    /// The batch for a message to `shard` that was read at `read_at_us`; `None` if the channel is full and the message `may_be_lost`.
    #[inline]
    pub(crate) fn batch_for(
        &mut self,
        shard: ShardIndex,
        may_be_lost: bool,
        read_at_us: u64,
        ledger: &Arc<MemoryLedger>,
    ) -> Option<&mut Batch> {
        let outbox = &mut self.outboxes[usize::from(shard.0)];
        if may_be_lost && outbox.is_full() { None } else { Some(outbox.batch(read_at_us, ledger)) }
    }
}
