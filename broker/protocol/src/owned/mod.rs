//! Packets that outlive the buffer they came from.

mod packet;
mod publish;
mod spans;

pub use packet::OwnedPacket;
pub use publish::OwnedPublish;
