//! The servers of the bus, one at each place, and what each of them knows of what nodes listen to. What a server is told it tells the others, in
//! that order.

use std::collections::{HashMap, HashSet};

use tautwire_cluster::names::Incarnation;
use tautwire_cluster::subject;

/// A subject, or a pattern of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Subject {
    Pattern(String),
    /// Of the answers to a probe.
    Probe(u64),
}

#[derive(Default)]
pub(crate) struct Bus {
    /// How long one server needs at most to tell another one, in milliseconds.
    pub(crate) latency_ms: usize,
    /// Who listens to what, as the server at a place knows it.
    known: HashMap<(usize, Incarnation), HashSet<Subject>>,
    /// When the last word on a way arrives.
    last_ms: HashMap<(usize, Incarnation), u64>,
}

impl Bus {
    pub(crate) fn new() -> Bus {
        Bus { latency_ms: 3, ..Bus::default() }
    }

    /// When the server at a place hears what a node listens to that was told after `delay_ms`.
    pub(crate) fn arrives_ms(&mut self, place: usize, node: Incarnation, at_ms: u64) -> u64 {
        let last_ms = self.last_ms.entry((place, node)).or_default();
        *last_ms = at_ms.max(*last_ms);
        *last_ms
    }

    pub(crate) fn learn(&mut self, place: usize, node: Incarnation, subject: Subject, is_listened_to: bool) {
        let known = self.known.entry((place, node)).or_default();
        if is_listened_to {
            known.insert(subject);
        } else {
            known.remove(&subject);
        }
    }

    /// Whether a message at a place goes to a node.
    pub(crate) fn brings(&self, place: usize, node: Incarnation, to: &str) -> bool {
        let is_meant = |known: &Subject| matches!(known, Subject::Pattern(pattern) if subject::matches(pattern, to));
        self.known.get(&(place, node)).is_some_and(|known| known.iter().any(is_meant))
    }

    pub(crate) fn brings_echo(&self, place: usize, node: Incarnation, number: u64) -> bool {
        self.known.get(&(place, node)).is_some_and(|known| known.contains(&Subject::Probe(number)))
    }
}
