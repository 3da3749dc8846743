//! What the machine tells its caller.

use tautwire_protocol::{ConnAck, PacketId, Publish, QoS, SubscribeReason, UnsubscribeReason};

use crate::Error;
use crate::machine::Published;

/// Takes what the machine has to tell, in the order in which it happens.
pub trait Handler<T> {
    /// A message has come.
    fn message(&mut self, message: &Incoming<'_>) -> Answer;

    /// Something else has happened.
    fn event(&mut self, event: Event<'_, T>);
}

/// A message while it lies in the read buffer.
#[derive(Debug)]
pub struct Incoming<'a> {
    /// The message; its topic is always there, also where the server used an alias.
    pub publish: Publish<'a>,
    /// What to acknowledge it with later; `None` for QoS 0.
    pub token: Option<AckToken>,
}

/// When a message is to be acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// At once.
    Acknowledge,
    /// When [`crate::machine::Machine::acknowledge`] is called.
    Later,
}

/// Names a QoS 1 or 2 message that has been received and is to be acknowledged. It means nothing once the session in which
/// the message came is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AckToken {
    pub(super) packet_id: PacketId,
    pub(super) qos: QoS,
    pub(super) epoch: u32,
}

/// What has happened.
#[derive(Debug)]
pub enum Event<'a, T> {
    /// The server has accepted the connection. Its session is new where it should have been an earlier one: what is
    /// subscribed and unacknowledged has been sent again.
    Connected {
        /// The server's CONNACK.
        connack: ConnAck<'a>,
    },
    /// A message has been acknowledged to the end, or will never be.
    Published(T, Result<Published, Error>),
    /// SUBACK has come: a code for each filter, and the server's explanation.
    Subscribed(T, Result<(Vec<SubscribeReason>, Option<&'a str>), Error>),
    /// UNSUBACK has come: a code for each filter (none before MQTT 5.0), and the server's explanation.
    Unsubscribed(T, Result<(Vec<UnsubscribeReason>, Option<&'a str>), Error>),
    /// The server has accepted a re-authentication, and the authenticator its proof.
    Reauthenticated(T),
    /// A subscription of the lost session could not be made again.
    SubscriptionLost(Box<str>, Error),
}

/// Where a message to publish has gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acceptance {
    /// QoS 0: into the output, and nothing more will be heard of it.
    Sent,
    /// It is on its way or waits; [`Event::Published`] will tell of it.
    Tracked,
}

/// What a machine has counted since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MachineCounters {
    /// Bytes handed over from the server, without what TLS and WebSocket add.
    pub bytes_received: u64,
    /// Bytes for the server, likewise.
    pub bytes_sent: u64,
    /// Messages taken to be published.
    pub published: u64,
    /// Messages that had to wait for a connection or a place in the window.
    pub queued: u64,
    /// Messages refused, or made to wait by the caller, because the queue or the output was full.
    pub refused_full: u64,
    /// Messages that expired while they waited.
    pub expired: u64,
    /// Messages sent again on another connection.
    pub resent: u64,
    /// Messages received.
    pub received: u64,
    /// Messages that came again and were not handed over again.
    pub duplicates: u64,
    /// Connections accepted by the server.
    pub connections: u64,
    /// Those in which the server had lost the session.
    pub sessions_lost: u64,
}
