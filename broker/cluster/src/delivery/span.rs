//! A part of the log, as passed from the node to the engine.

use std::fmt;
use std::sync::Arc;

use crate::bytes::Reader;
use crate::names::Partition;
use crate::numbers::Sequence;
use crate::record::{Group, Place, Publisher, RecordError};

/// A contiguous part of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The partition.
    pub partition: Partition,
    /// The first sequence.
    pub from: Sequence,
    /// The first sequence of the next span.
    pub until: Sequence,
    /// The groups, in order.
    pub groups: Vec<LogGroup>,
    /// The number of groups that were lost by age or damage.
    pub lost: u64,
}

impl Span {
    /// Returns the first position after the span.
    pub fn end(&self) -> Place {
        Place { sequence: self.until, index: 0 }
    }

    /// Returns the messages from a position on, in order, each with its position.
    pub fn messages_from(&self, from: Place) -> impl Iterator<Item = (Place, LogMessage<'_>)> {
        let groups = self.groups.iter().skip_while(move |group| group.sequence < from.sequence);
        let messages =
            groups.flat_map(|group| group.messages.iter().map(move |message| (group.place(&message), message)));
        messages.skip_while(move |(place, _)| *place < from)
    }
}

/// A group and its sequence in the log. Clones share the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogGroup {
    /// Its sequence.
    pub sequence: Sequence,
    /// Its messages; none in a fence.
    pub messages: Messages,
}

impl LogGroup {
    /// Returns the position of one of its messages.
    pub fn place(&self, message: &LogMessage<'_>) -> Place {
        Place { sequence: self.sequence, index: message.index }
    }
}

/// The messages of a group in stored form, which are read without copying.
#[derive(Clone, PartialEq, Eq)]
pub struct Messages {
    group: Arc<[u8]>,
    count: u32,
    /// The offset of their blocks.
    at: usize,
}

/// One message of a group.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LogMessage<'a> {
    /// Its index in the group, from 0.
    pub index: u32,
    /// The publisher.
    pub publisher: Publisher,
    /// The message as the engine of the publisher's node has stored it.
    pub stored: &'a [u8],
}

impl Messages {
    /// Decodes the bytes of a group.
    ///
    /// # Errors
    /// The bytes are not a group, or one of its messages has no publisher.
    pub fn new(group: &[u8]) -> Result<Messages, RecordError> {
        let (count, at) = Group::messages(group)?;
        let messages = Messages { group: group.into(), count, at };
        let is_whole = messages.iter().count() == messages.len();
        if is_whole { Ok(messages) } else { Err(RecordError::Malformed { record: "group" }) }
    }

    /// Iterates over the messages in order.
    pub fn iter(&self) -> impl Iterator<Item = LogMessage<'_>> {
        let mut reader = Reader::new(self.group.get(self.at..).unwrap_or_default());
        (0..self.count).map_while(move |index| {
            let (publisher, stored) = Publisher::split(reader.block()?)?;
            Some(LogMessage { index, publisher, stored })
        })
    }

    /// Returns the number of messages.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are no messages.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the bytes of memory that the messages take.
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
