//! Maps each slot to its place in the files.

use tautwire_message::SpillSlot;

/// A place in the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RecordLocation {
    pub(super) file: u32,
    pub(super) offset: u32,
    /// Length with the header.
    pub(super) len: u32,
}

/// File numbers start at 1, so 0 marks a free slot.
const FREE_SLOT: u32 = 0;
const NONE: u32 = u32::MAX;

/// Locations by slot. Free slots form a linked list.
#[derive(Debug)]
pub(super) struct SlotTable {
    locations: Vec<RecordLocation>,
    /// The first free slot. Its offset holds the next one.
    free_slots: u32,
}

impl Default for SlotTable {
    fn default() -> Self {
        SlotTable { locations: Vec::new(), free_slots: NONE }
    }
}

impl SlotTable {
    /// Takes a slot, which the caller must [set](SlotTable::set). Returns `None` if all are taken.
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

    /// Frees the slot, and returns where its message was.
    pub(super) fn free_slot(&mut self, slot: SpillSlot) -> Option<RecordLocation> {
        let place = self.get(slot)?;
        self.locations[slot.0 as usize] = RecordLocation { file: FREE_SLOT, offset: self.free_slots, len: 0 };
        self.free_slots = slot.0;
        Some(place)
    }

    /// Releases the memory. All slots must be free.
    pub(super) fn clear(&mut self) {
        *self = SlotTable::default();
    }
}
