//! Records, the content of a frame.
//!
//! [`Record::append_to`] encodes a record, and [`Records`] decodes records without copying. Decoding accepts any bytes: invalid ones give
//! an error with a code and an offset, never a panic, and no length on disk reserves memory.

mod decode;
mod encode;
mod error;
mod ids;

use tautwire_message::{Format, MessageId, MessageRef};
use tautwire_protocol::{PacketId, QoS, SubscriptionId, SubscriptionOptions};

use crate::numbers::{SessionId, ShardNumber};
pub use decode::Records;
pub use error::{RecordError, RecordFault};
pub use ids::Ids;

/// The largest number of shards of a broker.
pub const SHARDS_MAX: u16 = 64;

/// One state change. Fields named `session` identify the session that changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named after what they are")]
pub enum Record<'a> {
    /// A message that other records name. Written once in a log.
    Message(MessageRef<'a>),
    /// A session begins without state, and gets its number. `at_ms`: Unix time.
    Opened { session: SessionId, at_ms: u64, client_id: &'a str },
    /// A session ends, with its state.
    Ended { session: SessionId },
    /// The Session Expiry Interval in seconds; `u32::MAX` means that the session never expires.
    ExpiryInterval { session: SessionId, seconds: u32 },
    /// The client has connected.
    Connected { session: SessionId, at_ms: u64 },
    /// The client has disconnected. Session expiry and will delay count from here.
    Disconnected { session: SessionId, at_ms: u64 },
    /// The will is set or replaced. Its message gets an identity when it is published.
    Will { session: SessionId, delay_s: u32, message_expiry_s: Option<u32>, message: MessageRef<'a> },
    /// The will was discarded or published.
    WillGone { session: SessionId },
    /// A subscription is added or replaced.
    Subscribed {
        session: SessionId,
        options: SubscriptionOptions,
        identifier: Option<SubscriptionId>,
        format: Option<Format>,
        filter: &'a str,
    },
    /// A subscription is removed.
    Unsubscribed { session: SessionId, filter: &'a str },
    /// A message is appended to the queue.
    Queued { session: SessionId, delivery: PendingRecord<'a> },
    /// The message at the front of the queue is removed unsent.
    Unqueued { session: SessionId },
    /// A message that was never queued takes a Packet Identifier, which this reserves.
    Started { session: SessionId, packet_id: PacketId, delivery: PendingRecord<'a> },
    /// The message at the front of the queue takes a Packet Identifier, which this reserves.
    StartedQueued { session: SessionId, packet_id: PacketId },
    /// PUBREC was received.
    Received { session: SessionId, packet_id: PacketId },
    /// PUBACK or PUBCOMP was received, or PUBREC with an error: the identifier is free.
    Completed { session: SessionId, packet_id: PacketId },
    /// A QoS 2 message was received from the client and accepted.
    Taken { session: SessionId, packet_id: PacketId },
    /// PUBREL was received for it.
    Released { session: SessionId, packet_id: PacketId },
    /// The message becomes the retained message of its topic. Of two changes of a topic, the one with the higher sequence wins.
    RetainedSet { sequence: u64, message: MessageId },
    /// The retained message of the topic is removed.
    RetainedCleared { sequence: u64, topic: &'a str },
    /// A run of the broker begins with `shards` shards; `seed` determines on which one a client is placed. Everything forwarded before was
    /// accepted, by the records in the same frame. The sequence numbers of forwarded messages start again at 1.
    RunStarted { shards: u16, seed: u64 },
    /// A message is forwarded to another shard. `sequence` counts the messages of this pair of shards in this run, from 1.
    Forwarded {
        from: ShardNumber,
        to: ShardNumber,
        sequence: u64,
        message: MessageId,
        /// The session that the sending shard chose for a shared subscription; if `None`, the subscribers of that shard get the message.
        member: Option<Member<'a>>,
    },
    /// The next message of the session gets this identifier, which is free. Used in snapshots.
    NextPacketId { session: SessionId, packet_id: PacketId },
    /// PUBREL was sent for this identifier, and PUBCOMP is pending. Used in snapshots.
    AwaitingPubComp { session: SessionId, packet_id: PacketId },
    /// The highest numbers assigned so far: to sessions, 0 for none, and to changes of the retained messages. Used in snapshots.
    Counted { last_session: u64, last_sequence: u64 },
    /// All messages of this pair up to this one were accepted, by the records in the same frame.
    ForwardAccepted { from: ShardNumber, to: ShardNumber, sequence: u64 },
}

/// A message to be delivered to one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingRecord<'a> {
    /// The message.
    pub message: MessageId,
    /// The lower of the message's QoS and the subscription's.
    pub qos: QoS,
    /// RETAIN flag to send.
    pub retain: bool,
    /// Identifiers of the matching subscriptions.
    pub subscription_ids: Ids<'a>,
    /// The shared subscription (`$share/group/filter`) for which this client was chosen.
    pub share: Option<&'a str>,
}

/// A session that was chosen for a shared subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member<'a> {
    /// The session.
    pub session: SessionId,
    /// `$share/group/filter`
    pub share: &'a str,
}

impl Record<'_> {
    /// Returns the session that the record is about, if any.
    pub fn session(&self) -> Option<SessionId> {
        match *self {
            Record::Opened { session, .. }
            | Record::Ended { session }
            | Record::ExpiryInterval { session, .. }
            | Record::Connected { session, .. }
            | Record::Disconnected { session, .. }
            | Record::Will { session, .. }
            | Record::WillGone { session }
            | Record::Subscribed { session, .. }
            | Record::Unsubscribed { session, .. }
            | Record::Queued { session, .. }
            | Record::Unqueued { session }
            | Record::Started { session, .. }
            | Record::StartedQueued { session, .. }
            | Record::Received { session, .. }
            | Record::Completed { session, .. }
            | Record::Taken { session, .. }
            | Record::Released { session, .. }
            | Record::NextPacketId { session, .. }
            | Record::AwaitingPubComp { session, .. } => Some(session),
            Record::Message(_)
            | Record::RetainedSet { .. }
            | Record::RetainedCleared { .. }
            | Record::RunStarted { .. }
            | Record::Forwarded { .. }
            | Record::ForwardAccepted { .. }
            | Record::Counted { .. } => None,
        }
    }

    /// Returns the message that the record names, if any.
    pub fn message(&self) -> Option<MessageId> {
        match self {
            Record::Queued { delivery, .. } | Record::Started { delivery, .. } => Some(delivery.message),
            Record::RetainedSet { message, .. } | Record::Forwarded { message, .. } => Some(*message),
            _ => None,
        }
    }

    /// Returns the topic or filter that the record names, if any.
    pub fn topic(&self) -> Option<&str> {
        match self {
            Record::Message(message) | Record::Will { message, .. } => Some(message.topic),
            Record::Subscribed { filter, .. } | Record::Unsubscribed { filter, .. } => Some(filter),
            Record::RetainedCleared { topic, .. } => Some(topic),
            _ => None,
        }
    }

    /// Returns the name of the record, for people.
    pub fn name(&self) -> &'static str {
        match self {
            Record::Message(_) => "Message",
            Record::Opened { .. } => "Opened",
            Record::Ended { .. } => "Ended",
            Record::ExpiryInterval { .. } => "ExpiryInterval",
            Record::Connected { .. } => "Connected",
            Record::Disconnected { .. } => "Disconnected",
            Record::Will { .. } => "Will",
            Record::WillGone { .. } => "WillGone",
            Record::Subscribed { .. } => "Subscribed",
            Record::Unsubscribed { .. } => "Unsubscribed",
            Record::Queued { .. } => "Queued",
            Record::Unqueued { .. } => "Withdrawn",
            Record::Started { .. } => "Started",
            Record::StartedQueued { .. } => "StartedQueued",
            Record::Received { .. } => "Received",
            Record::Completed { .. } => "Completed",
            Record::Taken { .. } => "Taken",
            Record::Released { .. } => "Released",
            Record::RetainedSet { .. } => "RetainedSet",
            Record::RetainedCleared { .. } => "RetainedCleared",
            Record::RunStarted { .. } => "Begun",
            Record::Forwarded { .. } => "Handed",
            Record::ForwardAccepted { .. } => "Took",
            Record::NextPacketId { .. } => "GoOnWith",
            Record::AwaitingPubComp { .. } => "Awaited",
            Record::Counted { .. } => "Counted",
        }
    }
}
