//! The node's lease: a shard whose node has lost it neither reads from clients nor writes to them.

use tautwire_session::Journal;

use crate::connections::{Action, Phase, Reason};
use crate::hub::Hub;
use crate::mutant::{Mutant, is};
use crate::place::{ConnectionId, ConnectionIndex};
use crate::shard::Shard;

impl<J: Journal> Shard<J> {
    /// The lease has run out.
    #[cold]
    #[inline(never)]
    pub(crate) fn suspend(&mut self) {
        let Some(room) = &mut self.hub.cluster else { return };
        if is(Mutant::ServesWithoutLease) || !room.suspend(true) {
            return;
        }
        self.hub.counters().suspensions.add(1);
        log::warn!("the lease of this broker in its cluster has run out: clients are not served until it holds again");
        for index in self.serving() {
            self.hub.connections[index].hold(Reason::Lease);
        }
    }

    /// The lease has been renewed.
    pub(super) fn resume(&mut self) {
        let Some(room) = &mut self.hub.cluster else { return };
        if !room.suspend(false) {
            return;
        }
        let claims = room.claims.connections();
        log::info!("the lease of this broker in its cluster holds: clients are served");
        for index in self.serving() {
            let id = self.hub.id(index);
            self.hub.hear_again(id, Reason::Lease);
            if self.hub.connections[index].pending_bytes() > 0 {
                self.hub.mark_fresh(index);
            }
        }
        for id in claims {
            self.hub.hear_again(id, Reason::Claim);
        }
    }

    /// The node is taken for dead: others have its sessions, or will. Nobody is told anything.
    pub(super) fn end_life(&mut self) {
        let Some(room) = &mut self.hub.cluster else { return };
        let claims = room.claims.connections();
        self.forget_groups();
        let Some(room) = &mut self.hub.cluster else { return };
        let lost = room.answered_too_early();
        room.end_life();
        self.hub.counters().acknowledged_not_stored.add(lost);
        let waiting: Vec<_> = claims.into_iter().filter_map(|id| self.hub.connections.find(id)).collect();
        for index in self.serving().into_iter().chain(waiting) {
            self.hub.discard_output(index);
            self.part(index);
            self.hub.connections[index].begin_closing();
            let id = self.hub.id(index);
            self.hub.connections.want(Action::Drop(id));
        }
        // Those whose clients had not been let in yet.
        for session in self.hub.sessions.indices() {
            self.end_session(session);
        }
    }

    fn serving(&self) -> Vec<ConnectionIndex> {
        let connections = &self.hub.connections;
        let is_serving = |index: &ConnectionIndex| {
            connections[*index].phase() != Phase::Vacant && connections[*index].session().is_some()
        };
        connections.indices().filter(is_serving).collect()
    }
}

impl<J: Journal> Hub<J> {
    /// Whether nothing may be written to the client of a connection now.
    #[inline]
    pub(crate) fn is_silent(&self, index: ConnectionIndex) -> bool {
        self.cluster.as_ref().is_some_and(|room| room.is_suspended()) && self.connections[index].session().is_some()
    }

    /// The same of a connection that may be gone.
    #[cold]
    #[inline(never)]
    pub(crate) fn is_silenced(&self, id: ConnectionId) -> bool {
        self.connections.find(id).is_some_and(|index| self.is_silent(index))
    }
}
