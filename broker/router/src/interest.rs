//! Which shard cares for which filter.

use tautwire_topics::FilterTree;

use crate::{ShardIndex, ShardSet};

/// The shards with a session that has subscribed to a filter. A shard stands under a filter once, however many of its
/// sessions have it.
#[derive(Debug, Default)]
pub(crate) struct Interest {
    shards: FilterTree<ShardIndex>,
}

impl Interest {
    /// The first session of `shard` has subscribed to `filter`.
    pub(crate) fn enter(&mut self, filter: &str, shard: ShardIndex) {
        let node = self.shards.entry(filter);
        if !self.shards.values(node).contains(&shard) {
            self.shards.push_value(node, shard);
        }
    }

    /// The last session of `shard` with `filter` has given it up.
    pub(crate) fn leave(&mut self, filter: &str, shard: ShardIndex) {
        if let Some(node) = self.shards.find(filter) {
            self.shards.remove_value(node, |held| *held == shard);
            self.shards.prune(node);
        }
    }

    /// The shards that care for messages of `topic`.
    pub(crate) fn shards_for(&self, topic: &str) -> ShardSet {
        let mut set = ShardSet::default();
        self.shards.matches(topic, &mut |_, shards: &[ShardIndex]| {
            for shard in shards {
                set.insert(*shard);
            }
        });
        set
    }
}
