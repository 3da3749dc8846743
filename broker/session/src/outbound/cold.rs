//! Messages of a queue or a window that are not in memory.

use tautwire_message::{Body, Cold, Message};
use tautwire_protocol::PacketId;

use super::{Outbound, PendingMessage, Slot};

/// How far queue and window have been looked at for messages to make cold. Messages of the queue and slots of the window are counted from
/// the beginning of all time: see [`Outbound::left_queue`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Cooling {
    /// Messages of the queue.
    looked_at: u64,
    /// Slots of the window.
    sent_looked_at: u64,
    /// Slots before this one have been in the window for a while.
    sent_long_ago: u64,
    /// How things stood when the present rest began.
    mark: Mark,
    /// The queue stood still during the last rest, and stands there still: so many messages had left it.
    stands_at: Option<u64>,
    /// The session stands in line to be looked at.
    is_listed: bool,
    /// It is to be looked at after a while.
    rests: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Mark {
    /// The end of the window.
    sent: u64,
    left_queue: u64,
}

impl Outbound {
    /// Bytes that queue and window take together: of cold messages only what their records take.
    pub fn memory_bytes(&self) -> usize {
        self.counted_bytes() - self.in_queue.saved_bytes - self.in_window.saved_bytes
    }

    /// The session stands in line from now on to have messages made cold; says whether that is new.
    pub fn queue_for_spill(&mut self) -> bool {
        !std::mem::replace(&mut self.cooling.is_listed, true)
    }

    /// The session does not stand in line any more.
    pub fn unlist_for_cooling(&mut self) {
        self.cooling.is_listed = false;
    }

    /// Whether it does.
    pub fn is_listed_for_cooling(&self) -> bool {
        self.cooling.is_listed
    }

    /// What is in the window and at the front of the queue now is let alone for a while; says whether that is new.
    pub fn begin_rest(&mut self) -> bool {
        if self.cooling.rests {
            return false;
        }
        self.cooling.rests = true;
        self.cooling.mark = self.mark();
        true
    }

    /// Whether a rest has begun and not ended.
    pub fn rests(&self) -> bool {
        self.cooling.rests
    }

    /// A while has passed since [`Outbound::begin_rest`]. What has been in the window since then may be made cold, and the front of the
    /// queue as well if nothing has left it. Says whether there is something for which another rest has begun.
    pub fn end_rest(&mut self) -> bool {
        let now = self.mark();
        let Mark { sent, left_queue } = std::mem::replace(&mut self.cooling.mark, now);
        self.cooling.sent_long_ago = sent;
        let moves = left_queue != self.left_queue;
        if !moves && !self.queue.is_empty() && self.cooling.stands_at != Some(left_queue) {
            self.cooling.stands_at = Some(left_queue);
            self.look_again_from(left_queue);
        }
        self.cooling.rests = self.cooling.mark.sent > sent || (moves && !self.queue.is_empty());
        self.cooling.rests
    }

    fn mark(&self) -> Mark {
        Mark { sent: self.left_window + self.window.len() as u64, left_queue: self.left_queue }
    }

    /// Whether nothing has left the queue for a while: its front need not be in memory.
    pub fn queue_stands_still(&self) -> bool {
        self.cooling.stands_at == Some(self.left_queue)
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

    /// The next message that has been in the window for a while, waits for PUBACK or PUBREC, takes `min_bytes` and could be made cold, with
    /// its identifier. Looks at `steps` places at most.
    pub fn next_sent_to_cool(&mut self, min_bytes: usize, steps: &mut usize) -> Option<(PacketId, &Message)> {
        let mut number = self.cooling.sent_looked_at.max(self.left_window);
        while *steps > 0 && number < self.cooling.sent_long_ago {
            let at = (number - self.left_window) as usize;
            let slot = self.window.get(at)?;
            *steps -= 1;
            number += 1;
            self.cooling.sent_looked_at = number;
            if let Slot::Unacknowledged(PendingMessage { message: Body::Hot(message), .. }) = slot
                && message.kept_bytes() >= min_bytes
            {
                let id = PacketId::new(self.id_at(at))?;
                // Looked up again, since a loop cannot give out what it may still borrow.
                return Some((id, self.unacknowledged(id)?.message.hot()?));
            }
        }
        None
    }

    /// Whether the window has slots that have been there for a while and have not been looked at.
    pub fn has_more_sent_to_cool(&self) -> bool {
        let end = self.cooling.sent_long_ago.min(self.left_window + self.window.len() as u64);
        self.cooling.sent_looked_at.max(self.left_window) < end
    }

    /// All of the window is to be looked at again, as if it had been there for a while.
    pub fn look_at_sent_again(&mut self) {
        self.cooling.sent_looked_at = 0;
        self.cooling.sent_long_ago = self.mark().sent;
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

    /// The message of the window with this identifier is in the store now; says whether it was there and hot.
    pub fn spill_sent(&mut self, id: PacketId, cold: &Cold) -> bool {
        let Some(Slot::Unacknowledged(delivery)) = self.slot_mut(id) else { return false };
        if !matches!(&delivery.message, Body::Hot(message) if message.id() == cold.id()) {
            return false;
        }
        delivery.message = Body::Cold(cold.clone());
        self.in_window.saved_bytes += cold.saved_bytes();
        true
    }

    /// The message at the front of the queue has been read: it is hot from now on.
    pub fn load_front(&mut self, message: Message) {
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
        let slots = self.stragglers.iter().map(|(id, slot)| (Some(*id), slot)).chain(window);
        let mut unacknowledged = slots.filter_map(|(id, slot)| match slot {
            Slot::Unacknowledged(delivery) => Some((delivery, id)),
            Slot::Free | Slot::Released => None,
        });
        unacknowledged.next().or_else(|| Some((self.queue.front()?, None)))
    }
}
