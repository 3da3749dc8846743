//! The layout of payloads, and the position of a message's identity in them.

use super::reading::{Reading, ReadingFormat};
use super::stamp::PayloadStamp;

/// The size of a full stamp.
pub(crate) const SMALLEST_PAYLOAD_BYTES: usize = 16;

/// The size of a short stamp: sequence numbers below 2^32, publishers below 2^16.
const SMALLEST_SHORT_PAYLOAD_BYTES: usize = 10;

/// The layout of all payloads of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PayloadForm {
    template: Vec<u8>,
    layout: Layout,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Layout {
    /// Sequence number (4 bytes), publisher (2), run (4), all little endian.
    Short,
    /// Sequence number (8 bytes), publisher (4), run (4), all little endian. Payloads of 24 bytes and more repeat the
    /// sequence number in their last 8 bytes, to detect torn payloads.
    Plain,
    /// Fields of a sensor reading; all other bytes are compared with the template.
    Reading(Reading),
}

impl PayloadForm {
    /// Meaningless bytes. `None` if they are too few for a stamp.
    pub(crate) fn plain(bytes: usize) -> Option<Self> {
        let layout = match bytes {
            SMALLEST_PAYLOAD_BYTES.. => Layout::Plain,
            SMALLEST_SHORT_PAYLOAD_BYTES.. => Layout::Short,
            _ => return None,
        };
        Some(Self { template: vec![b'.'; bytes], layout })
    }

    /// A sensor reading with 12 fields.
    pub(crate) fn reading(format: ReadingFormat) -> Self {
        let (template, reading) = format.template();
        Self { template, layout: Layout::Reading(reading) }
    }

    pub(crate) fn template(&self) -> &[u8] {
        &self.template
    }

    pub(crate) fn bytes(&self) -> usize {
        self.template.len()
    }

    /// `payload` must be a copy of the template.
    #[inline]
    pub(crate) fn write(&self, stamp: PayloadStamp, payload: &mut [u8]) {
        let len = payload.len();
        match self.layout {
            Layout::Short => {
                payload[..4].copy_from_slice(&(stamp.seq as u32).to_le_bytes());
                payload[4..6].copy_from_slice(&(stamp.publisher as u16).to_le_bytes());
                payload[6..10].copy_from_slice(&stamp.run.to_le_bytes());
            }
            Layout::Plain => {
                payload[..8].copy_from_slice(&stamp.seq.to_le_bytes());
                payload[8..12].copy_from_slice(&stamp.publisher.to_le_bytes());
                payload[12..16].copy_from_slice(&stamp.run.to_le_bytes());
                if len >= SMALLEST_PAYLOAD_BYTES + 8 {
                    payload[len - 8..].copy_from_slice(&stamp.seq.to_le_bytes());
                }
            }
            Layout::Reading(reading) => reading.write(stamp, payload),
        }
    }

    /// Returns `None` if the payload is damaged or belongs to another run.
    #[inline]
    pub(crate) fn read(&self, payload: &[u8], run: u32) -> Option<PayloadStamp> {
        if payload.len() != self.template.len() {
            return None;
        }
        let stamp = match self.layout {
            Layout::Short => PayloadStamp {
                seq: u32::from_le_bytes(*payload.first_chunk()?).into(),
                publisher: u16::from_le_bytes(*payload.get(4..)?.first_chunk()?).into(),
                run: u32::from_le_bytes(*payload.get(6..)?.first_chunk()?),
            },
            Layout::Plain => {
                let seq = u64::from_le_bytes(*payload.first_chunk()?);
                if payload.len() >= SMALLEST_PAYLOAD_BYTES + 8 && *payload.last_chunk::<8>()? != seq.to_le_bytes() {
                    return None;
                }
                PayloadStamp {
                    seq,
                    publisher: u32::from_le_bytes(*payload.get(8..)?.first_chunk()?),
                    run: u32::from_le_bytes(*payload.get(12..)?.first_chunk()?),
                }
            }
            Layout::Reading(reading) => reading.read(payload, &self.template, run)?,
        };
        (stamp.run == run).then_some(stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_round_trips_and_damage_is_detected() {
        let stamp = PayloadStamp { seq: 0x0102_0304, publisher: 9, run: 77 };
        for len in [10, 15, 16, 23, 24, 65_536] {
            let form = PayloadForm::plain(len).expect("large enough");
            let mut payload = form.template().to_vec();
            form.write(stamp, &mut payload);
            assert_eq!(form.read(&payload, 77), Some(stamp), "{len}");
            assert_eq!(form.read(&payload, 78), None);
            assert_eq!(form.read(&payload[..len - 1], 77), None);
            if len >= 24 {
                payload[len - 1] ^= 1;
                assert_eq!(form.read(&payload, 77), None);
            }
        }
        assert_eq!(PayloadForm::plain(9), None);
    }

    #[test]
    fn readings_contain_a_stamp_and_every_damaged_byte_is_detected() {
        let stamp = PayloadStamp { seq: 123_456, publisher: 9, run: 3_999_999_999 };
        for format in [ReadingFormat::Protobuf, ReadingFormat::MessagePack, ReadingFormat::Json] {
            let form = PayloadForm::reading(format);
            let mut payload = form.template().to_vec();
            form.write(stamp, &mut payload);
            assert_eq!(form.read(&payload, stamp.run), Some(stamp), "{format:?}");
            assert_eq!(form.read(&payload, 78), None);
            for at in 0..payload.len() {
                let mut damaged = payload.clone();
                damaged[at] ^= 0x11;
                assert_ne!(form.read(&damaged, stamp.run), Some(stamp), "{format:?} at {at}");
            }
        }
    }
}
