//! A model of the bus: one server at each place, and the filters it knows of each node. A server forwards updates to the others in order.

use std::collections::{HashMap, HashSet};

use tautwire_cluster::names::Incarnation;
use tautwire_cluster::subject;

/// A subject, or a pattern of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Subject {
    Pattern(String),
    /// The subject of the answers to a probe.
    Probe(u64),
}

#[derive(Default)]
pub(crate) struct Bus {
    /// The maximum latency between two servers, in milliseconds.
    pub(crate) latency_ms: usize,
    /// The subscriptions of each node that the server at a place knows.
    known: HashMap<(usize, Incarnation), HashSet<Subject>>,
    /// When the last update of a node arrives at a place.
    last_ms: HashMap<(usize, Incarnation), u64>,
}

impl Bus {
    pub(crate) fn new() -> Bus {
        Bus { latency_ms: 3, ..Bus::default() }
    }

    /// When an update of a node that is due at `at_ms` arrives at a place; updates stay in order.
    pub(crate) fn arrives_ms(&mut self, place: usize, node: Incarnation, at_ms: u64) -> u64 {
        let last_ms = self.last_ms.entry((place, node)).or_default();
        *last_ms = at_ms.max(*last_ms);
        *last_ms
    }

    pub(crate) fn update(&mut self, place: usize, node: Incarnation, subject: Subject, is_subscribed: bool) {
        let known = self.known.entry((place, node)).or_default();
        if is_subscribed {
            known.insert(subject);
        } else {
            known.remove(&subject);
        }
    }

    /// Whether the server at a place forwards a message to a node.
    pub(crate) fn forwards(&self, place: usize, node: Incarnation, to: &str) -> bool {
        let is_match = |known: &Subject| matches!(known, Subject::Pattern(pattern) if subject::matches(pattern, to));
        self.known.get(&(place, node)).is_some_and(|known| known.iter().any(is_match))
    }

    pub(crate) fn forwards_echo(&self, place: usize, node: Incarnation, number: u64) -> bool {
        self.known.get(&(place, node)).is_some_and(|known| known.contains(&Subject::Probe(number)))
    }
}
