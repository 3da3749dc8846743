use std::collections::{HashMap, VecDeque};
use std::io::IoSlice;
use std::sync::Arc;

use tautwire_engine::{Action, Chunk, ConnectionId, Counters, Settings, Shard, Shared, Totals};
use tautwire_router::{Batch, Exchange, RetainedLimits, ShardIndex};
use tautwire_session::Journal;

use super::choices::Choices;
use super::socket::{Socket, SocketId};

/// The moment at which every simulation begins.
const START_MS: u64 = 1_700_000_000_000;
/// How long a client may take to read the last bytes of a connection that the broker ends.
const DRAIN_MS: u64 = 2_000;

/// The shards of one broker, the ways between them and its network.
pub(crate) struct SimulatedBroker<J> {
    shards: Vec<Shard<J>>,
    /// By sender, then by receiver.
    links: Vec<Vec<Link>>,
    link_capacity: usize,
    sockets: Vec<Socket>,
    /// For each shard, whose connection it is.
    owners: Vec<HashMap<ConnectionId, SocketId>>,
    exchange: Arc<Exchange>,
    counters: Arc<[Counters]>,
    now_ms: u64,
    /// Counts everything that moves.
    progress: u64,
}

#[derive(Default)]
struct Link {
    mail: VecDeque<Mail>,
    /// Sockets that wait for room in `mail`.
    moves: VecDeque<Mail>,
}

enum Mail {
    Batch(Batch),
    Adopt(SocketId),
}

impl<J: Journal> SimulatedBroker<J> {
    /// A broker whose shards send each other at most `settings.shard_queue_batches` at a time. `journal` makes the journal
    /// of each shard.
    pub(crate) fn new(
        shards: usize,
        settings: Settings,
        retained: RetainedLimits,
        mut journal: impl FnMut(usize) -> J,
    ) -> SimulatedBroker<J> {
        let link_capacity = settings.shard_queue_batches;
        let shared = Shared::new(settings, Exchange::with_seed(shards, retained, 0));
        let shard = |index: usize| Shard::new(ShardIndex(index as u8), shared.clone(), journal(index), START_MS);
        SimulatedBroker {
            shards: (0..shards).map(shard).collect(),
            links: (0..shards).map(|_| (0..shards).map(|_| Link::default()).collect()).collect(),
            link_capacity,
            sockets: Vec::new(),
            owners: vec![HashMap::new(); shards],
            exchange: shared.exchange,
            counters: shared.counters,
            now_ms: START_MS,
            progress: 0,
        }
    }

    /// How many shards there are.
    pub(crate) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// The broker's clock.
    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// What is common to the shards.
    pub(crate) fn exchange(&self) -> &Exchange {
        &self.exchange
    }

    /// The sum of all counters.
    pub(crate) fn totals(&self) -> Totals {
        Totals::of(self.counters.iter())
    }

    /// Counts everything that has moved so far: while it stands still, nothing happens.
    pub(crate) fn progress(&self) -> u64 {
        self.progress
    }

    /// A Client Identifier whose session lives on `shard`.
    pub(crate) fn client_id_on(&self, shard: usize, name: &str) -> String {
        (0..100_000)
            .map(|n| format!("{name}-{n:05}"))
            .find(|id| usize::from(self.exchange.owner(id).0) == shard)
            .expect("one identifier in a hundred thousand falls to every shard")
    }

    // The client's side of the network.

    /// Connects to `shard`; `room_bytes` is what the network and the client's buffers take of what is not read.
    /// A connection that the broker refuses is closed at once.
    pub(crate) fn connect(&mut self, shard: usize, room_bytes: usize) -> SocketId {
        let id = SocketId(self.sockets.len());
        self.sockets.push(Socket::new(room_bytes));
        self.admit(shard, id);
        id
    }

    /// Sends bytes.
    pub(crate) fn send(&mut self, socket: SocketId, bytes: &[u8]) {
        self.progress += 1;
        self.sockets[socket.0].inbound.extend(bytes);
    }

    /// Sends no more; what has been sent arrives.
    pub(crate) fn finish(&mut self, socket: SocketId) {
        self.progress += 1;
        self.sockets[socket.0].finished = true;
    }

    /// Goes away without a word; what has been sent arrives.
    pub(crate) fn abandon(&mut self, socket: SocketId) {
        self.finish(socket);
        let socket = &mut self.sockets[socket.0];
        socket.deaf = true;
        socket.outbound.clear();
    }

    /// Loses the connection and what is on its way.
    pub(crate) fn cut(&mut self, socket: SocketId) {
        self.progress += 1;
        let socket = &mut self.sockets[socket.0];
        socket.broken = true;
        socket.inbound.clear();
        socket.outbound.clear();
    }

    /// Loses all connections but these.
    pub(crate) fn cut_all_but(&mut self, kept: &[SocketId]) {
        for socket in (0..self.sockets.len()).map(SocketId).filter(|socket| !kept.contains(socket)) {
            self.cut(socket);
        }
    }

    /// Takes up to `most` bytes that have arrived from the broker.
    pub(crate) fn take(&mut self, socket: SocketId, most: usize) -> Vec<u8> {
        let outbound = &mut self.sockets[socket.0].outbound;
        let count = most.min(outbound.len());
        self.progress += count as u64;
        outbound.drain(..count).collect()
    }

    /// When the broker closed the connection, if it has. What it sent before may still be to be taken.
    pub(crate) fn closed_at_ms(&self, socket: SocketId) -> Option<u64> {
        self.sockets[socket.0].closed_at_ms
    }

    // The passage of time.

    /// Lets time pass.
    pub(crate) fn advance(&mut self, ms: u64) {
        self.now_ms += ms;
    }

    /// Turns of all shards until nothing moves any more. The clock stands still.
    pub(crate) fn settle(&mut self, choices: &mut impl Choices) {
        let mut idle_turns = 0;
        // A choice may leave something lie; for ever only by ill luck.
        while idle_turns < 8 || self.has_mail() {
            let before = self.progress;
            for shard in 0..self.shards.len() {
                self.turn(shard, choices);
            }
            idle_turns = if self.progress == before { idle_turns + 1 } else { 0 };
        }
    }

    fn has_mail(&self) -> bool {
        self.links.iter().flatten().any(|link| !link.mail.is_empty() || !link.moves.is_empty())
    }

    /// One turn of a shard, as a reactor would make it.
    pub(crate) fn turn(&mut self, shard: usize, choices: &mut impl Choices) {
        let mut chunks = Vec::new();
        for other in (0..self.shards.len()).filter(|other| *other != shard) {
            let room = self.link_capacity - self.links[shard][other].mail.len();
            self.shards[shard].set_room(ShardIndex(other as u8), room);
        }
        self.take_mail(shard, choices, &mut chunks);
        self.read_all(shard, choices, &mut chunks);
        self.shards[shard].turn(self.now_ms);
        self.progress += u64::from(self.shards[shard].has_scans());
        self.act(shard, &mut chunks);
        self.send_mail(shard);
        self.flush_all(shard, choices);
        self.act(shard, &mut chunks);
        // Resuming may have made output.
        self.flush_all(shard, choices);
        for chunk in chunks {
            assert!(chunk.into_vec().is_ok(), "no output refers to a chunk beyond the turn");
        }
    }

    fn take_mail(&mut self, shard: usize, choices: &mut impl Choices, chunks: &mut Vec<Chunk>) {
        for from in 0..self.shards.len() {
            let waiting = self.links[from][shard].mail.len();
            for _ in 0..choices.below(waiting + 1) {
                self.progress += 1;
                match self.links[from][shard].mail.pop_front() {
                    Some(Mail::Batch(batch)) => {
                        let mut left = self.shards[shard].receive_batch(&batch, 0, self.now_ms);
                        while let Some(from) = left {
                            left = self.shards[shard].receive_batch(&batch, from, self.now_ms);
                        }
                    }
                    Some(Mail::Adopt(socket)) => {
                        self.admit(shard, socket);
                        self.consume(socket, 0, 0, chunks);
                    }
                    None => {}
                }
            }
        }
    }

    fn send_mail(&mut self, shard: usize) {
        for (to, link) in self.links[shard].iter_mut().enumerate() {
            while link.mail.len() < self.link_capacity {
                let batch = || self.shards[shard].next_batch(ShardIndex(to as u8)).map(Mail::Batch);
                let Some(mail) = link.moves.pop_front().or_else(batch) else { break };
                self.progress += 1;
                link.mail.push_back(mail);
            }
        }
    }

    fn admit(&mut self, shard: usize, id: SocketId) {
        self.progress += 1;
        match self.shards[shard].accept(self.now_ms) {
            Some(connection) => {
                self.sockets[id.0].place = Some((shard, connection));
                self.owners[shard].insert(connection, id);
            }
            None => self.sockets[id.0].closed_at_ms = Some(self.now_ms),
        }
    }

    fn read_all(&mut self, shard: usize, choices: &mut impl Choices, chunks: &mut Vec<Chunk>) {
        let mut here: Vec<SocketId> = self.owners[shard].values().copied().collect();
        here.sort_unstable();
        for id in here {
            let socket = &self.sockets[id.0];
            if socket.broken {
                self.lose(id);
                continue;
            }
            if let (Some((_, connection)), Some(until_ms)) = (socket.place, socket.draining_until_ms)
                && until_ms <= self.now_ms
            {
                self.release(shard, connection);
                continue;
            }
            if socket.is_held() && socket.draining_until_ms.is_none() {
                continue;
            }
            let available = socket.inbound.len();
            if available > 0 {
                // Often all, sometimes nothing, otherwise cut anywhere.
                let count = match choices.below(8) {
                    0 => 0,
                    1 => choices.below(available.min(8) + 1),
                    2 => choices.below(available + 1),
                    _ => available,
                };
                let headroom = choices.below(16);
                self.consume(id, count, headroom, chunks);
            }
            let socket = &self.sockets[id.0];
            if socket.place.is_some() && socket.finished && socket.inbound.is_empty() && !socket.is_held() {
                self.lose(id);
            }
        }
    }

    /// Brings the engine what is kept of a connection and `count` bytes more.
    fn consume(&mut self, id: SocketId, count: usize, headroom: usize, chunks: &mut Vec<Chunk>) {
        let Some((shard, connection)) = self.sockets[id.0].place else { return };
        let socket = &mut self.sockets[id.0];
        self.progress += count as u64;
        let mut bytes = vec![0xA5; headroom];
        bytes.append(&mut socket.rest);
        bytes.extend(socket.inbound.drain(..count));
        if socket.draining_until_ms.is_some() {
            return;
        }
        let range = headroom..bytes.len();
        let chunk = Chunk::from(bytes);
        let consumed = self.shards[shard].receive(connection, &chunk, range.clone(), self.now_ms);
        assert!(consumed <= range.len(), "no more is consumed than was brought");
        self.progress += consumed as u64;
        self.sockets[id.0].rest = chunk.bytes()[range.start + consumed..].to_vec();
        chunks.push(chunk);
        self.act(shard, chunks);
    }

    fn act(&mut self, shard: usize, chunks: &mut Vec<Chunk>) {
        while let Some(action) = self.shards[shard].next_action() {
            self.progress += 1;
            match action {
                Action::Close(connection) => {
                    if let Some(id) = self.owners[shard].get(&connection) {
                        self.sockets[id.0].draining_until_ms = Some(self.now_ms + DRAIN_MS);
                        self.flush(shard, connection);
                    }
                }
                Action::Drop(connection) => self.release(shard, connection),
                Action::Move(connection, to) => {
                    let Some(id) = self.owners[shard].remove(&connection) else { continue };
                    self.sockets[id.0].place = None;
                    self.shards[shard].released(connection);
                    self.links[shard][usize::from(to.0)].moves.push_back(Mail::Adopt(id));
                }
                Action::Resume(connection) => {
                    if let Some(id) = self.owners[shard].get(&connection) {
                        self.consume(*id, 0, 3, chunks);
                    }
                }
                Action::HearFirst(first, then) => {
                    if let Some(id) = self.owners[shard].get(&first).copied() {
                        let all = self.sockets[id.0].inbound.len();
                        if !self.sockets[id.0].is_held() {
                            self.consume(id, all, 3, chunks);
                        }
                    }
                    if let Some(id) = self.owners[shard].get(&then).copied() {
                        self.consume(id, 0, 3, chunks);
                    }
                }
            }
        }
    }

    fn lose(&mut self, id: SocketId) {
        let socket = &mut self.sockets[id.0];
        if let Some((shard, connection)) = socket.place.take() {
            self.progress += 1;
            socket.closed_at_ms = Some(self.now_ms);
            self.owners[shard].remove(&connection);
            self.shards[shard].lost(connection, self.now_ms);
        }
    }

    fn release(&mut self, shard: usize, connection: ConnectionId) {
        if let Some(id) = self.owners[shard].remove(&connection) {
            self.progress += 1;
            self.sockets[id.0].place = None;
            self.sockets[id.0].closed_at_ms = Some(self.now_ms);
            self.shards[shard].released(connection);
        }
    }

    fn flush_all(&mut self, shard: usize, choices: &mut impl Choices) {
        let mut waiting: Vec<(SocketId, ConnectionId)> = self.owners[shard]
            .iter()
            .map(|(connection, id)| (*id, *connection))
            .filter(|(id, _)| self.sockets[id.0].write_waits && self.sockets[id.0].room() > 0)
            .collect();
        waiting.sort_unstable_by_key(|(id, _)| *id);
        for (id, connection) in waiting {
            if !choices.chance(10) {
                self.sockets[id.0].write_waits = false;
                self.flush(shard, connection);
            }
        }
        let next = |engine: &mut Shard<J>| engine.next_dirty().or_else(|| engine.next_late());
        while let Some(connection) = next(&mut self.shards[shard]) {
            self.flush(shard, connection);
        }
        self.shards[shard].end_fan_outs(self.now_ms);
    }

    /// Writes what is pending for a connection as far as the network takes it.
    fn flush(&mut self, shard: usize, connection: ConnectionId) {
        let Some(id) = self.owners[shard].get(&connection).copied() else { return };
        let engine = &mut self.shards[shard];
        let socket = &mut self.sockets[id.0];
        while !socket.write_waits {
            let Some(output) = engine.output(connection) else { break };
            let pending = output.pending_bytes();
            let mut slices = [IoSlice::new(&[]); 3];
            let filled = output.fill(&mut slices, usize::MAX);
            let room = socket.room();
            let before = socket.outbound.len();
            let mut written = 0;
            for slice in &slices[..filled] {
                let part = &slice[..slice.len().min(room - written)];
                written += part.len();
                if !socket.broken && !socket.deaf {
                    socket.outbound.extend_from_slice(part);
                }
            }
            if let Some(single) = output.single() {
                assert_eq!(single.len(), pending, "one piece is all there is");
                assert!(
                    socket.broken || socket.deaf || single.starts_with(&socket.outbound[before..]),
                    "both views agree"
                );
            }
            assert!(written <= pending && (written > 0 || pending == 0 || room == 0), "what is pending can be had");
            self.progress += written as u64;
            let more = engine.sent(connection, written, self.now_ms);
            if !more {
                break;
            }
            socket.write_waits = socket.room() == 0;
        }
        if self.sockets[id.0].write_waits {
            self.shards[shard].sent(connection, 0, self.now_ms);
        } else if self.sockets[id.0].draining_until_ms.is_some() {
            self.release(shard, connection);
        }
    }
}
