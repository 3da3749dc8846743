//! The journal of one shard, whose frames the writer thread makes durable.

use std::collections::VecDeque;

use tautwire_journal::{FrameSender, PostError};
use tautwire_message::MessageId;
use tautwire_session::{Change, Journal, LogPosition, LogState, NoClusterBox, Record, SessionNumber};

use crate::frame_writer::FrameWriter;

/// The log counts as lagging with less space than this for pending frames.
const FREE_MIN_BYTES: usize = 1 << 20;

/// Assigns session numbers for one shard, distinct from those of other shards.
#[derive(Debug, Clone, Copy)]
pub struct SessionNumbers {
    next: u64,
    step: u64,
}

impl SessionNumbers {
    /// Creates the numbers of shard `index` of `shards`, above `last`, the highest number assigned so far.
    pub fn above(last: SessionNumber, index: usize, shards: usize) -> SessionNumbers {
        SessionNumbers { next: last.0 + 1 + index as u64, step: shards as u64 }
    }

    /// Returns the next number.
    pub fn next_number(&mut self) -> SessionNumber {
        let number = SessionNumber(self.next);
        self.next += self.step;
        number
    }
}

/// Records the changes of a shard.
#[derive(Debug)]
pub struct ShardLog {
    port: FrameSender,
    numbers: SessionNumbers,
    frame: FrameWriter,
    /// Whether the frame has records whose durability something may wait for.
    is_awaited: bool,
    /// Complete frames that did not fit into the channel.
    pending_frames: VecDeque<PendingFrame>,
    has_failed: bool,
}

/// A complete frame that was not posted yet.
#[derive(Debug)]
struct PendingFrame {
    body: Vec<u8>,
    /// Whether it has records whose durability something may wait for.
    is_awaited: bool,
}

impl ShardLog {
    /// Creates the journal of the shard to which `port` belongs.
    pub fn new(port: FrameSender, numbers: SessionNumbers) -> ShardLog {
        let (frame, pending_frames) = (FrameWriter::default(), VecDeque::new());
        ShardLog { port, numbers, frame, is_awaited: false, pending_frames, has_failed: false }
    }

    /// Posts pending frames as long as there is space.
    fn post_pending(&mut self) {
        while let Some(PendingFrame { body, is_awaited }) = self.pending_frames.pop_front() {
            let posted = if is_awaited { self.port.post(body) } else { self.port.post_deferred(body) };
            match posted {
                Ok(_) => {}
                Err(PostError::Full(body)) => {
                    self.pending_frames.push_front(PendingFrame { body, is_awaited });
                    return;
                }
                Err(PostError::Failed(_) | PostError::TooLarge(_)) => self.fail(),
            }
        }
    }

    /// Stops persisting: nothing is persisted any more, so nothing that depends on it is acknowledged.
    #[cold]
    fn fail(&mut self) {
        self.pending_frames.clear();
        if !std::mem::replace(&mut self.has_failed, true) {
            let why = self.port.failure().map_or_else(|| "a frame is too large".to_owned(), ToString::to_string);
            log::error!("nothing is persisted any more: {why}");
        }
    }
}

/// Whether anything waits for the durability of a record. Nothing waits for the completion of a message, which the client has acknowledged:
/// if the record is lost, the message or, at QoS 2, its PUBREL is sent again, as after a lost acknowledgement.
fn is_awaited(record: &Record<'_>) -> bool {
    !matches!(record, Record::Changed { change: Change::Completed(_), .. })
}

impl Journal for ShardLog {
    type ClusterBox<T: Send> = NoClusterBox<T>;

    const PERSISTENT: bool = true;

    fn next_session(&mut self) -> SessionNumber {
        self.numbers.next_number()
    }

    fn record(&mut self, record: Record<'_>) -> LogPosition {
        self.frame.add(&record);
        self.is_awaited |= is_awaited(&record);
        LogPosition(self.port.posted().0 + self.pending_frames.len() as u64 + 1)
    }

    fn mark_forwarded(&mut self, message: MessageId) {
        self.frame.mark_forwarded(message);
    }

    fn end_frame(&mut self) {
        if !self.has_failed && self.port.failure().is_some() {
            self.fail();
        }
        if !self.frame.is_empty() {
            let buffer = self.port.buffer();
            let body = self.frame.take(buffer);
            let is_awaited = std::mem::take(&mut self.is_awaited);
            if self.has_failed {
                return;
            }
            self.pending_frames.push_back(PendingFrame { body, is_awaited });
        }
        if !self.pending_frames.is_empty() {
            self.post_pending();
        }
    }

    #[inline]
    fn frame_bytes(&self) -> usize {
        self.frame.len()
    }

    fn has_submitted_all(&self) -> bool {
        self.pending_frames.is_empty()
    }

    fn durable(&self) -> LogPosition {
        LogPosition(self.port.durable().0)
    }

    fn written(&self) -> LogPosition {
        LogPosition(self.port.written().0)
    }

    fn is_lagging(&self) -> bool {
        // A failed log never catches up, and drops everything it is given.
        !self.has_failed && (!self.pending_frames.is_empty() || !self.port.has_room(FREE_MIN_BYTES))
    }

    fn state(&self) -> LogState {
        if self.has_failed || self.port.failure().is_some() {
            LogState::Failed
        } else if self.port.is_full() {
            LogState::Full
        } else {
            LogState::Open
        }
    }
}
