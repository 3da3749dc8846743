//! The identity of a session among all shards.

use crate::ShardIndex;

/// Identifies a session on any shard. The generation distinguishes it from a later one in the same slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionKey {
    /// The shard that owns the session.
    pub shard: ShardIndex,
    /// Its slot there.
    pub index: u32,
    /// The number of times that the slot was reused.
    pub generation: u32,
}
