//! What the cluster calls its nodes, clients, partitions, keys and subjects.

use std::fmt;
use std::hash::Hasher;
use std::num::NonZeroU64;

use sip128::Hasher128;
use siphasher::{sip, sip128};

/// Partitions of the log. The number is part of the format: a topic's messages stay in one partition, in order.
pub const PARTITIONS: u8 = 16;

/// Drawn at random when the cluster is made, and the same on all nodes for ever: without it nobody can choose topics that fall into one
/// partition, or two Client Identifiers with one key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub [u8; 16]);

impl Seed {
    /// Where messages of a topic go.
    pub fn partition(self, topic: &str) -> Partition {
        let mut hasher = sip::SipHasher13::new_with_key(&self.0);
        hasher.write(topic.as_bytes());
        Partition((hasher.finish() % u64::from(PARTITIONS)) as u8)
    }

    /// The key of a client.
    pub fn client(self, client_id: &str) -> ClientKey {
        ClientKey(self.digest(client_id.as_bytes()))
    }

    /// The key of a group, which is all that share the subscription `$share/name/filter`.
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
    /// Without the seed, which is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed")
    }
}

/// A partition of the log, below [`PARTITIONS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition(u8);

impl Partition {
    /// All there are.
    pub fn all() -> impl Iterator<Item = Partition> {
        (0..PARTITIONS).map(Partition)
    }

    /// The partition with this number, if there is one.
    pub fn new(number: u8) -> Option<Partition> {
        (number < PARTITIONS).then_some(Partition(number))
    }

    /// Its number, from 0.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}", self.0)
    }
}

/// One life of a node, from its start to its end: a number drawn at random at the start. Whoever is taken for dead never comes back under
/// the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub NonZeroU64);

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Stands for a Client Identifier. The record behind it has the identifier itself, which is compared.
///
/// It is packed, since each node has it for each session, in several tables: aligned, 15 bytes beside it in a row would be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(Rust, packed)]
pub struct ClientKey(pub u128);

impl fmt::Display for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&digest_text(self.0))
    }
}

impl ClientKey {
    /// The key that is written so.
    pub fn of_text(text: &str) -> Option<ClientKey> {
        digest_of(text).map(ClientKey)
    }
}

/// Stands for a shared subscription. The record behind it has the subscription itself, which is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKey(pub u128);

impl fmt::Display for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&digest_text(self.0))
    }
}

impl GroupKey {
    /// The key that is written so.
    pub fn of_text(text: &str) -> Option<GroupKey> {
        digest_of(text).map(GroupKey)
    }
}

/// A key of the store. It is written as bucket, point, and key in the bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// The record of a node's life.
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

/// Where in the log one life of a node writes what goes to one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogSubject {
    /// The partition.
    pub partition: Partition,
    /// Whose.
    pub writer: Incarnation,
}

impl fmt::Display for LogSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tw.m.{}.{}", self.partition, self.writer)
    }
}

/// Digits of base 32, in lower case (RFC 4648 section 6).
const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
const DIGEST_DIGITS: usize = 26;

/// 128 bits in 26 digits, the highest first.
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

    /// Names are part of the format: whoever changes one of these changes the format.
    #[test]
    fn names_stay_what_they_are() {
        let node = Incarnation(NonZeroU64::new(0x9f).expect("not 0"));
        assert_eq!(Key::Node(node).to_string(), "tw_node.000000000000009f");
        assert_eq!(SEED.partition("a/b").to_string(), "10");
        assert_eq!(Key::Session(SEED.client("c")).to_string(), "tw_session.bff4tg7y3wkycdqugtkwpx7tyu");
        assert_eq!(Key::Group(SEED.group("$share/g/#")).to_string(), "tw_group.csinfakqzfxzssfg2rcuzjmfmj");
        let subject = LogSubject { partition: SEED.partition("a/b"), writer: node };
        assert_eq!(subject.to_string(), "tw.m.10.000000000000009f");
    }

    #[test]
    fn digests_can_be_read() {
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
    fn topics_fall_into_all_partitions() {
        let mut counts = [0; PARTITIONS as usize];
        (0..16_000).for_each(|n| counts[SEED.partition(&format!("site/{n}/temperature")).index()] += 1);
        assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
    }
}
