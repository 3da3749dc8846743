//! The environment of the shards of a simulated broker: sockets, shard channels, and sleeping threads.

use std::collections::{HashMap, VecDeque};

use tautwire_engine::{Chunk, ClusterEvent, ClusterRequest, ConnectionId};
use tautwire_router::Batch;

use super::slow_store::SlowStore;
use super::socket::{Socket, SocketId};

/// The simulation without the shards.
pub(super) struct Network {
    pub(super) sockets: Vec<Socket>,
    /// One for each shard.
    pub(super) threads: Vec<ShardThread>,
    /// By sender, then by receiver.
    pub(super) channels: Vec<Vec<ShardChannel>>,
    pub(super) now_ms: u64,
    /// The number of events.
    pub(super) progress: u64,
    /// Whether other shards can run turns while one sends.
    pub(super) interleaves: bool,
    /// The digest of all bytes sent, if requested.
    pub(super) digest: Option<u64>,
    /// Whether the node's lease in its cluster is valid.
    pub(super) holds_lease: bool,
    /// The spill store, if one is connected.
    pub(super) spill_store: Option<SlowStore>,
}

/// The state of the thread of one shard.
#[derive(Default)]
pub(super) struct ShardThread {
    /// `Some` while it sleeps, with the time at which it wakes by itself.
    sleeping_until: Option<Option<u64>>,
    /// Sockets to accept.
    pub(super) arriving: VecDeque<SocketId>,
    /// Sockets that may be readable. An event adds a socket once; a partial read must add it again.
    pub(super) readable: VecDeque<SocketId>,
    /// Sockets that have become writable.
    pub(super) writable: Vec<SocketId>,
    pub(super) owners: HashMap<ConnectionId, SocketId>,
    /// Chunks that output may still reference.
    pub(super) chunks: Vec<Chunk>,
    /// Events of the cluster that the shard has not handled.
    pub(super) events: VecDeque<ClusterEvent>,
    /// Requests of the shard to the cluster.
    pub(super) requests: VecDeque<ClusterRequest>,
}

/// The channel from one shard to another.
pub(super) struct ShardChannel {
    pub(super) batches: Ring<Batch>,
    /// Batches that the receiver has taken during its turn, while the sender was in its own turn.
    pub(super) received: VecDeque<Batch>,
    pub(super) adoptions: Ring<SocketId>,
    /// Sockets that wait for a free slot in `adoptions`.
    pub(super) moves: VecDeque<SocketId>,
}

/// A bounded queue whose sender can wait for a free slot.
pub(super) struct Ring<T> {
    pub(super) items: VecDeque<T>,
    capacity: usize,
    /// Whether the sender waits for a free slot.
    sender_waits: bool,
}

impl<T> Ring<T> {
    fn new(capacity: usize) -> Ring<T> {
        Ring { items: VecDeque::new(), capacity, sender_waits: false }
    }

    pub(super) fn room(&self) -> usize {
        self.capacity - self.items.len()
    }

    pub(super) fn push(&mut self, item: T) {
        assert!(self.room() > 0, "the shard channel is full");
        self.items.push_back(item);
    }

    pub(super) fn has_room_or_waits(&mut self) -> bool {
        self.sender_waits = self.room() == 0;
        !self.sender_waits
    }

    /// Whether the sender must be woken. Call this after an item is removed.
    fn take_waiter(&mut self) -> bool {
        let wakes = self.sender_waits && self.room() > 0;
        self.sender_waits &= !wakes;
        wakes
    }
}

impl Network {
    pub(super) fn new(shards: usize, channel_capacity: usize, now_ms: u64, digest: Option<u64>) -> Network {
        let channel = |_| ShardChannel {
            batches: Ring::new(channel_capacity),
            received: VecDeque::new(),
            adoptions: Ring::new(channel_capacity),
            moves: VecDeque::new(),
        };
        Network {
            sockets: Vec::new(),
            threads: (0..shards).map(|_| ShardThread::default()).collect(),
            channels: (0..shards).map(|_| (0..shards).map(channel).collect()).collect(),
            now_ms,
            progress: 0,
            interleaves: false,
            digest,
            holds_lease: true,
            spill_store: None,
        }
    }

    /// Adds bytes and their sender to the digest: FNV-1a over eight bytes at a time.
    pub(super) fn record_sent(&mut self, sender: u64, bytes: &[u8]) {
        let Some(digest) = &mut self.digest else { return };
        let mut add = |part: u64| *digest = (*digest ^ part).wrapping_mul(0x0100_0000_01B3).rotate_left(32);
        add(sender);
        add(bytes.len() as u64);
        let (words, rest) = bytes.as_chunks();
        words.iter().for_each(|word| add(u64::from_le_bytes(*word)));
        rest.iter().for_each(|byte| add(u64::from(*byte)));
    }

    // Sleeping and waking.

    pub(super) fn is_asleep(&self, shard: usize) -> bool {
        self.threads[shard].sleeping_until.is_some_and(|until_ms| until_ms.is_none_or(|at_ms| at_ms > self.now_ms))
    }

    pub(super) fn sleep(&mut self, shard: usize, until_ms: Option<u64>) {
        let thread = &mut self.threads[shard];
        thread.sleeping_until = Some(until_ms);
        for mut chunk in thread.chunks.drain(..) {
            assert!(chunk.get_mut().is_some(), "output references a chunk while its shard sleeps");
        }
    }

    pub(super) fn wake(&mut self, shard: usize) {
        self.threads[shard].sleeping_until = None;
    }

    /// Wakes `from` if it waits for the slot that `to` has freed.
    pub(super) fn notify_room(&mut self, from: usize, to: usize) {
        let channel = &mut self.channels[from][to];
        let wakes = [channel.batches.take_waiter(), channel.adoptions.take_waiter()];
        if wakes.contains(&true) {
            self.wake(from);
        }
    }

    // Socket events.

    pub(super) fn connect(&mut self, shard: usize, socket: SocketId) {
        self.progress += 1;
        self.threads[shard].arriving.push_back(socket);
        self.wake(shard);
    }

    /// Reports that a socket is readable.
    pub(super) fn notify_readable(&mut self, socket: SocketId) {
        self.progress += 1;
        if let Some((shard, _)) = self.sockets[socket.0].place {
            self.list_readable(shard, socket);
            self.wake(shard);
        }
    }

    pub(super) fn list_readable(&mut self, shard: usize, id: SocketId) {
        if !std::mem::replace(&mut self.sockets[id.0].listed, true) {
            self.threads[shard].readable.push_back(id);
        }
    }

    /// Reports that a socket may be writable.
    pub(super) fn notify_writable(&mut self, id: SocketId) {
        let socket = &self.sockets[id.0];
        if let Some((shard, _)) = socket.place
            && socket.write_waits
            && socket.room() > 0
        {
            self.threads[shard].writable.push(id);
            self.wake(shard);
        }
    }
}
