//! A shard's way to the writer.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rtrb::{Consumer, Producer};

use crate::error::LogError;
use crate::format::FRAME_BODY_MAX_BYTES;
use crate::numbers::{ShardNumber, TurnNumber};
use crate::writer::{RING_MAX_BYTES, RUNNING, Shared};

/// A frame on its way to the writer.
#[derive(Debug)]
pub(super) struct PostedFrame {
    /// Its place in the order of all shards.
    pub(super) ticket: u64,
    pub(super) turn: TurnNumber,
    pub(super) body: Vec<u8>,
}

/// By which one shard posts its frames. Nothing here waits or takes a lock.
#[derive(Debug)]
pub struct FrameSender {
    shard: ShardNumber,
    frames_in: Producer<PostedFrame>,
    /// Buffers that the writer has done with.
    free_buffers: Consumer<Vec<u8>>,
    posted: TurnNumber,
    shared: Arc<Shared>,
}

/// Why a frame is not taken. It is given back.
#[derive(Debug, PartialEq, Eq)]
pub enum PostError {
    /// Too much waits. The shard is woken when some of it is durable.
    Full(Vec<u8>),
    /// The body has more than [`FRAME_BODY_MAX_BYTES`].
    TooLarge(Vec<u8>),
    /// The log has failed or was closed: nothing becomes durable any more.
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

    /// Hands a frame over, and gives the number that it got. It is durable once [`FrameSender::durable`] has reached it.
    ///
    /// # Errors
    /// See [`PostError`]: the frame has not been taken, and no number was used.
    pub fn post(&mut self, body: Vec<u8>) -> Result<TurnNumber, PostError> {
        let turn = self.enqueue(body)?;
        self.request_flush();
        Ok(turn)
    }

    /// The same for a frame whose durability nobody waits for: it goes to the disk with the next one that somebody waits for, and within
    /// [`GROUP_COMMIT_DELAY_MS`](crate::GROUP_COMMIT_DELAY_MS) by itself.
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

    /// The writer puts nothing off that has been posted so far.
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
        // From here on the writer waits for this frame, so nothing may come between that can fail.
        let ticket = self.shared.next_ticket.fetch_add(1, Ordering::AcqRel);
        match self.frames_in.push(PostedFrame { ticket, turn, body }) {
            Ok(()) => {
                self.posted = turn;
                Ok(turn)
            }
            // Nobody else fills the ring.
            Err(rtrb::PushError::Full(posted)) => Err(PostError::Full(posted.body)),
        }
    }

    /// The last turn of this shard that is durable, with all before it.
    #[inline]
    pub fn durable(&self) -> TurnNumber {
        self.shared.shard(self.shard).durable()
    }

    /// The last turn of this shard that the system has: it survives the end of the process.
    #[inline]
    pub fn written(&self) -> TurnNumber {
        let state = self.shared.shard(self.shard);
        state.durable().max(TurnNumber(state.written.load(Ordering::Acquire)))
    }

    /// The last turn that was posted.
    pub fn posted(&self) -> TurnNumber {
        self.posted
    }

    /// Whether a frame of `bytes` would be taken now.
    pub fn has_room(&self, bytes: usize) -> bool {
        let waiting_bytes = self.shared.shard(self.shard).waiting_bytes.load(Ordering::Acquire);
        !self.frames_in.is_full() && (waiting_bytes == 0 || waiting_bytes.saturating_add(bytes) <= RING_MAX_BYTES)
    }

    /// Whether log and snapshot have as many bytes as they may, or the disk has no space for more. Frames are taken all the same:
    /// what can be refused is not to be posted any more.
    pub fn is_full(&self) -> bool {
        self.shared.is_full()
    }

    /// An empty buffer for the next frame, one that was used before where there is one.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.free_buffers.pop().unwrap_or_default()
    }

    /// Why nothing becomes durable any more, if so.
    pub fn failure(&self) -> Option<&LogError> {
        self.shared.failure.get()
    }
}
