//! Clients whose connections break off again and again are refused for a time: two devices with one identifier would otherwise take it from
//! each other for ever, each time with all that ending and opening a session costs.
//!
//! A connection that ends by the client's DISCONNECT does not count, however often. An identifier has one shard, so nobody else need be asked.

use tautwire_protocol::ConnectReason;

use crate::index::ConnectionIndex;
use crate::mode::Mode;
use crate::shard::ShardState;

pub(crate) const FLAPPING_BLOCKED: &str = "connections of this client identifier break off too often";

impl<M: Mode> ShardState<M> {
    /// Why the client of a session of that name stays outside for now, if it does.
    pub(crate) fn is_blocked(&self, name: &str) -> Option<ConnectReason> {
        if !self.quota_state.is_blocked(name, self.clock.now_ms()) {
            return None;
        }
        self.counters().connects_refused_flapping.add(1);
        Some(ConnectReason::ConnectionRateExceeded)
    }

    /// A connection ends, and not by its client's DISCONNECT.
    pub(crate) fn record_connection_loss(&mut self, index: ConnectionIndex) {
        let Some(session) = self.connections[index].session() else { return };
        let noted = self.quota_state.record_connection_loss(self.sessions[session].name(), self.clock.now_ms());
        self.counters().flapping_entries_evicted.add(u64::from(noted.has_evicted));
        if noted.is_blocked {
            let client_id = self.sessions[session].client_id();
            let hold_s = self.config.settings().flapping_block_s;
            log::warn!("client {client_id:?} is held back for {hold_s} s: its connections break off too often");
            self.counters().clients_flapping_blocked.add(1);
            self.audit_flapping_blocked(index, client_id);
        }
    }
}
