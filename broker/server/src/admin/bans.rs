//! Bans in the admin API.

use tautwire_identity::limits::BAN_REASON_BYTES_MAX;
use tautwire_identity::{Ban, BanError, BanTarget, Now};

use super::request_context::RequestContext;
use super::response::{JSON, Response, Status, not_found};
use super::shared;
use super::state::AdminState;
use crate::identity::ban_file;
use crate::json::{self, Value};
use crate::shared::Parts;

/// The kinds of ban targets, as named in JSON.
const KINDS: &str = "client_id, user or network";

/// Lists the active bans.
pub(super) fn list(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    let authenticator = call.admin.reloader.authenticator();
    let body = ban_file::to_json(&authenticator.bans().list(authenticator.now()));
    Ok(Response::new(Status::OK, JSON, body))
}

/// Adds or changes a ban, and disconnects the clients it matches.
pub(super) fn add(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    let (who, value) = parse_target(call)?;
    let whole = |text: &str| text.parse::<u64>().ok();
    let seconds = match value.get("seconds") {
        None | Some(Value::Null) => None,
        Some(Value::Number(text)) => Some(whole(text).ok_or_else(|| bad_request("seconds: expected a whole number"))?),
        Some(_) => return Err(bad_request("seconds: expected a whole number")),
    };
    let authenticator = call.admin.reloader.authenticator();
    let now = authenticator.now();
    let until_unix_s = seconds.map(|seconds| now.unix_s.saturating_add(seconds));
    let ban = Ban { who: who.clone(), until_unix_s, reason: value.text("reason").into() };
    if call.admin.reloader.node().is_some() {
        share(call, &ban, now)?;
        log::info!("admin: {who} banned on all nodes");
        return Ok(Response::new(Status::CREATED, JSON, "{}\n"));
    }
    authenticator.bans().add(ban, now).map_err(|error| match error {
        BanError::Full => {
            Response::error(Status::CONFLICT, "bans_full", "the limit of bans is reached; remove one first")
        }
        BanError::Reason => too_long(),
    })?;
    log::info!("admin: {who} banned");
    call.admin.reloader.enforce_bans();
    persist(call.admin, Response::new(Status::CREATED, JSON, "{}\n"))
}

/// Removes a ban.
pub(super) fn remove(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    let (who, _) = parse_target(call)?;
    let was_shared = call.admin.reloader.node().is_some() && remove_shared(call, &who)?;
    // A rule may have added a ban on this node.
    if call.admin.reloader.authenticator().bans().remove(&who) || was_shared {
        log::info!("admin: {who} unbanned");
        return persist(call.admin, Response::new(Status::NO_CONTENT, JSON, ""));
    }
    Err(not_found("no such ban"))
}

/// Adds the ban to those that all nodes of the cluster share. Each node enforces it when it applies the revision.
fn share(call: &RequestContext<'_, '_>, ban: &Ban, now: Now) -> Result<(), Response> {
    if ban.reason.len() > BAN_REASON_BYTES_MAX {
        return Err(too_long());
    }
    shared::change_parts(call, |parts| {
        let mut bans = shared_bans(parts, now)?;
        bans.retain(|other| other.who != ban.who);
        bans.push(ban.clone());
        Ok(Parts { bans: Some(ban_file::to_json(&bans)), ..parts.clone() })
    })
}

/// Removes the ban from the shared ones. Returns whether it was there.
fn remove_shared(call: &RequestContext<'_, '_>, who: &BanTarget) -> Result<bool, Response> {
    let now = call.admin.reloader.authenticator().now();
    let is_shared = |parts: &Parts| Ok::<_, Response>(shared_bans(parts, now)?.iter().any(|other| other.who == *who));
    let node = call.admin.reloader.node();
    if !node.map_or(Ok(false), |node| is_shared(&node.sharing().latest.parts))? {
        return Ok(false);
    }
    shared::change_parts(call, |parts| {
        let mut bans = shared_bans(parts, now)?;
        bans.retain(|other| other.who != *who);
        Ok(Parts { bans: Some(ban_file::to_json(&bans)), ..parts.clone() })
    })?;
    Ok(true)
}

/// The shared bans that have not expired.
fn shared_bans(parts: &Parts, now: Now) -> Result<Vec<Ban>, Response> {
    let bans = parts.bans().map_err(|errors| Response::invalid_configuration(&errors))?;
    Ok(bans.into_iter().filter(|ban| ban.until_unix_s.is_none_or(|until_s| now.unix_s < until_s)).collect())
}

/// Persists the current bans, if a file is configured.
fn persist(admin: &AdminState, done: Response) -> Result<Response, Response> {
    admin.reloader.authenticator().persist_bans().map(|()| done).map_err(|error| {
        log::error!("cannot persist bans: {error}");
        let message = format!("the change is in effect, but does not survive a restart: {error}");
        Response::error(Status::INTERNAL, "bans_not_written", &message)
    })
}

/// Reads the target of a ban from the body of a request.
fn parse_target(call: &mut RequestContext<'_, '_>) -> Result<(BanTarget, Value), Response> {
    let text = str::from_utf8(call.body()?).map_err(|_| bad_request("the body is not UTF-8"))?;
    let value = json::parse(text).map_err(|error| {
        let message = format!("the body is not valid JSON: {} at byte {}", error.message, error.offset);
        Response::error(Status::BAD_REQUEST, "bad_json", &message)
    })?;
    let who = ban_file::banned(&value).map_err(|why| match why {
        Some(why) => bad_request(&why),
        None => bad_request(&format!("the target is missing: give {KINDS}")),
    })?;
    Ok((who, value))
}

fn too_long() -> Response {
    bad_request("reason: the reason is too long")
}

fn bad_request(message: &str) -> Response {
    Response::error(Status::UNPROCESSABLE, "ban_value", message)
}
