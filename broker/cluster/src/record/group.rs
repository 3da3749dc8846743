//! A group: the messages that one node appends to one partition at once.

use crate::bytes::{Reader, Writer};
use crate::numbers::Sequence;

use super::{RecordError, Retain, VERSION, read};

const MESSAGES: u8 = 1;
const FENCE: u8 = 2;

/// An entry of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The number of the group in this partition and incarnation, from 1. A fence has the number of the group before it.
    pub number: u64,
    /// The highest ordinal of a QoS 2 message so far; 0 if there was none.
    pub ordinal: u64,
    /// The first group of this incarnation in this partition whose messages may not be retained yet although they should be; `None` if it
    /// is this one. In a fence: where the removing node must start to check; `None` if there is nothing to check.
    pub unsettled: Option<Sequence>,
    /// The content.
    pub body: Body,
}

/// The content of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// Messages, in order.
    Messages {
        /// The messages as encoded by their publisher's node.
        messages: Vec<Vec<u8>>,
        /// The messages to retain.
        to_retain: Vec<RetainEntry>,
    },
    /// The node is dead: no group of that incarnation follows.
    Fence,
}

/// A message of a group to be retained.
#[derive(Clone, PartialEq, Eq)]
pub struct RetainEntry {
    /// The index of the message in the group, from 0.
    pub index: u32,
    /// How to retain it.
    pub retain: Retain,
    /// Its topic.
    pub topic: String,
}

impl std::fmt::Debug for RetainEntry {
    /// Omits the topic.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RetainEntry({}, {:?})", self.index, self.retain)
    }
}

impl Group {
    /// Encodes the group.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.u8(VERSION);
        match &self.body {
            Body::Messages { messages, to_retain } => {
                self.write_head(MESSAGES, &mut writer);
                writer.u32(to_retain.len() as u32);
                for to_retain in to_retain {
                    to_retain.retain.write(writer.u32(to_retain.index));
                    writer.block(to_retain.topic.as_bytes());
                }
                writer.u32(messages.len() as u32);
                messages.iter().for_each(|message| {
                    writer.block(message);
                });
            }
            Body::Fence => self.write_head(FENCE, &mut writer),
        }
        writer.0
    }

    /// Validates an encoded group without copying. Returns its number of messages, 0 for a fence, and the offset of their blocks.
    ///
    /// # Errors
    /// The bytes are not a group of this version.
    pub(crate) fn messages(bytes: &[u8]) -> Result<(u32, usize), RecordError> {
        read(bytes, "group", |reader| {
            let (kind, _number, _ordinal, _unsettled) = (reader.u8()?, reader.u64()?, reader.u64()?, reader.u64()?);
            match kind {
                MESSAGES => {
                    let (to_retain, count) = (read_retain_entries(reader)?, reader.u32()?);
                    let at = bytes.len() - reader.left();
                    for _ in 0..count {
                        reader.block()?;
                    }
                    are_of(&to_retain, count).then_some((count, at))
                }
                FENCE => Some((0, bytes.len())),
                _ => None,
            }
        })
    }

    fn write_head(&self, kind: u8, writer: &mut Writer) {
        // No group has the sequence 0.
        writer.u8(kind).u64(self.number).u64(self.ordinal).u64(self.unsettled.map_or(0, |sequence| sequence.0));
    }

    /// Decodes a group.
    ///
    /// # Errors
    /// The bytes are not a group of this version.
    pub fn decode(bytes: &[u8]) -> Result<Group, RecordError> {
        read(bytes, "group", |reader| {
            let (kind, number, ordinal) = (reader.u8()?, reader.u64()?, reader.u64()?);
            let unsettled = Some(Sequence(reader.u64()?)).filter(|sequence| sequence.0 > 0);
            let body = match kind {
                MESSAGES => {
                    let to_retain = read_retain_entries(reader)?;
                    let count = reader.u32()?;
                    let messages =
                        (0..count).map(|_| reader.block().map(<[u8]>::to_vec)).collect::<Option<Vec<_>>>()?;
                    if !are_of(&to_retain, count) {
                        return None;
                    }
                    Body::Messages { messages, to_retain }
                }
                FENCE => Body::Fence,
                _ => return None,
            };
            Some(Group { number, ordinal, unsettled, body })
        })
    }
}

/// Reads the entries of messages to retain.
fn read_retain_entries(reader: &mut Reader<'_>) -> Option<Vec<RetainEntry>> {
    (0..reader.u32()?)
        .map(|_| {
            let (index, retain) = (reader.u32()?, Retain::read(reader)?);
            Some(RetainEntry { index, retain, topic: reader.text()?.to_owned() })
        })
        .collect()
}

/// Whether all entries refer to existing messages.
fn are_of(to_retain: &[RetainEntry], messages: u32) -> bool {
    to_retain.iter().all(|to_retain| to_retain.index < messages)
}
