//! Finds the last change of each topic's retained message in a part of the log.

use std::cmp::Reverse;
use std::hash::{BuildHasher, RandomState};

use crate::mutant::{Mutant, is};

/// Changes are deduplicated at this size at first, and then whenever their number has doubled.
const DEDUP_MIN: usize = 1 << 12;

/// The last change of each topic, in 24 bytes each. A topic may have 65,535 bytes.
#[derive(Debug, Default)]
pub(crate) struct LastChanges {
    hashers: [RandomState; 2],
    /// Sorted up to `sorted_len`, with one change per topic.
    changes: Vec<Change>,
    sorted_len: usize,
    last_sequence: u64,
}

#[derive(Debug, Clone, Copy)]
struct Change {
    /// A hash of 128 bits with two random keys, so that topics do not collide.
    topic: [u64; 2],
    /// 0 if the previous snapshot has a later change.
    sequence: u64,
}

impl LastChanges {
    /// Adds a change of the topic.
    pub(crate) fn add(&mut self, topic: &str, sequence: u64) {
        if self.changes.len() >= DEDUP_MIN.max(2 * self.sorted_len) {
            self.dedup();
        }
        self.last_sequence = self.last_sequence.max(sequence);
        self.changes.push(Change { topic: self.hash(topic), sequence });
    }

    /// Sorts the changes and keeps the last one of each topic. Call after the last [`LastChanges::add`].
    pub(crate) fn dedup(&mut self) {
        self.changes.sort_unstable_by_key(|change| (change.topic, Reverse(change.sequence)));
        if is(Mutant::MergeUsesFirstChange) {
            self.changes.sort_unstable_by_key(|change| (change.topic, change.sequence));
        }
        self.changes.dedup_by_key(|change| change.topic);
        self.sorted_len = self.changes.len();
    }

    /// Returns the bytes of memory that the changes take.
    pub(crate) fn held_bytes(&self) -> usize {
        self.changes.capacity() * size_of::<Change>()
    }

    /// Returns the highest sequence number of all changes.
    pub(crate) fn last_sequence(&self) -> u64 {
        self.last_sequence
    }

    /// Whether this change, which must have been added, is the last of its topic.
    pub(crate) fn is_last(&mut self, topic: &str, sequence: u64) -> bool {
        self.last_of(topic).is_some_and(|last| last.sequence == sequence)
    }

    /// Whether a change in the previous snapshot is still the last of its topic. A change that took effect later may precede it in the log.
    pub(crate) fn is_unchanged(&mut self, topic: &str, sequence: u64) -> bool {
        let Some(last) = self.last_of(topic) else { return !is(Mutant::MergeDropsUnchanged) };
        if last.sequence > sequence && !is(Mutant::MergeKeepsReplaced) {
            return false;
        }
        last.sequence = 0;
        true
    }

    fn last_of(&mut self, topic: &str) -> Option<&mut Change> {
        let hash = self.hash(topic);
        let at = self.changes.binary_search_by_key(&hash, |change| change.topic).ok()?;
        self.changes.get_mut(at)
    }

    fn hash(&self, topic: &str) -> [u64; 2] {
        [self.hashers[0].hash_one(topic), self.hashers[1].hash_one(topic)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_change_of_a_topic_has_the_highest_number() {
        let mut changes = LastChanges::default();
        for (topic, sequence) in [("a", 7), ("b", 5), ("a", 6), ("c", 9), ("b", 8)] {
            changes.add(topic, sequence);
        }
        changes.dedup();
        assert_eq!(changes.last_sequence(), 9);
        assert!(changes.is_last("a", 7) && !changes.is_last("a", 6));
        assert!(changes.is_last("b", 8) && !changes.is_last("b", 5));
        // These changes are in the previous snapshot.
        assert!(changes.is_unchanged("other", 1), "nothing has changed it");
        assert!(!changes.is_unchanged("a", 3), "it was replaced");
        assert!(changes.is_unchanged("c", 10) && !changes.is_last("c", 9), "the log has it late");
    }

    #[test]
    fn many_changes_of_few_topics_use_little_memory() {
        let mut changes = LastChanges::default();
        for sequence in 1..=200_000 {
            changes.add(if sequence % 2 == 0 { "even" } else { "odd" }, sequence);
        }
        assert!(changes.changes.capacity() <= 2 * DEDUP_MIN, "{}", changes.changes.capacity());
        changes.dedup();
        assert!(changes.is_last("even", 200_000) && changes.is_last("odd", 199_999));
    }
}
