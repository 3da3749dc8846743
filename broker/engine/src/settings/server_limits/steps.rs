//! What [`super`] does with several parts of a shard.

use std::sync::Arc;

use tautwire_protocol::{DecodeError, DecodeOptions, Fault, FixedHeader};

use super::ServerLimits;
use crate::connection::connections::Phase;
use crate::index::ConnectionIndex;
use crate::mode::Mode;
use crate::settings::values::Settings;
use crate::shard::ShardState;

impl<M: Mode> ShardState<M> {
    /// What the client of a connection has been told.
    #[cold]
    pub(crate) fn server_limits(&self, index: ConnectionIndex) -> &ServerLimits {
        self.config.limits(self.connections[index].connect_parameters().server_limits)
    }

    /// From now on these settings hold, and clients who come are told what they say.
    pub(crate) fn apply_settings(&mut self, settings: &Arc<Settings>) {
        let ShardState { config, connections, .. } = self;
        let is_used =
            |of| connections.indices().any(|index| connections[index].connect_parameters().server_limits == of);
        let replaced = config.apply_settings(settings, is_used);
        self.counters().client_settings_superseded.add(u64::from(replaced));
    }

    /// The Fixed Header of a packet that is longer than the settings of now allow, where the client has been told that it may be.
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
