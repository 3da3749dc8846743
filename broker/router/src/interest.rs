//! Which shard cares for which filter.

use tautwire_topics::FilterTree;

use crate::{ShardIndex, ShardSet};

/// What one subscription more or less changes of what its shard cares for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InterestChange {
    /// It is the first of its shard with this filter, or the last.
    pub any: bool,
    /// Its session is written down.
    pub persistent: bool,
}

impl InterestChange {
    pub(crate) fn is_any(self) -> bool {
        self.any || self.persistent
    }
}

/// The shards with a session that has subscribed to a filter. A shard stands under a filter once, however many of its
/// sessions have it.
#[derive(Debug, Default)]
pub(crate) struct Interest {
    shards: FilterTree<ShardInterest>,
}

#[derive(Debug, Clone, Copy)]
struct ShardInterest {
    shard: ShardIndex,
    /// Sessions with the filter that are written down.
    persistent: u32,
}

impl Interest {
    /// A session of `shard` has subscribed to `filter`.
    pub(crate) fn enter(&mut self, filter: &str, shard: ShardIndex, change: InterestChange) {
        let node = self.shards.entry(filter);
        let more = u32::from(change.persistent);
        match self.shards.values_mut(node).iter_mut().find(|caring| caring.shard == shard) {
            Some(caring) => caring.persistent += more,
            None => self.shards.push_value(node, ShardInterest { shard, persistent: more }),
        }
    }

    /// A session of `shard` with `filter` has given it up.
    pub(crate) fn leave(&mut self, filter: &str, shard: ShardIndex, change: InterestChange) {
        let Some(node) = self.shards.find(filter) else { return };
        if change.any {
            self.shards.remove_value(node, |held| held.shard == shard);
            self.shards.prune(node);
        } else if let Some(caring) = self.shards.values_mut(node).iter_mut().find(|caring| caring.shard == shard) {
            caring.persistent = caring.persistent.saturating_sub(u32::from(change.persistent));
        }
    }

    /// The shards that care for messages of `topic`, and those of them where a session does that is written down.
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
    fn a_shard_cares_lastingly_as_long_as_a_session_that_is_written_down_has_the_filter() {
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
