//! What a shard wants done with its connections: by its surroundings, or by itself where it is between two packets.

use std::collections::VecDeque;

use tautwire_router::ShardIndex;

use crate::index::ConnectionId;

/// Something that the engine wants done with a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Write what is pending, then close; give the client time to read it.
    Close(ConnectionId),
    /// Close at once: the client has said goodbye.
    Drop(ConnectionId),
    /// Take the connection to another shard, with the bytes that have not been consumed, and forget it here.
    Move(ConnectionId, ShardIndex),
    /// Read again: first what was not consumed, then the socket.
    Resume(ConnectionId),
    /// Read what has come on the first connection, which is about to be taken over, and only then bring the second one's
    /// unconsumed bytes again.
    ReadFirst(ConnectionId, ConnectionId),
    /// Find out who the client is: take [`Shard::take_auth_request`](crate::Shard::take_auth_request), and give the verdict to
    /// [`Shard::apply_auth_decision`](crate::Shard::apply_auth_decision), at once or later.
    Ask(ConnectionId),
}

/// What is wanted and has not been done yet.
#[derive(Debug, Default)]
pub(super) struct ActionQueue {
    actions: VecDeque<Action>,
    /// Connections that are to be ended because their session's queue has run over.
    overrun: Vec<ConnectionId>,
}

impl ActionQueue {
    pub(super) fn push(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    /// The oldest.
    #[inline]
    pub(super) fn next(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    #[inline]
    pub(super) fn any(&self) -> bool {
        !self.actions.is_empty()
    }

    pub(super) fn push_overrun(&mut self, id: ConnectionId) {
        self.overrun.push(id);
    }

    #[inline]
    pub(super) fn next_overrun(&mut self) -> Option<ConnectionId> {
        self.overrun.pop()
    }
}
