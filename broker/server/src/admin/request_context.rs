//! The context of a request: its caller, its client, and the state of the API.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tautwire_reactor::QueryDeadline;

use super::caller::Caller;
use super::request::{Head, RequestBody, time_left};
use super::response::{Response, Status};
use super::state::AdminState;
use super::transport::Client;
use crate::json::{self, Value};

/// A request while it is handled.
pub(super) struct RequestContext<'c, 's> {
    pub(super) admin: &'c Arc<AdminState>,
    pub(super) head: &'c Head,
    pub(super) received: &'c RequestBody,
    /// The authenticated caller; `None` on public routes.
    pub(super) caller: Option<&'c Caller>,
    /// The address of the client.
    pub(super) peer: SocketAddr,
    pub(super) client: &'s Client,
    /// The values of the placeholders in the path pattern, still percent-encoded.
    pub(super) names: Vec<&'c str>,
}

impl<'c> RequestContext<'c, '_> {
    /// The value of the placeholder with this number.
    pub(super) fn name(&self, number: usize) -> &'c str {
        self.names.get(number).copied().unwrap_or_default()
    }

    /// The body of the request.
    ///
    /// # Errors
    /// The response to a request without one.
    pub(super) fn body(&self) -> Result<&'c [u8], Response> {
        self.received.body()
    }

    /// The body of the request as JSON.
    ///
    /// # Errors
    /// The response to a request without a body, or whose body is not JSON.
    pub(super) fn json(&self) -> Result<Value, Response> {
        let bad_json = |message: &str| Response::error(Status::BAD_REQUEST, "bad_json", message);
        let text = str::from_utf8(self.body()?).map_err(|_| bad_json("the body is not UTF-8"))?;
        json::parse(text).map_err(|error| {
            bad_json(&format!("the body is not valid JSON: {} at byte {}", error.message, error.offset))
        })
    }

    /// The caller as named in the audit log; empty for an unauthenticated request.
    pub(super) fn by(&self) -> String {
        self.caller.map_or_else(String::new, |caller| caller.principal.by())
    }

    /// How long to wait for the shards: until the deadline, or until the client disconnects.
    pub(super) fn query_deadline(&self) -> QueryDeadline<'_> {
        QueryDeadline::of(self.client, self.received.deadline)
    }

    /// The time until the response is due.
    pub(super) fn time_left(&self) -> Duration {
        time_left(self.received.deadline)
    }
}
