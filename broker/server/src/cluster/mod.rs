//! This broker as one of several, where it has been built with clusters and the configuration names NATS servers.
//!
//! [`Node`] goes between the threads that serve clients and the thread of `tautwire-nats`, which decides with the store: it hands on what
//! either says, and begins another life of the node when one is over. `docs/decisions/0033-a-shard-in-a-cluster.md` says what goes between
//! them.

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

/// What becomes of a change of what the cluster shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "cluster"), expect(dead_code, reason = "a broker without clusters proposes nothing"))]
pub(crate) enum Proposed {
    /// It is the revision with this number.
    Accepted(u64),
    /// Another revision than the one that it was made on holds. Its number, where that is known to have come instead.
    Outdated(u64),
    /// Several revisions have come since, and it is not known whether this was one of them.
    Overtaken,
    /// It has more bytes than a revision may have.
    TooLarge,
    /// This node cannot propose anything now: it has no life, or another proposal of it is under way.
    Unavailable,
    /// Nothing has been heard of it in time. It may hold yet.
    Timeout,
}

/// How it is with what the cluster shares.
pub(crate) struct SharedConfigStatus {
    /// The last revision that this node could read.
    pub(crate) latest: Arc<Shared>,
    /// The number of the one that holds on this node.
    pub(crate) held: u64,
    /// Why a later one does not hold, a line each; empty where none is refused.
    pub(crate) refused: Vec<String>,
    /// How many have been refused.
    pub(crate) refusals: u64,
}

/// Why another node is not known to be drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "cluster"), expect(dead_code, reason = "a broker without clusters tells nobody"))]
pub(crate) enum DrainError {
    /// This node has no life that could ask.
    NoLife,
    /// No node of that name is alive.
    Unknown,
    /// Several are.
    Ambiguous,
    /// It has not answered, and may have heard it all the same.
    Silent,
    /// Too many such orders are under way.
    TooMany,
}
