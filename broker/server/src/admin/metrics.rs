//! The counters, for Prometheus or as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use tautwire_engine::{Latencies, Totals};
use tautwire_memory::Kind;
use tautwire_reactor::{DataState, Durations, ListenerState};

use super::response::{JSON, Response, Status};
use super::routes::RequestContext;
use super::{Admin, process, topic_metrics};
use crate::cluster::{Node, SharedConfigStatus};
use crate::identity::WorkerCounters;

/// The text format of Prometheus.
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Those of the engine's counters that also fall.
const GAUGES: [&str; 12] = [
    "connections",
    "sessions",
    "sessions_connected",
    "sessions_neglected",
    "stored_messages",
    "stored_bytes",
    "output_bytes",
    "cold_messages",
    "cold_bytes",
    "cold_file_bytes",
    "cold_unreadable",
    "subscriptions",
];

/// One number with its name and meaning.
struct Metric {
    name: &'static str,
    meaning: &'static str,
    is_gauge: bool,
    value: u64,
}

pub(super) fn answer(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    let metrics = collect(call.admin);
    if wants_json(&call.head.accept) {
        let members: Vec<String> =
            metrics.iter().map(|metric| format!("\"{}\":{}", metric.name, metric.value)).collect();
        return Ok(Response::new(Status::OK, JSON, format!("{{{}}}\n", members.join(","))));
    }
    Ok(Response::new(Status::OK, PROMETHEUS, text_of(call.admin, metrics)))
}

/// All metrics in the format of Prometheus.
pub(super) fn text(admin: &Admin) -> String {
    text_of(admin, collect(admin))
}

fn text_of(admin: &Admin, metrics: Vec<Metric>) -> String {
    let mut text = String::new();
    for Metric { name, meaning, is_gauge, value } in metrics {
        let (kind, suffix) = if is_gauge { ("gauge", "") } else { ("counter", "_total") };
        let _ = writeln!(text, "# HELP tautwire_{name}{suffix} {meaning}");
        let _ = writeln!(text, "# TYPE tautwire_{name}{suffix} {kind}");
        let _ = writeln!(text, "tautwire_{name}{suffix} {value}");
    }
    push_listeners(&mut text, admin);
    push_certificates(&mut text, admin);
    if let Some(data) = admin.control.data() {
        let meaning = "Times in which what was written to the log became durable.";
        push_histogram(&mut text, "data_sync_seconds", meaning, &[("", &data.sync_times)]);
    }
    push_latencies(&mut text, &admin.control.latencies());
    topic_metrics::push(&mut text, admin);
    process::push(&mut text);
    text
}

/// What is counted for each listener, whose names have nothing in them that a label would have to escape.
fn push_listeners(text: &mut String, admin: &Admin) {
    let listeners: Vec<ListenerState> = admin.control.listeners();
    type Value = fn(&ListenerState) -> u64;
    let metrics: [(&str, &str, &str, Value); 3] = [
        ("connections", "gauge", "Connections open now by a listener.", |listener| listener.connections),
        ("accepted_total", "counter", "Connections let in by a listener.", |listener| listener.accepted),
        ("refused_total", "counter", "Connections closed on arrival by a listener.", |listener| listener.refused),
    ];
    for (name, kind, meaning, value) in metrics {
        let _ = writeln!(text, "# HELP tautwire_listener_{name} {meaning}");
        let _ = writeln!(text, "# TYPE tautwire_listener_{name} {kind}");
        for listener in &listeners {
            let _ = writeln!(text, "tautwire_listener_{name}{{listener=\"{}\"}} {}", listener.name, value(listener));
        }
    }
}

/// When the certificates expire by which listeners are served: of several for one host, the first.
fn push_certificates(text: &mut String, admin: &Admin) {
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
    let _ = writeln!(text, "# HELP {name} When a certificate of a listener expires, in seconds since the Unix epoch.");
    let _ = writeln!(text, "# TYPE {name} gauge");
    for (labels, expires_s) in first_s {
        let _ = writeln!(text, "{name}{{{labels}}} {expires_s}");
    }
}

/// A text as the value of a label.
pub(super) fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// How long messages and acknowledgements take.
fn push_latencies(
    text: &mut String,
    Latencies { delivery: [zero, one, two], acknowledgement: [puback, pubrec] }: &Latencies,
) {
    let meaning = "Times from reading a message to writing it to a client, without what waited for the client.";
    let by_qos = [("qos=\"0\"", zero), ("qos=\"1\"", one), ("qos=\"2\"", two)];
    push_histogram(text, "delivery_seconds", meaning, &by_qos);
    let meaning = "Times from reading a message to writing PUBACK or PUBREC, with the wait for the log.";
    push_histogram(text, "acknowledgement_seconds", meaning, &[("qos=\"1\"", puback), ("qos=\"2\"", pubrec)]);
}

/// Bounds of the histograms: from 8 µs to 16 s, each twice the one before.
const BOUND_DOUBLINGS: std::ops::RangeInclusive<u32> = 3..=24;

/// A histogram, for each of some labels.
fn push_histogram(text: &mut String, name: &str, meaning: &str, series: &[(&str, &Durations)]) {
    let name = format!("tautwire_{name}");
    let _ = writeln!(text, "# HELP {name} {meaning}");
    let _ = writeln!(text, "# TYPE {name} histogram");
    for (label, durations) in series {
        let (braced, before) = match label.is_empty() {
            true => (String::new(), String::new()),
            false => (format!("{{{label}}}"), format!("{label},")),
        };
        for doublings in BOUND_DOUBLINGS {
            let bound_s = (1_u64 << doublings) as f64 / 1e6;
            let _ = writeln!(text, "{name}_bucket{{{before}le=\"{bound_s}\"}} {}", durations.count_below(doublings));
        }
        let count = durations.count();
        let _ = writeln!(text, "{name}_bucket{{{before}le=\"+Inf\"}} {count}");
        let _ = writeln!(text, "{name}_sum{braced} {}", durations.sum_us() as f64 / 1e6);
        let _ = writeln!(text, "{name}_count{braced} {count}");
    }
}

/// Whether JSON is named, and no kind of text before it.
fn wants_json(accept: &str) -> bool {
    let kinds = accept.split(',').map(|kind| kind.split(';').next().unwrap_or_default().trim());
    kinds.into_iter().find(|kind| kind.starts_with("text/") || *kind == JSON) == Some(JSON)
}

fn collect(admin: &Admin) -> Vec<Metric> {
    let mut metrics = Vec::new();
    let mut meanings = Totals::DESCRIPTIONS.iter();
    admin.control.totals().each(|name, value| {
        let meaning = meanings.next().map_or("", |(_, meaning)| meaning);
        metrics.push(Metric { name, meaning, is_gauge: GAUGES.contains(&name), value });
    });
    let (retained, retained_bytes) = admin.control.retained();
    let counters = &admin.counters;
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let contracts = admin.control.contracts().contracts().len();
    let settings = admin.control.settings();
    let gauges = [
        ("retained_messages", "Messages retained now.", retained as u64),
        ("retained_bytes", "Bytes of the retained messages that count against the limit.", retained_bytes as u64),
        (
            "memory_retained_bytes",
            "Retained messages, with the places of their topics.",
            admin.control.retained_held_bytes(),
        ),
        (
            "memory_held_bytes",
            "Memory that clients make the broker hold now, counted against memory_limit_bytes.",
            admin.control.buffered_bytes(),
        ),
        (
            "memory_limit_bytes",
            "Memory that clients may make the broker hold: limits.buffered_bytes.",
            settings.buffered_bytes as u64,
        ),
        ("connections_limit", "Connections that may be open: limits.connections.", settings.connections as u64),
        ("contracts", "Contracts in force now.", contracts as u64),
        ("admin_connections", "Connections to this API open now.", admin.connections.count() as u64),
        ("admin_sessions", "Sessions of users logged in to this API now.", admin.session_count() as u64),
        ("admin_taps", "Taps open now.", counters.taps.load(Ordering::Relaxed) as u64),
        ("uptime_seconds", "Time since the start.", admin.started.elapsed().as_secs()),
    ];
    metrics.extend(gauges.map(|(name, meaning, value)| Metric { name, meaning, is_gauge: true, value }));
    if let Some(data) = admin.control.data() {
        metrics.extend(of_data(&data));
    }
    metrics.extend(Kind::ALL.iter().map(|kind| Metric {
        name: kind.gauge(),
        meaning: kind.meaning(),
        is_gauge: true,
        value: admin.control.memory().held(*kind),
    }));
    let WorkerCounters { done, refused, abandoned } = admin.reloader.authenticator().counters();
    let verified = admin.reloader.authenticator().verified();
    metrics.push(Metric {
        name: "auth_cached_passwords",
        meaning: "Passwords in the cache of verified passwords.",
        is_gauge: true,
        value: verified.count() as u64,
    });
    let (changes, changes_refused) = admin.store.changes();
    let logins = [
        ("admin_logins", "Logins to this API.", count(&counters.logins)),
        (
            "admin_logins_refused",
            "Logins refused: no such token, or a wrong password.",
            count(&counters.logins_refused),
        ),
        (
            "admin_logins_slowed",
            "Logins not looked at, because too many had failed before.",
            count(&counters.logins_slowed),
        ),
        (
            "admin_sessions_displaced",
            "Sessions of this API that ended because others began.",
            count(&counters.sessions_displaced),
        ),
    ];
    let own = [
        (
            "auth_work",
            "Authentication steps done by the worker threads: password hashes, signatures, requests to hooks.",
            done,
        ),
        ("auth_work_refused", "Clients refused because too many waited for an authentication step.", refused),
        (
            "auth_password_cache_hits",
            "Logins by a password in the cache, for which no hash was computed.",
            verified.hits(),
        ),
        ("auth_work_abandoned", "Clients that left while they waited for an authentication step.", abandoned),
        ("contract_changes", "Times the contracts were changed or reloaded.", changes),
        (
            "contract_changes_refused",
            "Times a change of the contracts was refused because of an error.",
            changes_refused,
        ),
        (
            "log_lines_suppressed",
            "Lines of the log not written because too many were like them: log.repeat_burst.",
            crate::log::suppressed_lines(),
        ),
        ("admin_requests", "Requests to this API.", count(&counters.requests)),
        ("admin_requests_refused", "Requests to this API answered with an error.", count(&counters.refused)),
        (
            "admin_connections_evicted",
            "Connections to this API closed because others came; the longest waiting goes first.",
            admin.connections.evicted(),
        ),
        (
            "admin_connections_refused",
            "Connections to this API refused because all others were being served.",
            admin.connections.refused(),
        ),
        ("admin_request_timeouts", "Requests to this API that did not come whole in time.", count(&counters.timeouts)),
        ("admin_taps_refused", "Taps refused because there were too many.", count(&counters.taps_refused)),
        (
            "admin_tap_messages_skipped",
            "Messages that taps left out because there were more than they may show.",
            count(&counters.tap_messages_skipped),
        ),
        (
            "admin_messages_published",
            "Messages published by requests to this API.",
            count(&counters.messages_published),
        ),
    ];
    let own = own.into_iter().chain(logins).chain(admin.reloader.telemetry().counters());
    let node = admin.reloader.node();
    let own = own.chain(node.map(Node::counters).unwrap_or_default());
    metrics.extend(node.map(of_cluster).into_iter().flatten());
    metrics.extend(own.map(|(name, meaning, value)| Metric { name, meaning, is_gauge: false, value }));
    metrics
}

fn of_cluster(node: &Node) -> [Metric; 4] {
    let metric = |name, meaning, is_gauge, value| Metric { name, meaning, is_gauge, value };
    let SharedConfigStatus { held, refused, refusals, .. } = node.sharing();
    [
        metric(
            "cluster_serving",
            "1 while the cluster lets this broker take clients.",
            true,
            u64::from(node.takes_clients()),
        ),
        metric("cluster_configuration", "Number of the shared configuration's revision that holds.", true, held),
        metric(
            "cluster_configuration_behind",
            "1 while this broker cannot take on the last revision, and takes no new clients.",
            true,
            u64::from(!refused.is_empty()),
        ),
        metric(
            "cluster_configurations_refused",
            "Revisions of the shared configuration that this broker could not take on.",
            false,
            refusals,
        ),
    ]
}

fn of_data(data: &DataState) -> [Metric; 7] {
    let gauge = |name, meaning, value| Metric { name, meaning, is_gauge: true, value };
    [
        gauge("data_log_bytes", "Bytes of the log on disk now.", data.log_bytes),
        gauge("data_snapshot_bytes", "Bytes of the last snapshot on disk now.", data.snapshot_bytes),
        gauge("data_limit_bytes", "Bytes that log and snapshot may take.", data.limit_bytes),
        gauge("data_full", "1 while what must be kept is refused for lack of disk.", u64::from(data.is_full)),
        gauge(
            "data_failed",
            "1 when the disk has failed and nothing is kept any more.",
            u64::from(data.failure.is_some()),
        ),
        Metric {
            name: "data_syncs",
            meaning: "Writes to the log, each of which made all that waited durable.",
            is_gauge: false,
            value: data.syncs,
        },
        Metric {
            name: "data_snapshot_failures",
            meaning: "Times no snapshot could be made, so that the log grows.",
            is_gauge: false,
            value: data.snapshot_failures,
        },
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
    fn json_is_for_those_who_ask_for_it() {
        assert!(wants_json("application/json"));
        assert!(wants_json("application/json;q=0.9, text/plain"));
        assert!(!wants_json(""));
        assert!(!wants_json("*/*"));
        assert!(!wants_json("text/plain, application/json"));
        assert!(!wants_json("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"));
    }
}
