//! A group: what one node appends to one partition at once.

use crate::bytes::{Reader, Writer};
use crate::operation::Sequence;

use super::{RecordError, Retain, VERSION, read};

const MESSAGES: u8 = 1;
const FENCE: u8 = 2;

/// One entry of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Counts the groups of one life of a node in one partition, from 1. A fence has the number of the group before it.
    pub number: u64,
    /// The highest ordinal of a QoS 2 message up to here; 0 if there was none.
    pub ordinal: u64,
    /// The first group of this life in this partition that may have messages which are not retained yet although they are to be; `None` where
    /// it is this one. Of a fence: where whoever buries the life has to look from; `None` where nothing is to be looked at.
    pub unsettled: Option<Sequence>,
    /// What is in it.
    pub body: Body,
}

/// What a group is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// Messages, in order.
    Messages {
        /// Each as its publisher's node has written it.
        messages: Vec<Vec<u8>>,
        /// Which of them are to be retained.
        to_retain: Vec<RetainEntry>,
    },
    /// The node is dead: no group of that life follows.
    Fence,
}

/// A message of a group that its topic is to retain.
#[derive(Clone, PartialEq, Eq)]
pub struct RetainEntry {
    /// Which message of the group, from 0.
    pub index: u32,
    /// How it is kept.
    pub retain: Retain,
    /// Its topic.
    pub topic: String,
}

impl std::fmt::Debug for RetainEntry {
    /// Without the topic.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RetainEntry({}, {:?})", self.index, self.retain)
    }
}

impl Group {
    /// The bytes of the group.
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

    /// How many messages a group's bytes hold, none in a fence, and where their blocks begin. All is looked at, and no message copied.
    ///
    /// # Errors
    /// They are none of this version.
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

    /// The group of these bytes.
    ///
    /// # Errors
    /// They are none of this version.
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

/// Which messages are to be retained.
fn read_retain_entries(reader: &mut Reader<'_>) -> Option<Vec<RetainEntry>> {
    (0..reader.u32()?)
        .map(|_| {
            let (index, retain) = (reader.u32()?, Retain::read(reader)?);
            Some(RetainEntry { index, retain, topic: reader.text()?.to_owned() })
        })
        .collect()
}

/// Whether there are enough messages for that.
fn are_of(to_retain: &[RetainEntry], messages: u32) -> bool {
    to_retain.iter().all(|to_retain| to_retain.index < messages)
}
