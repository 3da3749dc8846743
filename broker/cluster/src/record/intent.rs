//! Where a QoS 2 message or a will is to be written.

use crate::bytes::{Reader, Writer};
use crate::names::Partition;

/// The position of a QoS 2 message in the log, if it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intent {
    /// The partition of its topic.
    pub partition: Partition,
    /// The number of the QoS 2 message of the owner's incarnation in that partition, from 1.
    pub ordinal: u64,
}

const NO_PARTITION: u8 = 0xff;

pub(super) fn write_intent(intent: Option<Intent>, writer: &mut Writer) {
    let (partition, ordinal) =
        intent.map_or((NO_PARTITION, 0), |intent| (intent.partition.index() as u8, intent.ordinal));
    writer.u8(partition).u64(ordinal);
}

pub(super) fn read_intent(reader: &mut Reader<'_>) -> Option<Option<Intent>> {
    Some(match (reader.u8()?, reader.u64()?) {
        (NO_PARTITION, _) => None,
        (partition, ordinal) => Some(Intent { partition: Partition::new(partition)?, ordinal }),
    })
}
