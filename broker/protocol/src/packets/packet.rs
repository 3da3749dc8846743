use super::{
    Auth, ConnAck, Connect, Disconnect, PubAck, PubComp, PubRec, PubRel, Publish, SubAck, Subscribe, UnsubAck,
    Unsubscribe,
};
use crate::PacketType;

/// A control packet that borrows its strings and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// Connection request.
    Connect(Connect<'a>),
    /// Connect acknowledgement.
    ConnAck(ConnAck<'a>),
    /// A message.
    Publish(Publish<'a>),
    /// Acknowledgement of a QoS 1 message.
    PubAck(PubAck<'a>),
    /// QoS 2, part 1: received.
    PubRec(PubRec<'a>),
    /// QoS 2, part 2: release.
    PubRel(PubRel<'a>),
    /// QoS 2, part 3: complete.
    PubComp(PubComp<'a>),
    /// Subscribe request.
    Subscribe(Subscribe<'a>),
    /// Subscribe acknowledgement.
    SubAck(SubAck<'a>),
    /// Unsubscribe request.
    Unsubscribe(Unsubscribe<'a>),
    /// Unsubscribe acknowledgement.
    UnsubAck(UnsubAck<'a>),
    /// Ping request.
    PingReq,
    /// Ping response.
    PingResp,
    /// Disconnect notification.
    Disconnect(Disconnect<'a>),
    /// Authentication exchange; MQTT 5.0 only.
    Auth(Auth<'a>),
}

impl Packet<'_> {
    /// The packet's type.
    #[inline]
    pub const fn packet_type(&self) -> PacketType {
        match self {
            Self::Connect(_) => PacketType::Connect,
            Self::ConnAck(_) => PacketType::ConnAck,
            Self::Publish(_) => PacketType::Publish,
            Self::PubAck(_) => PacketType::PubAck,
            Self::PubRec(_) => PacketType::PubRec,
            Self::PubRel(_) => PacketType::PubRel,
            Self::PubComp(_) => PacketType::PubComp,
            Self::Subscribe(_) => PacketType::Subscribe,
            Self::SubAck(_) => PacketType::SubAck,
            Self::Unsubscribe(_) => PacketType::Unsubscribe,
            Self::UnsubAck(_) => PacketType::UnsubAck,
            Self::PingReq => PacketType::PingReq,
            Self::PingResp => PacketType::PingResp,
            Self::Disconnect(_) => PacketType::Disconnect,
            Self::Auth(_) => PacketType::Auth,
        }
    }
}

macro_rules! from_packets {
    ($($name:ident)*) => {
        $(impl<'a> From<$name<'a>> for Packet<'a> {
            #[inline]
            fn from(packet: $name<'a>) -> Self {
                Self::$name(packet)
            }
        })*
    };
}

from_packets!(Connect ConnAck Publish PubAck PubRec PubRel PubComp Subscribe SubAck Unsubscribe UnsubAck Disconnect Auth);
