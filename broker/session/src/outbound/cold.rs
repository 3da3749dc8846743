//! Messages of a queue that are not in memory.

use tautwire_message::{Body, Cold, Message};
use tautwire_protocol::PacketId;

use super::{Outbound, PendingMessage, Slot};

/// How far the queue has been looked at for messages to make cold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Cooling {
    /// So many messages from the beginning of all time: see [`Outbound::left_queue`].
    looked_at: u64,
    /// The session stands in line to be looked at.
    is_listed: bool,
}

impl Outbound {
    /// Bytes that queue and window take together: of cold messages only what their records take.
    pub fn memory_bytes(&self) -> usize {
        self.counted_bytes() - self.in_queue.saved_bytes - self.in_window.saved_bytes
    }

    /// The session stands in line from now on to have messages made cold; says whether that is new.
    pub fn list_for_cooling(&mut self) -> bool {
        !std::mem::replace(&mut self.cooling.is_listed, true)
    }

    /// The session does not stand in line any more.
    pub fn unlist_for_cooling(&mut self) {
        self.cooling.is_listed = false;
    }

    /// How many messages at the front of the queue go into `most_bytes`: at least one, and `most` at most.
    pub fn front_within(&self, most: usize, most_bytes: usize) -> usize {
        let mut left_bytes = most_bytes;
        let fits = |delivery: &&PendingMessage| {
            let bytes = delivery.counted_bytes();
            let fits = bytes <= left_bytes;
            left_bytes = left_bytes.saturating_sub(bytes);
            fits
        };
        self.queue.iter().take(most).take_while(fits).count().max(1)
    }

    /// The next message of the queue that could be made cold, with its number: how many have been in the queue before it. Those
    /// that come first in the queue, `hot_at_front` of them, are passed over, and so are those that do not take `min_bytes`.
    /// Looks at `steps` places at most.
    pub fn next_to_cool(
        &mut self,
        hot_at_front: usize,
        min_bytes: usize,
        steps: &mut usize,
    ) -> Option<(u64, &Message)> {
        let first = self.left_queue + hot_at_front as u64;
        let mut number = self.cooling.looked_at.max(first);
        while *steps > 0 {
            let delivery = self.queue.get((number - self.left_queue) as usize)?;
            *steps -= 1;
            number += 1;
            self.cooling.looked_at = number;
            if let Body::Hot(message) = &delivery.message
                && message.kept_bytes() >= min_bytes
            {
                // Looked up again, since a loop cannot give out what it may still borrow.
                let found = self.queue.get((number - 1 - self.left_queue) as usize)?;
                return Some((number - 1, found.message.hot()?));
            }
        }
        None
    }

    /// Whether there are messages behind those that have been looked at and those that stay hot.
    pub fn has_more_to_cool(&self, hot_at_front: usize) -> bool {
        let first = self.left_queue + hot_at_front as u64;
        self.cooling.looked_at.max(first) < self.left_queue + self.queue.len() as u64
    }

    /// From message `number` of the queue on, all are to be looked at again.
    pub fn look_again_from(&mut self, number: u64) {
        self.cooling.looked_at = self.cooling.looked_at.min(number);
    }

    /// Message `number` is in the store now; says whether it was in the queue and hot.
    pub fn cool(&mut self, number: u64, cold: &Cold) -> bool {
        let at = number.checked_sub(self.left_queue).and_then(|at| usize::try_from(at).ok());
        let Some(delivery) = at.and_then(|at| self.queue.get_mut(at)) else { return false };
        if !matches!(&delivery.message, Body::Hot(message) if message.id() == cold.id()) {
            return false;
        }
        delivery.message = Body::Cold(cold.clone());
        self.in_queue.saved_bytes += cold.saved_bytes();
        true
    }

    /// The message at the front of the queue has been read: it is hot from now on.
    pub fn warm_front(&mut self, message: Message) {
        if let Some(PendingMessage { message: body, .. }) = self.queue.front_mut()
            && let Some(cold) = body.cold().filter(|cold| cold.id() == message.id())
        {
            self.in_queue.saved_bytes -= cold.saved_bytes();
            *body = Body::Hot(message);
        }
    }

    /// The cold messages among the next of the queue that would be sent, in order. Looks at `most` of the queue.
    pub fn cold_ahead(&self, most: usize) -> impl Iterator<Item = &Cold> {
        self.queue.iter().take(most).filter_map(|delivery| delivery.message.cold())
    }

    /// The message of the window that is to be sent again next, if it is cold.
    pub fn cold_to_resend(&mut self) -> Option<&Cold> {
        let at = self.next_resent();
        let slot = match self.stragglers.get(at) {
            Some((_, slot)) => slot,
            None => self.window.get(at - self.stragglers.len())?,
        };
        match slot {
            Slot::Unacknowledged(delivery) => delivery.message.cold(),
            Slot::Free | Slot::Released => None,
        }
    }

    /// The cold messages of the window that are still to be sent again, in order, `most` at most.
    pub fn cold_resends(&self, most: usize) -> impl Iterator<Item = &Cold> {
        let aside = self.stragglers.iter().map(|(_, slot)| slot);
        let slots = aside.chain(&self.window).skip(self.sent);
        let cold = slots.filter_map(|slot| match slot {
            Slot::Unacknowledged(delivery) => delivery.message.cold(),
            Slot::Free | Slot::Released => None,
        });
        cold.take(most)
    }

    /// The next message that [`Outbound::take_unfinished`] takes out, with the identifier under which it may have reached the
    /// client.
    pub fn next_unfinished(&self) -> Option<(&PendingMessage, Option<PacketId>)> {
        let window = self.window.iter().enumerate().map(|(at, slot)| (PacketId::new(self.id_at(at)), slot));
        let slots = window.chain(self.stragglers.iter().map(|(id, slot)| (Some(*id), slot))).rev();
        let mut unacknowledged = slots.filter_map(|(id, slot)| match slot {
            Slot::Unacknowledged(delivery) => Some((delivery, id)),
            Slot::Free | Slot::Released => None,
        });
        unacknowledged.next().or_else(|| Some((self.queue.front()?, None)))
    }
}
