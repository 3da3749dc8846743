//! The network connections of a shard.
//!
//! This room knows places, clocks, output and why a connection is not heard. It knows nothing of sessions but the index of
//! the one that a connection serves.

mod aliases;
mod connection;
mod holds;
mod output;

use std::ops::{Index, IndexMut};
use std::sync::Arc;

use tautwire_memory::{Kind, Ledger};

use crate::place::{ConnectionId, ConnectionIndex};

pub(crate) use aliases::Alias;
pub(crate) use connection::CONNECTION_BYTES;
pub(crate) use connection::{Agreement, Connection, Deadlines, NonZeroMs, Phase, Replay};
pub(crate) use holds::Reason;
pub(crate) use output::OutputPool;
pub use output::{Chunk, Output};

/// All connections of a shard, by place.
#[derive(Debug)]
pub(crate) struct Connections {
    places: Vec<Connection>,
    vacant: Vec<ConnectionIndex>,
    ledger: Arc<Ledger>,
}

impl Connections {
    /// None yet. Each will stand in `ledger` while it is there.
    pub(crate) fn new(ledger: &Arc<Ledger>) -> Connections {
        Connections { places: Vec::new(), vacant: Vec::new(), ledger: ledger.clone() }
    }

    /// Takes a place for a new connection; `None` where no place can be numbered.
    pub(crate) fn open(&mut self, now_ms: u64) -> Option<ConnectionIndex> {
        let index = match self.vacant.pop() {
            Some(index) => index,
            None => {
                let index = ConnectionIndex::new(self.places.len())?;
                self.places.push(Connection::vacant());
                index
            }
        };
        self[index].open(now_ms);
        self.ledger.enter(Kind::Connection, CONNECTION_BYTES);
        Some(index)
    }

    /// Frees the place.
    pub(crate) fn vacate(&mut self, index: ConnectionIndex) {
        self[index].vacate();
        self.ledger.settle(Kind::Connection, CONNECTION_BYTES, 0);
        self.vacant.push(index);
    }

    /// What tells the connection in this place from later ones.
    #[inline]
    pub(crate) fn id(&self, index: ConnectionIndex) -> ConnectionId {
        ConnectionId { index: index.number() as u32, generation: self[index].generation() }
    }

    /// The place of the connection that `id` means, if it is still there.
    #[inline]
    pub(crate) fn find(&self, id: ConnectionId) -> Option<ConnectionIndex> {
        let connection = self.places.get(id.index as usize)?;
        if connection.generation() != id.generation || connection.phase() == Phase::Vacant {
            return None;
        }
        ConnectionIndex::new(id.index as usize)
    }

    /// The connection that `id` means, if it is still there.
    #[inline]
    pub(crate) fn get(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        let index = self.find(id)?;
        Some(&mut self[index])
    }

    /// All places, the vacant ones too.
    pub(crate) fn indices(&self) -> impl Iterator<Item = ConnectionIndex> + use<> {
        (0..self.places.len()).filter_map(ConnectionIndex::new)
    }
}

impl Index<ConnectionIndex> for Connections {
    type Output = Connection;

    #[inline]
    fn index(&self, index: ConnectionIndex) -> &Connection {
        &self.places[index.number()]
    }
}

impl IndexMut<ConnectionIndex> for Connections {
    #[inline]
    fn index_mut(&mut self, index: ConnectionIndex) -> &mut Connection {
        &mut self.places[index.number()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_taken_again_is_another_connection() {
        let mut connections = Connections::new(&Arc::default());
        let first = connections.open(0).expect("there is room");
        let id = connections.id(first);
        assert_eq!(connections.find(id), Some(first));
        connections.vacate(first);
        assert_eq!(connections.find(id), None, "nobody is there");
        let second = connections.open(0).expect("there is room");
        assert_eq!(second, first, "the place is used again");
        assert_eq!(connections.find(id), None, "somebody else is there");
        assert_ne!(connections.id(second), id);
    }
}
