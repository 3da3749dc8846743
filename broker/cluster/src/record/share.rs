//! The record of a group: the members of a shared subscription, who delivers what, and how far that has come.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use crate::bytes::Writer;
use crate::names::{ClientKey, Incarnation, PARTITIONS, Partition};

use super::{Cursors, OPEN_MAX, Place, RecordError, VERSION, read};

/// Sessions that may share a subscription. The record is written each time that the group has come further.
pub const GROUP_MEMBERS_MAX: usize = 10_000;
/// Messages of one partition that a group may have open, so that all together are no more than a record may name.
pub const GROUP_OPEN_MAX: usize = OPEN_MAX / PARTITIONS as usize;

/// What the store knows of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareRecord {
    /// The shared subscription, `$share/name/filter`, since a key may stand for another one.
    pub share: String,
    /// Sessions that have subscribed, whether their clients are connected or not, and the epoch of each when it did.
    pub members: BTreeMap<ClientKey, u64>,
    /// Which node delivers the messages of each partition, in order; `None` where none does.
    pub holders: [Option<Incarnation>; PARTITIONS as usize],
    /// How far that has come.
    pub cursors: Cursors,
}

impl ShareRecord {
    /// A group without members, which begins here.
    pub fn new(share: &str, next: [Place; PARTITIONS as usize]) -> ShareRecord {
        ShareRecord {
            share: share.to_owned(),
            members: BTreeMap::new(),
            holders: [None; PARTITIONS as usize],
            cursors: Cursors::new(next),
        }
    }

    /// Who delivers a partition.
    pub fn holder(&self, partition: Partition) -> Option<Incarnation> {
        self.holders[partition.index()]
    }

    /// The partitions that a node delivers.
    pub fn partitions_of(&self, node: Incarnation) -> impl Iterator<Item = Partition> {
        Partition::all().filter(move |partition| self.holder(*partition) == Some(node))
    }

    /// The bytes of the record.
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

    /// The record of these bytes.
    ///
    /// # Errors
    /// They are none of this version.
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
