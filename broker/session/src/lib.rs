//! Session state [MQTT 5.0 section 4.1]: subscriptions, messages to be delivered, Packet Identifiers of received QoS 2 messages, and the
//! will.
//!
//! Nothing here does I/O or reads a clock. Every change of a session is a [`Change`] that goes through [`Session::apply`], so that a
//! journal can record it before it takes effect and replay it later. A [`Journal`] returns a [`LogPosition`] for each record; an
//! acknowledgement waits until its position is durable.

#![forbid(unsafe_code)]

mod change;
mod forwarded;
mod journal;
mod last_retained;
mod outbound;
mod packet_id_set;
mod replay;
mod session;
mod subscriptions;
mod will;

pub use change::Change;
pub use forwarded::{ForwardTarget, PendingForward};
pub use journal::{
    AckLevel, Journal, LogPosition, LogState, NoJournal, Receivers, Record, RetainedChange, SessionNumber, ShardNumber,
    ShardPlacement,
};
pub use last_retained::LastRetained;
pub use outbound::{Outbound, PendingMessage, Resend, SubscriptionIds};
pub use packet_id_set::PacketIdSet;
pub use replay::{LATE_CHANGES_MAX, Replay, ReplayError, ReplayedSession, ReplayedState, UnreadableMessage};
pub use session::{SESSION_BYTES, Session, session_name, share_of_queue, share_queue_name, split_session_name};
pub use subscriptions::{SubscriptionRecord, SubscriptionSet, subscription_bytes};
pub use will::StoredWill;
