//! Releases sessions that this shard served to the cluster.

use super::port::ClusterRequest;
use super::session_state::encode;
use crate::index::SessionIndex;
use crate::mode::Clustered;
use crate::shard::Shard;
use crate::shard::ShardState;

impl ShardState<Clustered> {
    /// The state of a session for its record; empty for a session that ends with its connection.
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
    /// Returns a session whose connection has ended to the cluster, unless another node has it already, and removes it from this shard.
    #[cold]
    #[inline(never)]
    pub(crate) fn release_to_cluster(&mut self, session: SessionIndex) {
        self.state.send_disconnect_settings(session, true);
        let state = self.state.state_of(session, Some(self.state.clock.now_ms()));
        self.state.leave_groups(session, state.is_empty());
        let cluster = &mut self.state.mode.cluster;
        if let Some(served) = cluster.stop_serving(session) {
            cluster.push_request(ClusterRequest::Left { client: served.client(), state });
        }
        self.end_session(session);
        self.state.resume_publishers();
    }
}
