//! The configuration that the nodes of a cluster share: rules, users and contracts, versioned by revision.

use std::time::{Duration, Instant};

use super::cluster::{node, not_clustered};
use super::query::Query;
use super::request_context::RequestContext;
use super::response::{Response, Status, ok};
use crate::cluster::{ProposeOutcome, SharedConfigStatus};
use crate::fields::Fields;
use crate::log::audit;
use crate::shared::{self, Parts, RevisionChanges};

/// Part of a request's time reserved for writing the response.
const COMMIT_TIMEOUT: Duration = Duration::from_millis(500);
/// Longest wait for a revision that a request names and this node does not know yet.
const REVISION_TIMEOUT: Duration = Duration::from_secs(2);
/// Retries of a change of one contract that conflicts with other changes.
const ATTEMPTS_MAX: usize = 8;

/// `GET /v1/cluster/configuration`.
pub(super) fn show(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    let mut query = Query::parse(&call.head.query)?;
    let has_content = query.take_as("content", "true or false", |text| text.parse().ok())?.unwrap_or(false);
    query.finish("content")?;
    let node = node(call)?;
    let sharing = node.sharing();
    // Before it joins the cluster, the node does not know whether anything is shared.
    if sharing.latest.number == 0 && !node.is_serving() {
        return Err(not_clustered());
    }
    let mut summary = summary(&sharing);
    if has_content {
        // Reads are not audited in general, but this response includes password hashes.
        let (by, address) = (call.by(), call.peer.to_string());
        log::error!(target: audit::TARGET, event = "configuration_read", number = sharing.latest.number, actor = &*by, address = &*address; "");
        summary.add("content", shared::content(&sharing.latest.parts));
    }
    Ok(ok(summary))
}

/// `PUT /v1/cluster/configuration`: replaces parts of the expected revision to make the next one.
pub(super) fn put(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    let node = node(call)?;
    let mut query = Query::parse(&call.head.query)?;
    let expected = query.take_as("if_revision", "the number of a revision", |text| text.parse::<u64>().ok())?;
    query.finish("if_revision")?;
    let expected = expected.ok_or_else(|| {
        let why =
            "if_revision is missing: give the number of the revision that the change is based on, or 0 if there is none";
        Response::error(Status::BAD_REQUEST, "bad_query", why)
    })?;
    let deadline = commit_deadline(call);
    let changes = RevisionChanges::from_json(&call.json()?)
        .map_err(|message| Response::error(Status::UNPROCESSABLE, "configuration_value", &message))?;
    let latest = node.await_revision(expected, deadline.min(Instant::now() + REVISION_TIMEOUT));
    if latest.number != expected {
        return Err(outdated(latest.number));
    }
    let parts = changes.applied_to(latest.parts.clone());
    call.admin.reloader.check(&parts).map_err(|errors| Response::invalid_configuration(&errors))?;
    match node.propose(expected, &parts, deadline) {
        ProposeOutcome::Accepted(number) => log::info!("admin: revision {number} of the cluster's configuration"),
        outcome => return Err(rejection(outcome)),
    }
    Ok(ok(summary(&node.sharing())))
}

/// Changes the shared configuration, retrying on conflicts. Returns after this node has applied it.
pub(super) fn change_parts(
    call: &RequestContext<'_, '_>,
    change: impl Fn(&Parts) -> Result<Parts, Response>,
) -> Result<(), Response> {
    let deadline = commit_deadline(call);
    let node = node(call)?;
    let mut number = 0;
    for _ in 0..ATTEMPTS_MAX {
        let latest = node.await_revision(number, deadline);
        let parts = change(&latest.parts)?;
        match node.propose(latest.number, &parts, deadline) {
            ProposeOutcome::Accepted(_) => return Ok(()),
            ProposeOutcome::Outdated(later) if Instant::now() < deadline => number = later,
            outcome => return Err(rejection(outcome)),
        }
    }
    Err(rejection(ProposeOutcome::Unavailable))
}

fn commit_deadline(call: &RequestContext<'_, '_>) -> Instant {
    Instant::now() + call.time_left().saturating_sub(COMMIT_TIMEOUT)
}

fn summary(sharing: &SharedConfigStatus) -> Fields {
    let SharedConfigStatus { latest, held, refused, .. } = sharing;
    Fields::default()
        .with("number", latest.number)
        .with("current", *held)
        .with("lagging", !refused.is_empty())
        .with("reasons", refused.clone())
        .with("parts", shared::summary(&latest.parts))
}

fn rejection(outcome: ProposeOutcome) -> Response {
    match outcome {
        ProposeOutcome::Outdated(number) => outdated(number),
        ProposeOutcome::Overtaken => {
            let why = "several other revisions were made meanwhile, and it is unknown whether this change is among them; check the current revision";
            Response::error(Status::CONFLICT, "configuration_changed", why)
        }
        ProposeOutcome::TooLarge => {
            let why = "the revision exceeds 768 KiB or max_payload of the NATS servers; the configuration is unchanged";
            Response::error(Status::BODY_TOO_LARGE, "configuration_too_large", why)
        }
        ProposeOutcome::Accepted(_) | ProposeOutcome::Unavailable => {
            let why = "this node cannot make a revision now: it has not joined the cluster, or another change is in progress; try again";
            Response::error(Status::SERVICE_UNAVAILABLE, "configuration_unavailable", why)
        }
        ProposeOutcome::Timeout => {
            let why =
                "the NATS servers have not answered in time; the change may still take effect; check the configuration";
            Response::error(Status::SERVICE_UNAVAILABLE, "configuration_timeout", why)
        }
    }
}

fn outdated(number: u64) -> Response {
    let why = format!(
        "conflict: the current revision is {number} as far as this node knows; reread it, and repeat the change"
    );
    Response::error(Status::CONFLICT, "configuration_changed", &why)
}
