//! How far a session has come in the log.
//!
//! A cursor names what is not done, and not what is: the next message to look at, and those that were handed out and not acknowledged. There are
//! never more of these than the client's window has room for, however long the session has been away.

use std::collections::BTreeSet;

use crate::bytes::{Reader, Writer};
use crate::names::{PARTITIONS, Partition};
use crate::operation::Sequence;

use super::{RecordError, VERSION, read};

/// Messages of all partitions that may be open at once: the largest Receive Maximum [MQTT 5.0 section 3.1.2.11.3].
pub const OPEN_MAX: usize = u16::MAX as usize;

/// The place of a message in the log of its partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Of its group.
    pub sequence: Sequence,
    /// In the group, from 0.
    pub index: u32,
}

impl Place {
    /// Before all messages.
    pub const START: Place = Place { sequence: Sequence(0), index: 0 };

    /// Reads a place whose sequence is told as the distance from another one.
    fn read(reader: &mut Reader<'_>, from: u64) -> Option<Place> {
        let sequence = Sequence(from.checked_add(reader.varint()?)?);
        Some(Place { sequence, index: reader.varint()?.try_into().ok()? })
    }

    /// The first place behind a message: no message lies in between.
    pub fn behind(self) -> Place {
        match self.index.checked_add(1) {
            Some(index) => Place { index, ..self },
            None => Place { sequence: Sequence(self.sequence.0.saturating_add(1)), index: 0 },
        }
    }
}

/// How far a session has come in one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cursor {
    next: Place,
    open: BTreeSet<Place>,
}

/// How far a session has come in all partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursors {
    cursors: Vec<Cursor>,
}

impl Cursors {
    /// A session that begins where the node stands, in the order of the partitions: what was published before is not for it.
    pub fn new(next: [Place; PARTITIONS as usize]) -> Cursors {
        Cursors { cursors: next.map(|next| Cursor { next, open: BTreeSet::new() }).into() }
    }

    /// Cursors with these open messages, which are all before `next`, and no more than [`OPEN_MAX`].
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

    /// The first place that the session has not looked at.
    pub fn next(&self, partition: Partition) -> Place {
        self.cursors[partition.index()].next
    }

    /// Whether the session stands behind the node, which has looked at all before `node`, and so has to read on its own.
    pub fn lags(&self, partition: Partition, node: Place) -> bool {
        self.next(partition) < node
    }

    /// All before `next` has been looked at, and was not for this session. Does nothing if the session is further on.
    pub fn pass(&mut self, partition: Partition, next: Place) {
        let cursor = &mut self.cursors[partition.index()];
        cursor.next = cursor.next.max(next);
    }

    /// The message at a place goes to the client. Gives `false`, and changes nothing, if it has been looked at before, or if too many are
    /// open.
    pub fn mark_delivered(&mut self, partition: Partition, place: Place) -> bool {
        let has_room = self.open_count() < OPEN_MAX;
        let cursor = &mut self.cursors[partition.index()];
        if place < cursor.next || !has_room {
            return false;
        }
        cursor.next = place.behind();
        cursor.open.insert(place)
    }

    /// The client has acknowledged the message at a place. Gives whether it was open.
    pub fn complete(&mut self, partition: Partition, place: Place) -> bool {
        self.cursors[partition.index()].open.remove(&place)
    }

    /// Messages that were handed out and not acknowledged, in order: they are sent again.
    pub fn open(&self, partition: Partition) -> impl Iterator<Item = Place> {
        self.cursors[partition.index()].open.iter().copied()
    }

    /// How many there are of these in all partitions.
    pub fn open_count(&self) -> usize {
        self.cursors.iter().map(|cursor| cursor.open.len()).sum()
    }

    /// Sets one partition to what somebody else says of it.
    pub(crate) fn set(&mut self, partition: Partition, next: Place, open: BTreeSet<Place>) {
        self.cursors[partition.index()] = Cursor { next, open };
    }

    /// The bytes of the cursors.
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

    /// The cursors of these bytes.
    ///
    /// # Errors
    /// They are none of this version.
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
