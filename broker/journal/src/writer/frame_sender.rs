//! The sending half of the channel from a shard to the writer.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rtrb::{Consumer, Producer};

use crate::error::LogError;
use crate::format::FRAME_BODY_MAX_BYTES;
use crate::numbers::{ShardNumber, TurnNumber};
use crate::writer::shared::{RUNNING, Shared};

/// The bytes of one shard's frames that may be pending. A larger frame is accepted when none is pending.
pub const RING_MAX_BYTES: usize = 16 << 20;

/// A frame in the channel to the writer.
#[derive(Debug)]
pub(super) struct PostedFrame {
    /// Its place in the order of all shards.
    pub(super) ticket: u64,
    pub(super) turn: TurnNumber,
    pub(super) body: Vec<u8>,
}

/// Posts the frames of one shard. Never blocks and never takes a lock.
#[derive(Debug)]
pub struct FrameSender {
    shard: ShardNumber,
    frames_in: Producer<PostedFrame>,
    /// Buffers that the writer returns for reuse.
    free_buffers: Consumer<Vec<u8>>,
    posted: TurnNumber,
    shared: Arc<Shared>,
}

/// Why a frame was rejected. Contains the frame.
#[derive(Debug, PartialEq, Eq)]
pub enum PostError {
    /// Too many frames are pending. The shard is woken when some of them are durable.
    Full(Vec<u8>),
    /// The body exceeds [`FRAME_BODY_MAX_BYTES`].
    TooLarge(Vec<u8>),
    /// The log has failed or was closed: nothing is persisted any more.
    Failed(Vec<u8>),
}

impl FrameSender {
    pub(super) fn new(
        shard: ShardNumber,
        frames_in: Producer<PostedFrame>,
        free_buffers: Consumer<Vec<u8>>,
        shared: Arc<Shared>,
    ) -> FrameSender {
        FrameSender { shard, frames_in, free_buffers, posted: TurnNumber(0), shared }
    }

    /// Posts a frame and returns its turn number. The frame is durable once [`FrameSender::durable`] reaches it.
    ///
    /// # Errors
    /// See [`PostError`]: the frame was not taken, and no number was used.
    pub fn post(&mut self, body: Vec<u8>) -> Result<TurnNumber, PostError> {
        let turn = self.enqueue(body)?;
        self.request_flush();
        Ok(turn)
    }

    /// Posts a frame whose durability nothing waits for. It is written with the next urgent frame, and within
    /// [`GROUP_COMMIT_DELAY_MS`](crate::GROUP_COMMIT_DELAY_MS) at the latest.
    ///
    /// # Errors
    /// As for [`FrameSender::post`].
    pub fn post_deferred(&mut self, body: Vec<u8>) -> Result<TurnNumber, PostError> {
        let turn = self.enqueue(body)?;
        if self.is_half_full() {
            self.request_flush();
        } else {
            self.shared.notify_deferred();
        }
        Ok(turn)
    }

    /// Makes the writer write all frames posted so far without delay.
    fn request_flush(&self) {
        self.shared.flush_up_to.fetch_max(self.shared.next_ticket.load(Ordering::Acquire), Ordering::AcqRel);
        self.shared.waker.wake();
    }

    fn is_half_full(&self) -> bool {
        let waiting_bytes = self.shared.shard(self.shard).waiting_bytes.load(Ordering::Acquire);
        self.frames_in.slots() < self.frames_in.buffer().capacity() / 2 || waiting_bytes > RING_MAX_BYTES / 2
    }

    fn enqueue(&mut self, body: Vec<u8>) -> Result<TurnNumber, PostError> {
        if self.shared.state() != RUNNING {
            return Err(PostError::Failed(body));
        }
        if body.len() > FRAME_BODY_MAX_BYTES {
            return Err(PostError::TooLarge(body));
        }
        if !self.has_room(body.len()) {
            return Err(PostError::Full(body));
        }
        let turn = TurnNumber(self.posted.0 + 1);
        self.shared.shard(self.shard).waiting_bytes.fetch_add(body.len(), Ordering::AcqRel);
        // From here on the writer waits for this frame, so nothing may fail in between.
        let ticket = self.shared.next_ticket.fetch_add(1, Ordering::AcqRel);
        match self.frames_in.push(PostedFrame { ticket, turn, body }) {
            Ok(()) => {
                self.posted = turn;
                Ok(turn)
            }
            // Only this sender fills the ring.
            Err(rtrb::PushError::Full(posted)) => Err(PostError::Full(posted.body)),
        }
    }

    /// Returns the last turn of this shard up to which everything is durable.
    #[inline]
    pub fn durable(&self) -> TurnNumber {
        self.shared.shard(self.shard).durable()
    }

    /// Returns the last turn of this shard that was written: it survives the end of the process.
    #[inline]
    pub fn written(&self) -> TurnNumber {
        let state = self.shared.shard(self.shard);
        state.durable().max(TurnNumber(state.written.load(Ordering::Acquire)))
    }

    /// Returns the last turn that was posted.
    pub fn posted(&self) -> TurnNumber {
        self.posted
    }

    /// Whether a frame of `bytes` would be accepted now.
    pub fn has_room(&self, bytes: usize) -> bool {
        let waiting_bytes = self.shared.shard(self.shard).waiting_bytes.load(Ordering::Acquire);
        !self.frames_in.is_full() && (waiting_bytes == 0 || waiting_bytes.saturating_add(bytes) <= RING_MAX_BYTES)
    }

    /// Whether log and snapshot have reached their size limit, or the disk has no space. Frames are still accepted, but callers must reject
    /// the messages that they can reject.
    pub fn is_full(&self) -> bool {
        self.shared.is_full()
    }

    /// Returns an empty buffer for the next frame, a reused one if possible.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.free_buffers.pop().unwrap_or_default()
    }

    /// Returns the failure after which nothing becomes durable, if any.
    pub fn failure(&self) -> Option<&LogError> {
        self.shared.failure.get()
    }
}
