//! The engine's part of a session's record. `docs/internals/cluster-format.md` describes the bytes.

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

/// The version of the format.
const VERSION: u8 = 1;

const SUBSCRIBED: u8 = 1;
const STARTED: u8 = 2;
const AWAITING_PUBCOMP: u8 = 3;
const NEXT_PACKET_ID: u8 = 4;
const QUEUED: u8 = 5;

/// Bits in the flags of a subscription.
const NO_LOCAL: u8 = 1 << 2;
const RETAIN_AS_PUBLISHED: u8 = 1 << 3;
const RETAIN_HANDLING_SHIFT: u8 = 4;
/// Bits in the flags of a message.
const RETAIN: u8 = 1 << 2;
const FROM_LOG: u8 = 1 << 3;

/// The bytes of a subscription in the state.
pub(crate) fn subscription_bytes(filter: &str) -> usize {
    1 + 1 + 4 + 1 + 4 + filter.len()
}

/// The decoded state of a session that no node serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionState {
    /// When its client disconnected, by the clock of the node; `None` while it was connected.
    disconnected_at_ms: Option<u64>,
    pub(super) expiry_s: u32,
    /// In each partition, the first place that was not offered to it, or whose message was not sent to its client.
    pub(super) next: [Place; PARTITIONS as usize],
    /// The parts of the session, in order.
    pub(super) parts: Vec<StatePart>,
}

/// A part of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StatePart {
    Subscribed(Box<str>, SubscriptionRecord),
    /// An in-flight message with its packet identifier.
    Started(PacketId, StateMessage),
    /// PUBREL was sent, and PUBCOMP is pending.
    AwaitingPubComp(PacketId),
    /// The packet identifier of the next message.
    NextPacketId(PacketId),
    /// A queued message that is not in the log.
    Queued(StateMessage),
}

/// A message that is pending for the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StateMessage {
    pub(super) source: MessageSource,
    pub(super) qos: QoS,
    pub(super) retain: bool,
    pub(super) subscription_ids: SubscriptionIds,
}

/// Where a message is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MessageSource {
    Log(LogPlace),
    /// The stored form of a message that is not in the log.
    Inline(Box<[u8]>),
}

/// The shared subscriptions in an encoded state; `None` if it cannot be read.
pub fn shares_of(state: &[u8]) -> Option<Vec<String>> {
    Some(SessionState::decode(state)?.shares().map(str::to_owned).collect())
}

impl SessionState {
    /// The places of in-flight messages.
    pub(crate) fn open(&self) -> impl Iterator<Item = LogPlace> {
        self.parts.iter().filter_map(|part| match part {
            StatePart::Started(_, StateMessage { source: MessageSource::Log(at), .. }) => Some(*at),
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

    /// Whether the session has expired while its client was offline.
    pub(crate) fn has_expired(&self, now_ms: u64) -> bool {
        let ends_at_ms = self.disconnected_at_ms.map(|left_ms| left_ms.saturating_add(u64::from(self.expiry_s) * 1000));
        self.expiry_s != u32::MAX && ends_at_ms.is_some_and(|at_ms| at_ms <= now_ms)
    }
}
