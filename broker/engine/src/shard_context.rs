//! What a shard has in common with the others of its broker, and which of them it is.

use std::sync::Arc;

use tautwire_message::{MessageId, MessageIds};
use tautwire_router::{Exchange, ShardIndex};

use crate::counters::{Counter, Counters, Totals};
use crate::operations::latency::LatencyCounts;
use crate::routing::transcoding::RequestedFormats;
use crate::shared::Shared;
use crate::storage::spill::Backlog;

/// This shard among all shards.
pub(crate) struct ShardContext {
    shard: ShardIndex,
    exchange: Arc<Exchange>,
    all_counters: Arc<[Counters]>,
    latencies: Arc<[LatencyCounts]>,
    /// Whether anybody has wanted payloads in a format of their own.
    requested_formats: Arc<RequestedFormats>,
    backlog: Arc<Backlog>,
    message_ids: MessageIds,
}

impl ShardContext {
    pub(crate) fn new(shard: ShardIndex, shared: &Shared) -> ShardContext {
        ShardContext {
            shard,
            exchange: shared.exchange.clone(),
            all_counters: shared.counters.clone(),
            latencies: shared.latencies.clone(),
            requested_formats: shared.requested_formats.clone(),
            backlog: shared.backlog.clone(),
            message_ids: MessageIds::new(shared.run.wrapping_add(u64::from(shard.0))),
        }
    }

    /// Messages are numbered in another run from now on. To be called before any is.
    pub(crate) fn move_run(&mut self, to: impl FnOnce(u64) -> u64) {
        self.message_ids = MessageIds::new(to(self.message_ids.run()));
    }

    /// Which of them this shard is.
    #[inline]
    pub(crate) fn shard(&self) -> ShardIndex {
        self.shard
    }

    /// Whether this shard does what one does for all.
    #[inline]
    pub(crate) fn is_first(&self) -> bool {
        self.shard == ShardIndex(0)
    }

    #[inline]
    pub(crate) fn exchange(&self) -> &Arc<Exchange> {
        &self.exchange
    }

    /// Those of this shard.
    #[inline]
    pub(crate) fn counters(&self) -> &Counters {
        &self.all_counters[usize::from(self.shard.0)]
    }

    /// Where this shard counts how long it takes.
    #[inline]
    pub(crate) fn latencies(&self) -> &LatencyCounts {
        &self.latencies[usize::from(self.shard.0)]
    }

    /// One counter over all shards.
    pub(crate) fn sum(&self, counter: impl Fn(&Counters) -> &Counter) -> u64 {
        self.all_counters.iter().fold(0, |sum, counters| sum.wrapping_add(counter(counters).get()))
    }

    /// All counters over all shards.
    pub(crate) fn totals(&self) -> Totals {
        Totals::of(self.all_counters.iter())
    }

    #[inline]
    pub(crate) fn requested_formats(&self) -> &RequestedFormats {
        &self.requested_formats
    }

    /// What the store of cold messages has been given to write by all shards.
    #[inline]
    pub(crate) fn backlog(&self) -> &Backlog {
        &self.backlog
    }

    /// An identity for a message that has none.
    #[inline]
    pub(crate) fn next_message_id(&self) -> MessageId {
        self.message_ids.next_id()
    }
}
