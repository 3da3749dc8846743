//! What makes a shard one of a cluster.

use std::sync::Arc;

use tautwire_cluster::names::Seed;

use super::cluster_state::ClusterState;
use super::fetched_session::SessionFetch;
use super::mirror::Mirror;
use super::settings::ClusterSettings;

/// The mode of a broker that is one of several. The shards of one broker have clones of one value.
///
/// Clients are refused until [`ClusterEvent::Began`](super::ClusterEvent::Began) has come.
#[derive(Debug, Clone)]
pub struct Clustered {
    pub(super) seed: Seed,
    pub(super) settings: ClusterSettings,
    pub(super) mirror: Arc<Mirror>,
}

impl Clustered {
    /// A node of the cluster with this seed.
    pub fn new(seed: Seed, settings: ClusterSettings) -> Clustered {
        Clustered { seed, settings, mirror: Arc::default() }
    }
}

/// Claims, the sessions that are served, groups, and places in the log.
pub(crate) type ShardClusterState = ClusterState<Box<SessionFetch>>;

/// What a shard knows of its cluster.
pub struct ClusterMode {
    pub(crate) cluster: Box<ShardClusterState>,
    /// What is known of the copy of what topics retain.
    pub(crate) mirror: Arc<Mirror>,
}
