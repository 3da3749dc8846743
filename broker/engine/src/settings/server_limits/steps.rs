//! The steps of [`super`] that need several parts of a shard.

use std::sync::Arc;

use tautwire_protocol::{DecodeError, DecodeOptions, Fault, FixedHeader};

use super::ServerLimits;
use crate::connection::connections::Phase;
use crate::index::ConnectionIndex;
use crate::mode::Mode;
use crate::settings::values::Settings;
use crate::shard::ShardState;

impl<M: Mode> ShardState<M> {
    /// The limits in the CONNACK of a connection's client.
    #[cold]
    pub(crate) fn server_limits(&self, index: ConnectionIndex) -> &ServerLimits {
        self.config.limits(self.connections[index].connect_parameters().server_limits)
    }

    /// Applies these settings; CONNACK carries their limits from now on.
    pub(crate) fn apply_settings(&mut self, settings: &Arc<Settings>) {
        let ShardState { config, connections, .. } = self;
        let is_used =
            |of| connections.indices().any(|index| connections[index].connect_parameters().server_limits == of);
        let replaced = config.apply_settings(settings, is_used);
        self.counters().client_settings_superseded.add(u64::from(replaced));
    }

    /// Decodes the Fixed Header of a packet that exceeds the current settings, but not the limit in the client's CONNACK.
    #[cold]
    pub(crate) fn decode_with_connack_limits(
        &self,
        index: ConnectionIndex,
        bytes: &[u8],
        error: &DecodeError,
    ) -> Option<FixedHeader> {
        let connection = &self.connections[index];
        if error.fault != Fault::OverLimit || connection.phase() == Phase::AwaitingConnect {
            return None;
        }
        let max_packet_size = connection.packet_max_bytes(self.server_limits(index).maximum_packet_size_bytes);
        FixedHeader::decode(bytes, &DecodeOptions { version: connection.version(), max_packet_size }).ok()
    }
}
