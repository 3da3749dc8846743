//! A shard's index, and the state that it shares with the other shards.

use std::sync::Arc;

use tautwire_message::{MessageId, MessageIds};
use tautwire_router::{Exchange, ShardIndex};

use crate::counters::{Counter, Counters, Totals};
use crate::operations::latency::LatencyCounts;
use crate::routing::transcoding::RequestedFormats;
use crate::shared::Shared;
use crate::storage::spill::Backlog;

/// A shard's index and its references to shared state.
pub(crate) struct ShardContext {
    shard: ShardIndex,
    exchange: Arc<Exchange>,
    all_counters: Arc<[Counters]>,
    latencies: Arc<[LatencyCounts]>,
    /// Whether any client has ever requested a payload format.
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

    /// Changes the run number in message identifiers. Call it before any identifier is assigned.
    pub(crate) fn change_run(&mut self, to: impl FnOnce(u64) -> u64) {
        self.message_ids = MessageIds::new(to(self.message_ids.run()));
    }

    /// This shard's index.
    #[inline]
    pub(crate) fn shard(&self) -> ShardIndex {
        self.shard
    }

    /// Whether this shard does the work that one shard does for all.
    #[inline]
    pub(crate) fn is_first(&self) -> bool {
        self.shard == ShardIndex(0)
    }

    #[inline]
    pub(crate) fn exchange(&self) -> &Arc<Exchange> {
        &self.exchange
    }

    /// This shard's counters.
    #[inline]
    pub(crate) fn counters(&self) -> &Counters {
        &self.all_counters[usize::from(self.shard.0)]
    }

    /// This shard's latency histograms.
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

    /// The bytes that all shards have queued for the spill store to write.
    #[inline]
    pub(crate) fn backlog(&self) -> &Backlog {
        &self.backlog
    }

    /// Returns a new message identifier.
    #[inline]
    pub(crate) fn next_message_id(&self) -> MessageId {
        self.message_ids.next_id()
    }
}
