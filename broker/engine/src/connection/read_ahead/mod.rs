//! What a client has sent behind a message that waits for memory, or for others to leave it.
//!
//! A client whose PUBLISH waits is not told so. Its acknowledgements may be what frees memory, and its PINGREQ
//! wants an answer. So these are heard ahead of the message that waits; all else keeps its place.

mod steps;

use tautwire_protocol::PacketType;

/// Whether packets of this type may overtake a PUBLISH: the standard orders acknowledgements among themselves [MQTT-4.6.0-2],
/// and nothing that is published comes after DISCONNECT.
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
