//! Values kept under small integers, so that a tree node pays four bytes for a value it rarely has.

use crate::arena::Arena;

/// Keeps values under reusable `u32` indices. A vacant slot holds `T::default()`, so a value needs no tag beside it.
#[derive(Debug, Clone)]
pub(crate) struct Slab<T> {
    slots: Arena<T>,
    vacant: Vec<u32>,
}

impl<T: Default> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { slots: Arena::new(), vacant: Vec::new() }
    }

    pub(crate) fn insert(&mut self, value: T) -> u32 {
        if let Some(index) = self.vacant.pop() {
            self.slots[index] = value;
            return index;
        }
        self.slots.push(value)
    }

    /// Takes the value out and frees its slot.
    pub(crate) fn remove(&mut self, index: u32) -> T {
        self.vacant.push(index);
        core::mem::take(&mut self.slots[index])
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> &T {
        &self.slots[index]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> &mut T {
        &mut self.slots[index]
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    /// All slots; vacant ones show their default.
    pub(crate) fn slots(&self) -> impl Iterator<Item = &T> {
        self.slots.iter()
    }

    /// Heap bytes of the slab itself, without what its values point to.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.slots.memory_bytes() + self.vacant.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_slot_is_used_again_and_its_value_is_gone() {
        let mut slab = Slab::new();
        let first = slab.insert("a".to_string());
        let second = slab.insert("b".to_string());
        assert_eq!(slab.remove(first), "a");
        assert_eq!(slab.len(), 1);
        assert_eq!(slab.get(first), "");
        assert_eq!(slab.insert("c".to_string()), first);
        assert_eq!(slab.get(second), "b");
        assert_eq!(slab.slots().count(), 2);
    }
}
