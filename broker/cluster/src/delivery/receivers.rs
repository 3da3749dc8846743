//! The receivers of one shard: sessions, and the groups that are at home there.
//!
//! A receiver that is behind reads the log itself. Of each partition one span is read at a time, and all who are in it ride along. Like a lift, the
//! next read begins at the next one who waits, up to where the shard stood when it went up, and then at the lowest: nobody waits for ever, however
//! fast the log grows, and those who stand close together become one.

use std::collections::{BTreeMap, BTreeSet};

use crate::mutant::{Mutant, is};
use crate::names::{PARTITIONS, Partition};
use crate::record::{Cursors, Place};

use super::receiver::{Apart, Receiver};
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
pub enum Walk {
    /// It has arrived.
    Live,
    /// It was read for those who are behind.
    Read,
}

/// How far the receivers of one shard have come.
#[derive(Debug)]
pub struct Receivers {
    ways: Vec<Way>,
    receivers: Vec<Known>,
    /// What all sessions are that keep up.
    keeps_up: Receiver,
    /// When each is to be saved.
    due: BTreeSet<(u64, Slot)>,
    last_read: u64,
    /// The partition that reads next.
    turn: usize,
}

/// What a slot stands for.
#[derive(Debug)]
enum Known {
    Nobody,
    /// A session that shares the position of the shard in all partitions: most do, most of the time.
    KeepsUp,
    Receiver(Box<Receiver>),
}

/// A partition, as the shard sees it.
#[derive(Debug)]
struct Way {
    partition: Partition,
    /// All before it has been offered to those who share it.
    position: Place,
    /// Who has to read, by what is wanted first.
    behind: BTreeSet<(Place, Slot)>,
    /// Who waits for the position to come to its place.
    ahead: BTreeSet<(Place, Slot)>,
    read: Option<Read>,
    /// Where the next read begins, if somebody waits there or above, and below `top`.
    lift: Place,
    top: Place,
    /// Who has ridden along and reads on from there: many who came at once cost nothing but this from one walk to the next.
    aboard: BTreeSet<Slot>,
}

#[derive(Debug)]
enum Read {
    Asked(u64),
    Walking { riders: BTreeSet<Slot>, again: BTreeMap<Place, Vec<Slot>> },
}

impl Receivers {
    /// A shard that begins here, in the order of the partitions.
    pub fn new(next: &[Place; PARTITIONS as usize]) -> Receivers {
        let way = |(partition, position): (Partition, &Place)| Way {
            partition,
            position: *position,
            behind: BTreeSet::new(),
            ahead: BTreeSet::new(),
            read: None,
            lift: Place::START,
            top: Place::START,
            aboard: BTreeSet::new(),
        };
        Receivers {
            ways: Partition::all().zip(next).map(way).collect(),
            receivers: Vec::new(),
            keeps_up: Receiver::session(),
            due: BTreeSet::new(),
            last_read: 0,
            turn: 0,
        }
    }

    /// Up to where the shard has offered what arrives.
    pub fn position(&self, partition: Partition) -> Place {
        self.ways[partition.index()].position
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
        let Some(next) = next else { return self.put(slot, Known::KeepsUp) };
        let mut receiver = Receiver::session();
        for (partition, place) in Partition::all().zip(next) {
            receiver.set_back(partition, *place, std::iter::empty());
        }
        self.put(slot, Known::Receiver(Box::new(receiver)));
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
            && let Known::Receiver(receiver) = std::mem::replace(known, Known::Nobody)
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
        let leased = self.ways.iter().filter(|way| receiver.takes_part(way.partition));
        let lease = |way: &Way| {
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
        let mut next = self.ways.iter().map(|way| match is(Mutant::SavesPosition) {
            true => way.position,
            false => receiver.next(way.partition, way.position),
        });
        let next = std::array::from_fn(|_| next.next().unwrap_or(Place::START));
        let open = receiver.all_open().filter(|_| !is(Mutant::SavesNothingOpen));
        Some(Cursors::with_open(next, open))
    }

    /// Whether a receiver is to get the message at a place, if it matches.
    pub fn wants(&self, slot: Slot, partition: Partition, place: Place, walk: Walk) -> bool {
        let Some(receiver) = self.peek(slot) else { return false };
        if !receiver.takes_part(partition) {
            return false;
        }
        match (receiver.apart(partition), walk) {
            (None, Walk::Live) => true,
            (None, Walk::Read) => false,
            (Some(apart), Walk::Live) => {
                let keeps_up = apart.keeps_up(self.position(partition));
                apart.next <= place && (keeps_up || is(Mutant::OffersToThoseBehind) && apart.held_at.is_none())
            }
            (Some(apart), Walk::Read) => apart.is_riding && apart.held_at.is_none() && apart.next <= place,
        }
    }

    /// A message goes to a receiver that wants it, and is open until [`complete`](Receivers::complete).
    pub fn hand_out(&mut self, slot: Slot, partition: Partition, place: Place) {
        let is_listed = self.unlist_unless_riding(slot, partition);
        let Some(receiver) = self.receiver(slot) else { return };
        receiver.open(partition, place);
        if let Some(apart) = receiver.apart_mut(partition) {
            apart.next = apart.next.max(place.behind());
        }
        if is_listed {
            self.list(slot, partition);
        }
    }

    /// A message goes to a session that [follows](Receivers::follow) the log, and wants it. It is not looked at again.
    pub fn take(&mut self, slot: Slot, partition: Partition, place: Place) {
        if self.peek(slot).is_none_or(|receiver| receiver.apart(partition).is_none()) {
            return;
        }
        let is_listed = self.unlist_unless_riding(slot, partition);
        if let Some(apart) = self.receiver(slot).and_then(|receiver| receiver.apart_mut(partition)) {
            apart.next = apart.next.max(place.behind());
        }
        if is_listed {
            self.list(slot, partition);
        }
    }

    /// There is no room for a message that a receiver wants. It gets the message, and all behind it, when [`has_room`](Receivers::has_room) has
    /// been said.
    pub fn hold(&mut self, slot: Slot, partition: Partition, place: Place) {
        if is(Mutant::ForgetsToHold) {
            return;
        }
        let is_listed = self.unlist_unless_riding(slot, partition);
        let position = self.position(partition);
        let Some(receiver) = self.receiver(slot) else { return };
        let is_open = receiver.is_open(partition, place);
        let apart = receiver.set_apart(partition, position);
        (apart.held_at, apart.has_room_again) = (Some(place), false);
        apart.has_missed = !apart.is_riding;
        if is_open {
            apart.again.insert(place);
        } else {
            apart.next = place;
        }
        if is_listed {
            self.list(slot, partition);
        }
    }

    /// A receiver that had no room has some again.
    pub fn has_room(&mut self, slot: Slot) {
        let Some(receiver) = own(&mut self.receivers, slot) else { return };
        let mut free = Vec::new();
        for apart in receiver.apart.iter_mut().filter(|apart| apart.held_at.is_some()) {
            if apart.is_riding {
                // What is behind the held message has been passed over in this walk.
                apart.has_room_again = true;
            } else {
                apart.held_at = None;
                free.push(apart.partition);
            }
        }
        free.into_iter().for_each(|partition| self.list(slot, partition));
    }

    /// The message at a place has been acknowledged. Gives whether it was open.
    pub fn complete(&mut self, slot: Slot, partition: Partition, place: Place, now_ms: u64) -> bool {
        let is_listed = self.unlist_unless_riding(slot, partition);
        let position = self.position(partition);
        let Some(receiver) = self.receiver(slot) else { return false };
        let was_open = receiver.close(partition, place);
        if let Some(apart) = receiver.apart_mut(partition) {
            apart.again.remove(&place);
        }
        receiver.acknowledged += u32::from(was_open);
        let due_ms = match receiver.acknowledged {
            CHECKPOINT_ACKNOWLEDGEMENTS.. => receiver.due_ms.min(now_ms),
            _ => receiver.due_ms.min(now_ms + CHECKPOINT_AFTER_MS),
        };
        if was_open && receiver.apart(partition).is_none() && position < place.behind() {
            // The shard has not passed it yet: the receiver is ahead until it has.
            receiver.set_apart(partition, place.behind());
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
    pub fn put_back(&mut self, slot: Slot, partition: Partition, place: Place) {
        let is_listed = self.unlist_unless_riding(slot, partition);
        let position = self.position(partition);
        let Some(receiver) = self.receiver(slot) else { return };
        if receiver.is_open(partition, place) {
            let next = receiver.next(partition, position);
            let apart = receiver.set_apart(partition, next);
            apart.again.insert(place);
        }
        if is_listed {
            self.list(slot, partition);
        }
    }

    /// All before `next` has been offered to all who keep up.
    pub fn pass(&mut self, partition: Partition, next: Place) {
        let way = &mut self.ways[partition.index()];
        way.position = way.position.max(next);
        while let Some((place, slot)) = way.ahead.first().copied()
            && place <= way.position
        {
            way.ahead.remove(&(place, slot));
            share(&mut self.receivers, slot, partition);
        }
    }

    /// What is to be read next; `None` where all is being read that has to be.
    pub fn next_read(&mut self) -> Option<ReadRequest> {
        for _ in 0..self.ways.len() {
            self.turn = (self.turn + 1) % self.ways.len();
            let way = &mut self.ways[self.turn];
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
        let way = &mut self.ways[span.partition.index()];
        if !matches!(way.read, Some(Read::Asked(asked)) if asked == number) {
            return false;
        }
        way.lift = span.end();
        let first = Place { sequence: span.from, index: 0 };
        let inside: Vec<_> = way.behind.range((first, 0)..(span.end(), 0)).copied().collect();
        let (mut riders, mut again) = (std::mem::take(&mut way.aboard), BTreeMap::<_, Vec<_>>::new());
        for (wanted, slot) in inside {
            way.behind.remove(&(wanted, slot));
            let receiver = own(&mut self.receivers, slot);
            let Some(apart) = receiver.and_then(|receiver| receiver.apart_mut(span.partition)) else { continue };
            (apart.is_riding, apart.has_missed) = (true, false);
            apart.again.range(..span.end()).for_each(|place| again.entry(*place).or_default().push(slot));
            riders.insert(slot);
        }
        let is_wanted = !riders.is_empty();
        way.read = is_wanted.then_some(Read::Walking { riders, again });
        is_wanted
    }

    /// Who rides along in the walk through a partition.
    pub fn riders(&self, partition: Partition) -> impl Iterator<Item = Slot> {
        let riders = match &self.ways[partition.index()].read {
            Some(Read::Walking { riders, .. }) => Some(riders),
            _ => None,
        };
        riders.into_iter().flatten().copied()
    }

    /// Who is to get the message at a place again.
    pub fn again(&mut self, partition: Partition, place: Place) -> Vec<Slot> {
        let Some(Read::Walking { again, .. }) = &mut self.ways[partition.index()].read else { return Vec::new() };
        let mut slots = again.remove(&place).unwrap_or_default();
        slots.retain(|slot| {
            let receiver = own(&mut self.receivers, *slot);
            let apart = receiver.and_then(|receiver| receiver.apart_mut(partition));
            apart.is_some_and(|apart| apart.is_riding && apart.held_at.is_none() && apart.again.remove(&place))
        });
        slots
    }

    /// A walk is over: all of the span has been offered. Gives the messages that were open and are not in the log any more.
    pub fn end_walk(&mut self, span: &Span) -> Vec<(Slot, Place)> {
        let partition = span.partition;
        let Some(Read::Walking { riders, again }) = self.ways[partition.index()].read.take() else { return Vec::new() };
        // What has been offered is not in `again` any more.
        let left = again.into_iter().flat_map(|(place, slots)| slots.into_iter().map(move |slot| (slot, place)));
        let lost: Vec<_> = left.filter(|(slot, place)| self.forget(*slot, partition, *place)).collect();
        let top = self.ways[partition.index()].top.min(self.position(partition));
        for slot in riders {
            if is(Mutant::CatchesUpTooEarly) {
                share(&mut self.receivers, slot, partition);
                continue;
            }
            let Some(receiver) = own(&mut self.receivers, slot) else { continue };
            let Some(apart) = receiver.apart_mut(partition) else { continue };
            if apart.held_at.is_none() {
                apart.next = apart.next.max(span.end());
            }
            if std::mem::take(&mut apart.has_room_again) {
                apart.held_at = None;
            }
            let is_plain = apart.again.is_empty() && apart.held_at.is_none();
            let reads_on = is_plain && apart.next == span.end() && span.end() < top;
            apart.is_riding = reads_on;
            if reads_on {
                self.ways[partition.index()].aboard.insert(slot);
            } else {
                self.list(slot, partition);
            }
        }
        lost
    }

    /// An open message that was to be sent again is not in the log any more. Gives whether there was one.
    fn forget(&mut self, slot: Slot, partition: Partition, place: Place) -> bool {
        let Some(receiver) = own(&mut self.receivers, slot) else { return false };
        let apart = receiver.apart_mut(partition).filter(|apart| apart.is_riding);
        apart.is_some_and(|apart| apart.again.remove(&place)) && receiver.close(partition, place)
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
            Known::Nobody => None,
            Known::KeepsUp => Some(&self.keeps_up),
            Known::Receiver(receiver) => Some(receiver),
        }
    }

    /// Who has a slot, to be given something of its own.
    fn receiver(&mut self, slot: Slot) -> Option<&mut Receiver> {
        let known = self.receivers.get_mut(slot as usize)?;
        if let Known::KeepsUp = known {
            *known = Known::Receiver(Box::new(Receiver::session()));
        }
        own(&mut self.receivers, slot)
    }

    fn insert(&mut self, slot: Slot, receiver: Receiver, now_ms: u64) {
        self.put(slot, Known::Receiver(Box::new(receiver)));
        self.set_due(slot, now_ms + CHECKPOINT_IDLE_MS);
    }

    fn put(&mut self, slot: Slot, known: Known) {
        self.remove(slot);
        let at = slot as usize;
        if self.receivers.len() <= at {
            self.receivers.resize_with(at + 1, || Known::Nobody);
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
        let way = &mut self.ways[partition.index()];
        let Some(receiver) = own(&mut self.receivers, slot) else { return };
        let Some(apart) = receiver.apart(partition).filter(|apart| !apart.is_riding && apart.held_at.is_none()) else {
            return;
        };
        if !apart.keeps_up(way.position) {
            way.behind.insert((apart.wanted(), slot));
        } else if apart.next == way.position {
            share(&mut self.receivers, slot, partition);
        } else {
            way.ahead.insert((apart.next, slot));
        }
    }

    /// Takes a receiver off all lists of a partition, and out of the walk.
    fn unlist(&mut self, slot: Slot, partition: Partition) {
        self.unlist_unless_riding(slot, partition);
        let way = &mut self.ways[partition.index()];
        if let Some(Read::Walking { riders, .. }) = &mut way.read {
            riders.remove(&slot);
        }
        way.aboard.remove(&slot);
        if let Some(apart) = own(&mut self.receivers, slot).and_then(|receiver| receiver.apart_mut(partition)) {
            apart.is_riding = false;
        }
    }

    /// Gives whether the receiver is to be listed again.
    fn unlist_unless_riding(&mut self, slot: Slot, partition: Partition) -> bool {
        let way = &mut self.ways[partition.index()];
        let receiver = own(&mut self.receivers, slot);
        let Some(apart) = receiver.and_then(|receiver| receiver.apart(partition)) else { return true };
        if apart.is_riding {
            return false;
        }
        way.behind.remove(&(apart.wanted(), slot));
        way.ahead.remove(&(apart.next, slot));
        true
    }
}

/// Who has a slot and has something of its own.
fn own(receivers: &mut [Known], slot: Slot) -> Option<&mut Receiver> {
    match receivers.get_mut(slot as usize)? {
        Known::Nobody | Known::KeepsUp => None,
        Known::Receiver(receiver) => Some(receiver),
    }
}

/// A receiver shares the position in a partition from now on.
fn share(receivers: &mut [Known], slot: Slot, partition: Partition) {
    let Some(known) = receivers.get_mut(slot as usize) else { return };
    if let Known::Receiver(receiver) = known {
        receiver.share(partition);
        if receiver.is_plain() {
            *known = Known::KeepsUp;
        }
    }
}

impl Way {
    /// Where the next read begins.
    fn next_stop(&mut self) -> Option<Place> {
        if !self.aboard.is_empty() {
            return Some(self.lift);
        }
        let (lift, top) = (self.lift, self.top.max(self.lift));
        if let Some((place, _)) = self.behind.range((lift, 0)..(top, 0)).next() {
            return Some(*place);
        }
        self.top = self.position;
        self.behind.first().map(|(place, _)| *place)
    }
}

impl Receiver {
    /// Sets a partition to where it was saved.
    fn set_back(&mut self, partition: Partition, next: Place, open: impl Iterator<Item = Place>) {
        let mut apart = Apart::new(partition, next);
        for place in open {
            self.open(partition, place);
            if !is(Mutant::ForgetsOpen) {
                apart.again.insert(place);
            }
        }
        self.share(partition);
        self.apart.push(apart);
    }
}
