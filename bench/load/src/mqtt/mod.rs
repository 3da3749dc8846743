//! The minimal MQTT of a generator: control packets from the shared codec, publishes that are encoded once and patched,
//! and incoming frames that are parsed only up to the fixed header and the packet id.

mod encode;
mod packet_ids;
mod payload;
mod publishes;
mod reading;
mod scan;
mod stamp;

pub(crate) use encode::{KEEP_ALIVE_S, connect, connect_persistent, disconnect, subscribe};
pub(crate) use packet_ids::PacketIds;
pub(crate) use payload::{PayloadForm, SMALLEST_PAYLOAD_BYTES};
pub(crate) use publishes::Publishes;
pub(crate) use reading::{READING_PROTO, ReadingFormat, contracts_manifest};
pub(crate) use scan::{Frame, Frames, Incoming, ack};
pub(crate) use stamp::PayloadStamp;
pub(crate) use tautwire_protocol::{PacketId, ProtocolVersion, QoS};
