//! Messages that are not in memory: which become cold, and how they come back before they are sent.
//!
//! Nothing here waits. What is pending_reads of the store is answered in a later turn; whoever needs a message stands still until then.

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

/// Bytes of messages that are being written: no more are posted.
const WRITING_MAX_BYTES: usize = 4 << 20;

/// Bytes of messages that are being read for all clients of a shard, and how many orders: others wait.
const READING_MAX_BYTES: usize = 8 << 20;

const READING_MAX: usize = 192;

/// After the store could not write or read something, so long is waited before the next attempt.
const RETRY_MS: u64 = 1_000;

/// So many messages are remembered as written, and up to as many again, for others who hold them.
const KNOWN_MAX: usize = 16 << 10;

/// A shard's dealings with the store.
#[derive(Default)]
pub(crate) struct SpillState {
    port: Option<Box<dyn SpillClient>>,
    next_ticket: u64,
    /// Messages above so many bytes become cold.
    loaded_max_bytes: u64,

    /// Sessions that have messages which could become cold, those first that have had them longest.
    sessions: VecDeque<SessionKey>,
    /// Sessions whose window and front of the queue are looked at after a while, with the moment at which it is over.
    delayed: VecDeque<(u64, SessionKey)>,
    /// With so many in these two lines, those are taken out that have ended.
    prune_at: usize,
    /// Messages queued since it was last looked what could become cold.
    queued: usize,
    /// Who holds the messages that are being written.
    writing: HashMap<MessageId, Vec<Holder>>,
    writing_bytes: usize,
    /// No writing before this moment, after it has failed.
    write_again_ms: u64,
    known: RecentlySpilled,
    /// Bytes of messages that were in memory when it was last looked which could leave it.
    looked_at_bytes: u64,
    /// Messages that have been retained here since many were in memory, the oldest first.
    retained: RetainedSpillQueue,
    walk: SpillScan,
    /// Retained messages that were hot when the last walk through all of them ended.
    walked_hot_bytes: u64,

    pending_reads: HashMap<u64, PendingRead>,
    reading_bytes: usize,
    /// Those for whom nothing can be pending_reads at present.
    waiting_readers: VecDeque<Reader>,
    /// Those for whom something could not be read, with the moment at which it is tried again.
    retries: VecDeque<(u64, Reader)>,
}

/// Where a message is to be replaced by its record.
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

    fn insert(&mut self, id: MessageId, cold: Spilled) {
        if self.new.len() >= KNOWN_MAX {
            self.old = std::mem::take(&mut self.new);
        }
        self.new.insert(id, cold);
    }

    fn forget(&mut self) {
        if !self.new.is_empty() || !self.old.is_empty() {
            *self = RecentlySpilled::default();
        }
    }
}

impl SpillState {
    /// Above so many bytes of messages in memory, some leave it.
    pub(crate) fn set_hot_max(&mut self, bytes: u64) {
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

    /// Hands an order over; false where there is no room.
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
