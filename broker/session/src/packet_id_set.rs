//! A set of Packet Identifiers that is small for few members and bounded for many.

use smallvec::SmallVec;
use tautwire_protocol::PacketId;

/// Above this size the set becomes a bitmap of 8 KiB; a sorted list would be as large and slower.
const LIST_MAX: usize = 128;
const WORDS: usize = 65_536 / 64;

/// The identifiers of QoS 2 messages that have been received and not yet released [MQTT-4.3.3-10].
#[derive(Debug, Default, Clone, PartialEq)]
pub struct PacketIdSet(Representation);

#[derive(Debug, Clone, PartialEq)]
enum Representation {
    /// Sorted.
    List(SmallVec<[u16; 4]>),
    Bitmap {
        words: Box<[u64]>,
        len: usize,
    },
}

impl Default for Representation {
    fn default() -> Self {
        Representation::List(SmallVec::new())
    }
}

impl PacketIdSet {
    /// Returns the number of identifiers in the set.
    pub fn len(&self) -> usize {
        match &self.0 {
            Representation::List(list) => list.len(),
            Representation::Bitmap { len, .. } => *len,
        }
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes outside of the set itself.
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Representation::List(list) if list.spilled() => list.capacity() * size_of::<u16>(),
            Representation::List(_) => 0,
            Representation::Bitmap { .. } => WORDS * size_of::<u64>(),
        }
    }

    /// Iterates over the identifiers in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = PacketId> + '_ {
        let (list, words) = match &self.0 {
            Representation::List(list) => (&list[..], &[][..]),
            Representation::Bitmap { words, .. } => (&[][..], &words[..]),
        };
        let bits = |word: u64| (0..u64::BITS).filter(move |bit| word >> bit & 1 == 1);
        let mapped = words
            .iter()
            .enumerate()
            .flat_map(move |(at, word)| bits(*word).map(move |bit| (at * u64::BITS as usize + bit as usize) as u16));
        list.iter().copied().chain(mapped).filter_map(PacketId::new)
    }

    /// Whether the set contains `id`.
    pub fn contains(&self, id: PacketId) -> bool {
        match &self.0 {
            Representation::List(list) => list.binary_search(&id.get()).is_ok(),
            Representation::Bitmap { words, .. } => words[word(id)] & bit(id) != 0,
        }
    }

    /// Adds `id`. Returns false if it was in the set already.
    pub fn insert(&mut self, id: PacketId) -> bool {
        match &mut self.0 {
            Representation::List(list) => {
                let Err(at) = list.binary_search(&id.get()) else { return false };
                if list.len() < LIST_MAX {
                    list.insert(at, id.get());
                } else {
                    self.grow_to_bitmap();
                    return self.insert(id);
                }
                true
            }
            Representation::Bitmap { words, len } => {
                let new = words[word(id)] & bit(id) == 0;
                words[word(id)] |= bit(id);
                *len += usize::from(new);
                new
            }
        }
    }

    /// Removes `id`. Returns false if it was not in the set. An emptied set frees its memory.
    pub fn remove(&mut self, id: PacketId) -> bool {
        let removed = match &mut self.0 {
            Representation::List(list) => list.binary_search(&id.get()).map(|at| list.remove(at)).is_ok(),
            Representation::Bitmap { words, len } => {
                let held = words[word(id)] & bit(id) != 0;
                words[word(id)] &= !bit(id);
                *len -= usize::from(held);
                held
            }
        };
        if matches!(self.0, Representation::Bitmap { len: 0, .. }) {
            self.0 = Representation::default();
        }
        removed
    }

    fn grow_to_bitmap(&mut self) {
        if let Representation::List(list) = &self.0 {
            let mut words = vec![0u64; WORDS].into_boxed_slice();
            for id in list {
                words[usize::from(*id) / 64] |= 1 << (id % 64);
            }
            self.0 = Representation::Bitmap { words, len: list.len() };
        }
    }
}

fn word(id: PacketId) -> usize {
    usize::from(id.get()) / 64
}

fn bit(id: PacketId) -> u64 {
    1 << (id.get() % 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u16) -> PacketId {
        PacketId::new(n).expect("not zero")
    }

    #[test]
    fn the_set_can_hold_every_identifier() {
        let mut set = PacketIdSet::default();
        for n in (1..=65_535).rev() {
            assert!(set.insert(id(n)));
            assert!(!set.insert(id(n)));
        }
        assert_eq!(set.len(), 65_535);
        assert!(set.iter().eq((1..=65_535).map(id)));
        for n in 1..=65_535 {
            assert!(set.contains(id(n)));
            assert!(set.remove(id(n)));
            assert!(!set.remove(id(n)));
        }
        assert!(set.is_empty());
        assert!(matches!(set.0, Representation::List(_)), "the memory is freed");
    }
}
