//! The changes of a session.

use tautwire_protocol::PacketId;

use crate::outbound::PendingMessage;
use crate::subscriptions::SubscriptionRecord;
use crate::will::StoredWill;

/// One change of a session's state. Applying the same changes in order to a new session gives the same state, so a log of the changes
/// represents the session.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Sets the Session Expiry Interval in seconds; `u32::MAX` means that the session never expires.
    ExpiryInterval(u32),
    /// Sets or replaces the will; `None` after it was discarded or published.
    Will(Option<Box<StoredWill>>),
    /// A subscription is added or replaced.
    Subscribed(Box<str>, SubscriptionRecord),
    /// A subscription is removed.
    Unsubscribed(Box<str>),
    /// A message is appended to the queue.
    Queued(PendingMessage),
    /// The message at the front of the queue is removed unsent: it expired, was dropped by policy, or was redispatched.
    Unqueued,
    /// A message that was never queued takes the next Packet Identifier.
    Started(PendingMessage),
    /// The message at the front of the queue takes the next Packet Identifier.
    StartedQueued,
    /// PUBREC was received: the client has the message, and its identifier is still in use.
    Received(PacketId),
    /// PUBACK or PUBCOMP was received, or PUBREC with an error: the identifier is free.
    Completed(PacketId),
    /// A QoS 2 message was received from the client and accepted.
    Taken(PacketId),
    /// PUBREL was received for it.
    Released(PacketId),
    /// The next message gets this identifier, which is free. Used where a whole state is recorded.
    NextPacketId(PacketId),
    /// PUBREL was sent for the next identifier, and PUBCOMP is pending. Used where a whole state is recorded.
    AwaitingPubComp(PacketId),
}
