//! A message in a group: its publisher and its stored form.

use std::num::NonZeroU16;

use crate::bytes::{Reader, Writer};
use crate::names::ClientKey;

/// The publisher of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Publisher {
    /// The client, for No Local [MQTT-3.8.3-3].
    pub client: ClientKey,
    /// The claim of the session.
    pub epoch: u64,
    /// The Packet Identifier of a QoS 2 message.
    pub packet_id: Option<NonZeroU16>,
}

impl Publisher {
    /// An operator. No session has this key or this epoch.
    pub const OPERATOR: Publisher = Publisher { client: ClientKey(0), epoch: 0, packet_id: None };

    const BYTES: usize = 16 + 8 + 2;

    /// Encodes the block of a message: its publisher and its stored form.
    pub fn sign(&self, stored: &[u8]) -> Vec<u8> {
        let mut writer = Writer(Vec::with_capacity(Publisher::BYTES + stored.len()));
        writer.0.extend_from_slice(&self.client.0.to_le_bytes());
        writer.u64(self.epoch).u16(self.packet_id.map_or(0, NonZeroU16::get));
        writer.0.extend_from_slice(stored);
        writer.0
    }

    /// Splits a block that [`sign`](Publisher::sign) has encoded; `None` if it is too short.
    pub fn split(block: &[u8]) -> Option<(Publisher, &[u8])> {
        let (head, stored) = block.split_at_checked(Publisher::BYTES)?;
        let mut reader = Reader::new(head);
        let client = ClientKey(u128::from_le_bytes(reader.bytes(16)?.try_into().ok()?));
        let publisher = Publisher { client, epoch: reader.u64()?, packet_id: NonZeroU16::new(reader.u16()?) };
        Some((publisher, stored))
    }
}
