//! The record of one life of a node.

use std::num::NonZeroU64;

use crate::bytes::Writer;
use crate::names::{Incarnation, PARTITIONS};

use super::{RecordError, VERSION, read};

const ALIVE: u8 = 1;
const DYING: u8 = 2;
const BURIED: u8 = 3;

/// What the store knows of one life of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRecord {
    /// What operators call the node.
    pub name: String,
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
    },
    /// Its lease has run out, and it can never be renewed. What it has written to the log is being brought to an end.
    Dying {
        /// The node that sees to it.
        by: Incarnation,
        /// How often somebody has taken that up.
        attempt: u64,
    },
    /// Nothing of it is under way any more: its sessions may be claimed.
    Buried {
        /// How far its groups go in each partition, in order.
        ends: Box<[End; PARTITIONS as usize]>,
    },
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
            NodeState::Alive { beat } => writer.u8(ALIVE).u64(*beat),
            NodeState::Dying { by, attempt } => writer.u8(DYING).u64(by.0.get()).u64(*attempt),
            NodeState::Buried { ends } => {
                ends.iter().fold(writer.u8(BURIED), |writer, end| writer.u64(end.group).u64(end.ordinal))
            }
        };
        writer.block(self.name.as_bytes());
        writer.0
    }

    /// The record of these bytes.
    ///
    /// # Errors
    /// They are none of this version.
    pub fn decode(bytes: &[u8]) -> Result<NodeRecord, RecordError> {
        read(bytes, "node record", |reader| {
            let state = match reader.u8()? {
                ALIVE => NodeState::Alive { beat: reader.u64()? },
                DYING => NodeState::Dying { by: Incarnation(NonZeroU64::new(reader.u64()?)?), attempt: reader.u64()? },
                BURIED => {
                    let mut ends = Box::new([End::default(); PARTITIONS as usize]);
                    for end in ends.iter_mut() {
                        *end = End { group: reader.u64()?, ordinal: reader.u64()? };
                    }
                    NodeState::Buried { ends }
                }
                _ => return None,
            };
            Some(NodeRecord { state, name: reader.text()?.to_owned() })
        })
    }
}
