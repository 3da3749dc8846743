//! A frame: the records that one shard writes in one turn.

use crate::format::{FRAME_BODY_MAX_BYTES, field, u32_at, u64_at};
use crate::mutant::{Mutant, is};
use crate::numbers::{Epoch, Position, ShardNumber, TurnNumber};

pub(crate) const FRAME_HEADER_BYTES: usize = 48;
/// The offset of the epoch in a frame's header.
pub(crate) const EPOCH_OFFSET: usize = 8;
/// Frames begin at multiples of this.
pub(crate) const FRAME_ALIGN: usize = 8;

/// A decoded frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its position in the log.
    pub position: Position,
    /// The epoch in which it was written.
    pub epoch: Epoch,
    /// The shard that wrote it.
    pub shard: ShardNumber,
    /// Its number among the frames of that shard in that epoch.
    pub turn: TurnNumber,
    /// The records; see [`crate::record::Records`].
    pub body: &'a [u8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameKind {
    Turn = 1,
    Closed = 2,
}

/// A decoded frame header, and the size of its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameLocation {
    pub(crate) position: Position,
    /// The last frame before its group. All frames up to it were durable when this one was written.
    pub(crate) durable: Position,
    /// Its index in its group, from 0.
    pub(crate) index: u32,
    pub(crate) epoch: Epoch,
    pub(crate) shard: ShardNumber,
    pub(crate) turn: TurnNumber,
    pub(crate) kind: FrameKind,
    pub(crate) body_bytes: usize,
}

impl FrameLocation {
    /// Bytes from this frame to the next one of the group.
    pub(crate) fn bytes(&self) -> usize {
        frame_bytes(self.body_bytes)
    }

    /// Returns the frame whose header begins at `offset` of `bytes`.
    pub(crate) fn frame<'a>(&self, bytes: &'a [u8], offset: usize) -> Frame<'a> {
        let start = offset + FRAME_HEADER_BYTES;
        let body = bytes.get(start..start + self.body_bytes).unwrap_or_default();
        Frame { position: self.position, epoch: self.epoch, shard: self.shard, turn: self.turn, body }
    }
}

/// Returns the size of a frame with header and padding.
pub(crate) fn frame_bytes(body_bytes: usize) -> usize {
    (FRAME_HEADER_BYTES + body_bytes).next_multiple_of(FRAME_ALIGN)
}

/// Writes the header before a body that is already in place. `bytes` has header and body, without padding.
pub(crate) fn stamp(bytes: &mut [u8], location: &FrameLocation) {
    let Some((header, body)) = bytes.split_at_mut_checked(FRAME_HEADER_BYTES) else { return };
    // A body never exceeds FRAME_BODY_MAX_BYTES.
    header[0..4].copy_from_slice(&(body.len() as u32).to_le_bytes());
    header[8..16].copy_from_slice(&location.epoch.get().to_le_bytes());
    header[16..24].copy_from_slice(&location.position.0.to_le_bytes());
    header[24..32].copy_from_slice(&location.durable.0.to_le_bytes());
    header[32..36].copy_from_slice(&location.index.to_le_bytes());
    header[36..38].copy_from_slice(&location.shard.0.to_le_bytes());
    header[38] = location.kind as u8;
    header[39] = 0;
    header[40..48].copy_from_slice(&location.turn.0.to_le_bytes());
    let check = frame_checksum(header, body);
    header[4..8].copy_from_slice(&check.to_le_bytes());
}

fn frame_checksum(header: &[u8], body: &[u8]) -> u32 {
    let check = crc32c::crc32c_append(crc32c::crc32c(&header[0..4]), &header[8..FRAME_HEADER_BYTES]);
    crc32c::crc32c_append(check, body)
}

/// Parses the frame at `offset` of `bytes`. Returns `None` unless it is intact and its header names this position and epoch.
pub(crate) fn parse(bytes: &[u8], offset: usize, position: Position, epoch: Epoch) -> Option<FrameLocation> {
    if !is_frame_start(bytes, offset, position, epoch) {
        return None;
    }
    let bytes = bytes.get(offset..)?;
    let (header, rest) = bytes.split_at_checked(FRAME_HEADER_BYTES)?;
    let body_bytes = u32_at(header, 0)? as usize;
    if body_bytes > FRAME_BODY_MAX_BYTES {
        return None;
    }
    let body = rest.get(..body_bytes)?;
    if u32_at(header, 4)? != frame_checksum(header, body) {
        return None;
    }
    Some(FrameLocation {
        position,
        durable: Position(u64_at(header, 24)?),
        index: u32_at(header, 32)?,
        epoch,
        shard: ShardNumber(field(header, 36).map(u16::from_le_bytes)?),
        turn: TurnNumber(u64_at(header, 40)?),
        kind: match (header[38], header[39]) {
            (1, 0) => FrameKind::Turn,
            (2, 0) if body_bytes == 0 => FrameKind::Closed,
            _ => return None,
        },
        body_bytes,
    })
}

/// Whether a frame for this position and epoch begins at `offset`, complete or not.
#[inline]
pub(crate) fn is_frame_start(bytes: &[u8], offset: usize, position: Position, epoch: Epoch) -> bool {
    let Some(header) = bytes.get(offset..).and_then(|bytes| bytes.get(..FRAME_HEADER_BYTES)) else { return false };
    header[16..24] == position.0.to_le_bytes()
        && (header[8..16] == epoch.get().to_le_bytes() || is(Mutant::AcceptsOtherEpochs))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: usize = 16;

    fn stamped(body: &[u8]) -> (FrameLocation, Vec<u8>) {
        let location = FrameLocation {
            position: Position(9_000),
            durable: Position(8_192),
            index: 3,
            epoch: Epoch::new(0x1234).expect("not 0"),
            shard: ShardNumber(3),
            turn: TurnNumber(70_000),
            kind: FrameKind::Turn,
            body_bytes: body.len(),
        };
        let mut bytes = vec![0; AT + FRAME_HEADER_BYTES];
        bytes.extend_from_slice(body);
        stamp(&mut bytes[AT..], &location);
        (location, bytes)
    }

    #[test]
    fn a_frame_round_trips() {
        let (location, bytes) = stamped(b"hello");
        let read = parse(&bytes, AT, location.position, location.epoch).expect("intact");
        assert_eq!(read, location);
        assert_eq!(read.frame(&bytes, AT).body, b"hello");
        assert_eq!(read.bytes(), 56);
    }

    #[test]
    fn every_changed_bit_of_header_and_body_is_detected() {
        let (location, bytes) = stamped(b"hello");
        for bit in AT * 8..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(parse(&damaged, AT, location.position, location.epoch), None, "bit {bit}");
        }
    }

    #[test]
    fn a_frame_of_another_position_or_epoch_is_not_accepted() {
        let (location, bytes) = stamped(b"hello");
        assert_eq!(parse(&bytes, AT, Position(9_008), location.epoch), None);
        assert_eq!(parse(&bytes, AT, location.position, Epoch::new(1).expect("not 0")), None);
        for len in 0..bytes.len() {
            assert_eq!(parse(&bytes[..len], AT, location.position, location.epoch), None);
        }
    }
}
