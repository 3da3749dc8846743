//! Messages of a queue or a window that are not in memory.

use tautwire_message::{Body, Message, Spilled};
use tautwire_protocol::PacketId;

use super::{Outbound, PendingMessage, Slot};

/// How far queue and window have been looked at for messages to make cold. Messages of the queue and slots of the window are counted from
/// the beginning of all time: see [`Outbound::left_queue`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SpillProgress {
    /// Messages of the queue.
    scanned: u64,
    /// Slots of the window.
    sent_scanned: u64,
    /// Slots before this one have been in the window for a while.
    sent_settled: u64,
    /// How things stood when the present rest began.
    mark: Mark,
    /// The queue stood still during the last rest, and stands there still: so many messages had left it.
    idle_at: Option<u64>,
    /// The session stands in line to be looked at.
    is_queued: bool,
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
        !std::mem::replace(&mut self.spill_progress.is_queued, true)
    }

    /// The session does not stand in line any more.
    pub fn unqueue_for_spill(&mut self) {
        self.spill_progress.is_queued = false;
    }

    /// Whether it does.
    pub fn is_queued_for_spill(&self) -> bool {
        self.spill_progress.is_queued
    }

    /// What is in the window and at the front of the queue now is let alone for a while; says whether that is new.
    pub fn begin_spill_delay(&mut self) -> bool {
        if self.spill_progress.rests {
            return false;
        }
        self.spill_progress.rests = true;
        self.spill_progress.mark = self.mark();
        true
    }

    /// Whether a rest has begun and not ended.
    pub fn is_spill_delayed(&self) -> bool {
        self.spill_progress.rests
    }

    /// A while has passed since [`Outbound::begin_spill_delay`]. What has been in the window since then may be made cold, and the front of the
    /// queue as well if nothing has left it. Says whether there is something for which another rest has begun.
    pub fn end_spill_delay(&mut self) -> bool {
        let now = self.mark();
        let Mark { sent, left_queue } = std::mem::replace(&mut self.spill_progress.mark, now);
        self.spill_progress.sent_settled = sent;
        let moves = left_queue != self.left_queue;
        if !moves && !self.queue.is_empty() && self.spill_progress.idle_at != Some(left_queue) {
            self.spill_progress.idle_at = Some(left_queue);
            self.rescan_from(left_queue);
        }
        self.spill_progress.rests = self.spill_progress.mark.sent > sent || (moves && !self.queue.is_empty());
        self.spill_progress.rests
    }

    fn mark(&self) -> Mark {
        Mark { sent: self.left_window + self.window.len() as u64, left_queue: self.left_queue }
    }

    /// Whether nothing has left the queue for a while: its front need not be in memory.
    pub fn is_queue_idle(&self) -> bool {
        self.spill_progress.idle_at == Some(self.left_queue)
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
    /// that come first in the queue, `loaded_at_front` of them, are passed over, and so are those that do not take `min_bytes`.
    /// Looks at `steps` places at most.
    pub fn next_to_spill(
        &mut self,
        loaded_at_front: usize,
        min_bytes: usize,
        steps: &mut usize,
    ) -> Option<(u64, &Message)> {
        let first = self.left_queue + loaded_at_front as u64;
        let mut number = self.spill_progress.scanned.max(first);
        while *steps > 0 {
            let delivery = self.queue.get((number - self.left_queue) as usize)?;
            *steps -= 1;
            number += 1;
            self.spill_progress.scanned = number;
            if let Body::Loaded(message) = &delivery.message
                && message.allocated_bytes() >= min_bytes
            {
                // Looked up again, since a loop cannot give out what it may still borrow.
                let found = self.queue.get((number - 1 - self.left_queue) as usize)?;
                return Some((number - 1, found.message.loaded()?));
            }
        }
        None
    }

    /// Whether there are messages behind those that have been looked at and those that stay hot.
    pub fn has_more_to_spill(&self, loaded_at_front: usize) -> bool {
        let first = self.left_queue + loaded_at_front as u64;
        self.spill_progress.scanned.max(first) < self.left_queue + self.queue.len() as u64
    }

    /// The next message that has been in the window for a while, waits for PUBACK or PUBREC, takes `min_bytes` and could be made cold, with
    /// its identifier. Looks at `steps` places at most.
    pub fn next_sent_to_spill(&mut self, min_bytes: usize, steps: &mut usize) -> Option<(PacketId, &Message)> {
        let mut number = self.spill_progress.sent_scanned.max(self.left_window);
        while *steps > 0 && number < self.spill_progress.sent_settled {
            let at = (number - self.left_window) as usize;
            let slot = self.window.get(at)?;
            *steps -= 1;
            number += 1;
            self.spill_progress.sent_scanned = number;
            if let Slot::Unacknowledged(PendingMessage { message: Body::Loaded(message), .. }) = slot
                && message.allocated_bytes() >= min_bytes
            {
                let id = PacketId::new(self.id_at(at))?;
                // Looked up again, since a loop cannot give out what it may still borrow.
                return Some((id, self.unacknowledged(id)?.message.loaded()?));
            }
        }
        None
    }

    /// Whether the window has slots that have been there for a while and have not been looked at.
    pub fn has_more_sent_to_spill(&self) -> bool {
        let end = self.spill_progress.sent_settled.min(self.left_window + self.window.len() as u64);
        self.spill_progress.sent_scanned.max(self.left_window) < end
    }

    /// All of the window is to be looked at again, as if it had been there for a while.
    pub fn rescan_sent(&mut self) {
        self.spill_progress.sent_scanned = 0;
        self.spill_progress.sent_settled = self.mark().sent;
    }

    /// From message `number` of the queue on, all are to be looked at again.
    pub fn rescan_from(&mut self, number: u64) {
        self.spill_progress.scanned = self.spill_progress.scanned.min(number);
    }

    /// Message `number` is in the store now; says whether it was in the queue and hot.
    pub fn spill(&mut self, number: u64, cold: &Spilled) -> bool {
        let at = number.checked_sub(self.left_queue).and_then(|at| usize::try_from(at).ok());
        let Some(delivery) = at.and_then(|at| self.queue.get_mut(at)) else { return false };
        if !matches!(&delivery.message, Body::Loaded(message) if message.id() == cold.id()) {
            return false;
        }
        delivery.message = Body::Spilled(cold.clone());
        self.in_queue.saved_bytes += cold.saved_bytes();
        true
    }

    /// The message of the window with this identifier is in the store now; says whether it was there and hot.
    pub fn spill_sent(&mut self, id: PacketId, cold: &Spilled) -> bool {
        let Some(Slot::Unacknowledged(delivery)) = self.slot_mut(id) else { return false };
        if !matches!(&delivery.message, Body::Loaded(message) if message.id() == cold.id()) {
            return false;
        }
        delivery.message = Body::Spilled(cold.clone());
        self.in_window.saved_bytes += cold.saved_bytes();
        true
    }

    /// The message at the front of the queue has been read: it is hot from now on.
    pub fn load_front(&mut self, message: Message) {
        if let Some(PendingMessage { message: body, .. }) = self.queue.front_mut()
            && let Some(cold) = body.spilled().filter(|cold| cold.id() == message.id())
        {
            self.in_queue.saved_bytes -= cold.saved_bytes();
            *body = Body::Loaded(message);
        }
    }

    /// The cold messages among the next of the queue that would be sent, in order. Looks at `most` of the queue.
    pub fn spilled_ahead(&self, most: usize) -> impl Iterator<Item = &Spilled> {
        self.queue.iter().take(most).filter_map(|delivery| delivery.message.spilled())
    }

    /// The message of the window that is to be sent again next, if it is cold.
    pub fn spilled_to_resend(&mut self) -> Option<&Spilled> {
        let at = self.next_resent();
        let slot = match self.stragglers.get(at) {
            Some((_, slot)) => slot,
            None => self.window.get(at - self.stragglers.len())?,
        };
        match slot {
            Slot::Unacknowledged(delivery) => delivery.message.spilled(),
            Slot::Free | Slot::Released => None,
        }
    }

    /// The cold messages of the window that are still to be sent again, in order, `most` at most.
    pub fn spilled_resends(&self, most: usize) -> impl Iterator<Item = &Spilled> {
        let aside = self.stragglers.iter().map(|(_, slot)| slot);
        let slots = aside.chain(&self.window).skip(self.sent);
        let cold = slots.filter_map(|slot| match slot {
            Slot::Unacknowledged(delivery) => delivery.message.spilled(),
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
