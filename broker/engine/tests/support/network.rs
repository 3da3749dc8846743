//! What surrounds the shards of a simulated broker: sockets, the channels between shards, and who sleeps.

use std::collections::{HashMap, VecDeque};

use tautwire_engine::{Chunk, ClusterEvent, ClusterRequest, ConnectionId};
use tautwire_router::Batch;

use super::slow_store::SlowStore;
use super::socket::{Socket, SocketId};

/// Everything but the shards.
pub(super) struct Network {
    pub(super) sockets: Vec<Socket>,
    /// One for each shard.
    pub(super) nodes: Vec<Node>,
    /// By sender, then by receiver.
    pub(super) channels: Vec<Vec<ShardChannel>>,
    pub(super) now_ms: u64,
    /// Counts everything that moves.
    pub(super) progress: u64,
    /// While one shard sends, others may make turns.
    pub(super) interleaves: bool,
    /// Of every byte that was sent, where that is asked for.
    pub(super) digest: Option<u64>,
    /// The node's lease in its cluster holds.
    pub(super) holds_lease: bool,
    /// Where messages go that need not be in memory.
    pub(super) cold: Option<SlowStore>,
}

/// What a thread has beside its shard.
#[derive(Default)]
pub(super) struct Node {
    /// `Some` while it sleeps, with the moment at which it wakes by itself.
    sleeping_until: Option<Option<u64>>,
    /// Sockets that wait to be accepted.
    pub(super) arriving: VecDeque<SocketId>,
    /// Sockets that may have something to read. An event puts a socket here once; who does not read all must put it back.
    pub(super) readable: VecDeque<SocketId>,
    /// Sockets that waited for room and have it.
    pub(super) writable: Vec<SocketId>,
    pub(super) owners: HashMap<ConnectionId, SocketId>,
    /// Chunks to which output may still refer.
    pub(super) chunks: Vec<Chunk>,
    /// What the cluster has told the shard, and it has not heard.
    pub(super) events: VecDeque<ClusterEvent>,
    /// What the shard asks of the cluster.
    pub(super) requests: VecDeque<ClusterRequest>,
}

/// What goes from one shard to another.
pub(super) struct ShardChannel {
    pub(super) batches: Ring<Batch>,
    /// Batches that the receiver has taken in the midst of its turn, while the sender was in the midst of its own.
    pub(super) in_hand: VecDeque<Batch>,
    pub(super) adoptions: Ring<SocketId>,
    /// Sockets that wait for room in `adoptions`.
    pub(super) moves: VecDeque<SocketId>,
}

/// A bounded queue whose sender can wait for room.
pub(super) struct Ring<T> {
    pub(super) items: VecDeque<T>,
    capacity: usize,
    /// The sender wants to be woken.
    is_awaited: bool,
}

impl<T> Ring<T> {
    fn new(capacity: usize) -> Ring<T> {
        Ring { items: VecDeque::new(), capacity, is_awaited: false }
    }

    pub(super) fn room(&self) -> usize {
        self.capacity - self.items.len()
    }

    pub(super) fn push(&mut self, item: T) {
        assert!(self.room() > 0, "no more is sent than there is room for");
        self.items.push_back(item);
    }

    pub(super) fn has_room_or_waits(&mut self) -> bool {
        self.is_awaited = self.room() == 0;
        !self.is_awaited
    }

    /// Whether the sender is to be woken. To be asked after something has been taken.
    fn take_waiter(&mut self) -> bool {
        let wakes = self.is_awaited && self.room() > 0;
        self.is_awaited &= !wakes;
        wakes
    }
}

impl Network {
    pub(super) fn new(shards: usize, channel_capacity: usize, now_ms: u64, digest: Option<u64>) -> Network {
        let way = |_| ShardChannel {
            batches: Ring::new(channel_capacity),
            in_hand: VecDeque::new(),
            adoptions: Ring::new(channel_capacity),
            moves: VecDeque::new(),
        };
        Network {
            sockets: Vec::new(),
            nodes: (0..shards).map(|_| Node::default()).collect(),
            channels: (0..shards).map(|_| (0..shards).map(way).collect()).collect(),
            now_ms,
            progress: 0,
            interleaves: false,
            digest,
            holds_lease: true,
            cold: None,
        }
    }

    /// Adds bytes to the digest, and who sent them: FNV-1a, of eight bytes at a time.
    pub(super) fn note_sent(&mut self, sender: u64, bytes: &[u8]) {
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
        self.nodes[shard].sleeping_until.is_some_and(|until_ms| until_ms.is_none_or(|at_ms| at_ms > self.now_ms))
    }

    pub(super) fn sleep(&mut self, shard: usize, until_ms: Option<u64>) {
        let node = &mut self.nodes[shard];
        node.sleeping_until = Some(until_ms);
        for mut chunk in node.chunks.drain(..) {
            assert!(chunk.get_mut().is_some(), "no output refers to a chunk while its shard sleeps");
        }
    }

    pub(super) fn wake(&mut self, shard: usize) {
        self.nodes[shard].sleeping_until = None;
    }

    /// `to` has taken something that `from` sent.
    pub(super) fn notify_room(&mut self, from: usize, to: usize) {
        let way = &mut self.channels[from][to];
        let wakes = [way.batches.take_waiter(), way.adoptions.take_waiter()];
        if wakes.contains(&true) {
            self.wake(from);
        }
    }

    // What the kernel tells a thread.

    pub(super) fn arrive(&mut self, shard: usize, socket: SocketId) {
        self.progress += 1;
        self.nodes[shard].arriving.push_back(socket);
        self.wake(shard);
    }

    /// There is something to read.
    pub(super) fn is_readable(&mut self, socket: SocketId) {
        self.progress += 1;
        if let Some((shard, _)) = self.sockets[socket.0].place {
            self.list_readable(shard, socket);
            self.wake(shard);
        }
    }

    pub(super) fn list_readable(&mut self, shard: usize, id: SocketId) {
        if !std::mem::replace(&mut self.sockets[id.0].listed, true) {
            self.nodes[shard].readable.push_back(id);
        }
    }

    /// There may be room to write.
    pub(super) fn is_writable(&mut self, id: SocketId) {
        let socket = &self.sockets[id.0];
        if let Some((shard, _)) = socket.place
            && socket.write_waits
            && socket.room() > 0
        {
            self.nodes[shard].writable.push(id);
            self.wake(shard);
        }
    }
}
