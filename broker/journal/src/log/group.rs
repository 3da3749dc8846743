//! A group of frames that is made durable with one write.

use std::ops::Range;

use crate::disk::BlockBuffer;
use crate::format::{BLOCK_BYTES, FRAME_ALIGN, FRAME_HEADER_BYTES, FrameKind, FrameLocation, frame_bytes, stamp};
use crate::numbers::{Epoch, Position, ShardNumber, TurnNumber};

/// The size limit of a group with several frames. A larger frame forms a group of its own.
pub const GROUP_MAX_BYTES: usize = 8 << 20;

#[derive(Debug, Default)]
pub(crate) struct Group {
    /// The frames as they will be written, with space for their headers.
    buffer: BlockBuffer,
    frames: Vec<GroupFrame>,
}

#[derive(Debug)]
struct GroupFrame {
    /// Header and body in the buffer.
    range: Range<usize>,
    kind: FrameKind,
    shard: ShardNumber,
    turn: TurnNumber,
}

impl Group {
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Returns the size, rounded up to whole blocks.
    pub(crate) fn padded_bytes(&self) -> usize {
        self.buffer.len().next_multiple_of(BLOCK_BYTES)
    }

    /// Returns the padded size with one more frame.
    pub(crate) fn bytes_with(&self, body_bytes: usize) -> usize {
        (self.buffer.len() + frame_bytes(body_bytes)).next_multiple_of(BLOCK_BYTES)
    }

    pub(crate) fn push(&mut self, kind: FrameKind, shard: ShardNumber, turn: TurnNumber, body: &[u8]) {
        let start = self.buffer.len();
        self.buffer.extend(&[0; FRAME_HEADER_BYTES]);
        self.buffer.extend(body);
        let end = self.buffer.len();
        self.buffer.fill_to(end.next_multiple_of(FRAME_ALIGN));
        self.frames.push(GroupFrame { range: start..end, kind, shard, turn });
    }

    /// Writes the headers for the position at which the group will be written. Returns the position of the last frame.
    pub(crate) fn stamp(&mut self, start: Position, durable: Position, epoch: Epoch) -> Position {
        self.buffer.fill_to(self.padded_bytes());
        let mut last = durable;
        for (index, waiting) in self.frames.iter().enumerate() {
            last = Position(start.0 + waiting.range.start as u64);
            let location = FrameLocation {
                position: last,
                durable,
                index: index as u32,
                epoch,
                shard: waiting.shard,
                turn: waiting.turn,
                kind: waiting.kind,
                body_bytes: waiting.range.len() - FRAME_HEADER_BYTES,
            };
            stamp(&mut self.buffer.bytes_mut()[waiting.range.clone()], &location);
        }
        last
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.buffer.bytes()
    }

    pub(crate) fn clear(&mut self) {
        self.buffer.clear();
        self.buffer.shrink(2 * GROUP_MAX_BYTES);
        self.frames.clear();
    }
}
