//! The node's lease: without it, a shard neither reads from clients nor writes to them.

use crate::connection::connections::{Action, PauseReason, Phase};
use crate::index::ConnectionIndex;
use crate::mode::Clustered;
use crate::mutant::{Mutant, is};
use crate::shard::Shard;

impl Shard<Clustered> {
    /// Suspends service after the lease has expired.
    #[cold]
    #[inline(never)]
    pub(crate) fn suspend(&mut self) {
        let cluster = &mut self.state.mode.cluster;
        if is(Mutant::ServesWithoutLease) || !cluster.suspend(true) {
            return;
        }
        self.state.counters().cluster_lease_expirations.add(1);
        log::warn!("the lease of this broker in its cluster has expired: clients are not served until it is renewed");
        for index in self.serving() {
            self.state.connections[index].pause_reading(PauseReason::Lease);
        }
    }

    /// Resumes service after the lease was renewed.
    pub(super) fn resume(&mut self) {
        let cluster = &mut self.state.mode.cluster;
        if !cluster.suspend(false) {
            return;
        }
        let claims = cluster.claims.connections();
        log::info!("the lease of this broker in its cluster is valid: clients are served");
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

    /// Ends the incarnation of a node that was declared dead: other nodes take its sessions. Connections are closed without a DISCONNECT.
    pub(super) fn end_incarnation(&mut self) {
        let cluster = &mut self.state.mode.cluster;
        let claims = cluster.claims.connections();
        self.remove_groups();
        let cluster = &mut self.state.mode.cluster;
        let lost = cluster.acknowledged_before_stored();
        cluster.end_incarnation();
        self.state.counters().acknowledged_messages_lost.add(lost);
        let waiting: Vec<_> = claims.into_iter().filter_map(|id| self.state.connections.find(id)).collect();
        for index in self.serving().into_iter().chain(waiting) {
            self.state.discard_output(index);
            self.disconnect_session(index);
            self.state.connections[index].begin_closing();
            let id = self.state.id(index);
            self.state.connections.request_action(Action::Drop(id));
        }
        // Sessions whose clients had not been accepted yet.
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
