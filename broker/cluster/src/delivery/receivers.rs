//! The receivers of one shard: sessions, and the groups that are at home there.
//!
//! A receiver that is behind reads the log itself. Of each partition one span is read at a time, and all who are in it ride along. Like a lift, the
//! next read begins at the next one who waits, up to where the shard stood when it went up, and then at the lowest: nobody waits for ever, however
//! fast the log grows, and those who stand close together become one.

use std::collections::{BTreeMap, BTreeSet};

use crate::mutant::{Mutant, is};
use crate::names::{PARTITIONS, Partition};
use crate::record::{Cursors, Place};

use super::receiver::{DetachedCursor, Receiver};
use super::{ReadRequest, Span};

/// A receiver is saved when so many of its messages have been acknowledged.
pub(super) const CHECKPOINT_ACKNOWLEDGEMENTS: u32 = 256;
/// Or so long after the first of them, in milliseconds.
pub(super) const CHECKPOINT_AFTER_MS: u64 = 200;
/// Or so long after it was saved last, in milliseconds: so that nobody has to look for messages in what is older.
pub(super) const CHECKPOINT_IDLE_MS: u64 = 600_000;

/// The engine's index of a receiver in its shard.
pub type Slot = u32;

/// How a message comes to be offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliverySource {
    /// It has arrived.
    Live,
    /// It was read for those who are behind.
    Read,
}

/// How far the receivers of one shard have come.
#[derive(Debug)]
pub struct Receivers {
    partitions: Vec<PartitionState>,
    receivers: Vec<ReceiverState>,
    /// What all sessions are that keep up.
    caught_up: Receiver,
    /// When each is to be saved.
    due: BTreeSet<(u64, Slot)>,
    last_read: u64,
    /// The partition that reads next.
    turn: usize,
}

/// What a slot stands for.
#[derive(Debug)]
enum ReceiverState {
    Vacant,
    /// A session that shares the position of the shard in all partitions: most do, most of the time.
    CaughtUp,
    Receiver(Box<Receiver>),
}

/// A partition, as the shard sees it.
#[derive(Debug)]
struct PartitionState {
    partition: Partition,
    /// All before it has been offered to those who share it.
    position: Place,
    /// Who has to read, by what is wanted first.
    behind: BTreeSet<(Place, Slot)>,
    /// Who waits for the position to come to its place.
    ahead: BTreeSet<(Place, Slot)>,
    read: Option<Read>,
    /// Where the next read begins, if somebody waits there or above, and below `top`.
    next_read_at: Place,
    top: Place,
    /// Who has ridden along and reads on from there: many who came at once cost nothing but this from one walk to the next.
    carried_over: BTreeSet<Slot>,
}

#[derive(Debug)]
enum Read {
    Asked(u64),
    Walking { walk_members: BTreeSet<Slot>, again: BTreeMap<Place, Vec<Slot>> },
}

impl Receivers {
    /// A shard that begins here, in the order of the partitions.
    pub fn new(next: &[Place; PARTITIONS as usize]) -> Receivers {
        let way = |(partition, position): (Partition, &Place)| PartitionState {
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
            partitions: Partition::all().zip(next).map(way).collect(),
            receivers: Vec::new(),
            caught_up: Receiver::session(),
            due: BTreeSet::new(),
            last_read: 0,
            turn: 0,
        }
    }

    /// Up to where the shard has offered what arrives.
    pub fn position(&self, partition: Partition) -> Place {
        self.partitions[partition.index()].position
    }

    /// A session that begins here.
    pub fn begin(&mut self, slot: Slot, now_ms: u64) {
        self.insert(slot, Receiver::session(), now_ms);
    }

    /// A session that goes on where it was. Its open messages are sent again [MQTT-4.4.0-1].
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

    /// A session whose engine keeps account of what it has taken, and saves it: from these places on, or from where the shard stands.
    pub fn follow(&mut self, slot: Slot, next: Option<&[Place; PARTITIONS as usize]>) {
        let Some(next) = next else { return self.put(slot, ReceiverState::CaughtUp) };
        let mut receiver = Receiver::session();
        for (partition, place) in Partition::all().zip(next) {
            receiver.set_back(partition, *place, std::iter::empty());
        }
        self.put(slot, ReceiverState::Receiver(Box::new(receiver)));
        Partition::all().for_each(|partition| self.list(slot, partition));
    }

    /// A partition of a group goes on here. A group begins with its first one.
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

    /// A partition of a group goes elsewhere: how far it has come, and what is open.
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

    /// A receiver is gone. Its slot may be given again.
    pub fn remove(&mut self, slot: Slot) {
        Partition::all().for_each(|partition| self.unlist(slot, partition));
        if let Some(known) = self.receivers.get_mut(slot as usize)
            && let ReceiverState::Receiver(receiver) = std::mem::replace(known, ReceiverState::Vacant)
        {
            self.due.remove(&(receiver.due_ms, slot));
        }
    }

    /// Whether this shard delivers a partition of a group. A message of QoS 0 is for a group's members here if this is so for its topic's partition:
    /// then one member gets it, of all nodes.
    pub fn has_lease(&self, slot: Slot, partition: Partition) -> bool {
        self.peek(slot).is_some_and(|receiver| receiver.takes_part(partition))
    }

    /// How far a group has come in the partitions that are leased here, and what is open.
    pub fn leases(&self, slot: Slot) -> Vec<(Partition, Place, Vec<Place>)> {
        let Some(receiver) = self.peek(slot) else { return Vec::new() };
        let leased = self.partitions.iter().filter(|way| receiver.takes_part(way.partition));
        let lease = |way: &PartitionState| {
            let open = receiver.open_in(way.partition).collect();
            (way.partition, receiver.next(way.partition, way.position), open)
        };
        leased.map(lease).collect()
    }

    /// The first place of a partition that a receiver has not looked at.
    pub fn next(&self, slot: Slot, partition: Partition) -> Place {
        let position = self.position(partition);
        self.peek(slot).map_or(position, |receiver| receiver.next(partition, position))
    }

    /// How far a session has come, as it is saved.
    pub fn cursors(&self, slot: Slot) -> Option<Cursors> {
        let receiver = self.peek(slot)?;
        let mut next = self.partitions.iter().map(|way| match is(Mutant::SavesPosition) {
            true => way.position,
            false => receiver.next(way.partition, way.position),
        });
        let next = std::array::from_fn(|_| next.next().unwrap_or(Place::START));
        let open = receiver.all_open().filter(|_| !is(Mutant::SavesNothingOpen));
        Some(Cursors::with_open_messages(next, open))
    }

    /// Whether a receiver is to get the message at a place, if it matches.
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
                    && (caught_up || is(Mutant::OffersToThoseBehind) && detached.blocked_at.is_none())
            }
            (Some(detached), DeliverySource::Read) => {
                detached.is_in_walk && detached.blocked_at.is_none() && detached.next <= place
            }
        }
    }

    /// A message goes to a receiver that wants it, and is open until [`complete`](Receivers::complete).
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

    /// A message goes to a session that [follows](Receivers::follow) the log, and wants it. It is not looked at again.
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

    /// There is no room for a message that a receiver wants. It gets the message, and all behind it, when [`has_room`](Receivers::has_room) has
    /// been said.
    pub fn block(&mut self, slot: Slot, partition: Partition, place: Place) {
        if is(Mutant::ForgetsToHold) {
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

    /// A receiver that had no room has some again.
    pub fn unblock(&mut self, slot: Slot) {
        let Some(receiver) = own(&mut self.receivers, slot) else { return };
        let mut free = Vec::new();
        for detached in receiver.detached.iter_mut().filter(|detached| detached.blocked_at.is_some()) {
            if detached.is_in_walk {
                // What is behind the held message has been passed over in this walk.
                detached.is_unblocked = true;
            } else {
                detached.blocked_at = None;
                free.push(detached.partition);
            }
        }
        free.into_iter().for_each(|partition| self.list(slot, partition));
    }

    /// The message at a place has been acknowledged. Gives whether it was open.
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

    /// Who had a message of a group is gone without having acknowledged it. It is offered again.
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

    /// All before `next` has been offered to all who keep up.
    pub fn pass(&mut self, partition: Partition, next: Place) {
        let way = &mut self.partitions[partition.index()];
        way.position = way.position.max(next);
        while let Some((place, slot)) = way.ahead.first().copied()
            && place <= way.position
        {
            way.ahead.remove(&(place, slot));
            share(&mut self.receivers, slot, partition);
        }
    }

    /// What is to be read next; `None` where all is being read that has to be.
    pub fn next_read_range(&mut self) -> Option<ReadRequest> {
        for _ in 0..self.partitions.len() {
            self.turn = (self.turn + 1) % self.partitions.len();
            let way = &mut self.partitions[self.turn];
            if way.read.is_some() {
                continue;
            }
            let Some(place) = way.next_stop() else { continue };
            self.last_read += 1;
            way.read = Some(Read::Asked(self.last_read));
            let from = place.sequence;
            return Some(ReadRequest { number: self.last_read, partition: way.partition, from });
        }
        None
    }

    /// A span has been read. Gives whether anybody still wants it; then [`end_walk`](Receivers::end_walk) follows.
    pub fn begin_walk(&mut self, number: u64, span: &Span) -> bool {
        let way = &mut self.partitions[span.partition.index()];
        if !matches!(way.read, Some(Read::Asked(asked)) if asked == number) {
            return false;
        }
        way.next_read_at = span.end();
        let first = Place { sequence: span.from, index: 0 };
        let inside: Vec<_> = way.behind.range((first, 0)..(span.end(), 0)).copied().collect();
        let (mut walk_members, mut again) = (std::mem::take(&mut way.carried_over), BTreeMap::<_, Vec<_>>::new());
        for (wanted, slot) in inside {
            way.behind.remove(&(wanted, slot));
            let receiver = own(&mut self.receivers, slot);
            let Some(detached) = receiver.and_then(|receiver| receiver.detached_mut(span.partition)) else { continue };
            (detached.is_in_walk, detached.has_skipped) = (true, false);
            detached.again.range(..span.end()).for_each(|place| again.entry(*place).or_default().push(slot));
            walk_members.insert(slot);
        }
        let is_wanted = !walk_members.is_empty();
        way.read = is_wanted.then_some(Read::Walking { walk_members, again });
        is_wanted
    }

    /// Who rides along in the walk through a partition.
    pub fn walk_members(&self, partition: Partition) -> impl Iterator<Item = Slot> {
        let walk_members = match &self.partitions[partition.index()].read {
            Some(Read::Walking { walk_members, .. }) => Some(walk_members),
            _ => None,
        };
        walk_members.into_iter().flatten().copied()
    }

    /// Who is to get the message at a place again.
    pub fn again(&mut self, partition: Partition, place: Place) -> Vec<Slot> {
        let Some(Read::Walking { again, .. }) = &mut self.partitions[partition.index()].read else { return Vec::new() };
        let mut slots = again.remove(&place).unwrap_or_default();
        slots.retain(|slot| {
            let receiver = own(&mut self.receivers, *slot);
            let detached = receiver.and_then(|receiver| receiver.detached_mut(partition));
            detached.is_some_and(|detached| {
                detached.is_in_walk && detached.blocked_at.is_none() && detached.again.remove(&place)
            })
        });
        slots
    }

    /// A walk is over: all of the span has been offered. Gives the messages that were open and are not in the log any more.
    pub fn end_walk(&mut self, span: &Span) -> Vec<(Slot, Place)> {
        let partition = span.partition;
        let Some(Read::Walking { walk_members, again }) = self.partitions[partition.index()].read.take() else {
            return Vec::new();
        };
        // What has been offered is not in `again` any more.
        let left = again.into_iter().flat_map(|(place, slots)| slots.into_iter().map(move |slot| (slot, place)));
        let lost: Vec<_> = left.filter(|(slot, place)| self.forget(*slot, partition, *place)).collect();
        let top = self.partitions[partition.index()].top.min(self.position(partition));
        for slot in walk_members {
            if is(Mutant::CatchesUpTooEarly) {
                share(&mut self.receivers, slot, partition);
                continue;
            }
            let Some(receiver) = own(&mut self.receivers, slot) else { continue };
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

    /// An open message that was to be sent again is not in the log any more. Gives whether there was one.
    fn forget(&mut self, slot: Slot, partition: Partition, place: Place) -> bool {
        let Some(receiver) = own(&mut self.receivers, slot) else { return false };
        let detached = receiver.detached_mut(partition).filter(|detached| detached.is_in_walk);
        detached.is_some_and(|detached| detached.again.remove(&place)) && receiver.close(partition, place)
    }

    /// A receiver has been saved as [`cursors`](Receivers::cursors) says.
    pub fn checkpointed(&mut self, slot: Slot, now_ms: u64) {
        if let Some(receiver) = own(&mut self.receivers, slot) {
            receiver.acknowledged = 0;
            self.set_due(slot, now_ms + CHECKPOINT_IDLE_MS);
        }
    }

    /// The next receiver that is to be saved, and counts as saved now.
    pub fn next_due(&mut self, now_ms: u64) -> Option<Slot> {
        let (_, slot) = self.due.first().copied().filter(|(due_ms, _)| *due_ms <= now_ms)?;
        self.checkpointed(slot, now_ms);
        Some(slot)
    }

    /// When [`next_due`](Receivers::next_due) gives something next.
    pub fn next_due_ms(&self) -> Option<u64> {
        self.due.first().map(|(due_ms, _)| *due_ms)
    }

    /// Whether a receiver has as many open messages as its record may name. It has no room then, whatever its clients could take.
    pub fn is_full(&self, slot: Slot, partition: Partition) -> bool {
        self.peek(slot).is_some_and(|receiver| receiver.is_full(partition))
    }

    /// Who has a slot.
    fn peek(&self, slot: Slot) -> Option<&Receiver> {
        match self.receivers.get(slot as usize)? {
            ReceiverState::Vacant => None,
            ReceiverState::CaughtUp => Some(&self.caught_up),
            ReceiverState::Receiver(receiver) => Some(receiver),
        }
    }

    /// Who has a slot, to be given something of its own.
    fn receiver(&mut self, slot: Slot) -> Option<&mut Receiver> {
        let known = self.receivers.get_mut(slot as usize)?;
        if let ReceiverState::CaughtUp = known {
            *known = ReceiverState::Receiver(Box::new(Receiver::session()));
        }
        own(&mut self.receivers, slot)
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
        let Some(receiver) = own(&mut self.receivers, slot) else { return };
        if receiver.due_ms == due_ms {
            return;
        }
        self.due.remove(&(receiver.due_ms, slot));
        receiver.due_ms = due_ms;
        self.due.insert((due_ms, slot));
    }

    /// Puts a receiver where it belongs in a partition: it shares the position, waits for it, or has to read.
    fn list(&mut self, slot: Slot, partition: Partition) {
        let way = &mut self.partitions[partition.index()];
        let Some(receiver) = own(&mut self.receivers, slot) else { return };
        let Some(detached) =
            receiver.detached(partition).filter(|detached| !detached.is_in_walk && detached.blocked_at.is_none())
        else {
            return;
        };
        if !detached.is_caught_up(way.position) {
            way.behind.insert((detached.wanted(), slot));
        } else if detached.next == way.position {
            share(&mut self.receivers, slot, partition);
        } else {
            way.ahead.insert((detached.next, slot));
        }
    }

    /// Takes a receiver off all lists of a partition, and out of the walk.
    fn unlist(&mut self, slot: Slot, partition: Partition) {
        self.unlist_unless_in_walk(slot, partition);
        let way = &mut self.partitions[partition.index()];
        if let Some(Read::Walking { walk_members, .. }) = &mut way.read {
            walk_members.remove(&slot);
        }
        way.carried_over.remove(&slot);
        if let Some(detached) = own(&mut self.receivers, slot).and_then(|receiver| receiver.detached_mut(partition)) {
            detached.is_in_walk = false;
        }
    }

    /// Gives whether the receiver is to be listed again.
    fn unlist_unless_in_walk(&mut self, slot: Slot, partition: Partition) -> bool {
        let way = &mut self.partitions[partition.index()];
        let receiver = own(&mut self.receivers, slot);
        let Some(detached) = receiver.and_then(|receiver| receiver.detached(partition)) else { return true };
        if detached.is_in_walk {
            return false;
        }
        way.behind.remove(&(detached.wanted(), slot));
        way.ahead.remove(&(detached.next, slot));
        true
    }
}

/// Who has a slot and has something of its own.
fn own(receivers: &mut [ReceiverState], slot: Slot) -> Option<&mut Receiver> {
    match receivers.get_mut(slot as usize)? {
        ReceiverState::Vacant | ReceiverState::CaughtUp => None,
        ReceiverState::Receiver(receiver) => Some(receiver),
    }
}

/// A receiver shares the position in a partition from now on.
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
    /// Where the next read begins.
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
    /// Sets a partition to where it was saved.
    fn set_back(&mut self, partition: Partition, next: Place, open: impl Iterator<Item = Place>) {
        let mut detached = DetachedCursor::new(partition, next);
        for place in open {
            self.open(partition, place);
            if !is(Mutant::ForgetsOpen) {
                detached.again.insert(place);
            }
        }
        self.share(partition);
        self.detached.push(detached);
    }
}
