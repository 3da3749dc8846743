//! A part of the log, as it is handed from the node to the engine.

use std::fmt;
use std::sync::Arc;

use crate::bytes::Reader;
use crate::names::Partition;
use crate::operation::Sequence;
use crate::record::{Group, Place, Publisher, RecordError};

/// A part of one partition, from a sequence until another one. Between the two there is nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Of which partition.
    pub partition: Partition,
    /// Where it begins.
    pub from: Sequence,
    /// Where the next one begins.
    pub until: Sequence,
    /// What is there, in order.
    pub groups: Vec<LogGroup>,
    /// Groups that were there and are gone, by age or by damage.
    pub lost: u64,
}

impl Span {
    /// The first place behind the span.
    pub fn end(&self) -> Place {
        Place { sequence: self.until, index: 0 }
    }

    /// The messages from a place on, in order, each with its own place.
    pub fn messages_from(&self, from: Place) -> impl Iterator<Item = (Place, LogMessage<'_>)> {
        let groups = self.groups.iter().skip_while(move |group| group.sequence < from.sequence);
        let messages =
            groups.flat_map(|group| group.messages.iter().map(move |message| (group.place(&message), message)));
        messages.skip_while(move |(place, _)| *place < from)
    }
}

/// A group and its place in the log. Clones share the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogGroup {
    /// Where it stands.
    pub sequence: Sequence,
    /// What is in it; nothing in a fence.
    pub messages: Messages,
}

impl LogGroup {
    /// The place of one of its messages.
    pub fn place(&self, message: &LogMessage<'_>) -> Place {
        Place { sequence: self.sequence, index: message.index }
    }
}

/// The messages of a group, as they came from the store: nothing is copied when they are read.
#[derive(Clone, PartialEq, Eq)]
pub struct Messages {
    group: Arc<[u8]>,
    count: u32,
    /// Where their blocks begin.
    at: usize,
}

/// One message of a group.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LogMessage<'a> {
    /// Its index in the group, from 0.
    pub index: u32,
    /// Who published it.
    pub publisher: Publisher,
    /// What the engine of the publisher's node gave.
    pub stored: &'a [u8],
}

impl Messages {
    /// The messages of a group's bytes.
    ///
    /// # Errors
    /// They are no group, or one of its messages has no publisher.
    pub fn new(group: &[u8]) -> Result<Messages, RecordError> {
        let (count, at) = Group::messages(group)?;
        let messages = Messages { group: group.into(), count, at };
        let is_whole = messages.iter().count() == messages.len();
        if is_whole { Ok(messages) } else { Err(RecordError::Malformed { record: "group" }) }
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = LogMessage<'_>> {
        let mut reader = Reader::new(self.group.get(self.at..).unwrap_or_default());
        (0..self.count).map_while(move |index| {
            let (publisher, stored) = Publisher::split(reader.block()?)?;
            Some(LogMessage { index, publisher, stored })
        })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// What they take in memory, in bytes.
    pub fn bytes(&self) -> usize {
        self.group.len()
    }
}

impl fmt::Debug for Messages {
    /// Without payloads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} messages in {} bytes", self.count, self.group.len())
    }
}

impl fmt::Debug for LogMessage<'_> {
    /// Without the payload.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message {} of {:?}, {} bytes", self.index, self.publisher, self.stored.len())
    }
}
