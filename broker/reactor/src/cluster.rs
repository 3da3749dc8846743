//! The way between the threads of the broker and the thread of its cluster.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use tautwire_cluster::names::Seed;
use tautwire_engine::{ClusterEvent, ClusterRequest, ClusterSettings};
use tautwire_router::ShardIndex;

use crate::inbox::Inbox;

/// The thread of the cluster, as the threads of the broker see it.
pub trait ClusterThread: fmt::Debug + Send + Sync {
    /// Takes requests of a shard off the front, as many as there is room for; there may be none. Whoever leaves some calls
    /// [`ClusterSender::wake`] as soon as there is room. Called in each turn, on a thread of the broker, so it may wait for nothing.
    fn ask(&self, shard: ShardIndex, requests: &mut VecDeque<ClusterRequest>);

    /// Whether the node's lease holds at this moment, by a clock that counts while the machine is suspended. Called in each turn.
    fn holds_lease(&self) -> bool;
}

/// What makes a broker one of several.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// The seed of the cluster.
    pub seed: Seed,
    /// What each thread of the broker is set to.
    pub settings: ClusterSettings,
    /// Where requests go.
    pub thread: Arc<dyn ClusterThread>,
}

/// By which the thread of the cluster reaches the threads of the broker.
#[derive(Debug, Clone)]
pub struct ClusterSender {
    inboxes: Arc<[Arc<Inbox>]>,
}

impl ClusterSender {
    pub(crate) fn new(inboxes: Arc<[Arc<Inbox>]>) -> ClusterSender {
        ClusterSender { inboxes }
    }

    /// How many threads there are.
    pub fn shards(&self) -> usize {
        self.inboxes.len()
    }

    /// Tells a thread something, after all that it has been told before. It is for nobody once the thread is gone, or where there is
    /// no such thread.
    pub fn send(&self, shard: ShardIndex, event: ClusterEvent) {
        if let Some(inbox) = self.inboxes.get(usize::from(shard.0)) {
            inbox.send_cluster_event(event);
        }
    }

    /// Offers a thread something that may be lost, a message of QoS 0. False where there is no room for it.
    pub fn try_send(&self, shard: ShardIndex, event: ClusterEvent) -> bool {
        self.inboxes.get(usize::from(shard.0)).is_some_and(|inbox| inbox.try_send_cluster_event(event))
    }

    /// There is room again for requests of a thread that had to keep some.
    pub fn wake(&self, shard: ShardIndex) {
        if let Some(inbox) = self.inboxes.get(usize::from(shard.0)) {
            inbox.wake();
        }
    }
}
