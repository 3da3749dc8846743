//! A session that this shard serves, and how that ends.

use tautwire_session::Journal;

use super::port::ClusterRequest;
use super::session_state::encode;
use crate::index::{ConnectionIndex, SessionIndex};
use crate::shard::Shard;
use crate::state::ShardState;

impl<J: Journal> ShardState<J> {
    /// What the record is to keep of a session; nothing of one that ends with its connection.
    pub(super) fn state_of(&self, session: SessionIndex, disconnected_at_ms: Option<u64>) -> Vec<u8> {
        match &self.cluster {
            Some(room) if self.sessions[session].expiry_interval_s() > 0 => {
                encode(&self.sessions[session], disconnected_at_ms, |partition| room.next_place(session, partition))
            }
            _ => Vec::new(),
        }
    }
}

impl<J: Journal> Shard<J> {
    /// The broker is going down: other nodes may have the session of a connection at once.
    pub(crate) fn release_for_shutdown(&mut self, index: ConnectionIndex) {
        if self.state.is_in_cluster() {
            self.disconnect_session(index);
        }
    }

    /// A session has no connection any more. It goes to the cluster as it is, unless that is another node's already, and is forgotten
    /// here.
    #[cold]
    #[inline(never)]
    pub(crate) fn release_to_cluster(&mut self, session: SessionIndex) {
        self.state.send_disconnect_settings(session, true);
        let state = self.state.state_of(session, Some(self.state.clock.now_ms()));
        self.state.leave_groups(session, state.is_empty());
        let Some(room) = &mut self.state.cluster else { return };
        if let Some(served) = room.leave(session) {
            room.ask(ClusterRequest::Left { client: served.client(), state });
        }
        self.end_session(session);
        self.state.resume_ahead_of_cluster();
    }
}
