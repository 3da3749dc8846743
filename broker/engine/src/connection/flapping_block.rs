//! Blocks clients whose connections are lost too often, for a time. Two devices with one identifier would otherwise take over each other's
//! session forever, each time at the cost of ending and opening a session.
//!
//! A connection that ends by the client's DISCONNECT does not count. An identifier belongs to one shard, so this needs no other shard.

use tautwire_protocol::ConnectReason;

use crate::index::ConnectionIndex;
use crate::mode::Mode;
use crate::shard::ShardState;

pub(crate) const FLAPPING_BLOCKED: &str = "connections of this client identifier are lost too often";

impl<M: Mode> ShardState<M> {
    /// The reason code if the client of the session with this name is blocked.
    pub(crate) fn is_blocked(&self, name: &str) -> Option<ConnectReason> {
        if !self.quota_state.is_blocked(name, self.clock.now_ms()) {
            return None;
        }
        self.counters().connects_refused_flapping.add(1);
        Some(ConnectReason::ConnectionRateExceeded)
    }

    /// Records that a connection ended without the client's DISCONNECT.
    pub(crate) fn record_connection_loss(&mut self, index: ConnectionIndex) {
        let Some(session) = self.connections[index].session() else { return };
        let update = self.quota_state.record_connection_loss(self.sessions[session].name(), self.clock.now_ms());
        self.counters().flapping_entries_evicted.add(u64::from(update.has_evicted));
        if update.is_blocked {
            let client_id = self.sessions[session].client_id();
            let block_s = self.config.settings().flapping_block_s;
            log::warn!("client {client_id:?} is blocked for {block_s} s: its connections are lost too often");
            self.counters().clients_flapping_blocked.add(1);
            self.audit_flapping_blocked(index, client_id);
        }
    }
}
