//! Clients that are sent to other nodes, and what is left of a node when they have gone.

use std::ops::Bound;

use crate::names::ClientKey;
use crate::operation::Decision;

use super::{Held, Sessions, Surroundings};

/// How many sessions a node has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionsStatus {
    /// Their clients are connected, or their last writes are under way.
    pub serving: usize,
    /// Their clients have gone, and their wills have a delay.
    pub resting: usize,
    /// Claims under way.
    pub claiming: usize,
    /// Taken on after the death of another node.
    pub adopting: usize,
    /// Their clients have been told to go to another node.
    pub moving: usize,
}

impl Sessions {
    /// Sessions that this node owns, as others are told.
    pub(crate) fn owned(&self) -> u32 {
        u32::try_from(self.held.len() - self.claims - self.adoptions).unwrap_or(u32::MAX)
    }

    /// Sessions that are being taken on from others.
    pub(crate) fn adoptions(&self) -> usize {
        self.adoptions
    }

    /// Clients that are on their way to another node.
    pub(crate) fn moving(&self) -> usize {
        self.moving.len()
    }

    /// The next client that is served and has not been told to go. They come in the order of their keys, which is none.
    pub(crate) fn next_to_move(&mut self) -> Option<ClientKey> {
        let from = self.moved_to.map_or(Bound::Unbounded, Bound::Excluded);
        let is_to_move = |key: &ClientKey, held: &Held| {
            let is_open = match held {
                Held::Serving(service) => service.is_open(),
                Held::Asleep(_) => true,
                Held::Claiming(_) | Held::Adopting(_) => false,
            };
            is_open && !self.moving.contains(key)
        };
        let behind = self.held.range((from, Bound::Unbounded)).find(|(key, held)| is_to_move(key, held));
        let found = behind.or_else(|| self.held.iter().find(|(key, held)| is_to_move(key, held)));
        self.moved_to = found.map(|(key, _)| *key);
        self.moved_to
    }

    /// A client is told to go.
    pub(crate) fn move_on(&mut self, key: ClientKey, decision: Decision, cx: &mut Surroundings<'_>) {
        self.moving.insert(key);
        if let Some(service) = self.service(key) {
            service.tell(decision, cx);
        }
    }

    /// Whether nothing is left but sessions that wait for their wills to come due: others can take these on.
    pub(crate) fn are_at_rest(&self) -> bool {
        self.held.values().all(|held| matches!(held, Held::Serving(service) if service.is_at_rest()))
    }

    pub(crate) fn status(&self) -> SessionsStatus {
        let is_resting = |held: &&Held| matches!(held, Held::Serving(service) if service.is_resting());
        let resting = self.held.values().filter(is_resting).count();
        SessionsStatus {
            serving: self.owned() as usize - resting,
            resting,
            claiming: self.claims,
            adopting: self.adoptions,
            moving: self.moving.len(),
        }
    }
}
