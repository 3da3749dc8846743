//! Simulates nodes, store, clients and the network between them. Each event concerns one of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::num::NonZeroU64;

use tautwire_cluster::names::{Incarnation, Key, Partition};
use tautwire_cluster::{Answer, Decision, Member, Operation, OperationId, Output, Revision, TICK_MS};

use crate::client::{Client, DisconnectOptions, FromClient, TOPICS, ToClient};
use crate::engine::{ConnectionId, Engine, SEED};
use crate::ledger::Ledger;
use crate::model::settings;
use crate::plan::{self, Plan};
use crate::random::Random;
use crate::store::{Change, Store};
use crate::tally::Tally;

/// The time after which the outcome of an operation is unknown.
const OPERATION_TIMEOUT_MS: u64 = 1000;
/// How long a client waits for an answer before it closes its connection.
const CLIENT_PATIENCE_MS: u64 = 8000;
/// The duration of the faults, and of the quiet time after them.
pub(crate) const TROUBLE_MS: u64 = 60_000;
const PEACE_MS: u64 = 90_000;

/// The subscriptions of each client, as a bit mask of topics.
const TOPICS_OF: [u8; 5] = [0b001, 0b111, 0b110, 0, 0b010];

/// The clients that also have the shared subscription.
const IS_MEMBER: [bool; 5] = [true, false, true, true, false];

pub(crate) enum Event {
    ToStore(Incarnation, OperationId, Operation),
    ToNode(Incarnation, Input),
    /// A paused node resumes.
    Wake(Incarnation),
    /// A node is started, unless it is running.
    Start(usize),
    ToClient(ConnectionId, ToClient),
    Client(usize),
    /// A flapping link is cut this many more times.
    Flap(usize, u64),
    Fault,
    /// An operator does something.
    Operate,
}

pub(crate) enum Input {
    Answer(OperationId, Answer),
    Peer(Vec<u8>),
    Watch(Incarnation, Revision, Vec<u8>),
    Removed(Incarnation),
    Tick,
    Packet(ConnectionId, FromClient),
}

/// A machine on which a node may run.
#[derive(Default)]
pub(crate) struct Place {
    pub(crate) life: Option<Life>,
    former: Option<Incarnation>,
    paused_until_ms: u64,
    /// Inputs that have arrived meanwhile, in order.
    missed: Vec<Input>,
    /// Cut off from the store and from the other nodes.
    cut_until_ms: u64,
    /// Until then, its messages are delivered, but it receives none.
    deaf_until_ms: u64,
    /// Until then, it receives no reports of other nodes' records, although it can read them, like a watch that has died unnoticed.
    blind_until_ms: u64,
}

pub(crate) struct Life {
    pub(crate) member: Member,
    pub(crate) engine: Engine,
    /// The clock of the machine: its offset, and its additional speed in thousandths.
    pub(crate) offset_ms: u64,
    pub(crate) speed: u64,
    /// The arrival time of the last packet on each connection, because packets of a connection stay in order.
    arrivals: BTreeMap<ConnectionId, u64>,
}

pub(crate) struct World {
    pub(crate) random: Random,
    plan: Plan,
    pub(crate) now_ms: u64,
    last_event: u64,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, Event>,
    pub(crate) store: Store,
    /// The operations that wait for the next group of a partition.
    following: BTreeMap<Partition, Vec<(Incarnation, OperationId, Operation)>>,
    /// How far the clock of the store's leader is ahead.
    pub(crate) store_skew_ms: u64,
    /// No operation is executed before this time.
    store_down_until_ms: u64,
    /// No operation on streams is executed before this time.
    log_down_until_ms: u64,
    /// Until then, nodes cannot reach each other, while the store works.
    bus_down_until_ms: u64,
    pub(crate) places: Vec<Place>,
    clients: Vec<Client>,
    /// The client and the node of each connection, and the arrival time of the last packet to the node.
    connections: BTreeMap<ConnectionId, (usize, Incarnation, u64)>,
    last_connection: ConnectionId,
    pub(crate) ledger: Ledger,
}

impl World {
    pub(crate) fn new(seed: u64, plan: Plan) -> World {
        let mut world = World {
            random: Random::new(seed),
            now_ms: 0,
            last_event: 0,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            store: Store::default(),
            following: BTreeMap::new(),
            store_skew_ms: 0,
            store_down_until_ms: 0,
            log_down_until_ms: 0,
            bus_down_until_ms: 0,
            places: (0..plan.nodes).map(|_| Place::default()).collect(),
            clients: (0..plan.clients).map(|client| Client::new(TOPICS_OF[client], IS_MEMBER[client])).collect(),
            connections: BTreeMap::new(),
            last_connection: 0,
            ledger: Ledger::of(&plan),
            plan,
        };
        (0..world.places.len()).for_each(|place| world.after(0, Event::Start(place)));
        (0..world.clients.len()).for_each(|client| world.after(100, Event::Client(client)));
        world.after(2000, Event::Fault);
        world.after(1000, Event::Operate);
        world
    }

    /// Runs through faults and quiet time. In the end, everything that clients wanted is done.
    pub(crate) fn live(mut self) -> Tally {
        while let Some(Reverse((at_ms, number))) = self.queue.pop() {
            if at_ms > TROUBLE_MS + PEACE_MS {
                break;
            }
            self.now_ms = at_ms;
            self.ledger.now_ms = at_ms;
            self.pass_time_of_store();
            let event = self.events.remove(&number).expect("each event arrives once");
            self.happen(event);
        }
        for (client, state) in self.clients.iter().enumerate() {
            assert!(state.is_idle(), "client {client} waits for an answer at the end");
            assert!(state.is_connected, "client {client} is not served at the end");
            assert!(state.is_subscribed, "client {client} has not subscribed at the end");
        }
        (0..self.places.len()).for_each(|place| self.count(place));
        self.ledger.finish();
        self.settle();
        self.ledger.tally()
    }

    pub(crate) fn is_peace(&self) -> bool {
        self.now_ms >= TROUBLE_MS
    }

    pub(crate) fn after(&mut self, delay_ms: u64, event: Event) {
        self.last_event += 1;
        self.events.insert(self.last_event, event);
        self.queue.push(Reverse((self.now_ms + delay_ms, self.last_event)));
    }

    fn chance(&mut self, percent: u64) -> bool {
        let is_peace = self.is_peace();
        self.random.percent(percent) && !is_peace
    }

    /// Returns a random transit time; `None` if the message is lost.
    fn way_ms(&mut self) -> Option<u64> {
        if self.chance(self.plan.lost) {
            return None;
        }
        let is_late = self.chance(self.plan.late);
        Some(if is_late { self.random.between(200, 20_000) } else { self.random.between(1, 12) })
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::ToStore(from, id, operation) => self.reach_store(from, id, operation),
            Event::ToNode(node, input) => self.reach_node(node, input),
            Event::Wake(node) => self.wake(node),
            Event::Start(place) => self.start(place),
            Event::ToClient(connection, packet) => self.reach_client(connection, packet),
            Event::Client(client) => self.client(client),
            Event::Flap(place, times) => self.flap(place, times),
            Event::Fault => self.fault(),
            Event::Operate => self.operate(),
        }
    }

    pub(crate) fn place_of(&self, node: Incarnation) -> Option<usize> {
        let is_there = |place: &Place| place.life.as_ref().is_some_and(|life| life.member.incarnation() == node);
        self.places.iter().position(is_there)
    }

    fn is_cut(&self, place: usize) -> bool {
        self.now_ms < self.places[place].cut_until_ms
    }

    /// Whether a message sent to a place now may arrive.
    fn hears(&self, place: usize) -> bool {
        !self.is_cut(place) && self.places[place].deaf_until_ms <= self.now_ms
    }

    fn start(&mut self, place: usize) {
        if self.places[place].life.is_some() {
            return;
        }
        let me = Incarnation(NonZeroU64::new(self.random.next() | 1).expect("not 0"));
        let knows_former = self.random.percent(50);
        let (offset_ms, speed) = (self.random.below(1_000_000), self.random.between(970, 1031));
        let former = self.places[place].former.filter(|_| knows_former);
        let now_ms = offset_ms + self.now_ms * speed / 1000;
        let member = Member::new(now_ms, me, &format!("node-{place}"), former, SEED, settings(place));
        let mut engine = Engine::new(self.random.next());
        engine.floor = self.ledger.retaining.floor();
        engine.configuration_floor = self.ledger.configurations.number;
        self.places[place].former = Some(me);
        self.places[place].life = Some(Life { member, engine, offset_ms, speed, arrivals: BTreeMap::new() });
        self.carry_out(place);
        self.after(0, Event::ToNode(me, Input::Tick));
        // A watch begins with all existing records.
        let nodes: Vec<_> = self.store.keys().map(|(key, revision, value)| (key, revision, value.to_vec())).collect();
        for (key, revision, value) in nodes {
            if let (Key::Node(node), Some(way_ms)) = (key, self.way_ms()) {
                self.after(way_ms, Event::ToNode(me, Input::Watch(node, revision, value)));
            }
        }
    }

    fn reach_store(&mut self, from: Incarnation, id: OperationId, operation: Operation) {
        let is_of_stream = matches!(
            operation,
            Operation::Append { .. } | Operation::Retain { .. } | Operation::Last(_) | Operation::End(_)
        );
        let log_down_until_ms = if is_of_stream { self.log_down_until_ms } else { 0 };
        let down_until_ms = self.store_down_until_ms.max(log_down_until_ms);
        if self.now_ms < down_until_ms {
            // The client's library retries, or gives up.
            if self.random.percent(50) {
                let delay_ms = down_until_ms - self.now_ms + self.random.below(50);
                self.after(delay_ms, Event::ToStore(from, id, operation));
            }
            return;
        }
        if let Operation::Follow { partition, from: next, .. } = operation
            && self.store.end(partition) <= next
        {
            return self.following.entry(partition).or_default().push((from, id, operation));
        }
        let is_followed = matches!(operation, Operation::Follow { .. });
        let is_busy = self.chance(self.plan.busy);
        let outdated = self.store.outdated(&operation).filter(|_| self.chance(self.plan.outdated));
        let (answer, change) = match outdated {
            Some(answer) => (answer, Change::Nothing),
            None => self.store.apply(operation, is_busy),
        };
        match change {
            Change::Nothing => {}
            Change::Group(partition, sequence, group) => {
                self.ledger.logged(partition, sequence, &group);
                for (node, id, operation) in self.following.remove(&partition).unwrap_or_default() {
                    self.after(0, Event::ToStore(node, id, operation));
                }
            }
            Change::Retained(value) => self.ledger.retaining.kept(&value, self.now_ms),
            Change::Key(Key::Node(node), revision, value) => {
                self.report(node, || Input::Watch(node, revision, value.clone()))
            }
            Change::Key(Key::Session(client), _, value) => {
                if let Some(client) = self.ledger.sessions.written(client, &value, self.now_ms) {
                    self.ledger.session_ended(client);
                }
            }
            Change::Key(Key::Group(_), ..) => {}
            Change::Key(Key::Config, _, value) => self.ledger.configurations.written(&value),
            Change::Removed(Key::Node(node)) => self.report(node, || Input::Removed(node)),
            Change::Removed(Key::Session(client)) => {
                let client = self.ledger.sessions.removed(client, false, self.now_ms);
                self.ledger.session_ended(client);
            }
            Change::Removed(Key::Config | Key::Group(_)) => {}
        }
        let answer = if self.chance(self.plan.gappy) { self.spoil(answer, is_followed) } else { answer };
        let hears = self.place_of(from).is_some_and(|place| self.hears(place));
        for _ in 0..if self.chance(self.plan.doubled) { 2 } else { 1 } {
            if let Some(way_ms) = self.way_ms().filter(|_| hears) {
                self.after(way_ms, Event::ToNode(from, Input::Answer(id, answer.clone())));
            }
        }
    }

    /// Loses groups in transit, or simulates a replica that does not have them yet.
    fn spoil(&mut self, answer: Answer, is_followed: bool) -> Answer {
        let Answer::Groups { first, mut groups } = answer else { return answer };
        let count = self.random.below(groups.len() as u64 + 1) as usize;
        if is_followed {
            groups.drain(..count);
        } else {
            groups.truncate(count);
        }
        let first = groups.first().map_or(first, |(sequence, _)| *sequence);
        Answer::Groups { first, groups }
    }

    /// Reports a change to all nodes that watch the records of nodes.
    fn report(&mut self, _node: Incarnation, input: impl Fn() -> Input) {
        for place in 0..self.places.len() {
            let Some(watcher) = self.places[place].life.as_ref().map(|life| life.member.incarnation()) else {
                continue;
            };
            if self.hears(place)
                && self.places[place].blind_until_ms <= self.now_ms
                && self.bus_down_until_ms <= self.now_ms
                && let Some(way_ms) = self.way_ms()
            {
                self.after(way_ms, Event::ToNode(watcher, input()));
            }
        }
    }

    fn reach_node(&mut self, node: Incarnation, input: Input) {
        let Some(place) = self.place_of(node) else { return };
        let Place { paused_until_ms, missed, .. } = &mut self.places[place];
        if self.now_ms < *paused_until_ms || !missed.is_empty() {
            missed.push(input);
            if missed.len() == 1 {
                let pause_ms = paused_until_ms.saturating_sub(self.now_ms);
                self.after(pause_ms, Event::Wake(node));
            }
            return;
        }
        self.notify(place, node, input);
    }

    fn wake(&mut self, node: Incarnation) {
        let Some(place) = self.place_of(node) else { return };
        if self.now_ms < self.places[place].paused_until_ms {
            let pause_ms = self.places[place].paused_until_ms - self.now_ms;
            return self.after(pause_ms, Event::Wake(node));
        }
        for input in std::mem::take(&mut self.places[place].missed) {
            self.notify(place, node, input);
        }
    }

    fn notify(&mut self, place: usize, node: Incarnation, input: Input) {
        if let Input::Packet(connection, FromClient::Connect { client, .. }) = input
            && self.clients[client].connection != Some(connection)
        {
            // The connection is closed before it is read.
            return;
        }
        let is_tick = matches!(input, Input::Tick);
        let World { places, ledger, now_ms, store, .. } = self;
        let Some(life) = &mut places[place].life else { return };
        let now_ms = life.offset_ms + *now_ms * life.speed / 1000;
        match input {
            Input::Answer(id, answer) => life.member.answer(now_ms, id, &store.hand_over(answer)),
            Input::Peer(bytes) => life.member.receive_peer(now_ms, &bytes),
            Input::Watch(node, revision, value) => life.member.observe_node(now_ms, node, revision, &value),
            Input::Removed(node) => life.member.observe_node_removed(node),
            Input::Tick => {
                life.member.advance(now_ms);
                life.engine.deliver(now_ms, &mut life.member, ledger);
            }
            Input::Packet(connection, packet) => life.engine.receive(connection, packet),
        }
        self.carry_out(place);
        if is_tick {
            self.after(TICK_MS, Event::ToNode(node, Input::Tick));
        }
    }

    /// Executes the outputs of a node, and makes it read what clients have sent.
    pub(crate) fn carry_out(&mut self, place: usize) {
        let mut has_worked = false;
        loop {
            let World { places, ledger, now_ms, .. } = self;
            let Some(life) = &mut places[place].life else { return };
            let local_ms = life.offset_ms + *now_ms * life.speed / 1000;
            let me = life.member.incarnation();
            // All decisions are executed before anything else is read.
            let Some(output) = life.member.next_output() else {
                if life.engine.read_next(local_ms, &mut life.member, ledger) {
                    continue;
                }
                if !std::mem::replace(&mut has_worked, true) {
                    life.engine.work(local_ms, &mut life.member, ledger);
                    continue;
                }
                break;
            };
            match output {
                Output::Operation(id, operation) => self.ask_store(place, me, id, operation),
                Output::Send(to, bytes) => self.send(place, to, &bytes),
                Output::AddInterest(_) | Output::RemoveInterest(_) | Output::Probe(_) | Output::Echo { .. } => {
                    unreachable!("no client subscribes at QoS 0 here")
                }
                Output::Decision(decision) => {
                    let is_fenced = matches!(decision, Decision::Fenced | Decision::Drained);
                    life.engine.decide(local_ms, decision, &mut life.member, ledger);
                    if is_fenced {
                        self.flush(place);
                        self.end(place);
                        return;
                    }
                }
            }
        }
        self.flush(place);
    }

    fn ask_store(&mut self, place: usize, from: Incarnation, id: OperationId, operation: Operation) {
        self.after(OPERATION_TIMEOUT_MS, Event::ToNode(from, Input::Answer(id, Answer::Unknown)));
        for _ in 0..if self.chance(self.plan.doubled) { 2 } else { 1 } {
            // Messages sent while the node is cut off may still leave its buffers later.
            let (is_cut, leaves_later) = (self.is_cut(place), self.random.percent(30));
            if let Some(way_ms) = self.way_ms().filter(|_| !is_cut || leaves_later) {
                let held_ms = if is_cut { self.places[place].cut_until_ms - self.now_ms } else { 0 };
                self.after(way_ms + held_ms, Event::ToStore(from, id, operation.clone()));
            }
        }
    }

    fn send(&mut self, place: usize, to: Incarnation, bytes: &[u8]) {
        let hears = self.place_of(to).is_some_and(|other| self.hears(other));
        let arrives = hears && !self.is_cut(place) && self.bus_down_until_ms <= self.now_ms;
        for _ in 0..if self.chance(self.plan.doubled) { 2 } else { 1 } {
            if let Some(way_ms) = self.way_ms().filter(|_| arrives) {
                self.after(way_ms, Event::ToNode(to, Input::Peer(bytes.to_vec())));
            }
        }
    }

    /// Sends packets to clients.
    fn flush(&mut self, place: usize) {
        let Some(life) = &mut self.places[place].life else { return };
        for (connection, packet) in std::mem::take(&mut life.engine.to_clients) {
            let delay_ms = self.random.between(1, 10);
            let Some(life) = &mut self.places[place].life else { return };
            let arrival = life.arrivals.entry(connection).or_default();
            *arrival = (*arrival).max(self.now_ms + delay_ms);
            let delay_ms = *arrival - self.now_ms;
            self.after(delay_ms, Event::ToClient(connection, packet));
        }
    }

    /// Counts what a node has read. Groups never expire here, so none may count as lost.
    fn count(&mut self, place: usize) {
        let Some(life) = &self.places[place].life else { return };
        let counters = life.member.delivery_counters();
        assert_eq!((counters.lost_groups, counters.lost_groups_behind), (0, 0));
        let tally = &mut self.ledger.tally;
        tally.reads_stored += counters.reads_stored;
        tally.reads_cached += counters.reads_cached;
        tally.gaps += counters.gaps;
        tally.stalls += counters.stalls;
        let local_ms = life.offset_ms + self.now_ms * life.speed / 1000;
        let health_check = life.member.status(local_ms).health_check;
        tally.keeping.members_removed += health_check.members_removed;
        tally.keeping.groups_removed += health_check.groups_removed;
    }

    /// Ends the run of a node; another one follows.
    fn end(&mut self, place: usize) {
        self.count(place);
        self.places[place].life = None;
        self.places[place].paused_until_ms = 0;
        self.places[place].missed.clear();
        let pause_ms = self.random.between(100, 15_000);
        self.after(pause_ms, Event::Start(place));
    }

    fn reach_client(&mut self, connection: ConnectionId, packet: ToClient) {
        let Some((client, ..)) = self.connections.get(&connection).copied() else { return };
        if self.clients[client].connection != Some(connection) {
            return;
        }
        if matches!(packet, ToClient::Connected { .. }) {
            self.ledger.connected(client);
        }
        for packet in self.clients[client].receive(client, packet, self.now_ms, &mut self.ledger) {
            self.send_packet(connection, packet);
        }
    }

    /// A client sends a packet to its node.
    fn send_packet(&mut self, connection: ConnectionId, packet: FromClient) {
        let delay_ms = self.random.between(1, 10);
        let Some((_, node, arrival)) = self.connections.get_mut(&connection) else { return };
        *arrival = (*arrival).max(self.now_ms + delay_ms);
        let (node, delay_ms) = (*node, *arrival - self.now_ms);
        self.after(delay_ms, Event::ToNode(node, Input::Packet(connection, packet)));
    }

    fn client(&mut self, client: usize) {
        let pause_ms = self.random.between(20, 200);
        self.after(pause_ms, Event::Client(client));
        if let Some(connection) = self.clients[client].connection {
            for packet in self.clients[client].late_answers() {
                self.send_packet(connection, packet);
            }
            let is_patient = self.now_ms < self.clients[client].heard_at_ms + CLIENT_PATIENCE_MS;
            let is_waiting = !self.clients[client].is_idle() || !self.clients[client].is_connected;
            // The client may vanish, and the node may notice late or never; or it may connect to another node at once. It does not leave
            // before its clean start was answered, as long as its node is alive: the clean start could take effect after the next one.
            let node_lives = self.place_of(self.connections[&connection].1).is_some();
            let may_vanish = self.clients[client].is_connected || !self.clients[client].is_clean || !node_lives;
            if may_vanish && (self.chance(2) || is_waiting && !is_patient) {
                self.clients[client].disconnect();
                if !self.random.percent(self.plan.vanish) {
                    if self.random.percent(30) {
                        self.send_packet(connection, FromClient::Disconnect);
                    }
                    self.send_packet(connection, FromClient::Closed);
                }
                if self.chance(40) {
                    let away_ms = self.random.between(100, 14_000);
                    self.clients[client].offline_until_ms = self.now_ms + away_ms;
                }
            } else if self.clients[client].is_connected && !self.is_peace() {
                let (topic, is_once) = (self.random.below(TOPICS) as u8, self.random.percent(50));
                let retain = if self.random.percent(40) { self.random.between(1, 4) as u8 } else { 0 };
                if let Some(packet) = self.clients[client].publish(topic, is_once, retain) {
                    self.send_packet(connection, packet);
                }
                return;
            }
        }
        let is_away = self.now_ms < self.clients[client].offline_until_ms;
        if self.clients[client].connection.is_none() && self.random.percent(60) && !is_away {
            self.connect(client);
        }
    }

    fn connect(&mut self, client: usize) {
        let place = self.random.below(self.places.len() as u64) as usize;
        let Some(life) = &self.places[place].life else { return };
        let node = life.member.incarnation();
        self.last_connection += 1;
        let is_clean = self.chance(5);
        self.connections.insert(self.last_connection, (client, node, 0));
        if self.ledger.sessions.ended.remove(&client) {
            self.clients[client].forget();
            self.ledger.session_is_new(client);
        }
        self.clients[client].last_will += 1;
        let number = self.clients[client].last_will;
        let will = self.random.percent(70).then(|| {
            let delay_s = [0, 0, 2, 6][self.random.below(4) as usize];
            (number, delay_s, self.random.below(TOPICS) as u8, self.random.below(4) as u8)
        });
        let expiry_s = [None, None, Some(0), Some(4), Some(8)][self.random.below(5) as usize];
        let terms = DisconnectOptions { expiry_s, will };
        let packet = self.clients[client].connect(client, self.last_connection, is_clean, terms, self.now_ms);
        if matches!(packet, FromClient::Connect { is_clean: true, .. }) {
            self.ledger.cleans(client);
        }
        self.send_packet(self.last_connection, packet);
    }

    fn fault(&mut self) {
        if self.is_peace() {
            return;
        }
        let next_ms = self.random.between(1, 2 * self.plan.fault_every_ms);
        self.after(next_ms, Event::Fault);
        let place = self.random.below(self.places.len() as u64) as usize;
        // Long enough for a lease to expire, or not.
        let for_ms =
            if self.random.percent(50) { self.random.between(10, 3000) } else { self.random.between(3000, 20_000) };
        let until_ms = (self.now_ms + for_ms).min(TROUBLE_MS);
        let any = self.random.below(plan::FAULTS);
        match self.plan.only.unwrap_or(any) {
            plan::KILL if self.places[place].life.is_some() => {
                if let Some(life) = &mut self.places[place].life {
                    // The system closes the sockets of a killed process. A machine that dies closes nothing.
                    if for_ms % 2 == 0 {
                        life.engine.close_all();
                    }
                }
                self.flush(place);
                self.end(place);
            }
            plan::PAUSE => self.places[place].paused_until_ms = until_ms,
            plan::CUT => self.places[place].cut_until_ms = until_ms,
            plan::DEAFEN => self.places[place].deaf_until_ms = until_ms,
            plan::FLAP => {
                let times = self.random.between(2, 6);
                self.flap(place, times);
            }
            plan::BLIND => self.places[place].blind_until_ms = until_ms,
            plan::BUS_DOWN => self.bus_down_until_ms = until_ms,
            // The store elects a leader.
            // The log streams have no leader, but the buckets have one.
            plan::LOG_DOWN => self.log_down_until_ms = (self.now_ms + for_ms.min(9000)).min(TROUBLE_MS),
            plan::STORE_DOWN => {
                self.store_down_until_ms = (self.now_ms + for_ms.min(9000)).min(TROUBLE_MS);
                self.store_skew_ms = self.random.below(1500);
            }
            _ => {}
        }
    }

    /// Cuts a node off, with short interruptions of the cut.
    fn flap(&mut self, place: usize, times: u64) {
        let for_ms = self.random.between(2000, 7000);
        let until_ms = (self.now_ms + for_ms).min(TROUBLE_MS);
        if self.random.percent(50) {
            self.places[place].cut_until_ms = until_ms;
        } else {
            self.places[place].deaf_until_ms = until_ms;
        }
        if times > 0 && !self.is_peace() {
            let open_ms = self.random.between(10, 200);
            self.after(for_ms + open_ms, Event::Flap(place, times - 1));
        }
    }
}
