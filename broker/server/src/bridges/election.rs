//! Whether this node of a cluster runs a bridge.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::cluster::Node;

/// How often a node of a cluster looks whether it runs a bridge.
pub(super) const ELECTION_INTERVAL: Duration = Duration::from_secs(1);

/// The election of the node for one bridge. A broker without a cluster always wins.
///
/// If two nodes run a bridge for a moment, both have the same sessions: each takes them over from the other, and no message is lost.
pub(super) struct Election {
    node: Option<Arc<Node>>,
    service: String,
    is_won: bool,
    checked: Option<Instant>,
}

impl Election {
    pub(super) fn new(node: Option<Arc<Node>>, bridge: &str) -> Election {
        Election { node, service: format!("bridge/{bridge}"), is_won: false, checked: None }
    }

    /// Whether this node runs the bridge, as of at most [`ELECTION_INTERVAL`] ago.
    pub(super) fn is_won(&mut self) -> bool {
        let Some(node) = &self.node else { return true };
        if self.checked.is_none_or(|checked| checked.elapsed() >= ELECTION_INTERVAL) {
            self.is_won = node.is_elected(&self.service);
            self.checked = Some(Instant::now());
        }
        self.is_won
    }

    /// The time until the next check; `None` without a cluster.
    pub(super) fn next_check(&self) -> Option<Duration> {
        self.node.as_ref()?;
        Some(self.checked.map_or(Duration::ZERO, |checked| ELECTION_INTERVAL.saturating_sub(checked.elapsed())))
    }
}
