//! A simulated broker as a node of a cluster.

use tautwire_engine::Mode;
use tautwire_engine::{ClusterEvent, ClusterRequest, Shard};

use super::broker::SimulatedBroker;

impl<M: Mode> SimulatedBroker<M> {
    /// Calls `prepare` with each shard.
    pub(crate) fn prepare_shards(&mut self, prepare: impl FnMut(&mut Shard<M>)) {
        self.shards.iter_mut().for_each(prepare);
    }

    /// Sends a shard an event of the cluster.
    pub(crate) fn send_event(&mut self, shard: usize, event: ClusterEvent) {
        self.network.threads[shard].events.push_back(event);
        self.network.wake(shard);
    }

    /// Takes the requests of a shard to the cluster.
    pub(crate) fn take_requests(&mut self, shard: usize) -> impl Iterator<Item = ClusterRequest> + use<M> {
        std::mem::take(&mut self.network.threads[shard].requests).into_iter()
    }

    /// Sets whether the shards consider the node's lease valid.
    pub(crate) fn set_lease(&mut self, holds: bool) {
        if self.network.holds_lease != holds {
            self.network.holds_lease = holds;
            self.wake_all();
        }
    }
}
