//! Buffers for input that is not yet a complete packet.

use std::io;
use std::ops::Range;

use tautwire_engine::{Chunk, Counters};
use tautwire_protocol::{DecodeOptions, FixedHeader, ProtocolVersion};

use super::transport::{ReadResult, Transport};

/// The size of a chunk, the buffer that a thread reads into.
const CHUNK_BYTES: usize = 256 << 10;
/// The most bytes per read, so that they are forwarded while they are in the processor's cache: with payloads of 64 KiB, twice or half as
/// much costs up to 50 % more CPU time.
const READ_MAX_BYTES: usize = 128 << 10;
/// The headroom before the read data, for the beginning of a packet that was read earlier.
const HEADROOM_BYTES: usize = 8 << 10;
/// A connection in the middle of a large packet may keep its chunk. At most this many connections of a thread may; for the others, the
/// packet is copied to a buffer of its size.
const PINNED_CHUNKS_MAX: usize = 32;
/// Chunks kept for reuse.
const FREE_CHUNKS_MAX: usize = 4;
/// The smallest growth of a buffer for a packet larger than a chunk. It doubles otherwise, so that it is never much larger than the data
/// received.
const GROWTH_BYTES: usize = 64 << 10;
/// Used to decode the length of a packet, which all versions share: 3.1 accepts every fixed header that the others accept.
const ANY_VERSION: DecodeOptions = DecodeOptions::new(ProtocolVersion::V3_1);

/// Input of a connection that is kept between turns. A connection between packets has none.
#[derive(Debug)]
pub(crate) enum PartialInput {
    /// Up to [`HEADROOM_BYTES`].
    Short(Vec<u8>),
    /// In a chunk that is pinned to the connection.
    Pinned(Chunk, Range<usize>),
    /// The beginning of a packet that is too large for a chunk, or that found no free pinned chunk. The number is the length of the data;
    /// the rest of the vector is prepared for more.
    Long(Vec<u8>, usize),
}

impl From<Vec<u8>> for PartialInput {
    fn from(bytes: Vec<u8>) -> PartialInput {
        if bytes.len() <= HEADROOM_BYTES {
            return PartialInput::Short(bytes);
        }
        let arrived = bytes.len();
        PartialInput::Long(bytes, arrived)
    }
}

impl PartialInput {
    /// Returns the size in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        match self {
            PartialInput::Short(bytes) | PartialInput::Long(bytes, _) => bytes.capacity(),
            // The pinned chunks are few.
            PartialInput::Pinned(_, range) => range.len(),
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            PartialInput::Short(bytes) => bytes,
            PartialInput::Long(bytes, arrived) => &bytes[..*arrived],
            PartialInput::Pinned(chunk, range) => &chunk.bytes()[range.clone()],
        }
    }
}

/// Input that is ready to be decoded.
#[derive(Debug)]
pub(crate) struct ReadInput {
    pub(crate) chunk: Chunk,
    pub(crate) range: Range<usize>,
    /// The result of the read; `None` if there was nothing to read.
    pub(crate) received: Option<ReadResult>,
    /// There may be more to read.
    pub(crate) more: bool,
}

/// The chunks of a thread.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    free_chunks: Vec<Chunk>,
    pinned: usize,
}

impl Chunks {
    /// Combines the kept input of a connection with the data of its transport, at most `read_max_bytes`. If `transport` is `None`, nothing
    /// is read.
    ///
    /// # Errors
    /// Read errors except "would block".
    pub(crate) fn read_input(
        &mut self,
        rest: Option<PartialInput>,
        transport: Option<&mut Transport<'_>>,
        read_max_bytes: usize,
        counters: &Counters,
    ) -> io::Result<ReadInput> {
        let read_max_bytes = read_max_bytes.min(READ_MAX_BYTES);
        let (mut chunk, mut range) = match rest {
            None => (self.take(), HEADROOM_BYTES..HEADROOM_BYTES),
            Some(PartialInput::Short(bytes)) => {
                let mut chunk = self.take();
                let range = HEADROOM_BYTES - bytes.len()..HEADROOM_BYTES;
                bytes_of(&mut chunk)[range.clone()].copy_from_slice(&bytes);
                (chunk, range)
            }
            Some(PartialInput::Pinned(chunk, range)) => {
                self.pinned -= 1;
                self.with_room(chunk, range)
            }
            Some(PartialInput::Long(mut bytes, arrived)) => {
                if transport.is_some() && arrived == bytes.len() {
                    if read_max_bytes < READ_MAX_BYTES {
                        // Memory is scarce.
                        bytes.reserve_exact(read_max_bytes);
                        bytes.resize(arrived + read_max_bytes, 0);
                    } else {
                        bytes.resize(arrived + arrived.max(GROWTH_BYTES), 0);
                    }
                }
                (Chunk::from(bytes), 0..arrived)
            }
        };
        let Some(transport) = transport else { return Ok(ReadInput { chunk, range, received: None, more: false }) };
        let room = &mut bytes_of(&mut chunk)[range.end..];
        let size = room.len().min(read_max_bytes);
        if size == 0 {
            // The chunk is full of complete packets that wait for processing.
            return Ok(ReadInput { chunk, range, received: None, more: true });
        }
        let received = transport.read(&mut room[..size], counters)?;
        range.end += received.map_or(0, |received| received.bytes);
        Ok(ReadInput { chunk, range, received, more: received.is_some_and(|received| received.is_full) })
    }

    /// Keeps `range` of the chunk for later, and returns the chunk to the pool if possible.
    pub(crate) fn keep(&mut self, chunk: Chunk, range: Range<usize>) -> Option<PartialInput> {
        if range.is_empty() {
            self.recycle(chunk);
            return None;
        }
        let bytes = &chunk.bytes()[range.clone()];
        if range.len() <= HEADROOM_BYTES {
            let rest = PartialInput::Short(bytes.to_vec());
            self.recycle(chunk);
            return Some(rest);
        }
        let packet_len = FixedHeader::decode(bytes, &ANY_VERSION).map_or(range.len(), |header| header.total_len());
        if chunk.bytes().len() == CHUNK_BYTES && packet_len <= CHUNK_BYTES && self.pinned < PINNED_CHUNKS_MAX {
            self.pinned += 1;
            return Some(PartialInput::Pinned(chunk, range));
        }
        if chunk.bytes().len() != CHUNK_BYTES && range.start == 0 {
            // A long packet continues to grow in place.
            return Some(match chunk.into_vec() {
                Ok(bytes) => PartialInput::Long(bytes, range.end),
                Err(chunk) => PartialInput::from(chunk.bytes()[range].to_vec()),
            });
        }
        let rest = PartialInput::from(bytes.to_vec());
        self.recycle(chunk);
        Some(rest)
    }

    /// Releases the kept input of a closed connection.
    pub(crate) fn release_partial(&mut self, rest: Option<PartialInput>) {
        if let Some(PartialInput::Pinned(chunk, _)) = rest {
            self.pinned -= 1;
            self.recycle(chunk);
        }
    }

    /// Frees the buffers kept for reuse.
    pub(crate) fn shrink(&mut self) {
        self.free_chunks = Vec::new();
    }

    /// Returns a chunk that no output refers to. Chunks in use become free at the end of the turn.
    fn take(&mut self) -> Chunk {
        match self.free_chunks.iter_mut().position(|chunk| chunk.get_mut().is_some()) {
            Some(free) => self.free_chunks.swap_remove(free),
            None => Chunk::new(CHUNK_BYTES),
        }
    }

    fn recycle(&mut self, chunk: Chunk) {
        if self.free_chunks.len() < FREE_CHUNKS_MAX && chunk.bytes().len() == CHUNK_BYTES {
            self.free_chunks.push(chunk);
        }
    }

    /// Moves the data of a chunk to its beginning if there is little space after it.
    fn with_room(&mut self, mut chunk: Chunk, range: Range<usize>) -> (Chunk, Range<usize>) {
        if CHUNK_BYTES - range.end >= CHUNK_BYTES / 4 && chunk.get_mut().is_some() {
            return (chunk, range);
        }
        let len = range.len();
        match chunk.get_mut() {
            Some(bytes) => {
                bytes.copy_within(range, 0);
                (chunk, 0..len)
            }
            None => {
                let mut unregistered = self.take();
                bytes_of(&mut unregistered)[..len].copy_from_slice(&chunk.bytes()[range]);
                // The outputs that refer to it release it at the end of the turn.
                self.recycle(chunk);
                (unregistered, 0..len)
            }
        }
    }
}

/// Returns the bytes of an unshared chunk.
fn bytes_of(chunk: &mut Chunk) -> &mut [u8] {
    if chunk.get_mut().is_none() {
        let copy = chunk.bytes().to_vec();
        *chunk = Chunk::from(copy);
    }
    chunk.get_mut().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_referenced_by_output_is_reused_later() {
        let mut chunks = Chunks::default();
        let chunk = chunks.take();
        let place = chunk.bytes().as_ptr();
        let referred_to = chunk.clone();
        let (unregistered, range) = chunks.with_room(chunk, CHUNK_BYTES - 10..CHUNK_BYTES);
        assert!(unregistered.bytes().as_ptr() != place && range == (0..10));
        drop(referred_to);
        assert_eq!(chunks.take().bytes().as_ptr(), place);
    }
}
