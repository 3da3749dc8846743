//! Shards with authentication: a network without delays. Tests make the authentication decisions.

use std::collections::{HashMap, VecDeque};
use std::io::IoSlice;
use std::sync::Arc;

use tautwire_access::{Identity, Policy};
use tautwire_engine::Volatile;
use tautwire_engine::{
    Action, AuthDecision, AuthRequest, AuthState, Chunk, ConfigCell, ConfigSnapshot, ConnectionId, Io, NextTurn,
    PublishFailure, PublishReceipt, Settings, Shard, Shared, turn,
};
use tautwire_message::Message;
use tautwire_protocol::{DecodeOptions, Packet, ProtocolVersion, decode};
use tautwire_router::{Batch, Exchange, Placement, RetainedLimits, ShardIndex};

pub(crate) const NOW_MS: u64 = 1_700_000_000_000;
const LIMITS: RetainedLimits = RetainedLimits { messages: 1_000, bytes: 1 << 20 };
/// No test needs so many turns.
const TURNS_MAX: usize = 10_000;

/// The number of a client; its connection can be on any shard.
pub(crate) type Client = usize;

/// The shards and the clients.
pub(crate) struct World {
    shards: Vec<Shard<Volatile>>,
    nodes: Vec<Node>,
    pub(crate) config_cell: Arc<ConfigCell>,
    pub(crate) exchange: Arc<Exchange>,
    pub(crate) now_ms: u64,
    clients: usize,
    /// The number of turns of the first shard.
    pub(crate) turns: usize,
}

/// The environment of one shard.
#[derive(Default)]
struct Node {
    now_ms: u64,
    sockets: HashMap<ConnectionId, Socket>,
    accepted: Vec<Socket>,
    batches: VecDeque<(ShardIndex, Batch)>,
    sent: Vec<(ShardIndex, Batch)>,
    moved: Vec<(ShardIndex, Socket)>,
    auth_requests: Vec<(Client, AuthRequest)>,
    closed: Vec<Socket>,
    /// Connections that have sent bytes since the last turn.
    readable: Vec<ConnectionId>,
    /// Runs in the next turn with the other commands.
    command: Option<Command>,
}

type Command = Box<dyn FnOnce(&mut Node, &mut Shard<Volatile>)>;

struct Socket {
    client: Client,
    input: Vec<u8>,
    output: Vec<u8>,
    auth_state: Option<Box<AuthState>>,
}

impl World {
    pub(crate) fn new(shards: usize) -> World {
        World::with(shards, Settings::default())
    }

    pub(crate) fn with(shards: usize, settings: Settings) -> World {
        let settings = Settings { sys_interval_s: 0, ..settings };
        let shared = Shared::new(settings, Exchange::with_placement(Placement::new(shards, 0), LIMITS));
        shared.config_cell.change(|first| first.requires_auth = true);
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

    /// Applies access rules.
    pub(crate) fn set_rules(&mut self, rules: &str) {
        self.config_cell.change(|next| next.policy = policy(rules));
        self.run();
    }

    /// Changes the configuration during a turn, then accepts the waiting client in the same turn.
    pub(crate) fn change_and_admit(
        &mut self,
        client: Client,
        user: &str,
        change: impl FnOnce(&mut ConfigSnapshot) + 'static,
    ) {
        let (shard, id) = self.find(client).expect("the client is connected");
        let (config_cell, now_ms, user) = (self.config_cell.clone(), self.now_ms, user.to_owned());
        self.nodes[shard].command = Some(Box::new(move |_, shard| {
            config_cell.change(change);
            shard.apply_auth_decision(
                id,
                AuthDecision::Admitted { identity: Arc::new(identity(&user)), data: None },
                now_ms,
            );
        }));
        self.run();
    }

    /// Changes the configuration during a turn, then connects a client that has sent `bytes`.
    pub(crate) fn change_and_connect(
        &mut self,
        bytes: &[u8],
        change: impl FnOnce(&mut ConfigSnapshot) + 'static,
    ) -> Client {
        self.clients += 1;
        let socket = Socket { client: self.clients, input: bytes.into(), output: Vec::new(), auth_state: None };
        let config_cell = self.config_cell.clone();
        self.nodes[0].command = Some(Box::new(move |node, shard| {
            config_cell.change(change);
            node.accepted.push(socket);
            assert!(node.adopt(shard));
        }));
        self.run();
        self.clients
    }

    /// Opens a connection on the first shard.
    pub(crate) fn connection(&mut self) -> Client {
        self.clients += 1;
        self.nodes[0].accepted.push(Socket {
            client: self.clients,
            input: Vec::new(),
            output: Vec::new(),
            auth_state: None,
        });
        self.run();
        self.clients
    }

    /// The client sends bytes.
    pub(crate) fn send_bytes(&mut self, client: Client, bytes: &[u8]) {
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

    /// Applies new rules. The shard reads bytes of the client in the turn in which it applies them.
    pub(crate) fn set_rules_and_send(&mut self, rules: &str, client: Client, bytes: &[u8]) {
        let (shard, id) = self.find(client).expect("the client is connected");
        let node = &mut self.nodes[shard];
        node.sockets.get_mut(&id).expect("the client is connected").input.extend(bytes);
        node.readable.push(id);
        self.set_rules(rules);
    }

    /// The client sends a packet of 5.0.
    pub(crate) fn send(&mut self, client: Client, packet: &Packet<'_>) {
        self.send_in_version(ProtocolVersion::V5, client, packet);
    }

    pub(crate) fn send_in_version(&mut self, version: ProtocolVersion, client: Client, packet: &Packet<'_>) {
        let mut bytes = Vec::new();
        packet.append_to(version, &mut bytes).expect("a valid packet");
        self.send_bytes(client, &bytes);
    }

    /// Takes the authentication request of a client.
    pub(crate) fn auth_request(&mut self, client: Client) -> Option<AuthRequest> {
        self.nodes.iter_mut().find_map(|node| {
            let at = node.auth_requests.iter().position(|(owner, _)| *owner == client)?;
            Some(node.auth_requests.remove(at).1)
        })
    }

    pub(crate) fn apply_auth_decision(&mut self, client: Client, decision: AuthDecision) {
        if let Some((shard, id)) = self.find(client) {
            self.shards[shard].apply_auth_decision(id, decision, self.now_ms);
        }
        self.run();
    }

    /// Accepts the client, and changes the rules one turn later.
    pub(crate) fn admit_and_change(&mut self, client: Client, user: &str, rules: &str) {
        let (shard, id) = self.find(client).expect("the client is connected");
        let decision = AuthDecision::Admitted { identity: Arc::new(identity(user)), data: None };
        self.shards[shard].apply_auth_decision(id, decision, self.now_ms);
        let _ = turn(&mut self.shards[shard], &mut self.nodes[shard], self.now_ms);
        self.set_rules(rules);
    }

    /// Sends a packet of the client, and changes the rules one turn later.
    pub(crate) fn send_and_change(&mut self, client: Client, packet: &Packet<'_>, rules: &str) {
        let (shard, id) = self.find(client).expect("the client is connected");
        let socket = self.nodes[shard].sockets.get_mut(&id).expect("the client is connected");
        packet.append_to(ProtocolVersion::V5, &mut socket.input).expect("a valid packet");
        self.nodes[shard].readable.push(id);
        let _ = turn(&mut self.shards[shard], &mut self.nodes[shard], self.now_ms);
        self.set_rules(rules);
    }

    /// Accepts the client as this user.
    pub(crate) fn admit(&mut self, client: Client, user: &str) {
        self.apply_auth_decision(client, AuthDecision::Admitted { identity: Arc::new(identity(user)), data: None });
    }

    /// Takes the packets that the client has received, mapped by `map`.
    pub(crate) fn received<T>(
        &mut self,
        version: ProtocolVersion,
        client: Client,
        map: impl Fn(&Packet<'_>) -> T,
    ) -> Vec<T> {
        let Some(socket) = self.socket(client) else { return Vec::new() };
        let bytes = std::mem::take(&mut socket.output);
        let mut rest = &*bytes;
        let mut seen = Vec::new();
        while !rest.is_empty() {
            let (packet, length) =
                decode(rest, &DecodeOptions { version, max_packet_size: 1 << 20 }).expect("whole packets");
            seen.push(map(&packet));
            rest = &rest[length..];
        }
        seen
    }

    pub(crate) fn received_bytes(&mut self, client: Client) -> Vec<u8> {
        self.socket(client).map(|socket| std::mem::take(&mut socket.output)).unwrap_or_default()
    }

    pub(crate) fn publish_for_operator(&mut self, message: &Message) -> Result<PublishReceipt, PublishFailure> {
        let published = self.shards[0].publish_for_operator(message, self.now_ms);
        self.run();
        published
    }

    pub(crate) fn is_closed(&self, client: Client) -> bool {
        self.nodes.iter().any(|node| node.closed.iter().any(|socket| socket.client == client))
    }

    /// The shard of the client's connection.
    pub(crate) fn shard_of(&self, client: Client) -> Option<usize> {
        self.find(client).map(|(shard, _)| shard)
    }

    pub(crate) fn counters(&self, shard: usize) -> &tautwire_engine::Counters {
        self.shards[shard].counters()
    }

    /// Breaks the connection of a client.
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

    /// The bytes that are charged for clients.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.shards[0].held_bytes()
    }

    /// Runs turns until all shards sleep.
    pub(crate) fn run(&mut self) {
        for _ in 0..TURNS_MAX {
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
                    self.nodes[usize::from(to.0)].accepted.push(socket);
                    is_busy = true;
                }
            }
            if !is_busy {
                return;
            }
        }
        panic!("a shard is busy after {TURNS_MAX} turns");
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
    Arc::new(Policy::parse("access.toml", rules).expect("valid rules"))
}

pub(crate) fn identity(user: &str) -> Identity {
    Identity { user: Some(user.into()), ..Identity::anonymous("test".into()) }
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
        let Some(mut socket) = self.accepted.pop() else { return false };
        let id = shard.accept(self.now_ms).expect("the connection is accepted");
        if let Some(auth_state) = socket.auth_state.take() {
            shard.adopt_auth_state(id, auth_state);
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
        if let Some(command) = self.command.take() {
            command(self, shard);
        }
    }

    fn perform(&mut self, shard: &mut Shard<Volatile>, action: Action) {
        match action {
            Action::Close(id) | Action::Drop(id) => self.close(shard, id),
            Action::Move(id, to) => {
                if let Some(mut socket) = self.sockets.remove(&id) {
                    socket.auth_state = shard.release_auth_state(id);
                    self.moved.push((to, socket));
                }
                shard.connection_closed(id);
            }
            Action::Resume(id) => self.feed(shard, id),
            Action::ReadFirst(_, then) => self.feed(shard, then),
            Action::Authenticate(id) => {
                if let (Some(auth_request), Some(socket)) = (shard.take_auth_request(id), self.sockets.get(&id)) {
                    self.auth_requests.push((socket.client, auth_request));
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
        shard.advance_output(id, bytes.len(), self.now_ms);
    }

    fn end_turn(&mut self, _: &mut Shard<Volatile>) -> NextTurn {
        if self.accepted.is_empty() && self.batches.is_empty() { NextTurn::Until(None) } else { NextTurn::Busy }
    }

    fn has_room_or_arm_waker(&mut self, _: ShardIndex) -> bool {
        true
    }
}
