//! This broker as one of several, where it has been built with clusters and the configuration names NATS servers.
//!
//! [`Node`] goes between the threads that serve clients and the thread of `tautwire-nats`, which decides with the store: it hands on what
//! either says, and begins another life of the node when one is over. `docs/decisions/0033-a-shard-in-a-cluster.md` says what goes between
//! them.

#[cfg(not(feature = "cluster"))]
mod absent;
#[cfg(feature = "cluster")]
mod homes;
#[cfg(feature = "cluster")]
mod lives;
#[cfg(feature = "cluster")]
mod node;
#[cfg(feature = "cluster")]
mod place;
#[cfg(feature = "cluster")]
mod plan;
#[cfg(feature = "cluster")]
mod relay;
#[cfg(feature = "cluster")]
mod told;

#[cfg(not(feature = "cluster"))]
pub(crate) use absent::{Node, Plan};
#[cfg(feature = "cluster")]
pub(crate) use node::Node;
#[cfg(feature = "cluster")]
pub(crate) use plan::Plan;
