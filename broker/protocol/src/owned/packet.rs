use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use super::OwnedPublish;
use super::spans::{Block, Items, Span, Store};
use crate::error::EncodeError;
use crate::properties::PropertyContext;
use crate::{
    Auth, AuthReason, ConnAck, Connect, ConnectReason, Disconnect, DisconnectReason, Packet, PacketId, ProtocolVersion,
    PubAck, PubAckReason, PubComp, PubCompReason, PubRec, PubRecReason, PubRel, PubRelReason, QoS, SubAck, Subscribe,
    TopicName, UnsubAck, Unsubscribe, Will,
};

/// A packet that owns its bytes, in one allocation.
#[derive(Clone)]
pub struct OwnedPacket {
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    Publish(OwnedPublish),
    Other { bytes: Box<[u8]>, shape: Shape },
}

/// A packet whose strings, bytes, properties and lists are spans of the allocation.
#[derive(Clone, Copy)]
enum Shape {
    Connect(ConnectShape),
    ConnAck { session_present: bool, reason: ConnectReason, properties: Block },
    PubAck { packet_id: PacketId, reason: PubAckReason, properties: Block },
    PubRec { packet_id: PacketId, reason: PubRecReason, properties: Block },
    PubRel { packet_id: PacketId, reason: PubRelReason, properties: Block },
    PubComp { packet_id: PacketId, reason: PubCompReason, properties: Block },
    Subscribe { packet_id: PacketId, properties: Block, requests: Items },
    SubAck { packet_id: PacketId, properties: Block, reasons: Items },
    Unsubscribe { packet_id: PacketId, properties: Block, filters: Items },
    UnsubAck { packet_id: PacketId, properties: Block, reasons: Items },
    PingReq,
    PingResp,
    Disconnect { reason: DisconnectReason, properties: Block },
    Auth { reason: AuthReason, properties: Block },
}

#[derive(Clone, Copy)]
struct ConnectShape {
    version: ProtocolVersion,
    clean_start: bool,
    keep_alive_s: u16,
    client_id: Span,
    will: Option<WillShape>,
    user_name: Option<Span>,
    password: Option<Span>,
    properties: Block,
}

#[derive(Clone, Copy)]
struct WillShape {
    topic: Span,
    payload: Span,
    qos: QoS,
    retain: bool,
    properties: Block,
}

impl Packet<'_> {
    /// Copies the packet into one allocation. A decoded packet can always be copied.
    ///
    /// # Errors
    /// Properties given as a slice that could not be encoded in this packet.
    pub fn to_owned_packet(&self) -> Result<OwnedPacket, EncodeError> {
        use PropertyContext as At;
        // A PUBLISH stores itself. Other packets need at most their encoded length; one that cannot be encoded grows the buffer as needed.
        let capacity = match self {
            Packet::Publish(_) => 0,
            other => other.encoded_len(ProtocolVersion::V5).unwrap_or(0),
        };
        let mut store = Store { bytes: Vec::with_capacity(capacity) };
        let shape = match self {
            Packet::Publish(publish) => {
                return Ok(OwnedPacket { kind: Kind::Publish(publish.to_owned_publish()?) });
            }
            Packet::Connect(connect) => Shape::Connect(ConnectShape::store(connect, &mut store)?),
            &Packet::ConnAck(ConnAck { session_present, reason, properties }) => {
                Shape::ConnAck { session_present, reason, properties: store.properties(&properties, At::ConnAck)? }
            }
            &Packet::PubAck(PubAck { packet_id, reason, properties }) => {
                Shape::PubAck { packet_id, reason, properties: store.properties(&properties, At::PubAck)? }
            }
            &Packet::PubRec(PubRec { packet_id, reason, properties }) => {
                Shape::PubRec { packet_id, reason, properties: store.properties(&properties, At::PubRec)? }
            }
            &Packet::PubRel(PubRel { packet_id, reason, properties }) => {
                Shape::PubRel { packet_id, reason, properties: store.properties(&properties, At::PubRel)? }
            }
            &Packet::PubComp(PubComp { packet_id, reason, properties }) => {
                Shape::PubComp { packet_id, reason, properties: store.properties(&properties, At::PubComp)? }
            }
            Packet::Subscribe(Subscribe { packet_id, properties, requests }) => Shape::Subscribe {
                packet_id: *packet_id,
                properties: store.properties(properties, At::Subscribe)?,
                requests: store.list(requests),
            },
            Packet::SubAck(SubAck { packet_id, properties, reasons }) => Shape::SubAck {
                packet_id: *packet_id,
                properties: store.properties(properties, At::SubAck)?,
                reasons: store.list(reasons),
            },
            Packet::Unsubscribe(Unsubscribe { packet_id, properties, filters }) => Shape::Unsubscribe {
                packet_id: *packet_id,
                properties: store.properties(properties, At::Unsubscribe)?,
                filters: store.list(filters),
            },
            Packet::UnsubAck(UnsubAck { packet_id, properties, reasons }) => Shape::UnsubAck {
                packet_id: *packet_id,
                properties: store.properties(properties, At::UnsubAck)?,
                reasons: store.list(reasons),
            },
            Packet::PingReq => Shape::PingReq,
            Packet::PingResp => Shape::PingResp,
            &Packet::Disconnect(Disconnect { reason, properties }) => {
                Shape::Disconnect { reason, properties: store.properties(&properties, At::Disconnect)? }
            }
            &Packet::Auth(Auth { reason, properties }) => {
                Shape::Auth { reason, properties: store.properties(&properties, At::Auth)? }
            }
        };
        Ok(OwnedPacket { kind: Kind::Other { bytes: store.bytes.into_boxed_slice(), shape } })
    }
}

impl OwnedPacket {
    /// Borrows this packet as a [`Packet`].
    pub fn as_packet(&self) -> Packet<'_> {
        match &self.kind {
            Kind::Publish(publish) => Packet::Publish(publish.as_publish()),
            Kind::Other { bytes, shape } => shape.packet(bytes),
        }
    }

    /// The size of its heap memory in bytes.
    pub fn heap_bytes(&self) -> usize {
        match &self.kind {
            Kind::Publish(publish) => publish.heap_bytes(),
            Kind::Other { bytes, .. } => bytes.len(),
        }
    }
}

impl Shape {
    fn packet(self, bytes: &[u8]) -> Packet<'_> {
        use PropertyContext as At;
        match self {
            Self::Connect(connect) => Packet::Connect(connect.packet(bytes)),
            Self::ConnAck { session_present, reason, properties } => {
                Packet::ConnAck(ConnAck { session_present, reason, properties: properties.of(bytes, At::ConnAck) })
            }
            Self::PubAck { packet_id, reason, properties } => {
                Packet::PubAck(PubAck { packet_id, reason, properties: properties.of(bytes, At::PubAck) })
            }
            Self::PubRec { packet_id, reason, properties } => {
                Packet::PubRec(PubRec { packet_id, reason, properties: properties.of(bytes, At::PubRec) })
            }
            Self::PubRel { packet_id, reason, properties } => {
                Packet::PubRel(PubRel { packet_id, reason, properties: properties.of(bytes, At::PubRel) })
            }
            Self::PubComp { packet_id, reason, properties } => {
                Packet::PubComp(PubComp { packet_id, reason, properties: properties.of(bytes, At::PubComp) })
            }
            Self::Subscribe { packet_id, properties, requests } => Packet::Subscribe(Subscribe {
                packet_id,
                properties: properties.of(bytes, At::Subscribe),
                requests: requests.of(bytes),
            }),
            Self::SubAck { packet_id, properties, reasons } => Packet::SubAck(SubAck {
                packet_id,
                properties: properties.of(bytes, At::SubAck),
                reasons: reasons.of(bytes),
            }),
            Self::Unsubscribe { packet_id, properties, filters } => Packet::Unsubscribe(Unsubscribe {
                packet_id,
                properties: properties.of(bytes, At::Unsubscribe),
                filters: filters.of(bytes),
            }),
            Self::UnsubAck { packet_id, properties, reasons } => Packet::UnsubAck(UnsubAck {
                packet_id,
                properties: properties.of(bytes, At::UnsubAck),
                reasons: reasons.of(bytes),
            }),
            Self::PingReq => Packet::PingReq,
            Self::PingResp => Packet::PingResp,
            Self::Disconnect { reason, properties } => {
                Packet::Disconnect(Disconnect { reason, properties: properties.of(bytes, At::Disconnect) })
            }
            Self::Auth { reason, properties } => {
                Packet::Auth(Auth { reason, properties: properties.of(bytes, At::Auth) })
            }
        }
    }
}

impl ConnectShape {
    fn store(connect: &Connect<'_>, store: &mut Store) -> Result<Self, EncodeError> {
        Ok(Self {
            version: connect.version,
            clean_start: connect.clean_start,
            keep_alive_s: connect.keep_alive_s,
            client_id: store.bytes(connect.client_id.as_bytes()),
            will: match &connect.will {
                Some(will) => Some(WillShape {
                    topic: store.bytes(will.topic.as_str().as_bytes()),
                    payload: store.bytes(will.payload),
                    qos: will.qos,
                    retain: will.retain,
                    properties: store.properties(&will.properties, PropertyContext::Will)?,
                }),
                None => None,
            },
            user_name: connect.user_name.map(|user_name| store.bytes(user_name.as_bytes())),
            password: connect.password.map(|password| store.bytes(password)),
            properties: store.properties(&connect.properties, PropertyContext::Connect)?,
        })
    }

    fn packet(self, bytes: &[u8]) -> Connect<'_> {
        Connect {
            version: self.version,
            clean_start: self.clean_start,
            keep_alive_s: self.keep_alive_s,
            client_id: self.client_id.text(bytes),
            will: self.will.map(|will| Will {
                topic: TopicName::trusted(will.topic.text(bytes)),
                payload: will.payload.of(bytes),
                qos: will.qos,
                retain: will.retain,
                properties: will.properties.of(bytes, PropertyContext::Will),
            }),
            user_name: self.user_name.map(|user_name| user_name.text(bytes)),
            password: self.password.map(|password| password.of(bytes)),
            properties: self.properties.of(bytes, PropertyContext::Connect),
        }
    }
}

impl PartialEq for OwnedPacket {
    fn eq(&self, other: &Self) -> bool {
        self.as_packet() == other.as_packet()
    }
}

impl Eq for OwnedPacket {}

impl fmt::Debug for OwnedPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_packet().fmt(f)
    }
}
