//! The record of one incarnation of a node.

use std::num::NonZeroU64;

use crate::bytes::Writer;
use crate::names::{Incarnation, PARTITIONS};

use super::{RecordError, VERSION, read};

const ALIVE: u8 = 1;
const REMOVING: u8 = 2;
const REMOVED: u8 = 3;

/// The stored data of an incarnation of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRecord {
    /// The name of the node.
    pub name: String,
    /// The Server Reference for its clients [MQTT 5.0 section 4.11]; empty if there is none.
    pub reference: String,
    /// Its state.
    pub state: NodeState,
}

/// The state of an incarnation. It only advances, and never goes back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeState {
    /// It holds its lease. Each heartbeat has another number, so that no two records of one incarnation are equal.
    Alive {
        /// The number of the heartbeat.
        beat: u64,
        /// Its load.
        load: Load,
    },
    /// Its lease has expired and cannot be renewed. Its log partitions are being fenced.
    Removing {
        /// The node that removes it.
        by: Incarnation,
        /// The number of attempts to remove it.
        attempt: u64,
    },
    /// Nothing of it is in flight any more: its sessions may be claimed.
    Removed {
        /// The ends of its groups in each partition, in order.
        ends: Box<[End; PARTITIONS as usize]>,
    },
}

/// What other nodes need to know to send clients to a live node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// Sessions that it owns.
    pub sessions: u32,
    /// It accepts no clients: it is draining, or cannot apply the shared configuration.
    pub is_closed: bool,
}

/// The last group of an incarnation in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct End {
    /// The number of the group; 0 if there is none.
    pub group: u64,
    /// The highest ordinal of a QoS 2 message in the log; 0 if there is none.
    pub ordinal: u64,
}

impl NodeRecord {
    /// Encodes the record.
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

    /// Decodes a record.
    ///
    /// # Errors
    /// The bytes are not a record of this version.
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
