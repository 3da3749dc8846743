//! Which change of the retained message of each topic is the last in a stretch of the log.

use std::cmp::Reverse;
use std::hash::{BuildHasher, RandomState};

use crate::mutant::{Mutant, is};

/// Changes are put in order whenever there are twice as many, and at first when there are so many.
const DEDUP_MIN: usize = 1 << 12;

/// The last change of each topic, in 24 bytes: a topic may have 65,535.
#[derive(Debug, Default)]
pub(crate) struct LastChanges {
    hashers: [RandomState; 2],
    /// In order up to `settled`, which have one of each topic.
    changes: Vec<Change>,
    settled: usize,
    last_sequence: u64,
}

#[derive(Debug, Clone, Copy)]
struct Change {
    /// 128 bits by two keys drawn at random, so that no two topics have the same.
    topic: [u64; 2],
    /// 0 where the snapshot before has a later one.
    sequence: u64,
}

impl LastChanges {
    /// The topic has been changed.
    pub(crate) fn add(&mut self, topic: &str, sequence: u64) {
        if self.changes.len() >= DEDUP_MIN.max(2 * self.settled) {
            self.dedup();
        }
        self.last_sequence = self.last_sequence.max(sequence);
        self.changes.push(Change { topic: self.hash(topic), sequence });
    }

    /// All have been noted.
    pub(crate) fn dedup(&mut self) {
        self.changes.sort_unstable_by_key(|change| (change.topic, Reverse(change.sequence)));
        if is(Mutant::MergeTakesFirstChange) {
            self.changes.sort_unstable_by_key(|change| (change.topic, change.sequence));
        }
        self.changes.dedup_by_key(|change| change.topic);
        self.settled = self.changes.len();
    }

    /// Bytes that they take.
    pub(crate) fn held_bytes(&self) -> usize {
        self.changes.capacity() * size_of::<Change>()
    }

    /// The number of the last change of all.
    pub(crate) fn last_sequence(&self) -> u64 {
        self.last_sequence
    }

    /// Whether this change, which is one of those noted, is the last of its topic.
    pub(crate) fn is_last(&mut self, topic: &str, sequence: u64) -> bool {
        self.last_of(topic).is_some_and(|last| last.sequence == sequence)
    }

    /// Whether the change, which the snapshot before has, is still the last of its topic. A change that has taken effect later may
    /// stand in the log before it.
    pub(crate) fn is_unchanged(&mut self, topic: &str, sequence: u64) -> bool {
        let Some(last) = self.last_of(topic) else { return !is(Mutant::MergeForgetsUnchanged) };
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
    fn the_last_change_of_a_topic_is_the_one_with_the_highest_number_wherever_it_stands() {
        let mut changes = LastChanges::default();
        for (topic, sequence) in [("a", 7), ("b", 5), ("a", 6), ("c", 9), ("b", 8)] {
            changes.add(topic, sequence);
        }
        changes.dedup();
        assert_eq!(changes.last_sequence(), 9);
        assert!(changes.is_last("a", 7) && !changes.is_last("a", 6));
        assert!(changes.is_last("b", 8) && !changes.is_last("b", 5));
        // What the snapshot before has.
        assert!(changes.is_unchanged("other", 1), "nothing has changed it");
        assert!(!changes.is_unchanged("a", 3), "it was replaced");
        assert!(changes.is_unchanged("c", 10) && !changes.is_last("c", 9), "the log says so late");
    }

    #[test]
    fn many_changes_of_few_topics_take_little() {
        let mut changes = LastChanges::default();
        for sequence in 1..=200_000 {
            changes.add(if sequence % 2 == 0 { "even" } else { "odd" }, sequence);
        }
        assert!(changes.changes.capacity() <= 2 * DEDUP_MIN, "{}", changes.changes.capacity());
        changes.dedup();
        assert!(changes.is_last("even", 200_000) && changes.is_last("odd", 199_999));
    }
}
