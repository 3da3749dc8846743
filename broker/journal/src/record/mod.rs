//! What a frame says: records, one behind the other.
//!
//! [`Record::append_to`] writes one, and [`Records`] reads them back without copying. Any bytes may be read: what is not a
//! record is an error with a code and an offset, never a panic, and no length on disk reserves memory.

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

/// Shards of a run of the broker at most.
pub const SHARDS_MAX: u16 = 64;

/// One thing that was written down. Fields named `session` say whom it concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named after what they are")]
pub enum Record<'a> {
    /// A message that other records name. Written once in a log.
    Message(MessageRef<'a>),
    /// A session begins without state, and gets its number. `at_ms`: Unix time.
    Opened { session: SessionId, at_ms: u64, client_id: &'a str },
    /// A session ends, and its state goes with it.
    Ended { session: SessionId },
    /// The session outlives its connection by so many seconds; `u32::MAX` is for ever.
    ExpiryInterval { session: SessionId, seconds: u32 },
    /// The client has a connection.
    Connected { session: SessionId, at_ms: u64 },
    /// The client has none any more: the intervals of expiry and will delay count from here.
    Disconnected { session: SessionId, at_ms: u64 },
    /// The will is set or replaced. Its message gets its name when it is published.
    Will { session: SessionId, delay_s: u32, message_expiry_s: Option<u32>, message: MessageRef<'a> },
    /// The will has been discarded or published.
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
    /// A message joins the end of the queue.
    Queued { session: SessionId, delivery: PendingRecord<'a> },
    /// The message at the front of the queue leaves it unsent.
    Unqueued { session: SessionId },
    /// A message that never waited takes a packet identifier, which is reserved by this.
    Started { session: SessionId, packet_id: PacketId, delivery: PendingRecord<'a> },
    /// The message at the front of the queue takes a packet identifier, which is reserved by this.
    StartedQueued { session: SessionId, packet_id: PacketId },
    /// PUBREC came.
    Received { session: SessionId, packet_id: PacketId },
    /// PUBACK or PUBCOMP came, or PUBREC with an error: the identifier is free.
    Completed { session: SessionId, packet_id: PacketId },
    /// A QoS 2 message came from the client and has been taken on.
    Taken { session: SessionId, packet_id: PacketId },
    /// PUBREL came for it.
    Released { session: SessionId, packet_id: PacketId },
    /// The message is what its topic retains. Of two changes of one topic the one with the higher sequence counts.
    RetainedSet { sequence: u64, message: MessageId },
    /// The topic retains nothing.
    RetainedCleared { sequence: u64, topic: &'a str },
    /// A run of the broker begins with so many shards, on which clients are placed by this seed. All that was handed over before has
    /// been taken, by the records in the same frame. Numbers of what is handed over begin anew.
    RunStarted { shards: u16, seed: u64 },
    /// A message goes to another shard. `sequence` counts the messages of this pair of shards in this run, from 1.
    Forwarded {
        from: ShardNumber,
        to: ShardNumber,
        sequence: u64,
        message: MessageId,
        /// The session that the sending shard chose for a shared subscription; without, the subscribers of that shard get it.
        member: Option<Member<'a>>,
    },
    /// The next message of the session gets this identifier, which is free. In snapshots.
    NextPacketId { session: SessionId, packet_id: PacketId },
    /// PUBREL has been sent for this identifier, and PUBCOMP is due. In snapshots.
    AwaitingPubComp { session: SessionId, packet_id: PacketId },
    /// Numbers up to these have been given: to sessions, 0 for none, and to changes of the retained messages. In snapshots.
    Counted { last_session: u64, last_sequence: u64 },
    /// All messages of this pair up to this one have been taken, by the records in the same frame.
    ForwardAccepted { from: ShardNumber, to: ShardNumber, sequence: u64 },
}

/// A message on its way to one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingRecord<'a> {
    /// Which message.
    pub message: MessageId,
    /// The lower of the message's QoS and the subscription's.
    pub qos: QoS,
    /// RETAIN flag to send.
    pub retain: bool,
    /// Identifiers of the subscriptions that matched.
    pub subscription_ids: Ids<'a>,
    /// The shared subscription (`$share/group/filter`) that chose this client.
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
    /// The session that the record concerns, where it concerns one.
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

    /// The message that the record names, where it names one.
    pub fn message(&self) -> Option<MessageId> {
        match self {
            Record::Queued { delivery, .. } | Record::Started { delivery, .. } => Some(delivery.message),
            Record::RetainedSet { message, .. } | Record::Forwarded { message, .. } => Some(*message),
            _ => None,
        }
    }

    /// The topic or filter that the record names, where it names one.
    pub fn topic(&self) -> Option<&str> {
        match self {
            Record::Message(message) | Record::Will { message, .. } => Some(message.topic),
            Record::Subscribed { filter, .. } | Record::Unsubscribed { filter, .. } => Some(filter),
            Record::RetainedCleared { topic, .. } => Some(topic),
            _ => None,
        }
    }

    /// Its name, for people.
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
