//! The fifteen control packets (section 3). The same structs are decoded and encoded.

mod acknowledgements;
mod auth;
mod connack;
mod connect;
mod disconnect;
mod filter_list;
mod hidden;
mod packet;
mod publish;
mod suback;
mod subscribe;
mod unsuback;
mod unsubscribe;

pub use acknowledgements::{PubAck, PubComp, PubRec, PubRel};
pub use auth::Auth;
pub use connack::ConnAck;
pub use connect::{Connect, Will};
pub use disconnect::Disconnect;
pub use packet::Packet;
pub use publish::{Delivery, Publish};
pub use suback::SubAck;
pub use subscribe::{RetainHandling, Subscribe, SubscriptionOptions, SubscriptionRequest};
pub use unsuback::UnsubAck;
pub use unsubscribe::Unsubscribe;

use crate::error::DecodeCause;
use crate::{PacketType, ProtocolVersion};

/// For each packet type, a bit for each allowed value of the lower four bits of the first byte.
const ALLOWED_FLAGS: [u16; 16] = {
    let mut allowed = [0; 16];
    let mut at = 0;
    while at < PacketType::ALL.len() {
        let packet_type = PacketType::ALL[at];
        allowed[packet_type as usize] = match packet_type {
            PacketType::Publish => publish::ALLOWED_FLAGS,
            _ => 1 << packet_type.required_flags(),
        };
        at += 1;
    }
    allowed
};

/// Checks the lower four bits of the first byte `[MQTT-2.1.3-1]`.
#[inline]
pub(crate) fn check_flags(packet_type: PacketType, flags: u8, version: ProtocolVersion) -> Result<(), DecodeCause> {
    if ALLOWED_FLAGS[packet_type as usize] >> (flags & 0x0F) & 1 != 0
        || (version == ProtocolVersion::V3_1 && is_sent_again(packet_type, flags))
    {
        Ok(())
    } else {
        Err(flags_fault(packet_type, flags))
    }
}

/// Whether these are the flags of a packet that an MQTT 3.1 sender retransmits: DUP with QoS 1 (sections 2.1, 3.6, 3.8 and 3.10 of MQTT
/// 3.1). Later versions reserve that bit on all packets but PUBLISH.
const fn is_sent_again(packet_type: PacketType, flags: u8) -> bool {
    matches!(packet_type, PacketType::PubRel | PacketType::Subscribe | PacketType::Unsubscribe) && flags == 0b1010
}

#[cold]
fn flags_fault(packet_type: PacketType, flags: u8) -> DecodeCause {
    match packet_type {
        PacketType::Publish => publish::flags_fault(flags),
        _ => DecodeCause::FlagsReserved,
    }
}
