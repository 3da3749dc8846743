//! The cluster, as this node sees it.

use super::query::Query;
use super::request_context::RequestContext;
use super::response::{Response, Status, ok};
use crate::cluster::{DrainError, Node};
use crate::fields::Fields;

/// `GET /v1/cluster`.
pub(super) fn show(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    let node = node(call)?;
    node.status_fields().map(ok).ok_or_else(not_clustered)
}

/// `POST /v1/cluster/drain`. Drains this node, or forwards the request to the node that the query names.
pub(super) fn drain(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    let mut query = Query::parse(&call.head.query)?;
    let is_for_good = query.take_as("permanent", "true or false", |text| text.parse().ok())?.unwrap_or(false);
    let name = query.take("node");
    query.finish("permanent, node")?;
    let node = node(call)?;
    let name = name.as_deref().unwrap_or(node.name());
    let by = call.by();
    let address = call.peer.to_string();
    log::info!("admin: draining node {name}");
    log::error!(
        target: crate::log::audit::TARGET,
        event = "cluster_drain", node = name, actor = &*by, address = &*address, permanent = is_for_good;
        ""
    );
    if name != node.name() {
        return node
            .drain_peer(name, is_for_good, &by)
            .map(|()| accepted())
            .map_err(|why| drain_error_response(name, why));
    }
    if node.drain(is_for_good) { Ok(accepted()) } else { Err(not_clustered()) }
}

fn drain_error_response(name: &str, why: DrainError) -> Response {
    let refused = |status, code, why: String| Response::error(status, code, &why);
    match why {
        DrainError::NotJoined => not_clustered(),
        DrainError::Unknown => refused(
            Status::NOT_FOUND,
            "cluster_node_unknown",
            format!("no live node is named {name}; `tautwire cluster status` lists the live nodes"),
        ),
        DrainError::Ambiguous => refused(
            Status::CONFLICT,
            "cluster_node_ambiguous",
            format!(
                "several live nodes are named {name}; try again after the dead one has been removed, or use the admin API of the node itself"
            ),
        ),
        DrainError::Unconfirmed => refused(
            Status::SERVICE_UNAVAILABLE,
            "cluster_node_timeout",
            format!(
                "{name} has not confirmed the request, but may have received it; check `tautwire cluster status`, and try again"
            ),
        ),
        DrainError::TooMany => refused(
            Status::SERVICE_UNAVAILABLE,
            "cluster_busy",
            "too many commands to other nodes are pending; try again".to_owned(),
        ),
    }
}

/// `POST /v1/cluster/rebalance`.
pub(super) fn rebalance(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    if node(call)?.rebalance() { Ok(accepted()) } else { Err(not_clustered()) }
}

pub(super) fn node<'c>(call: &RequestContext<'c, '_>) -> Result<&'c Node, Response> {
    let why = "this broker is not part of a cluster: cluster.servers is empty";
    call.admin.reloader.node().ok_or_else(|| Response::error(Status::NOT_FOUND, "no_cluster", why))
}

fn accepted() -> Response {
    ok(Fields::default().with("started", true))
}

pub(super) fn not_clustered() -> Response {
    let why = "this node has not joined the cluster; it retries by itself, and its log has the reason";
    Response::error(Status::SERVICE_UNAVAILABLE, "cluster_not_joined", why)
}
