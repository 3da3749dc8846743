//! A slab of values in chunks that are allocated and freed: see [`Slab`].

use core::ops::{Index, IndexMut};
use std::collections::BTreeSet;

/// The index that means "none" wherever a `u32` index is stored.
pub(crate) const NONE: u32 = u32::MAX;

/// Slots per chunk. The first chunk of a slab grows up to this; later ones are allocated at full size.
const CHUNK: usize = 1 << CHUNK_BITS;
const CHUNK_BITS: u32 = 10;
/// An empty first chunk up to this many slots is kept for reuse.
const SMALL_SLAB_SLOTS: usize = 64;

/// Stores values under reusable `u32` indices. A value never moves, so growth has constant cost.
///
/// A vacant slot holds `T::default()`, so a value needs no tag. New values go into the lowest chunk with space, and a chunk without values
/// is freed, so a slab shrinks when most recent values have been removed.
#[derive(Debug, Clone)]
pub(crate) struct Slab<T> {
    /// A chunk that has been freed is empty; the last one never is.
    chunks: Vec<Vec<T>>,
    /// The vacant slots of each chunk.
    vacant: Vec<Vec<u16>>,
    /// Chunks that have a vacant slot or can grow.
    chunks_with_space: BTreeSet<u32>,
    len: usize,
}

impl<T: Default> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { chunks: Vec::new(), vacant: Vec::new(), chunks_with_space: BTreeSet::new(), len: 0 }
    }

    /// The number of values.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The number of slots, including vacant ones.
    pub(crate) fn slot_count(&self) -> usize {
        self.chunks.iter().map(Vec::len).sum()
    }

    /// Stores `value` and returns its index.
    ///
    /// # Panics
    /// Beyond 2³²-1 values, which needs over 30 GB in one slab: the limits on subscriptions and retained messages are far below.
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        let chunk = match self.chunks_with_space.first() {
            Some(&chunk) => chunk as usize,
            None => self.add_chunk(),
        };
        let slots = &mut self.chunks[chunk];
        let place = match self.vacant[chunk].pop() {
            Some(place) => {
                slots[usize::from(place)] = value;
                usize::from(place)
            }
            None => {
                if chunk > 0 && slots.capacity() == 0 {
                    slots.reserve_exact(CHUNK);
                }
                slots.push(value);
                slots.len() - 1
            }
        };
        if self.is_full(chunk) {
            self.chunks_with_space.remove(&(chunk as u32));
        }
        self.len += 1;
        (chunk << CHUNK_BITS | place) as u32
    }

    /// Removes the value and frees its slot.
    pub(crate) fn remove(&mut self, index: u32) -> T {
        let chunk = chunk_of(index);
        let value = core::mem::take(&mut self.chunks[chunk][offset_of(index)]);
        if self.is_full(chunk) {
            self.chunks_with_space.insert(chunk as u32);
        }
        self.vacant[chunk].push(offset_of(index) as u16);
        self.len -= 1;
        let slots = self.chunks[chunk].len();
        if self.vacant[chunk].len() == slots && (chunk > 0 || slots > SMALL_SLAB_SLOTS) {
            self.release(chunk);
        }
        value
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.chunks.get(chunk_of(index))?.get(offset_of(index))
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.chunks.get_mut(chunk_of(index))?.get_mut(offset_of(index))
    }

    /// All slots; vacant ones have their default.
    pub(crate) fn slots(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten()
    }

    /// Heap bytes of the slab itself, without memory that its values point to.
    pub(crate) fn memory_bytes(&self) -> usize {
        let chunks = self.chunks.iter().map(|chunk| chunk.capacity() * size_of::<T>()).sum::<usize>();
        let vacant = self.vacant.iter().map(|vacant| vacant.capacity() * size_of::<u16>()).sum::<usize>();
        let lists = self.chunks.capacity() * size_of::<Vec<T>>() + self.vacant.capacity() * size_of::<Vec<u16>>();
        chunks + vacant + lists + self.chunks_with_space.len() * size_of::<u32>()
    }

    fn is_full(&self, chunk: usize) -> bool {
        self.vacant[chunk].is_empty() && self.chunks[chunk].len() == CHUNK
    }

    fn add_chunk(&mut self) -> usize {
        let chunk = self.chunks.len();
        assert!(chunk < NONE as usize >> CHUNK_BITS, "a topic tree holds at most 2^32-1 nodes");
        self.chunks.push(Vec::new());
        self.vacant.push(Vec::new());
        self.chunks_with_space.insert(chunk as u32);
        chunk
    }

    /// Frees the memory of a chunk without values.
    fn release(&mut self, chunk: usize) {
        self.chunks[chunk] = Vec::new();
        self.vacant[chunk] = Vec::new();
        while self.chunks.last().is_some_and(Vec::is_empty) {
            self.chunks.pop();
            self.vacant.pop();
            self.chunks_with_space.remove(&(self.chunks.len() as u32));
        }
        self.chunks.shrink_to(self.chunks.len() * 2);
        self.vacant.shrink_to(self.vacant.len() * 2);
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: u32) -> &T {
        &self.chunks[chunk_of(index)][offset_of(index)]
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.chunks[chunk_of(index)][offset_of(index)]
    }
}

fn chunk_of(index: u32) -> usize {
    (index >> CHUNK_BITS) as usize
}

fn offset_of(index: u32) -> usize {
    index as usize & (CHUNK - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_slot_is_reused_without_its_value() {
        let mut slab = Slab::new();
        let first = slab.insert("a".to_string());
        let second = slab.insert("b".to_string());
        assert_eq!(slab.remove(first), "a");
        assert_eq!(slab.len(), 1);
        assert_eq!(slab[first], "");
        assert_eq!(slab.insert("c".to_string()), first);
        assert_eq!(slab[second], "b");
        assert_eq!(slab.slots().count(), 2);
    }

    #[test]
    fn values_keep_their_index_across_chunks() {
        let mut slab = Slab::new();
        let count = CHUNK as u32 * 2 + 1;
        for value in 0..count {
            assert_eq!(slab.insert(value), value);
        }
        slab[CHUNK as u32] = 7;
        assert_eq!(slab.len(), count as usize);
        assert_eq!(slab.get(CHUNK as u32), Some(&7));
        assert_eq!(slab.get(count), None);
        assert_eq!(slab.get(NONE), None);
        assert_eq!(slab.slots().copied().take(2).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn an_empty_chunk_is_freed_and_allocated_again() {
        let mut slab: Slab<u64> = Slab::new();
        let chunk = CHUNK as u32;
        for value in 0..4 * chunk {
            slab.insert(u64::from(value));
        }
        let full_bytes = slab.memory_bytes();
        for index in chunk..2 * chunk {
            assert_eq!(slab.remove(index), u64::from(index));
        }
        assert!(slab.memory_bytes() < full_bytes - 7 * CHUNK, "a chunk in the middle is freed");
        assert_eq!((slab.get(chunk), slab.get(2 * chunk)), (None, Some(&u64::from(2 * chunk))));
        assert_eq!(slab.insert(9), chunk, "the lowest chunk with room is used first");
        assert_eq!(slab.len(), 3 * CHUNK + 1);
        for index in (0..=chunk).chain(2 * chunk..4 * chunk).rev() {
            slab.remove(index);
        }
        assert_eq!((slab.len(), slab.slot_count()), (0, 0));
        assert!(slab.memory_bytes() < 256, "{}", slab.memory_bytes());
        assert_eq!(slab.insert(1), 0);
    }
}
