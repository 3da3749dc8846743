use alloc::vec::Vec;

use super::{
    Auth, ConnAck, Connect, Disconnect, PubAck, PubComp, PubRec, PubRel, Publish, SubAck, Subscribe, UnsubAck,
    Unsubscribe,
};
use crate::encode::{EncodeParts, Measured, append_to, encode, encoded_len};
use crate::error::EncodeError;
use crate::wire::writer::Writer;
use crate::{PacketType, ProtocolVersion};

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

/// PINGREQ and PINGRESP: a fixed header only.
struct Ping(PacketType);

impl EncodeParts for Ping {
    fn measure(&self, _: ProtocolVersion) -> Result<Measured, EncodeError> {
        Measured::new(self.0, 0, 0)
    }

    fn write_body(&self, _: ProtocolVersion, _: &Measured, _: &mut Writer<'_>) {}
}

/// Calls `$function` with the inner packet.
macro_rules! with_each_packet {
    ($packet:expr, $inner:ident => $call:expr) => {
        match $packet {
            Packet::Connect($inner) => $call,
            Packet::ConnAck($inner) => $call,
            Packet::Publish($inner) => $call,
            Packet::PubAck($inner) => $call,
            Packet::PubRec($inner) => $call,
            Packet::PubRel($inner) => $call,
            Packet::PubComp($inner) => $call,
            Packet::Subscribe($inner) => $call,
            Packet::SubAck($inner) => $call,
            Packet::Unsubscribe($inner) => $call,
            Packet::UnsubAck($inner) => $call,
            Packet::PingReq => {
                let $inner = &Ping(PacketType::PingReq);
                $call
            }
            Packet::PingResp => {
                let $inner = &Ping(PacketType::PingResp);
                $call
            }
            Packet::Disconnect($inner) => $call,
            Packet::Auth($inner) => $call,
        }
    };
}

impl Packet<'_> {
    /// The number of bytes that [`Self::encode`] writes.
    ///
    /// # Errors
    /// Everything that makes the packet impossible to write in this version.
    #[inline]
    pub fn encoded_len(&self, version: ProtocolVersion) -> Result<usize, EncodeError> {
        with_each_packet!(self, packet => encoded_len(packet, version))
    }

    /// Writes the packet at the start of `out` and returns its length in bytes.
    ///
    /// # Errors
    /// As [`Self::encoded_len`], and [`BufferTooSmall`](crate::EncodeError::BufferTooSmall). Nothing is written on an error.
    #[inline]
    pub fn encode(&self, version: ProtocolVersion, out: &mut [u8]) -> Result<usize, EncodeError> {
        match self {
            Packet::Publish(publish) => publish.encode(version, out),
            other => with_each_packet!(other, packet => encode(packet, version, out)),
        }
    }

    /// Appends the packet to `out` and returns its length in bytes.
    ///
    /// # Errors
    /// As [`Self::encoded_len`]. `out` is unchanged on an error.
    #[inline]
    pub fn append_to(&self, version: ProtocolVersion, out: &mut Vec<u8>) -> Result<usize, EncodeError> {
        match self {
            Packet::Publish(publish) => publish.append_to(version, out),
            other => with_each_packet!(other, packet => append_to(packet, version, out)),
        }
    }
}
