//! The counters of delivery in this run of the node.

/// Counters since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeliveryCounters {
    /// Groups that have arrived.
    pub groups: u64,
    /// Groups that were lost by age or damage before this node read them.
    pub lost_groups: u64,
    /// Groups that were lost before lagging sessions read them. A read that two shards have shared counts once.
    pub lost_groups_behind: u64,
    /// Times a followed stream started too late and had to be read again.
    pub gaps: u64,
    /// Times no data was requested because the shards had `in_flight_max_bytes` unprocessed.
    pub stalls: u64,
    /// Reads for lagging sessions that went to the store.
    pub reads_stored: u64,
    /// Reads for lagging sessions that were answered from memory.
    pub reads_cached: u64,
    /// Reads that had to wait because `reads_max` were in progress.
    pub reads_waited: u64,
    /// Groups that were evicted from memory because of `cache_max_bytes`.
    pub cache_evictions: u64,
}
