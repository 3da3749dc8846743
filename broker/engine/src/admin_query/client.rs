//! What is told of one client.

use std::sync::Arc;

use tautwire_protocol::ProtocolVersion;
use tautwire_session::split_session_name;

use crate::authentication::identity_of;
use crate::connections::PauseReason;
use crate::drops::{DropEvent, Drops};
use crate::index::{ConnectionId, ConnectionIndex, SessionIndex};
use crate::mode::Mode;
use crate::origin::Peer;
use crate::state::ShardState;

/// A session, and the connection that serves it.
#[derive(Debug, Clone)]
pub struct ClientSummary {
    /// The connection by which the surroundings can find the peer.
    pub(crate) id: Option<ConnectionId>,
    /// Client Identifier.
    pub client_id: Box<str>,
    /// What stands in front of its topics.
    pub mount_point: Option<Box<str>>,
    /// Whom authentication has shown it to be. Not known of who is away, unless something waits that depends on it.
    pub user: Option<Arc<str>>,
    /// `None` while the client is away.
    pub connection: Option<ConnectionSummary>,
    /// Session Expiry Interval in seconds; `u32::MAX` never ends.
    pub session_expiry_s: u32,
    /// When the session ends unless the client comes back, in milliseconds since the Unix epoch.
    pub ends_at_ms: Option<u64>,
    /// How many subscriptions it has.
    pub subscriptions: usize,
    /// QoS 1 and 2 messages that wait for it.
    pub queued_messages: usize,
    /// Bytes of these.
    pub queued_bytes: usize,
    /// QoS 1 and 2 messages sent on this connection and not acknowledged.
    pub in_flight: usize,
    /// Memory that is held for the session.
    pub held_bytes: usize,
    /// When the client left, in milliseconds since the Unix epoch, to the second; `None` while it is connected.
    pub left_ms: Option<u64>,
    /// Messages have waited for longer than `limits.neglected_session_s`.
    pub is_neglected: bool,
    /// QoS 1 and 2 messages that were dropped for it because its queue was full, since the broker started.
    pub dropped_messages: u64,
}

/// A connection that serves a session.
#[derive(Debug, Clone)]
pub struct ConnectionSummary {
    /// The name of the listener.
    pub listener: Arc<str>,
    /// The other end; `None` where the system does not say any more.
    pub peer: Option<Peer>,
    /// Whether nobody can listen in between.
    pub is_encrypted: bool,
    /// Protocol version.
    pub version: ProtocolVersion,
    /// Keep Alive in seconds, as it was agreed; 0 for none.
    pub keep_alive_s: u16,
    /// Since when it serves the session, in milliseconds since the Unix epoch, to the second.
    pub connected_ms: u64,
    /// When its last packet came, in milliseconds since the Unix epoch.
    pub last_received_ms: u64,
    /// Output that the client has not taken.
    pub output_bytes: usize,
    /// Memory that is held for the connection.
    pub held_bytes: usize,
}

/// All that is told of one client but its subscriptions.
#[derive(Debug, Clone)]
pub struct ClientDetail {
    /// What a list tells.
    pub summary: ClientSummary,
    /// Whether the session was there before the connection.
    pub resumed: bool,
    /// What it wants to have in flight at most: the lowest of its Receive Maximum and the broker's limit.
    pub send_maximum: Option<u16>,
    /// The largest packet that it takes.
    pub maximum_packet_size_bytes: Option<u32>,
    /// QoS 2 messages from it that are not complete.
    pub receiving: u16,
    /// The topic of its will.
    pub will_topic: Option<Box<str>>,
    /// Roles that the access rules and authentication give.
    pub roles: Vec<Box<str>>,
    /// What has vouched for it.
    pub authenticated_by: Option<&'static str>,
    /// Why the broker does not read from it now.
    pub reading_paused_for: Vec<&'static str>,
    /// Acknowledgements to it that wait for the disk, or for the cluster.
    pub delayed_acks: usize,
    /// Messages that it did not get, the latest last.
    pub drops: Vec<DropEvent>,
}

/// The reasons not to read from a client, as operators call them.
const REASONS: [(PauseReason, &str); 16] = [
    (PauseReason::Acks, "disk_behind"),
    (PauseReason::RemoteLog, "cluster_behind"),
    (PauseReason::ShardChannel, "thread_behind"),
    (PauseReason::Output, "output_full"),
    (PauseReason::FanOut, "fan_out"),
    (PauseReason::Job, "packet_under_way"),
    (PauseReason::Memory, "memory"),
    (PauseReason::Input, "memory_for_input"),
    (PauseReason::Log, "log_behind"),
    (PauseReason::Spill, "cold_messages_behind"),
    (PauseReason::Rate, "publish_rate"),
    (PauseReason::Authentication, "authentication"),
    (PauseReason::Transcoding, "formats"),
    (PauseReason::SessionClaim, "claim"),
    (PauseReason::Lease, "lease"),
    (PauseReason::RetainedSync, "retained_search"),
];

impl<M: Mode> ShardState<M> {
    pub(super) fn client_summary(&self, session: SessionIndex) -> ClientSummary {
        let state = &self.sessions[session];
        let (mount_point, client_id) = split_session_name(state.name());
        let index = self.sessions.connection(session);
        let outbound = state.outbound();
        let away = self.sessions.offline(session);
        ClientSummary {
            id: index.map(|index| self.id(index)),
            client_id: client_id.into(),
            mount_point: mount_point.map(Box::from),
            user: self.user_of(session).cloned(),
            connection: index.map(|index| self.connection_summary(index)),
            session_expiry_s: state.expiry_interval_s(),
            ends_at_ms: away.expires_at_ms,
            subscriptions: state.subscriptions().len(),
            queued_messages: outbound.map_or(0, |outbound| outbound.queued()),
            queued_bytes: outbound.map_or(0, |outbound| outbound.queued_bytes()),
            in_flight: outbound.map_or(0, |outbound| outbound.in_flight()),
            held_bytes: state.memory_bytes(),
            left_ms: (away.left_s > 0).then(|| u64::from(away.left_s) * 1_000),
            is_neglected: away.is_neglected,
            dropped_messages: self.sessions.drops(session).map_or(0, Drops::lost),
        }
    }

    /// Whose the session is, as far as that is known.
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

    pub(super) fn client_detail(&self, session: SessionIndex) -> ClientDetail {
        let connection = self.sessions.connection(session).map(|index| &self.connections[index]);
        let identity = connection.and_then(|connection| identity_of(connection.auth_state()));
        let agreement = connection.map(|connection| connection.connect_parameters());
        let holds = |reason| connection.is_some_and(|connection| connection.is_paused_for(reason));
        let called = |(reason, name): &(PauseReason, &'static str)| match reason {
            PauseReason::Acks => M::ACKS_WAIT_FOR,
            _ => name,
        };
        let mut reading_paused_for: Vec<_> = REASONS.iter().filter(|(reason, _)| holds(*reason)).map(called).collect();
        reading_paused_for.dedup();
        ClientDetail {
            summary: self.client_summary(session),
            resumed: agreement.is_some_and(|agreement| agreement.resumed),
            send_maximum: agreement.map(|agreement| agreement.send_maximum),
            maximum_packet_size_bytes: agreement
                .and_then(|agreement| agreement.maximum_packet_size_bytes)
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
