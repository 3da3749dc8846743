//! The names of nodes, clients, partitions, keys and subjects in the cluster.

use std::fmt;
use std::hash::Hasher;
use std::num::NonZeroU64;

use sip128::Hasher128;
use siphasher::{sip, sip128};

/// The number of partitions of the log. Part of the format: a topic's messages stay in one partition, in order.
pub const PARTITIONS: u8 = 16;

/// A random secret, drawn when the cluster is created, and the same on all nodes forever. Without it, no one can choose topics that fall
/// into one partition, or two Client Identifiers with the same key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub [u8; 16]);

impl Seed {
    /// Returns the partition of a topic's messages.
    pub fn partition(self, topic: &str) -> Partition {
        let mut hasher = sip::SipHasher13::new_with_key(&self.0);
        hasher.write(topic.as_bytes());
        Partition((hasher.finish() % u64::from(PARTITIONS)) as u8)
    }

    /// Returns the key of a client.
    pub fn client(self, client_id: &str) -> ClientKey {
        ClientKey(self.digest(client_id.as_bytes()))
    }

    /// Returns the key of a group, which is all members of the shared subscription `$share/name/filter`.
    pub fn group(self, share: &str) -> GroupKey {
        GroupKey(self.digest(share.as_bytes()))
    }

    pub(crate) fn digest(self, bytes: &[u8]) -> u128 {
        let mut hasher = sip128::SipHasher13::new_with_key(&self.0);
        hasher.write(bytes);
        hasher.finish128().as_u128()
    }
}

impl fmt::Debug for Seed {
    /// Omits the seed, which is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed")
    }
}

/// A partition of the log, below [`PARTITIONS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition(u8);

impl Partition {
    /// Iterates over all partitions.
    pub fn all() -> impl Iterator<Item = Partition> {
        (0..PARTITIONS).map(Partition)
    }

    /// Returns the partition with this number, if it exists.
    pub fn new(number: u8) -> Option<Partition> {
        (number < PARTITIONS).then_some(Partition(number))
    }

    /// Returns its number, from 0.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}", self.0)
    }
}

/// One run of a node, from start to end: a random number drawn at the start. A node that was declared dead never returns with the same
/// number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub NonZeroU64);

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The key of a Client Identifier. The record behind it contains the identifier itself, which is compared.
///
/// It is packed because each node has several tables with one per session: alignment would waste up to 15 bytes in each row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(Rust, packed)]
pub struct ClientKey(pub u128);

impl fmt::Display for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&digest_text(self.0))
    }
}

impl ClientKey {
    /// Parses a key.
    pub fn of_text(text: &str) -> Option<ClientKey> {
        digest_of(text).map(ClientKey)
    }
}

/// The key of a shared subscription. The record behind it contains the subscription itself, which is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKey(pub u128);

impl fmt::Display for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&digest_text(self.0))
    }
}

impl GroupKey {
    /// Parses a key.
    pub fn of_text(text: &str) -> Option<GroupKey> {
        digest_of(text).map(GroupKey)
    }
}

/// A key of the store, formatted as bucket, dot, and key in the bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// The record of an incarnation of a node.
    Node(Incarnation),
    /// The record of a session.
    Session(ClientKey),
    /// The record of a group.
    Group(GroupKey),
    /// The shared configuration.
    Config,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Node(incarnation) => write!(f, "tw_node.{incarnation}"),
            Key::Session(client) => write!(f, "tw_session.{client}"),
            Key::Group(group) => write!(f, "tw_group.{group}"),
            Key::Config => f.write_str("tw_config.current"),
        }
    }
}

/// The subject on which an incarnation of a node writes to one partition of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogSubject {
    /// The partition.
    pub partition: Partition,
    /// The writer.
    pub writer: Incarnation,
}

impl fmt::Display for LogSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tw.m.{}.{}", self.partition, self.writer)
    }
}

/// Base 32 digits in lower case (RFC 4648 section 6).
const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
const DIGEST_DIGITS: usize = 26;

/// Formats 128 bits as 26 digits, the highest first.
pub(crate) fn digest_text(digest: u128) -> String {
    (0..DIGEST_DIGITS).rev().map(|at| char::from(DIGITS[(digest >> (5 * at) & 31) as usize])).collect()
}

pub(crate) fn digest_of(text: &str) -> Option<u128> {
    let value = |digit: u8| DIGITS.iter().position(|known| *known == digit).map(|at| at as u128);
    let digest = text.bytes().try_fold(0u128, |digest, digit| Some(digest << 5 | value(digit)?))?;
    (digest_text(digest) == text).then_some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: Seed = Seed([1; 16]);

    /// Names are part of the format.
    #[test]
    fn names_are_stable() {
        let node = Incarnation(NonZeroU64::new(0x9f).expect("not 0"));
        assert_eq!(Key::Node(node).to_string(), "tw_node.000000000000009f");
        assert_eq!(SEED.partition("a/b").to_string(), "10");
        assert_eq!(Key::Session(SEED.client("c")).to_string(), "tw_session.bff4tg7y3wkycdqugtkwpx7tyu");
        assert_eq!(Key::Group(SEED.group("$share/g/#")).to_string(), "tw_group.csinfakqzfxzssfg2rcuzjmfmj");
        let subject = LogSubject { partition: SEED.partition("a/b"), writer: node };
        assert_eq!(subject.to_string(), "tw.m.10.000000000000009f");
    }

    #[test]
    fn digests_are_readable() {
        for digest in [0, 1, u128::MAX, 1 << 127] {
            assert_eq!(digest_of(&digest_text(digest)), Some(digest));
        }
        for text in
            ["", "a", "777777777777777777777777777", "9aaaaaaaaaaaaaaaaaaaaaaaaa", "7aaaaaaaaaaaaaaaaaaaaaaaaaa"]
        {
            assert_eq!(digest_of(text), None, "{text}");
        }
    }

    #[test]
    fn topics_are_distributed_over_all_partitions() {
        let mut counts = [0; PARTITIONS as usize];
        (0..16_000).for_each(|n| counts[SEED.partition(&format!("site/{n}/temperature")).index()] += 1);
        assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
    }
}
