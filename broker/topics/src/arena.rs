//! An array that grows without moving: growth costs the same whatever the size, and leaves no large gap of room unused.

use core::ops::{Index, IndexMut};

/// Index that stands for "nothing" wherever a `u32` index is stored.
pub(crate) const NONE: u32 = u32::MAX;

/// Elements per chunk. The first chunk of an arena grows up to this; later ones are allocated whole.
const CHUNK: usize = 1 << CHUNK_BITS;
const CHUNK_BITS: u32 = 10;

#[derive(Debug, Clone)]
pub(crate) struct Arena<T> {
    /// All but the last are full.
    chunks: Vec<Vec<T>>,
}

impl<T> Arena<T> {
    pub(crate) const fn new() -> Self {
        Self { chunks: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        match self.chunks.split_last() {
            None => 0,
            Some((last, full)) => full.len() * CHUNK + last.len(),
        }
    }

    /// Appends `element` and returns its index.
    ///
    /// # Panics
    /// Past 2³²-1 elements, which needs over 30 GB in one arena: the limits on subscriptions and retained messages end
    /// far below.
    pub(crate) fn push(&mut self, element: T) -> u32 {
        let index = self.len();
        assert!(index < NONE as usize, "a topic tree holds at most 2^32-1 nodes");
        match self.chunks.last_mut().filter(|last| last.len() < CHUNK) {
            Some(last) => last.push(element),
            None => {
                let mut chunk = Vec::with_capacity(if index == 0 { 1 } else { CHUNK });
                chunk.push(element);
                self.chunks.push(chunk);
            }
        }
        index as u32
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.chunks.get(chunk_of(index))?.get(place_of(index))
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.chunks.get_mut(chunk_of(index))?.get_mut(place_of(index))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten()
    }

    /// Heap bytes, without what elements point to.
    pub(crate) fn memory_bytes(&self) -> usize {
        let chunks = self.chunks.iter().map(|chunk| chunk.capacity() * size_of::<T>()).sum::<usize>();
        chunks + self.chunks.capacity() * size_of::<Vec<T>>()
    }
}

impl<T> Index<u32> for Arena<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: u32) -> &T {
        &self.chunks[chunk_of(index)][place_of(index)]
    }
}

impl<T> IndexMut<u32> for Arena<T> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.chunks[chunk_of(index)][place_of(index)]
    }
}

fn chunk_of(index: u32) -> usize {
    (index >> CHUNK_BITS) as usize
}

fn place_of(index: u32) -> usize {
    index as usize & (CHUNK - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_keep_their_index_across_chunks() {
        let mut arena = Arena::new();
        let count = CHUNK as u32 * 2 + 1;
        for value in 0..count {
            assert_eq!(arena.push(value), value);
        }
        arena[CHUNK as u32] = 7;
        assert_eq!(arena.len(), count as usize);
        assert_eq!(arena.get(CHUNK as u32), Some(&7));
        assert_eq!(arena.get(count), None);
        assert_eq!(arena.get(NONE), None);
        assert_eq!(arena.iter().copied().take(2).collect::<Vec<_>>(), [0, 1]);
    }
}
