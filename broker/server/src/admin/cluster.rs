//! This broker as one of several.

use super::clients::ok;
use super::response::{Response, Status};
use super::routes::Call;
use super::spelled::Query;
use crate::cluster::Node;
use crate::fields::Fields;

/// `GET /v1/cluster`.
pub(super) fn show(call: &mut Call<'_, '_>) -> Result<Response, Response> {
    let node = node(call)?;
    node.told().map(ok).ok_or_else(not_there)
}

/// `POST /v1/cluster/drain`.
pub(super) fn drain(call: &mut Call<'_, '_>) -> Result<Response, Response> {
    let mut query = Query::parse(&call.head.query)?;
    let is_for_good = query.take_as("for_good", "true or false", |text| text.parse().ok())?.unwrap_or(false);
    query.finish("for_good")?;
    let node = node(call)?;
    log::info!("admin: the node is drained");
    if node.drain(is_for_good) { Ok(begun()) } else { Err(not_there()) }
}

/// `POST /v1/cluster/rebalance`.
pub(super) fn rebalance(call: &mut Call<'_, '_>) -> Result<Response, Response> {
    if node(call)?.rebalance() { Ok(begun()) } else { Err(not_there()) }
}

pub(super) fn node<'c>(call: &Call<'c, '_>) -> Result<&'c Node, Response> {
    let why = "this broker is alone: cluster.servers names no NATS servers";
    call.admin.reloader.node().ok_or_else(|| Response::error(Status::NOT_FOUND, "no_cluster", why))
}

fn begun() -> Response {
    ok(Fields::default().with("begun", true))
}

pub(super) fn not_there() -> Response {
    let why = "the node has no life now: the log of the broker says why, and it tries again by itself";
    Response::error(Status::SERVICE_UNAVAILABLE, "cluster_not_joined", why)
}
