//! A frame: what one shard writes down for one turn.

use crate::format::{FRAME_BODY_MAX_BYTES, field, u32_at, u64_at};
use crate::mutant::{Mutant, is};
use crate::numbers::{Epoch, Position, ShardNumber, TurnNumber};

pub(crate) const FRAME_HEADER_BYTES: usize = 48;
/// Where in its header a frame names its epoch.
pub(crate) const EPOCH_OFFSET: usize = 8;
/// Frames begin at multiples of this.
pub(crate) const FRAME_ALIGN: usize = 8;

/// What a frame says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its place in the log.
    pub position: Position,
    /// The epoch in which it was written.
    pub epoch: Epoch,
    /// Who has written it.
    pub shard: ShardNumber,
    /// Its number among the frames of that shard in that epoch.
    pub turn: TurnNumber,
    /// Records, see [`crate::record::Records`].
    pub body: &'a [u8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameKind {
    Turn = 1,
    Closed = 2,
}

/// A frame's header, and where its body lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameLocation {
    pub(crate) position: Position,
    /// The last frame before its group. All up to it was durable when this one was written.
    pub(crate) durable: Position,
    /// Its place in its group, from 0.
    pub(crate) index: u32,
    pub(crate) epoch: Epoch,
    pub(crate) shard: ShardNumber,
    pub(crate) turn: TurnNumber,
    pub(crate) kind: FrameKind,
    pub(crate) body_bytes: usize,
}

impl FrameLocation {
    /// Bytes to the next frame of the group.
    pub(crate) fn bytes(&self) -> usize {
        frame_bytes(self.body_bytes)
    }

    /// The frame, whose header begins at `offset` of `bytes`.
    pub(crate) fn frame<'a>(&self, bytes: &'a [u8], offset: usize) -> Frame<'a> {
        let start = offset + FRAME_HEADER_BYTES;
        let body = bytes.get(start..start + self.body_bytes).unwrap_or_default();
        Frame { position: self.position, epoch: self.epoch, shard: self.shard, turn: self.turn, body }
    }
}

/// Bytes of a frame with header and padding.
pub(crate) fn frame_bytes(body_bytes: usize) -> usize {
    (FRAME_HEADER_BYTES + body_bytes).next_multiple_of(FRAME_ALIGN)
}

/// Writes the header in front of a body that lies at its place already. `bytes`: header and body, without padding.
pub(crate) fn stamp(bytes: &mut [u8], placed: &FrameLocation) {
    let Some((header, body)) = bytes.split_at_mut_checked(FRAME_HEADER_BYTES) else { return };
    // A body is no longer than FRAME_BODY_MAX_BYTES.
    header[0..4].copy_from_slice(&(body.len() as u32).to_le_bytes());
    header[8..16].copy_from_slice(&placed.epoch.get().to_le_bytes());
    header[16..24].copy_from_slice(&placed.position.0.to_le_bytes());
    header[24..32].copy_from_slice(&placed.durable.0.to_le_bytes());
    header[32..36].copy_from_slice(&placed.index.to_le_bytes());
    header[36..38].copy_from_slice(&placed.shard.0.to_le_bytes());
    header[38] = placed.kind as u8;
    header[39] = 0;
    header[40..48].copy_from_slice(&placed.turn.0.to_le_bytes());
    let check = frame_checksum(header, body);
    header[4..8].copy_from_slice(&check.to_le_bytes());
}

fn frame_checksum(header: &[u8], body: &[u8]) -> u32 {
    let check = crc32c::crc32c_append(crc32c::crc32c(&header[0..4]), &header[8..FRAME_HEADER_BYTES]);
    crc32c::crc32c_append(check, body)
}

/// The frame at `offset` of `bytes`, if there is one that is whole and says that it belongs there.
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

/// Whether a frame that belongs to `offset` was begun there, be it whole or not.
#[inline]
pub(crate) fn is_frame_start(bytes: &[u8], offset: usize, position: Position, epoch: Epoch) -> bool {
    let Some(header) = bytes.get(offset..).and_then(|bytes| bytes.get(..FRAME_HEADER_BYTES)) else { return false };
    header[16..24] == position.0.to_le_bytes()
        && (header[8..16] == epoch.get().to_le_bytes() || is(Mutant::TakesOtherEpochs))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: usize = 16;

    fn stamped(body: &[u8]) -> (FrameLocation, Vec<u8>) {
        let placed = FrameLocation {
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
        stamp(&mut bytes[AT..], &placed);
        (placed, bytes)
    }

    #[test]
    fn a_frame_is_read_as_it_was_written() {
        let (placed, bytes) = stamped(b"hello");
        let read = parse(&bytes, AT, placed.position, placed.epoch).expect("is whole");
        assert_eq!(read, placed);
        assert_eq!(read.frame(&bytes, AT).body, b"hello");
        assert_eq!(read.bytes(), 56);
    }

    #[test]
    fn every_changed_bit_of_header_and_body_is_noticed() {
        let (placed, bytes) = stamped(b"hello");
        for bit in AT * 8..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(parse(&damaged, AT, placed.position, placed.epoch), None, "bit {bit}");
        }
    }

    #[test]
    fn a_frame_of_another_place_or_epoch_does_not_count() {
        let (placed, bytes) = stamped(b"hello");
        assert_eq!(parse(&bytes, AT, Position(9_008), placed.epoch), None);
        assert_eq!(parse(&bytes, AT, placed.position, Epoch::new(1).expect("not 0")), None);
        for len in 0..bytes.len() {
            assert_eq!(parse(&bytes[..len], AT, placed.position, placed.epoch), None);
        }
    }
}
