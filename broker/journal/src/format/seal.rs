//! The seal of a segment: the last durable frame when the log was closed or became idle.

use crate::format::{BLOCK_BYTES, FIRST_FRAME_OFFSET, Header, u32_at, u64_at};
use crate::numbers::Position;

/// The offset of the seal in a segment: in the block of the header's copy, but in another sector than the copy.
pub(crate) const SEAL_OFFSET: usize = BLOCK_BYTES + 512;
/// Bytes that the checksum covers: position and epoch.
const CHECKED_BYTES: usize = 16;

/// Returns the block of the header's copy with a seal, which replaces that block in the file.
pub(crate) fn sealed_block(header: Header, sealed: Position) -> Vec<u8> {
    let mut block = header.to_bytes();
    block.drain(..BLOCK_BYTES);
    let seal = &mut block[SEAL_OFFSET - BLOCK_BYTES..][..CHECKED_BYTES + 4];
    seal[0..8].copy_from_slice(&sealed.0.to_le_bytes());
    seal[8..16].copy_from_slice(&header.epoch.get().to_le_bytes());
    let check = crc32c::crc32c(&seal[..CHECKED_BYTES]);
    seal[CHECKED_BYTES..].copy_from_slice(&check.to_le_bytes());
    block
}

/// Reads the seal from the first bytes of a segment. Returns `None` if it is missing or damaged.
pub(crate) fn read_seal(bytes: &[u8], header: &Header) -> Option<Position> {
    let seal = bytes.get(SEAL_OFFSET..FIRST_FRAME_OFFSET)?;
    if u32_at(seal, CHECKED_BYTES)? != crc32c::crc32c(&seal[..CHECKED_BYTES]) {
        return None;
    }
    let sealed = Position(u64_at(seal, 0)?);
    let is_inside = sealed >= header.base && header.end().is_some_and(|end| sealed < end);
    (is_inside && u64_at(seal, 8)? == header.epoch.get()).then_some(sealed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::FileKind;
    use crate::numbers::{Epoch, LogId, SegmentNumber};

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
            place: Some(1),
        }
    }

    fn sealed(position: u64) -> Vec<u8> {
        let mut bytes = header().to_bytes();
        bytes.truncate(BLOCK_BYTES);
        bytes.extend(sealed_block(header(), Position(position)));
        bytes
    }

    #[test]
    fn a_seal_round_trips_and_keeps_the_copy_of_the_header() {
        let position = (1 << 20) + 8_192;
        let mut bytes = sealed(position);
        assert_eq!(bytes.len(), FIRST_FRAME_OFFSET);
        assert_eq!(read_seal(&bytes, &header()), Some(Position(position)));
        bytes[..BLOCK_BYTES].fill(0);
        assert_eq!(Header::parse(&bytes), Ok(header()));
        for bit in SEAL_OFFSET * 8..(SEAL_OFFSET + CHECKED_BYTES + 4) * 8 {
            let mut damaged = sealed(position);
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read_seal(&damaged, &header()), None, "bit {bit}");
        }
    }

    #[test]
    fn a_seal_of_another_position_or_epoch_is_not_accepted() {
        for position in [(1 << 20) - 1, (1 << 20) + 65_536] {
            assert_eq!(read_seal(&sealed(position), &header()), None);
        }
        let other = Header { epoch: Epoch::new(78).expect("not 0"), ..header() };
        assert_eq!(read_seal(&sealed(1 << 20), &other), None);
        assert_eq!(read_seal(&header().to_bytes(), &header()), None);
    }
}
