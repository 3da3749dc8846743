//! How it is with a node, for those who operate it.

use crate::config::ConfigStatus;
use crate::garbage::GarbageCollectorStatus;
use crate::groups::HealthCheckStatus;
use crate::names::Incarnation;
use crate::nodes::NodeStatus;
use crate::producers::ProducerStatus;
use crate::retained::MirrorStatus;
use crate::sessions::SessionsStatus;

/// How one node sees itself and the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Which life this is.
    pub incarnation: Incarnation,
    /// Whether clients may be read from and written to.
    pub is_serving: bool,
    /// Whether its clients are being sent to other nodes, because it is to end.
    pub is_draining: bool,
    /// All lives that are known, this one as well.
    pub nodes: Vec<NodeStatus>,
    /// The ways into the log, one for each partition.
    pub producers: Vec<ProducerStatus>,
    /// What this node has to do.
    pub sessions: SessionsStatus,
    /// Its copy of the retained messages.
    pub mirror: MirrorStatus,
    /// Its copy of the shared configuration.
    pub config: ConfigStatus,
    /// What it has done for sessions of others.
    pub garbage_collection: GarbageCollectorStatus,
    /// What it has done for groups of shared subscriptions.
    pub health_check: HealthCheckStatus,
    /// How often a limit was reached, and what else is worth a count.
    pub counters: Counters,
}

/// What a node counts from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Messages that were given back because `waiting_max_bytes` or `retaining_max_bytes` were reached.
    pub full: u64,
    /// Messages that were refused after `publish_timeout_ms`.
    pub timeouts: u64,
    /// Retained messages whose topic had something else than what was expected.
    pub retained_conflicts: u64,
    /// Retained messages that were never written, because a later one had come.
    pub retained_superseded: u64,
    /// Bytes of messages that are to be retained: this one goes up and down.
    pub retaining_bytes: u64,
    /// How often a node has not said within `interest_sync_timeout_ms` that it knows what this one listens to, or the bus has not confirmed it.
    pub spreads_unanswered: u64,
    /// Clients that were sent to other nodes, or refused because the node takes none.
    pub moved: u64,
}
