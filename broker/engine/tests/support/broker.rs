use std::sync::Arc;

use tautwire_engine::Mode;
use tautwire_engine::{Counters, Settings, Shard, Shared, Totals, restore};
use tautwire_memory::{Memory, MemoryLedger};
use tautwire_router::{Exchange, Placement, RetainedLimits, ShardIndex};
use tautwire_session::Replay;

use super::choices::Choices;
use super::network::Network;
use super::slow_store::SlowStore;
use super::socket::{Socket, SocketId};
use super::turning::run_turn;

/// The moment at which every simulation begins.
const START_MS: u64 = 1_700_000_000_000;
/// Turns of all shards without anything moving, after which a shard that does not sleep never will.
const IDLE_TURNS_MAX: usize = 10_000;

/// The shards of one broker, the channels between them and its network.
pub(crate) struct SimulatedBroker<M: Mode> {
    pub(super) shards: Vec<Shard<M>>,
    pub(super) network: Network,
    exchange: Arc<Exchange>,
    counters: Arc<[Counters]>,
    memory: Arc<Memory>,
    life: Life,
}

/// What a broker begins with, whatever it has kept.
#[derive(Clone, Copy)]
struct Life {
    number: u64,
    now_ms: u64,
    digest: Option<u64>,
    is_cold: bool,
    interleaves: bool,
}

impl Default for Life {
    fn default() -> Life {
        Life { number: 1, now_ms: START_MS, digest: None, is_cold: false, interleaves: false }
    }
}

impl<M: Mode> SimulatedBroker<M> {
    /// A broker whose shards send each other at most `settings.shard_queue_batches` at a time. `journal` makes the journal
    /// of each shard.
    pub(crate) fn new(
        shards: usize,
        settings: Settings,
        retained: RetainedLimits,
        mut journal: impl FnMut(usize) -> M,
    ) -> SimulatedBroker<M> {
        let start = |_: &Arc<MemoryLedger>| ((0..shards).map(&mut journal).collect(), Replay::default());
        SimulatedBroker::begin(Life::default(), shards, settings, retained, start)
    }

    /// The broker is gone, and another one begins at the same moment with what `replay` has.
    pub(crate) fn restart(
        &mut self,
        shards: usize,
        retained: RetainedLimits,
        replay: Replay,
        journal: impl FnMut(usize) -> M,
    ) {
        self.restart_with(shards, retained, |_| ((0..shards).map(journal).collect(), replay));
    }

    /// The same with what `start` gives: the journals of the shards, and what is to be restored. Messages may be entered in the ledger
    /// that it is given.
    pub(crate) fn restart_with(
        &mut self,
        shards: usize,
        retained: RetainedLimits,
        start: impl FnOnce(&Arc<MemoryLedger>) -> (Vec<M>, Replay),
    ) {
        let settings = self.shards[0].settings().clone();
        let life = Life {
            number: self.life.number + 1,
            now_ms: self.now_ms(),
            digest: self.network.digest,
            is_cold: self.network.cold.is_some(),
            interleaves: self.network.interleaves,
        };
        *self = SimulatedBroker::begin(life, shards, settings, retained, start);
    }

    fn begin(
        life: Life,
        shards: usize,
        settings: Settings,
        retained: RetainedLimits,
        start: impl FnOnce(&Arc<MemoryLedger>) -> (Vec<M>, Replay),
    ) -> SimulatedBroker<M> {
        let Life { number, now_ms, digest, is_cold, interleaves } = life;
        let channel_capacity = settings.shard_queue_batches;
        // Another one in each life.
        let placement = Placement::new(shards, now_ms);
        // Each shard adds its own number.
        let shared = Shared::new(settings, Exchange::with_placement(placement, retained)).of_run(number << 8);
        let (journals, replay) = start(shared.memory.ledger(0));
        let journals = journals.into_iter().enumerate();
        let shard = |(index, journal)| Shard::new(ShardIndex(index as u8), shared.clone(), journal, now_ms);
        let mut broker = SimulatedBroker {
            shards: journals.map(shard).collect(),
            network: Network::new(shards, channel_capacity, now_ms, digest),
            exchange: shared.exchange,
            counters: shared.counters,
            memory: shared.memory,
            life,
        };
        broker.network.interleaves = interleaves;
        if is_cold {
            broker.connect_spill_store();
        }
        restore(&mut broker.shards, replay.finish(), now_ms).expect("there was a place for everything before");
        broker
    }

    /// From now on messages can leave memory, for a store that answers late.
    pub(crate) fn connect_spill_store(&mut self) -> SlowStore {
        let store = SlowStore::new(self.shards.len());
        for (index, shard) in self.shards.iter_mut().enumerate() {
            shard.connect_spill_store(store.port(index, &self.memory));
        }
        self.network.cold = Some(store.clone());
        store
    }

    /// The shards, without the network around them.
    #[allow(dead_code, reason = "the tests of clusters use it")]
    pub(crate) fn into_shards(self) -> Vec<Shard<M>> {
        self.shards
    }

    /// The store, where there is one.
    pub(crate) fn spilled(&self) -> Option<&SlowStore> {
        self.network.cold.as_ref()
    }

    /// The store serves one order; false where there is none.
    fn serve_cold(&mut self, choices: &mut impl Choices) -> bool {
        let Some(shard) = self.network.cold.as_ref().and_then(|store| store.serve(choices)) else { return false };
        self.network.progress += 1;
        self.network.wake(shard);
        true
    }

    /// How many shards there are.
    pub(crate) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// The broker's clock.
    pub(crate) fn now_ms(&self) -> u64 {
        self.network.now_ms
    }

    /// What is common to the shards.
    pub(crate) fn exchange(&self) -> &Exchange {
        &self.exchange
    }

    /// What clients make the shards hold.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The sum of all counters.
    pub(crate) fn totals(&self) -> Totals {
        Totals::of(self.counters.iter())
    }

    /// Counts everything that has moved so far: while it stands still, nothing happens.
    pub(crate) fn progress(&self) -> u64 {
        self.network.progress
    }

    /// From now on other shards may make turns while one sends.
    pub(crate) fn interleave_turns(&mut self) {
        self.network.interleaves = true;
    }

    /// From now on there is a digest.
    pub(crate) fn begin_digest(&mut self) {
        self.network.digest = Some(0);
    }

    /// Of every byte that broker and clients have sent, and who sent it: equal digests mean equal simulations.
    pub(crate) fn digest(&self) -> Option<u64> {
        self.network.digest
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
    pub(crate) fn connect(&mut self, shard: usize, room_bytes: usize) -> SocketId {
        let id = SocketId(self.network.sockets.len());
        self.network.sockets.push(Socket::new(room_bytes));
        self.network.arrive(shard, id);
        id
    }

    /// Sends bytes.
    pub(crate) fn send(&mut self, socket: SocketId, bytes: &[u8]) {
        self.network.sockets[socket.0].inbound.extend(bytes);
        self.network.note_sent(2 * socket.0 as u64, bytes);
        self.network.is_readable(socket);
    }

    /// Sends no more; what has been sent arrives.
    pub(crate) fn finish(&mut self, socket: SocketId) {
        self.network.sockets[socket.0].finished = true;
        self.network.is_readable(socket);
    }

    /// Goes away without a word; what has been sent arrives.
    pub(crate) fn abandon(&mut self, id: SocketId) {
        let socket = &mut self.network.sockets[id.0];
        socket.is_abandoned = true;
        socket.outbound.clear();
        self.network.is_writable(id);
        self.finish(id);
    }

    /// Loses the connection and what is on its way.
    pub(crate) fn cut(&mut self, id: SocketId) {
        let socket = &mut self.network.sockets[id.0];
        socket.broken = true;
        socket.inbound.clear();
        socket.outbound.clear();
        self.network.is_writable(id);
        self.network.is_readable(id);
    }

    /// Loses all connections but these.
    pub(crate) fn cut_all_but(&mut self, kept: &[SocketId]) {
        for socket in (0..self.network.sockets.len()).map(SocketId).filter(|socket| !kept.contains(socket)) {
            self.cut(socket);
        }
    }

    /// Takes up to `most` bytes that have arrived from the broker.
    pub(crate) fn take(&mut self, id: SocketId, most: usize) -> Vec<u8> {
        let outbound = &mut self.network.sockets[id.0].outbound;
        let count = most.min(outbound.len());
        let bytes = outbound.drain(..count).collect();
        self.network.progress += count as u64;
        self.network.is_writable(id);
        bytes
    }

    /// When the broker closed the connection, if it has. What it sent before may still be to be taken.
    pub(crate) fn closed_at_ms(&self, socket: SocketId) -> Option<u64> {
        self.network.sockets[socket.0].closed_at_ms
    }

    /// Whether something that clients have sent has not been taken.
    pub(crate) fn has_unread(&self) -> bool {
        let is_unread = |socket: &Socket| !socket.inbound.is_empty() || !socket.rest.is_empty();
        self.network.sockets.iter().any(|socket| socket.place.is_some() && is_unread(socket))
    }

    // The passage of time.

    /// Lets time pass.
    pub(crate) fn advance(&mut self, ms: u64) {
        self.network.now_ms += ms;
    }

    /// Wakes a shard.
    pub(crate) fn wake(&mut self, shard: usize) {
        self.network.wake(shard);
    }

    /// Wakes all shards, as a journal does that has made progress.
    pub(crate) fn wake_all(&mut self) {
        for shard in 0..self.shards.len() {
            self.network.wake(shard);
        }
    }

    /// Turns of all shards until all sleep. The clock stands still.
    pub(crate) fn settle(&mut self, choices: &mut impl Choices) {
        let mut idle_turns = 0;
        loop {
            let before = self.network.progress;
            let mut is_awake = false;
            for shard in 0..self.shards.len() {
                is_awake |= self.turn(shard, choices);
            }
            if self.network.cold.is_some() && (!is_awake || choices.chance(30)) && self.serve_cold(choices) {
                continue;
            }
            if !is_awake {
                return;
            }
            // A choice may leave something lie; for ever only by ill luck.
            idle_turns = if self.network.progress == before { idle_turns + 1 } else { 0 };
            assert!(idle_turns < IDLE_TURNS_MAX, "a shard does not sleep although nothing happens");
        }
    }

    /// One turn of a shard; false where it sleeps.
    pub(crate) fn turn(&mut self, shard: usize, choices: &mut impl Choices) -> bool {
        // An answer may wake another shard.
        let serves = self.network.cold.is_some() && choices.chance(20) && self.serve_cold(choices);
        run_turn(&mut self.network, &mut self.shards, shard, choices) || serves
    }
}
