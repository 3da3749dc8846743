//! A group: what one node appends to one partition at once.

use crate::bytes::Writer;

use super::{RecordError, VERSION, read};

const MESSAGES: u8 = 1;
const FENCE: u8 = 2;

/// One entry of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Counts the groups of one life of a node in one partition, from 1. A fence has the number of the group before it.
    pub number: u64,
    /// The highest ordinal of a QoS 2 message up to here; 0 if there was none.
    pub ordinal: u64,
    /// What is in it.
    pub body: Body,
}

/// What a group is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// Messages, in order.
    Messages(Vec<Vec<u8>>),
    /// The node is dead: no group of that life follows.
    Fence,
}

impl Group {
    /// The bytes of the group.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.u8(VERSION);
        match &self.body {
            Body::Messages(messages) => {
                writer.u8(MESSAGES).u64(self.number).u64(self.ordinal).u32(messages.len() as u32);
                messages.iter().for_each(|message| {
                    writer.block(message);
                });
            }
            Body::Fence => {
                writer.u8(FENCE).u64(self.number).u64(self.ordinal);
            }
        }
        writer.0
    }

    /// How many messages a group's bytes hold, and their blocks; `None` for a fence. The blocks are not looked at.
    pub(crate) fn messages(bytes: &[u8]) -> Result<Option<(u32, &[u8])>, RecordError> {
        read(bytes, "group", |reader| {
            let (kind, _, _) = (reader.u8()?, reader.u64()?, reader.u64()?);
            match kind {
                MESSAGES => Some(Some((reader.u32()?, reader.rest()))),
                FENCE => Some(None),
                _ => None,
            }
        })
    }

    /// The group of these bytes.
    ///
    /// # Errors
    /// They are none of this version.
    pub fn decode(bytes: &[u8]) -> Result<Group, RecordError> {
        read(bytes, "group", |reader| {
            let (kind, number, ordinal) = (reader.u8()?, reader.u64()?, reader.u64()?);
            let body = match kind {
                MESSAGES => {
                    let count = reader.u32()?;
                    Body::Messages((0..count).map(|_| reader.block().map(<[u8]>::to_vec)).collect::<Option<_>>()?)
                }
                FENCE => Body::Fence,
                _ => return None,
            };
            Some(Group { number, ordinal, body })
        })
    }
}
