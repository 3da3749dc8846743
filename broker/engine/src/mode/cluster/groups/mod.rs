//! Shared subscriptions across nodes [MQTT 5.0 section 4.8.2]. All sessions that subscribe to `$share/name/filter` are a group, whichever
//! nodes serve them.
//!
//! The cluster leases the partitions of the log to nodes with members. On each node, one shard is the group's home: it receives the group's
//! messages from the log, selects members of all shards in turn, and tracks which member has which message. The exchange lists members and
//! delivers to them as in a single broker.

mod delivery;
mod membership;

use tautwire_cluster::names::GroupKey;
use tautwire_router::ShardIndex;

/// The home shard of a group on a node with `shards` shards.
pub fn home_of(group: GroupKey, shards: usize) -> ShardIndex {
    // A node has at most 64 shards.
    ShardIndex((group.0 % shards.max(1) as u128) as u8)
}
