//! How far one session, or one group of a shared subscription, has come.

use std::collections::BTreeSet;

use crate::mutant::{Mutant, is};
use crate::names::{PARTITIONS, Partition};
use crate::record::{GROUP_OPEN_MAX, OPEN_MAX, Place};

/// A receiver shares the position of its shard, except in the partitions that are listed in `apart`.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    /// In which partitions it takes part, one bit for each.
    pub(super) partitions: u16,
    open: BTreeSet<(Partition, Place)>,
    /// Of a group, how many are open in each partition.
    shares: Option<Box<[u32; PARTITIONS as usize]>>,
    pub(super) apart: Vec<Apart>,
    /// Acknowledgements since it was saved.
    pub(super) acknowledged: u32,
    /// When it is to be saved.
    pub(super) due_ms: u64,
}

/// A partition in which a receiver has a place of its own.
#[derive(Debug)]
pub(super) struct Apart {
    pub(super) partition: Partition,
    /// The first place that it has not looked at.
    pub(super) next: Place,
    /// Open messages that are to be sent again, all before `next`.
    pub(super) again: BTreeSet<Place>,
    /// Where there was no room for a message.
    pub(super) held_at: Option<Place>,
    /// That message is being offered, or was: it does not arrive once more, so it has to be read, even if there is room before it has been passed.
    pub(super) has_missed: bool,
    /// There is room again, and a walk is still under way.
    pub(super) has_room_again: bool,
    /// It is part of a walk, or waits for the next one where the last one ended.
    pub(super) is_riding: bool,
}

const EVERYWHERE: u16 = u16::MAX;
const _: () = assert!(u16::BITS == PARTITIONS as u32);

impl Receiver {
    pub(super) fn takes_part(&self, partition: Partition) -> bool {
        self.partitions & bit(partition) != 0
    }

    pub(super) fn set_part(&mut self, partition: Partition, takes_part: bool) {
        self.partitions = self.partitions & !bit(partition) | if takes_part { bit(partition) } else { 0 };
    }

    pub(super) fn apart(&self, partition: Partition) -> Option<&Apart> {
        self.apart.iter().find(|apart| apart.partition == partition)
    }

    pub(super) fn apart_mut(&mut self, partition: Partition) -> Option<&mut Apart> {
        self.apart.iter_mut().find(|apart| apart.partition == partition)
    }

    /// The place of its own in a partition; `position` where it had none.
    pub(super) fn set_apart(&mut self, partition: Partition, position: Place) -> &mut Apart {
        let at = self.apart.iter().position(|apart| apart.partition == partition).unwrap_or_else(|| {
            self.apart.push(Apart::new(partition, position));
            self.apart.len() - 1
        });
        &mut self.apart[at]
    }

    pub(super) fn share(&mut self, partition: Partition) {
        self.apart.retain(|apart| apart.partition != partition);
        if self.apart.is_empty() {
            self.apart.shrink_to_fit();
        }
    }

    /// A group, which takes part in nothing yet.
    pub(super) fn group() -> Receiver {
        Receiver { shares: Some(Box::default()), ..Receiver::default() }
    }

    pub(super) fn session() -> Receiver {
        Receiver { partitions: EVERYWHERE, ..Receiver::default() }
    }

    /// Whether it is a session that has nothing of its own, and is never to be saved.
    pub(super) fn is_plain(&self) -> bool {
        let is_session = self.shares.is_none() && self.partitions == EVERYWHERE;
        is_session && self.apart.is_empty() && self.open.is_empty() && self.acknowledged == 0 && self.due_ms == 0
    }

    pub(super) fn open(&mut self, partition: Partition, place: Place) {
        let is_new = self.open.insert((partition, place));
        if let Some(shares) = &mut self.shares {
            shares[partition.index()] += u32::from(is_new);
        }
    }

    /// Gives whether the message was open.
    pub(super) fn close(&mut self, partition: Partition, place: Place) -> bool {
        let was_open = self.open.remove(&(partition, place));
        if let Some(shares) = &mut self.shares {
            shares[partition.index()] -= u32::from(was_open);
        }
        was_open
    }

    pub(super) fn is_open(&self, partition: Partition, place: Place) -> bool {
        self.open.contains(&(partition, place))
    }

    /// All open messages, by partition and in order.
    pub(super) fn all_open(&self) -> impl Iterator<Item = (Partition, Place)> {
        self.open.iter().copied()
    }

    /// Whether the record may name no more.
    pub(super) fn is_full(&self, partition: Partition) -> bool {
        match &self.shares {
            None => self.open.len() >= OPEN_MAX,
            Some(shares) => shares[partition.index()] as usize >= GROUP_OPEN_MAX,
        }
    }

    /// Open messages of a partition, in order.
    pub(super) fn open_in(&self, partition: Partition) -> impl DoubleEndedIterator<Item = Place> {
        let last = Place { sequence: crate::Sequence(u64::MAX), index: u32::MAX };
        self.open.range((partition, Place::START)..=(partition, last)).map(|(_, place)| *place)
    }

    /// The first place that has not been looked at, where the shard stands at `position`. What was handed out is before it, even while the shard
    /// has not passed it.
    pub(super) fn next(&self, partition: Partition, position: Place) -> Place {
        let next = self.apart(partition).map_or(position, |apart| apart.next);
        self.open_in(partition).next_back().map_or(next, |last| next.max(last.behind()))
    }
}

impl Apart {
    pub(super) fn new(partition: Partition, next: Place) -> Apart {
        let (again, held_at) = (BTreeSet::new(), None);
        Apart { partition, next, again, held_at, has_missed: false, has_room_again: false, is_riding: false }
    }

    /// What it has to read next.
    pub(super) fn wanted(&self) -> Place {
        self.again.first().copied().unwrap_or(self.next)
    }

    /// Whether it takes what arrives at a shard that stands at `position`: then it misses nothing in between.
    pub(super) fn keeps_up(&self, position: Place) -> bool {
        let has_missed = self.has_missed && !is(Mutant::TakesRoomForTheNext);
        self.again.is_empty() && self.held_at.is_none() && !has_missed && !self.is_riding && position <= self.next
    }
}

fn bit(partition: Partition) -> u16 {
    1 << partition.index()
}
