//! The journal of a shard, whose frames a thread of their own makes durable.

use std::collections::VecDeque;

use tautwire_journal::{FrameSender, PostError};
use tautwire_message::MessageId;
use tautwire_session::{Change, Journal, LogPosition, LogState, Record, SessionNumber};

use crate::frame_writer::FrameWriter;

/// With less room than this for further frames, the log is behind.
const FREE_MIN_BYTES: usize = 1 << 20;

/// Numbers for the sessions of one shard. Those of several shards never meet.
#[derive(Debug, Clone, Copy)]
pub struct SessionNumbers {
    next: u64,
    step: u64,
}

impl SessionNumbers {
    /// Numbers for shard `index` of `shards`, above `last`, which is the highest that has been given.
    pub fn above(last: SessionNumber, index: usize, shards: usize) -> SessionNumbers {
        SessionNumbers { next: last.0 + 1 + index as u64, step: shards as u64 }
    }

    /// The next one.
    pub fn next_number(&mut self) -> SessionNumber {
        let number = SessionNumber(self.next);
        self.next += self.step;
        number
    }
}

/// Takes down what a shard changes.
#[derive(Debug)]
pub struct ShardLog {
    port: FrameSender,
    numbers: SessionNumbers,
    frame: FrameWriter,
    /// The frame has records for whose durability somebody may wait.
    is_awaited: bool,
    /// Frames that are complete and for which the way has had no room.
    pending_frames: VecDeque<PendingFrame>,
    has_failed: bool,
}

/// A frame that is complete and has not been posted.
#[derive(Debug)]
struct PendingFrame {
    body: Vec<u8>,
    /// It has records for whose durability somebody may wait.
    is_awaited: bool,
}

impl ShardLog {
    /// The journal of the shard that `port` is for.
    pub fn new(port: FrameSender, numbers: SessionNumbers) -> ShardLog {
        let (frame, pending_frames) = (FrameWriter::default(), VecDeque::new());
        ShardLog { port, numbers, frame, is_awaited: false, pending_frames, has_failed: false }
    }

    /// Posts the frames that wait, as far as there is room.
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

    /// Nothing becomes durable any more: what would have to is told to nobody.
    #[cold]
    fn fail(&mut self) {
        self.pending_frames.clear();
        if !std::mem::replace(&mut self.has_failed, true) {
            let why = self.port.failure().map_or_else(|| "a frame is too large".to_owned(), ToString::to_string);
            log::error!("nothing is kept on disk any more: {why}");
        }
    }
}

/// Whether anything waits for the record to be durable. Nobody does for a message's end, which a client has told us: where it is lost the
/// message is sent again, or at QoS 2 its PUBREL, as after an acknowledgement that got lost on its way.
fn is_awaited(record: &Record<'_>) -> bool {
    !matches!(record, Record::Changed { change: Change::Completed(_), .. })
}

impl Journal for ShardLog {
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
        // One that has failed never catches up, and takes whatever it is told for nothing.
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
