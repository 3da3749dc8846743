//! What is told of one client.

mod steps;

use std::sync::Arc;

use tautwire_protocol::ProtocolVersion;

use crate::connection::origin::Peer;
use crate::index::ConnectionId;
use crate::session::drops::DropEvent;

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
    /// Messages have waited for longer than `limits.stale_session_s`.
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
