//! The network connections of a shard.
//!
//! [`Connections`] owns slots, timeouts, output, reading pauses and requested actions. Of sessions it only knows the index that a
//! connection serves.

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

/// All connections of a shard, by slot.
#[derive(Debug)]
pub(crate) struct Connections {
    slots: Vec<Connection>,
    vacant: Vec<ConnectionIndex>,
    /// Connections with new output, in the order in which they got it, and how many of them have been written to.
    dirty: Vec<ConnectionIndex>,
    written: usize,
    /// Others with new output, whose writes are deferred.
    deferred: VecDeque<ConnectionIndex>,
    /// Buffers for output.
    pool: OutputPool,
    actions: ActionQueue,
    /// Origins without a peer, shared by connections.
    origins: Vec<Arc<ConnectionOrigin>>,
    ledger: Arc<MemoryLedger>,
}

impl Connections {
    /// Creates an empty set. Each open connection is charged to `ledger`.
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

    /// Opens a slot for a new connection. Returns `None` if no slot is left.
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

    /// Shares the origin of a connection that has a session.
    #[inline(always)]
    pub(crate) fn share_origin(&mut self, index: ConnectionIndex) {
        self.slots[index.number()].share_origin(&mut self.origins);
    }

    /// Frees the slot.
    pub(crate) fn free_slot(&mut self, index: ConnectionIndex) {
        self[index].free_slot();
        self.ledger.settle(Kind::Connection, CONNECTION_BYTES, 0);
        self.vacant.push(index);
    }

    /// The identifier of the connection in this slot.
    #[inline]
    pub(crate) fn id(&self, index: ConnectionIndex) -> ConnectionId {
        ConnectionId { index: index.number() as u32, generation: self[index].generation() }
    }

    /// The slot of a connection, if it still exists.
    #[inline]
    pub(crate) fn find(&self, id: ConnectionId) -> Option<ConnectionIndex> {
        let connection = self.slots.get(id.index as usize)?;
        if connection.generation() != id.generation || connection.phase() == Phase::Vacant {
            return None;
        }
        ConnectionIndex::new(id.index as usize)
    }

    /// The connection with this identifier, if it still exists.
    #[inline]
    pub(crate) fn get(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        let index = self.find(id)?;
        Some(&mut self[index])
    }

    // Output.

    /// The output of a connection, with a buffer from the pool if it has none.
    #[inline]
    pub(crate) fn output_or_insert(&mut self, index: ConnectionIndex) -> &mut Output {
        self.slots[index.number()].output_or_insert(&mut self.pool)
    }

    /// Frees pooled outputs and spare capacity.
    pub(crate) fn shrink(&mut self) {
        self.pool.free_all();
        self.vacant.shrink_to_fit();
        self.dirty.shrink_to_fit();
        self.deferred.shrink_to_fit();
    }

    /// Returns the empty output of a connection to the pool.
    #[inline]
    pub(crate) fn release_output(&mut self, index: ConnectionIndex) {
        self.slots[index.number()].release_output(&mut self.pool);
    }

    /// Removes pooled buffers from the ledger. Call it once a turn.
    #[inline]
    pub(crate) fn settle_output_pool(&mut self) {
        self.pool.settle();
    }

    /// Marks new output of a connection.
    #[inline]
    pub(crate) fn mark_dirty(&mut self, index: ConnectionIndex) {
        if self[index].mark_dirty() {
            self.dirty.push(index);
        }
    }

    /// How many connections have new output and are not deferred; some may have been written to since.
    #[inline]
    pub(crate) fn dirty_len(&self) -> usize {
        self.dirty.len() - self.written
    }

    /// The next of them with output. The receivers of a message come before its publisher, who gets an acknowledgement: if they share a
    /// processor, a response to the message can reach the publisher together with it.
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

    /// Defers all but the first `from` of them.
    pub(crate) fn defer(&mut self, from: usize) {
        self.deferred.extend(self.dirty.drain(self.written + from..));
    }

    /// Writes a connection's own output before the deferred ones, if it has some.
    pub(crate) fn write_before_deferred(&mut self, index: ConnectionIndex) {
        if self[index].is_dirty() {
            self.dirty.push(index);
        }
    }

    /// How many connections are deferred.
    #[inline]
    pub(crate) fn deferred_len(&self) -> usize {
        self.deferred.len()
    }

    /// The first deferred connection with output.
    #[inline]
    pub(crate) fn next_deferred(&mut self) -> Option<ConnectionId> {
        while let Some(index) = self.deferred.pop_front() {
            if self[index].take_dirty() {
                return Some(self.id(index));
            }
        }
        None
    }

    // Requested actions.

    /// Requests an action, which the reactor runs after the current packet.
    pub(crate) fn request_action(&mut self, action: Action) {
        self.actions.push(action);
    }

    /// Takes the oldest requested action.
    #[inline]
    pub(crate) fn next_action(&mut self) -> Option<Action> {
        self.actions.next()
    }

    /// Whether an action is requested.
    #[inline]
    pub(crate) fn has_actions(&self) -> bool {
        self.actions.any()
    }

    /// Ends one reason to pause reading from a connection, if the connection still exists.
    pub(crate) fn resume_reading(&mut self, id: ConnectionId, reason: PauseReason, now_ms: u64) {
        if self.get(id).is_some_and(|connection| connection.clear_pause(reason, now_ms)) {
            self.request_action(Action::Resume(id));
        }
    }

    /// Requests that a connection is disconnected between two packets: its session's queue has overflowed.
    pub(crate) fn end_for_overrun(&mut self, index: ConnectionIndex) {
        let id = self.id(index);
        self.actions.push_overrun(id);
    }

    /// The next of these connections that is still open.
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

    /// All slots, including vacant ones.
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
        assert_eq!(connections.find(id), None, "the slot is vacant");
        let second = connections.open(0).expect("there is room");
        assert_eq!(second, first, "the slot is reused");
        assert_eq!(connections.find(id), None, "another connection is in the slot");
        assert_ne!(connections.id(second), id);
    }

    #[test]
    fn a_paused_connection_resumes_once_per_removed_reason() {
        let mut connections = Connections::new(&Arc::default());
        let index = connections.open(0).expect("there is room");
        let id = connections.id(index);
        assert!(connections[index].pause_reading(PauseReason::Log));
        connections.resume_reading(id, PauseReason::Memory, 0);
        assert!(!connections.has_actions(), "it is paused for another reason");
        connections.resume_reading(id, PauseReason::Log, 0);
        connections.resume_reading(id, PauseReason::Log, 0);
        assert_eq!((connections.next_action(), connections.next_action()), (Some(Action::Resume(id)), None));
        assert!(connections[index].pause_reading(PauseReason::Log));
        connections.free_slot(index);
        connections.resume_reading(id, PauseReason::Log, 0);
        assert!(!connections.has_actions(), "the connection is closed");
    }

    #[test]
    fn only_open_connections_are_ended_for_an_overrun() {
        let mut connections = Connections::new(&Arc::default());
        let closed = connections.open(0).expect("there is room");
        connections.end_for_overrun(closed);
        connections.free_slot(closed);
        let connecting = connections.open(0).expect("there is room");
        connections.end_for_overrun(connecting);
        assert_eq!(connections.next_overrun(), None, "one is closed, the other has not connected");
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
        assert_eq!(connections.pop_dirty(), Some(connections.id(all[2])), "it is no longer deferred");
        assert_eq!((connections.pop_dirty(), connections.deferred_len()), (None, 2));
        assert_eq!(connections.next_deferred(), Some(connections.id(all[1])));
        assert_eq!(connections.next_deferred(), None, "it has been written to already");
    }
}
