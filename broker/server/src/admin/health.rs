//! Health checks.

use super::request_context::RequestContext;
use super::response::{JSON, Response, Status};
use super::state::AdminState;

/// `GET /health`: whether the broker works fully. After a disk failure it still serves clients that need no persistence. If some messages
/// cannot be read from disk, it still serves everybody but the clients that wait for them.
pub(super) fn whole(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    Ok(whole_of(call.admin))
}

/// `GET /health/live`: whether the process responds. If not, a restart may help.
pub(super) fn live(_: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    Ok(Response::new(Status::OK, JSON, "{\"status\":\"ok\"}\n"))
}

/// `GET /health/ready`: whether clients should be sent here. Not while the broker stops, after its disk has failed, while its cluster does
/// not let it serve clients, or while it cannot apply the shared configuration.
pub(super) fn ready(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    if call.admin.reloader.is_stopping() {
        return Ok(Response::new(Status::SERVICE_UNAVAILABLE, JSON, "{\"status\":\"stopping\"}\n"));
    }
    if let Some(node) = call.admin.reloader.node().filter(|node| !node.accepts_clients()) {
        let body = match node.sharing().refused.is_empty() {
            true => "{\"status\":\"waiting\",\"cluster\":\"not_serving\"}\n",
            false => "{\"status\":\"waiting\",\"cluster\":\"configuration\"}\n",
        };
        return Ok(Response::new(Status::SERVICE_UNAVAILABLE, JSON, body));
    }
    Ok(whole_of(call.admin))
}

fn whole_of(admin: &AdminState) -> Response {
    let (status, body) = match admin.control.data() {
        Some(data) if data.failure.is_some() => {
            (Status::SERVICE_UNAVAILABLE, "{\"status\":\"failed\",\"disk\":\"failed\"}\n")
        }
        Some(_) if admin.control.totals().spill_unreadable > 0 => {
            (Status::OK, "{\"status\":\"degraded\",\"disk\":\"unreadable\"}\n")
        }
        Some(data) if data.is_full => (Status::OK, "{\"status\":\"degraded\",\"disk\":\"full\"}\n"),
        _ => (Status::OK, "{\"status\":\"ok\"}\n"),
    };
    Response::new(status, JSON, body)
}
