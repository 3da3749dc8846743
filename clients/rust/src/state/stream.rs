//! The message queue of one stream.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use tautwire_protocol::QoS;

use crate::machine::AckToken;
use crate::sync::lock;
use crate::{Error, Message, Overflow};

/// If reading continues although a stream is full, the stream may hold this many times its capacity before messages are
/// dropped. If reading is paused, it exceeds its capacity by the messages of one read at most.
const OVERFULL: usize = 8;

#[derive(Debug)]
pub(super) struct Stream {
    capacity: usize,
    overflow: Overflow,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    messages: VecDeque<Message>,
    waker: Option<Waker>,
    /// No more messages follow.
    end: Option<Error>,
    /// Since when it counts as a stream that pauses reading.
    holds_up_since_ms: Option<u64>,
    /// It has paused reading for too long: until it is read, QoS 0 messages without room are dropped.
    is_stuck: bool,
    /// QoS 0 messages that were dropped.
    dropped: u64,
}

/// The result of queueing a message.
#[derive(Debug, Default)]
pub(super) struct Pushed {
    pub(super) waker: Option<Waker>,
    /// The stream is full from now on and pauses reading.
    pub(super) holds_up: bool,
    /// A message was dropped.
    pub(super) dropped: bool,
    /// The message was not queued, and the application will not acknowledge it.
    pub(super) refused: bool,
}

impl Stream {
    pub(super) fn new(capacity: usize, overflow: Overflow) -> Stream {
        Stream { capacity, overflow, queue: Mutex::default() }
    }

    /// `is_forced`: reading continues although a stream is full.
    pub(super) fn push(&self, message: Message, is_forced: bool, now_ms: u64) -> Pushed {
        let mut queue = lock(&self.queue);
        if queue.end.is_some() {
            return Pushed { refused: true, ..Pushed::default() };
        }
        let mut pushed = Pushed::default();
        // Receive Maximum limits messages with a token.
        if queue.messages.len() >= self.capacity && message.token.is_none() {
            let drop_newest = match self.overflow {
                Overflow::Wait if queue.is_stuck => true,
                Overflow::Wait => is_forced && queue.messages.len() >= self.capacity.saturating_mul(OVERFULL),
                Overflow::DropNewest => true,
                Overflow::DropOldest => {
                    let oldest = queue.messages.iter().position(|message| message.qos() == QoS::AtMostOnce);
                    oldest.and_then(|at| queue.messages.remove(at)).is_none()
                }
            };
            pushed.dropped = drop_newest || self.overflow == Overflow::DropOldest;
            queue.dropped += u64::from(pushed.dropped);
            if drop_newest {
                pushed.refused = true;
                return pushed;
            }
        }
        queue.messages.push_back(message);
        let pauses = self.overflow == Overflow::Wait && !queue.is_stuck && queue.messages.len() >= self.capacity;
        if pauses && queue.holds_up_since_ms.is_none() {
            queue.holds_up_since_ms = Some(now_ms);
            pushed.holds_up = true;
        }
        pushed.waker = queue.waker.take();
        pushed
    }

    /// Moves all messages to `batch`. The flag says that the stream had paused reading and no longer does.
    pub(super) fn poll_take(&self, batch: &mut VecDeque<Message>, cx: &mut Context<'_>) -> Poll<bool> {
        let mut queue = lock(&self.queue);
        if queue.messages.is_empty() {
            if queue.end.is_some() {
                return Poll::Ready(false);
            }
            if !queue.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                queue.waker = Some(cx.waker().clone());
            }
            return Poll::Pending;
        }
        std::mem::swap(&mut queue.messages, batch);
        queue.is_stuck = false;
        Poll::Ready(queue.holds_up_since_ms.take().is_some())
    }

    /// Since when it pauses reading.
    pub(super) fn holds_up_since_ms(&self) -> Option<u64> {
        lock(&self.queue).holds_up_since_ms
    }

    /// It no longer pauses reading, although it is full.
    pub(super) fn give_up(&self) {
        let mut queue = lock(&self.queue);
        queue.is_stuck = queue.holds_up_since_ms.take().is_some();
    }

    pub(super) fn dropped(&self) -> u64 {
        lock(&self.queue).dropped
    }

    /// Ends the queue. Returns the waker to call.
    pub(super) fn end(&self, why: Error) -> Option<Waker> {
        let mut queue = lock(&self.queue);
        queue.end.get_or_insert(why);
        queue.waker.take()
    }

    pub(super) fn ended(&self) -> Option<Error> {
        lock(&self.queue).end.clone()
    }

    /// Empties the queue for good; returns the undelivered messages, and whether it paused reading.
    pub(super) fn close(&self) -> (VecDeque<Message>, bool) {
        let mut queue = lock(&self.queue);
        queue.end.get_or_insert(Error::Closed);
        (std::mem::take(&mut queue.messages), queue.holds_up_since_ms.take().is_some())
    }
}

/// Messages that arrived before a stream claimed them, oldest first.
#[derive(Debug, Default)]
pub(super) struct Unclaimed(VecDeque<Message>);

impl Unclaimed {
    /// Adds a message; returns the token of the one that is evicted for it.
    pub(super) fn keep(&mut self, message: Message, limit: usize) -> Option<AckToken> {
        self.0.push_back(message);
        if self.0.len() > limit { self.0.pop_front().and_then(|oldest| oldest.token) } else { None }
    }

    /// Removes the messages that `wanted` selects, in order.
    pub(super) fn claim(&mut self, mut wanted: impl FnMut(&Message) -> bool) -> VecDeque<Message> {
        let (claimed, left) = std::mem::take(&mut self.0).into_iter().partition(|message| wanted(message));
        self.0 = left;
        claimed
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
