//! Shared subscriptions over nodes [MQTT 5.0 section 4.8.2]. All who share `$share/name/filter` are a group, whichever nodes serve them.
//!
//! The cluster leases the partitions of the log to nodes with members. On each node one shard is the group's home: it takes what the log
//! brings for the group, chooses members of all shards in turn, and knows who has which message. Members stand in the exchange as in a single
//! broker, and messages go to them as there.

mod delivery;
mod membership;

use tautwire_cluster::names::GroupKey;
use tautwire_router::ShardIndex;

/// The shard of a node that has `shards` of them where a group is at home.
pub fn home_of(group: GroupKey, shards: usize) -> ShardIndex {
    // There are no more than 64.
    ShardIndex((group.0 % shards.max(1) as u128) as u8)
}
