//! Actions on connections that a shard requests from its reactor, or runs itself between two packets.

use std::collections::VecDeque;

use tautwire_router::ShardIndex;

use crate::index::ConnectionId;

/// An action on a connection that the engine requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Write the pending output, then close. The client gets time to read it.
    Close(ConnectionId),
    /// Close at once: the client has sent DISCONNECT.
    Drop(ConnectionId),
    /// Move the connection to another shard with its unconsumed bytes, and remove it here.
    Move(ConnectionId, ShardIndex),
    /// Resume reading: first the unconsumed bytes, then the socket.
    Resume(ConnectionId),
    /// Read what has arrived on the first connection, which is about to be taken over, and only then process the second one's unconsumed
    /// bytes again.
    ReadFirst(ConnectionId, ConnectionId),
    /// Authenticate the client: take [`Shard::take_auth_request`](crate::Shard::take_auth_request), and pass the decision to
    /// [`Shard::apply_auth_decision`](crate::Shard::apply_auth_decision), at once or later.
    Authenticate(ConnectionId),
}

/// Requested actions that are not done yet.
#[derive(Debug, Default)]
pub(super) struct ActionQueue {
    actions: VecDeque<Action>,
    /// Connections to disconnect because their session's queue has overflowed.
    overrun: Vec<ConnectionId>,
}

impl ActionQueue {
    pub(super) fn push(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    /// Takes the oldest action.
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
