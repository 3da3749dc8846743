//! What delivery has done in this life of the node.

/// Counts from the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeliveryCounters {
    /// Groups that have arrived.
    pub groups: u64,
    /// Groups that were gone, by age or by damage, before this node came to them.
    pub lost_groups: u64,
    /// The same, before those who are behind came to them. What two shards have read together counts once.
    pub lost_groups_behind: u64,
    /// How often what was followed began too late, and was read again.
    pub gaps: u64,
    /// How often the shards had not taken `in_flight_max_bytes`, so that nothing was asked for.
    pub stalls: u64,
    /// Reads for sessions that are behind that went to the store.
    pub reads_stored: u64,
    /// Those that were answered from memory.
    pub reads_cached: u64,
    /// Those that had to wait because `reads_max` were under way.
    pub reads_waited: u64,
    /// Groups that memory had no room for any more, by `cache_max_bytes`.
    pub cache_evictions: u64,
}
