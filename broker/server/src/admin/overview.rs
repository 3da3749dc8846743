//! An overview of the broker's state.

use std::time::Duration;

use tautwire_reactor::{DataState, Durations};

use super::history::{LatencyTotals, drops, now_ms};
use super::request_context::RequestContext;
use super::response::{Response, ok};
use crate::fields::Fields;

/// `GET /v1/overview`.
pub(super) fn answer(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    let admin = call.admin;
    let control = &admin.control;
    let totals = control.totals();
    let settings = control.settings();
    let (retained, retained_bytes) = control.retained();
    let data = control.data();
    let recent = admin.history.recent(&LatencyTotals::now(control, data.as_ref().map(|data| data.sync_times)));
    let now_ms = now_ms();
    let up = u64::try_from(Duration::as_millis(&admin.started.elapsed())).unwrap_or(u64::MAX);
    let limit = |limit: u64| (limit != u64::MAX).then_some(limit);
    let mut reasons = Fields::default();
    drops(&totals).into_iter().for_each(|(reason, count)| reasons.add(reason, count));
    let body = Fields::default()
        .with("version", env!("CARGO_PKG_VERSION"))
        .with("started_ms", now_ms.saturating_sub(up))
        .with("now_ms", now_ms)
        .with("threads", control.threads())
        .with("connections", totals.connections)
        .with("connections_limit", settings.connections)
        .with("sessions", totals.sessions)
        .with("subscriptions", totals.subscriptions)
        .with("retained_messages", retained)
        .with("retained_bytes", retained_bytes)
        .with("messages_received", totals.publishes_received)
        .with("messages_sent", totals.publishes_sent)
        .with("bytes_received", totals.bytes_received)
        .with("bytes_sent", totals.bytes_sent)
        .with("memory_bytes", control.memory_bytes())
        .with("memory_limit_bytes", settings.memory_bytes)
        .with("disk_bytes", data.as_ref().map(|data| data.log_bytes + data.snapshot_bytes))
        .with("disk_limit_bytes", data.as_ref().and_then(|data| limit(data.limit_bytes)))
        .with("log", log(recent.syncs.as_ref(), data.as_ref()))
        .with("latency", latency(&recent));
    Ok(ok(body.with("drops", reasons)))
}

/// `GET /v1/overview/history`.
pub(super) fn history(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    Ok(ok(call.admin.history.to_fields()))
}

/// The state of the log, with sync times of the last minute.
fn log(recent: Option<&Durations>, data: Option<&DataState>) -> Fields {
    let state = match data {
        None => "off",
        Some(data) if data.failure.is_some() => "failed",
        Some(data) if data.is_full => "full",
        Some(_) => "ok",
    };
    let percentile = |percent| recent.and_then(|times| times.percentile_us(percent));
    Fields::default().with("sync_p50_us", percentile(50)).with("sync_p99_us", percentile(99)).with("state", state)
}

/// Latencies of messages and acknowledgements in the last minute.
fn latency(recent: &LatencyTotals) -> Fields {
    Fields::default()
        .with("delivery_p50_us", recent.delivery.percentile_us(50))
        .with("delivery_p99_us", recent.delivery.percentile_us(99))
        .with("acknowledgement_p50_us", recent.acknowledgement.percentile_us(50))
        .with("acknowledgement_p99_us", recent.acknowledgement.percentile_us(99))
}
