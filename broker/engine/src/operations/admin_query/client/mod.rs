//! The results of queries about one client.

mod steps;

use std::sync::Arc;

use tautwire_protocol::ProtocolVersion;

use crate::connection::origin::Peer;
use crate::index::ConnectionId;
use crate::session::drops::DropEvent;

/// A summary of a session and its connection.
#[derive(Debug, Clone)]
pub struct ClientSummary {
    /// The connection, for which `Io` finds the peer address.
    pub(super) id: Option<ConnectionId>,
    /// Client Identifier.
    pub client_id: Box<str>,
    /// The prefix of its topics.
    pub mount_point: Option<Box<str>>,
    /// The authenticated user. Unknown for an offline client, unless pending work depends on it.
    pub user: Option<Arc<str>>,
    /// `None` while the client is offline.
    pub connection: Option<ConnectionSummary>,
    /// Session Expiry Interval in seconds; `u32::MAX` means that it does not expire.
    pub session_expiry_s: u32,
    /// When the session expires if the client stays offline, in milliseconds since the Unix epoch.
    pub ends_at_ms: Option<u64>,
    /// The number of its subscriptions.
    pub subscriptions: usize,
    /// Queued QoS 1 and 2 messages.
    pub queued_messages: usize,
    /// Bytes of queued messages.
    pub queued_bytes: usize,
    /// Unacknowledged QoS 1 and 2 messages that were sent on this connection.
    pub in_flight: usize,
    /// Memory held for the session.
    pub held_bytes: usize,
    /// When the client disconnected, in milliseconds since the Unix epoch, to the second; `None` while it is connected.
    pub disconnected_ms: Option<u64>,
    /// Whether messages have been queued for longer than `limits.stale_session_s`.
    pub is_stale: bool,
    /// QoS 1 and 2 messages that were dropped for it because its queue was full, since the broker started.
    pub dropped_messages: u64,
}

/// A summary of a session's connection.
#[derive(Debug, Clone)]
pub struct ConnectionSummary {
    /// The name of the listener.
    pub listener: Arc<str>,
    /// The peer address; `None` if the system does not provide it any more.
    pub peer: Option<Peer>,
    /// Whether the connection is encrypted.
    pub is_encrypted: bool,
    /// Protocol version.
    pub version: ProtocolVersion,
    /// The negotiated Keep Alive in seconds; 0 for none.
    pub keep_alive_s: u16,
    /// When it was accepted, in milliseconds since the Unix epoch, to the second.
    pub connected_ms: u64,
    /// When its last packet was received, in milliseconds since the Unix epoch.
    pub last_received_ms: u64,
    /// Pending output in bytes.
    pub output_bytes: usize,
    /// Memory held for the connection.
    pub held_bytes: usize,
}

/// The details of one client, without its subscriptions.
#[derive(Debug, Clone)]
pub struct ClientDetail {
    /// The summary that lists contain.
    pub summary: ClientSummary,
    /// Whether the connection resumed an existing session.
    pub resumed: bool,
    /// The maximum number of messages in flight to it: the lower of its Receive Maximum and the broker's limit.
    pub send_maximum: Option<u16>,
    /// The largest packet that it accepts.
    pub maximum_packet_size_bytes: Option<u32>,
    /// Incomplete QoS 2 messages from it.
    pub receiving: u16,
    /// The topic of its will.
    pub will_topic: Option<Box<str>>,
    /// Roles from the access rules and from authentication.
    pub roles: Vec<Box<str>>,
    /// The authentication backend that accepted it.
    pub authenticated_by: Option<&'static str>,
    /// Why reading from it is paused.
    pub reading_paused_for: Vec<&'static str>,
    /// Delayed acknowledgements to it, which wait for the disk or the cluster.
    pub delayed_acks: usize,
    /// Messages that it did not get, the latest last.
    pub drops: Vec<DropEvent>,
}
