//! A session that this shard serves, and how that ends.

use super::port::ClusterRequest;
use super::session_state::encode;
use crate::index::SessionIndex;
use crate::mode::Clustered;
use crate::shard::Shard;
use crate::shard::ShardState;

impl ShardState<Clustered> {
    /// What the record is to keep of a session; nothing of one that ends with its connection.
    pub(super) fn state_of(&self, session: SessionIndex, disconnected_at_ms: Option<u64>) -> Vec<u8> {
        if self.sessions[session].expiry_interval_s() == 0 {
            return Vec::new();
        }
        encode(&self.sessions[session], disconnected_at_ms, |partition| {
            self.mode.cluster.next_place(session, partition)
        })
    }
}

impl Shard<Clustered> {
    /// A session has no connection any more. It goes to the cluster as it is, unless that is another node's already, and is forgotten
    /// here.
    #[cold]
    #[inline(never)]
    pub(crate) fn release_to_cluster(&mut self, session: SessionIndex) {
        self.state.send_disconnect_settings(session, true);
        let state = self.state.state_of(session, Some(self.state.clock.now_ms()));
        self.state.leave_groups(session, state.is_empty());
        let cluster = &mut self.state.mode.cluster;
        if let Some(served) = cluster.leave(session) {
            cluster.ask(ClusterRequest::Left { client: served.client(), state });
        }
        self.end_session(session);
        self.state.resume_ahead_of_cluster();
    }
}
