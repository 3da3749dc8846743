//! The identity of a message, which survives redelivery: decision 0049.

use std::collections::HashMap;

use ring::digest::{Context, SHA256};
use tautwire_client::{Message, QoS};

use crate::config::RECEIVE_MAXIMUM_MAX;

/// The number of identities that a target keeps: at least as many as messages can be unacknowledged.
pub(crate) const IDENTITIES_MAX: u64 = RECEIVE_MAXIMUM_MAX as u64;

/// A Packet Identifier with a fingerprint of the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    pub(crate) packet_id: u16,
    pub(crate) fingerprint: u64,
}

impl Identity {
    /// The bytes of an encoded identity.
    pub(crate) const LEN: usize = 10;

    /// The identity of a QoS 1 or 2 message.
    pub(crate) fn of(message: &Message) -> Option<Identity> {
        let packet_id = message.packet_id()?.get();
        Some(Identity { packet_id, fingerprint: fingerprint(message.qos(), message.topic(), message.payload()) })
    }

    /// Appends the stored form.
    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        out.extend(self.packet_id.to_be_bytes());
        out.extend(self.fingerprint.to_be_bytes());
    }

    /// Reads a stored form. Bytes after the last complete identity are ignored.
    pub(crate) fn decode_all(bytes: &[u8]) -> impl Iterator<Item = Identity> + '_ {
        bytes.chunks_exact(Identity::LEN).filter_map(|bytes| {
            let (packet_id, fingerprint) = bytes.split_first_chunk()?;
            Some(Identity {
                packet_id: u16::from_be_bytes(*packet_id),
                fingerprint: u64::from_be_bytes(fingerprint.try_into().ok()?),
            })
        })
    }
}

/// The first 64 bits of SHA-256. It is stored, so it must be the same in all versions.
fn fingerprint(qos: QoS, topic: &str, payload: &[u8]) -> u64 {
    let mut context = Context::new(&SHA256);
    context.update(&[qos as u8]);
    context.update(&(topic.len() as u64).to_be_bytes());
    context.update(topic.as_bytes());
    context.update(payload);
    context.finish().as_ref().first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// The identities of the last messages that the target has.
#[derive(Debug, Default)]
pub(crate) struct StoredIdentities {
    /// Fingerprints with their number, by Packet Identifier.
    by_packet_id: HashMap<u16, (u64, u64)>,
    count: u64,
}

impl StoredIdentities {
    /// Adds the next identity. It replaces an earlier one with the same Packet Identifier.
    pub(crate) fn insert(&mut self, identity: Identity) {
        self.by_packet_id.insert(identity.packet_id, (identity.fingerprint, self.count));
        self.count += 1;
    }

    /// Whether the identity is one of the last [`IDENTITIES_MAX`].
    pub(crate) fn contains(&self, identity: Identity) -> bool {
        self.by_packet_id.get(&identity.packet_id).is_some_and(|(fingerprint, number)| {
            *fingerprint == identity.fingerprint && self.count - number <= IDENTITIES_MAX
        })
    }

    /// The session has ended: its identifiers are void.
    pub(crate) fn clear(&mut self) {
        self.by_packet_id.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(packet_id: u16, fingerprint: u64) -> Identity {
        Identity { packet_id, fingerprint }
    }

    #[test]
    fn an_identity_is_known_as_long_as_its_message_can_be_unacknowledged() {
        let mut stored = StoredIdentities::default();
        stored.insert(identity(1, 7));
        for number in 2..=IDENTITIES_MAX as u16 {
            stored.insert(identity(number, 7));
            assert!(stored.contains(identity(1, 7)));
        }
        stored.insert(identity(60_000, 7));
        assert!(!stored.contains(identity(1, 7)));
        assert!(stored.contains(identity(2, 7)));
    }

    #[test]
    fn another_message_with_the_same_packet_identifier_is_another_message() {
        let mut stored = StoredIdentities::default();
        stored.insert(identity(1, 7));
        assert!(!stored.contains(identity(1, 8)));
        stored.insert(identity(1, 8));
        assert!(stored.contains(identity(1, 8)) && !stored.contains(identity(1, 7)));
    }

    #[test]
    fn the_stored_form_is_stable() {
        let mut bytes = Vec::new();
        identity(0x0102, 0x0304_0506_0708_090a).encode(&mut bytes);
        assert_eq!(bytes, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        assert_eq!(Identity::decode_all(&bytes).collect::<Vec<_>>(), [identity(0x0102, 0x0304_0506_0708_090a)]);
        // printf '\x02\0\0\0\0\0\0\0\x03a/b21.5' | sha256sum
        assert_eq!(fingerprint(QoS::ExactlyOnce, "a/b", b"21.5"), 0x6aa1a289ad70d729);
    }
}
