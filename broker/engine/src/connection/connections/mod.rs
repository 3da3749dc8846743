//! The network connections of a shard.
//!
//! This room knows places, clocks, output, why a connection is not heard, and what is to be done with one. It knows nothing of
//! sessions but the index of the one that a connection serves.

mod actions;
mod aliases;
mod auth_state;
mod connect_parameters;
mod connection;
mod extras;
mod load_queue;
mod output;
mod read_pauses;
mod replay;

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use tautwire_memory::{Kind, MemoryLedger};

use self::actions::ActionQueue;
use self::output::OutputPool;
use crate::connection::origin::ConnectionOrigin;
use crate::index::{ConnectionId, ConnectionIndex, reserved_slots};

pub use actions::Action;
pub(crate) use aliases::TopicAlias;
pub(crate) use auth_state::AuthPhase;
pub use auth_state::{AuthAttempt, AuthDecision, AuthRequest, AuthState, ChallengeState};
pub(crate) use connect_parameters::ConnectParameters;
pub(crate) use connection::CONNECTION_BYTES;
pub(crate) use connection::{Connection, Deadlines, Phase};
pub(crate) use load_queue::{LoadQueue, LoadResult};
pub use output::{Chunk, Output};
pub(crate) use read_pauses::PauseReason;
pub(crate) use replay::LiveStart;
pub(crate) use replay::Replay;

/// All connections of a shard, by place.
#[derive(Debug)]
pub(crate) struct Connections {
    slots: Vec<Connection>,
    vacant: Vec<ConnectionIndex>,
    /// Those with fresh output, in the order in which they got it, and how many of them have been written to.
    dirty: Vec<ConnectionIndex>,
    written: usize,
    /// Others with fresh output, which stand in line.
    deferred: VecDeque<ConnectionIndex>,
    /// Buffers for those with output.
    pool: OutputPool,
    actions: ActionQueue,
    /// What connections go on with where nobody needs to know who comes from there.
    origins: Vec<Arc<ConnectionOrigin>>,
    ledger: Arc<MemoryLedger>,
}

impl Connections {
    /// None yet. Each will stand in `ledger` while it is there.
    pub(crate) fn new(ledger: &Arc<MemoryLedger>) -> Connections {
        Connections {
            slots: Vec::with_capacity(reserved_slots::<Connection>()),
            vacant: Vec::new(),
            dirty: Vec::new(),
            written: 0,
            deferred: VecDeque::new(),
            pool: OutputPool::new(ledger),
            actions: ActionQueue::default(),
            origins: Vec::new(),
            ledger: ledger.clone(),
        }
    }

    /// Takes a place for a new connection; `None` where no place can be numbered.
    pub(crate) fn open(&mut self, now_ms: u64) -> Option<ConnectionIndex> {
        let index = match self.vacant.pop() {
            Some(index) => index,
            None => {
                let index = ConnectionIndex::new(self.slots.len())?;
                self.slots.push(Connection::vacant());
                index
            }
        };
        self[index].open(now_ms);
        self.ledger.enter(Kind::Connection, CONNECTION_BYTES);
        Some(index)
    }

    /// A connection serves a session from now on: what nobody needs of where it comes from is forgotten.
    #[inline(always)]
    pub(crate) fn share_origin(&mut self, index: ConnectionIndex) {
        self.slots[index.number()].share_origin(&mut self.origins);
    }

    /// Frees the place.
    pub(crate) fn free_slot(&mut self, index: ConnectionIndex) {
        self[index].free_slot();
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
        let connection = self.slots.get(id.index as usize)?;
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
    pub(crate) fn output_or_insert(&mut self, index: ConnectionIndex) -> &mut Output {
        self.slots[index.number()].output_or_insert(&mut self.pool)
    }

    /// Frees the outputs that are kept for reuse, and the room that lists do not need any more.
    pub(crate) fn shrink(&mut self) {
        self.pool.free_all();
        self.vacant.shrink_to_fit();
        self.dirty.shrink_to_fit();
        self.deferred.shrink_to_fit();
    }

    /// All output of a connection has been written: it needs no buffer.
    #[inline]
    pub(crate) fn release_output(&mut self, index: ConnectionIndex) {
        self.slots[index.number()].release_output(&mut self.pool);
    }

    /// Takes buffers that nobody uses off the account of memory. To be called once a turn.
    #[inline]
    pub(crate) fn settle_output_pool(&mut self) {
        self.pool.settle();
    }

    /// Notes that a connection has fresh output.
    #[inline]
    pub(crate) fn mark_dirty(&mut self, index: ConnectionIndex) {
        if self[index].mark_dirty() {
            self.dirty.push(index);
        }
    }

    /// How many have fresh output and do not stand in line; some may have been written to since.
    #[inline]
    pub(crate) fn dirty_len(&self) -> usize {
        self.dirty.len() - self.written
    }

    /// The next of them whose output has grown since it was last asked for. The receivers of a message come before its publisher, who gets an
    /// acknowledgement: where they share a processor, an answer to the message can reach the publisher together with that.
    #[inline]
    pub(crate) fn pop_dirty(&mut self) -> Option<ConnectionId> {
        while let Some(index) = self.dirty.get(self.written).copied() {
            self.written += 1;
            if self[index].take_dirty() {
                return Some(self.id(index));
            }
        }
        self.dirty.clear();
        self.written = 0;
        None
    }

    /// All but the first `from` of them stand in line from now on.
    pub(crate) fn defer(&mut self, from: usize) {
        self.deferred.extend(self.dirty.drain(self.written + from..));
    }

    /// A connection does not stand in line with its own fresh output, if it has some.
    pub(crate) fn write_before_deferred(&mut self, index: ConnectionIndex) {
        if self[index].is_dirty() {
            self.dirty.push(index);
        }
    }

    /// How many stand in line.
    #[inline]
    pub(crate) fn deferred_len(&self) -> usize {
        self.deferred.len()
    }

    /// The first in line whose output has grown since it was last asked for.
    #[inline]
    pub(crate) fn next_deferred(&mut self) -> Option<ConnectionId> {
        while let Some(index) = self.deferred.pop_front() {
            if self[index].take_dirty() {
                return Some(self.id(index));
            }
        }
        None
    }

    // What is wanted.

    /// Has the surroundings do something with a connection, once whatever is at hand is done.
    pub(crate) fn request_action(&mut self, action: Action) {
        self.actions.push(action);
    }

    /// What is wanted longest, for whoever does it.
    #[inline]
    pub(crate) fn next_action(&mut self) -> Option<Action> {
        self.actions.next()
    }

    /// Whether the surroundings have something to do.
    #[inline]
    pub(crate) fn has_actions(&self) -> bool {
        self.actions.any()
    }

    /// Reads again from a connection for which `reason` is gone, if it is still there.
    pub(crate) fn resume_reading(&mut self, id: ConnectionId, reason: PauseReason, now_ms: u64) {
        if self.get(id).is_some_and(|connection| connection.clear_pause(reason, now_ms)) {
            self.request_action(Action::Resume(id));
        }
    }

    /// A connection is to be ended between two packets: the queue of its session has run over.
    pub(crate) fn end_for_overrun(&mut self, index: ConnectionIndex) {
        let id = self.id(index);
        self.actions.push_overrun(id);
    }

    /// One that is to be ended for it, if it is still open.
    #[inline]
    pub(crate) fn next_overrun(&mut self) -> Option<ConnectionIndex> {
        while let Some(id) = self.actions.next_overrun() {
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
        (0..self.slots.len()).filter_map(ConnectionIndex::new)
    }
}

impl Index<ConnectionIndex> for Connections {
    type Output = Connection;

    #[inline]
    fn index(&self, index: ConnectionIndex) -> &Connection {
        &self.slots[index.number()]
    }
}

impl IndexMut<ConnectionIndex> for Connections {
    #[inline]
    fn index_mut(&mut self, index: ConnectionIndex) -> &mut Connection {
        &mut self.slots[index.number()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reused_slot_is_another_connection() {
        let mut connections = Connections::new(&Arc::default());
        let first = connections.open(0).expect("there is room");
        let id = connections.id(first);
        assert_eq!(connections.find(id), Some(first));
        connections.free_slot(first);
        assert_eq!(connections.find(id), None, "nobody is there");
        let second = connections.open(0).expect("there is room");
        assert_eq!(second, first, "the place is used again");
        assert_eq!(connections.find(id), None, "somebody else is there");
        assert_ne!(connections.id(second), id);
    }

    #[test]
    fn a_paused_connection_resumes_once_per_removed_reason() {
        let mut connections = Connections::new(&Arc::default());
        let index = connections.open(0).expect("there is room");
        let id = connections.id(index);
        assert!(connections[index].pause_reading(PauseReason::Log));
        connections.resume_reading(id, PauseReason::Memory, 0);
        assert!(!connections.has_actions(), "it waits for something else");
        connections.resume_reading(id, PauseReason::Log, 0);
        connections.resume_reading(id, PauseReason::Log, 0);
        assert_eq!((connections.next_action(), connections.next_action()), (Some(Action::Resume(id)), None));
        assert!(connections[index].pause_reading(PauseReason::Log));
        connections.free_slot(index);
        connections.resume_reading(id, PauseReason::Log, 0);
        assert!(!connections.has_actions(), "it is gone");
    }

    #[test]
    fn only_open_connections_are_ended_for_an_overrun() {
        let mut connections = Connections::new(&Arc::default());
        let gone = connections.open(0).expect("there is room");
        connections.end_for_overrun(gone);
        connections.free_slot(gone);
        let waits = connections.open(0).expect("there is room");
        connections.end_for_overrun(waits);
        assert_eq!(connections.next_overrun(), None, "one is gone, the other has not connected");
    }

    #[test]
    fn deferred_connections_are_written_in_order_and_once() {
        let mut connections = Connections::new(&Arc::default());
        let all: Vec<_> = (0..3).filter_map(|_| connections.open(0)).collect();
        for index in &all {
            connections.mark_dirty(*index);
            connections.mark_dirty(*index);
        }
        assert_eq!(connections.dirty_len(), 3);
        connections.defer(1);
        connections.write_before_deferred(all[2]);
        assert_eq!(connections.pop_dirty(), Some(connections.id(all[0])));
        assert_eq!(connections.pop_dirty(), Some(connections.id(all[2])), "it does not stand in line any more");
        assert_eq!((connections.pop_dirty(), connections.deferred_len()), (None, 2));
        assert_eq!(connections.next_deferred(), Some(connections.id(all[1])));
        assert_eq!(connections.next_deferred(), None, "it has been written to already");
    }
}
