//! Messages to one client: a window of those that have a Packet Identifier, and a queue.

mod describe;
mod shared;
mod spill;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use tautwire_protocol::{PacketId, QoS, SubscriptionId};

use tautwire_memory::{Footprint, Kind};
use tautwire_message::Body;

use crate::packet_id_set::PacketIdSet;

/// Packet Identifiers run from 1 to 65,535, so a window cannot span more.
const WINDOW_MAX: usize = 65_535;

/// In a window with more slots than this, of which less than a quarter are in use, the oldest messages become stragglers.
const SPARSE_WINDOW: usize = 1024;

/// An emptied queue with more capacity than this frees its memory.
const QUEUE_KEPT: usize = 64;

/// The Subscription Identifiers of a message to one client [MQTT-3.3.4-3].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SubscriptionIds {
    /// No matching subscription has one.
    #[default]
    None,
    /// One identifier, the common case.
    One(SubscriptionId),
    /// The identifiers of several overlapping subscriptions.
    Many(Box<Box<[SubscriptionId]>>),
}

impl SubscriptionIds {
    /// The identifiers as a slice.
    pub fn as_slice(&self) -> &[SubscriptionId] {
        match self {
            SubscriptionIds::None => &[],
            SubscriptionIds::One(id) => std::slice::from_ref(id),
            SubscriptionIds::Many(ids) => ids,
        }
    }
}

impl SubscriptionIds {
    /// Returns the bytes outside of the value itself.
    fn heap_bytes(&self) -> usize {
        match self {
            SubscriptionIds::None | SubscriptionIds::One(_) => 0,
            SubscriptionIds::Many(ids) => size_of_val::<[SubscriptionId]>(ids) + size_of::<Box<[SubscriptionId]>>(),
        }
    }
}

impl From<&[SubscriptionId]> for SubscriptionIds {
    fn from(ids: &[SubscriptionId]) -> Self {
        match ids {
            [] => SubscriptionIds::None,
            [id] => SubscriptionIds::One(*id),
            ids => SubscriptionIds::Many(Box::new(ids.into())),
        }
    }
}

/// A message to be delivered to one client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingMessage {
    /// The message.
    pub message: Body,
    /// The lower of the message's QoS and the subscription's.
    pub qos: QoS,
    /// RETAIN flag to send.
    pub retain: bool,
    /// Identifiers of the matching subscriptions.
    pub subscription_ids: SubscriptionIds,
    /// The shared subscription (`$share/group/filter`) for which this client was chosen, so that the message can be redispatched to another
    /// member when this session ends [MQTT-4.8.2-5].
    pub share: Option<Arc<str>>,
}

impl PendingMessage {
    /// Returns the bytes that the delivery counts against the limits of its session: the message counts in full, even if other sessions hold it too.
    pub fn counted_bytes(&self) -> usize {
        PendingMessage::counted_bytes_of(self.message.allocated_bytes(), &self.subscription_ids)
    }

    /// Like [`PendingMessage::counted_bytes`], for a message of this size.
    pub fn counted_bytes_of(allocated_bytes: usize, subscription_ids: &SubscriptionIds) -> usize {
        allocated_bytes + size_of::<PendingMessage>() + subscription_ids.heap_bytes()
    }
}

/// A packet that must be sent again after a reconnect [MQTT-4.4.0-1].
#[derive(Debug, PartialEq, Eq)]
pub enum Resend<'a> {
    /// PUBLISH, with DUP.
    Publish(PacketId, &'a PendingMessage),
    /// PUBREL.
    Release(PacketId),
}

#[derive(Debug, Clone, PartialEq)]
enum Slot {
    Free,
    /// PUBLISH sent; PUBACK or PUBREC is pending.
    Unacknowledged(PendingMessage),
    /// PUBREL sent; PUBCOMP is pending.
    Released,
}

impl Slot {
    fn into_delivery(self) -> Option<PendingMessage> {
        match self {
            Slot::Unacknowledged(delivery) => Some(delivery),
            Slot::Free | Slot::Released => None,
        }
    }
}

/// The total bytes of some deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct ByteTotals {
    /// See [`PendingMessage::counted_bytes`].
    counted_bytes: usize,
    /// Bytes of subscription identifiers outside of the deliveries.
    ids_bytes: usize,
    /// By how much spilled messages take less memory than is counted.
    saved_bytes: usize,
}

impl ByteTotals {
    #[inline]
    fn add(&mut self, delivery: &PendingMessage) {
        self.counted_bytes += delivery.counted_bytes();
        self.ids_bytes += delivery.subscription_ids.heap_bytes();
        if let Body::Spilled(spilled) = &delivery.message {
            self.saved_bytes += spilled.saved_bytes();
        }
    }

    #[inline]
    fn subtract(&mut self, delivery: &PendingMessage) {
        self.counted_bytes -= delivery.counted_bytes();
        self.ids_bytes -= delivery.subscription_ids.heap_bytes();
        if let Body::Spilled(spilled) = &delivery.message {
            self.saved_bytes -= spilled.saved_bytes();
        }
    }
}

/// The outbound state of a session. Packet Identifiers are assigned in sequence, so the window is a ring indexed by identifier: lookup is
/// O(1), and the order of the window is the order of sending. Messages that stay unacknowledged while many later ones are complete become
/// stragglers, so that they do not make the ring grow.
#[derive(Debug, Clone, PartialEq)]
pub struct Outbound {
    /// Messages older than the window, in the order of sending.
    stragglers: VecDeque<(PacketId, Slot)>,
    /// The Packet Identifiers of the stragglers.
    straggler_ids: PacketIdSet,
    window: VecDeque<Slot>,
    /// Packet identifier of `window[0]`.
    first: u16,
    /// The number of slots that have left the window at its front.
    left_window: u64,
    /// Slots of the window that are not free.
    occupied: usize,
    /// The number of stragglers, and then slots of the window, that were sent on the current connection.
    sent: usize,
    /// The number of those that are not free.
    in_flight: usize,
    queue: VecDeque<PendingMessage>,
    left_queue: u64,
    spill_progress: spill::SpillProgress,
    in_queue: ByteTotals,
    in_window: ByteTotals,
    /// The size of queue and window, and the size that was last reported.
    bytes: Bytes,
    reported: Bytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Bytes {
    queue: usize,
    window: usize,
}

/// A position in the sequence of Packet Identifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sequence(u16);

impl Default for Sequence {
    fn default() -> Self {
        Sequence(1)
    }
}

impl From<PacketId> for Sequence {
    fn from(id: PacketId) -> Self {
        Sequence(id.get())
    }
}

impl Default for Outbound {
    fn default() -> Self {
        Outbound::resuming(Sequence::default())
    }
}

impl Outbound {
    /// Creates an empty state whose identifiers continue at `sequence`.
    pub(crate) fn resuming(sequence: Sequence) -> Outbound {
        Outbound {
            stragglers: VecDeque::new(),
            straggler_ids: PacketIdSet::default(),
            window: VecDeque::new(),
            first: sequence.0,
            left_window: 0,
            occupied: 0,
            sent: 0,
            in_flight: 0,
            queue: VecDeque::new(),
            left_queue: 0,
            spill_progress: spill::SpillProgress::default(),
            in_queue: ByteTotals::default(),
            in_window: ByteTotals::default(),
            bytes: Bytes { queue: 0, window: size_of::<Outbound>() },
            reported: Bytes::default(),
        }
    }

    /// Returns the identifier that the next message would get if the window were empty.
    pub(crate) fn sequence(&self) -> Sequence {
        Sequence(self.id_at(self.window.len()))
    }

    /// Returns the number of messages sent on this connection and not completely acknowledged. The caller keeps it at or below the client's
    /// Receive Maximum [MQTT-3.3.4-9].
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Returns the number of messages in the queue.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Returns the bytes of queue and window together (see [`PendingMessage::counted_bytes`]).
    pub fn counted_bytes(&self) -> usize {
        self.in_queue.counted_bytes + self.in_window.counted_bytes
    }

    /// Returns the number of messages in queue and window together.
    pub fn messages(&self) -> usize {
        let is_message = |slot: &Slot| matches!(slot, Slot::Unacknowledged(_));
        let stragglers = self.stragglers.iter().filter(|(_, slot)| is_message(slot)).count();
        self.queue.len() + stragglers + self.window.iter().filter(|slot| is_message(slot)).count()
    }

    /// Returns the bytes of the queue.
    pub fn queued_bytes(&self) -> usize {
        self.in_queue.counted_bytes
    }

    /// Returns the bytes of the window, that is, of messages sent and not acknowledged.
    pub fn sent_bytes(&self) -> usize {
        self.in_window.counted_bytes
    }

    /// Returns the bytes of queue and window as last reported by [`Outbound::take_growth`]. The messages themselves are not included,
    /// because they count once for all holders.
    pub fn footprint(&self) -> Footprint<2> {
        [(Kind::Queue, self.reported.queue), (Kind::Window, self.reported.window)]
    }

    /// Returns the change of the footprint since the last call: for each kind the old and the new size.
    #[inline]
    pub fn take_growth(&mut self) -> Option<[(Kind, usize, usize); 2]> {
        if self.reported == self.bytes {
            return None;
        }
        let Bytes { queue, window } = std::mem::replace(&mut self.reported, self.bytes);
        Some([(Kind::Queue, queue, self.bytes.queue), (Kind::Window, window, self.bytes.window)])
    }

    #[cold]
    fn update_bytes(&mut self) {
        let slots_bytes = self.window.capacity() * size_of::<Slot>();
        let straggler_bytes =
            self.stragglers.capacity() * size_of::<(PacketId, Slot)>() + self.straggler_ids.heap_bytes();
        self.bytes.queue = self.queue.capacity() * size_of::<PendingMessage>() + self.in_queue.ids_bytes;
        self.bytes.window = slots_bytes + straggler_bytes + self.in_window.ids_bytes + size_of::<Outbound>();
    }

    /// Returns the number of messages that have left the queue so far, sent or not.
    pub fn left_queue(&self) -> u64 {
        self.left_queue
    }

    /// Whether nothing is left to be delivered or acknowledged.
    pub fn is_empty(&self) -> bool {
        self.stragglers.is_empty() && self.window.is_empty() && self.queue.is_empty()
    }

    /// Returns the oldest message in the queue.
    pub fn front(&self) -> Option<&PendingMessage> {
        self.queue.front()
    }

    /// Returns the newest message in the queue.
    pub fn back(&self) -> Option<&PendingMessage> {
        self.queue.back()
    }

    /// Returns the identifier that the next message will get, or `None` while all 65,535 are in use.
    pub fn next_packet_id(&self) -> Option<PacketId> {
        self.next_free().and_then(|at| PacketId::new(self.id_at(at)))
    }

    /// Whether messages are waiting to be sent, or to be sent again on this connection.
    pub fn has_unsent(&self) -> bool {
        !self.queue.is_empty() || !self.is_resent()
    }

    /// Whether the whole window was sent on this connection, so that new messages may follow.
    pub fn is_resent(&self) -> bool {
        self.sent == self.stragglers.len() + self.window.len()
    }

    /// Returns the message of the window whose PUBACK or PUBREC is pending.
    pub fn unacknowledged(&self, id: PacketId) -> Option<&PendingMessage> {
        match self.slot(id)? {
            Slot::Unacknowledged(delivery) => Some(delivery),
            _ => None,
        }
    }

    /// Whether PUBCOMP is pending for `id`.
    pub fn is_released(&self, id: PacketId) -> bool {
        matches!(self.slot(id), Some(Slot::Released))
    }

    /// Returns the identifiers for which PUBCOMP is pending and that were not sent again on this connection, in the order of sending.
    pub fn unsent_releases(&self) -> impl Iterator<Item = PacketId> + '_ {
        let stragglers = self.stragglers.iter().map(|(id, slot)| (Some(*id), slot));
        let window = self.window.iter().enumerate().map(|(at, slot)| (PacketId::new(self.id_at(at)), slot));
        let released = |(id, slot): (Option<PacketId>, &Slot)| id.filter(|_| matches!(slot, Slot::Released));
        stragglers.chain(window).skip(self.sent).filter_map(released)
    }

    /// Returns the messages in the queue, in order.
    pub(crate) fn queue(&self) -> impl Iterator<Item = &PendingMessage> {
        self.queue.iter()
    }

    /// Starts a new connection: the whole window must be sent again. Not a [`crate::Change`], because it ends with the connection.
    pub fn rewind(&mut self) {
        self.sent = 0;
        self.in_flight = 0;
    }

    /// Returns the next packet of the window to send again, in the order of first sending [MQTT-4.6.0-1].
    pub fn resend(&mut self) -> Option<Resend<'_>> {
        let at = self.next_resent();
        let stragglers = self.stragglers.len();
        let (id, slot) = match self.stragglers.get(at) {
            Some((id, slot)) => (*id, slot),
            None => (PacketId::new(self.id_at(at - stragglers))?, self.window.get(at - stragglers)?),
        };
        self.sent += 1;
        self.in_flight += 1;
        match slot {
            Slot::Unacknowledged(delivery) => Some(Resend::Publish(id, delivery)),
            Slot::Released => Some(Resend::Release(id)),
            Slot::Free => None,
        }
    }

    /// Returns the index of the next packet to send again, stragglers first, or an index past the end if there is none.
    fn next_resent(&mut self) -> usize {
        let stragglers = self.stragglers.len();
        while self.sent >= stragglers && matches!(self.window.get(self.sent - stragglers), Some(Slot::Free)) {
            self.sent += 1;
        }
        self.sent
    }

    /// Removes the next unacknowledged message, in the order of sending and then of the queue. Used to redispatch when the session ends.
    /// Returns it with the identifier under which it may have reached the client; `None` if it was in the queue.
    pub fn take_unfinished(&mut self) -> Option<(PendingMessage, Option<PacketId>)> {
        while let Some((id, slot)) = self.take_oldest() {
            if let Some(delivery) = self.done(slot) {
                return Some((delivery, id));
            }
        }
        self.withdraw().map(|delivery| (delivery, None))
    }

    fn take_oldest(&mut self) -> Option<(Option<PacketId>, Slot)> {
        if let Some((id, slot)) = self.stragglers.pop_front() {
            return Some((Some(id), slot));
        }
        let id = PacketId::new(self.first);
        self.pop_front().map(|slot| (id, slot))
    }

    pub(crate) fn enqueue(&mut self, delivery: PendingMessage) {
        self.in_queue.add(&delivery);
        let grows = self.queue.len() == self.queue.capacity() || delivery.subscription_ids.heap_bytes() > 0;
        self.queue.push_back(delivery);
        if grows {
            self.update_bytes();
        }
    }

    pub(crate) fn withdraw(&mut self) -> Option<PendingMessage> {
        let delivery = self.queue.pop_front()?;
        self.left_queue += 1;
        self.in_queue.subtract(&delivery);
        let empties = self.queue.is_empty() && self.queue.capacity() > QUEUE_KEPT;
        if empties {
            self.queue = VecDeque::new();
        }
        if empties || delivery.subscription_ids.heap_bytes() > 0 {
            self.update_bytes();
        }
        Some(delivery)
    }

    pub(crate) fn start(&mut self, delivery: PendingMessage) {
        self.move_to_stragglers();
        let Some(at) = self.next_free() else {
            debug_assert!(false, "asked for next_packet_id first");
            return;
        };
        let resent = self.is_resent();
        let capacity = self.window.capacity();
        let has_ids = delivery.subscription_ids.heap_bytes() > 0;
        self.in_window.add(&delivery);
        // Skips the identifiers of stragglers. The front of the window is never free.
        if self.window.is_empty() {
            self.first = self.id_at(at);
        } else {
            self.window.resize_with(at, || Slot::Free);
        }
        self.window.push_back(Slot::Unacknowledged(delivery));
        self.occupied += 1;
        if resent {
            self.sent = self.stragglers.len() + self.window.len();
            self.in_flight += 1;
        }
        if has_ids || self.window.capacity() != capacity {
            self.update_bytes();
        }
    }

    pub(crate) fn release(&mut self, id: PacketId) -> Option<PendingMessage> {
        let slot = self.slot_mut(id).filter(|slot| matches!(slot, Slot::Unacknowledged(_)))?;
        let started = std::mem::replace(slot, Slot::Released);
        self.done(started)
    }

    pub(crate) fn complete(&mut self, id: PacketId) -> Option<PendingMessage> {
        if let Some(at) = self.straggler(id) {
            let (_, slot) = self.stragglers.remove(at)?;
            self.straggler_ids.remove(id);
            if at < self.sent {
                self.sent -= 1;
                self.in_flight -= 1;
            }
            return self.done(slot);
        }
        let at = self.index(id);
        let is_sent = self.stragglers.len() + at < self.sent;
        // Most clients acknowledge in order, so it is usually the front, which is never free.
        let done = match at {
            0 => self.pop_front()?,
            _ => {
                let slot = self.window.get_mut(at).filter(|slot| !matches!(slot, Slot::Free))?;
                std::mem::replace(slot, Slot::Free)
            }
        };
        self.occupied -= 1;
        if is_sent {
            self.in_flight -= 1;
        }
        self.drop_free_front();
        self.done(done)
    }

    fn done(&mut self, slot: Slot) -> Option<PendingMessage> {
        let delivery = slot.into_delivery()?;
        self.in_window.subtract(&delivery);
        if delivery.subscription_ids.heap_bytes() > 0 {
            self.update_bytes();
        }
        Some(delivery)
    }

    /// Removes free slots from the front of the window.
    fn drop_free_front(&mut self) {
        while let Some(Slot::Free) = self.window.front() {
            self.pop_front();
        }
    }

    #[inline]
    fn pop_front(&mut self) -> Option<Slot> {
        let slot = self.window.pop_front()?;
        self.left_window += 1;
        self.first = self.id_at(1);
        if self.sent > self.stragglers.len() {
            self.sent -= 1;
        }
        Some(slot)
    }

    /// Moves the oldest messages out of a window that is mostly free, or that spans all identifiers.
    fn move_to_stragglers(&mut self) {
        let sparse = |outbound: &Outbound| {
            let len = outbound.window.len();
            len > SPARSE_WINDOW && len / 4 > outbound.occupied
        };
        while sparse(self) || self.window.len() == WINDOW_MAX {
            self.move_front_to_stragglers();
            self.update_bytes();
        }
    }

    /// Moves the front of the window to the stragglers.
    fn move_front_to_stragglers(&mut self) {
        let (Some(id), Some(slot)) = (PacketId::new(self.first), self.window.pop_front()) else { return };
        self.left_window += 1;
        self.first = self.id_at(1);
        self.occupied -= 1;
        self.stragglers.push_back((id, slot));
        self.straggler_ids.insert(id);
        self.drop_free_front();
    }

    /// Returns the index in the window for the next message.
    fn next_free(&self) -> Option<usize> {
        if self.straggler_ids.is_empty() {
            return (self.window.len() < WINDOW_MAX).then_some(self.window.len());
        }
        (self.window.len()..WINDOW_MAX)
            .find(|at| PacketId::new(self.id_at(*at)).is_some_and(|id| !self.straggler_ids.contains(id)))
    }

    /// Returns the index of `id` among the stragglers.
    #[inline(always)]
    fn straggler(&self, id: PacketId) -> Option<usize> {
        if self.stragglers.is_empty() { None } else { self.find_straggler(id) }
    }

    #[cold]
    fn find_straggler(&self, id: PacketId) -> Option<usize> {
        if !self.straggler_ids.contains(id) {
            return None;
        }
        self.stragglers.iter().position(|(held, _)| *held == id)
    }

    #[inline]
    fn slot(&self, id: PacketId) -> Option<&Slot> {
        match self.straggler(id) {
            Some(at) => Some(&self.stragglers[at].1),
            None => self.window.get(self.index(id)),
        }
    }

    fn slot_mut(&mut self, id: PacketId) -> Option<&mut Slot> {
        match self.straggler(id) {
            Some(at) => Some(&mut self.stragglers[at].1),
            None => {
                let at = self.index(id);
                self.window.get_mut(at)
            }
        }
    }

    /// Returns the index of `id` in the window, or an index past its end if it is not there.
    fn index(&self, id: PacketId) -> usize {
        let distance = i32::from(id.get()) - i32::from(self.first);
        if distance >= 0 { distance as usize } else { (distance + WINDOW_MAX as i32) as usize }
    }

    fn id_at(&self, index: usize) -> u16 {
        let id = usize::from(self.first) + index;
        if id > WINDOW_MAX { (id - WINDOW_MAX) as u16 } else { id as u16 }
    }
}
