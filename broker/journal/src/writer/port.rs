//! A shard's way to the writer.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rtrb::{Consumer, Producer};

use crate::error::LogError;
use crate::format::FRAME_BODY_MAX_BYTES;
use crate::numbers::{ShardNumber, TurnNumber};
use crate::writer::desk::Desk;
use crate::writer::{RING_MAX_BYTES, RUNNING, Shared};

/// A frame on its way to the writer.
#[derive(Debug)]
pub(super) struct Posted {
    /// Its place in the order of all shards.
    pub(super) ticket: u64,
    pub(super) turn: TurnNumber,
    pub(super) body: Vec<u8>,
}

/// By which one shard posts its frames. Nothing here waits or takes a lock, but [`Port::write_at_once`].
pub struct Port {
    shard: ShardNumber,
    posts: Producer<Posted>,
    /// Buffers that the writer has done with.
    empties: Consumer<Vec<u8>>,
    posted: TurnNumber,
    desk: Option<Arc<dyn Desk>>,
    shared: Arc<Shared>,
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port").field("shard", &self.shard).field("posted", &self.posted).finish_non_exhaustive()
    }
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
        Port { shard, posts, empties, posted: TurnNumber(0), desk: None, shared }
    }

    /// From now on frames can be written on the shard's thread.
    pub(super) fn sit_at(&mut self, desk: Arc<dyn Desk>) {
        self.desk = Some(desk);
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

    /// The same as [`Port::post`], but the writer is not told. [`Port::write_at_once`] or [`Port::announce`] has to follow.
    ///
    /// # Errors
    /// As for [`Port::post`].
    pub fn post_quietly(&mut self, body: Vec<u8>) -> Result<TurnNumber, PostError> {
        self.hand_over(body)
    }

    /// Writes what has been posted on this thread, and waits until it is durable. That takes as long as the disk does, and spares two
    /// threads from waking each other. False where that is not to be: the writer is at work, the disk was slow lately, there is much to
    /// write, or something has to be prepared first. [`Port::announce`] has to follow then.
    pub fn write_at_once(&mut self) -> bool {
        // A frame of another shard may have its place before this one's and not be there yet.
        self.desk.as_ref().is_some_and(|desk| desk.write_at_once()) && self.durable() == self.posted
    }

    /// Tells the writer of what was posted quietly.
    pub fn announce(&self) {
        self.hurry();
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
        let buffer = self.empties.pop().unwrap_or_default();
        self.shared.shard(self.shard).empty_bytes.fetch_sub(buffer.capacity(), Ordering::AcqRel);
        buffer
    }

    /// Why nothing becomes durable any more, if so.
    pub fn failure(&self) -> Option<&LogError> {
        self.shared.failure.get()
    }
}
