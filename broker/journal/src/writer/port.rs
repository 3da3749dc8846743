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
pub(super) struct Posted {
    /// Its place in the order of all shards.
    pub(super) ticket: u64,
    pub(super) turn: TurnNumber,
    pub(super) body: Vec<u8>,
}

/// By which one shard posts its frames. Nothing here waits or takes a lock.
#[derive(Debug)]
pub struct Port {
    shard: ShardNumber,
    posts: Producer<Posted>,
    /// Buffers that the writer has done with.
    empties: Consumer<Vec<u8>>,
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

impl Port {
    pub(super) fn new(
        shard: ShardNumber,
        posts: Producer<Posted>,
        empties: Consumer<Vec<u8>>,
        shared: Arc<Shared>,
    ) -> Port {
        Port { shard, posts, empties, posted: TurnNumber(0), shared }
    }

    /// Hands a frame over, and gives the number that it got. It is durable once [`Port::durable`] has reached it.
    ///
    /// # Errors
    /// See [`PostError`]: the frame has not been taken, and no number was used.
    pub fn post(&mut self, body: Vec<u8>) -> Result<TurnNumber, PostError> {
        let turn = self.hand_over(body)?;
        self.hurry();
        Ok(turn)
    }

    /// The same for a frame whose durability nobody waits for: it goes to the disk with the next one that somebody waits for, and within
    /// [`PUT_OFF_MS`](crate::PUT_OFF_MS) by itself.
    ///
    /// # Errors
    /// As for [`Port::post`].
    pub fn post_at_leisure(&mut self, body: Vec<u8>) -> Result<TurnNumber, PostError> {
        let turn = self.hand_over(body)?;
        if self.is_half_full() {
            self.hurry();
        } else {
            self.shared.announce_at_leisure();
        }
        Ok(turn)
    }

    /// The writer puts nothing off that has been posted so far.
    fn hurry(&self) {
        self.shared.urgent_end.fetch_max(self.shared.next_ticket.load(Ordering::Acquire), Ordering::AcqRel);
        self.shared.bell.ring();
    }

    fn is_half_full(&self) -> bool {
        let waiting_bytes = self.shared.shard(self.shard).waiting_bytes.load(Ordering::Acquire);
        self.posts.slots() < self.posts.buffer().capacity() / 2 || waiting_bytes > RING_MAX_BYTES / 2
    }

    fn hand_over(&mut self, body: Vec<u8>) -> Result<TurnNumber, PostError> {
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
        match self.posts.push(Posted { ticket, turn, body }) {
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
        !self.posts.is_full() && (waiting_bytes == 0 || waiting_bytes.saturating_add(bytes) <= RING_MAX_BYTES)
    }

    /// Whether log and snapshot have as many bytes as they may, or the disk has no space for more. Frames are taken all the same:
    /// what can be refused is not to be posted any more.
    pub fn is_full(&self) -> bool {
        self.shared.is_full()
    }

    /// An empty buffer for the next frame, one that was used before where there is one.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.empties.pop().unwrap_or_default()
    }

    /// Why nothing becomes durable any more, if so.
    pub fn failure(&self) -> Option<&LogError> {
        self.shared.failure.get()
    }
}
