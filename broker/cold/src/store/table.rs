//! Where each slot lies.

use tautwire_message::Slot;

/// A place in the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) file: u32,
    pub(super) offset: u32,
    /// Header included.
    pub(super) len: u32,
}

/// Files have numbers from 1.
const VACANT: u32 = 0;
const NONE: u32 = u32::MAX;

/// Places by slot. Vacant slots form a list.
#[derive(Debug)]
pub(super) struct Table {
    places: Vec<Place>,
    /// The first vacant slot; the next one stands in its offset.
    vacant: u32,
}

impl Default for Table {
    fn default() -> Self {
        Table { places: Vec::new(), vacant: NONE }
    }
}

impl Table {
    /// A slot to be [set](Table::set); `None` where all are taken.
    pub(super) fn take_vacant(&mut self) -> Option<Slot> {
        if self.vacant != NONE {
            let slot = self.vacant;
            self.vacant = self.places[slot as usize].offset;
            return Some(Slot(slot));
        }
        let slot = u32::try_from(self.places.len()).ok().filter(|slot| *slot != NONE)?;
        self.places.push(Place { file: VACANT, offset: NONE, len: 0 });
        Some(Slot(slot))
    }

    pub(super) fn set(&mut self, slot: Slot, place: Place) {
        if let Some(held) = self.places.get_mut(slot.0 as usize) {
            *held = place;
        }
    }

    pub(super) fn get(&self, slot: Slot) -> Option<Place> {
        self.places.get(slot.0 as usize).copied().filter(|place| place.file != VACANT)
    }

    /// Gives the slot back, and where it was.
    pub(super) fn vacate(&mut self, slot: Slot) -> Option<Place> {
        let place = self.get(slot)?;
        self.places[slot.0 as usize] = Place { file: VACANT, offset: self.vacant, len: 0 };
        self.vacant = slot.0;
        Some(place)
    }

    /// Gives the memory back. No slot may be taken.
    pub(super) fn clear(&mut self) {
        *self = Table::default();
    }
}
