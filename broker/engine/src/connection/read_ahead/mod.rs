//! Packets behind a message that waits for memory or for the spill store.
//!
//! The client does not know that its PUBLISH waits. Its acknowledgements may be what frees memory, and its PINGREQ needs an answer, so
//! these packets are processed ahead of the message; all others keep their order.

mod steps;

use tautwire_protocol::PacketType;

/// Whether packets of this type may overtake a PUBLISH: the standard only orders acknowledgements among themselves [MQTT-4.6.0-2], and no
/// PUBLISH follows DISCONNECT.
pub(crate) fn can_overtake(packet_type: PacketType) -> bool {
    matches!(
        packet_type,
        PacketType::PubAck
            | PacketType::PubRec
            | PacketType::PubRel
            | PacketType::PubComp
            | PacketType::PingReq
            | PacketType::Disconnect
    )
}
