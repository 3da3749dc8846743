//! Steps of [`super`] that need several states of a shard.

use std::sync::Arc;

use tautwire_session::split_session_name;

use super::{ClientDetail, ClientSummary, ConnectionSummary};
use crate::connection::authentication::identity_of;
use crate::connection::connections::PauseReason;
use crate::index::{ConnectionIndex, SessionIndex};
use crate::mode::Mode;
use crate::session::drops::Drops;
use crate::shard::ShardState;

/// The reasons why reading from a client is paused, with their names for operators.
const PAUSE_REASONS: [(PauseReason, &str); 16] = [
    (PauseReason::Acks, "disk_behind"),
    (PauseReason::RemoteLog, "cluster_behind"),
    (PauseReason::ShardChannel, "thread_behind"),
    (PauseReason::Output, "output_full"),
    (PauseReason::FanOut, "fan_out"),
    (PauseReason::Job, "packet_in_progress"),
    (PauseReason::Memory, "memory"),
    (PauseReason::Input, "input_memory"),
    (PauseReason::Log, "log_behind"),
    (PauseReason::Spill, "spill_behind"),
    (PauseReason::Rate, "publish_rate"),
    (PauseReason::Authentication, "authentication"),
    (PauseReason::Transcoding, "transcoding"),
    (PauseReason::SessionClaim, "session_claim"),
    (PauseReason::Lease, "lease"),
    (PauseReason::RetainedSync, "retained_sync"),
];

impl<M: Mode> ShardState<M> {
    pub(in crate::operations::admin_query) fn client_summary(&self, session: SessionIndex) -> ClientSummary {
        let state = &self.sessions[session];
        let (mount_point, client_id) = split_session_name(state.name());
        let index = self.sessions.connection(session);
        let outbound = state.outbound();
        let offline = self.sessions.offline(session);
        ClientSummary {
            id: index.map(|index| self.id(index)),
            client_id: client_id.into(),
            mount_point: mount_point.map(Box::from),
            user: self.user_of(session).cloned(),
            connection: index.map(|index| self.connection_summary(index)),
            session_expiry_s: state.expiry_interval_s(),
            ends_at_ms: offline.expires_at_ms,
            subscriptions: state.subscriptions().len(),
            queued_messages: outbound.map_or(0, |outbound| outbound.queued()),
            queued_bytes: outbound.map_or(0, |outbound| outbound.queued_bytes()),
            in_flight: outbound.map_or(0, |outbound| outbound.in_flight()),
            held_bytes: state.memory_bytes(),
            disconnected_ms: (offline.disconnected_s > 0).then(|| u64::from(offline.disconnected_s) * 1_000),
            is_stale: offline.is_stale,
            dropped_messages: self.sessions.drops(session).map_or(0, Drops::lost),
        }
    }

    /// The user of a session, if known.
    pub(crate) fn user_of(&self, session: SessionIndex) -> Option<&Arc<str>> {
        let connection = self.sessions.connection(session);
        let identity = connection.and_then(|index| identity_of(self.connections[index].auth_state()));
        let identity = identity.or_else(|| self.sessions.identity(session));
        identity.and_then(|identity| identity.user.as_ref()).or_else(|| self.sessions.user_name(session))
    }

    fn connection_summary(&self, index: ConnectionIndex) -> ConnectionSummary {
        let connection = &self.connections[index];
        let origin = connection.origin();
        ConnectionSummary {
            listener: origin.map_or_else(|| "".into(), |origin| origin.listener().clone()),
            peer: origin.and_then(|origin| origin.peer()),
            is_encrypted: origin.is_some_and(|origin| origin.is_encrypted()),
            version: connection.version(),
            keep_alive_s: connection.connect_parameters().keep_alive_s,
            connected_ms: connection.connected_ms(),
            last_received_ms: connection.deadlines().last_received_ms,
            output_bytes: connection.pending_bytes(),
            held_bytes: connection.held_bytes(),
        }
    }

    pub(in crate::operations::admin_query) fn client_detail(&self, session: SessionIndex) -> ClientDetail {
        let connection = self.sessions.connection(session).map(|index| &self.connections[index]);
        let identity = connection.and_then(|connection| identity_of(connection.auth_state()));
        let parameters = connection.map(|connection| connection.connect_parameters());
        let is_paused_for = |reason| connection.is_some_and(|connection| connection.is_paused_for(reason));
        let name_of = |(reason, name): &(PauseReason, &'static str)| match reason {
            PauseReason::Acks => M::ACKS_WAIT_FOR,
            _ => name,
        };
        let mut reading_paused_for: Vec<_> =
            PAUSE_REASONS.iter().filter(|(reason, _)| is_paused_for(*reason)).map(name_of).collect();
        reading_paused_for.dedup();
        ClientDetail {
            summary: self.client_summary(session),
            resumed: parameters.is_some_and(|parameters| parameters.resumed),
            send_maximum: parameters.map(|parameters| parameters.send_maximum),
            maximum_packet_size_bytes: parameters
                .and_then(|parameters| parameters.maximum_packet_size_bytes)
                .map(|bytes| bytes.get()),
            receiving: connection.map_or(0, |connection| connection.inbound_qos2()),
            will_topic: self.sessions[session].will().map(|will| will.message.topic().into()),
            roles: self.roles_of(session),
            authenticated_by: identity.map(|identity| identity.by).filter(|by| !by.is_empty()),
            reading_paused_for,
            delayed_acks: connection.map_or(0, |connection| connection.delayed_acks()),
            drops: self.sessions.drops(session).map(|drops| drops.events().cloned().collect()).unwrap_or_default(),
        }
    }
}
