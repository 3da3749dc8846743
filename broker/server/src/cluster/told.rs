//! How it is with a node, as the admin API tells it.

use tautwire_cluster::{LaneStatus, NodeStanding, NodeStatus, SessionsStatus, Status};
use tautwire_nats::Condition;

use super::Sharing;
use crate::fields::{Fields, Value};

/// The state of the node `name` as it sees itself and the others.
pub(super) fn status(name: &str, status: &Status, sharing: &Sharing, condition: Option<&Condition>) -> Fields {
    let Status {
        incarnation,
        is_serving,
        is_draining,
        nodes,
        lanes,
        sessions,
        mirror,
        config,
        sweeps,
        patrol,
        counters,
    } = status;
    let waiting = |of: fn(&LaneStatus) -> u64| lanes.iter().map(of).sum::<u64>();
    let slowest = lanes.iter().filter_map(|lane| lane.group_age_ms).max();
    let me = *incarnation;
    Fields::default()
        .with("name", name)
        .with("life", me.to_string())
        .with("serving", *is_serving)
        .with("draining", *is_draining)
        .with("nats", told_condition(condition))
        .with(
            "nodes",
            Value::List(nodes.iter().map(|node| Value::Object(told_node(node, node.incarnation == me))).collect()),
        )
        .with(
            "log",
            Fields::default()
                .with("messages_waiting", waiting(|lane| lane.waiting as u64))
                .with("bytes_waiting", waiting(|lane| lane.waiting_bytes as u64))
                .with("slowest_ms", slowest),
        )
        .with("sessions", told_sessions(sessions))
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
                .with("held", sharing.held)
                .with("latest", config.latest)
                .with("behind", config.is_behind)
                .with("why", sharing.refused.clone())
                .with("parts", sharing.latest.parts.names().collect::<Vec<_>>()),
        )
        .with("sessions_freed", sweeps.freed)
        .with("sessions_adopted", sweeps.adopted)
        .with("members_removed", patrol.members_removed)
        .with("groups_removed", patrol.groups_removed)
        .with("patrols_cut_short", patrol.cut_short)
        .with("messages_given_back", counters.full)
        .with("messages_timed_out", counters.timeouts)
        .with("clients_moved", counters.moved)
        .with("spreads_unanswered", counters.spreads_unanswered)
}

fn told_condition(condition: Option<&Condition>) -> Fields {
    let (state, why) = match condition {
        Some(Condition::Ready | Condition::AccessChanged) => ("ready", None),
        Some(Condition::AccessRefused(error)) => ("ready", Some(error.to_string())),
        Some(Condition::Waiting(error)) => ("waiting", Some(error.to_string())),
        None => ("waiting", None),
    };
    Fields::default().with("state", state).with("why", why)
}

fn told_node(node: &NodeStatus, is_me: bool) -> Fields {
    let NodeStatus { incarnation, name, reference, standing, sessions, age_ms } = node;
    let standing = match standing {
        NodeStanding::Alive => "alive",
        NodeStanding::Closed => "closed",
        NodeStanding::Dying => "dying",
        NodeStanding::Buried => "buried",
    };
    Fields::default()
        .with("name", name.as_str())
        .with("life", incarnation.to_string())
        .with("this_one", is_me)
        .with("state", standing)
        .with("reference", reference.as_str())
        .with("sessions", u64::from(*sessions))
        .with("age_ms", *age_ms)
}

fn told_sessions(sessions: &SessionsStatus) -> Fields {
    let SessionsStatus { serving, resting, claiming, adopting, moving } = sessions;
    Fields::default()
        .with("serving", *serving)
        .with("resting", *resting)
        .with("claiming", *claiming)
        .with("adopting", *adopting)
        .with("moving", *moving)
}
