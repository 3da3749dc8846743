//! The node's lease: a shard whose node has lost it neither reads from clients nor writes to them.

use crate::connection::connections::{Action, PauseReason, Phase};
use crate::index::ConnectionIndex;
use crate::mode::Clustered;
use crate::mutant::{Mutant, is};
use crate::shard::Shard;

impl Shard<Clustered> {
    /// The lease has run out.
    #[cold]
    #[inline(never)]
    pub(crate) fn suspend(&mut self) {
        let cluster = &mut self.state.mode.cluster;
        if is(Mutant::ServesWithoutLease) || !cluster.suspend(true) {
            return;
        }
        self.state.counters().cluster_lease_expirations.add(1);
        log::warn!("the lease of this broker in its cluster has run out: clients are not served until it holds again");
        for index in self.serving() {
            self.state.connections[index].pause_reading(PauseReason::Lease);
        }
    }

    /// The lease has been renewed.
    pub(super) fn resume(&mut self) {
        let cluster = &mut self.state.mode.cluster;
        if !cluster.suspend(false) {
            return;
        }
        let claims = cluster.claims.connections();
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
        let cluster = &mut self.state.mode.cluster;
        let claims = cluster.claims.connections();
        self.remove_groups();
        let cluster = &mut self.state.mode.cluster;
        let lost = cluster.acknowledged_before_stored();
        cluster.end_life();
        self.state.counters().acknowledged_messages_lost.add(lost);
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
