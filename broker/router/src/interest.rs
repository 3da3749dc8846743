//! The interest of shards in topic filters.

use tautwire_topics::FilterTree;

use crate::{ShardIndex, ShardSet};

/// How one subscription changes the interest of its shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InterestChange {
    /// It is the first or last subscription of its shard with this filter.
    pub any: bool,
    /// Its session is persistent.
    pub persistent: bool,
}

impl InterestChange {
    pub(crate) fn is_any(self) -> bool {
        self.any || self.persistent
    }
}

/// The shards with subscriptions to each filter. A shard is listed once per filter, however many of its sessions have it.
#[derive(Debug, Default)]
pub(crate) struct Interest {
    shards: FilterTree<ShardInterest>,
}

#[derive(Debug, Clone, Copy)]
struct ShardInterest {
    shard: ShardIndex,
    /// The number of persistent sessions with the filter.
    persistent: u32,
}

impl Interest {
    /// Adds a subscription of a session on `shard`.
    pub(crate) fn enter(&mut self, filter: &str, shard: ShardIndex, change: InterestChange) {
        let node = self.shards.entry(filter);
        let more = u32::from(change.persistent);
        match self.shards.values_mut(node).iter_mut().find(|caring| caring.shard == shard) {
            Some(caring) => caring.persistent += more,
            None => self.shards.push_value(node, ShardInterest { shard, persistent: more }),
        }
    }

    /// Removes a subscription of a session on `shard`.
    pub(crate) fn leave(&mut self, filter: &str, shard: ShardIndex, change: InterestChange) {
        let Some(node) = self.shards.find(filter) else { return };
        if change.any {
            self.shards.remove_value(node, |held| held.shard == shard);
            self.shards.prune(node);
        } else if let Some(caring) = self.shards.values_mut(node).iter_mut().find(|caring| caring.shard == shard) {
            caring.persistent = caring.persistent.saturating_sub(u32::from(change.persistent));
        }
    }

    /// Returns the shards with subscriptions that match `topic`, and those of them with a persistent session.
    pub(crate) fn shards_for(&self, topic: &str) -> (ShardSet, ShardSet) {
        let (mut all, mut persistent) = (ShardSet::default(), ShardSet::default());
        self.shards.matches(topic, &mut |_, found: &[ShardInterest]| {
            for caring in found {
                all.insert(caring.shard);
                if caring.persistent > 0 {
                    persistent.insert(caring.shard);
                }
            }
        });
        (all, persistent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: InterestChange = InterestChange { any: true, persistent: false };
    const LASTING: InterestChange = InterestChange { any: false, persistent: true };

    #[test]
    fn interest_is_persistent_while_a_persistent_session_has_the_filter() {
        let (mut interest, shard) = (Interest::default(), ShardIndex(3));
        let sets = |interest: &Interest| {
            let (all, persistent) = interest.shards_for("a/b");
            (all.contains(shard), persistent.contains(shard))
        };
        interest.enter("a/+", shard, FIRST);
        assert_eq!(sets(&interest), (true, false));
        interest.enter("a/+", shard, LASTING);
        interest.enter("a/+", shard, LASTING);
        assert_eq!(sets(&interest), (true, true));
        interest.leave("a/+", shard, LASTING);
        assert_eq!(sets(&interest), (true, true));
        interest.leave("a/+", shard, LASTING);
        assert_eq!(sets(&interest), (true, false));
        interest.leave("a/+", shard, FIRST);
        assert_eq!(sets(&interest), (false, false));
    }
}
