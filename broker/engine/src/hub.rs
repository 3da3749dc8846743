//! A shard's connections and sessions, and the ways in which bytes and changes reach them.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hashbrown::HashTable;
use tautwire_protocol::Packet;
use tautwire_router::{Batch, BatchSize, Exchange, SessionKey, ShardIndex};
use tautwire_session::{Change, Delivery, Journal, LogPosition, Record, RetainedChange, Session};

use crate::connection::{Connection, ConnectionId, NonZeroMs, Phase};
use crate::contracts::{ContractBoard, ViolationLog};
use crate::counters::{Counter, Counters, Totals};
use crate::frames::{Frames, Outgoing};
use crate::output::OutputPool;
use crate::scans::Scans;
use crate::settings::Settings;
use crate::wheel::{Timer, Wheel};

/// A batch for another shard is sent on once it holds this much, and a new one begun.
const BATCH_BYTES: usize = 64 << 10;

/// A deadline further away is looked at before it comes: entries are never taken out of the wheel, so one for a far moment
/// would stay long after its connection or session.
const LOOK_AGAIN_MS: u64 = 60_000;

/// Something that the engine wants done with a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Write what is pending, then close; give the client time to read it.
    Close(ConnectionId),
    /// Close at once: the client has said goodbye.
    Drop(ConnectionId),
    /// Take the connection to another shard, with the bytes that have not been consumed, and forget it here.
    Move(ConnectionId, ShardIndex),
    /// Read again: first what was not consumed, then the socket.
    Resume(ConnectionId),
    /// Read what has come on the first connection, which is about to be taken over, and only then bring the second one's
    /// unconsumed bytes again.
    HearFirst(ConnectionId, ConnectionId),
}

/// A session's place in its shard.
#[derive(Debug)]
pub(crate) struct SessionSlot {
    pub(crate) session: Session,
    pub(crate) connection: Option<u32>,
    pub(crate) generation: u32,
    pub(crate) taken: bool,
    /// Shared with the session's memberships in shared subscriptions.
    pub(crate) online: Option<Arc<AtomicBool>>,
    /// When the will is due; only while there is no connection.
    pub(crate) will_at_ms: Option<NonZeroMs>,
    /// When the session ends; only while there is no connection.
    pub(crate) expires_at_ms: Option<NonZeroMs>,
    pub(crate) armed_ms: Option<NonZeroMs>,
}

/// Batches on their way to one other shard.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pub(crate) batches: VecDeque<Batch>,
    /// How many batches the way to the shard takes at present.
    pub(crate) room: usize,
    last: BatchSize,
}

impl Outbox {
    pub(crate) fn is_full(&self) -> bool {
        self.batches.len() > self.room
    }

    pub(crate) fn take(&mut self) -> Option<Batch> {
        let batch = self.batches.pop_front()?;
        self.last = batch.size();
        Some(batch)
    }

    pub(crate) fn batch(&mut self) -> &mut Batch {
        if self.batches.back().is_none_or(|batch| batch.held_bytes() >= BATCH_BYTES) {
            self.batches.push_back(Batch::like(&self.last));
        }
        let last = self.batches.len() - 1;
        &mut self.batches[last]
    }
}

/// All of a shard but its subscriptions.
pub(crate) struct Hub<J> {
    pub(crate) settings: Arc<Settings>,
    pub(crate) exchange: Arc<Exchange>,
    pub(crate) contracts: Arc<ContractBoard>,
    pub(crate) shard: ShardIndex,
    pub(crate) journal: J,
    /// How far the journal has been written to.
    pub(crate) written: LogPosition,
    pub(crate) connections: Vec<Connection>,
    pub(crate) vacant_connections: Vec<u32>,
    pub(crate) sessions: Vec<SessionSlot>,
    pub(crate) vacant_sessions: Vec<u32>,
    /// Sessions by Client Identifier.
    directory: HashTable<u32>,
    hasher: foldhash::quality::RandomState,
    pub(crate) wheel: Wheel,
    pub(crate) pool: OutputPool,
    pub(crate) frames: Frames,
    /// Connections with fresh output.
    pub(crate) dirty: Vec<u32>,
    /// Others with fresh output, which stand in line.
    pub(crate) late: VecDeque<u32>,
    /// Connections that are not read from while these do.
    pub(crate) braked: Vec<ConnectionId>,
    /// Messages given so far: to connections to write, and to sessions to keep.
    pub(crate) given: u64,
    /// Batches of other shards are not taken while these do.
    pub(crate) batches_wait: bool,
    /// Connections with acknowledgements that wait for the journal.
    pub(crate) holding: Vec<u32>,
    /// Connections that are not read from because another shard is behind.
    pub(crate) paused: Vec<ConnectionId>,
    /// Connections whose session's queue has run over and that are to be ended for it.
    pub(crate) overrun: Vec<ConnectionId>,
    pub(crate) actions: VecDeque<Action>,
    pub(crate) outboxes: Vec<Outbox>,
    pub(crate) all_counters: Arc<[Counters]>,
    pub(crate) now_ms: u64,
    /// Bytes of all queues and all output, of all shards together.
    pub(crate) buffered_bytes: u64,
    /// They are over their limit.
    pub(crate) memory_full: bool,
    pub(crate) violation_log: ViolationLog,
    pub(crate) scans: Scans,
}

impl<J: Journal> Hub<J> {
    pub(crate) fn new(
        shard: ShardIndex,
        settings: Arc<Settings>,
        exchange: Arc<Exchange>,
        contracts: Arc<ContractBoard>,
        all_counters: Arc<[Counters]>,
        journal: J,
        now_ms: u64,
    ) -> Hub<J> {
        let outboxes = (0..exchange.shards()).map(|_| Outbox::default()).collect();
        Hub {
            settings,
            exchange,
            contracts,
            shard,
            journal,
            written: LogPosition::default(),
            connections: Vec::new(),
            vacant_connections: Vec::new(),
            sessions: Vec::new(),
            vacant_sessions: Vec::new(),
            directory: HashTable::new(),
            hasher: foldhash::quality::RandomState::default(),
            wheel: Wheel::new(now_ms),
            pool: OutputPool::default(),
            frames: Frames::default(),
            dirty: Vec::new(),
            late: VecDeque::new(),
            braked: Vec::new(),
            given: 0,
            batches_wait: false,
            holding: Vec::new(),
            paused: Vec::new(),
            overrun: Vec::new(),
            actions: VecDeque::new(),
            outboxes,
            all_counters,
            now_ms,
            buffered_bytes: 0,
            memory_full: false,
            violation_log: ViolationLog::default(),
            scans: Scans::default(),
        }
    }

    #[inline]
    pub(crate) fn counters(&self) -> &Counters {
        &self.all_counters[usize::from(self.shard.0)]
    }

    /// Looks at the limit that holds for all shards together; once a turn is often enough.
    pub(crate) fn measure_memory(&mut self) {
        let held =
            self.sum(|counters| &counters.stored_bytes).wrapping_add(self.sum(|counters| &counters.output_bytes));
        // Gauges of different shards are read at slightly different moments, so what moves from one to another may be
        // missed; a sum below zero is none.
        self.buffered_bytes = if held > u64::MAX / 2 { 0 } else { held };
        self.memory_full = self.buffered_bytes > self.settings.buffered_bytes as u64;
    }

    /// One counter over all shards.
    pub(crate) fn sum(&self, counter: impl Fn(&Counters) -> &Counter) -> u64 {
        self.all_counters.iter().fold(0, |sum, counters| sum.wrapping_add(counter(counters).get()))
    }

    pub(crate) fn totals(&self) -> Totals {
        Totals::of(self.all_counters.iter())
    }

    // Connections.

    pub(crate) fn id(&self, index: u32) -> ConnectionId {
        ConnectionId { index, generation: self.connections[index as usize].generation }
    }

    /// The connection in `id`'s place if it is still the one that `id` means.
    pub(crate) fn connection(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        let connection = self.connections.get_mut(id.index as usize)?;
        (connection.generation == id.generation && connection.phase != Phase::Vacant).then_some(connection)
    }

    /// Reads again from a connection, if it is still there; `clear` takes away why it was not read from.
    #[cold]
    pub(crate) fn hear_again(&mut self, id: ConnectionId, clear: impl FnOnce(&mut Connection)) {
        let now_ms = self.now_ms;
        if let Some(connection) = self.connection(id) {
            clear(connection);
            // It could not be heard, so it has not been silent.
            connection.last_received_ms = now_ms;
            self.actions.push_back(Action::Resume(id));
        }
    }

    pub(crate) fn open_connection(&mut self) -> u32 {
        let index = self.vacant_connections.pop().unwrap_or_else(|| {
            self.connections.push(Connection::vacant());
            (self.connections.len() - 1) as u32
        });
        self.connections[index as usize].open(self.now_ms);
        self.counters().connections.add(1);
        let deadline_ms = self.now_ms + u64::from(self.settings.connect_timeout_s) * 1000;
        self.arm_connection(index, deadline_ms);
        index
    }

    /// Frees the place. The owner of the socket has closed it or given it away.
    pub(crate) fn vacate(&mut self, index: u32) {
        self.put_output_away(index);
        let connection = &mut self.connections[index as usize];
        let counted = std::mem::take(&mut connection.counted_output_bytes);
        self.all_counters[usize::from(self.shard.0)].output_bytes.subtract(counted as u64);
        let connection = &mut self.connections[index as usize];
        connection.phase = Phase::Vacant;
        connection.dirty = false;
        connection.extras = None;
        self.vacant_connections.push(index);
        self.counters().connections.subtract(1);
    }

    /// All output has been written: the connection needs no buffer.
    pub(crate) fn put_output_away(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        connection.stalled_since_ms = None;
        if let Some(output) = connection.output.take() {
            self.pool.give_back(output);
        }
    }

    /// Makes sure that the connection is looked at no later than `at_ms`.
    pub(crate) fn arm_connection(&mut self, index: u32, at_ms: u64) {
        let at_ms = at_ms.min(self.now_ms + LOOK_AGAIN_MS);
        let connection = &mut self.connections[index as usize];
        if connection.armed_ms.is_none_or(|armed| armed.get() > at_ms) {
            connection.armed_ms = NonZeroMs::new(at_ms);
            self.wheel.arm(Timer::Connection(index), at_ms);
        }
    }

    pub(crate) fn mark_dirty(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        if !connection.dirty {
            connection.dirty = true;
            self.dirty.push(index);
        }
    }

    /// Whether the connection still has the output for which it was listed.
    pub(crate) fn take_dirty(&mut self, index: u32) -> bool {
        std::mem::take(&mut self.connections[index as usize].dirty)
    }

    /// Lets `write` append to the connection's output.
    #[inline]
    pub(crate) fn write(&mut self, index: u32, write: impl FnOnce(&mut Vec<u8>)) {
        let connection = &mut self.connections[index as usize];
        connection.output.get_or_insert_with(|| self.pool.take()).append(write);
        self.mark_dirty(index);
    }

    /// Appends a control packet; false where it is larger than the client accepts [MQTT-3.1.2-24] or cannot be said in
    /// the connection's version.
    pub(crate) fn write_packet(&mut self, index: u32, packet: &Packet<'_>) -> bool {
        let connection = &mut self.connections[index as usize];
        let version = connection.version;
        if let Some(maximum) = connection.maximum_packet_size_bytes
            && packet.encoded_len(version).is_ok_and(|len| len > maximum.get() as usize)
        {
            return false;
        }
        let mut result = Ok(0);
        self.write(index, |tail| result = packet.append_to(version, tail));
        if let Err(error) = &result {
            log::error!("{:?} could not be said in {version}: {error}", packet.packet_type());
        }
        self.counters().packets_sent.add(u64::from(result.is_ok()));
        result.is_ok()
    }

    // Sessions.

    pub(crate) fn find_session(&self, client_id: &str) -> Option<u32> {
        let hash = self.hasher.hash_one(client_id);
        self.directory.find(hash, |index| self.sessions[*index as usize].session.client_id() == client_id).copied()
    }

    pub(crate) fn open_session(&mut self, client_id: &str) -> u32 {
        let slot = SessionSlot {
            session: Session::new(client_id),
            connection: None,
            generation: 0,
            taken: true,
            online: None,
            will_at_ms: None,
            expires_at_ms: None,
            armed_ms: None,
        };
        let index = match self.vacant_sessions.pop() {
            Some(index) => {
                let place = &mut self.sessions[index as usize];
                *place = SessionSlot { generation: place.generation + 1, armed_ms: place.armed_ms, ..slot };
                index
            }
            None => {
                self.sessions.push(slot);
                (self.sessions.len() - 1) as u32
            }
        };
        let sessions = &self.sessions;
        let hasher = &self.hasher;
        self.directory.insert_unique(hasher.hash_one(client_id), index, |index| {
            hasher.hash_one(sessions[*index as usize].session.client_id())
        });
        self.written = self.journal.record(Record::Opened(client_id));
        self.counters().sessions.add(1);
        index
    }

    /// Takes the session out of its place. Its subscriptions must be gone.
    pub(crate) fn close_session(&mut self, index: u32) -> Session {
        let slot = &mut self.sessions[index as usize];
        slot.taken = false;
        slot.connection = None;
        let session = std::mem::take(&mut slot.session);
        let hash = self.hasher.hash_one(session.client_id());
        if let Ok(entry) = self.directory.find_entry(hash, |held| *held == index) {
            entry.remove();
        }
        self.written = self.journal.record(Record::Ended(session.client_id()));
        self.vacant_sessions.push(index);
        self.counters().sessions.subtract(1);
        session
    }

    pub(crate) fn session_key(&self, index: u32) -> SessionKey {
        SessionKey { shard: self.shard, index, generation: self.sessions[index as usize].generation }
    }

    /// The place of the session that `key` means, if it still exists.
    pub(crate) fn session_at(&self, key: &SessionKey) -> Option<u32> {
        let slot = self.sessions.get(key.index as usize)?;
        (slot.taken && slot.generation == key.generation).then_some(key.index)
    }

    pub(crate) fn arm_session(&mut self, index: u32, at_ms: u64) {
        let at_ms = at_ms.min(self.now_ms + LOOK_AGAIN_MS);
        let slot = &mut self.sessions[index as usize];
        if slot.armed_ms.is_none_or(|armed| armed.get() > at_ms) {
            slot.armed_ms = NonZeroMs::new(at_ms);
            self.wheel.arm(Timer::Session(index), at_ms);
        }
    }

    /// Writes a change down and applies it. Changes of sessions that end with their connection are not written down.
    pub(crate) fn commit(&mut self, index: u32, change: Change) {
        if let Change::Queued(delivery) | Change::Started(delivery) = &change {
            self.given += 1;
            self.counters().stored_messages.add(1);
            self.counters().stored_bytes.add(delivery.queued_bytes() as u64);
        }
        let session = &mut self.sessions[index as usize].session;
        let lasting = session.expiry_interval_s() > 0 || matches!(change, Change::ExpiryInterval(_));
        if lasting {
            self.written = self.journal.record(Record::Changed(session.client_id(), &change));
        }
        let left_queue = matches!(change, Change::StartedQueued | Change::Withdrawn);
        if let Some(gone) = session.apply(change) {
            self.uncount_stored(&gone);
        }
        if left_queue && let Some(connection) = self.sessions[index as usize].connection {
            self.connections[connection as usize].note_queue_moved();
        }
    }

    /// Writes down what a message has changed of the retained messages.
    pub(crate) fn record_retained(&mut self, outgoing: &Outgoing<'_>, sequence: u64) {
        let change = match &outgoing.kept {
            Some(message) if !outgoing.message.payload.is_empty() => RetainedChange::Set(message.clone()),
            _ => RetainedChange::Cleared(outgoing.message.topic.into()),
        };
        self.written = self.journal.record(Record::Retained { sequence, change: &change });
    }

    /// A number that nobody can foretell.
    pub(crate) fn random(&self) -> u64 {
        RandomState::new().hash_one(self.now_ms)
    }

    /// Tells the session's shared subscriptions whether it can be chosen first.
    pub(crate) fn set_online(&self, index: u32, online: bool) {
        if let Some(flag) = &self.sessions[index as usize].online {
            flag.store(online, Ordering::Relaxed);
        }
    }

    pub(crate) fn uncount_stored(&self, delivery: &Delivery) {
        self.counters().stored_messages.subtract(1);
        self.counters().stored_bytes.subtract(delivery.queued_bytes() as u64);
    }
}
