//! Message counts by the topic filters in `metrics.topics`.

use std::fmt::Write as _;

use tautwire_engine::TopicTotals;

use super::prometheus::{label, push_head};
use super::query::Query;
use super::request_context::RequestContext;
use super::response::{Response, ok};
use super::state::AdminState;
use crate::fields::Fields;

/// `GET /v1/topic-metrics`.
pub(super) fn answer(call: &mut RequestContext<'_, '_>) -> Result<Response, Response> {
    Query::parse(&call.head.query)?.finish("none")?;
    let topics: Vec<Fields> = call.admin.control.topic_totals().into_iter().map(to_fields).collect();
    Ok(ok(Fields::default().with("topics", topics)))
}

fn to_fields(totals: TopicTotals) -> Fields {
    let TopicTotals { filter, received, received_bytes, delivered, delivered_bytes, dropped } = totals;
    Fields::default()
        .with("filter", &*filter)
        .with("messages_received", received.iter().sum::<u64>())
        .with("messages_received_by_qos", received.to_vec())
        .with("bytes_received", received_bytes)
        .with("messages_delivered", delivered)
        .with("bytes_delivered", delivered_bytes)
        .with("messages_dropped", dropped)
}

/// Appends the same counters in the Prometheus format, if any are configured.
pub(super) fn push(text: &mut String, admin: &AdminState) {
    let topics = admin.control.topic_totals();
    if topics.is_empty() {
        return;
    }
    let name = "tautwire_topic_messages_received_total";
    push_head(text, name, "counter", "Messages published on topics that a filter of metrics.topics matches.");
    for topic in &topics {
        for (qos, count) in topic.received.iter().enumerate() {
            let _ = writeln!(text, "{name}{{filter=\"{}\",qos=\"{qos}\"}} {count}", label(&topic.filter));
        }
    }
    type Value = fn(&TopicTotals) -> u64;
    let metrics: [(&str, &str, Value); 4] = [
        (
            "bytes_received",
            "Payload bytes of messages published on topics that a filter of metrics.topics matches.",
            |topic| topic.received_bytes,
        ),
        ("messages_delivered", "Matching messages delivered to clients or to the queues of their sessions.", |topic| {
            topic.delivered
        }),
        ("bytes_delivered", "Payload bytes of matching messages delivered, as they were published.", |topic| {
            topic.delivered_bytes
        }),
        ("messages_dropped", "Matching messages dropped for a receiver.", |topic| topic.dropped),
    ];
    for (name, meaning, value) in metrics {
        let name = format!("tautwire_topic_{name}_total");
        push_head(text, &name, "counter", meaning);
        for topic in &topics {
            let _ = writeln!(text, "{name}{{filter=\"{}\"}} {}", label(&topic.filter), value(topic));
        }
    }
}
