//! The identity of a message of the log, which encodes its place.

use tautwire_cluster::Sequence;
use tautwire_cluster::names::{PARTITIONS, Partition};
use tautwire_cluster::record::Place;
use tautwire_message::MessageId;

/// The bit in the run that marks an identity from the log; no other message in a cluster has it.
const FROM_LOG: u64 = 1 << 63;
/// The bit in the run that marks a topic's retained copy, which may be gone from the log.
const RETAINED: u64 = 1 << 62;
const PARTITION_SHIFT: u32 = 32;

/// A place in each partition.
pub(crate) type Places = [Place; PARTITIONS as usize];

/// The place of a message in the log of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LogPlace {
    pub(in crate::mode::cluster) partition: Partition,
    pub(in crate::mode::cluster) place: Place,
}

impl LogPlace {
    pub(crate) fn to_id(self) -> MessageId {
        let partition = (self.partition.index() as u64) << PARTITION_SHIFT;
        MessageId { run: FROM_LOG | partition | u64::from(self.place.index), number: self.place.sequence.0 }
    }

    /// The place of a message; `None` for one that is not from the log.
    pub(crate) fn of(id: MessageId) -> Option<LogPlace> {
        if id.run & FROM_LOG == 0 {
            return None;
        }
        let partition = u8::try_from((id.run & !FROM_LOG) >> PARTITION_SHIFT).ok().and_then(Partition::new)?;
        Some(LogPlace { partition, place: Place { sequence: Sequence(id.number), index: id.run as u32 } })
    }

    /// The identity of a topic's retained copy of the message.
    pub(crate) fn to_retained_id(self) -> MessageId {
        let MessageId { run, number } = self.to_id();
        MessageId { run: run & !FROM_LOG | RETAINED, number }
    }

    /// The place of a retained copy in the log; `None` for any other message.
    pub(crate) fn of_retained(id: MessageId) -> Option<LogPlace> {
        if id.run & (FROM_LOG | RETAINED) != RETAINED {
            return None;
        }
        LogPlace::of(MessageId { run: id.run & !RETAINED | FROM_LOG, ..id })
    }

    /// Clears the bits of the log in the run for other messages.
    pub(crate) fn other_run(run: u64) -> u64 {
        run & !(FROM_LOG | RETAINED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_the_log_is_identified_by_its_id() {
        for partition in Partition::all() {
            for (sequence, index) in [(0, 0), (1, 7), (u64::MAX, u32::MAX)] {
                let at = LogPlace { partition, place: Place { sequence: Sequence(sequence), index } };
                assert_eq!((LogPlace::of(at.to_id()), LogPlace::of_retained(at.to_id())), (Some(at), None));
                let retained = at.to_retained_id();
                assert_eq!((LogPlace::of(retained), LogPlace::of_retained(retained)), (None, Some(at)));
            }
        }
        assert_eq!(LogPlace::of(MessageId { run: LogPlace::other_run(u64::MAX), number: 1 }), None);
        assert_eq!(LogPlace::of(MessageId { run: FROM_LOG | 16 << PARTITION_SHIFT, number: 1 }), None);
        assert_eq!((LogPlace::of(MessageId::NONE), LogPlace::of_retained(MessageId::NONE)), (None, None));
        let other = MessageId { run: LogPlace::other_run(u64::MAX), number: 1 };
        assert_eq!(LogPlace::of_retained(other), None);
    }
}
