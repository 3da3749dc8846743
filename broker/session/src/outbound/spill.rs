//! Spilling of messages in a queue or a window.

use tautwire_message::{Body, Message, Spilled};
use tautwire_protocol::PacketId;

use super::{Outbound, PendingMessage, Slot};

/// How far queue and window were scanned for messages to spill. Messages of the queue and slots of the window are counted from the creation
/// of the state: see [`Outbound::left_queue`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SpillProgress {
    /// The next message of the queue to scan.
    scanned: u64,
    /// The next slot of the window to scan.
    sent_scanned: u64,
    /// Slots before this one have been in the window for the spill delay.
    sent_eligible: u64,
    /// The state when the current delay began.
    mark: Mark,
    /// The value of `left_queue` if nothing left the queue during the last delay.
    idle_at: Option<u64>,
    /// The session is queued to be scanned.
    is_queued: bool,
    /// A spill delay is running.
    is_delayed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Mark {
    /// The end of the window.
    sent: u64,
    left_queue: u64,
}

impl Outbound {
    /// Returns the memory of queue and window in bytes: of spilled messages only their records count.
    pub fn memory_bytes(&self) -> usize {
        self.counted_bytes() - self.in_queue.saved_bytes - self.in_window.saved_bytes
    }

    /// Marks the session as queued for spilling. Returns whether it was not queued before.
    pub fn queue_for_spill(&mut self) -> bool {
        !std::mem::replace(&mut self.spill_progress.is_queued, true)
    }

    /// Marks the session as no longer queued for spilling.
    pub fn unqueue_for_spill(&mut self) {
        self.spill_progress.is_queued = false;
    }

    /// Whether the session is queued for spilling.
    pub fn is_queued_for_spill(&self) -> bool {
        self.spill_progress.is_queued
    }

    /// Starts the spill delay for the window and the front of the queue. Returns whether none was running.
    pub fn begin_spill_delay(&mut self) -> bool {
        if self.spill_progress.is_delayed {
            return false;
        }
        self.spill_progress.is_delayed = true;
        self.spill_progress.mark = self.mark();
        true
    }

    /// Whether a spill delay is running.
    pub fn is_spill_delayed(&self) -> bool {
        self.spill_progress.is_delayed
    }

    /// Ends the delay that [`Outbound::begin_spill_delay`] started. Messages that have been in the window since then may be spilled, and so
    /// may the front of the queue if nothing has left it. Returns whether another delay was started, for newer messages.
    pub fn end_spill_delay(&mut self) -> bool {
        let now = self.mark();
        let Mark { sent, left_queue } = std::mem::replace(&mut self.spill_progress.mark, now);
        self.spill_progress.sent_eligible = sent;
        let moves = left_queue != self.left_queue;
        if !moves && !self.queue.is_empty() && self.spill_progress.idle_at != Some(left_queue) {
            self.spill_progress.idle_at = Some(left_queue);
            self.rescan_from(left_queue);
        }
        self.spill_progress.is_delayed = self.spill_progress.mark.sent > sent || (moves && !self.queue.is_empty());
        self.spill_progress.is_delayed
    }

    fn mark(&self) -> Mark {
        Mark { sent: self.left_window + self.window.len() as u64, left_queue: self.left_queue }
    }

    /// Whether nothing left the queue during the last delay, so that its front may be spilled.
    pub fn is_queue_idle(&self) -> bool {
        self.spill_progress.idle_at == Some(self.left_queue)
    }

    /// Returns how many messages at the front of the queue fit into `most_bytes`: at least one, at most `most`.
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

    /// Returns the next message of the queue that may be spilled, with its number, which counts all earlier messages of the queue. Skips
    /// the first `loaded_at_front` messages of the queue and messages smaller than `min_bytes`. Examines at most `steps` messages.
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
                // A second lookup, because the borrow checker rejects returning the first one from the loop.
                let found = self.queue.get((number - 1 - self.left_queue) as usize)?;
                return Some((number - 1, found.message.loaded()?));
            }
        }
        None
    }

    /// Whether there are unscanned messages after the first `loaded_at_front`.
    pub fn has_more_to_spill(&self, loaded_at_front: usize) -> bool {
        let first = self.left_queue + loaded_at_front as u64;
        self.spill_progress.scanned.max(first) < self.left_queue + self.queue.len() as u64
    }

    /// Returns the next message of the window that may be spilled, with its identifier: its delay has passed, its PUBACK or PUBREC is
    /// pending, and it has at least `min_bytes`. Examines at most `steps` slots.
    pub fn next_sent_to_spill(&mut self, min_bytes: usize, steps: &mut usize) -> Option<(PacketId, &Message)> {
        let mut number = self.spill_progress.sent_scanned.max(self.left_window);
        while *steps > 0 && number < self.spill_progress.sent_eligible {
            let at = (number - self.left_window) as usize;
            let slot = self.window.get(at)?;
            *steps -= 1;
            number += 1;
            self.spill_progress.sent_scanned = number;
            if let Slot::Unacknowledged(PendingMessage { message: Body::Loaded(message), .. }) = slot
                && message.allocated_bytes() >= min_bytes
            {
                let id = PacketId::new(self.id_at(at))?;
                // A second lookup, because the borrow checker rejects returning the first one from the loop.
                return Some((id, self.unacknowledged(id)?.message.loaded()?));
            }
        }
        None
    }

    /// Whether the window has unscanned slots whose delay has passed.
    pub fn has_more_sent_to_spill(&self) -> bool {
        let end = self.spill_progress.sent_eligible.min(self.left_window + self.window.len() as u64);
        self.spill_progress.sent_scanned.max(self.left_window) < end
    }

    /// Scans the whole window again, as if its delay had passed.
    pub fn rescan_sent(&mut self) {
        self.spill_progress.sent_scanned = 0;
        self.spill_progress.sent_eligible = self.mark().sent;
    }

    /// Scans the queue again from message `number` on.
    pub fn rescan_from(&mut self, number: u64) {
        self.spill_progress.scanned = self.spill_progress.scanned.min(number);
    }

    /// Replaces message `number` of the queue by its spilled form. Returns whether it was in the queue and in memory.
    pub fn spill(&mut self, number: u64, spilled: &Spilled) -> bool {
        let at = number.checked_sub(self.left_queue).and_then(|at| usize::try_from(at).ok());
        let Some(delivery) = at.and_then(|at| self.queue.get_mut(at)) else { return false };
        if !matches!(&delivery.message, Body::Loaded(message) if message.id() == spilled.id()) {
            return false;
        }
        delivery.message = Body::Spilled(spilled.clone());
        self.in_queue.saved_bytes += spilled.saved_bytes();
        true
    }

    /// Replaces the message of the window with this identifier by its spilled form. Returns whether it was there and in memory.
    pub fn spill_sent(&mut self, id: PacketId, spilled: &Spilled) -> bool {
        let Some(Slot::Unacknowledged(delivery)) = self.slot_mut(id) else { return false };
        if !matches!(&delivery.message, Body::Loaded(message) if message.id() == spilled.id()) {
            return false;
        }
        delivery.message = Body::Spilled(spilled.clone());
        self.in_window.saved_bytes += spilled.saved_bytes();
        true
    }

    /// Replaces the spilled message at the front of the queue by the loaded one.
    pub fn load_front(&mut self, message: Message) {
        if let Some(PendingMessage { message: body, .. }) = self.queue.front_mut()
            && let Some(spilled) = body.spilled().filter(|spilled| spilled.id() == message.id())
        {
            self.in_queue.saved_bytes -= spilled.saved_bytes();
            *body = Body::Loaded(message);
        }
    }

    /// Returns the spilled messages among the next `most` of the queue, in order.
    pub fn spilled_ahead(&self, most: usize) -> impl Iterator<Item = &Spilled> {
        self.queue.iter().take(most).filter_map(|delivery| delivery.message.spilled())
    }

    /// Returns the next message of the window to send again, if it is spilled.
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

    /// Returns up to `most` spilled messages of the window that must be sent again, in order.
    pub fn spilled_resends(&self, most: usize) -> impl Iterator<Item = &Spilled> {
        let stragglers = self.stragglers.iter().map(|(_, slot)| slot);
        let slots = stragglers.chain(&self.window).skip(self.sent);
        let spilled = slots.filter_map(|slot| match slot {
            Slot::Unacknowledged(delivery) => delivery.message.spilled(),
            Slot::Free | Slot::Released => None,
        });
        spilled.take(most)
    }

    /// Returns the message that the next call of [`Outbound::take_unfinished`] removes, with the identifier under which it may have reached
    /// the client.
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
