//! The log position of one session, or of one group of a shared subscription.

use std::collections::BTreeSet;

use crate::mutant::{Mutant, is};
use crate::names::{PARTITIONS, Partition};
use crate::record::{GROUP_OPEN_MAX, OPEN_MAX, Place};

/// A receiver shares the position of its shard, except in the partitions listed in `detached`.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    /// The partitions of the receiver, as a bit mask.
    pub(super) partitions: u16,
    open: BTreeSet<(Partition, Place)>,
    /// For a group, the number of open messages in each partition.
    shares: Option<Box<[u32; PARTITIONS as usize]>>,
    pub(super) detached: Vec<DetachedCursor>,
    /// Acknowledgements since the last checkpoint.
    pub(super) acknowledged: u32,
    /// The time of the next checkpoint.
    pub(super) due_ms: u64,
}

/// A partition in which a receiver has a position of its own.
#[derive(Debug)]
pub(super) struct DetachedCursor {
    pub(super) partition: Partition,
    /// The first position that it has not processed.
    pub(super) next: Place,
    /// Open messages that must be sent again, all before `next`.
    pub(super) again: BTreeSet<Place>,
    /// The position of a message that could not be delivered for lack of capacity.
    pub(super) blocked_at: Option<Place>,
    /// That message is being offered or was skipped: it does not arrive again, so it must be read even if capacity returns before it has
    /// been passed.
    pub(super) has_skipped: bool,
    /// Capacity has returned while a walk is in progress.
    pub(super) is_unblocked: bool,
    /// The receiver is part of a walk, or waits for the next one at the end of the last.
    pub(super) is_in_walk: bool,
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

    pub(super) fn detached(&self, partition: Partition) -> Option<&DetachedCursor> {
        self.detached.iter().find(|detached| detached.partition == partition)
    }

    pub(super) fn detached_mut(&mut self, partition: Partition) -> Option<&mut DetachedCursor> {
        self.detached.iter_mut().find(|detached| detached.partition == partition)
    }

    /// Returns the detached cursor of a partition, created at `position` if there is none.
    pub(super) fn set_detached(&mut self, partition: Partition, position: Place) -> &mut DetachedCursor {
        let at = self.detached.iter().position(|detached| detached.partition == partition).unwrap_or_else(|| {
            self.detached.push(DetachedCursor::new(partition, position));
            self.detached.len() - 1
        });
        &mut self.detached[at]
    }

    pub(super) fn share(&mut self, partition: Partition) {
        self.detached.retain(|detached| detached.partition != partition);
        if self.detached.is_empty() {
            self.detached.shrink_to_fit();
        }
    }

    /// Creates a group without partitions.
    pub(super) fn group() -> Receiver {
        Receiver { shares: Some(Box::default()), ..Receiver::default() }
    }

    pub(super) fn session() -> Receiver {
        Receiver { partitions: EVERYWHERE, ..Receiver::default() }
    }

    /// Whether it is a session without individual state, which needs no checkpoint.
    pub(super) fn is_plain(&self) -> bool {
        let is_session = self.shares.is_none() && self.partitions == EVERYWHERE;
        is_session && self.detached.is_empty() && self.open.is_empty() && self.acknowledged == 0 && self.due_ms == 0
    }

    pub(super) fn open(&mut self, partition: Partition, place: Place) {
        let is_new = self.open.insert((partition, place));
        if let Some(shares) = &mut self.shares {
            shares[partition.index()] += u32::from(is_new);
        }
    }

    /// Closes a message. Returns whether it was open.
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

    /// Returns all open messages, by partition and in order.
    pub(super) fn all_open(&self) -> impl Iterator<Item = (Partition, Place)> {
        self.open.iter().copied()
    }

    /// Whether the record cannot hold more open messages.
    pub(super) fn is_full(&self, partition: Partition) -> bool {
        match &self.shares {
            None => self.open.len() >= OPEN_MAX,
            Some(shares) => shares[partition.index()] as usize >= GROUP_OPEN_MAX,
        }
    }

    /// Returns the open messages of a partition, in order.
    pub(super) fn open_in(&self, partition: Partition) -> impl DoubleEndedIterator<Item = Place> {
        let last = Place { sequence: crate::Sequence(u64::MAX), index: u32::MAX };
        self.open.range((partition, Place::START)..=(partition, last)).map(|(_, place)| *place)
    }

    /// Returns the first unprocessed position, with the shard at `position`. Delivered messages are before it, even if the shard has not
    /// passed them.
    pub(super) fn next(&self, partition: Partition, position: Place) -> Place {
        let next = self.detached(partition).map_or(position, |detached| detached.next);
        self.open_in(partition).next_back().map_or(next, |last| next.max(last.behind()))
    }
}

impl DetachedCursor {
    pub(super) fn new(partition: Partition, next: Place) -> DetachedCursor {
        let (again, blocked_at) = (BTreeSet::new(), None);
        DetachedCursor {
            partition,
            next,
            again,
            blocked_at,
            has_skipped: false,
            is_unblocked: false,
            is_in_walk: false,
        }
    }

    /// Returns the next position to read.
    pub(super) fn next_to_read(&self) -> Place {
        self.again.first().copied().unwrap_or(self.next)
    }

    /// Whether it can receive what arrives at a shard at `position` without a gap.
    pub(super) fn is_caught_up(&self, position: Place) -> bool {
        let has_skipped = self.has_skipped && !is(Mutant::SkipsBlockedMessage);
        self.again.is_empty() && self.blocked_at.is_none() && !has_skipped && !self.is_in_walk && position <= self.next
    }
}

fn bit(partition: Partition) -> u16 {
    1 << partition.index()
}
