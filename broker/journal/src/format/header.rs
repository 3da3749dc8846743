//! The header of a segment or a snapshot.

use crate::format::{BLOCK_BYTES, FIRST_FRAME_OFFSET, FORMAT_MIN_VERSION, FORMAT_VERSION, u32_at, u64_at};
use crate::numbers::{Epoch, LogId, Position, SegmentNumber};

const MAGIC: &[u8; 8] = b"TAUTWIRE";
/// Bytes that the checksum covers.
const CHECKED_BYTES: usize = 76;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    Segment = 1,
    Snapshot = 2,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: FileKind,
    pub(crate) number: SegmentNumber,
    pub(crate) base: Position,
    /// Size of the file.
    pub(crate) bytes: u64,
    pub(crate) epoch: Epoch,
    /// In a segment, the last valid frame when the epoch began; in a snapshot, the last frame that it covers.
    pub(crate) after: Position,
    pub(crate) log: LogId,
    pub(crate) written_at_ms: u64,
    /// The number of segments of its epoch before this one; `None` in version 1, which does not store it.
    pub(crate) place: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeaderFault {
    /// The header is missing or corrupt.
    Damaged,
    /// The version is not supported by this program.
    UnsupportedVersion(u32),
}

impl Header {
    /// Returns both copies, as stored at the beginning of the file.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut block = vec![0; BLOCK_BYTES];
        block[0..8].copy_from_slice(MAGIC);
        block[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        block[12..16].copy_from_slice(&(self.kind as u32).to_le_bytes());
        block[16..24].copy_from_slice(&self.number.0.to_le_bytes());
        block[24..32].copy_from_slice(&self.base.0.to_le_bytes());
        block[32..40].copy_from_slice(&self.bytes.to_le_bytes());
        block[40..48].copy_from_slice(&self.epoch.get().to_le_bytes());
        block[48..56].copy_from_slice(&self.after.0.to_le_bytes());
        block[56..64].copy_from_slice(&self.log.0.to_le_bytes());
        block[64..72].copy_from_slice(&self.written_at_ms.to_le_bytes());
        block[72..76].copy_from_slice(&self.place.unwrap_or(0).to_le_bytes());
        let check = crc32c::crc32c(&block[..CHECKED_BYTES]);
        block[CHECKED_BYTES..CHECKED_BYTES + 4].copy_from_slice(&check.to_le_bytes());
        block.repeat(FIRST_FRAME_OFFSET / BLOCK_BYTES)
    }

    /// Parses the first copy, or the second if the first is damaged.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Header, HeaderFault> {
        let copies = [bytes.get(..BLOCK_BYTES), bytes.get(BLOCK_BYTES..FIRST_FRAME_OFFSET)];
        let mut fault = HeaderFault::Damaged;
        for block in copies.into_iter().flatten() {
            match Header::parse_block(block) {
                Ok(header) => return Ok(header),
                Err(newer @ HeaderFault::UnsupportedVersion(_)) => fault = newer,
                Err(HeaderFault::Damaged) => {}
            }
        }
        Err(fault)
    }

    fn parse_block(block: &[u8]) -> Result<Header, HeaderFault> {
        let number = |at| u64_at(block, at).ok_or(HeaderFault::Damaged);
        let short = |at| u32_at(block, at).ok_or(HeaderFault::Damaged);
        if !block.starts_with(MAGIC) {
            return Err(HeaderFault::Damaged);
        }
        // A newer version may store its checksum elsewhere, so check the version first.
        let version = short(8)?;
        if version > FORMAT_VERSION {
            return Err(HeaderFault::UnsupportedVersion(version));
        }
        if version < FORMAT_MIN_VERSION || short(CHECKED_BYTES)? != crc32c::crc32c(&block[..CHECKED_BYTES]) {
            return Err(HeaderFault::Damaged);
        }
        let header = Header {
            kind: match short(12)? {
                1 => FileKind::Segment,
                2 => FileKind::Snapshot,
                _ => return Err(HeaderFault::Damaged),
            },
            number: SegmentNumber(number(16)?),
            base: Position(number(24)?),
            bytes: number(32)?,
            epoch: Epoch::new(number(40)?).ok_or(HeaderFault::Damaged)?,
            after: Position(number(48)?),
            log: LogId(number(56)?),
            written_at_ms: number(64)?,
            place: if version > FORMAT_MIN_VERSION { Some(short(72)?) } else { None },
        };
        header.end().map(|_| header).ok_or(HeaderFault::Damaged)
    }

    /// Returns the base of the next segment.
    pub(crate) fn end(&self) -> Option<Position> {
        self.base.0.checked_add(self.bytes).map(Position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            kind: FileKind::Segment,
            number: SegmentNumber(3),
            base: Position(1 << 20),
            bytes: 65_536,
            epoch: Epoch::new(77).expect("not 0"),
            after: Position(12),
            log: LogId(5),
            written_at_ms: 1_000,
            place: Some(2),
        }
    }

    #[test]
    fn a_header_survives_the_loss_of_either_copy() {
        let bytes = header().to_bytes();
        assert_eq!(bytes.len(), FIRST_FRAME_OFFSET);
        for lost in [0..BLOCK_BYTES, BLOCK_BYTES..FIRST_FRAME_OFFSET] {
            let mut damaged = bytes.clone();
            damaged[lost].fill(0xAA);
            assert_eq!(Header::parse(&damaged), Ok(header()));
        }
    }

    #[test]
    fn every_changed_bit_is_detected() {
        let bytes = header().to_bytes();
        for bit in 0..80 * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            damaged[BLOCK_BYTES + bit / 8] ^= 1 << (bit % 8);
            assert!(Header::parse(&damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_newer_version_is_reported() {
        let mut bytes = header().to_bytes();
        for copy in [0, BLOCK_BYTES] {
            bytes[copy + 8] = 9;
        }
        assert_eq!(Header::parse(&bytes), Err(HeaderFault::UnsupportedVersion(9)));
    }
}
