//! Shards with a desk at which clients are asked who they are: a network without delays, and verdicts by hand.

use std::collections::{HashMap, VecDeque};
use std::io::IoSlice;
use std::sync::Arc;

use tautwire_access::{Identity, Policy};
use tautwire_engine::Volatile;
use tautwire_engine::{
    Action, AuthDecision, AuthRequest, AuthState, Chunk, ConfigCell, ConfigSnapshot, ConnectionId, Io, NextTurn,
    PublishFailure, Published, Settings, Shard, Shared, turn,
};
use tautwire_message::Message;
use tautwire_protocol::{DecodeOptions, Packet, ProtocolVersion, decode};
use tautwire_router::{Batch, Exchange, Placement, RetainedLimits, ShardIndex};

pub(crate) const NOW_MS: u64 = 1_700_000_000_000;
const LIMITS: RetainedLimits = RetainedLimits { messages: 1_000, bytes: 1 << 20 };
/// More turns than anything here takes.
const DISPATCHES_MAX: usize = 10_000;

/// A client, wherever its connection is.
pub(crate) type Client = usize;

/// The shards and the clients.
pub(crate) struct World {
    shards: Vec<Shard<Volatile>>,
    nodes: Vec<Node>,
    pub(crate) config_cell: Arc<ConfigCell>,
    pub(crate) exchange: Arc<Exchange>,
    pub(crate) now_ms: u64,
    clients: usize,
    /// Turns of the first shard.
    pub(crate) turns: usize,
}

/// What is around one shard.
#[derive(Default)]
struct Node {
    now_ms: u64,
    sockets: HashMap<ConnectionId, Socket>,
    fresh: Vec<Socket>,
    batches: VecDeque<(ShardIndex, Batch)>,
    sent: Vec<(ShardIndex, Batch)>,
    moved: Vec<(ShardIndex, Socket)>,
    questions: Vec<(Client, AuthRequest)>,
    closed: Vec<Socket>,
    /// Connections that have sent something since the last turn.
    readable: Vec<ConnectionId>,
    /// Is done in the next turn where orders are taken.
    order: Option<Order>,
}

type Order = Box<dyn FnOnce(&mut Node, &mut Shard<Volatile>)>;

struct Socket {
    client: Client,
    input: Vec<u8>,
    output: Vec<u8>,
    standing: Option<Box<AuthState>>,
}

impl World {
    pub(crate) fn new(shards: usize) -> World {
        World::with(shards, Settings::default())
    }

    pub(crate) fn with(shards: usize, settings: Settings) -> World {
        let settings = Settings { sys_interval_s: 0, ..settings };
        let shared = Shared::new(settings, Exchange::with_placement(Placement::new(shards, 0), LIMITS));
        shared.config_cell.change(|first| first.asks = true);
        let shard = |index: usize| Shard::new(ShardIndex(index as u8), shared.clone(), Volatile, NOW_MS);
        World {
            shards: (0..shards).map(shard).collect(),
            nodes: (0..shards).map(|_| Node::default()).collect(),
            config_cell: shared.config_cell.clone(),
            exchange: shared.exchange.clone(),
            now_ms: NOW_MS,
            clients: 0,
            turns: 0,
        }
    }

    /// The rules that hold from now on.
    pub(crate) fn set_rules(&mut self, rules: &str) {
        self.config_cell.change(|next| next.policy = policy(rules));
        self.run();
    }

    /// In the midst of a turn something else holds, and then the client, which waits for it, is let in.
    pub(crate) fn change_and_admit(
        &mut self,
        client: Client,
        user: &str,
        change: impl FnOnce(&mut ConfigSnapshot) + 'static,
    ) {
        let (shard, id) = self.find(client).expect("it is connected");
        let (config_cell, now_ms, user) = (self.config_cell.clone(), self.now_ms, user.to_owned());
        self.nodes[shard].order = Some(Box::new(move |_, shard| {
            config_cell.change(change);
            shard.apply_auth_decision(
                id,
                AuthDecision::Admitted { identity: Arc::new(identity(&user)), data: None },
                now_ms,
            );
        }));
        self.run();
    }

    /// In the midst of a turn something else holds, and then somebody comes and says this.
    pub(crate) fn change_and_let_in(
        &mut self,
        bytes: &[u8],
        change: impl FnOnce(&mut ConfigSnapshot) + 'static,
    ) -> Client {
        self.clients += 1;
        let socket = Socket { client: self.clients, input: bytes.into(), output: Vec::new(), standing: None };
        let config_cell = self.config_cell.clone();
        self.nodes[0].order = Some(Box::new(move |node, shard| {
            config_cell.change(change);
            node.fresh.push(socket);
            assert!(node.adopt(shard));
        }));
        self.run();
        self.clients
    }

    /// A connection, by the first shard.
    pub(crate) fn connection(&mut self) -> Client {
        self.clients += 1;
        self.nodes[0].fresh.push(Socket {
            client: self.clients,
            input: Vec::new(),
            output: Vec::new(),
            standing: None,
        });
        self.run();
        self.clients
    }

    /// The client sends bytes.
    pub(crate) fn say_bytes(&mut self, client: Client, bytes: &[u8]) {
        if let Some((shard, id)) = self.find(client) {
            let World { shards, nodes, now_ms, .. } = self;
            if let Some(socket) = nodes[shard].sockets.get_mut(&id) {
                socket.input.extend(bytes);
            }
            nodes[shard].now_ms = *now_ms;
            nodes[shard].feed(&mut shards[shard], id);
        }
        self.run();
    }

    /// New rules hold, and in the turn in which its shard sees them it reads bytes of the client.
    pub(crate) fn set_rules_and_say(&mut self, rules: &str, client: Client, bytes: &[u8]) {
        let (shard, id) = self.find(client).expect("it is connected");
        let node = &mut self.nodes[shard];
        node.sockets.get_mut(&id).expect("it is connected").input.extend(bytes);
        node.readable.push(id);
        self.set_rules(rules);
    }

    /// The client sends a packet of 5.0.
    pub(crate) fn say(&mut self, client: Client, packet: &Packet<'_>) {
        self.say_in(ProtocolVersion::V5, client, packet);
    }

    pub(crate) fn say_in(&mut self, version: ProtocolVersion, client: Client, packet: &Packet<'_>) {
        let mut bytes = Vec::new();
        packet.append_to(version, &mut bytes).expect("a packet that can be said");
        self.say_bytes(client, &bytes);
    }

    /// The question that has been asked of a client.
    pub(crate) fn question(&mut self, client: Client) -> Option<AuthRequest> {
        self.nodes.iter_mut().find_map(|node| {
            let at = node.questions.iter().position(|(asked, _)| *asked == client)?;
            Some(node.questions.remove(at).1)
        })
    }

    pub(crate) fn apply_auth_decision(&mut self, client: Client, verdict: AuthDecision) {
        if let Some((shard, id)) = self.find(client) {
            self.shards[shard].apply_auth_decision(id, verdict, self.now_ms);
        }
        self.run();
    }

    /// The client is let in, and the rules change in the midst of what comes of it.
    pub(crate) fn admit_and_change(&mut self, client: Client, user: &str, rules: &str) {
        let (shard, id) = self.find(client).expect("it is connected");
        let verdict = AuthDecision::Admitted { identity: Arc::new(identity(user)), data: None };
        self.shards[shard].apply_auth_decision(id, verdict, self.now_ms);
        let _ = turn(&mut self.shards[shard], &mut self.nodes[shard], self.now_ms);
        self.set_rules(rules);
    }

    /// The client says something, and the rules change one turn later.
    pub(crate) fn say_and_change(&mut self, client: Client, packet: &Packet<'_>, rules: &str) {
        let (shard, id) = self.find(client).expect("it is connected");
        let socket = self.nodes[shard].sockets.get_mut(&id).expect("it is connected");
        packet.append_to(ProtocolVersion::V5, &mut socket.input).expect("a packet that can be said");
        self.nodes[shard].readable.push(id);
        let _ = turn(&mut self.shards[shard], &mut self.nodes[shard], self.now_ms);
        self.set_rules(rules);
    }

    /// The client is let in as this user.
    pub(crate) fn admit(&mut self, client: Client, user: &str) {
        self.apply_auth_decision(client, AuthDecision::Admitted { identity: Arc::new(identity(user)), data: None });
    }

    /// What the client has received and not looked at yet, as `look` shows it.
    pub(crate) fn heard<T>(
        &mut self,
        version: ProtocolVersion,
        client: Client,
        look: impl Fn(&Packet<'_>) -> T,
    ) -> Vec<T> {
        let Some(socket) = self.socket(client) else { return Vec::new() };
        let bytes = std::mem::take(&mut socket.output);
        let mut rest = &*bytes;
        let mut seen = Vec::new();
        while !rest.is_empty() {
            let (packet, length) =
                decode(rest, &DecodeOptions { version, max_packet_size: 1 << 20 }).expect("whole packets");
            seen.push(look(&packet));
            rest = &rest[length..];
        }
        seen
    }

    pub(crate) fn heard_bytes(&mut self, client: Client) -> Vec<u8> {
        self.socket(client).map(|socket| std::mem::take(&mut socket.output)).unwrap_or_default()
    }

    pub(crate) fn publish_for_operator(&mut self, message: &Message) -> Result<Published, PublishFailure> {
        let published = self.shards[0].publish_for_operator(message, self.now_ms);
        self.run();
        published
    }

    pub(crate) fn is_closed(&self, client: Client) -> bool {
        self.nodes.iter().any(|node| node.closed.iter().any(|socket| socket.client == client))
    }

    /// The shard on which the client's connection is.
    pub(crate) fn shard_of(&self, client: Client) -> Option<usize> {
        self.find(client).map(|(shard, _)| shard)
    }

    pub(crate) fn counters(&self, shard: usize) -> &tautwire_engine::Counters {
        self.shards[shard].counters()
    }

    /// The network of a client fails.
    pub(crate) fn lose(&mut self, client: Client) {
        if let Some((shard, id)) = self.find(client) {
            self.shards[shard].connection_lost(id, self.now_ms);
            self.nodes[shard].sockets.remove(&id);
        }
        self.run();
    }

    pub(crate) fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
        self.run();
    }

    /// What the account of memory has for clients.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.shards[0].held_bytes()
    }

    /// All turns until all shards sleep.
    pub(crate) fn run(&mut self) {
        for _ in 0..DISPATCHES_MAX {
            let mut is_busy = false;
            self.turns += 1;
            for at in 0..self.shards.len() {
                self.nodes[at].now_ms = self.now_ms;
                is_busy |= turn(&mut self.shards[at], &mut self.nodes[at], self.now_ms) == NextTurn::Busy;
                for (to, batch) in std::mem::take(&mut self.nodes[at].sent) {
                    self.nodes[usize::from(to.0)].batches.push_back((ShardIndex(at as u8), batch));
                    is_busy = true;
                }
                for (to, socket) in std::mem::take(&mut self.nodes[at].moved) {
                    self.nodes[usize::from(to.0)].fresh.push(socket);
                    is_busy = true;
                }
            }
            if !is_busy {
                return;
            }
        }
        panic!("the shards do not come to rest");
    }

    fn find(&self, client: Client) -> Option<(usize, ConnectionId)> {
        self.nodes.iter().enumerate().find_map(|(shard, node)| {
            let found = node.sockets.iter().find(|(_, socket)| socket.client == client)?;
            Some((shard, *found.0))
        })
    }

    fn socket(&mut self, client: Client) -> Option<&mut Socket> {
        self.nodes.iter_mut().find_map(|node| {
            let Node { sockets, closed, .. } = node;
            sockets.values_mut().chain(closed).find(|socket| socket.client == client)
        })
    }
}

pub(crate) fn policy(rules: &str) -> Arc<Policy> {
    Arc::new(Policy::parse("access.toml", rules).expect("good rules"))
}

pub(crate) fn identity(user: &str) -> Identity {
    Identity { user: Some(user.into()), ..Identity::anonymous("desk".into()) }
}

impl Node {
    fn feed(&mut self, shard: &mut Shard<Volatile>, id: ConnectionId) {
        let Some(socket) = self.sockets.get_mut(&id) else { return };
        if !shard.is_reading_paused(id) {
            let chunk = Chunk::from(socket.input.clone());
            let taken = shard.receive(id, &chunk, 0..socket.input.len(), self.now_ms);
            socket.input.drain(..taken);
        }
    }

    fn close(&mut self, shard: &mut Shard<Volatile>, id: ConnectionId) {
        self.write(shard, id);
        if let Some(socket) = self.sockets.remove(&id) {
            self.closed.push(socket);
        }
        shard.connection_closed(id);
    }
}

impl Io<Volatile> for Node {
    fn room(&mut self, _: ShardIndex) -> usize {
        64
    }

    fn adopt(&mut self, shard: &mut Shard<Volatile>) -> bool {
        let Some(mut socket) = self.fresh.pop() else { return false };
        let id = shard.accept(self.now_ms).expect("there is room");
        if let Some(standing) = socket.standing.take() {
            shard.adopt_auth_state(id, standing);
        }
        self.sockets.insert(id, socket);
        self.feed(shard, id);
        true
    }

    fn next_batch(&mut self, from: ShardIndex) -> Option<Batch> {
        let at = self.batches.iter().position(|(sender, _)| *sender == from)?;
        self.batches.remove(at).map(|(_, batch)| batch)
    }

    fn batches_taken(&mut self, _: ShardIndex) {}

    fn read(&mut self, shard: &mut Shard<Volatile>) -> bool {
        let Some(id) = self.readable.pop() else { return false };
        self.feed(shard, id);
        true
    }

    fn accept(&mut self, _: &mut Shard<Volatile>) {}

    fn run_commands(&mut self, shard: &mut Shard<Volatile>) {
        if let Some(order) = self.order.take() {
            order(self, shard);
        }
    }

    fn perform(&mut self, shard: &mut Shard<Volatile>, action: Action) {
        match action {
            Action::Close(id) | Action::Drop(id) => self.close(shard, id),
            Action::Move(id, to) => {
                if let Some(mut socket) = self.sockets.remove(&id) {
                    socket.standing = shard.release_auth_state(id);
                    self.moved.push((to, socket));
                }
                shard.connection_closed(id);
            }
            Action::Resume(id) => self.feed(shard, id),
            Action::ReadFirst(_, then) => self.feed(shard, then),
            Action::Ask(id) => {
                if let (Some(question), Some(socket)) = (shard.take_auth_request(id), self.sockets.get(&id)) {
                    self.questions.push((socket.client, question));
                }
            }
        }
    }

    fn send(&mut self, to: ShardIndex, batches: impl Iterator<Item = Batch>) {
        self.sent.extend(batches.map(|batch| (to, batch)));
    }

    fn write_ready(&mut self, _: &mut Shard<Volatile>) {}

    fn write(&mut self, shard: &mut Shard<Volatile>, id: ConnectionId) {
        let (Some(output), Some(socket)) = (shard.output(id), self.sockets.get_mut(&id)) else { return };
        let mut slices = [IoSlice::new(&[]); 64];
        let count = output.fill(&mut slices, usize::MAX);
        let bytes: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.iter().copied()).collect();
        socket.output.extend(&bytes);
        shard.sent(id, bytes.len(), self.now_ms);
    }

    fn end_turn(&mut self, _: &mut Shard<Volatile>) -> NextTurn {
        if self.fresh.is_empty() && self.batches.is_empty() { NextTurn::Until(None) } else { NextTurn::Busy }
    }

    fn has_room_or_arm_waker(&mut self, _: ShardIndex) -> bool {
        true
    }
}
