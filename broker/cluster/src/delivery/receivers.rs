//! The receivers of one shard: its sessions, and the groups that it coordinates.
//!
//! A lagging receiver reads the log on its own. Each partition has one read at a time, which serves all receivers in its range. The order
//! is that of an elevator: the next read begins at the next waiting receiver, up to the position of the shard when the pass began, and then
//! at the lowest one. So no receiver starves, however fast the log grows, and receivers at nearby positions merge.

use std::collections::{BTreeMap, BTreeSet};

use crate::mutant::{Mutant, is};
use crate::names::{PARTITIONS, Partition};
use crate::record::{Cursors, Place};

use super::receiver::{DetachedCursor, Receiver};
use super::{ReadRequest, Span};

/// A receiver is due for a checkpoint after this many acknowledged messages.
pub(super) const CHECKPOINT_ACKNOWLEDGEMENTS: u32 = 256;
/// Or this long after the first of them, in milliseconds.
pub(super) const CHECKPOINT_AFTER_MS: u64 = 200;
/// Or this long after the last checkpoint, in milliseconds, so that no one has to search older data.
pub(super) const CHECKPOINT_IDLE_MS: u64 = 600_000;

/// The engine's index of a receiver in its shard.
pub type Slot = u32;

/// Why a message is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliverySource {
    /// It has just arrived.
    Live,
    /// It was read for lagging receivers.
    Read,
}

/// The log positions of the receivers of one shard.
#[derive(Debug)]
pub struct Receivers {
    partitions: Vec<PartitionState>,
    receivers: Vec<ReceiverState>,
    /// The state that all caught-up sessions share.
    caught_up: Receiver,
    /// The receivers by the time of their next checkpoint.
    due: BTreeSet<(u64, Slot)>,
    last_read: u64,
    /// The partition that reads next.
    turn: usize,
}

/// The content of a slot.
#[derive(Debug)]
enum ReceiverState {
    Vacant,
    /// A session that shares the position of the shard in all partitions, as most sessions do most of the time.
    CaughtUp,
    Receiver(Box<Receiver>),
}

/// The state of a partition in a shard.
#[derive(Debug)]
struct PartitionState {
    partition: Partition,
    /// Everything before it was offered to the receivers that share it.
    position: Place,
    /// Receivers that must read, by the first position they need.
    behind: BTreeSet<(Place, Slot)>,
    /// Receivers that wait until the position reaches theirs.
    ahead: BTreeSet<(Place, Slot)>,
    read: Option<Read>,
    /// The start of the next read, if a receiver waits there or above, and below `top`.
    next_read_at: Place,
    top: Place,
    /// Receivers of the last walk that continue at its end. They cost nothing else from one walk to the next.
    carried_over: BTreeSet<Slot>,
}

#[derive(Debug)]
enum Read {
    Asked(u64),
    Walking { walk_members: BTreeSet<Slot>, again: BTreeMap<Place, Vec<Slot>> },
}

impl Receivers {
    /// Creates the state of a shard that begins at these positions, in the order of the partitions.
    pub fn new(next: &[Place; PARTITIONS as usize]) -> Receivers {
        let state = |(partition, position): (Partition, &Place)| PartitionState {
            partition,
            position: *position,
            behind: BTreeSet::new(),
            ahead: BTreeSet::new(),
            read: None,
            next_read_at: Place::START,
            top: Place::START,
            carried_over: BTreeSet::new(),
        };
        Receivers {
            partitions: Partition::all().zip(next).map(state).collect(),
            receivers: Vec::new(),
            caught_up: Receiver::session(),
            due: BTreeSet::new(),
            last_read: 0,
            turn: 0,
        }
    }

    /// Returns the position up to which the shard has offered arriving messages.
    pub fn position(&self, partition: Partition) -> Place {
        self.partitions[partition.index()].position
    }

    /// Adds a new session at the current position.
    pub fn begin(&mut self, slot: Slot, now_ms: u64) {
        self.insert(slot, Receiver::session(), now_ms);
    }

    /// Adds a session that resumes at its cursors. Its open messages are sent again [MQTT-4.4.0-1].
    pub fn resume(&mut self, slot: Slot, cursors: &Cursors, now_ms: u64) {
        let mut receiver = Receiver::session();
        for partition in Partition::all() {
            let is_moved = is(Mutant::ResumesAtPosition);
            let next = if is_moved { self.position(partition) } else { cursors.next(partition) };
            receiver.set_back(partition, next, cursors.open(partition));
        }
        self.insert(slot, receiver, now_ms);
        Partition::all().for_each(|partition| self.list(slot, partition));
    }

    /// Adds a session whose engine itself tracks and saves what was delivered, from these positions on, or from the shard's position.
    pub fn follow(&mut self, slot: Slot, next: Option<&[Place; PARTITIONS as usize]>) {
        let Some(next) = next else { return self.put(slot, ReceiverState::CaughtUp) };
        let mut receiver = Receiver::session();
        for (partition, place) in Partition::all().zip(next) {
            receiver.set_back(partition, *place, std::iter::empty());
        }
        self.put(slot, ReceiverState::Receiver(Box::new(receiver)));
        Partition::all().for_each(|partition| self.list(slot, partition));
    }

    /// Adds a partition to a group, from these positions on. The first one creates the group.
    pub fn lease(
        &mut self,
        slot: Slot,
        partition: Partition,
        next: Place,
        open: impl Iterator<Item = Place>,
        now_ms: u64,
    ) {
        if self.peek(slot).is_none() {
            self.insert(slot, Receiver::group(), now_ms);
        }
        self.unlist(slot, partition);
        let Some(receiver) = self.receiver(slot) else { return };
        receiver.set_part(partition, true);
        receiver.set_back(partition, next, open);
        self.list(slot, partition);
    }

    /// Removes a partition from a group. Returns its next position and its open messages.
    pub fn recall(&mut self, slot: Slot, partition: Partition) -> (Place, Vec<Place>) {
        self.unlist(slot, partition);
        let position = self.position(partition);
        let Some(receiver) = self.receiver(slot) else { return (position, Vec::new()) };
        let (next, open) = (receiver.next(partition, position), receiver.open_in(partition).collect::<Vec<_>>());
        receiver.set_part(partition, false);
        receiver.share(partition);
        for place in &open {
            receiver.close(partition, *place);
        }
        (next, open)
    }

    /// Removes a receiver. Its slot may be reused.
    pub fn remove(&mut self, slot: Slot) {
        Partition::all().for_each(|partition| self.unlist(slot, partition));
        if let Some(known) = self.receivers.get_mut(slot as usize)
            && let ReceiverState::Receiver(receiver) = std::mem::replace(known, ReceiverState::Vacant)
        {
            self.due.remove(&(receiver.due_ms, slot));
        }
    }

    /// Whether this shard delivers a partition of a group. A QoS 0 message is for a group's members here if this holds for the partition of
    /// its topic: so one member of all nodes receives it.
    pub fn has_lease(&self, slot: Slot, partition: Partition) -> bool {
        self.peek(slot).is_some_and(|receiver| receiver.takes_part(partition))
    }

    /// Returns the leased partitions of a group, each with its next position and its open messages.
    pub fn leases(&self, slot: Slot) -> Vec<(Partition, Place, Vec<Place>)> {
        let Some(receiver) = self.peek(slot) else { return Vec::new() };
        let leased = self.partitions.iter().filter(|state| receiver.takes_part(state.partition));
        let lease = |state: &PartitionState| {
            let open = receiver.open_in(state.partition).collect();
            (state.partition, receiver.next(state.partition, state.position), open)
        };
        leased.map(lease).collect()
    }

    /// Returns the first position of a partition that a receiver has not processed.
    pub fn next(&self, slot: Slot, partition: Partition) -> Place {
        let position = self.position(partition);
        self.peek(slot).map_or(position, |receiver| receiver.next(partition, position))
    }

    /// Returns the cursors of a session for a checkpoint.
    pub fn cursors(&self, slot: Slot) -> Option<Cursors> {
        let receiver = self.peek(slot)?;
        let mut next = self.partitions.iter().map(|state| match is(Mutant::SavesPosition) {
            true => state.position,
            false => receiver.next(state.partition, state.position),
        });
        let next = std::array::from_fn(|_| next.next().unwrap_or(Place::START));
        let open = receiver.all_open().filter(|_| !is(Mutant::OmitsOpenMessages));
        Some(Cursors::with_open_messages(next, open))
    }

    /// Whether a receiver should get the message at a position if it matches.
    pub fn wants(&self, slot: Slot, partition: Partition, place: Place, walk: DeliverySource) -> bool {
        let Some(receiver) = self.peek(slot) else { return false };
        if !receiver.takes_part(partition) {
            return false;
        }
        match (receiver.detached(partition), walk) {
            (None, DeliverySource::Live) => true,
            (None, DeliverySource::Read) => false,
            (Some(detached), DeliverySource::Live) => {
                let caught_up = detached.is_caught_up(self.position(partition));
                detached.next <= place
                    && (caught_up || is(Mutant::OffersToLaggingSessions) && detached.blocked_at.is_none())
            }
            (Some(detached), DeliverySource::Read) => {
                detached.is_in_walk && detached.blocked_at.is_none() && detached.next <= place
            }
        }
    }

    /// Marks a message as delivered to a receiver. It is open until [`complete`](Receivers::complete).
    pub fn mark_delivered(&mut self, slot: Slot, partition: Partition, place: Place) {
        let is_listed = self.unlist_unless_in_walk(slot, partition);
        let Some(receiver) = self.receiver(slot) else { return };
        receiver.open(partition, place);
        if let Some(detached) = receiver.detached_mut(partition) {
            detached.next = detached.next.max(place.behind());
        }
        if is_listed {
            self.list(slot, partition);
        }
    }

    /// Marks a message as delivered to a session that [follows](Receivers::follow) the log. It is not offered again.
    pub fn take(&mut self, slot: Slot, partition: Partition, place: Place) {
        if self.peek(slot).is_none_or(|receiver| receiver.detached(partition).is_none()) {
            return;
        }
        let is_listed = self.unlist_unless_in_walk(slot, partition);
        if let Some(detached) = self.receiver(slot).and_then(|receiver| receiver.detached_mut(partition)) {
            detached.next = detached.next.max(place.behind());
        }
        if is_listed {
            self.list(slot, partition);
        }
    }

    /// Marks that a receiver has no capacity for a message. It gets that message and all later ones after [`unblock`](Receivers::unblock).
    pub fn block(&mut self, slot: Slot, partition: Partition, place: Place) {
        if is(Mutant::SkipsMessageWithoutCapacity) {
            return;
        }
        let is_listed = self.unlist_unless_in_walk(slot, partition);
        let position = self.position(partition);
        let Some(receiver) = self.receiver(slot) else { return };
        let is_open = receiver.is_open(partition, place);
        let detached = receiver.set_detached(partition, position);
        (detached.blocked_at, detached.is_unblocked) = (Some(place), false);
        detached.has_skipped = !detached.is_in_walk;
        if is_open {
            detached.again.insert(place);
        } else {
            detached.next = place;
        }
        if is_listed {
            self.list(slot, partition);
        }
    }

    /// Marks that a blocked receiver has capacity again.
    pub fn unblock(&mut self, slot: Slot) {
        let Some(receiver) = individual(&mut self.receivers, slot) else { return };
        let mut free = Vec::new();
        for detached in receiver.detached.iter_mut().filter(|detached| detached.blocked_at.is_some()) {
            if detached.is_in_walk {
                // Messages after the blocked one were skipped in this walk.
                detached.is_unblocked = true;
            } else {
                detached.blocked_at = None;
                free.push(detached.partition);
            }
        }
        free.into_iter().for_each(|partition| self.list(slot, partition));
    }

    /// Marks a message as acknowledged. Returns whether it was open.
    pub fn complete(&mut self, slot: Slot, partition: Partition, place: Place, now_ms: u64) -> bool {
        let is_listed = self.unlist_unless_in_walk(slot, partition);
        let position = self.position(partition);
        let Some(receiver) = self.receiver(slot) else { return false };
        let was_open = receiver.close(partition, place);
        if let Some(detached) = receiver.detached_mut(partition) {
            detached.again.remove(&place);
        }
        receiver.acknowledged += u32::from(was_open);
        let due_ms = match receiver.acknowledged {
            CHECKPOINT_ACKNOWLEDGEMENTS.. => receiver.due_ms.min(now_ms),
            _ => receiver.due_ms.min(now_ms + CHECKPOINT_AFTER_MS),
        };
        if was_open && receiver.detached(partition).is_none() && position < place.behind() {
            // The shard has not passed it yet: the receiver is ahead until it has.
            receiver.set_detached(partition, place.behind());
        }
        if was_open {
            self.set_due(slot, due_ms);
        }
        if is_listed {
            self.list(slot, partition);
        }
        was_open
    }

    /// Offers an open message of a group again, because its receiver is gone without having acknowledged it.
    pub fn requeue(&mut self, slot: Slot, partition: Partition, place: Place) {
        let is_listed = self.unlist_unless_in_walk(slot, partition);
        let position = self.position(partition);
        let Some(receiver) = self.receiver(slot) else { return };
        if receiver.is_open(partition, place) {
            let next = receiver.next(partition, position);
            let detached = receiver.set_detached(partition, next);
            detached.again.insert(place);
        }
        if is_listed {
            self.list(slot, partition);
        }
    }

    /// Everything before `next` was offered to all caught-up receivers.
    pub fn pass(&mut self, partition: Partition, next: Place) {
        let state = &mut self.partitions[partition.index()];
        state.position = state.position.max(next);
        while let Some((place, slot)) = state.ahead.first().copied()
            && place <= state.position
        {
            state.ahead.remove(&(place, slot));
            share(&mut self.receivers, slot, partition);
        }
    }

    /// Returns the next range to read, or `None` if everything needed is being read.
    pub fn next_read_range(&mut self) -> Option<ReadRequest> {
        for _ in 0..self.partitions.len() {
            self.turn = (self.turn + 1) % self.partitions.len();
            let state = &mut self.partitions[self.turn];
            if state.read.is_some() {
                continue;
            }
            let Some(place) = state.next_stop() else { continue };
            self.last_read += 1;
            state.read = Some(Read::Asked(self.last_read));
            let from = place.sequence;
            return Some(ReadRequest { number: self.last_read, partition: state.partition, from });
        }
        None
    }

    /// A span was read. Returns whether it is still needed; if so, [`end_walk`](Receivers::end_walk) must follow.
    pub fn begin_walk(&mut self, number: u64, span: &Span) -> bool {
        let state = &mut self.partitions[span.partition.index()];
        if !matches!(state.read, Some(Read::Asked(asked)) if asked == number) {
            return false;
        }
        state.next_read_at = span.end();
        let first = Place { sequence: span.from, index: 0 };
        let inside: Vec<_> = state.behind.range((first, 0)..(span.end(), 0)).copied().collect();
        let (mut walk_members, mut again) = (std::mem::take(&mut state.carried_over), BTreeMap::<_, Vec<_>>::new());
        for (next_to_read, slot) in inside {
            state.behind.remove(&(next_to_read, slot));
            let receiver = individual(&mut self.receivers, slot);
            let Some(detached) = receiver.and_then(|receiver| receiver.detached_mut(span.partition)) else { continue };
            (detached.is_in_walk, detached.has_skipped) = (true, false);
            detached.again.range(..span.end()).for_each(|place| again.entry(*place).or_default().push(slot));
            walk_members.insert(slot);
        }
        let is_wanted = !walk_members.is_empty();
        state.read = is_wanted.then_some(Read::Walking { walk_members, again });
        is_wanted
    }

    /// Returns the receivers of the current walk through a partition.
    pub fn walk_members(&self, partition: Partition) -> impl Iterator<Item = Slot> {
        let walk_members = match &self.partitions[partition.index()].read {
            Some(Read::Walking { walk_members, .. }) => Some(walk_members),
            _ => None,
        };
        walk_members.into_iter().flatten().copied()
    }

    /// Returns the receivers that must get the message at a position again.
    pub fn again(&mut self, partition: Partition, place: Place) -> Vec<Slot> {
        let Some(Read::Walking { again, .. }) = &mut self.partitions[partition.index()].read else { return Vec::new() };
        let mut slots = again.remove(&place).unwrap_or_default();
        slots.retain(|slot| {
            let receiver = individual(&mut self.receivers, *slot);
            let detached = receiver.and_then(|receiver| receiver.detached_mut(partition));
            detached.is_some_and(|detached| {
                detached.is_in_walk && detached.blocked_at.is_none() && detached.again.remove(&place)
            })
        });
        slots
    }

    /// Ends a walk, after the whole span was offered. Returns the open messages that are no longer in the log.
    pub fn end_walk(&mut self, span: &Span) -> Vec<(Slot, Place)> {
        let partition = span.partition;
        let Some(Read::Walking { walk_members, again }) = self.partitions[partition.index()].read.take() else {
            return Vec::new();
        };
        // Messages that were offered are no longer in `again`.
        let left = again.into_iter().flat_map(|(place, slots)| slots.into_iter().map(move |slot| (slot, place)));
        let lost: Vec<_> = left.filter(|(slot, place)| self.forget(*slot, partition, *place)).collect();
        let top = self.partitions[partition.index()].top.min(self.position(partition));
        for slot in walk_members {
            if is(Mutant::CatchesUpTooEarly) {
                share(&mut self.receivers, slot, partition);
                continue;
            }
            let Some(receiver) = individual(&mut self.receivers, slot) else { continue };
            let Some(detached) = receiver.detached_mut(partition) else { continue };
            if detached.blocked_at.is_none() {
                detached.next = detached.next.max(span.end());
            }
            if std::mem::take(&mut detached.is_unblocked) {
                detached.blocked_at = None;
            }
            let is_plain = detached.again.is_empty() && detached.blocked_at.is_none();
            let reads_on = is_plain && detached.next == span.end() && span.end() < top;
            detached.is_in_walk = reads_on;
            if reads_on {
                self.partitions[partition.index()].carried_over.insert(slot);
            } else {
                self.list(slot, partition);
            }
        }
        lost
    }

    /// Drops an open message that is no longer in the log. Returns whether there was one.
    fn forget(&mut self, slot: Slot, partition: Partition, place: Place) -> bool {
        let Some(receiver) = individual(&mut self.receivers, slot) else { return false };
        let detached = receiver.detached_mut(partition).filter(|detached| detached.is_in_walk);
        detached.is_some_and(|detached| detached.again.remove(&place)) && receiver.close(partition, place)
    }

    /// A receiver was saved with the result of [`cursors`](Receivers::cursors).
    pub fn checkpointed(&mut self, slot: Slot, now_ms: u64) {
        if let Some(receiver) = individual(&mut self.receivers, slot) {
            receiver.acknowledged = 0;
            self.set_due(slot, now_ms + CHECKPOINT_IDLE_MS);
        }
    }

    /// Returns the next receiver that is due for a checkpoint, and counts it as saved.
    pub fn next_due(&mut self, now_ms: u64) -> Option<Slot> {
        let (_, slot) = self.due.first().copied().filter(|(due_ms, _)| *due_ms <= now_ms)?;
        self.checkpointed(slot, now_ms);
        Some(slot)
    }

    /// Returns the time of the next result of [`next_due`](Receivers::next_due).
    pub fn next_due_ms(&self) -> Option<u64> {
        self.due.first().map(|(due_ms, _)| *due_ms)
    }

    /// Whether a receiver has as many open messages as its record can hold. It has no capacity then, whatever its clients could take.
    pub fn is_full(&self, slot: Slot, partition: Partition) -> bool {
        self.peek(slot).is_some_and(|receiver| receiver.is_full(partition))
    }

    /// Returns the receiver in a slot.
    fn peek(&self, slot: Slot) -> Option<&Receiver> {
        match self.receivers.get(slot as usize)? {
            ReceiverState::Vacant => None,
            ReceiverState::CaughtUp => Some(&self.caught_up),
            ReceiverState::Receiver(receiver) => Some(receiver),
        }
    }

    /// Returns the receiver in a slot, creating individual state if needed.
    fn receiver(&mut self, slot: Slot) -> Option<&mut Receiver> {
        let known = self.receivers.get_mut(slot as usize)?;
        if let ReceiverState::CaughtUp = known {
            *known = ReceiverState::Receiver(Box::new(Receiver::session()));
        }
        individual(&mut self.receivers, slot)
    }

    fn insert(&mut self, slot: Slot, receiver: Receiver, now_ms: u64) {
        self.put(slot, ReceiverState::Receiver(Box::new(receiver)));
        self.set_due(slot, now_ms + CHECKPOINT_IDLE_MS);
    }

    fn put(&mut self, slot: Slot, known: ReceiverState) {
        self.remove(slot);
        let at = slot as usize;
        if self.receivers.len() <= at {
            self.receivers.resize_with(at + 1, || ReceiverState::Vacant);
        }
        self.receivers[at] = known;
    }

    fn set_due(&mut self, slot: Slot, due_ms: u64) {
        let Some(receiver) = individual(&mut self.receivers, slot) else { return };
        if receiver.due_ms == due_ms {
            return;
        }
        self.due.remove(&(receiver.due_ms, slot));
        receiver.due_ms = due_ms;
        self.due.insert((due_ms, slot));
    }

    /// Lists a receiver in a partition by its position: sharing, ahead, or behind.
    fn list(&mut self, slot: Slot, partition: Partition) {
        let state = &mut self.partitions[partition.index()];
        let Some(receiver) = individual(&mut self.receivers, slot) else { return };
        let Some(detached) =
            receiver.detached(partition).filter(|detached| !detached.is_in_walk && detached.blocked_at.is_none())
        else {
            return;
        };
        if !detached.is_caught_up(state.position) {
            state.behind.insert((detached.next_to_read(), slot));
        } else if detached.next == state.position {
            share(&mut self.receivers, slot, partition);
        } else {
            state.ahead.insert((detached.next, slot));
        }
    }

    /// Removes a receiver from all lists of a partition, and from the walk.
    fn unlist(&mut self, slot: Slot, partition: Partition) {
        self.unlist_unless_in_walk(slot, partition);
        let state = &mut self.partitions[partition.index()];
        if let Some(Read::Walking { walk_members, .. }) = &mut state.read {
            walk_members.remove(&slot);
        }
        state.carried_over.remove(&slot);
        if let Some(detached) =
            individual(&mut self.receivers, slot).and_then(|receiver| receiver.detached_mut(partition))
        {
            detached.is_in_walk = false;
        }
    }

    /// Returns whether the receiver must be listed again.
    fn unlist_unless_in_walk(&mut self, slot: Slot, partition: Partition) -> bool {
        let state = &mut self.partitions[partition.index()];
        let receiver = individual(&mut self.receivers, slot);
        let Some(detached) = receiver.and_then(|receiver| receiver.detached(partition)) else { return true };
        if detached.is_in_walk {
            return false;
        }
        state.behind.remove(&(detached.next_to_read(), slot));
        state.ahead.remove(&(detached.next, slot));
        true
    }
}

/// Returns the receiver in a slot, if it has individual state.
fn individual(receivers: &mut [ReceiverState], slot: Slot) -> Option<&mut Receiver> {
    match receivers.get_mut(slot as usize)? {
        ReceiverState::Vacant | ReceiverState::CaughtUp => None,
        ReceiverState::Receiver(receiver) => Some(receiver),
    }
}

/// Lets a receiver share the position in a partition.
fn share(receivers: &mut [ReceiverState], slot: Slot, partition: Partition) {
    let Some(known) = receivers.get_mut(slot as usize) else { return };
    if let ReceiverState::Receiver(receiver) = known {
        receiver.share(partition);
        if receiver.is_plain() {
            *known = ReceiverState::CaughtUp;
        }
    }
}

impl PartitionState {
    /// Returns the start of the next read.
    fn next_stop(&mut self) -> Option<Place> {
        if !self.carried_over.is_empty() {
            return Some(self.next_read_at);
        }
        let (next_read_at, top) = (self.next_read_at, self.top.max(self.next_read_at));
        if let Some((place, _)) = self.behind.range((next_read_at, 0)..(top, 0)).next() {
            return Some(*place);
        }
        self.top = self.position;
        self.behind.first().map(|(place, _)| *place)
    }
}

impl Receiver {
    /// Resets a partition to a saved position.
    fn set_back(&mut self, partition: Partition, next: Place, open: impl Iterator<Item = Place>) {
        let mut detached = DetachedCursor::new(partition, next);
        for place in open {
            self.open(partition, place);
            if !is(Mutant::SkipsOpenMessages) {
                detached.again.insert(place);
            }
        }
        self.share(partition);
        self.detached.push(detached);
    }
}
