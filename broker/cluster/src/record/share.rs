//! The record of a group: the members of a shared subscription, the nodes that deliver to it, and their progress.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use crate::bytes::Writer;
use crate::names::{ClientKey, Incarnation, PARTITIONS, Partition};

use super::{Cursors, OPEN_MAX, Place, RecordError, VERSION, read};

/// The most members of a shared subscription. The record is written each time the group makes progress.
pub const GROUP_MEMBERS_MAX: usize = 10_000;
/// The most open messages of one partition of a group, so that all partitions together fit into a record.
pub const GROUP_OPEN_MAX: usize = OPEN_MAX / PARTITIONS as usize;

/// The stored data of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareRecord {
    /// The shared subscription, `$share/name/filter`, because keys may collide.
    pub share: String,
    /// The subscribed sessions, whether their clients are connected or not, each with its epoch at the time of the subscription.
    pub members: BTreeMap<ClientKey, u64>,
    /// The node that delivers each partition, in order; `None` if there is none.
    pub holders: [Option<Incarnation>; PARTITIONS as usize],
    /// The progress of delivery.
    pub cursors: Cursors,
}

impl ShareRecord {
    /// Creates a group without members that begins at these positions.
    pub fn new(share: &str, next: [Place; PARTITIONS as usize]) -> ShareRecord {
        ShareRecord {
            share: share.to_owned(),
            members: BTreeMap::new(),
            holders: [None; PARTITIONS as usize],
            cursors: Cursors::new(next),
        }
    }

    /// Returns the node that delivers a partition.
    pub fn holder(&self, partition: Partition) -> Option<Incarnation> {
        self.holders[partition.index()]
    }

    /// Returns the partitions that a node delivers.
    pub fn partitions_of(&self, node: Incarnation) -> impl Iterator<Item = Partition> {
        Partition::all().filter(move |partition| self.holder(*partition) == Some(node))
    }

    /// Encodes the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.u8(VERSION).block(self.share.as_bytes()).u32(self.members.len() as u32);
        for (member, epoch) in &self.members {
            writer.0.extend_from_slice(&member.0.to_le_bytes());
            writer.u64(*epoch);
        }
        for holder in self.holders {
            writer.u64(holder.map_or(0, |holder| holder.0.get()));
        }
        writer.block(&self.cursors.encode());
        writer.0
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// The bytes are not a record of this version.
    pub fn decode(bytes: &[u8]) -> Result<ShareRecord, RecordError> {
        read(bytes, "group record", |reader| {
            let share = reader.text()?.to_owned();
            let mut members = BTreeMap::new();
            for _ in 0..reader.u32()? {
                let member = ClientKey(u128::from_le_bytes(reader.bytes(16)?.try_into().ok()?));
                if members.last_key_value().is_some_and(|(last, _)| *last >= member) {
                    return None;
                }
                members.insert(member, reader.u64()?);
            }
            let mut holders = [None; PARTITIONS as usize];
            for holder in &mut holders {
                *holder = NonZeroU64::new(reader.u64()?).map(Incarnation);
            }
            let cursors = Cursors::decode(reader.block()?).ok()?;
            Some(ShareRecord { share, members, holders, cursors })
        })
    }
}
