//! Where each slot lies.

use tautwire_message::SpillSlot;

/// A place in the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RecordLocation {
    pub(super) file: u32,
    pub(super) offset: u32,
    /// Header included.
    pub(super) len: u32,
}

/// Files have numbers from 1.
const FREE_SLOT: u32 = 0;
const NONE: u32 = u32::MAX;

/// Places by slot. Vacant slots form a list.
#[derive(Debug)]
pub(super) struct SlotTable {
    locations: Vec<RecordLocation>,
    /// The first vacant slot; the next one stands in its offset.
    free_slots: u32,
}

impl Default for SlotTable {
    fn default() -> Self {
        SlotTable { locations: Vec::new(), free_slots: NONE }
    }
}

impl SlotTable {
    /// A slot to be [set](SlotTable::set); `None` where all are taken.
    pub(super) fn take_free_slot(&mut self) -> Option<SpillSlot> {
        if self.free_slots != NONE {
            let slot = self.free_slots;
            self.free_slots = self.locations[slot as usize].offset;
            return Some(SpillSlot(slot));
        }
        let slot = u32::try_from(self.locations.len()).ok().filter(|slot| *slot != NONE)?;
        self.locations.push(RecordLocation { file: FREE_SLOT, offset: NONE, len: 0 });
        Some(SpillSlot(slot))
    }

    pub(super) fn set(&mut self, slot: SpillSlot, place: RecordLocation) {
        if let Some(held) = self.locations.get_mut(slot.0 as usize) {
            *held = place;
        }
    }

    pub(super) fn get(&self, slot: SpillSlot) -> Option<RecordLocation> {
        self.locations.get(slot.0 as usize).copied().filter(|place| place.file != FREE_SLOT)
    }

    /// Gives the slot back, and where it was.
    pub(super) fn free_slot(&mut self, slot: SpillSlot) -> Option<RecordLocation> {
        let place = self.get(slot)?;
        self.locations[slot.0 as usize] = RecordLocation { file: FREE_SLOT, offset: self.free_slots, len: 0 };
        self.free_slots = slot.0;
        Some(place)
    }

    /// Gives the memory back. No slot may be taken.
    pub(super) fn clear(&mut self) {
        *self = SlotTable::default();
    }
}
