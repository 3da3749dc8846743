//! The counters, for Prometheus or as JSON.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use tautwire_engine::Totals;
use tautwire_memory::Kind;
use tautwire_reactor::{DataState, ListenerState};

use super::Admin;
use super::response::{JSON, Response, Status};
use crate::identity::WorkerCounters;

/// The text format of Prometheus.
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Those of the engine's counters that also fall.
const GAUGES: [&str; 11] = [
    "connections",
    "sessions",
    "sessions_connected",
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

pub(super) fn answer(admin: &Admin, accept: &str) -> Response {
    let metrics = collect(admin);
    if wants_json(accept) {
        let members: Vec<String> =
            metrics.iter().map(|metric| format!("\"{}\":{}", metric.name, metric.value)).collect();
        return Response::new(Status::OK, JSON, format!("{{{}}}\n", members.join(",")));
    }
    let mut text = String::new();
    for Metric { name, meaning, is_gauge, value } in metrics {
        let (kind, suffix) = if is_gauge { ("gauge", "") } else { ("counter", "_total") };
        let _ = writeln!(text, "# HELP tautwire_{name}{suffix} {meaning}");
        let _ = writeln!(text, "# TYPE tautwire_{name}{suffix} {kind}");
        let _ = writeln!(text, "tautwire_{name}{suffix} {value}");
    }
    push_listeners(&mut text, admin);
    Response::new(Status::OK, PROMETHEUS, text)
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

/// Whether JSON is named, and no kind of text before it.
fn wants_json(accept: &str) -> bool {
    let kinds = accept.split(',').map(|kind| kind.split(';').next().unwrap_or_default().trim());
    kinds.into_iter().find(|kind| kind.starts_with("text/") || *kind == JSON) == Some(JSON)
}

fn collect(admin: &Admin) -> Vec<Metric> {
    let mut metrics = Vec::new();
    let mut meanings = Totals::MEANINGS.iter();
    admin.control.totals().each(|name, value| {
        let meaning = meanings.next().map_or("", |(_, meaning)| meaning);
        metrics.push(Metric { name, meaning, is_gauge: GAUGES.contains(&name), value });
    });
    let (retained, retained_bytes) = admin.control.retained();
    let counters = &admin.counters;
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let contracts = admin.control.contracts().contracts().len();
    let gauges = [
        ("retained_messages", "Messages retained now.", retained as u64),
        ("retained_bytes", "Bytes of the retained messages that count against the limit.", retained_bytes as u64),
        (
            "memory_retained_bytes",
            "Retained messages, with the places of their topics.",
            admin.control.retained_held_bytes(),
        ),
        ("contracts", "Contracts that hold now.", contracts as u64),
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
    let WorkerCounters { done, refused, late, abandoned } = admin.reloader.porter().counters();
    let (changes, changes_refused) = admin.store.changes();
    let own = [
        ("auth_work", "Hashes, signatures and questions to others by which it was found out who clients are.", done),
        ("auth_work_refused", "Clients refused because too many waited for that.", refused),
        ("auth_work_late", "Clients refused because they had waited too long for that.", late),
        ("auth_work_abandoned", "Clients that were gone before a thread had time for that.", abandoned),
        ("contract_changes", "Times the contracts were changed or read again.", changes),
        ("contract_changes_refused", "Times that was refused, because something was wrong.", changes_refused),
        ("admin_requests", "Requests to this API.", count(&counters.requests)),
        ("admin_requests_refused", "Those answered with an error.", count(&counters.refused)),
        (
            "admin_connections_refused",
            "Connections to this API refused because there were too many.",
            count(&counters.connections_refused),
        ),
        (
            "admin_messages_published",
            "Messages published by requests to this API.",
            count(&counters.messages_published),
        ),
    ];
    metrics.extend(own.map(|(name, meaning, value)| Metric { name, meaning, is_gauge: false, value }));
    metrics
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
            let found = Totals::MEANINGS.iter().find(|(name, _)| *name == gauge);
            assert!(found.is_some_and(|(_, meaning)| meaning.contains("now") || gauge.ends_with("bytes")), "{gauge}");
        }
        for (name, meaning) in Totals::MEANINGS {
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
