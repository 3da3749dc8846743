//! Metrics in the Prometheus format or as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use tautwire_engine::{Latencies, Totals};
use tautwire_memory::Kind;
use tautwire_reactor::{DataState, ListenerState};

use super::prometheus::{CONTENT_TYPE, label, push_head, push_histogram};
use super::request_context::RequestContext;
use super::response::{JSON, Response, Status};
use super::state::AdminState;
use super::{bridges, process, topic_metrics};
use crate::cluster::{Node, SharedConfigStatus};
use crate::identity::WorkerCounters;

/// Engine counters that are gauges.
const GAUGES: [&str; 12] = [
    "connections",
    "sessions",
    "sessions_connected",
    "sessions_stale",
    "stored_messages",
    "stored_bytes",
    "output_bytes",
    "spilled_messages",
    "spilled_bytes",
    "spill_file_bytes",
    "spill_unreadable",
    "subscriptions",
];

/// A metric with its name, help text and value.
struct Metric {
    name: &'static str,
    meaning: &'static str,
    is_gauge: bool,
    value: u64,
}

impl Metric {
    fn gauge(name: &'static str, meaning: &'static str, value: u64) -> Metric {
        Metric { name, meaning, is_gauge: true, value }
    }

    fn counter(name: &'static str, meaning: &'static str, value: u64) -> Metric {
        Metric { name, meaning, is_gauge: false, value }
    }
}

pub(super) fn answer(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    let metrics = collect(call.admin);
    if prefers_json(&call.head.accept) {
        let members: Vec<String> =
            metrics.iter().map(|metric| format!("\"{}\":{}", metric.name, metric.value)).collect();
        return Ok(Response::new(Status::OK, JSON, format!("{{{}}}\n", members.join(","))));
    }
    Ok(Response::new(Status::OK, CONTENT_TYPE, text_of(call.admin, metrics)))
}

impl AdminState {
    /// All metrics in the Prometheus text format.
    pub(crate) fn metrics(&self) -> String {
        text_of(self, collect(self))
    }
}

fn text_of(admin: &AdminState, metrics: Vec<Metric>) -> String {
    let mut text = String::new();
    for Metric { name, meaning, is_gauge, value } in metrics {
        let (kind, suffix) = if is_gauge { ("gauge", "") } else { ("counter", "_total") };
        let name = format!("tautwire_{name}{suffix}");
        push_head(&mut text, &name, kind, meaning);
        let _ = writeln!(text, "{name} {value}");
    }
    push_listeners(&mut text, admin);
    push_certificates(&mut text, admin);
    if let Some(data) = admin.control.data() {
        let meaning = "Time from writing to the log until the data was durable.";
        push_histogram(&mut text, "data_sync_seconds", meaning, &[("", &data.sync_times)]);
    }
    push_latencies(&mut text, &admin.control.latencies());
    topic_metrics::push(&mut text, admin);
    bridges::push(&mut text, admin);
    process::push(&mut text);
    text
}

/// Appends the metrics of each listener. Listener names need no escaping as label values.
fn push_listeners(text: &mut String, admin: &AdminState) {
    let listeners: Vec<ListenerState> = admin.control.listeners();
    type Value = fn(&ListenerState) -> u64;
    let metrics: [(&str, &str, &str, Value); 3] = [
        ("connections", "gauge", "Open connections of a listener.", |listener| listener.connections),
        ("connections_accepted_total", "counter", "Connections accepted by a listener.", |listener| listener.accepted),
        ("connections_refused_total", "counter", "Connections refused by a listener.", |listener| listener.refused),
    ];
    for (name, kind, meaning, value) in metrics {
        let name = format!("tautwire_listener_{name}");
        push_head(text, &name, kind, meaning);
        for listener in &listeners {
            let _ = writeln!(text, "{name}{{listener=\"{}\"}} {}", listener.name, value(listener));
        }
    }
}

/// Appends the expiry of listener certificates: the earliest for each host.
fn push_certificates(text: &mut String, admin: &AdminState) {
    let mut first_s = BTreeMap::new();
    for (listener, certificates) in admin.reloader.certificates() {
        for certificate in certificates.iter() {
            let host = certificate.names.first().map_or("", |name| name.as_str());
            let Some(expires_s) = certificate.not_after_unix_s else { continue };
            let labels = format!("listener=\"{}\",host=\"{}\"", label(&listener), label(host));
            first_s.entry(labels).and_modify(|first: &mut u64| *first = expires_s.min(*first)).or_insert(expires_s);
        }
    }
    if first_s.is_empty() {
        return;
    }
    let name = "tautwire_listener_certificate_expires_timestamp_seconds";
    push_head(text, name, "gauge", "When a certificate of a listener expires, in seconds since the Unix epoch.");
    for (labels, expires_s) in first_s {
        let _ = writeln!(text, "{name}{{{labels}}} {expires_s}");
    }
}

/// Appends the latencies of messages and acknowledgements.
fn push_latencies(
    text: &mut String,
    Latencies { delivery: [zero, one, two], acknowledgement: [puback, pubrec] }: &Latencies,
) {
    let meaning =
        "Time from reading a message to writing it to a client, excluding messages that waited for the client.";
    let by_qos = [("qos=\"0\"", zero), ("qos=\"1\"", one), ("qos=\"2\"", two)];
    push_histogram(text, "delivery_seconds", meaning, &by_qos);
    let meaning = "Time from reading a message to writing PUBACK or PUBREC, including the wait for the log.";
    push_histogram(text, "acknowledgement_seconds", meaning, &[("qos=\"1\"", puback), ("qos=\"2\"", pubrec)]);
}

/// Whether JSON is named before any kind of text.
fn prefers_json(accept: &str) -> bool {
    let kinds = accept.split(',').map(|kind| kind.split(';').next().unwrap_or_default().trim());
    kinds.into_iter().find(|kind| kind.starts_with("text/") || *kind == JSON) == Some(JSON)
}

fn collect(admin: &AdminState) -> Vec<Metric> {
    let node = admin.reloader.node();
    let mut metrics = of_engine(admin);
    metrics.extend(of_broker(admin));
    metrics.extend(admin.control.data().iter().flat_map(of_data));
    let memory = admin.control.memory();
    metrics.extend(Kind::ALL.iter().map(|kind| Metric::gauge(kind.gauge(), kind.meaning(), memory.held(*kind))));
    let cached = admin.reloader.authenticator().verified().count() as u64;
    metrics.push(Metric::gauge("auth_cached_passwords", "Passwords in the cache of verified passwords.", cached));
    metrics.extend(node.into_iter().flat_map(of_cluster));
    metrics.extend(of_authentication(admin));
    metrics.extend(of_contracts_and_log(admin));
    metrics.extend(of_admin_api(admin));
    let listed = admin.reloader.telemetry().counters().into_iter().chain(node.map(Node::counters).unwrap_or_default());
    metrics.extend(listed.map(|(name, meaning, value)| Metric::counter(name, meaning, value)));
    metrics
}

fn of_engine(admin: &AdminState) -> Vec<Metric> {
    let mut metrics = Vec::new();
    let mut meanings = Totals::DESCRIPTIONS.iter();
    admin.control.totals().each(|name, value| {
        let meaning = meanings.next().map_or("", |(_, meaning)| meaning);
        metrics.push(Metric { name, meaning, is_gauge: GAUGES.contains(&name), value });
    });
    metrics
}

fn of_broker(admin: &AdminState) -> [Metric; 11] {
    let AdminState { control, connections, counters, started, .. } = admin;
    let (retained, retained_bytes) = control.retained();
    let settings = control.settings();
    let contracts = control.contracts().contracts().len();
    [
        ("retained_messages", "Retained messages.", retained as u64),
        ("retained_bytes", "Bytes of retained messages counted against the limit.", retained_bytes as u64),
        ("memory_retained_bytes", "Memory of retained messages and their topic tree.", control.retained_held_bytes()),
        (
            "memory_used_bytes",
            "Memory held on behalf of clients, counted against memory_limit_bytes.",
            control.memory_bytes(),
        ),
        (
            "memory_limit_bytes",
            "Limit for memory held on behalf of clients: limits.memory_bytes.",
            settings.memory_bytes as u64,
        ),
        ("connections_limit", "Limit for open connections: limits.connections.", settings.connections as u64),
        ("contracts", "Contracts in effect.", contracts as u64),
        ("admin_connections", "Open connections to the admin API.", connections.count() as u64),
        ("admin_sessions", "Login sessions of the admin API.", admin.session_count() as u64),
        ("admin_taps", "Open taps.", counters.taps.load(Ordering::Relaxed) as u64),
        ("uptime_seconds", "Seconds since the broker started.", started.elapsed().as_secs()),
    ]
    .map(|(name, meaning, value)| Metric::gauge(name, meaning, value))
}

fn of_authentication(admin: &AdminState) -> [Metric; 4] {
    let authenticator = admin.reloader.authenticator();
    let WorkerCounters { done, refused, abandoned } = authenticator.counters();
    [
        (
            "auth_requests",
            "Authentication steps done by the worker threads: password hashes, signatures, requests to hooks.",
            done,
        ),
        ("auth_requests_refused", "Clients refused because the authentication queue was full.", refused),
        (
            "auth_password_cache_hits",
            "Password checks answered from the cache without computing a hash.",
            authenticator.verified().hits(),
        ),
        (
            "auth_requests_canceled",
            "Clients that disconnected while they waited for an authentication step.",
            abandoned,
        ),
    ]
    .map(|(name, meaning, value)| Metric::counter(name, meaning, value))
}

fn of_contracts_and_log(admin: &AdminState) -> [Metric; 3] {
    let (changes, refused) = admin.store.changes();
    let suppressed = crate::log::suppressed_lines();
    [
        Metric::counter("contract_changes", "Times the contracts were changed or reloaded.", changes),
        Metric::counter("contract_changes_refused", "Changes of the contracts refused because of an error.", refused),
        Metric::counter(
            "log_lines_suppressed",
            "Log lines suppressed as repetitions: log.rate_limit_burst.",
            suppressed,
        ),
    ]
}

fn of_admin_api(AdminState { counters, connections, .. }: &AdminState) -> [Metric; 12] {
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    [
        ("admin_requests", "Requests to the admin API.", count(&counters.requests)),
        ("admin_requests_refused", "Requests to the admin API answered with an error.", count(&counters.refused)),
        (
            "admin_connections_evicted",
            "Connections to the admin API closed to make room; the one that has waited longest goes first.",
            connections.evicted(),
        ),
        (
            "admin_connections_refused",
            "Connections to the admin API refused because all others were busy.",
            connections.refused(),
        ),
        (
            "admin_request_timeouts",
            "Requests to the admin API that did not arrive completely in time.",
            count(&counters.timeouts),
        ),
        ("admin_taps_refused", "Taps refused because the limit was reached.", count(&counters.taps_refused)),
        (
            "admin_tap_messages_skipped",
            "Messages that taps skipped because of their rate limits.",
            count(&counters.tap_messages_skipped),
        ),
        ("admin_messages_published", "Messages published through the admin API.", count(&counters.messages_published)),
        ("admin_logins", "Logins to the admin API.", count(&counters.logins)),
        ("admin_logins_refused", "Refused logins: unknown token or wrong password.", count(&counters.logins_refused)),
        (
            "admin_logins_throttled",
            "Logins rejected unchecked because too many had failed before.",
            count(&counters.logins_slowed),
        ),
        (
            "admin_sessions_evicted",
            "Login sessions ended to make room for new ones.",
            count(&counters.sessions_displaced),
        ),
    ]
    .map(|(name, meaning, value)| Metric::counter(name, meaning, value))
}

fn of_cluster(node: &Node) -> [Metric; 4] {
    let SharedConfigStatus { held, refused, refusals, .. } = node.sharing();
    let is_lagging = u64::from(!refused.is_empty());
    [
        Metric::gauge(
            "cluster_serving",
            "1 while this broker may serve clients of the cluster.",
            u64::from(node.accepts_clients()),
        ),
        Metric::gauge("cluster_configuration", "Revision of the shared configuration that is in effect.", held),
        Metric::gauge(
            "cluster_configuration_lagging",
            "1 while this broker cannot apply the latest shared configuration and accepts no new clients.",
            is_lagging,
        ),
        Metric::counter(
            "cluster_configurations_refused",
            "Revisions of the shared configuration that this broker could not apply.",
            refusals,
        ),
    ]
}

fn of_data(data: &DataState) -> [Metric; 7] {
    [
        Metric::gauge("data_log_bytes", "Size of the log on disk.", data.log_bytes),
        Metric::gauge("data_snapshot_bytes", "Size of the last snapshot on disk.", data.snapshot_bytes),
        Metric::gauge("data_limit_bytes", "Limit for the size of log and snapshot.", data.limit_bytes),
        Metric::gauge("data_full", "1 while writes are refused for lack of disk space.", u64::from(data.is_full)),
        Metric::gauge("data_failed", "1 after a disk failure, until a restart.", u64::from(data.failure.is_some())),
        Metric::counter("data_syncs", "Sync operations on the log.", data.syncs),
        Metric::counter(
            "data_snapshot_failures",
            "Failed snapshots, after which the log keeps growing.",
            data.snapshot_failures,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_gauge_is_a_counter_of_the_engine() {
        for gauge in GAUGES {
            let found = Totals::DESCRIPTIONS.iter().find(|(name, _)| *name == gauge);
            assert!(found.is_some_and(|(_, meaning)| meaning.contains("now") || gauge.ends_with("bytes")), "{gauge}");
        }
        for (name, meaning) in Totals::DESCRIPTIONS {
            let is_gauge = meaning.ends_with(" now.") || meaning.contains(" now,") || meaning.contains(" now:");
            assert!(!is_gauge || GAUGES.contains(name), "{name}: {meaning}");
        }
    }

    #[test]
    fn json_is_returned_on_request() {
        assert!(prefers_json("application/json"));
        assert!(prefers_json("application/json;q=0.9, text/plain"));
        assert!(!prefers_json(""));
        assert!(!prefers_json("*/*"));
        assert!(!prefers_json("text/plain, application/json"));
        assert!(!prefers_json("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"));
    }
}
