//! A simulated broker as one of several.

use tautwire_engine::Mode;
use tautwire_engine::{ClusterEvent, ClusterRequest, Shard};

use super::broker::SimulatedBroker;

impl<M: Mode> SimulatedBroker<M> {
    /// Does something with each shard.
    pub(crate) fn prepare_shards(&mut self, prepare: impl FnMut(&mut Shard<M>)) {
        self.shards.iter_mut().for_each(prepare);
    }

    /// The cluster tells a shard something.
    pub(crate) fn tell(&mut self, shard: usize, event: ClusterEvent) {
        self.network.nodes[shard].events.push_back(event);
        self.network.wake(shard);
    }

    /// What a shard has asked of the cluster since this was last called.
    pub(crate) fn take_requests(&mut self, shard: usize) -> impl Iterator<Item = ClusterRequest> + use<M> {
        std::mem::take(&mut self.network.nodes[shard].requests).into_iter()
    }

    /// Whether the node's lease holds, as the shards see it.
    pub(crate) fn set_lease(&mut self, holds: bool) {
        if self.network.holds_lease != holds {
            self.network.holds_lease = holds;
            self.wake_all();
        }
    }
}
