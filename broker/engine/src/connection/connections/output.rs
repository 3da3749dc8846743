//! Bytes that wait to be written to one connection.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

use tautwire_memory::{Charge, Kind, MemoryLedger};
use tautwire_message::Message;

use crate::index::NonZeroMs;

/// A tail buffer with more room than this is freed rather than kept for the next connection.
const REUSED_BUFFER_BYTES: usize = 64 << 10;
/// Buffers kept for reuse by one shard.
const POOL_BYTES_MAX: usize = 2 << 20;

/// The memory into which a socket has been read. Payloads can be sent from it without a copy while the turn lasts.
#[derive(Debug, Clone)]
pub struct Chunk(Arc<Vec<u8>>);

impl Chunk {
    /// A chunk of `bytes` zero bytes.
    pub fn new(bytes: usize) -> Chunk {
        Chunk(Arc::new(vec![0; bytes]))
    }

    /// The bytes, to read into; `None` while an output still refers to them.
    pub fn get_mut(&mut self) -> Option<&mut [u8]> {
        Arc::get_mut(&mut self.0).map(Vec::as_mut_slice)
    }

    /// The memory itself.
    ///
    /// # Errors
    /// The chunk, while an output still refers to it.
    pub fn into_vec(self) -> Result<Vec<u8>, Chunk> {
        Arc::try_unwrap(self.0).map_err(Chunk)
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for Chunk {
    fn from(bytes: Vec<u8>) -> Chunk {
        Chunk(Arc::new(bytes))
    }
}

#[derive(Debug)]
enum Segment {
    Bytes(Vec<u8>),
    Chunk(Chunk, Range<usize>),
    Payload(Message),
}

impl Segment {
    /// Bytes that the segment takes, if it is not a message, which counts where it is kept.
    fn owned_bytes(&self) -> usize {
        match self {
            Segment::Bytes(bytes) => bytes.capacity(),
            Segment::Chunk(_, range) => range.len(),
            Segment::Payload(_) => 0,
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Segment::Bytes(bytes) => bytes,
            Segment::Chunk(chunk, range) => &chunk.bytes()[range.clone()],
            Segment::Payload(message) => message.payload(),
        }
    }
}

/// Output of one connection: a row of segments and a tail that grows.
#[derive(Debug)]
pub struct Output {
    segments: VecDeque<Segment>,
    tail: Vec<u8>,
    /// Bytes at the front that have been written.
    written: usize,
    /// Bytes still to be written.
    pending: usize,
    /// What of `pending` has been counted.
    counted: usize,
    /// Since when output has been pending without a byte taken.
    stalled_since_ms: Option<NonZeroMs>,
    /// Bytes of segments that are nobody else's.
    owned_bytes: usize,
    charge: Charge,
}

/// How the tail was before something was appended to it.
#[derive(Debug)]
pub(crate) struct TailMark {
    len: usize,
    capacity: usize,
}

impl Output {
    /// An empty output in a ledger.
    pub(crate) fn new(ledger: &Arc<MemoryLedger>) -> Output {
        Output {
            segments: VecDeque::new(),
            tail: Vec::new(),
            written: 0,
            pending: 0,
            counted: 0,
            stalled_since_ms: None,
            owned_bytes: 0,
            charge: Charge::new(ledger, Kind::Output),
        }
    }

    /// Bytes that the output takes, without messages that it only refers to.
    pub(crate) fn held_bytes(&self) -> usize {
        self.charge.bytes()
    }

    /// Brings the account up to date. Parts of a chunk count as if they were copied, as they will be if they stay.
    #[inline]
    fn weigh(&mut self) {
        let segments_bytes = self.segments.capacity() * size_of::<Segment>();
        self.charge.set(size_of::<Output>() + self.tail.capacity() + segments_bytes + self.owned_bytes);
    }

    /// Bytes still to be written.
    #[inline]
    pub fn pending_bytes(&self) -> usize {
        self.pending
    }

    /// How much more is pending than when this was last asked; less where the number wraps.
    pub(crate) fn count(&mut self) -> u64 {
        let counted = std::mem::replace(&mut self.counted, self.pending);
        (self.pending as u64).wrapping_sub(counted as u64)
    }

    /// Since when output has been pending without a byte taken.
    pub(crate) fn stalled_since_ms(&self) -> Option<NonZeroMs> {
        self.stalled_since_ms
    }

    /// What is pending has not been taken, or with `progress` not all of it; says whether the clock has been set.
    pub(crate) fn record_stall(&mut self, progress: bool, now_ms: u64) -> bool {
        let sets = progress || self.stalled_since_ms.is_none();
        if sets {
            self.stalled_since_ms = NonZeroMs::new(now_ms);
        }
        sets
    }

    /// Lets `write` append to the tail.
    #[inline]
    pub(crate) fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let (tail, before) = self.begin_append();
        write(tail);
        self.end_append(before);
    }

    /// The tail, for who appends to it without a closure, which would be a call for each message. [`Output::end_append`] follows.
    #[inline(always)]
    pub(crate) fn begin_append(&mut self) -> (&mut Vec<u8>, TailMark) {
        let before = TailMark { len: self.tail.len(), capacity: self.tail.capacity() };
        (&mut self.tail, before)
    }

    #[inline(always)]
    pub(crate) fn end_append(&mut self, before: TailMark) {
        self.pending += self.tail.len() - before.len;
        if self.tail.capacity() != before.capacity {
            self.weigh();
        }
    }

    /// Appends a packet that others get too, with a first byte of its own.
    #[inline(always)]
    pub(crate) fn append_copy(&mut self, packet: &[u8], first_byte: u8) {
        let (tail, before) = self.begin_append();
        let start = tail.len();
        tail.extend_from_slice(packet);
        tail[start] = first_byte;
        self.end_append(before);
    }

    /// Appends part of a chunk without copying it.
    pub(crate) fn append_chunk(&mut self, chunk: &Chunk, range: Range<usize>) {
        self.pending += range.len();
        self.push(Segment::Chunk(chunk.clone(), range));
    }

    /// Appends a message's payload without copying it.
    pub(crate) fn append_payload(&mut self, message: Message) {
        self.pending += message.payload().len();
        self.push(Segment::Payload(message));
    }

    fn push(&mut self, segment: Segment) {
        if !self.tail.is_empty() {
            let tail = Segment::Bytes(std::mem::take(&mut self.tail));
            self.owned_bytes += tail.owned_bytes();
            self.segments.push_back(tail);
        }
        self.owned_bytes += segment.owned_bytes();
        self.segments.push_back(segment);
        self.weigh();
    }

    /// Fills `slices` with what is to be written next, in order, `max_bytes` of it at most; returns how many it filled.
    pub fn fill<'a>(&'a self, slices: &mut [IoSlice<'a>], max_bytes: usize) -> usize {
        let mut skip = self.written;
        let mut room = max_bytes;
        let rows = self.segments.iter().map(Segment::bytes).chain(std::iter::once(&self.tail[..]));
        let mut filled = 0;
        for (slice, bytes) in slices.iter_mut().zip(rows) {
            let bytes = &bytes[skip..];
            let bytes = &bytes[..bytes.len().min(room)];
            *slice = IoSlice::new(bytes);
            skip = 0;
            room -= bytes.len();
            filled += 1;
            if room == 0 {
                break;
            }
        }
        filled
    }

    /// All that is pending where it lies in one piece, which it does unless large payloads are among it.
    #[inline]
    pub fn single(&self) -> Option<&[u8]> {
        self.segments.is_empty().then(|| &self.tail[self.written..])
    }

    /// `count` bytes have been written.
    #[inline(always)]
    pub fn advance(&mut self, count: usize) {
        debug_assert!(count <= self.pending, "no more is written than was there");
        self.pending -= count;
        self.written += count;
        while let Some(first) = self.segments.front() {
            let len = first.bytes().len();
            if self.written < len {
                return;
            }
            self.written -= len;
            self.owned_bytes -= first.owned_bytes();
            self.segments.pop_front();
            self.weigh();
        }
        if self.pending == 0 {
            self.tail.clear();
            self.written = 0;
        }
    }

    /// PacketCopies what still refers to a chunk, so that the chunk can be read into again.
    pub fn settle(&mut self) {
        for segment in &mut self.segments {
            if let Segment::Chunk(..) = segment {
                // As long as the part of the chunk was, so the account stays as it is.
                *segment = Segment::Bytes(segment.bytes().to_vec());
            }
        }
        // What has been written of a long tail would otherwise stay as long as the reader is behind.
        if self.segments.is_empty() && self.written > self.tail.len() / 2 {
            self.tail.drain(..self.written);
            self.written = 0;
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.segments.clear();
        self.tail.clear();
        self.written = 0;
        self.pending = 0;
        self.stalled_since_ms = None;
        if self.owned_bytes > 0 {
            self.owned_bytes = 0;
            self.weigh();
        }
    }
}

/// Outputs that are not in use: an idle connection has none.
#[derive(Debug)]
pub(crate) struct OutputPool {
    #[expect(clippy::vec_box, reason = "the boxes are what is kept: they go to connections as they are")]
    free: Vec<Box<Output>>,
    /// What the outputs in the pool take.
    bytes: usize,
    /// What of `bytes` has been taken off the account.
    uncharged_bytes: usize,
    ledger: Arc<MemoryLedger>,
}

impl OutputPool {
    /// An empty pool. Outputs of connections stand in `ledger`. Those in the pool are few, and nobody's.
    pub(crate) fn new(ledger: &Arc<MemoryLedger>) -> OutputPool {
        OutputPool { free: Vec::new(), bytes: 0, uncharged_bytes: 0, ledger: ledger.clone() }
    }

    #[inline]
    pub(crate) fn take(&mut self) -> Box<Output> {
        let Some(output) = self.free.pop() else { return self.make() };
        self.bytes -= output.charge.bytes();
        output
    }

    #[cold]
    fn make(&self) -> Box<Output> {
        let mut output = Box::new(Output::new(&self.ledger));
        output.weigh();
        output
    }

    #[inline]
    pub(crate) fn give_back(&mut self, mut output: Box<Output>) {
        if output.tail.capacity() > REUSED_BUFFER_BYTES || self.bytes >= POOL_BYTES_MAX {
            return;
        }
        output.clear();
        self.bytes += output.charge.bytes();
        self.free.push(output);
    }

    /// Frees all outputs that are not in use.
    pub(crate) fn free_all(&mut self) {
        self.free = Vec::new();
        self.bytes = 0;
        // Each has taken itself off the account, from which the pool as a whole was taken already.
        self.settle();
    }

    /// Takes what is in the pool off the account. Once a turn is enough, and costs less than doing so for each output.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if self.bytes != self.uncharged_bytes {
            self.ledger.settle(Kind::Output, self.bytes, self.uncharged_bytes);
            self.uncharged_bytes = self.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(output: &Output) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); 8];
        let filled = output.fill(&mut slices, usize::MAX);
        slices[..filled].iter().flat_map(|slice| slice.iter().copied()).collect()
    }

    #[test]
    fn an_emptied_pool_leaves_the_ledger_unchanged() {
        let ledger = Arc::default();
        let mut pool = OutputPool::new(&ledger);
        let in_use = pool.take();
        for _ in 0..3 {
            let mut outputs = [pool.take(), pool.take(), pool.take()];
            outputs.iter_mut().for_each(|output| output.append(|tail| tail.extend_from_slice(&[0; 10_000])));
            outputs.into_iter().for_each(|output| pool.give_back(output));
            pool.settle();
            assert_eq!(ledger.held(Kind::Output), in_use.held_bytes() as u64);
            pool.free_all();
            assert!(pool.free.is_empty());
            assert_eq!(ledger.held(Kind::Output), in_use.held_bytes() as u64);
        }
    }

    #[test]
    fn bytes_are_written_in_order() {
        for step in 1..=13 {
            let chunk = Chunk::from(b"0123456789".to_vec());
            let mut output = Output::new(&Arc::default());
            output.append(|tail| tail.extend_from_slice(b"abc"));
            output.append_chunk(&chunk, 2..6);
            output.append(|tail| tail.extend_from_slice(b"de"));
            output.append_chunk(&chunk, 0..2);
            output.append(|tail| tail.extend_from_slice(b"fg"));
            let mut seen: Vec<u8> = Vec::new();
            while output.pending_bytes() > 0 {
                let rest = all(&output);
                assert_eq!(rest.len(), output.pending_bytes());
                let take = step.min(rest.len());
                seen.extend_from_slice(&rest[..take]);
                output.advance(take);
                output.settle();
            }
            assert_eq!(seen, b"abc2345de01fg", "step {step}");
            assert_eq!(output.single(), Some(&b""[..]));
        }
    }

    #[test]
    fn fill_respects_the_limit() {
        let chunk = Chunk::from(b"0123456789".to_vec());
        let mut output = Output::new(&Arc::default());
        output.append(|tail| tail.extend_from_slice(b"abc"));
        output.append_chunk(&chunk, 2..6);
        output.append(|tail| tail.extend_from_slice(b"de"));
        output.advance(1);
        for max_bytes in 0..=8 {
            let mut slices = [IoSlice::new(&[]); 8];
            let filled = output.fill(&mut slices, max_bytes);
            let bytes: Vec<u8> = slices[..filled].iter().flat_map(|slice| slice.iter().copied()).collect();
            assert_eq!(bytes, b"bc2345de"[..max_bytes]);
        }
    }

    #[test]
    fn copying_frees_the_chunk() {
        let mut chunk = Chunk::from(vec![1; 10]);
        let mut output = Output::new(&Arc::default());
        output.append_chunk(&chunk, 0..10);
        assert!(chunk.get_mut().is_none());
        output.advance(3);
        output.settle();
        assert!(chunk.get_mut().is_some());
        assert_eq!(all(&output), [1; 7]);
    }
}
