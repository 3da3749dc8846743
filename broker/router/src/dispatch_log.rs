//! The last dispatched messages of each shared subscription, for queries of operators.

use std::hash::BuildHasher;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use foldhash::fast::RandomState;

use crate::ShardIndex;
use crate::session_key::SessionKey;

/// The number of messages that are stored per group.
pub const DISPATCHES_MAX: usize = 16;

/// A message of a group, and the member to which it was dispatched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dispatch {
    /// The member that was chosen.
    pub member: SessionKey,
    /// When, in milliseconds since the Unix epoch.
    pub at_ms: u64,
}

/// The last messages of a group. Any shard may record one at any time without waiting for another.
#[derive(Debug, Default)]
pub(crate) struct DispatchLog {
    /// Allocated by the first message, because most of very many groups may never have one.
    ring: OnceLock<Box<Ring>>,
}

#[derive(Debug, Default)]
struct Ring {
    hasher: RandomState,
    next: AtomicUsize,
    records: [Record; DISPATCHES_MAX],
}

/// Three words that are written one by one. A record that two shards have written at once, or that is half written, has a wrong checksum
/// and is ignored.
#[derive(Debug, Default)]
struct Record {
    /// The hash of the topic, XORed with the two others.
    check: AtomicU64,
    /// The member's index on its shard, and its generation.
    place: AtomicU64,
    /// The member's shard, and the time.
    shard_and_ms: AtomicU64,
}

/// A time in milliseconds takes this many bits until the year 2,000,000.
const MS_BITS: u32 = 56;

impl DispatchLog {
    pub(crate) fn record(&self, topic: &str, dispatch: Dispatch) {
        let ring = self.ring.get_or_init(Box::default);
        let record = &ring.records[ring.next.fetch_add(1, Ordering::Relaxed) % DISPATCHES_MAX];
        let (place, shard_and_ms) = dispatch.to_words();
        record.check.store(ring.hasher.hash_one(topic) ^ place ^ shard_and_ms, Ordering::Relaxed);
        record.place.store(place, Ordering::Relaxed);
        record.shard_and_ms.store(shard_and_ms, Ordering::Relaxed);
    }

    /// Returns the dispatches of a topic, the oldest first.
    pub(crate) fn for_topic(&self, topic: &str) -> Vec<Dispatch> {
        let Some(ring) = self.ring.get() else { return Vec::new() };
        let hash = ring.hasher.hash_one(topic);
        let mut log: Vec<Dispatch> = ring.records.iter().filter_map(|record| record.read(hash)).collect();
        log.sort_by_key(|dispatch| dispatch.at_ms);
        log
    }
}

impl Record {
    /// Returns the content, if it is for the topic with this hash.
    fn read(&self, hash: u64) -> Option<Dispatch> {
        let [check, place, shard_and_ms] =
            [&self.check, &self.place, &self.shard_and_ms].map(|word| word.load(Ordering::Relaxed));
        (shard_and_ms != 0 && check ^ place ^ shard_and_ms == hash).then(|| Dispatch::of_words(place, shard_and_ms))
    }
}

impl Dispatch {
    fn to_words(self) -> (u64, u64) {
        let Dispatch { member: SessionKey { shard, index, generation }, at_ms } = self;
        let ms = at_ms & ((1 << MS_BITS) - 1);
        (u64::from(index) << 32 | u64::from(generation), u64::from(shard.0) << MS_BITS | ms)
    }

    fn of_words(place: u64, shard_and_ms: u64) -> Dispatch {
        let shard = ShardIndex((shard_and_ms >> MS_BITS) as u8);
        let member = SessionKey { shard, index: (place >> 32) as u32, generation: place as u32 };
        Dispatch { member, at_ms: shard_and_ms & ((1 << MS_BITS) - 1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dispatch(index: u32, at_ms: u64) -> Dispatch {
        Dispatch { member: SessionKey { shard: ShardIndex(63), index, generation: u32::MAX - index }, at_ms }
    }

    #[test]
    fn the_last_dispatches_of_each_topic_are_reported() {
        let log = DispatchLog::default();
        assert!(log.for_topic("a").is_empty());
        for at_ms in 1..=3 {
            log.record("a", dispatch(at_ms as u32, at_ms));
            log.record("b", dispatch(u32::MAX, at_ms));
        }
        assert_eq!(log.for_topic("a"), [dispatch(1, 1), dispatch(2, 2), dispatch(3, 3)]);
        assert_eq!(log.for_topic("b"), [1, 2, 3].map(|at_ms| dispatch(u32::MAX, at_ms)));
        assert!(log.for_topic("c").is_empty());
        for at_ms in 4..4 + DISPATCHES_MAX as u64 {
            log.record("c", dispatch(0, at_ms));
        }
        assert!(log.for_topic("a").is_empty());
        assert_eq!(log.for_topic("c").len(), DISPATCHES_MAX);
    }

    /// Two shards write one record at the same time, or a shard reads it while it is written.
    #[test]
    fn a_record_of_two_messages_is_not_reported() {
        let (one, other) = (dispatch(1, 1).to_words(), dispatch(2, 2).to_words());
        for words in [(one.0, other.1), (other.0, one.1), other] {
            let log = DispatchLog::default();
            log.record("a", dispatch(1, 1));
            let record = &log.ring.get().expect("exists").records[0];
            record.place.store(words.0, Ordering::Relaxed);
            record.shard_and_ms.store(words.1, Ordering::Relaxed);
            assert!(log.for_topic("a").is_empty(), "{words:?}");
        }
    }
}
