//! The hash table from (parent, level) to child, which grows incrementally.
//!
//! One big table would rehash all of its entries at once when it grows: a stall of 100 ms at a million nodes. Here the table is divided
//! into segments, and when entries outnumber them one segment is split in two (linear hashing), so the longest insertion moves one segment,
//! whatever the size of the tree. When entries become few, the last segment is merged into the one that it was split from.

use hashbrown::HashTable;

/// Entries per segment that trigger the next split. A segment that waits for its split holds up to twice as many, and both counts fit
/// closely into power-of-two tables at their maximum load of 7/8.
const SEGMENT_ENTRIES: usize = 800;
/// Entries per segment below which the last segment is merged. Far below the split threshold, to avoid alternating splits and merges.
const SPARSE_ENTRIES: usize = SEGMENT_ENTRIES / 4;

#[derive(Debug, Clone)]
pub(super) struct Edges {
    /// Never empty.
    segments: Vec<HashTable<u32>>,
    len: usize,
}

impl Edges {
    pub(super) fn new() -> Self {
        Self { segments: vec![HashTable::new()], len: 0 }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        debug_assert_eq!(self.len, self.segments.iter().map(HashTable::len).sum::<usize>());
        self.len
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.segments.capacity() * size_of::<HashTable<u32>>()
            + self.segments.iter().map(HashTable::allocation_size).sum::<usize>()
    }

    #[inline]
    pub(super) fn find(&self, hash: u64, is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut is_it = is_it;
        self.segments[self.segment_of(hash)].find(hash, |&node| is_it(node)).copied()
    }

    /// Inserts `node` under its `hash`; `rehash` computes the hash of existing nodes.
    pub(super) fn insert(&mut self, hash: u64, node: u32, rehash: impl Fn(u32) -> u64) {
        if self.len >= self.segments.len() * SEGMENT_ENTRIES {
            self.split_next(&rehash);
        }
        let segment = self.segment_of(hash);
        self.segments[segment].insert_unique(hash, node, |&node| rehash(node));
        self.len += 1;
    }

    /// Removes `node`, which was inserted under `hash`; `rehash` computes the hash of the others.
    pub(super) fn remove(&mut self, hash: u64, node: u32, rehash: impl Fn(u32) -> u64) {
        let segment = self.segment_of(hash);
        if let Ok(entry) = self.segments[segment].find_entry(hash, |&other| other == node) {
            entry.remove();
            self.len -= 1;
            if self.len < (self.segments.len() - 1) * SPARSE_ENTRIES {
                self.merge_last(&rehash);
            }
        }
    }

    /// Moves half of the next segment to split into a new last segment.
    fn split_next(&mut self, rehash: &impl Fn(u32) -> u64) {
        let count = self.segments.len();
        let splitting = count - (count + 1).next_power_of_two() / 2;
        let old = core::mem::take(&mut self.segments[splitting]);
        self.segments.push(HashTable::with_capacity(old.len() / 2));
        self.segments[splitting] = HashTable::with_capacity(old.len() / 2);
        for node in old {
            let hash = rehash(node);
            let segment = self.segment_of(hash);
            self.segments[segment].insert_unique(hash, node, |&node| rehash(node));
        }
    }

    /// Merges the last segment into the one that it was split from, and frees spare memory.
    fn merge_last(&mut self, rehash: &impl Fn(u32) -> u64) {
        let Some(last) = self.segments.pop() else { return };
        let into = self.segments.len() - (self.segments.len() + 1).next_power_of_two() / 2;
        let merged = &mut self.segments[into];
        merged.shrink_to(merged.len() + last.len(), |&node| rehash(node));
        for node in last {
            merged.insert_unique(rehash(node), node, |&node| rehash(node));
        }
        self.segments.shrink_to(self.segments.len() * 2);
    }

    /// Segment n splits into n and n + 2ⁱ, so a hash whose segment does not exist yet is still in the one below it. Uses the middle bits of
    /// the hash: the table inside uses the lowest and the highest.
    #[inline]
    fn segment_of(&self, hash: u64) -> usize {
        let count = self.segments.len();
        let mask = count.next_power_of_two() - 1;
        let segment = (hash >> 32) as usize & mask;
        if segment < count { segment } else { segment & (mask >> 1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(node: u32) -> u64 {
        u64::from(node).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn entries_are_found_before_and_after_every_split() {
        let mut edges = Edges::new();
        let count = SEGMENT_ENTRIES as u32 * 9 + 7;
        for node in 0..count {
            edges.insert(hash(node), node, hash);
            assert_eq!(edges.find(hash(node), |other| other == node), Some(node));
        }
        assert_eq!(edges.segments.len(), 10);
        assert_eq!(edges.len(), count as usize);
        for node in 0..count {
            assert_eq!(edges.find(hash(node), |other| other == node), Some(node));
            edges.remove(hash(node), node, hash);
            assert_eq!(edges.find(hash(node), |other| other == node), None);
        }
        assert_eq!(edges.len(), 0);
        assert_eq!(edges.segments.len(), 1, "segments are merged when entries are removed");
    }

    #[test]
    fn remaining_entries_are_found_while_segments_are_removed() {
        let mut edges = Edges::new();
        let count = SEGMENT_ENTRIES as u32 * 21;
        let stays = |node: u32| node.is_multiple_of(97);
        for node in 0..count {
            edges.insert(hash(node), node, hash);
        }
        let full_bytes = edges.memory_bytes();
        for node in (0..count).filter(|&node| !stays(node)) {
            edges.remove(hash(node), node, hash);
        }
        for node in 0..count {
            assert_eq!(edges.find(hash(node), |other| other == node), stays(node).then_some(node));
        }
        assert!(edges.segments.len() <= 2 && edges.memory_bytes() < full_bytes / 5, "{}", edges.memory_bytes());
    }

    #[test]
    fn no_segment_is_much_larger_than_the_others() {
        let mut edges = Edges::new();
        for node in 0..200_000 {
            edges.insert(hash(node), node, hash);
        }
        let largest = edges.segments.iter().map(HashTable::len).max();
        assert!(largest < Some(SEGMENT_ENTRIES * 5 / 2), "{largest:?}");
    }
}
