//! The events of the machine.

use tautwire_protocol::{ConnAck, PacketId, Publish, QoS, ReasonCode, SubscribeReason, UnsubscribeReason};

use crate::Error;

/// Receives the events of the machine, in order.
pub trait Handler<T> {
    /// A message has arrived.
    fn message(&mut self, message: &Incoming<'_>) -> Answer;

    /// Something else has happened.
    fn event(&mut self, event: Event<'_, T>);
}

/// A received message, still in the read buffer.
#[derive(Debug)]
pub struct Incoming<'a> {
    /// The message; its topic is always set, also if the server used an alias.
    pub publish: Publish<'a>,
    /// The token to acknowledge it with later; `None` for QoS 0.
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

/// Identifies a received QoS 1 or 2 message that is to be acknowledged. It is invalid once the session of the message has
/// ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AckToken {
    pub(super) packet_id: PacketId,
    pub(super) qos: QoS,
    pub(super) epoch: u32,
}

/// An event of the machine.
#[derive(Debug)]
pub enum Event<'a, T> {
    /// The server has accepted the connection. If it has lost the session, subscriptions and unacknowledged messages have
    /// been sent again.
    Connected {
        /// The server's CONNACK.
        connack: ConnAck<'a>,
    },
    /// A message has been completely acknowledged, or has failed.
    Published(T, Result<Published, Error>),
    /// SUBACK has arrived: one code per filter, and the server's explanation.
    Subscribed(T, Result<(Vec<SubscribeReason>, Option<&'a str>), Error>),
    /// UNSUBACK has arrived: one code per filter (none before MQTT 5.0), and the server's explanation.
    Unsubscribed(T, Result<(Vec<UnsubscribeReason>, Option<&'a str>), Error>),
    /// The server has accepted a re-authentication, and the authenticator has accepted the server's proof.
    Reauthenticated(T),
    /// A subscription of the lost session could not be renewed.
    SubscriptionLost(Box<str>, Error),
}

/// What happened to a message that was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acceptance {
    /// QoS 0: it is in the output, and no event follows.
    Sent,
    /// It is in flight or queued; [`Event::Published`] will follow.
    Tracked,
}

/// The server's answer to an accepted message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Published {
    /// Success or No Matching Subscribers; before MQTT 5.0 always Success.
    pub reason: ReasonCode,
}

impl Published {
    pub(super) const SUCCESS: Published = Published { reason: ReasonCode::Success };

    /// The result of a QoS 2 message according to PUBREC. PUBCOMP does not repeat it.
    pub(super) fn of_received(nobody_has_subscribed: bool) -> Published {
        let reason = if nobody_has_subscribed { ReasonCode::NoMatchingSubscribers } else { ReasonCode::Success };
        Published { reason }
    }
}

/// The counters of a machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MachineCounters {
    /// Bytes received from the server, without TLS and WebSocket overhead.
    pub bytes_received: u64,
    /// Bytes sent to the server, without TLS and WebSocket overhead.
    pub bytes_sent: u64,
    /// Messages accepted for publishing.
    pub published: u64,
    /// Messages that waited for a connection or for a free packet identifier.
    pub queued: u64,
    /// Messages that were refused or had to wait because the queue or the output was full.
    pub refused_full: u64,
    /// Messages that expired in the queue.
    pub expired: u64,
    /// Messages that were sent again on another connection.
    pub resent: u64,
    /// Messages received.
    pub received: u64,
    /// Messages that arrived again and were not delivered again.
    pub duplicates: u64,
    /// Connections accepted by the server.
    pub connections: u64,
    /// Connections in which the server had lost the session.
    pub sessions_lost: u64,
}
