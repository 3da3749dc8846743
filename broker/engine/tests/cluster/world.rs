//! The simulated world: nodes, store, clients and the network between them. Each event happens at one of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::num::NonZeroU64;
use std::sync::Arc;

use tautwire_cluster::names::{Incarnation, Key, Partition};
use tautwire_cluster::subject::subject_of;
use tautwire_cluster::{Answer, Operation, OperationId, Revision, Settings as MemberSettings, SharesOf, TICK_MS};
use tautwire_engine::{ClusterSettings, Settings, shares_of};
use tautwire_protocol::QoS;

use crate::bus::{Bus, Subject};
use crate::client::Client;
use crate::node::{Effect, Node, SEED, SHARDS, topic_of};
use crate::store::{Change, Store};
use crate::support::{Choices, Random};

/// The broker's clock at time 0 of the world.
pub(crate) const START_MS: u64 = 1_700_000_000_000;
/// When the outcome of an operation counts as unknown.
const OPERATION_TIMEOUT_MS: u64 = 1000;
/// The kind of a peer message that probes whether another node knows all announced filters.
const PROBE: u8 = 48;
/// Bytes that the network between a client and its node buffers.
const ROOM_BYTES: usize = 1 << 20;

/// Fault rates in percent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Plan {
    pub(crate) lost: usize,
    pub(crate) late: usize,
    pub(crate) doubled: usize,
    pub(crate) busy: usize,
}

enum Event {
    ToStore(Incarnation, OperationId, Operation),
    Answer(Incarnation, OperationId, Answer),
    Peer(Incarnation, Vec<u8>),
    Watch(Incarnation, Incarnation, Revision, Vec<u8>),
    BusMessages(Incarnation, Arc<[u8]>),
    /// A subscription or unsubscription of a node has reached the bus server at its place.
    AddInterest(Incarnation, Subject, bool),
    /// The same has reached the server at another place.
    Known(usize, Incarnation, Subject, bool),
    Confirmed(Incarnation, String),
    Tick(Incarnation),
}

/// A machine that can run a node.
#[derive(Default)]
pub(crate) struct Place {
    pub(crate) node: Option<Node>,
    former: Option<Incarnation>,
    /// It has no network.
    pub(crate) is_cut: bool,
    /// Its processes are paused.
    pub(crate) is_paused: bool,
}

pub(crate) struct World {
    pub(crate) random: Random,
    pub(crate) plan: Plan,
    pub(crate) now_ms: u64,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, Event>,
    last_event: u64,
    pub(crate) store: Store,
    pub(crate) bus: Bus,
    pub(crate) places: Vec<Place>,
    pub(crate) clients: Vec<Client>,
    settings: Settings,
    cluster: ClusterSettings,
    member: MemberSettings,
    last_incarnation: u64,
    /// The maximum size of a session's state in the store.
    state_max_bytes: usize,
    /// The maximum number of groups that one read returns.
    pub(crate) read_groups: usize,
    /// A place that does not receive the log.
    pub(crate) without_log: Option<usize>,
    /// A place whose node has an old version without probes.
    pub(crate) ignores_probes: Option<usize>,
    /// `Follow` operations that wait until a partition grows.
    following: BTreeMap<Partition, Vec<(Incarnation, OperationId, Operation)>>,
}

impl World {
    /// A world with this many serving nodes.
    pub(crate) fn new(nodes: usize) -> World {
        World::with(nodes, 0, Plan::default(), |_| {}, |_| {})
    }

    pub(crate) fn with(
        nodes: usize,
        seed: u64,
        plan: Plan,
        set: impl FnOnce(&mut Settings),
        set_cluster: impl FnOnce(&mut ClusterSettings),
    ) -> World {
        World::with_members(nodes, seed, plan, set, set_cluster, |_| {})
    }

    pub(crate) fn with_members(
        nodes: usize,
        seed: u64,
        plan: Plan,
        set: impl FnOnce(&mut Settings),
        set_cluster: impl FnOnce(&mut ClusterSettings),
        set_member: impl FnOnce(&mut MemberSettings),
    ) -> World {
        let mut settings = Settings { sys_interval_s: 0, ..Settings::default() };
        set(&mut settings);
        let mut cluster = ClusterSettings::default();
        set_cluster(&mut cluster);
        // Waiting messages are not refused: a client sends a refused message again after later ones, and these tests check the order of its
        // messages. Lagging sessions are not served from memory.
        let mut member = MemberSettings {
            publish_timeout_ms: u64::MAX / 2,
            shards: SHARDS,
            cache_max_bytes: 0,
            shares_of: SharesOf(shares_of),
            ..MemberSettings::default()
        };
        set_member(&mut member);
        let mut world = World {
            random: Random::new(seed),
            plan,
            now_ms: 0,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            last_event: 0,
            store: Store::default(),
            bus: Bus::new(),
            places: (0..nodes).map(|_| Place::default()).collect(),
            clients: Vec::new(),
            settings,
            cluster,
            member,
            last_incarnation: 0,
            state_max_bytes: usize::MAX,
            read_groups: 100,
            without_log: None,
            ignores_probes: None,
            following: BTreeMap::new(),
        };
        (0..nodes).for_each(|place| world.start(place));
        world.run(100);
        world
    }

    /// A world with this many nodes, on a store with this maximum size of a session's state.
    pub(crate) fn with_state_limit(nodes: usize, state_max_bytes: usize) -> World {
        let mut world = World::new(0);
        world.state_max_bytes = state_max_bytes;
        world.places = (0..nodes).map(|_| Place::default()).collect();
        (0..nodes).for_each(|place| world.start(place));
        world.run(100);
        world
    }

    fn after(&mut self, delay_ms: u64, event: Event) {
        self.last_event += 1;
        self.queue.push(Reverse((self.now_ms + delay_ms, self.last_event)));
        self.events.insert(self.last_event, event);
    }

    /// Advances the time.
    pub(crate) fn run(&mut self, ms: u64) {
        let until_ms = self.now_ms + ms;
        (0..self.places.len()).for_each(|place| self.settle(place));
        while let Some(Reverse((at_ms, number))) = self.queue.peek().copied().filter(|next| next.0.0 <= until_ms) {
            self.queue.pop();
            self.now_ms = at_ms;
            let event = self.events.remove(&number).expect("an event happened twice");
            self.handle_event(event);
        }
        self.now_ms = until_ms;
    }

    /// Advances the time until a condition is met, for a minute at most.
    pub(crate) fn run_until(&mut self, condition: &str, is_met: impl Fn(&World) -> bool) {
        for _ in 0..6000 {
            if is_met(self) {
                return;
            }
            self.run(10);
        }
        panic!("timed out before {condition:?}");
    }

    // Nodes.

    /// Starts an incarnation of a node.
    pub(crate) fn start(&mut self, place: usize) {
        let me = self.next_incarnation();
        let reference = format!("node-{place}");
        let cluster = ClusterSettings { node_name: reference.clone(), ..self.cluster.clone() };
        let member = MemberSettings { reference, ..self.member.clone() };
        let Place { node, former, .. } = &mut self.places[place];
        *node =
            Some(Node::new(self.now_ms, me, *former, self.settings.clone(), &cluster, member, self.state_max_bytes));
        *former = Some(me);
        self.after(0, Event::Tick(me));
        self.settle(place);
    }

    /// Kills a node.
    pub(crate) fn kill(&mut self, place: usize) {
        self.places[place].node = None;
        for client in &mut self.clients {
            if client.at.is_some_and(|(at, _)| at == place) {
                client.drop_connection();
            }
        }
    }

    fn next_incarnation(&mut self) -> Incarnation {
        self.last_incarnation += 1;
        Incarnation(NonZeroU64::new(self.last_incarnation).expect("not 0"))
    }

    fn place_of(&self, node: Incarnation) -> Option<usize> {
        let runs_node = |place: &Place| place.node.as_ref().is_some_and(|held| held.member.incarnation() == node);
        self.places.iter().position(runs_node)
    }

    fn node(&mut self, node: Incarnation) -> Option<(usize, &mut Node)> {
        let place = self.place_of(node)?;
        Some((place, self.places[place].node.as_mut()?))
    }

    fn latency_ms(&mut self) -> Option<u64> {
        if self.random.chance(self.plan.lost) {
            return None;
        }
        let most_ms = if self.random.chance(self.plan.late) { 3000 } else { 3 };
        Some(1 + self.random.below(most_ms) as u64)
    }

    fn handle_event(&mut self, event: Event) {
        let now_ms = self.now_ms;
        match event {
            Event::ToStore(from, id, operation) => self.reach_store(from, id, operation),
            Event::Answer(node, id, answer) => {
                let answer = self.store.compute_ages(answer);
                let Some((place, held)) = self.node(node) else { return };
                held.answer(now_ms, id, &answer);
                self.settle(place);
            }
            Event::Peer(node, bytes) => {
                if bytes.get(1) == Some(&PROBE) && self.ignores_probes == self.place_of(node) {
                    return;
                }
                let Some((place, held)) = self.node(node) else { return };
                held.member.receive_peer(now_ms, &bytes);
                self.settle(place);
            }
            Event::Watch(watcher, node, revision, value) => {
                let Some((place, held)) = self.node(watcher) else { return };
                held.observe_node(now_ms, node, revision, &value);
                self.settle(place);
            }
            Event::BusMessages(node, message) => {
                let Some((place, held)) = self.node(node) else { return };
                held.receive_peer(&message);
                self.settle(place);
            }
            Event::AddInterest(node, subject, is_subscribed) => {
                let Some(place) = self.place_of(node) else { return };
                for other in (0..self.places.len()).filter(|other| *other != place) {
                    let latency_ms = 1 + self.random.below(self.bus.latency_ms) as u64;
                    let at_ms = self.bus.arrives_ms(other, node, now_ms + latency_ms);
                    self.after(at_ms - now_ms, Event::Known(other, node, subject.clone(), is_subscribed));
                }
                if let Subject::Pattern(pattern) = subject
                    && is_subscribed
                {
                    self.after(1, Event::Confirmed(node, pattern));
                }
            }
            Event::Known(place, node, subject, is_subscribed) => self.bus.update(place, node, subject, is_subscribed),
            Event::Confirmed(node, pattern) => {
                let Some((place, held)) = self.node(node) else { return };
                held.member.listening(now_ms, &pattern);
                self.settle(place);
            }
            Event::Tick(node) => {
                self.after(TICK_MS, Event::Tick(node));
                let Some((place, held)) = self.node(node) else { return };
                held.member.advance(now_ms);
                self.settle(place);
            }
        }
    }

    fn reach_store(&mut self, from: Incarnation, id: OperationId, operation: Operation) {
        if self.store.is_log_closed && matches!(operation, Operation::Append { .. }) {
            return;
        }
        let mut most = self.read_groups;
        // `Follow` is never lost: a node that gets no answer asks again, which these tests are not about.
        let is_followed = matches!(operation, Operation::Follow { .. });
        if let Operation::Follow { partition, from: next, .. } = operation {
            let is_without_log = self.without_log.is_some() && self.without_log == self.place_of(from);
            if self.store.end(partition) <= next || is_without_log {
                let following = self.following.entry(partition).or_default();
                following.retain(|(node, ..)| *node != from);
                return following.push((from, id, operation));
            }
            most = 1 + self.random.below(3);
        }
        let is_busy = self.random.chance(self.plan.busy);
        self.store.pass_time(self.now_ms);
        let (answer, change) = self.store.apply(operation, is_busy, most);
        match change {
            Change::Nothing => {}
            Change::Key(Key::Node(node), revision, value) => {
                for watcher in self.reachable_nodes() {
                    if let Some(latency_ms) = self.latency_ms() {
                        self.after(latency_ms, Event::Watch(watcher, node, revision, value.clone()));
                    }
                }
            }
            Change::Key(..) => {}
            Change::Log(partition) => {
                for (node, id, operation) in self.following.remove(&partition).unwrap_or_default() {
                    self.after(0, Event::ToStore(node, id, operation));
                }
            }
        }
        let is_reachable = self.place_of(from).is_some_and(|place| !self.places[place].is_cut);
        for _ in 0..if self.random.chance(self.plan.doubled) { 2 } else { 1 } {
            let latency_ms = if is_followed { Some(1) } else { self.latency_ms() };
            if let Some(latency_ms) = latency_ms.filter(|_| is_reachable) {
                self.after(latency_ms, Event::Answer(from, id, answer.clone()));
            }
        }
    }

    /// The nodes with a network.
    fn reachable_nodes(&self) -> Vec<Incarnation> {
        let reachable = self.places.iter().filter(|place| !place.is_cut);
        reachable.filter_map(|place| Some(place.node.as_ref()?.member.incarnation())).collect()
    }

    /// Runs a node until it has nothing left to do.
    pub(crate) fn settle(&mut self, place: usize) {
        if self.places[place].is_paused {
            return;
        }
        loop {
            let moved = self.deliver_client_output(place);
            let Some(node) = &mut self.places[place].node else { return };
            let from = node.member.incarnation();
            let effects = node.settle(self.now_ms);
            let is_done = effects.is_empty() && !moved;
            for effect in effects {
                self.apply_effect(place, from, effect);
            }
            let received = self.deliver_node_output(place);
            if is_done && !received {
                return;
            }
        }
    }

    /// Moves the output of clients to their node. Returns whether there was any.
    fn deliver_client_output(&mut self, place: usize) -> bool {
        let mut moved = false;
        let World { places, clients, .. } = self;
        let Some(node) = &mut places[place].node else { return false };
        for client in clients {
            let Some((_, socket)) = client.at.filter(|(at, _)| *at == place) else { continue };
            let bytes = client.take_output();
            if !bytes.is_empty() {
                node.broker.send(socket, &bytes);
                moved = true;
            }
        }
        moved
    }

    /// Moves the output of a node to its clients. Returns whether there was any.
    fn deliver_node_output(&mut self, place: usize) -> bool {
        let mut received = false;
        let World { places, clients, now_ms, .. } = self;
        let Some(node) = &mut places[place].node else { return false };
        for client in clients {
            let Some((_, socket)) = client.at.filter(|(at, _)| *at == place) else { continue };
            let bytes = node.broker.take(socket, usize::MAX);
            received |= !bytes.is_empty();
            let may_serve = node.member.is_serving(*now_ms) || !client.is_connected();
            assert!(may_serve || bytes.is_empty(), "{} is served by a node without a lease", client.name);
            client.receive(&bytes);
            if node.broker.closed_at_ms(socket).is_some() {
                let (connack, disconnected) = (client.connack, client.disconnected);
                client.drop_connection();
                // A refusal stays visible to the test.
                client.connack = connack.filter(|(reason, _)| *reason != tautwire_protocol::ConnectReason::Success);
                client.disconnected = disconnected;
            }
        }
        received
    }

    fn apply_effect(&mut self, place: usize, from: Incarnation, effect: Effect) {
        let is_cut = self.places[place].is_cut;
        match effect {
            Effect::Operation(id, operation) => {
                self.after(OPERATION_TIMEOUT_MS, Event::Answer(from, id, Answer::Unknown));
                for _ in 0..if self.random.chance(self.plan.doubled) { 2 } else { 1 } {
                    if let Some(latency_ms) = self.latency_ms().filter(|_| !is_cut) {
                        self.after(latency_ms, Event::ToStore(from, id, operation.clone()));
                    }
                }
            }
            Effect::Send(to, bytes) => {
                if let Some(latency_ms) = self.latency_ms().filter(|_| !is_cut) {
                    self.after(latency_ms, Event::Peer(to, bytes));
                }
            }
            // A node sends patterns to its server some time later, in order, and probes at once.
            Effect::AddInterest(pattern, is_subscribed) => {
                let at_ms = self.now_ms + 1 + self.random.below(5) as u64;
                let at_ms = self.bus.arrives_ms(place, from, at_ms);
                let event = Event::AddInterest(from, Subject::Pattern(pattern), is_subscribed);
                self.after(at_ms - self.now_ms, event);
            }
            Effect::Probe(number) => self.after(0, Event::AddInterest(from, Subject::Probe(number), true)),
            Effect::Echo(to, number, bytes) => {
                if self.bus.forwards_echo(place, to, number)
                    && let Some(latency_ms) = self.latency_ms().filter(|_| !is_cut)
                {
                    self.after(latency_ms, Event::Peer(to, bytes));
                }
            }
            Effect::Broadcast(message) => {
                let subject = subject_of(topic_of(&message), SEED);
                for node in self.reachable_nodes().into_iter().filter(|node| *node != from && !is_cut) {
                    if !self.bus.forwards(place, node, &subject) {
                        continue;
                    }
                    if let Some(latency_ms) = self.latency_ms() {
                        self.after(latency_ms, Event::BusMessages(node, message.clone()));
                    }
                }
            }
            Effect::Begin => {
                let me = self.next_incarnation();
                if let Some(node) = &mut self.places[place].node {
                    node.restart(self.now_ms, me);
                    self.places[place].former = Some(me);
                    self.after(0, Event::Tick(me));
                }
            }
        }
    }

    // Clients.

    pub(crate) fn client(&mut self, name: &str) -> usize {
        self.clients.push(Client::new(name));
        self.clients.len() - 1
    }

    /// Starts to connect a client.
    pub(crate) fn begin_connecting(&mut self, client: usize, place: usize, is_clean: bool, expiry_s: u32) {
        let Some(node) = &mut self.places[place].node else { return };
        // Shards accept connections in turn.
        let shard = client % SHARDS;
        let socket = node.broker.connect(shard, ROOM_BYTES);
        self.clients[client].connect(is_clean, expiry_s);
        self.clients[client].at = Some((place, socket));
        self.settle(place);
    }

    /// Connects a client; returns whether its session existed.
    pub(crate) fn connect(&mut self, client: usize, place: usize, is_clean: bool, expiry_s: u32) -> bool {
        self.begin_connecting(client, place, is_clean, expiry_s);
        self.run_until("a client is connected", |world| world.clients[client].connack.is_some());
        assert!(self.clients[client].is_connected(), "{:?}", self.clients[client].connack);
        self.clients[client].connack.is_some_and(|(_, is_present)| is_present)
    }

    /// Breaks a client's connection, and the node notices.
    pub(crate) fn cut_off(&mut self, client: usize) {
        if let Some((place, socket)) = self.clients[client].at.take() {
            if let Some(node) = &mut self.places[place].node {
                node.broker.cut(socket);
            }
            self.clients[client].drop_connection();
            self.settle(place);
        }
    }

    pub(crate) fn disconnect(&mut self, client: usize) {
        self.clients[client].send_disconnect();
        if let Some((place, _)) = self.clients[client].at {
            self.settle(place);
        }
        self.run(20);
        self.clients[client].drop_connection();
    }

    pub(crate) fn subscribe(&mut self, client: usize, filter: &str, qos: QoS) -> Vec<u8> {
        self.clients[client].subscribe(filter, qos, false);
        self.run_until("a subscription is acknowledged", |world| !world.clients[client].suback.is_empty());
        self.clients[client].suback.clone()
    }

    pub(crate) fn publish(&mut self, client: usize, topic: &str, payload: &str, qos: QoS) {
        self.clients[client].publish(topic, payload, qos, false);
    }

    /// Publishes a message and waits until it is acknowledged.
    pub(crate) fn publish_and_wait(&mut self, client: usize, topic: &str, payload: &str, qos: QoS) {
        self.publish(client, topic, payload, qos);
        self.run_until("a message is acknowledged", |world| world.clients[client].is_idle());
    }

    /// Limits the size of session states that the store accepts from a node, which does not know the limit.
    pub(crate) fn limit_state_size(&mut self, place: usize, state_max_bytes: usize) {
        if let Some(node) = &mut self.places[place].node {
            node.state_max_bytes = state_max_bytes;
        }
    }

    pub(crate) fn broker_totals(&self, place: usize) -> tautwire_engine::Totals {
        self.places[place].node.as_ref().expect("the node runs").broker.totals()
    }
}
