//! The position of a session in the log.
//!
//! A cursor names the unfinished messages instead of the finished ones: the next message to process, and those that were delivered and not
//! acknowledged. Their number is limited by the client's window, however long the session has been offline.

use std::collections::BTreeSet;

use crate::bytes::{Reader, Writer};
use crate::names::{PARTITIONS, Partition};
use crate::numbers::Sequence;

use super::{RecordError, VERSION, read};

/// The limit of open messages of all partitions together: the largest Receive Maximum [MQTT 5.0 section 3.1.2.11.3].
pub const OPEN_MAX: usize = u16::MAX as usize;

/// The position of a message in the log of its partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The sequence of its group.
    pub sequence: Sequence,
    /// The index in the group, from 0.
    pub index: u32,
}

impl Place {
    /// The position before all messages.
    pub const START: Place = Place { sequence: Sequence(0), index: 0 };

    /// Reads a position whose sequence is encoded relative to another one.
    fn read(reader: &mut Reader<'_>, from: u64) -> Option<Place> {
        let sequence = Sequence(from.checked_add(reader.varint()?)?);
        Some(Place { sequence, index: reader.varint()?.try_into().ok()? })
    }

    /// Returns the first position after a message, with no message in between.
    pub fn behind(self) -> Place {
        match self.index.checked_add(1) {
            Some(index) => Place { index, ..self },
            None => Place { sequence: Sequence(self.sequence.0.saturating_add(1)), index: 0 },
        }
    }
}

/// The position of a session in one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cursor {
    next: Place,
    open: BTreeSet<Place>,
}

/// The positions of a session in all partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursors {
    cursors: Vec<Cursor>,
}

impl Cursors {
    /// Creates cursors at the position of the node, in the order of the partitions: earlier messages are not for the session.
    pub fn new(next: [Place; PARTITIONS as usize]) -> Cursors {
        Cursors { cursors: next.map(|next| Cursor { next, open: BTreeSet::new() }).into() }
    }

    /// Creates cursors with these open messages, which must all be before `next`, and at most [`OPEN_MAX`].
    pub(crate) fn with_open_messages(
        next: [Place; PARTITIONS as usize],
        open: impl Iterator<Item = (Partition, Place)>,
    ) -> Cursors {
        let mut cursors = Cursors::new(next);
        open.take(OPEN_MAX).for_each(|(partition, place)| {
            cursors.cursors[partition.index()].open.insert(place);
        });
        cursors
    }

    /// Returns the first position that the session has not processed.
    pub fn next(&self, partition: Partition) -> Place {
        self.cursors[partition.index()].next
    }

    /// Whether the session lags behind the node at position `node`, and so must read on its own.
    pub fn lags(&self, partition: Partition, node: Place) -> bool {
        self.next(partition) < node
    }

    /// Skips messages before `next`, which are not for this session. Does nothing if the session is further ahead.
    pub fn pass(&mut self, partition: Partition, next: Place) {
        let cursor = &mut self.cursors[partition.index()];
        cursor.next = cursor.next.max(next);
    }

    /// Marks a message as delivered. Returns `false` and changes nothing if it was processed before, or if too many are open.
    pub fn mark_delivered(&mut self, partition: Partition, place: Place) -> bool {
        let has_room = self.open_count() < OPEN_MAX;
        let cursor = &mut self.cursors[partition.index()];
        if place < cursor.next || !has_room {
            return false;
        }
        cursor.next = place.behind();
        cursor.open.insert(place)
    }

    /// Marks a message as acknowledged. Returns whether it was open.
    pub fn complete(&mut self, partition: Partition, place: Place) -> bool {
        self.cursors[partition.index()].open.remove(&place)
    }

    /// Returns the messages that were delivered and not acknowledged, in order. They are sent again.
    pub fn open(&self, partition: Partition) -> impl Iterator<Item = Place> {
        self.cursors[partition.index()].open.iter().copied()
    }

    /// Returns the number of open messages in all partitions.
    pub fn open_count(&self) -> usize {
        self.cursors.iter().map(|cursor| cursor.open.len()).sum()
    }

    /// Replaces the cursor of one partition.
    pub(crate) fn set(&mut self, partition: Partition, next: Place, open: BTreeSet<Place>) {
        self.cursors[partition.index()] = Cursor { next, open };
    }

    /// Encodes the cursors.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.u8(VERSION);
        for cursor in &self.cursors {
            writer.varint(cursor.next.sequence.0).varint(cursor.next.index.into());
            writer.varint(cursor.open.len() as u64);
            let mut last = 0;
            for place in &cursor.open {
                writer.varint(place.sequence.0 - last).varint(place.index.into());
                last = place.sequence.0;
            }
        }
        writer.0
    }

    /// Decodes cursors.
    ///
    /// # Errors
    /// The bytes are not cursors of this version.
    pub fn decode(bytes: &[u8]) -> Result<Cursors, RecordError> {
        read(bytes, "cursors record", |reader| {
            let mut cursors = Vec::with_capacity(PARTITIONS.into());
            let mut count = 0;
            for _ in Partition::all() {
                let cursor = Cursor::read(reader, OPEN_MAX - count)?;
                count += cursor.open.len();
                cursors.push(cursor);
            }
            Some(Cursors { cursors })
        })
    }
}

impl Cursor {
    fn read(reader: &mut Reader<'_>, open_max: usize) -> Option<Cursor> {
        let next = Place::read(reader, 0)?;
        let count = reader.varint()?;
        let mut open = BTreeSet::new();
        let mut last: Option<Place> = None;
        for _ in 0..count {
            let place = Place::read(reader, last.map_or(0, |last| last.sequence.0))?;
            if last.is_some_and(|last| place <= last) || next <= place || open.len() == open_max {
                return None;
            }
            open.insert(place);
            last = Some(place);
        }
        Some(Cursor { next, open })
    }
}
