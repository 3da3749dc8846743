//! The cluster status for the admin API.

use tautwire_cluster::{NodeHealth, NodeStatus, ProducerStatus, SessionsStatus, Status};
use tautwire_nats::ConnectionStatus;

use super::SharedConfigStatus;
use crate::fields::{Fields, Value};

/// The status of the node `name`, with its view of the others.
pub(super) fn status(
    name: &str,
    status: &Status,
    sharing: &SharedConfigStatus,
    connection: Option<&ConnectionStatus>,
) -> Fields {
    let Status {
        incarnation,
        is_serving,
        is_draining,
        nodes,
        producers,
        sessions,
        mirror,
        config,
        garbage_collection,
        health_check,
        counters,
    } = status;
    let waiting = |of: fn(&ProducerStatus) -> u64| producers.iter().map(of).sum::<u64>();
    let slowest = producers.iter().filter_map(|producer| producer.group_age_ms).max();
    let me = *incarnation;
    Fields::default()
        .with("name", name)
        .with("incarnation", me.to_string())
        .with("serving", *is_serving)
        .with("draining", *is_draining)
        .with("nats", connection_json(connection))
        .with(
            "nodes",
            Value::List(nodes.iter().map(|node| Value::Object(node_json(node, node.incarnation == me))).collect()),
        )
        .with(
            "log",
            Fields::default()
                .with("messages_waiting", waiting(|producer| producer.waiting as u64))
                .with("bytes_waiting", waiting(|producer| producer.waiting_bytes as u64))
                .with("slowest_ms", slowest),
        )
        .with("sessions", sessions_json(sessions))
        .with(
            "retained",
            Fields::default()
                .with("position", mirror.position)
                .with("end", mirror.end)
                .with("complete", mirror.is_caught_up)
                .with("unreadable", mirror.unreadable),
        )
        .with(
            "configuration",
            Fields::default()
                .with("current", sharing.held)
                .with("latest", config.latest)
                .with("lagging", config.is_behind)
                .with("reasons", sharing.refused.clone())
                .with("parts", sharing.latest.parts.names().collect::<Vec<_>>()),
        )
        .with("sessions_freed", garbage_collection.freed)
        .with("sessions_taken_over_for_wills", garbage_collection.taken_over)
        .with("members_removed", health_check.members_removed)
        .with("groups_removed", health_check.groups_removed)
        .with("health_checks_truncated", health_check.cut_short)
        .with("messages_requeued", counters.full)
        .with("messages_timed_out", counters.timeouts)
        .with("clients_migrated", counters.moved)
        .with("subscription_updates_unconfirmed", counters.spreads_unanswered)
}

fn connection_json(connection: Option<&ConnectionStatus>) -> Fields {
    let (state, why) = match connection {
        Some(ConnectionStatus::Ready | ConnectionStatus::AccessChanged) => ("ready", None),
        Some(ConnectionStatus::AccessRefused(error)) => ("ready", Some(error.to_string())),
        Some(ConnectionStatus::Waiting(error)) => ("waiting", Some(error.to_string())),
        None => ("waiting", None),
    };
    Fields::default().with("state", state).with("reason", why)
}

fn node_json(node: &NodeStatus, is_me: bool) -> Fields {
    let NodeStatus { incarnation, name, reference, health, sessions, age_ms } = node;
    let health = match health {
        NodeHealth::Alive => "alive",
        NodeHealth::Closed => "left",
        NodeHealth::Removing => "failed",
        NodeHealth::Removed => "removed",
    };
    Fields::default()
        .with("name", name.as_str())
        .with("incarnation", incarnation.to_string())
        .with("self", is_me)
        .with("state", health)
        .with("reference", reference.as_str())
        .with("sessions", u64::from(*sessions))
        .with("age_ms", *age_ms)
}

fn sessions_json(sessions: &SessionsStatus) -> Fields {
    let SessionsStatus { serving, waiting_for_will, claiming, taking_over, migrating } = sessions;
    Fields::default()
        .with("active", *serving)
        .with("dormant", *waiting_for_will)
        .with("claims_pending", *claiming)
        .with("takeovers_pending", *taking_over)
        .with("migrating", *migrating)
}
