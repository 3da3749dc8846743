//! What the record of a session keeps for the engine. `docs/internals/cluster-format.md` describes the bytes.

mod bytes;
mod decode;
mod encode;
#[cfg(test)]
mod tests;

use tautwire_cluster::names::PARTITIONS;
use tautwire_cluster::record::Place;
use tautwire_protocol::{PacketId, QoS};
use tautwire_session::{SubscriptionIds, SubscriptionRecord};

use super::cluster_state::LogPlace;

pub(crate) use encode::encode;

/// The version of the form.
const VERSION: u8 = 1;

const SUBSCRIBED: u8 = 1;
const STARTED: u8 = 2;
const AWAITED: u8 = 3;
const NEXT_PACKET_ID: u8 = 4;
const QUEUED: u8 = 5;

/// In the flags of a subscription.
const NO_LOCAL: u8 = 1 << 2;
const RETAIN_AS_PUBLISHED: u8 = 1 << 3;
const RETAIN_HANDLING_SHIFT: u8 = 4;
/// In the flags of a message.
const RETAIN: u8 = 1 << 2;
const FROM_LOG: u8 = 1 << 3;

/// What a subscription takes in the state.
pub(crate) fn subscription_bytes(filter: &str) -> usize {
    1 + 1 + 4 + 1 + 4 + filter.len()
}

/// A session that nobody serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionState {
    /// When its client left, by the clock of the node; `None` while it was connected.
    pub(crate) disconnected_at_ms: Option<u64>,
    pub(crate) expiry_s: u32,
    /// In each partition, the first place that it has not been offered, or that its client has not been sent.
    pub(crate) next: [Place; PARTITIONS as usize],
    /// What leads to it, in order.
    pub(crate) parts: Vec<StatePart>,
}

/// A piece of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StatePart {
    Subscribed(Box<str>, SubscriptionRecord),
    /// A message has been sent to the client with this identifier.
    Started(PacketId, Pending),
    /// PUBCOMP is due.
    AwaitingPubComp(PacketId),
    /// The next message gets this identifier.
    NextPacketId(PacketId),
    /// A message waits that is not in the log.
    Queued(Pending),
}

/// A message on its way to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) source: MessageSource,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) subscription_ids: SubscriptionIds,
}

/// Where a message is to be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MessageSource {
    Log(LogPlace),
    /// Its stored form, of one that is not in the log.
    Inline(Box<[u8]>),
}

/// The shared subscriptions in the state of a session; `None` where it cannot be read.
pub fn shares_of(state: &[u8]) -> Option<Vec<String>> {
    Some(SessionState::decode(state)?.shares().map(str::to_owned).collect())
}

impl SessionState {
    /// The places of messages that were sent to the client and not acknowledged.
    pub(crate) fn open(&self) -> impl Iterator<Item = LogPlace> {
        self.parts.iter().filter_map(|part| match part {
            StatePart::Started(_, Pending { source: MessageSource::Log(at), .. }) => Some(*at),
            _ => None,
        })
    }

    /// The shared subscriptions of the session.
    pub(crate) fn shares(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            StatePart::Subscribed(filter, _) if filter.starts_with("$share/") => Some(&**filter),
            _ => None,
        })
    }

    /// Whether the session has ended because its client has been away for too long.
    pub(crate) fn has_expired(&self, now_ms: u64) -> bool {
        let ends_at_ms = self.disconnected_at_ms.map(|left_ms| left_ms.saturating_add(u64::from(self.expiry_s) * 1000));
        self.expiry_s != u32::MAX && ends_at_ms.is_some_and(|at_ms| at_ms <= now_ms)
    }
}
