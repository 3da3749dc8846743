//! The node's lease: a shard whose node has lost it neither reads from clients nor writes to them.

use tautwire_session::Journal;

use crate::connections::{Action, PauseReason, Phase};
use crate::index::{ConnectionId, ConnectionIndex};
use crate::mutant::{Mutant, is};
use crate::shard::Shard;
use crate::state::ShardState;

impl<J: Journal> Shard<J> {
    /// The lease has run out.
    #[cold]
    #[inline(never)]
    pub(crate) fn suspend(&mut self) {
        let Some(room) = &mut self.state.cluster else { return };
        if is(Mutant::ServesWithoutLease) || !room.suspend(true) {
            return;
        }
        self.state.counters().suspensions.add(1);
        log::warn!("the lease of this broker in its cluster has run out: clients are not served until it holds again");
        for index in self.serving() {
            self.state.connections[index].pause_reading(PauseReason::Lease);
        }
    }

    /// The lease has been renewed.
    pub(super) fn resume(&mut self) {
        let Some(room) = &mut self.state.cluster else { return };
        if !room.suspend(false) {
            return;
        }
        let claims = room.claims.connections();
        log::info!("the lease of this broker in its cluster holds: clients are served");
        for index in self.serving() {
            let id = self.state.id(index);
            self.state.resume_reading(id, PauseReason::Lease);
            if self.state.connections[index].pending_bytes() > 0 {
                self.state.mark_dirty(index);
            }
        }
        for id in claims {
            self.state.resume_reading(id, PauseReason::SessionClaim);
        }
    }

    /// The node is taken for dead: others have its sessions, or will. Nobody is told anything.
    pub(super) fn end_life(&mut self) {
        let Some(room) = &mut self.state.cluster else { return };
        let claims = room.claims.connections();
        self.remove_groups();
        let Some(room) = &mut self.state.cluster else { return };
        let lost = room.acknowledged_before_stored();
        room.end_life();
        self.state.counters().acknowledged_not_stored.add(lost);
        let waiting: Vec<_> = claims.into_iter().filter_map(|id| self.state.connections.find(id)).collect();
        for index in self.serving().into_iter().chain(waiting) {
            self.state.discard_output(index);
            self.disconnect_session(index);
            self.state.connections[index].begin_closing();
            let id = self.state.id(index);
            self.state.connections.request_action(Action::Drop(id));
        }
        // Those whose clients had not been let in yet.
        for session in self.state.sessions.indices() {
            self.end_session(session);
        }
    }

    fn serving(&self) -> Vec<ConnectionIndex> {
        let connections = &self.state.connections;
        let is_serving = |index: &ConnectionIndex| {
            connections[*index].phase() != Phase::Vacant && connections[*index].session().is_some()
        };
        connections.indices().filter(is_serving).collect()
    }
}

impl<J: Journal> ShardState<J> {
    /// Whether nothing may be written to the client of a connection now.
    #[inline]
    pub(crate) fn is_write_suspended(&self, index: ConnectionIndex) -> bool {
        self.cluster.as_ref().is_some_and(|room| room.is_suspended()) && self.connections[index].session().is_some()
    }

    /// The same of a connection that may be gone.
    #[cold]
    #[inline(never)]
    pub(crate) fn is_connection_write_suspended(&self, id: ConnectionId) -> bool {
        self.connections.find(id).is_some_and(|index| self.is_write_suspended(index))
    }
}
