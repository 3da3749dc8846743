//! Packets that outlive the buffer they were decoded from.

mod packet;
mod publish;
mod spans;

pub use packet::OwnedPacket;
pub use publish::OwnedPublish;
