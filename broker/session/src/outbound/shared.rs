//! Unacknowledged messages of shared subscriptions.

use tautwire_message::MessageId;
use tautwire_protocol::{PacketId, QoS};

use super::{Outbound, PendingMessage, Slot};

impl Outbound {
    /// Returns the oldest message of a shared subscription that may go to another member: one of QoS 1 that was sent and not acknowledged.
    /// A message of QoS 2 stays with its client [MQTT-4.8.2-4].
    pub fn oldest_shared(&self) -> Option<(PacketId, MessageId)> {
        self.shared().map(|(_, id, delivery)| (id, delivery.message.id())).next()
    }

    /// Returns the identifiers of all such messages that were sent before [`Outbound::sent_so_far`] reached `sent`, in the order of
    /// sending.
    pub fn shared_before(&self, sent: u64) -> Vec<PacketId> {
        self.shared().take_while(|(number, ..)| *number < sent).map(|(_, id, _)| id).collect()
    }

    /// Returns the number of window slots used so far.
    pub fn sent_so_far(&self) -> u64 {
        self.left_window + self.window.len() as u64
    }

    /// Returns the number of window slots that became free again.
    pub fn settled(&self) -> u64 {
        self.sent_so_far() - (self.occupied + self.stragglers.len()) as u64
    }

    /// Prevents a sent message, which was redispatched while its client is connected, from being redispatched again. Not a
    /// [`crate::Change`]: after a crash the message may be redispatched once more, and so be delivered once more than necessary.
    pub fn clear_share(&mut self, id: PacketId) {
        if let Some(Slot::Unacknowledged(delivery)) = self.slot_mut(id) {
            delivery.share = None;
        }
    }

    fn shared(&self) -> impl Iterator<Item = (u64, PacketId, &PendingMessage)> {
        let stragglers = self.stragglers.iter().map(|(id, slot)| (0, Some(*id), slot));
        let window = self.window.iter().enumerate();
        let window = window.map(|(at, slot)| (self.left_window + at as u64, PacketId::new(self.id_at(at)), slot));
        stragglers.chain(window).filter_map(|(number, id, slot)| match slot {
            Slot::Unacknowledged(delivery) if delivery.share.is_some() && delivery.qos == QoS::AtLeastOnce => {
                Some((number, id?, delivery))
            }
            _ => None,
        })
    }
}
