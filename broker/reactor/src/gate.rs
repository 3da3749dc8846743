//! What is counted of a listener, and whether one more may come in by it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tautwire_engine::{Entry, Peer};

/// What a listener has let in. Its connections refer to it, whatever thread they are on.
#[derive(Debug)]
pub(crate) struct Gate {
    name: Arc<str>,
    connections_max: u64,
    connections: AtomicU64,
    accepted: AtomicU64,
    refused: AtomicU64,
}

/// How a listener is doing.
#[derive(Debug, Clone)]
pub struct ListenerState {
    /// What it is called.
    pub name: Arc<str>,
    /// Connections open now.
    pub connections: u64,
    /// Connections let in so far.
    pub accepted: u64,
    /// Connections that were closed on arrival.
    pub refused: u64,
}

impl Gate {
    /// A gate for so many at once.
    pub(crate) fn new(name: Arc<str>, connections_max: Option<usize>) -> Gate {
        Gate {
            name,
            connections_max: connections_max.map_or(u64::MAX, |max| max as u64),
            connections: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// Whether one more may come in. One thread asks, and lets in.
    pub(crate) fn has_room(&self) -> bool {
        self.connections.load(Ordering::Relaxed) < self.connections_max
    }

    /// One has been let in.
    pub(crate) fn note_accepted(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
    }

    /// One has not been.
    pub(crate) fn note_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn state(&self) -> ListenerState {
        ListenerState {
            name: self.name.clone(),
            connections: self.connections.load(Ordering::Relaxed),
            accepted: self.accepted.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }
}

impl Entry for Gate {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn needs_peers(&self) -> bool {
        false
    }

    fn entered(&self, _: Option<Peer>) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    fn left(&self, _: Option<Peer>) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
