//! The changes that a session can undergo.

use tautwire_protocol::PacketId;

use crate::outbound::PendingMessage;
use crate::session::StoredWill;
use crate::subscriptions::SubscriptionRecord;

/// One change of a session's state. Applying the same changes in the same order to a fresh session gives the same state,
/// so a log of them is the session.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// The session will outlive its connection by so many seconds; `u32::MAX` is for ever.
    ExpiryInterval(u32),
    /// The will is set or replaced, or with `None` discarded or published.
    Will(Option<Box<StoredWill>>),
    /// A subscription is added or replaced.
    Subscribed(Box<str>, SubscriptionRecord),
    /// A subscription is removed.
    Unsubscribed(Box<str>),
    /// A message joins the end of the queue.
    Queued(PendingMessage),
    /// The message at the front of the queue leaves it unsent: expired, dropped by policy, or handed to another.
    Unqueued,
    /// A message that never waited takes the next packet identifier.
    Started(PendingMessage),
    /// The message at the front of the queue takes the next packet identifier.
    StartedQueued,
    /// PUBREC came: the message has been received, its identifier has not been freed.
    Received(PacketId),
    /// PUBACK or PUBCOMP came, or PUBREC with an error: the identifier is free.
    Completed(PacketId),
    /// A QoS 2 message came from the client and has been taken on.
    Taken(PacketId),
    /// PUBREL came for it.
    Released(PacketId),
    /// The next message gets this identifier, which is free. Said where state is written down as a whole.
    NextPacketId(PacketId),
    /// PUBREL has been sent for the next identifier, and PUBCOMP is due. Said where state is written down as a whole.
    AwaitingPubComp(PacketId),
}
