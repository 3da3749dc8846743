//! Routing: decides which shards and which clients get a message.
//!
//! Each thread (a *shard*) has the subscriptions of its own sessions. One [`Exchange`] holds what all threads share: the interest of shards
//! in filters, the members of shared subscriptions, and the retained messages. It is read when a topic is not in a shard's cache, and
//! written when a subscription or a retained message changes; a generation number invalidates the caches. A new subscription receives the
//! retained messages from a [`Scan`], in portions. A [`Batch`] carries messages from one shard to another.

#![forbid(unsafe_code)]

mod batch;
mod dispatch_log;
mod exchange;
mod interest;
mod member_credit;
mod owners;
mod placement;
mod random;
mod retained;
mod scan;
mod session_key;
mod share;
mod shares;

pub use batch::{Batch, BatchPayload, BatchSize, Entry, GroupUpdate, MemberUpdate, ShareReceiver};
pub use dispatch_log::{DISPATCHES_MAX, Dispatch};
pub use exchange::{Exchange, RetainedRevision, Routes};
pub use interest::InterestChange;
pub use member_credit::MemberCredit;
pub use owners::{RetainedClaim, RetainedOwner, RetainedQuota};
pub use placement::Placement;
pub use random::random;
pub use retained::{RetainError, RetainedLimits};
pub use scan::{Progress, RetainedListing, Scan, SpillScan};
pub use session_key::SessionKey;
pub use share::{GroupCoordinator, GroupMember, ShareGroup};

/// A shard's number, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardIndex(pub u8);

/// The largest number of shards: a set of them is a bit mask in one word.
pub const SHARDS_MAX: usize = u64::BITS as usize;

/// A set of shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ShardSet(u64);

impl ShardSet {
    /// Adds a shard.
    pub fn insert(&mut self, shard: ShardIndex) {
        self.0 |= 1 << shard.0;
    }

    /// Returns the set without `shard`.
    pub fn without(self, shard: ShardIndex) -> ShardSet {
        ShardSet(self.0 & !(1 << shard.0))
    }

    /// Whether the set contains `shard`.
    #[inline]
    pub fn contains(self, shard: ShardIndex) -> bool {
        self.0 & (1 << shard.0) != 0
    }

    /// Returns the number of shards in the set.
    #[inline]
    pub fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl Iterator for ShardSet {
    type Item = ShardIndex;

    fn next(&mut self) -> Option<ShardIndex> {
        let shard = self.0.trailing_zeros();
        self.0 &= self.0.checked_sub(1)?;
        Some(ShardIndex(shard as u8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_set_iterates_in_order() {
        let mut set = ShardSet::default();
        set.insert(ShardIndex(63));
        set.insert(ShardIndex(0));
        set.insert(ShardIndex(7));
        assert!(set.contains(ShardIndex(63)) && !set.contains(ShardIndex(1)));
        assert_eq!(set.without(ShardIndex(7)).collect::<Vec<_>>(), [ShardIndex(0), ShardIndex(63)]);
        assert!(set.without(ShardIndex(7)).without(ShardIndex(0)).without(ShardIndex(63)).is_empty());
    }
}
