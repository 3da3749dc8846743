//! Bridges to other brokers: list, inspect, pause, resume, test.

use std::fmt::Write as _;

use tautwire_bridge::{Direction, Rule, Side};
use tautwire_engine::MountPoint;
use tautwire_protocol::ReasonCode;

use super::prometheus::push_head;
use super::query::{Query, bad_request, decoded};
use super::request_context::RequestContext;
use super::response::{JSON, Response, Status, not_found, ok};
use super::state::AdminState;
use crate::bridges::{BridgePlan, BridgeState, BridgeStatus, StartMode};
use crate::fields::Fields;

/// `GET /v1/bridges`.
pub(super) fn list(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    let mut bridges = Vec::new();
    for (plan, status) in call.admin.reloader.bridges().list() {
        bridges.push(to_fields(call, &plan, &status)?);
    }
    Ok(ok(Fields::default().with("bridges", bridges)))
}

/// `GET /v1/bridges/{bridge}`.
pub(super) fn one(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    let name = name_of(call)?;
    let (plan, status) = call.admin.reloader.bridges().find(&name).ok_or_else(no_bridge)?;
    let rules: Vec<Fields> =
        plan.link.rules.iter().zip(&status.refused_rules).map(|(rule, refused)| rule_fields(rule, *refused)).collect();
    Ok(ok(to_fields(call, &plan, &status)?.with("rules", rules)))
}

/// `POST /v1/bridges/{bridge}/pause`.
pub(super) fn pause(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    done(call.admin.reloader.bridges().pause(&name_of(call)?))
}

/// `POST /v1/bridges/{bridge}/resume`.
pub(super) fn resume(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    done(call.admin.reloader.bridges().resume(&name_of(call)?))
}

/// `POST /v1/bridges/{bridge}/test`.
pub(super) fn test(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    let results = call.admin.reloader.bridges().test(&name_of(call)?).ok_or_else(no_bridge)?;
    let to_fields = results.into_iter().map(|(address, result)| {
        let error = result.err().map(|(code, message)| Fields::default().with("code", code).with("message", message));
        Fields::default().with("address", address).with("accepted", error.is_none()).with("error", error)
    });
    Ok(ok(Fields::default().with("addresses", to_fields.collect::<Vec<_>>())))
}

fn name_of(call: &RequestContext<'_, '_>) -> Result<String, Response> {
    Query::parse(&call.head.query)?.finish("none")?;
    decoded(call.name(0)).map_err(|why| bad_request(&format!("the name of the bridge: {why}")))
}

fn no_bridge() -> Response {
    not_found("no such bridge")
}

fn done(is_found: bool) -> Result<Response, Response> {
    if is_found { Ok(Response::new(Status::NO_CONTENT, JSON, "")) } else { Err(no_bridge()) }
}

fn to_fields(call: &RequestContext<'_, '_>, plan: &BridgePlan, status: &BridgeStatus) -> Result<Fields, Response> {
    let session = call.admin.control.client(&plan.session_name(), call.query_deadline())?.map(|detail| detail.summary);
    let error =
        status.error.as_ref().map(|(code, message)| Fields::default().with("code", *code).with("message", &**message));
    let counters = &status.counters;
    Ok(Fields::default()
        .with("name", &*plan.name)
        .with("state", status.state.name())
        .with("since_unix_s", status.since_unix_s)
        .with("address", status.address.as_deref())
        .with("addresses", plan.servers.iter().map(|server| server.address.as_str()).collect::<Vec<_>>())
        .with("protocol", plan.link.version.to_string())
        .with("start", start_name(&plan.start))
        .with("client_id", plan.link.client_id.as_str())
        .with("session", plan.link.local_client_id.as_str())
        .with("mount_point", plan.mount_point.as_ref().map(MountPoint::as_str))
        .with("error", error)
        .with("next_attempt_unix_s", status.next_attempt_unix_s)
        .with("connections", status.connections)
        .with("failures", status.failures)
        .with("messages_out", counters.messages_out)
        .with("messages_in", counters.messages_in)
        .with("refused_out", counters.refused_out)
        .with("refused_in", counters.refused_in)
        .with("looped", counters.looped)
        .with("unmatched", counters.unmatched)
        .with("unmappable", counters.unmappable)
        .with("rate_pauses", counters.rate_pauses)
        .with("queued_messages", session.as_ref().map(|session| session.queued_messages))
        .with("queued_bytes", session.as_ref().map(|session| session.queued_bytes))
        .with("dropped_messages", session.as_ref().map(|session| session.dropped_messages)))
}

fn rule_fields(rule: &Rule, refused: Option<(Side, ReasonCode)>) -> Fields {
    let direction = match rule.direction {
        Direction::In => "in",
        Direction::Out => "out",
        Direction::Both => "both",
    };
    let refused = refused.map(|(side, reason)| {
        let by = if side == Side::Local { "local" } else { "remote" };
        Fields::default().with("by", by).with("reason_code", u64::from(reason.as_u8())).with("reason", reason.name())
    });
    Fields::default()
        .with("filter", rule.filter.as_str())
        .with("direction", direction)
        .with("qos", u64::from(rule.qos.as_u8()))
        .with("local_prefix", rule.local_prefix.as_str())
        .with("remote_prefix", rule.remote_prefix.as_str())
        .with("retain", if rule.keeps_retain { "keep" } else { "clear" })
        .with("rate", rule.rate_per_s.map(u64::from))
        .with("refused", refused)
}

fn start_name(start: &StartMode) -> &'static str {
    match start {
        StartMode::Automatic => "automatic",
        StartMode::Lazy(_) => "lazy",
        StartMode::Scheduled(_) => "scheduled",
    }
}

/// Appends the metrics of each bridge, if there are any. Names of bridges need no escaping as label values.
pub(super) fn push(text: &mut String, admin: &AdminState) {
    let bridges = admin.reloader.bridges().list();
    if bridges.is_empty() {
        return;
    }
    type Value = fn(&BridgeStatus) -> u64;
    let metrics: [(&str, &str, &str, Value); 12] = [
        ("connected", "gauge", "1 while a bridge is connected.", |status| {
            u64::from(status.state == BridgeState::Connected)
        }),
        (
            "enabled",
            "gauge",
            "1 while a bridge is connected or tries to: not paused, idle or run by another node.",
            |status| u64::from(matches!(status.state, BridgeState::Connected | BridgeState::Connecting)),
        ),
        ("connections_total", "counter", "Connections of a bridge that both brokers have accepted.", |status| {
            status.connections
        }),
        ("failures_total", "counter", "Failed attempts of a bridge to connect, and lost connections.", |status| {
            status.failures
        }),
        ("messages_out_total", "counter", "Messages sent to the other broker, repetitions included.", |status| {
            status.counters.messages_out
        }),
        ("messages_in_total", "counter", "Messages received from the other broker, repetitions included.", |status| {
            status.counters.messages_in
        }),
        ("refused_out_total", "counter", "Messages that the other broker refused.", |status| {
            status.counters.refused_out
        }),
        ("refused_in_total", "counter", "Messages of the other broker that this broker refused.", |status| {
            status.counters.refused_in
        }),
        (
            "looped_total",
            "counter",
            "Messages dropped because they had passed this broker, or too many brokers.",
            |status| status.counters.looped,
        ),
        ("unmatched_total", "counter", "Messages dropped because no rule of the bridge applies.", |status| {
            status.counters.unmatched
        }),
        (
            "unmappable_total",
            "counter",
            "Messages dropped because their topic is too long or invalid with the other prefix.",
            |status| status.counters.unmappable,
        ),
        ("rate_pauses_total", "counter", "Times the rate of a rule paused a direction of a bridge.", |status| {
            status.counters.rate_pauses
        }),
    ];
    for (name, kind, meaning, value) in metrics {
        let name = format!("tautwire_bridge_{name}");
        push_head(text, &name, kind, meaning);
        for (plan, status) in &bridges {
            let _ = writeln!(text, "{name}{{bridge=\"{}\"}} {}", plan.name, value(status));
        }
    }
}
