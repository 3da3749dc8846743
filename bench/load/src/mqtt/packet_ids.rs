use super::PacketId;

/// The packet ids in flight: an acknowledgement for any other is a violation.
#[derive(Debug)]
pub(crate) struct PacketIds {
    words: Vec<u64>,
    len: usize,
    last: u16,
}

impl PacketIds {
    pub(crate) fn new() -> Self {
        Self { words: vec![0; 1024], len: 0, last: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Allocates the next free id, in turn; `None` if all 65,535 are in flight.
    #[inline]
    pub(crate) fn allocate(&mut self) -> Option<PacketId> {
        for _ in 0..=u16::MAX {
            self.last = self.last.wrapping_add(1);
            if let Some(id) = PacketId::new(self.last)
                && self.insert(self.last)
            {
                return Some(id);
            }
        }
        None
    }

    #[inline]
    pub(crate) fn contains(&self, id: u16) -> bool {
        let (word, bit) = place(id);
        self.words[word] & bit != 0
    }

    /// Returns false if it was there already.
    #[inline]
    pub(crate) fn insert(&mut self, id: u16) -> bool {
        let (word, bit) = place(id);
        let was_absent = self.words[word] & bit == 0;
        self.words[word] |= bit;
        self.len += usize::from(was_absent);
        was_absent
    }

    /// Returns false if it was not there.
    #[inline]
    pub(crate) fn remove(&mut self, id: u16) -> bool {
        let (word, bit) = place(id);
        let was_present = self.words[word] & bit != 0;
        self.words[word] &= !bit;
        self.len -= usize::from(was_present);
        was_present
    }
}

fn place(id: u16) -> (usize, u64) {
    (usize::from(id >> 6), 1 << (id & 63))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_sequential_and_unique() {
        let mut ids = PacketIds::new();
        for expected in 1..=u16::MAX {
            assert_eq!(ids.allocate().map(PacketId::get), Some(expected));
        }
        assert_eq!(ids.allocate(), None);
        assert_eq!(ids.len(), 65_535);
        assert!(ids.remove(40_000));
        assert!(!ids.remove(40_000));
        assert_eq!(ids.allocate().map(PacketId::get), Some(40_000));
    }
}
