//! Messages spilled to disk: which are spilled, and how they are loaded before they are sent.
//!
//! Nothing here blocks. The store answers a request in a later turn; the reader of a message is paused until then.

mod backpressure;
mod loading;
mod retained;
mod spilling;
mod steps;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tautwire_message::{MessageId, SpillAccount, SpillClient, SpillRequest, SpillResponse, Spilled};
use tautwire_protocol::PacketId;
use tautwire_router::{SessionKey, SpillScan};

pub(crate) use self::backpressure::Backlog;
pub(crate) use self::loading::LoadError;
use self::loading::{PendingRead, Reader};
use self::retained::RetainedSpillQueue;

/// The maximum number of bytes of messages that are being written.
const WRITING_MAX_BYTES: usize = 4 << 20;

/// The maximum number of bytes that are being read for all clients of a shard. Other readers wait.
const READING_MAX_BYTES: usize = 8 << 20;

const READING_MAX: usize = 192;

/// The delay before the next attempt after a failed read or write.
const RETRY_MS: u64 = 1_000;

/// The size of one generation of recently spilled messages, kept for other holders of the same messages.
const KNOWN_MAX: usize = 16 << 10;

/// The state of spilling of one shard.
#[derive(Default)]
pub(crate) struct SpillState {
    port: Option<Box<dyn SpillClient>>,
    next_ticket: u64,
    /// The limit on bytes of messages in memory. Above it, messages are spilled.
    loaded_max_bytes: u64,

    /// Sessions with messages that can be spilled, in order of arrival.
    sessions: VecDeque<SessionKey>,
    /// Sessions whose window and front of the queue are checked after a delay, with the end of the delay.
    delayed: VecDeque<(u64, SessionKey)>,
    /// The length of these two queues at which ended sessions are removed.
    prune_at: usize,
    /// Messages queued since the last check for messages to spill.
    queued: usize,
    /// The holders of the messages that are being written.
    writing: HashMap<MessageId, Vec<Holder>>,
    writing_bytes: usize,
    /// The earliest time of the next write after a failure.
    write_again_ms: u64,
    known: RecentlySpilled,
    /// Bytes of messages in memory at the last check.
    looked_at_bytes: u64,
    /// Retained messages to spill, the oldest first.
    retained: RetainedSpillQueue,
    walk: SpillScan,
    /// Bytes of retained messages in memory at the end of the last walk.
    walked_bytes: u64,

    pending_reads: HashMap<u64, PendingRead>,
    reading_bytes: usize,
    /// Readers that wait for room to read.
    waiting_readers: VecDeque<Reader>,
    /// Readers whose read failed, with the time of the next attempt.
    retries: VecDeque<(u64, Reader)>,
}

/// The place where a message is replaced by its spilled record.
#[derive(Debug, Clone, Copy)]
enum Holder {
    /// Message `number` of a session's queue.
    Queue {
        session: SessionKey,
        number: u64,
    },
    /// The message of a session's window with this identifier.
    Window {
        session: SessionKey,
        packet_id: PacketId,
    },
    Retained,
}

/// Messages written last, in two generations.
#[derive(Default)]
struct RecentlySpilled {
    new: HashMap<MessageId, Spilled>,
    old: HashMap<MessageId, Spilled>,
}

impl RecentlySpilled {
    fn get(&self, id: MessageId) -> Option<&Spilled> {
        self.new.get(&id).or_else(|| self.old.get(&id))
    }

    fn insert(&mut self, id: MessageId, spilled: Spilled) {
        if self.new.len() >= KNOWN_MAX {
            self.old = std::mem::take(&mut self.new);
        }
        self.new.insert(id, spilled);
    }

    fn forget(&mut self) {
        if !self.new.is_empty() || !self.old.is_empty() {
            *self = RecentlySpilled::default();
        }
    }
}

impl SpillState {
    /// Sets the limit on bytes of messages in memory.
    pub(crate) fn set_loaded_max(&mut self, bytes: u64) {
        self.loaded_max_bytes = bytes;
    }

    pub(crate) fn connect(&mut self, port: Box<dyn SpillClient>, loaded_max_bytes: u64) {
        self.port = Some(port);
        self.loaded_max_bytes = loaded_max_bytes;
    }

    fn ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.next_ticket
    }

    /// Posts a request to the store; returns false if there is no room.
    fn post(&mut self, order: SpillRequest) -> bool {
        self.port.as_mut().is_some_and(|port| port.post(order).is_ok())
    }

    fn next_answer(&mut self) -> Option<SpillResponse> {
        self.port.as_mut()?.next_answer()
    }

    fn slots(&self) -> Option<Arc<SpillAccount>> {
        self.port.as_ref().map(|port| port.spill_account().clone())
    }

    #[inline]
    fn has_answer(&self) -> bool {
        self.port.as_ref().is_some_and(|port| port.has_answer())
    }
}
