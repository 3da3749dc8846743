//! Session state [MQTT 5.0 section 4.1]: subscriptions, messages on their way to the client, packet identifiers of QoS 2
//! messages received, the will.
//!
//! Nothing here does I/O or reads a clock. Every change of a session is one [`Change`] that goes through
//! [`Session::apply`], so that a journal can write the change down before it takes effect and replay it later.
//! A [`Journal`] answers each record with a [`LogPosition`]; acknowledgements wait until theirs is durable.

#![forbid(unsafe_code)]

mod change;
mod handover;
mod journal;
mod last_retained;
mod outbound;
mod packet_id_set;
mod replay;
mod seat;
mod session;
mod subscriptions;

pub use change::Change;
pub use handover::{Untaken, UntakenFor};
pub use journal::{
    AckLevel, Homes, InCluster, Journal, LogPosition, LogState, Receivers, Record, RetainedChange, SessionNumber,
    ShardNumber, Volatile,
};
pub use last_retained::LastRetained;
pub use outbound::{Outbound, PendingMessage, Resend, SubscriptionIds};
pub use packet_id_set::PacketIdSet;
pub use replay::{LATE_CHANGES_MAX, MessageUnreadable, Replay, ReplayError, Replayed, ReplayedSession};
pub use seat::NoSeat;
pub use session::{KeptWill, SESSION_BYTES, Session, parts_of_name, session_name, share_of_queue, share_queue_name};
pub use subscriptions::{SubscriptionRecord, SubscriptionSet, subscription_bytes};
