//! Migration of clients to other nodes, and the sessions left on a node.

use std::ops::Bound;

use crate::names::ClientKey;
use crate::operation::Decision;

use super::context::SessionContext;
use super::{SessionEntry, Sessions};

/// The numbers of a node's sessions by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionsStatus {
    /// Their clients are connected, or their last writes are in flight.
    pub serving: usize,
    /// Their clients have disconnected, and their wills have a delay.
    pub waiting_for_will: usize,
    /// Claims in progress.
    pub claiming: usize,
    /// Taken over after the death of another node.
    pub taking_over: usize,
    /// Their clients were told to connect to another node.
    pub migrating: usize,
}

impl Sessions {
    /// Returns the number of sessions that this node owns, as reported to other nodes.
    pub(crate) fn owned(&self) -> u32 {
        u32::try_from(self.held.len() - self.claims - self.takeovers).unwrap_or(u32::MAX)
    }

    /// Returns the number of sessions being taken over.
    pub(crate) fn takeovers(&self) -> usize {
        self.takeovers
    }

    /// Returns the number of clients migrating to other nodes.
    pub(crate) fn migrating(&self) -> usize {
        self.migrating.len()
    }

    /// Returns the next client that was not told to migrate, in the arbitrary order of keys.
    pub(crate) fn next_to_migrate(&mut self) -> Option<ClientKey> {
        let from = self.migrated_to.map_or(Bound::Unbounded, Bound::Excluded);
        let is_to_move = |key: &ClientKey, held: &SessionEntry| {
            let is_open = match held {
                SessionEntry::Serving(service) => service.is_open(),
                SessionEntry::DormantSession(_) => true,
                SessionEntry::PendingClaim(_) | SessionEntry::Takeover(_) => false,
            };
            is_open && !self.migrating.contains(key)
        };
        let behind = self.held.range((from, Bound::Unbounded)).find(|(key, held)| is_to_move(key, held));
        let found = behind.or_else(|| self.held.iter().find(|(key, held)| is_to_move(key, held)));
        self.migrated_to = found.map(|(key, _)| *key);
        self.migrated_to
    }

    /// Tells a client to migrate.
    pub(crate) fn migrate(&mut self, key: ClientKey, decision: Decision, cx: &mut SessionContext<'_>) {
        self.migrating.insert(key);
        if let Some(service) = self.service(key) {
            service.notify(decision, cx);
        }
    }

    /// Whether only sessions remain that wait for their wills to come due, which other nodes can take over.
    pub(crate) fn are_idle(&self) -> bool {
        self.held.values().all(|held| matches!(held, SessionEntry::Serving(service) if service.is_idle()))
    }

    pub(crate) fn status(&self) -> SessionsStatus {
        let is_waiting_for_will =
            |held: &&SessionEntry| matches!(held, SessionEntry::Serving(service) if service.is_waiting_for_will());
        let waiting_for_will = self.held.values().filter(is_waiting_for_will).count();
        SessionsStatus {
            serving: self.owned() as usize - waiting_for_will,
            waiting_for_will,
            claiming: self.claims,
            taking_over: self.takeovers,
            migrating: self.migrating.len(),
        }
    }
}
