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
use super::turn::run_turn;

/// The time at which every simulation begins.
const START_MS: u64 = 1_700_000_000_000;
/// The test fails if a shard stays awake for so many turns without progress.
const IDLE_TURNS_MAX: usize = 10_000;

/// The shards of one broker, the channels between them and its network.
pub(crate) struct SimulatedBroker<M: Mode> {
    pub(super) shards: Vec<Shard<M>>,
    pub(super) network: Network,
    exchange: Arc<Exchange>,
    counters: Arc<[Counters]>,
    memory: Arc<Memory>,
    run: u64,
}

/// What a broker starts with, apart from its stored state.
#[derive(Clone, Copy)]
struct StartOptions {
    run: u64,
    now_ms: u64,
    digest: Option<u64>,
    has_spill_store: bool,
    interleaves: bool,
}

impl Default for StartOptions {
    fn default() -> StartOptions {
        StartOptions { run: 1, now_ms: START_MS, digest: None, has_spill_store: false, interleaves: false }
    }
}

impl<M: Mode> SimulatedBroker<M> {
    /// Creates a broker. Each shard channel holds at most `settings.shard_queue_batches`. `journal` creates the journal of each shard.
    pub(crate) fn new(
        shards: usize,
        settings: Settings,
        retained: RetainedLimits,
        mut journal: impl FnMut(usize) -> M,
    ) -> SimulatedBroker<M> {
        let start = |_: &Arc<MemoryLedger>| ((0..shards).map(&mut journal).collect(), Replay::default());
        SimulatedBroker::begin(StartOptions::default(), shards, settings, retained, start)
    }

    /// Replaces the broker with a new one at the same time, which restores `replay`.
    pub(crate) fn restart(
        &mut self,
        shards: usize,
        retained: RetainedLimits,
        replay: Replay,
        journal: impl FnMut(usize) -> M,
    ) {
        self.restart_with(shards, retained, |_| ((0..shards).map(journal).collect(), replay));
    }

    /// Like `restart`. `start` returns the journals of the shards and the state to restore. It can charge messages to the ledger.
    pub(crate) fn restart_with(
        &mut self,
        shards: usize,
        retained: RetainedLimits,
        start: impl FnOnce(&Arc<MemoryLedger>) -> (Vec<M>, Replay),
    ) {
        let settings = self.shards[0].settings().clone();
        let options = StartOptions {
            run: self.run + 1,
            now_ms: self.now_ms(),
            digest: self.network.digest,
            has_spill_store: self.network.spill_store.is_some(),
            interleaves: self.network.interleaves,
        };
        *self = SimulatedBroker::begin(options, shards, settings, retained, start);
    }

    fn begin(
        options: StartOptions,
        shards: usize,
        settings: Settings,
        retained: RetainedLimits,
        start: impl FnOnce(&Arc<MemoryLedger>) -> (Vec<M>, Replay),
    ) -> SimulatedBroker<M> {
        let StartOptions { run, now_ms, digest, has_spill_store, interleaves } = options;
        let channel_capacity = settings.shard_queue_batches;
        // A different placement in each run.
        let placement = Placement::new(shards, now_ms);
        // Each shard adds its own index.
        let shared = Shared::new(settings, Exchange::with_placement(placement, retained)).with_run(run << 8);
        let (journals, replay) = start(shared.memory.ledger(0));
        let journals = journals.into_iter().enumerate();
        let shard = |(index, journal)| Shard::new(ShardIndex(index as u8), shared.clone(), journal, now_ms);
        let mut broker = SimulatedBroker {
            shards: journals.map(shard).collect(),
            network: Network::new(shards, channel_capacity, now_ms, digest),
            exchange: shared.exchange,
            counters: shared.counters,
            memory: shared.memory,
            run,
        };
        broker.network.interleaves = interleaves;
        if has_spill_store {
            broker.connect_spill_store();
        }
        restore(&mut broker.shards, replay.finish(), now_ms).expect("the state fitted before the restart");
        broker
    }

    /// Connects a spill store that answers late.
    pub(crate) fn connect_spill_store(&mut self) -> SlowStore {
        let store = SlowStore::new(self.shards.len());
        for (index, shard) in self.shards.iter_mut().enumerate() {
            shard.connect_spill_store(store.port(index, &self.memory));
        }
        self.network.spill_store = Some(store.clone());
        store
    }

    /// Returns the shards without the network.
    #[allow(dead_code, reason = "only the cluster tests use it")]
    pub(crate) fn into_shards(self) -> Vec<Shard<M>> {
        self.shards
    }

    /// The spill store, if one is connected.
    pub(crate) fn spilled(&self) -> Option<&SlowStore> {
        self.network.spill_store.as_ref()
    }

    /// Has the store serve one request. Returns false if there is none.
    fn serve_spill_request(&mut self, choices: &mut impl Choices) -> bool {
        let Some(shard) = self.network.spill_store.as_ref().and_then(|store| store.serve(choices)) else {
            return false;
        };
        self.network.progress += 1;
        self.network.wake(shard);
        true
    }

    /// The number of shards.
    pub(crate) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// The broker's clock.
    pub(crate) fn now_ms(&self) -> u64 {
        self.network.now_ms
    }

    /// The state that the shards share.
    pub(crate) fn exchange(&self) -> &Exchange {
        &self.exchange
    }

    /// The memory that the shards hold for clients.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The sum of all counters.
    pub(crate) fn totals(&self) -> Totals {
        Totals::of(self.counters.iter())
    }

    /// The number of events so far. While it does not change, nothing happens.
    pub(crate) fn progress(&self) -> u64 {
        self.network.progress
    }

    /// Lets other shards run turns while one sends.
    pub(crate) fn interleave_turns(&mut self) {
        self.network.interleaves = true;
    }

    /// Starts to compute a digest.
    pub(crate) fn begin_digest(&mut self) {
        self.network.digest = Some(0);
    }

    /// The digest of all bytes that broker and clients have sent, with their senders. Equal digests mean equal simulations.
    pub(crate) fn digest(&self) -> Option<u64> {
        self.network.digest
    }

    /// A Client Identifier whose session belongs to `shard`.
    pub(crate) fn client_id_on(&self, shard: usize, name: &str) -> String {
        (0..100_000)
            .map(|n| format!("{name}-{n:05}"))
            .find(|id| usize::from(self.exchange.owner(id).0) == shard)
            .expect("100,000 identifiers cover every shard")
    }

    // The client's side of the network.

    /// Connects to `shard`. `room_bytes` is how many unread bytes the network and the client's buffers hold.
    pub(crate) fn connect(&mut self, shard: usize, room_bytes: usize) -> SocketId {
        let id = SocketId(self.network.sockets.len());
        self.network.sockets.push(Socket::new(room_bytes));
        self.network.connect(shard, id);
        id
    }

    /// Sends bytes.
    pub(crate) fn send(&mut self, socket: SocketId, bytes: &[u8]) {
        self.network.sockets[socket.0].inbound.extend(bytes);
        self.network.record_sent(2 * socket.0 as u64, bytes);
        self.network.notify_readable(socket);
    }

    /// Closes the client's sending side. Bytes already sent arrive.
    pub(crate) fn finish(&mut self, socket: SocketId) {
        self.network.sockets[socket.0].finished = true;
        self.network.notify_readable(socket);
    }

    /// Closes the connection without DISCONNECT. Bytes already sent arrive.
    pub(crate) fn abandon(&mut self, id: SocketId) {
        let socket = &mut self.network.sockets[id.0];
        socket.is_abandoned = true;
        socket.outbound.clear();
        self.network.notify_writable(id);
        self.finish(id);
    }

    /// Breaks the connection. Bytes in flight are lost.
    pub(crate) fn cut(&mut self, id: SocketId) {
        let socket = &mut self.network.sockets[id.0];
        socket.broken = true;
        socket.inbound.clear();
        socket.outbound.clear();
        self.network.notify_writable(id);
        self.network.notify_readable(id);
    }

    /// Breaks all connections except `kept`.
    pub(crate) fn cut_all_but(&mut self, kept: &[SocketId]) {
        for socket in (0..self.network.sockets.len()).map(SocketId).filter(|socket| !kept.contains(socket)) {
            self.cut(socket);
        }
    }

    /// Reads up to `most` bytes from the broker.
    pub(crate) fn take(&mut self, id: SocketId, most: usize) -> Vec<u8> {
        let outbound = &mut self.network.sockets[id.0].outbound;
        let count = most.min(outbound.len());
        let bytes = outbound.drain(..count).collect();
        self.network.progress += count as u64;
        self.network.notify_writable(id);
        bytes
    }

    /// When the broker closed the connection, if it has. Bytes that it sent before may still be unread.
    pub(crate) fn closed_at_ms(&self, socket: SocketId) -> Option<u64> {
        self.network.sockets[socket.0].closed_at_ms
    }

    /// Whether the broker has not read everything that clients have sent.
    pub(crate) fn has_unread(&self) -> bool {
        let is_unread = |socket: &Socket| !socket.inbound.is_empty() || !socket.rest.is_empty();
        self.network.sockets.iter().any(|socket| socket.place.is_some() && is_unread(socket))
    }

    // Time.

    /// Advances the clock.
    pub(crate) fn advance(&mut self, ms: u64) {
        self.network.now_ms += ms;
    }

    /// Wakes a shard.
    pub(crate) fn wake(&mut self, shard: usize) {
        self.network.wake(shard);
    }

    /// Wakes all shards, as a journal does after progress.
    pub(crate) fn wake_all(&mut self) {
        for shard in 0..self.shards.len() {
            self.network.wake(shard);
        }
    }

    /// Runs turns of all shards until all sleep. The clock does not advance.
    pub(crate) fn settle(&mut self, choices: &mut impl Choices) {
        let mut idle_turns = 0;
        loop {
            let before = self.network.progress;
            let mut is_awake = false;
            for shard in 0..self.shards.len() {
                is_awake |= self.turn(shard, choices);
            }
            if self.network.spill_store.is_some()
                && (!is_awake || choices.chance(30))
                && self.serve_spill_request(choices)
            {
                continue;
            }
            if !is_awake {
                return;
            }
            // Choices can delay an event, but hardly for so many turns.
            idle_turns = if self.network.progress == before { idle_turns + 1 } else { 0 };
            assert!(idle_turns < IDLE_TURNS_MAX, "a shard stays awake without progress for {IDLE_TURNS_MAX} turns");
        }
    }

    /// Runs one turn of a shard. Returns false if it sleeps.
    pub(crate) fn turn(&mut self, shard: usize, choices: &mut impl Choices) -> bool {
        // A response can wake another shard.
        let serves = self.network.spill_store.is_some() && choices.chance(20) && self.serve_spill_request(choices);
        run_turn(&mut self.network, &mut self.shards, shard, choices) || serves
    }
}
