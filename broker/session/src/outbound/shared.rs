//! Messages of shared subscriptions that a client has been sent and has not acknowledged.

use tautwire_message::MessageId;
use tautwire_protocol::{PacketId, QoS};

use super::{Outbound, PendingMessage, Slot};

impl Outbound {
    /// The oldest message of a shared subscription that may go to another member: one of QoS 1 that has been sent and not
    /// acknowledged. One of QoS 2 stays with its client [MQTT-4.8.2-4].
    pub fn oldest_shared(&self) -> Option<(PacketId, MessageId)> {
        self.shared().map(|(_, id, delivery)| (id, delivery.message.id())).next()
    }

    /// The identifiers of all such messages that had been sent when [`Outbound::sent_so_far`] was `sent`, in the order of
    /// sending.
    pub fn shared_before(&self, sent: u64) -> Vec<PacketId> {
        self.shared().take_while(|(number, ..)| *number < sent).map(|(_, id, _)| id).collect()
    }

    /// How many places of the window have been taken so far.
    pub fn sent_so_far(&self) -> u64 {
        self.left_window + self.window.len() as u64
    }

    /// How many places of the window have become free again.
    pub fn settled(&self) -> u64 {
        self.sent_so_far() - (self.occupied + self.stragglers.len()) as u64
    }

    /// A message that has been sent is redispatched while its client is connected: it is not to be redispatched again. Not a
    /// [`crate::Change`]: after a crash it may be, and so arrive once more than it had to.
    pub fn clear_share(&mut self, id: PacketId) {
        if let Some(Slot::Unacknowledged(delivery)) = self.slot_mut(id) {
            delivery.share = None;
        }
    }

    fn shared(&self) -> impl Iterator<Item = (u64, PacketId, &PendingMessage)> {
        let aside = self.stragglers.iter().map(|(id, slot)| (0, Some(*id), slot));
        let window = self.window.iter().enumerate();
        let window = window.map(|(at, slot)| (self.left_window + at as u64, PacketId::new(self.id_at(at)), slot));
        aside.chain(window).filter_map(|(number, id, slot)| match slot {
            Slot::Unacknowledged(delivery) if delivery.share.is_some() && delivery.qos == QoS::AtLeastOnce => {
                Some((number, id?, delivery))
            }
            _ => None,
        })
    }
}
