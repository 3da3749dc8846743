//! The network connections of a shard.
//!
//! This room knows places, clocks, output, why a connection is not heard, and what is to be done with one. It knows nothing of
//! sessions but the index of the one that a connection serves.

mod agreement;
mod aliases;
mod connection;
mod extras;
mod holds;
mod output;
mod read_back;
mod replay;
mod standing;
mod wishes;

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use tautwire_memory::{Kind, Ledger};

use self::output::OutputPool;
use self::wishes::Wishes;
use crate::origin::Origin;
use crate::place::{ConnectionId, ConnectionIndex, reserved_places};

pub(crate) use agreement::Agreement;
pub(crate) use aliases::Alias;
pub(crate) use connection::CONNECTION_BYTES;
pub(crate) use connection::{Connection, Deadlines, Phase};
pub(crate) use holds::Reason;
pub use output::{Chunk, Output};
pub(crate) use read_back::{Back, ReadBack};
pub(crate) use replay::Replay;
pub(crate) use standing::Exchange;
pub use standing::{Attempt, Question, Standing, State, Verdict};
pub use wishes::Action;

/// All connections of a shard, by place.
#[derive(Debug)]
pub(crate) struct Connections {
    places: Vec<Connection>,
    vacant: Vec<ConnectionIndex>,
    /// Those with fresh output, in the order in which they got it, and how many of them have been written to.
    fresh: Vec<ConnectionIndex>,
    written: usize,
    /// Others with fresh output, which stand in line.
    late: VecDeque<ConnectionIndex>,
    /// Buffers for those with output.
    pool: OutputPool,
    wishes: Wishes,
    /// What connections go on with where nobody needs to know who comes from there.
    origins: Vec<Arc<Origin>>,
    ledger: Arc<Ledger>,
}

impl Connections {
    /// None yet. Each will stand in `ledger` while it is there.
    pub(crate) fn new(ledger: &Arc<Ledger>) -> Connections {
        Connections {
            places: Vec::with_capacity(reserved_places::<Connection>()),
            vacant: Vec::new(),
            fresh: Vec::new(),
            written: 0,
            late: VecDeque::new(),
            pool: OutputPool::new(ledger),
            wishes: Wishes::default(),
            origins: Vec::new(),
            ledger: ledger.clone(),
        }
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

    /// A connection serves a session from now on: what nobody needs of where it comes from is forgotten.
    #[inline(always)]
    pub(crate) fn forget_origin(&mut self, index: ConnectionIndex) {
        self.places[index.number()].forget_origin(&mut self.origins);
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

    // Output.

    /// The output of a connection, which gets a buffer where it has none.
    #[inline]
    pub(crate) fn output_or_take(&mut self, index: ConnectionIndex) -> &mut Output {
        self.places[index.number()].output_or_take(&mut self.pool)
    }

    /// Frees the outputs that are kept for reuse, and the room that lists do not need any more.
    pub(crate) fn free_unused(&mut self) {
        self.pool.free_all();
        self.vacant.shrink_to_fit();
        self.fresh.shrink_to_fit();
        self.late.shrink_to_fit();
    }

    /// All output of a connection has been written: it needs no buffer.
    #[inline]
    pub(crate) fn put_output_away(&mut self, index: ConnectionIndex) {
        self.places[index.number()].put_output_away(&mut self.pool);
    }

    /// Takes buffers that nobody uses off the account of memory. To be called once a turn.
    #[inline]
    pub(crate) fn settle_pool(&mut self) {
        self.pool.settle();
    }

    /// Notes that a connection has fresh output.
    #[inline]
    pub(crate) fn mark_fresh(&mut self, index: ConnectionIndex) {
        if self[index].mark_fresh() {
            self.fresh.push(index);
        }
    }

    /// How many have fresh output and do not stand in line; some may have been written to since.
    #[inline]
    pub(crate) fn fresh_len(&self) -> usize {
        self.fresh.len() - self.written
    }

    /// The next of them whose output has grown since it was last asked for. The receivers of a message come before its publisher, who gets an
    /// acknowledgement: where they share a processor, an answer to the message can reach the publisher together with that.
    #[inline]
    pub(crate) fn next_fresh(&mut self) -> Option<ConnectionId> {
        while let Some(index) = self.fresh.get(self.written).copied() {
            self.written += 1;
            if self[index].take_fresh() {
                return Some(self.id(index));
            }
        }
        self.fresh.clear();
        self.written = 0;
        None
    }

    /// All but the first `from` of them stand in line from now on.
    pub(crate) fn put_off(&mut self, from: usize) {
        self.late.extend(self.fresh.drain(self.written + from..));
    }

    /// A connection does not stand in line with its own fresh output, if it has some.
    pub(crate) fn write_first(&mut self, index: ConnectionIndex) {
        if self[index].is_fresh() {
            self.fresh.push(index);
        }
    }

    /// How many stand in line.
    #[inline]
    pub(crate) fn late_len(&self) -> usize {
        self.late.len()
    }

    /// The first in line whose output has grown since it was last asked for.
    #[inline]
    pub(crate) fn next_late(&mut self) -> Option<ConnectionId> {
        while let Some(index) = self.late.pop_front() {
            if self[index].take_fresh() {
                return Some(self.id(index));
            }
        }
        None
    }

    // What is wanted.

    /// Has the surroundings do something with a connection, once whatever is at hand is done.
    pub(crate) fn want(&mut self, action: Action) {
        self.wishes.push(action);
    }

    /// What is wanted longest, for whoever does it.
    #[inline]
    pub(crate) fn next_wanted(&mut self) -> Option<Action> {
        self.wishes.next()
    }

    /// Whether the surroundings have something to do.
    #[inline]
    pub(crate) fn any_wanted(&self) -> bool {
        self.wishes.any()
    }

    /// Reads again from a connection for which `reason` is gone, if it is still there.
    pub(crate) fn hear_again(&mut self, id: ConnectionId, reason: Reason, now_ms: u64) {
        if self.get(id).is_some_and(|connection| connection.let_go(reason, now_ms)) {
            self.want(Action::Resume(id));
        }
    }

    /// A connection is to be ended between two packets: the queue of its session has run over.
    pub(crate) fn end_for_overrun(&mut self, index: ConnectionIndex) {
        let id = self.id(index);
        self.wishes.push_overrun(id);
    }

    /// One that is to be ended for it, if it is still open.
    #[inline]
    pub(crate) fn next_overrun(&mut self) -> Option<ConnectionIndex> {
        while let Some(id) = self.wishes.next_overrun() {
            if let Some(index) = self.find(id)
                && self[index].is_open()
            {
                return Some(index);
            }
        }
        None
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

    #[test]
    fn who_waits_is_brought_back_once_for_each_reason_that_is_gone() {
        let mut connections = Connections::new(&Arc::default());
        let index = connections.open(0).expect("there is room");
        let id = connections.id(index);
        assert!(connections[index].hold(Reason::Log));
        connections.hear_again(id, Reason::Memory, 0);
        assert!(!connections.any_wanted(), "it waits for something else");
        connections.hear_again(id, Reason::Log, 0);
        connections.hear_again(id, Reason::Log, 0);
        assert_eq!((connections.next_wanted(), connections.next_wanted()), (Some(Action::Resume(id)), None));
        assert!(connections[index].hold(Reason::Log));
        connections.vacate(index);
        connections.hear_again(id, Reason::Log, 0);
        assert!(!connections.any_wanted(), "it is gone");
    }

    #[test]
    fn only_those_who_are_still_open_are_ended_for_an_overrun() {
        let mut connections = Connections::new(&Arc::default());
        let gone = connections.open(0).expect("there is room");
        connections.end_for_overrun(gone);
        connections.vacate(gone);
        let waits = connections.open(0).expect("there is room");
        connections.end_for_overrun(waits);
        assert_eq!(connections.next_overrun(), None, "one is gone, the other has not connected");
    }

    #[test]
    fn those_who_stand_in_line_are_written_to_in_order_and_once() {
        let mut connections = Connections::new(&Arc::default());
        let all: Vec<_> = (0..3).filter_map(|_| connections.open(0)).collect();
        for index in &all {
            connections.mark_fresh(*index);
            connections.mark_fresh(*index);
        }
        assert_eq!(connections.fresh_len(), 3);
        connections.put_off(1);
        connections.write_first(all[2]);
        assert_eq!(connections.next_fresh(), Some(connections.id(all[0])));
        assert_eq!(connections.next_fresh(), Some(connections.id(all[2])), "it does not stand in line any more");
        assert_eq!((connections.next_fresh(), connections.late_len()), (None, 2));
        assert_eq!(connections.next_late(), Some(connections.id(all[1])));
        assert_eq!(connections.next_late(), None, "it has been written to already");
    }
}
