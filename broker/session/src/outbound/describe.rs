//! Describes a window as the changes that lead to it.

use tautwire_protocol::PacketId;

use super::{Outbound, Slot};
use crate::change::Change;

impl Outbound {
    /// Passes the changes that lead to the window to the visitor, in the order of sending; `next` is the next identifier before them.
    /// Returns the next identifier after them.
    pub(crate) fn describe_window(
        &self,
        mut next: Option<PacketId>,
        visit: &mut impl FnMut(&Change, Option<PacketId>),
    ) -> Option<PacketId> {
        let stragglers = self.stragglers.iter().map(|(id, slot)| (Some(*id), slot));
        let window = self.window.iter().enumerate().map(|(at, slot)| (PacketId::new(self.id_at(at)), slot));
        for (id, slot) in stragglers.chain(window) {
            let Some(id) = id.filter(|_| !matches!(slot, Slot::Free)) else { continue };
            if next != Some(id) {
                visit(&Change::NextPacketId(id), None);
            }
            match slot {
                Slot::Unacknowledged(delivery) => visit(&Change::Started(delivery.clone()), Some(id)),
                Slot::Released => visit(&Change::AwaitingPubComp(id), Some(id)),
                Slot::Free => {}
            }
            next = PacketId::new(id.get().wrapping_add(1).max(1));
        }
        next
    }

    /// Continues the identifiers at `id`. The messages in the window are older and become stragglers.
    pub(crate) fn set_next_packet_id(&mut self, id: PacketId) {
        while !self.window.is_empty() {
            self.move_front_to_stragglers();
        }
        self.first = id.get();
        self.update_bytes();
    }

    /// Records that PUBREL was sent for the next identifier.
    pub(crate) fn add_awaiting_pubcomp(&mut self, id: PacketId) {
        debug_assert_eq!(self.next_packet_id(), Some(id));
        let Some(at) = self.next_free() else { return };
        if self.window.is_empty() {
            self.first = self.id_at(at);
        } else {
            self.window.resize_with(at, || Slot::Free);
        }
        self.window.push_back(Slot::Released);
        self.occupied += 1;
        self.update_bytes();
    }
}
