//! Random runs with retained messages and wills: readers never find a retained message older than an acknowledged one, nor go back, and
//! each due will is published once.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tautwire_engine::mutant::{Mutant, mutate};
use tautwire_protocol::QoS;

use crate::client::WillMessage;
use crate::support::Choices;
use crate::world::{Plan, World};

const SEEDS: u64 = 40;
const MUTANT_SEEDS_MAX: u64 = 200;

const NODES: usize = 3;
/// Each writer has one topic, and one pending message.
const WRITERS: usize = 3;
const READERS: usize = 4;
/// Clients with wills.
const WILL_CLIENTS: usize = 3;
const WATCHER: usize = WRITERS + READERS + WILL_CLIENTS;
/// Every nth message clears its topic.
const CLEAR_EVERY: usize = 4;
const FAULTS_MS: u64 = 40_000;
const STEP_MS: u64 = 50;
const CLIENT_TIMEOUT_MS: u64 = 7_000;
/// A disconnect counts if its node has no faults for this long.
const FAULT_FREE_MS: u64 = 10_000;

#[derive(Debug, Default, Clone, Copy)]
struct RunCounts {
    written: usize,
    searches: usize,
    found: usize,
    wills_due: usize,
    disconnects: usize,
    faults: usize,
}

/// What a reader has received on its connection.
#[derive(Debug, Clone, Default)]
struct ReaderState {
    is_subscribed: bool,
    /// The last message of each topic that was acknowledged, or shown by any search, when SUBSCRIBE was sent.
    floor: [usize; WRITERS],
    seen: [Option<usize>; WRITERS],
    checked: usize,
}

/// A connection of a client with a will.
#[derive(Debug, Clone)]
struct WillConnection {
    delay_s: u32,
    was_accepted: bool,
    disconnect: Option<(usize, u64)>,
}

struct Run {
    world: World,
    sent: [usize; WRITERS],
    acknowledged: [usize; WRITERS],
    /// The latest message of each topic that a search has returned.
    shown: [usize; WRITERS],
    readings: Vec<ReaderState>,
    will_connections: Vec<Vec<WillConnection>>,
    last_idle_ms: Vec<u64>,
    faulty_until_ms: [u64; NODES],
    /// Each fault: the index of its node, and its start and end in milliseconds.
    faults: Vec<(usize, u64, u64)>,
    counts: RunCounts,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut world = World::with(NODES, seed, Plan::default(), |_| {}, |_| {});
        for writer in 0..WRITERS {
            let client = world.client(&format!("writer-{writer}"));
            world.connect(client, client % NODES, false, u32::MAX);
        }
        (0..READERS).for_each(|reader| _ = world.client(&format!("reader-{reader}")));
        (0..WILL_CLIENTS).for_each(|will_client| _ = world.client(&format!("mortal-{will_client}")));
        let watcher = world.client("watcher");
        world.connect(watcher, 0, false, u32::MAX);
        world.subscribe(watcher, "w/#", QoS::ExactlyOnce);
        world.plan = Plan { lost: 2, late: 2, doubled: 3, busy: 2 };
        let last_idle_ms = vec![world.now_ms; WATCHER + 1];
        Run {
            world,
            sent: [0; WRITERS],
            acknowledged: [0; WRITERS],
            shown: [0; WRITERS],
            readings: vec![ReaderState::default(); READERS],
            will_connections: vec![Vec::new(); WILL_CLIENTS],
            last_idle_ms,
            faulty_until_ms: [0; NODES],
            faults: Vec::new(),
            counts: RunCounts::default(),
        }
    }

    fn execute(mut self) -> RunCounts {
        while self.world.now_ms < FAULTS_MS {
            self.fault();
            self.step(true);
        }
        self.world.plan = Plan::default();
        self.faulty_until_ms = [0; NODES];
        self.recover();
        for will_client in 0..WILL_CLIENTS {
            self.world.cut_off(WRITERS + READERS + will_client);
        }
        for _ in 0..(60_000 / STEP_MS) {
            self.step(false);
        }
        self.check_topics();
        self.check_wills();
        self.counts
    }

    fn step(&mut self, has_faults: bool) {
        for client in (0..WRITERS).chain([WATCHER]) {
            self.stay_connected(client, has_faults);
        }
        (0..WRITERS).for_each(|writer| self.write(writer, has_faults));
        (0..READERS).for_each(|reader| self.read(reader, has_faults));
        if has_faults {
            (0..WILL_CLIENTS).for_each(|will_client| self.step_will_client(will_client));
        }
        self.world.run(STEP_MS);
        (0..READERS).for_each(|reader| self.check_reader(reader));
        for will_client in 0..WILL_CLIENTS {
            if self.world.clients[WRITERS + READERS + will_client].is_connected()
                && let Some(connection) = self.will_connections[will_client].last_mut()
            {
                connection.was_accepted = true;
            }
        }
    }

    fn stay_connected(&mut self, client: usize, has_faults: bool) {
        let now_ms = self.world.now_ms;
        let client_state = &self.world.clients[client];
        if client_state.is_connected() && client_state.is_idle() {
            self.last_idle_ms[client] = now_ms;
        }
        let breaks_connection = has_faults && client_state.is_connected() && self.world.random.chance(1);
        let has_timed_out = self.last_idle_ms[client] + CLIENT_TIMEOUT_MS < now_ms;
        if self.world.clients[client].at.is_some() && (breaks_connection || has_timed_out) {
            self.world.cut_off(client);
            self.last_idle_ms[client] = now_ms;
        }
        if self.world.clients[client].at.is_none() {
            let place = self.world.random.below(NODES);
            self.world.begin_connecting(client, place, false, u32::MAX);
        }
    }

    fn write(&mut self, writer: usize, has_faults: bool) {
        let client_state = &self.world.clients[writer];
        if client_state.is_idle() {
            self.acknowledged[writer] = self.sent[writer];
            if has_faults && client_state.is_connected() && self.world.random.chance(15) {
                self.sent[writer] += 1;
                let number = self.sent[writer];
                let payload = if number.is_multiple_of(CLEAR_EVERY) { String::new() } else { number.to_string() };
                let qos = if writer == 0 { QoS::AtLeastOnce } else { QoS::ExactlyOnce };
                self.world.clients[writer].publish(&format!("r/{writer}"), &payload, qos, true);
                self.counts.written += 1;
            }
        }
    }

    /// Readers connect again from time to time, and stay connected in the end.
    fn read(&mut self, reader: usize, has_faults: bool) {
        let client = WRITERS + reader;
        let client_state = &self.world.clients[client];
        if client_state.at.is_some() && has_faults && self.world.random.chance(5) {
            self.world.cut_off(client);
        }
        if self.world.clients[client].at.is_none() {
            self.readings[reader] = ReaderState::default();
            self.world.clients[client].received.clear();
            let place = self.world.random.below(NODES);
            self.world.begin_connecting(client, place, true, 0);
        } else if self.world.clients[client].is_connected() && !self.readings[reader].is_subscribed {
            let floor = std::array::from_fn(|topic| self.acknowledged[topic].max(self.shown[topic]));
            self.readings[reader] = ReaderState { is_subscribed: true, floor, ..ReaderState::default() };
            self.world.clients[client].subscribe("r/#", QoS::ExactlyOnce, false);
            self.counts.searches += 1;
        }
    }

    /// Checks the messages that a reader has received since the last check.
    fn check_reader(&mut self, reader: usize) {
        let received = self.world.clients[WRITERS + reader].received.clone();
        let reading = &mut self.readings[reader];
        for message in &received[reading.checked..] {
            let topic: usize = message.topic[2..].parse().expect("a topic of this test");
            let seen = reading.seen[topic];
            let description = format!("reader {reader} got {message:?} behind {seen:?}");
            let number = match message.payload.parse::<usize>() {
                Ok(number) => number,
                // The first message that it can be. One of QoS 1 may come twice.
                Err(_) if topic == 0 => seen.unwrap_or(1).next_multiple_of(CLEAR_EVERY).max(CLEAR_EVERY),
                Err(_) => (seen.unwrap_or(0) / CLEAR_EVERY + 1) * CLEAR_EVERY,
            };
            if message.is_retained {
                assert!(seen.is_none(), "{description}");
                assert!(number >= reading.floor[topic], "{description}, {} was known", reading.floor[topic]);
                assert!(!message.payload.is_empty(), "{description}");
                self.shown[topic] = self.shown[topic].max(number);
                self.counts.found += 1;
            }
            let least = seen.map_or(0, |seen| if topic == 0 { seen } else { seen + 1 });
            assert!(number >= least && number <= self.sent[topic], "{description}");
            reading.seen[topic] = Some(number);
        }
        reading.checked = received.len();
    }

    fn step_will_client(&mut self, will_client: usize) {
        let client = WRITERS + READERS + will_client;
        let now_ms = self.world.now_ms;
        match self.world.clients[client].at {
            None if self.world.random.chance(10) => {
                let delay_s = [0, 0, 3][self.world.random.below(3)];
                let expiry_s = [0, u32::MAX][self.world.random.below(2)];
                let payload = format!("{will_client} {}", self.will_connections[will_client].len());
                let will = WillMessage { delay_s, qos: QoS::ExactlyOnce, ..WillMessage::new("w/x", &payload) };
                self.will_connections[will_client].push(WillConnection {
                    delay_s: delay_s.min(expiry_s),
                    was_accepted: false,
                    disconnect: None,
                });
                self.world.clients[client].will = Some(will);
                let place = self.world.random.below(NODES);
                self.world.begin_connecting(client, place, expiry_s == 0, expiry_s);
            }
            Some((place, _)) if self.world.random.chance(4) => {
                if self.world.clients[client].is_connected() && self.world.random.chance(40) {
                    self.world.clients[client].send_disconnect();
                    self.world.settle(place);
                    if let Some(connection) = self.will_connections[will_client].last_mut() {
                        (connection.disconnect, connection.was_accepted) = (Some((place, now_ms)), true);
                    }
                }
                self.world.cut_off(client);
            }
            _ => {}
        }
    }

    fn check_topics(&mut self) {
        for writer in 0..WRITERS {
            assert!(self.world.clients[writer].is_idle(), "writer {writer} has an incomplete message");
        }
        for reader in 0..READERS {
            let reading = &self.readings[reader];
            assert!(reading.is_subscribed && self.world.clients[WRITERS + reader].is_connected());
            for topic in 0..WRITERS {
                let (last, seen) = (self.sent[topic], reading.seen[topic]);
                let is_clear = last.is_multiple_of(CLEAR_EVERY);
                // Messages that clear a topic cannot be description apart.
                let has_cleared = is_clear && seen.is_none_or(|seen| seen.is_multiple_of(CLEAR_EVERY));
                assert!(seen == Some(last) || has_cleared, "reader {reader}: {seen:?} and not {last}");
            }
        }
        for place in 0..NODES {
            let client = self.world.client(&format!("last-{place}"));
            self.world.connect(client, place, true, 0);
            self.world.subscribe(client, "r/#", QoS::ExactlyOnce);
            self.world.run(500);
            let mut found: Vec<_> = self.world.clients[client].payloads();
            found.sort_unstable();
            let mut expected: Vec<_> =
                self.sent.iter().filter(|last| !last.is_multiple_of(CLEAR_EVERY)).map(usize::to_string).collect();
            expected.sort_unstable();
            assert_eq!(found, expected, "node {place}");
        }
    }

    fn check_wills(&mut self) {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for payload in self.world.clients[WATCHER].payloads() {
            *counts.entry(payload).or_default() += 1;
        }
        for (will_client, connections) in self.will_connections.iter().enumerate() {
            for (number, connection) in connections.iter().enumerate() {
                let count = counts.get(&*format!("{will_client} {number}")).copied().unwrap_or(0);
                let description =
                    format!("the will {number} of will_client {will_client}, {connection:?}, came {count} times");
                assert!(count <= 1, "{description}");
                match connection.disconnect {
                    Some((place, at_ms)) => {
                        let disturbs = |(at, from_ms, until_ms): &(usize, u64, u64)| {
                            *at == place && *from_ms <= at_ms + FAULT_FREE_MS && at_ms <= *until_ms
                        };
                        if !self.faults.iter().any(disturbs) {
                            assert_eq!(count, 0, "{description}");
                            self.counts.disconnects += 1;
                        }
                    }
                    None if connection.was_accepted && (connection.delay_s == 0 || is_last(connections, number)) => {
                        assert_eq!(count, 1, "{description}");
                        self.counts.wills_due += 1;
                    }
                    None => {}
                }
            }
        }
    }

    fn fault(&mut self) {
        self.recover();
        if !self.world.random.chance(3) {
            return;
        }
        let (place, now_ms) = (self.world.random.below(NODES), self.world.now_ms);
        if now_ms < self.faulty_until_ms[place] {
            return;
        }
        self.counts.faults += 1;
        let for_ms = [500, 3_000, 12_000][self.world.random.below(3)];
        self.faulty_until_ms[place] = now_ms + for_ms;
        // A node that was cut off or paused may be declared dead a while later.
        self.faults.push((place, now_ms, now_ms + for_ms + FAULT_FREE_MS));
        match self.world.random.below(3) {
            0 => self.world.kill(place),
            1 => self.world.places[place].is_paused = true,
            _ => self.world.places[place].is_cut = true,
        }
    }

    fn recover(&mut self) {
        for place in 0..NODES {
            if self.faulty_until_ms[place] <= self.world.now_ms {
                (self.world.places[place].is_paused, self.world.places[place].is_cut) = (false, false);
                if self.world.places[place].node.is_none() {
                    self.world.start(place);
                }
            }
        }
    }
}

/// Whether this was a client's last connection. An earlier abandoned CONNECT may still be waiting, and then counts as a later one.
fn is_last(connections: &[WillConnection], number: usize) -> bool {
    number + 1 == connections.len()
        && connections[..number].iter().rev().take(4).all(|connection| connection.was_accepted)
}

#[test]
fn retained_messages_never_go_back_and_wills_are_published_once() {
    let one = std::env::var("TAUTWIRE_CLUSTER_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = std::env::var("TAUTWIRE_CLUSTER_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS);
    let mut all = RunCounts::default();
    for seed in one.map_or(0..seeds, |seed: u64| seed..seed + 1) {
        println!("seed {seed}");
        let counts = Run::new(seed).execute();
        all.written += counts.written;
        all.searches += counts.searches;
        all.found += counts.found;
        all.wills_due += counts.wills_due;
        all.disconnects += counts.disconnects;
        all.faults += counts.faults;
    }
    println!("{all:?}");
    // A world in which nothing happens proves nothing.
    let is_meaningful = all.written > 1_000 && all.found > 1_000 && all.wills_due > 200 && all.disconnects > 10;
    assert!(one.is_some() || is_meaningful, "{all:?}");
}

const MUTANTS: [Mutant; 7] = [
    Mutant::ScansBeforeRetainedSync,
    Mutant::ScansUnconfirmedRetained,
    Mutant::IgnoresRetainFromLog,
    Mutant::RetainsOutOfOrder,
    Mutant::SkipsLateRetained,
    Mutant::OmitsDisconnectSettings,
    Mutant::OmitsWillRemoval,
];

#[test]
fn deliberate_faults_of_retained_messages_and_wills_are_found() {
    let found_at = |mutant| {
        let is_found = |seed: &u64| {
            mutate(Some(mutant));
            let is_found = catch_unwind(AssertUnwindSafe(|| Run::new(*seed).execute())).is_err();
            mutate(None);
            is_found
        };
        let found_at = (0..MUTANT_SEEDS_MAX).find(is_found);
        println!("{mutant:?}: {found_at:?}");
        found_at
    };
    let missed: Vec<_> = MUTANTS.into_iter().filter(|mutant| found_at(*mutant).is_none()).collect();
    assert!(missed.is_empty(), "not found: {missed:?}");
}
