//! The messages of nodes about groups.

use std::num::NonZeroU64;

use crate::bytes::{Reader, Writer};
use crate::names::{GroupKey, Incarnation};
use crate::record::VERSION;

const ASK: u8 = 16;
const UNASSIGNED: u8 = 17;

/// A message from node to node. It may be lost, delayed or duplicated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupMessage {
    pub(crate) from: Incarnation,
    pub(crate) group: GroupKey,
    pub(crate) kind: GroupMessageKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupMessageKind {
    /// The sender has members and delivers this many partitions; the receiver delivers more.
    Ask { holds: u8 },
    /// There are partitions that no node delivers.
    Unassigned,
}

impl GroupMessage {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (kind, holds) = match self.kind {
            GroupMessageKind::Ask { holds } => (ASK, holds),
            GroupMessageKind::Unassigned => (UNASSIGNED, 0),
        };
        let mut writer = Writer::default();
        writer.u8(VERSION).u8(kind).u64(self.from.0.get());
        writer.0.extend_from_slice(&self.group.0.to_le_bytes());
        writer.u8(holds);
        writer.0
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<GroupMessage> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != VERSION {
            return None;
        }
        let kind = reader.u8()?;
        let from = Incarnation(NonZeroU64::new(reader.u64()?)?);
        let group = GroupKey(u128::from_le_bytes(reader.bytes(16)?.try_into().ok()?));
        let kind = match (kind, reader.u8()?) {
            (ASK, holds) => GroupMessageKind::Ask { holds },
            (UNASSIGNED, 0) => GroupMessageKind::Unassigned,
            _ => return None,
        };
        reader.is_at_end().then_some(GroupMessage { from, group, kind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_round_trip_and_other_bytes_are_refused() {
        let from = Incarnation(NonZeroU64::new(1).expect("not 0"));
        for kind in [GroupMessageKind::Ask { holds: 3 }, GroupMessageKind::Unassigned] {
            let message = GroupMessage { from, group: GroupKey(2), kind };
            let bytes = message.encode();
            assert_eq!(GroupMessage::decode(&bytes), Some(message));
            assert!((0..bytes.len()).all(|length| GroupMessage::decode(&bytes[..length]).is_none()));
            assert_eq!(GroupMessage::decode(&[&bytes[..], &[0]].concat()), None);
            assert_eq!(crate::PeerMessage::decode(&bytes), None);
        }
    }

    /// The bytes are part of the format: a change requires a change of [`VERSION`].
    #[test]
    fn the_encoding_is_stable() {
        let from = Incarnation(NonZeroU64::new(1).expect("not 0"));
        let bytes = |kind| GroupMessage { from, group: GroupKey(2), kind }.encode();
        let group = 2_u128.to_le_bytes();
        let expected = |kind: u8, holds: u8| [&[1, kind, 1, 0, 0, 0, 0, 0, 0, 0][..], &group, &[holds]].concat();
        assert_eq!(bytes(GroupMessageKind::Ask { holds: 3 }), expected(16, 3));
        assert_eq!(bytes(GroupMessageKind::Unassigned), expected(17, 0));
    }
}
