//! The cost of a cluster, and the effect on clients when one of its processes dies.

mod acknowledged;
mod dead_node;
mod kills;
mod mirror;
mod nodes;
mod probe_client;
mod takeover;

use std::net::SocketAddr;

pub(crate) use acknowledged::Acknowledged;
pub(crate) use dead_node::DeadNode;
pub(crate) use kills::Kills;
pub(crate) use mirror::Mirror;
pub(crate) use nodes::Nodes;
pub(crate) use takeover::Takeover;

use super::context::Context;
use crate::failure::Result;

/// The addresses for clients.
fn client_nodes(context: &Context<'_>) -> Result<Vec<SocketAddr>> {
    match &context.broker.cluster {
        None => Ok(vec![context.broker.address]),
        Some(cluster) => cluster.client_nodes().iter().map(|node| node.mqtt()).collect(),
    }
}
