//! The status of a node, for operators.

use crate::config::ConfigStatus;
use crate::garbage::GarbageCollectorStatus;
use crate::groups::HealthCheckStatus;
use crate::names::Incarnation;
use crate::nodes::NodeStatus;
use crate::producers::ProducerStatus;
use crate::retained::MirrorStatus;
use crate::sessions::SessionsStatus;

/// The status of a node and of the others as it sees them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The incarnation of the node.
    pub incarnation: Incarnation,
    /// Whether clients may be read from and written to.
    pub is_serving: bool,
    /// Whether the node is draining: its clients are being moved to other nodes.
    pub is_draining: bool,
    /// All known incarnations, including this one.
    pub nodes: Vec<NodeStatus>,
    /// The producers of the log, one per partition.
    pub producers: Vec<ProducerStatus>,
    /// The sessions of this node.
    pub sessions: SessionsStatus,
    /// The node's copy of the retained messages.
    pub mirror: MirrorStatus,
    /// The node's copy of the shared configuration.
    pub config: ConfigStatus,
    /// What its garbage collection has done.
    pub garbage_collection: GarbageCollectorStatus,
    /// What its health check of groups has done.
    pub health_check: HealthCheckStatus,
    /// Reached limits and other counters.
    pub counters: Counters,
}

/// The counters of a node since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Messages that were returned to the caller because `waiting_max_bytes` or `retaining_max_bytes` was reached.
    pub full: u64,
    /// Messages that were refused after `publish_timeout_ms`.
    pub timeouts: u64,
    /// Writes of retained messages whose precondition was wrong.
    pub retained_conflicts: u64,
    /// Retained messages that were never written because a later one was first.
    pub retained_superseded: u64,
    /// Bytes of messages waiting to be retained. This value goes up and down.
    pub retaining_bytes: u64,
    /// Times a node has not confirmed within `interest_sync_timeout_ms` that it knows this node's interest, or the bus has not.
    pub spreads_unanswered: u64,
    /// Clients that were sent to other nodes, or rejected because the node accepts none.
    pub moved: u64,
}
