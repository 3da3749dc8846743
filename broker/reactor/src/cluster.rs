//! The channel between the threads of the broker and the cluster thread.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use tautwire_cluster::names::Seed;
use tautwire_engine::{ClusterEvent, ClusterRequest, ClusterSettings};
use tautwire_router::ShardIndex;

use crate::inbox::Inbox;

/// The cluster thread, as the threads of the broker see it.
pub trait ClusterThread: fmt::Debug + Send + Sync {
    /// Takes requests of a shard off the front, as many as fit, possibly none. An implementation that leaves some calls
    /// [`ClusterSender::wake`] as soon as there is space. Called in each turn on a thread of the broker, so it must not block.
    fn ask(&self, shard: ShardIndex, requests: &mut VecDeque<ClusterRequest>);

    /// Whether the node's lease is valid now, by a clock that counts while the machine is suspended. Called in each turn.
    fn holds_lease(&self) -> bool;
}

/// The options of a broker in a cluster.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// The seed of the cluster.
    pub seed: Seed,
    /// The settings of each thread of the broker.
    pub settings: ClusterSettings,
    /// The receiver of requests.
    pub thread: Arc<dyn ClusterThread>,
}

/// Sends events from the cluster thread to the threads of the broker.
#[derive(Debug, Clone)]
pub struct ClusterSender {
    inboxes: Arc<[Arc<Inbox>]>,
}

impl ClusterSender {
    pub(crate) fn new(inboxes: Arc<[Arc<Inbox>]>) -> ClusterSender {
        ClusterSender { inboxes }
    }

    /// Returns the number of threads.
    pub fn shards(&self) -> usize {
        self.inboxes.len()
    }

    /// Sends an event to a thread, after all earlier ones. Has no effect if the thread is gone or does not exist.
    pub fn send(&self, shard: ShardIndex, event: ClusterEvent) {
        if let Some(inbox) = self.inboxes.get(usize::from(shard.0)) {
            inbox.send_cluster_event(event);
        }
    }

    /// Sends an event that may be lost, a message of QoS 0. Returns false if there is no space for it.
    pub fn try_send(&self, shard: ShardIndex, event: ClusterEvent) -> bool {
        self.inboxes.get(usize::from(shard.0)).is_some_and(|inbox| inbox.try_send_cluster_event(event))
    }

    /// Wakes a thread, because there is space again for requests that it had to keep.
    pub fn wake(&self, shard: ShardIndex) {
        if let Some(inbox) = self.inboxes.get(usize::from(shard.0)) {
            inbox.wake();
        }
    }
}
