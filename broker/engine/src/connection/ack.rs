//! Acknowledgements, and other packets that may have to wait for the log.

use std::borrow::Cow;

use tautwire_protocol::{
    Packet, PacketId, Properties, PubAck, PubAckReason, PubComp, PubCompReason, PubRec, PubRecReason, PubRel,
    PubRelReason, SubAck, SubscribeReason, UnsubAck, UnsubscribeReason,
};
use tautwire_session::{AckLevel, LogPosition};

/// A time in microseconds, in 32 bits: it wraps around after 71 minutes.
pub(crate) type TimestampUs = u32;

/// An acknowledgement that waits for the journal.
#[derive(Debug)]
pub(crate) struct DelayedAck {
    /// The frame that must reach `level` first.
    pub(crate) until: LogPosition,
    pub(crate) level: AckLevel,
    /// When the acknowledged packet was read.
    pub(crate) since: TimestampUs,
    pub(crate) ack: Ack,
}

/// An acknowledgement. It promises that the broker has stored something, so it must not be sent before that is true.
#[derive(Debug)]
pub(crate) enum Ack {
    /// PUBACK.
    Published(PacketId, PubAckReason, Option<Cow<'static, str>>),
    /// PUBREC.
    Received(PacketId, PubRecReason, Option<Cow<'static, str>>),
    /// PUBREL.
    Release(PacketId, PubRelReason),
    /// PUBCOMP.
    Complete(PacketId, PubCompReason),
    /// SUBACK.
    Subscribed(PacketId, Box<[SubscribeReason]>),
    /// UNSUBACK.
    Unsubscribed(PacketId, Box<[UnsubscribeReason]>),
    /// PUBLISH of QoS 2, which promises that its identifier is used for no other message until the client has released it. The flag says
    /// that the message comes directly from its publisher, not from a queue.
    Deliver(PacketId, bool),
}

impl Ack {
    /// Whether it frees a slot of the client's send quota [MQTT-3.3.4-7] without an identifier being held.
    pub(crate) fn completes_publish(&self) -> bool {
        match self {
            Ack::Published(..) => true,
            Ack::Received(_, reason, _) => reason.is_error(),
            _ => false,
        }
    }

    /// Whether it acknowledges a PUBLISH of the client.
    pub(crate) fn is_publish_ack(&self) -> bool {
        matches!(self, Ack::Published(..) | Ack::Received(..))
    }

    /// The packet; `None` if it is a message of the session.
    pub(crate) fn packet<'a>(&'a self, properties: Properties<'a>, v5: bool) -> Option<Packet<'a>> {
        let packet = match self {
            Ack::Published(packet_id, reason, _) => {
                Packet::PubAck(PubAck { packet_id: *packet_id, reason: *reason, properties })
            }
            Ack::Received(packet_id, reason, _) => {
                Packet::PubRec(PubRec { packet_id: *packet_id, reason: *reason, properties })
            }
            Ack::Release(packet_id, reason) => {
                Packet::PubRel(PubRel { packet_id: *packet_id, reason: *reason, properties })
            }
            Ack::Complete(packet_id, reason) => {
                Packet::PubComp(PubComp { packet_id: *packet_id, reason: *reason, properties })
            }
            Ack::Subscribed(packet_id, reasons) => {
                Packet::SubAck(SubAck { packet_id: *packet_id, properties, reasons: (&reasons[..]).into() })
            }
            Ack::Unsubscribed(packet_id, reasons) => {
                // 3.1.1 has no codes here.
                let reasons = if v5 { &reasons[..] } else { &[] };
                Packet::UnsubAck(UnsubAck { packet_id: *packet_id, properties, reasons: reasons.into() })
            }
            Ack::Deliver(..) => return None,
        };
        Some(packet)
    }
}
