//! The record of one life of a node.

use std::num::NonZeroU64;

use crate::bytes::Writer;
use crate::names::{Incarnation, PARTITIONS};

use super::{RecordError, VERSION, read};

const ALIVE: u8 = 1;
const REMOVING: u8 = 2;
const REMOVED: u8 = 3;

/// What the store knows of one life of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRecord {
    /// What operators call the node.
    pub name: String,
    /// Where clients reach it, as a Server Reference says it [MQTT 5.0 section 4.11]; empty where they cannot be told.
    pub reference: String,
    /// How it is with it.
    pub state: NodeState,
}

/// Where a life stands. It goes from one to the next and never back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeState {
    /// It holds its lease. Each beat has another number, so that no two records of one life are equal.
    Alive {
        /// Counts the beats.
        beat: u64,
        /// What it has to do.
        load: Load,
    },
    /// Its lease has run out, and it can never be renewed. What it has written to the log is being brought to an end.
    Removing {
        /// The node that sees to it.
        by: Incarnation,
        /// How often somebody has taken that up.
        attempt: u64,
    },
    /// Nothing of it is under way any more: its sessions may be claimed.
    Removed {
        /// How far its groups go in each partition, in order.
        ends: Box<[End; PARTITIONS as usize]>,
    },
}

/// What others need to know of a living node to send clients to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// Sessions that it owns.
    pub sessions: u32,
    /// It takes no clients: it is being drained, or cannot take on the shared configuration.
    pub is_closed: bool,
}

/// The last group that one life of a node has in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct End {
    /// The number of the group; 0 where there is none.
    pub group: u64,
    /// The highest ordinal of a QoS 2 message that is in the log; 0 where there is none.
    pub ordinal: u64,
}

impl NodeRecord {
    /// The bytes of the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.u8(VERSION);
        match &self.state {
            NodeState::Alive { beat, load } => writer.u8(ALIVE).u64(*beat).u32(load.sessions).u8(load.is_closed.into()),
            NodeState::Removing { by, attempt } => writer.u8(REMOVING).u64(by.0.get()).u64(*attempt),
            NodeState::Removed { ends } => {
                ends.iter().fold(writer.u8(REMOVED), |writer, end| writer.u64(end.group).u64(end.ordinal))
            }
        };
        writer.block(self.name.as_bytes()).block(self.reference.as_bytes());
        writer.0
    }

    /// The record of these bytes.
    ///
    /// # Errors
    /// They are none of this version.
    pub fn decode(bytes: &[u8]) -> Result<NodeRecord, RecordError> {
        read(bytes, "node record", |reader| {
            let state = match reader.u8()? {
                ALIVE => {
                    let (beat, sessions, is_closed) = (reader.u64()?, reader.u32()?, reader.u8()?);
                    if is_closed > 1 {
                        return None;
                    }
                    NodeState::Alive { beat, load: Load { sessions, is_closed: is_closed == 1 } }
                }
                REMOVING => {
                    NodeState::Removing { by: Incarnation(NonZeroU64::new(reader.u64()?)?), attempt: reader.u64()? }
                }
                REMOVED => {
                    let mut ends = Box::new([End::default(); PARTITIONS as usize]);
                    for end in ends.iter_mut() {
                        *end = End { group: reader.u64()?, ordinal: reader.u64()? };
                    }
                    NodeState::Removed { ends }
                }
                _ => return None,
            };
            let (name, reference) = (reader.text()?.to_owned(), reader.text()?.to_owned());
            Some(NodeRecord { name, reference, state })
        })
    }
}
