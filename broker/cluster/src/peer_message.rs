//! The messages of nodes about sessions.

use std::num::NonZeroU64;

use crate::bytes::{Reader, Writer};
use crate::names::{ClientKey, Incarnation};
use crate::record::VERSION;

const RELEASE: u8 = 1;
const RELEASED: u8 = 2;

/// A message from node to node. It may be lost, delayed or duplicated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerMessage {
    /// The sender.
    pub from: Incarnation,
    /// The client whose session it is about.
    pub client: ClientKey,
    /// The number of the owner's claim.
    pub claim: u64,
    /// The content.
    pub kind: PeerMessageKind,
}

/// The content of a [`PeerMessage`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerMessageKind {
    /// The client has connected to the sender, and the receiver owns the session.
    Release,
    /// The sender does not serve the client with this claim or an earlier one, and never will.
    Released,
}

impl PeerMessage {
    /// Encodes the message.
    pub fn encode(&self) -> Vec<u8> {
        let kind = match self.kind {
            PeerMessageKind::Release => RELEASE,
            PeerMessageKind::Released => RELEASED,
        };
        let mut writer = Writer::default();
        writer.u8(VERSION).u8(kind).u64(self.from.0.get());
        writer.0.extend_from_slice(&self.client.0.to_le_bytes());
        writer.u64(self.claim);
        writer.0
    }

    /// Decodes a message, or returns `None` if it is not of this version. It then counts as lost.
    pub fn decode(bytes: &[u8]) -> Option<PeerMessage> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != VERSION {
            return None;
        }
        let kind = match reader.u8()? {
            RELEASE => PeerMessageKind::Release,
            RELEASED => PeerMessageKind::Released,
            _ => return None,
        };
        let from = Incarnation(NonZeroU64::new(reader.u64()?)?);
        let client = ClientKey(u128::from_le_bytes(reader.bytes(16)?.try_into().ok()?));
        let message = PeerMessage { from, client, claim: reader.u64()?, kind };
        reader.is_at_end().then_some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_round_trip_and_other_bytes_are_refused() {
        let from = Incarnation(NonZeroU64::new(1).expect("not 0"));
        for kind in [PeerMessageKind::Release, PeerMessageKind::Released] {
            let message = PeerMessage { from, client: ClientKey(2), claim: 3, kind };
            let bytes = message.encode();
            assert_eq!(PeerMessage::decode(&bytes), Some(message));
            assert!((0..bytes.len()).all(|length| PeerMessage::decode(&bytes[..length]).is_none()));
            assert_eq!(PeerMessage::decode(&[&bytes[..], &[0]].concat()), None);
        }
    }

    /// The bytes are part of the format: a change requires a change of [`VERSION`].
    #[test]
    fn the_encoding_is_stable() {
        let (from, client) = (Incarnation(NonZeroU64::new(1).expect("not 0")), ClientKey(2));
        for (kind, number) in [(PeerMessageKind::Release, 1), (PeerMessageKind::Released, 2)] {
            let head = [1, number, 1, 0, 0, 0, 0, 0, 0, 0];
            let expected = [&head[..], &2_u128.to_le_bytes(), &3_u64.to_le_bytes()].concat();
            assert_eq!(PeerMessage { from, client, claim: 3, kind }.encode(), expected);
        }
    }
}
