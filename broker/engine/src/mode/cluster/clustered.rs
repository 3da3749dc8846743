//! The mode value of a clustered broker, and its state in each shard.

use std::sync::Arc;

use tautwire_cluster::names::Seed;

use super::cluster_state::ClusterState;
use super::fetched_session::SessionFetch;
use super::mirror::Mirror;
use super::settings::ClusterSettings;

/// The mode of a broker in a cluster. The shards of a broker have clones of one value.
///
/// Clients are refused until [`ClusterEvent::Began`](super::ClusterEvent::Began) arrives.
#[derive(Debug, Clone)]
pub struct Clustered {
    pub(super) seed: Seed,
    pub(super) settings: ClusterSettings,
    pub(super) mirror: Arc<Mirror>,
}

impl Clustered {
    /// Creates the mode for a node of the cluster with this seed.
    pub fn new(seed: Seed, settings: ClusterSettings) -> Clustered {
        Clustered { seed, settings, mirror: Arc::default() }
    }
}

/// The cluster state of a shard, with the engine's type for sessions that are being fetched.
pub(crate) type ShardClusterState = ClusterState<Box<SessionFetch>>;

/// The state of the cluster mode in each shard.
pub struct ClusterMode {
    pub(super) cluster: Box<ShardClusterState>,
    /// The node's copy of the retained messages.
    pub(super) mirror: Arc<Mirror>,
}
