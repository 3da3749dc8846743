//! Block-aligned memory, which direct I/O can use without copying.

use crate::format::BLOCK_BYTES;

/// A byte buffer that begins at a multiple of [`BLOCK_BYTES`] in memory.
#[derive(Debug, Default)]
pub(crate) struct BlockBuffer {
    memory: Vec<u8>,
    /// Bytes of `memory` before the first block boundary.
    start: usize,
}

impl BlockBuffer {
    pub(crate) fn len(&self) -> usize {
        self.memory.len() - self.start
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn clear(&mut self) {
        self.memory.truncate(self.start);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..]
    }

    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        self.memory.extend_from_slice(bytes);
    }

    /// Extends the buffer to `len` bytes, with zeros.
    pub(crate) fn fill_to(&mut self, len: usize) {
        self.reserve(len.saturating_sub(self.len()));
        self.memory.resize(self.start + len, 0);
    }

    /// Frees the memory if the buffer is empty and its capacity exceeds `bytes`.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        if self.is_empty() && self.memory.capacity() > bytes {
            *self = BlockBuffer::default();
        }
    }

    /// Reserves capacity for `more` bytes and keeps the alignment.
    fn reserve(&mut self, more: usize) {
        if self.memory.capacity() - self.memory.len() >= more {
            return;
        }
        let capacity = (self.len() + more).max(2 * self.len()).next_multiple_of(BLOCK_BYTES);
        let mut memory: Vec<u8> = Vec::with_capacity(capacity + BLOCK_BYTES);
        let start = memory.as_ptr().align_offset(BLOCK_BYTES).min(BLOCK_BYTES);
        memory.resize(start, 0);
        memory.extend_from_slice(self.bytes());
        *self = BlockBuffer { memory, start };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stay_aligned_to_a_block_while_they_grow() {
        let mut buffer = BlockBuffer::default();
        let mut expected = Vec::new();
        for n in 0..2_000u32 {
            buffer.extend(&n.to_le_bytes());
            expected.extend_from_slice(&n.to_le_bytes());
            assert_eq!(buffer.bytes().as_ptr().align_offset(BLOCK_BYTES), 0);
        }
        assert_eq!(buffer.bytes(), expected);
        buffer.fill_to(12_288);
        assert_eq!((buffer.len(), buffer.bytes()[12_287]), (12_288, 0));
        buffer.clear();
        assert!(buffer.is_empty());
    }
}
