//! The output buffer of one connection.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

use tautwire_memory::{Charge, Kind, MemoryLedger};
use tautwire_message::Message;

use crate::index::NonZeroMs;

/// A tail buffer with more capacity is freed instead of pooled.
const REUSED_BUFFER_BYTES: usize = 64 << 10;
/// The most bytes in one shard's pool.
const POOL_BYTES_MAX: usize = 2 << 20;

/// A buffer into which a socket is read. Payloads can be sent from it without a copy while the turn lasts.
#[derive(Debug, Clone)]
pub struct Chunk(Arc<Vec<u8>>);

impl Chunk {
    /// A chunk of `bytes` zero bytes.
    pub fn new(bytes: usize) -> Chunk {
        Chunk(Arc::new(vec![0; bytes]))
    }

    /// The bytes, to read into; `None` while an output refers to them.
    pub fn get_mut(&mut self) -> Option<&mut [u8]> {
        Arc::get_mut(&mut self.0).map(Vec::as_mut_slice)
    }

    /// The buffer itself.
    ///
    /// # Errors
    /// The chunk, while an output refers to it.
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
    /// The memory of the segment. A message counts as 0, as it is charged where it is stored.
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

/// The output of one connection: segments, and a tail that gparts.
#[derive(Debug)]
pub struct Output {
    segments: VecDeque<Segment>,
    tail: Vec<u8>,
    /// Bytes at the front that have been written.
    written: usize,
    /// Bytes still to be written.
    pending: usize,
    /// The part of `pending` that is in the counters.
    counted: usize,
    /// Since when output has been pending without progress.
    stalled_since_ms: Option<NonZeroMs>,
    /// Bytes of segments that the output owns.
    owned_bytes: usize,
    charge: Charge,
}

/// The tail before an append.
#[derive(Debug)]
pub(crate) struct TailMark {
    len: usize,
    capacity: usize,
}

impl Output {
    /// Creates an empty output, charged to `ledger`.
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

    /// The memory of the output, without the messages to which it refers.
    pub(crate) fn held_bytes(&self) -> usize {
        self.charge.bytes()
    }

    /// Updates the ledger. Parts of a chunk count as if they were copied, which happens if they stay.
    #[inline]
    fn update_charge(&mut self) {
        let segments_bytes = self.segments.capacity() * size_of::<Segment>();
        self.charge.set(size_of::<Output>() + self.tail.capacity() + segments_bytes + self.owned_bytes);
    }

    /// Bytes still to be written.
    #[inline]
    pub fn pending_bytes(&self) -> usize {
        self.pending
    }

    /// The change of the pending bytes since the last call, as a wrapping number.
    pub(crate) fn count(&mut self) -> u64 {
        let counted = std::mem::replace(&mut self.counted, self.pending);
        (self.pending as u64).wrapping_sub(counted as u64)
    }

    /// Since when output has been pending without progress.
    pub(crate) fn stalled_since_ms(&self) -> Option<NonZeroMs> {
        self.stalled_since_ms
    }

    /// Records that output is still pending, with `progress` if a part was written. Returns whether the stall timeout has started again.
    pub(crate) fn record_stall(&mut self, progress: bool, now_ms: u64) -> bool {
        let is_restarted = progress || self.stalled_since_ms.is_none();
        if is_restarted {
            self.stalled_since_ms = NonZeroMs::new(now_ms);
        }
        is_restarted
    }

    /// Appends to the tail.
    #[inline]
    pub(crate) fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let (tail, before) = self.begin_append();
        write(tail);
        self.end_append(before);
    }

    /// Starts an append without a closure, which would be a call for each message. [`Output::end_append`] must follow.
    #[inline(always)]
    pub(crate) fn begin_append(&mut self) -> (&mut Vec<u8>, TailMark) {
        let before = TailMark { len: self.tail.len(), capacity: self.tail.capacity() };
        (&mut self.tail, before)
    }

    #[inline(always)]
    pub(crate) fn end_append(&mut self, before: TailMark) {
        self.pending += self.tail.len() - before.len;
        if self.tail.capacity() != before.capacity {
            self.update_charge();
        }
    }

    /// Appends a packet that is shared with other receivers, with its own first byte.
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
        self.update_charge();
    }

    /// Fills `slices` with the next pending bytes, at most `max_bytes`. Returns how many slices it filled.
    pub fn fill<'a>(&'a self, slices: &mut [IoSlice<'a>], max_bytes: usize) -> usize {
        let mut skip = self.written;
        let mut left_bytes = max_bytes;
        let parts = self.segments.iter().map(Segment::bytes).chain(std::iter::once(&self.tail[..]));
        let mut filled = 0;
        for (slice, bytes) in slices.iter_mut().zip(parts) {
            let bytes = &bytes[skip..];
            let bytes = &bytes[..bytes.len().min(left_bytes)];
            *slice = IoSlice::new(bytes);
            skip = 0;
            left_bytes -= bytes.len();
            filled += 1;
            if left_bytes == 0 {
                break;
            }
        }
        filled
    }

    /// All pending bytes if they are contiguous, which they are unless large payloads are among them.
    #[inline]
    pub fn single(&self) -> Option<&[u8]> {
        self.segments.is_empty().then(|| &self.tail[self.written..])
    }

    /// Removes `count` written bytes from the front.
    #[inline(always)]
    pub fn advance(&mut self, count: usize) {
        debug_assert!(count <= self.pending, "more bytes written than pending");
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
            self.update_charge();
        }
        if self.pending == 0 {
            self.tail.clear();
            self.written = 0;
        }
    }

    /// Copies all parts that refer to chunks, so that the chunks can be read into again.
    pub fn settle(&mut self) {
        for segment in &mut self.segments {
            if let Segment::Chunk(..) = segment {
                // The copy is as long as the part, so the ledger does not change.
                *segment = Segment::Bytes(segment.bytes().to_vec());
            }
        }
        // Otherwise the written part of a long tail would remain as long as the client is behind.
        if self.segments.is_empty() && self.written > self.tail.len() / 2 {
            self.tail.drain(..self.written);
            self.written = 0;
        }
    }

    /// Discards all output.
    pub(crate) fn clear(&mut self) {
        self.segments.clear();
        self.tail.clear();
        self.written = 0;
        self.pending = 0;
        self.stalled_since_ms = None;
        if self.owned_bytes > 0 {
            self.owned_bytes = 0;
            self.update_charge();
        }
    }
}

/// Unused outputs: an idle connection has none.
#[derive(Debug)]
pub(crate) struct OutputPool {
    #[expect(clippy::vec_box, reason = "the boxes move to connections as they are")]
    free: Vec<Box<Output>>,
    /// The memory of the outputs in the pool.
    bytes: usize,
    /// The part of `bytes` that has been removed from the ledger.
    uncharged_bytes: usize,
    ledger: Arc<MemoryLedger>,
}

impl OutputPool {
    /// Creates an empty pool. Outputs of connections are charged to `ledger`; the few in the pool are not.
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
        output.update_charge();
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

    /// Frees all unused outputs.
    pub(crate) fn free_all(&mut self) {
        self.free = Vec::new();
        self.bytes = 0;
        // Each has removed its charge, which the pool had already removed as a whole.
        self.settle();
    }

    /// Removes the pooled outputs from the ledger. Once a turn is enough, and cheaper than for each output.
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
