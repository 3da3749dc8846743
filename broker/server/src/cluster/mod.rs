//! Cluster membership, if built with clusters and the configuration names NATS servers.
//!
//! [`Node`] connects the threads that serve clients with the thread of `tautwire-nats`, which makes decisions with the store. It forwards
//! requests and decisions, and starts a new incarnation of the node after one has ended.
//! `docs/decisions/0033-a-shard-in-a-cluster.md` describes the protocol between them.

#[cfg(not(feature = "cluster"))]
mod disabled;
#[cfg(feature = "cluster")]
mod node;
#[cfg(feature = "cluster")]
mod node_directory;
#[cfg(feature = "cluster")]
mod plan;
#[cfg(feature = "cluster")]
mod proposals;
#[cfg(feature = "cluster")]
mod relay;
#[cfg(feature = "cluster")]
mod revisions;
#[cfg(feature = "cluster")]
mod session_shards;
#[cfg(feature = "cluster")]
mod status;
#[cfg(feature = "cluster")]
mod supervisor;

#[cfg(not(feature = "cluster"))]
pub(crate) use disabled::{Node, Plan};
#[cfg(feature = "cluster")]
pub(crate) use node::Node;
#[cfg(feature = "cluster")]
pub(crate) use plan::Plan;

use std::sync::Arc;

use crate::shared::Shared;

/// The outcome of a proposed change of the shared configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "cluster"), expect(dead_code, reason = "a broker without clusters proposes nothing"))]
pub(crate) enum ProposeOutcome {
    /// The change is the revision with this number.
    Accepted(u64),
    /// The change was based on an outdated revision. The number of the current one, as far as known.
    Outdated(u64),
    /// Several revisions have been made since, and it is unknown whether this one is among them.
    Overtaken,
    /// The change exceeds the size limit of a revision.
    TooLarge,
    /// This node cannot propose now: it has not joined, or another proposal of it is pending.
    Unavailable,
    /// No outcome arrived in time. The change may still take effect.
    Timeout,
}

/// The state of the shared configuration on this node.
pub(crate) struct SharedConfigStatus {
    /// The last revision that this node could read.
    pub(crate) latest: Arc<Shared>,
    /// The number of the revision in effect on this node.
    pub(crate) held: u64,
    /// Why a later revision is not in effect, one line per error; empty if none is refused.
    pub(crate) refused: Vec<String>,
    /// The number of refused revisions.
    pub(crate) refusals: u64,
}

/// Why another node could not be drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "cluster"), expect(dead_code, reason = "a broker without clusters drains no peers"))]
pub(crate) enum DrainError {
    /// This node has not joined the cluster.
    NotJoined,
    /// No live node has this name.
    Unknown,
    /// Several live nodes have this name.
    Ambiguous,
    /// The node has not confirmed the command, but may have received it.
    Unconfirmed,
    /// Too many commands to other nodes are pending.
    TooMany,
}
