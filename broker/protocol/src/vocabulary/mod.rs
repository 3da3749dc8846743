//! The basic types of the standard: version, packet type, quality of service, identifiers.

mod identifiers;
mod packet_type;
mod qos;
mod version;

pub use identifiers::{PacketId, SubscriptionId};
pub use packet_type::PacketType;
pub use qos::QoS;
pub use version::ProtocolVersion;
