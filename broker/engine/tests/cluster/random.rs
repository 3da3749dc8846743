//! Random runs from a seed: nodes die, pause and are cut off, and clients move between them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tautwire_engine::mutant::{Mutant, mutate};
use tautwire_protocol::QoS;
use tautwire_session::AckLevel;

use crate::ledger::{MessageName, check, check_group};
use crate::support::Choices;
use crate::world::{Plan, World};

const SEEDS: u64 = 60;
/// The maximum number of seeds to detect a mutant.
const MUTANT_SEEDS_MAX: u64 = 200;

const NODES: usize = 3;
const SUBSCRIBERS: usize = 3;
/// Clients with a shared subscription.
const MEMBERS: usize = 3;
const PUBLISHERS: usize = 3;
const CLIENTS: usize = SUBSCRIBERS + MEMBERS + PUBLISHERS;
const FIRST_PUBLISHER: usize = SUBSCRIBERS + MEMBERS;
const TOPICS: usize = 5;
/// Messages to this topic are acknowledged before the log has stored them.
const AT_MEMORY: usize = 4;
/// The maximum number of incomplete messages of one publisher.
const WINDOW: usize = 4;
const EXPIRY_S: u32 = u32::MAX;
/// How long faults are injected.
const FAULTS_MS: u64 = 40_000;
const STEP_MS: u64 = 50;
/// How long a client waits before it tries another node.
const CLIENT_TIMEOUT_MS: u64 = 7_000;

#[derive(Debug, Default, Clone, Copy)]
struct RunCounts {
    published: usize,
    done: usize,
    moves: usize,
    faults: usize,
    cluster_lease_expirations: u64,
    left_in_log: u64,
    /// Messages that were acknowledged at `memory` and did not reach a subscriber.
    lost_at_memory: usize,
}

struct Run {
    world: World,
    /// When a client was last connected and idle, or started to wait.
    last_idle_ms: Vec<u64>,
    numbers: Vec<usize>,
    /// By node, until when it has a fault.
    faulty_until_ms: Vec<u64>,
    counts: RunCounts,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut world = World::with(
            NODES,
            seed,
            Plan::default(),
            |settings| {
                settings.session_queue_messages = [3, 10_000][seed as usize % 2];
                settings.acks.topics = vec![(format!("t/{AT_MEMORY}").into(), AckLevel::Memory)];
            },
            |cluster| cluster.idle_save_ms = 5_000,
        );
        world.read_groups = 1 + world.random.below(6);
        for number in 0..CLIENTS {
            let client = world.client(&format!("client-{number}"));
            world.clients[client].receive_maximum = [None, Some(3)][world.random.below(2)];
            world.connect(client, number % NODES, false, EXPIRY_S);
            if client < SUBSCRIBERS {
                world.subscribe(client, "t/#", granted(client));
            } else if client < FIRST_PUBLISHER {
                world.subscribe(client, "$share/g/t/#", QoS::ExactlyOnce);
            }
        }
        let (lost, late, doubled, busy) = (2, 2, 3, 2);
        world.plan = Plan { lost, late, doubled, busy };
        let last_idle_ms = vec![world.now_ms; CLIENTS];
        Run {
            world,
            last_idle_ms,
            numbers: vec![0; CLIENTS],
            faulty_until_ms: vec![0; NODES],
            counts: RunCounts::default(),
        }
    }

    fn execute(mut self) -> RunCounts {
        while self.world.now_ms < FAULTS_MS {
            self.fault();
            (0..CLIENTS).for_each(|client| self.step_client(client, true));
            self.world.run(STEP_MS);
        }
        self.world.plan = Plan::default();
        self.faulty_until_ms = vec![0; NODES];
        for _ in 0..(60_000 / STEP_MS) {
            self.recover();
            (0..CLIENTS).for_each(|client| self.step_client(client, false));
            self.world.run(STEP_MS);
        }
        self.check();
        self.counts
    }

    fn check(&mut self) {
        let clients = &self.world.clients;
        let publishers: Vec<_> = clients[FIRST_PUBLISHER..].iter().collect();
        for publisher in &publishers {
            assert!(publisher.is_idle(), "{} has incomplete messages", publisher.name);
            self.counts.done += publisher.done.len();
        }
        for (number, subscriber) in clients[..SUBSCRIBERS].iter().enumerate() {
            assert!(subscriber.is_connected(), "{} cannot connect", subscriber.name);
            self.counts.lost_at_memory += check(subscriber, granted(number), AT_MEMORY, &publishers);
        }
        check_group(&clients[SUBSCRIBERS..FIRST_PUBLISHER], AT_MEMORY, &publishers);
        for place in 0..NODES {
            let totals = self.world.broker_totals(place);
            self.counts.cluster_lease_expirations += totals.cluster_lease_expirations;
            self.counts.left_in_log += totals.messages_deferred_to_log;
            let here = self.world.clients.iter().filter(|client| client.at.is_some_and(|(at, _)| at == place)).count();
            assert_eq!(totals.sessions, here as u64, "a node has the sessions of its clients only");
            assert_eq!(totals.stored_messages, 0, "all delivered messages are acknowledged");
        }
    }

    /// Injects a fault into a node, or ends one.
    fn fault(&mut self) {
        self.recover();
        if !self.world.random.chance(3) {
            return;
        }
        let place = self.world.random.below(NODES);
        if self.world.now_ms < self.faulty_until_ms[place] {
            return;
        }
        self.counts.faults += 1;
        let for_ms = [500, 3_000, 12_000][self.world.random.below(3)];
        self.faulty_until_ms[place] = self.world.now_ms + for_ms;
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

    fn step_client(&mut self, client: usize, has_faults: bool) {
        let now_ms = self.world.now_ms;
        let client_state = &self.world.clients[client];
        if client_state.is_connected() && client_state.is_idle() {
            self.last_idle_ms[client] = now_ms;
        }
        let has_timed_out = self.last_idle_ms[client] + CLIENT_TIMEOUT_MS < now_ms;
        let breaks_connection = has_faults && client_state.is_connected() && self.world.random.chance(2);
        if self.world.clients[client].at.is_some() && (has_timed_out || breaks_connection) {
            self.world.cut_off(client);
            self.last_idle_ms[client] = now_ms;
        }
        if (SUBSCRIBERS..FIRST_PUBLISHER).contains(&client) {
            self.toggle_acks(client, has_faults);
        }
        if self.world.clients[client].at.is_none() {
            let place = self.world.random.below(NODES);
            self.world.begin_connecting(client, place, false, EXPIRY_S);
            self.counts.moves += 1;
            return;
        }
        let may_publish = has_faults && client >= FIRST_PUBLISHER && self.world.clients[client].is_connected();
        if may_publish && self.world.clients[client].in_flight() < WINDOW && self.world.random.chance(60) {
            self.publish(client);
        }
    }

    /// Lets a member withhold acknowledgements for a time, so that it has messages when its connection breaks.
    fn toggle_acks(&mut self, client: usize, has_faults: bool) {
        let withholds_acks = self.world.clients[client].withholds_acks;
        if withholds_acks && (!has_faults || self.world.random.chance(10)) {
            self.world.clients[client].withholds_acks = false;
            self.world.clients[client].acknowledge();
        } else if has_faults && !withholds_acks && self.world.random.chance(4) {
            self.world.clients[client].withholds_acks = true;
        }
    }

    fn publish(&mut self, client: usize) {
        self.numbers[client] += 1;
        let topic = self.world.random.below(TOPICS);
        let qos = [QoS::AtLeastOnce, QoS::ExactlyOnce][self.world.random.below(2)];
        let name = MessageName { publisher: client, topic, qos: qos.as_u8(), number: self.numbers[client] };
        self.world.publish(client, &format!("t/{topic}"), &name.payload(), qos);
        self.counts.published += 1;
    }
}

fn granted(subscriber: usize) -> QoS {
    if subscriber == 0 { QoS::AtLeastOnce } else { QoS::ExactlyOnce }
}

#[test]
fn no_acknowledged_message_is_lost_and_qos_2_arrives_once() {
    let one = std::env::var("TAUTWIRE_CLUSTER_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = std::env::var("TAUTWIRE_CLUSTER_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS);
    let mut all = RunCounts::default();
    for seed in one.map_or(0..seeds, |seed: u64| seed..seed + 1) {
        println!("seed {seed}");
        let counts = Run::new(seed).execute();
        all.published += counts.published;
        all.done += counts.done;
        all.moves += counts.moves;
        all.faults += counts.faults;
        all.cluster_lease_expirations += counts.cluster_lease_expirations;
        all.left_in_log += counts.left_in_log;
        all.lost_at_memory += counts.lost_at_memory;
    }
    println!("{all:?}");
    // A world in which nothing happens proves nothing.
    let is_meaningful = all.done > 10_000
        && all.faults > 100
        && all.cluster_lease_expirations > 20
        && all.left_in_log > 20
        && all.lost_at_memory > 0;
    assert!(one.is_some() || is_meaningful, "{all:?}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..4 {
        let [one, other] = [(); 2].map(|()| Run::new(seed).execute());
        assert_eq!(format!("{one:?}"), format!("{other:?}"), "seed {seed}");
    }
}

const MUTANTS: [Mutant; 10] = [
    Mutant::AcknowledgesBeforeStored,
    Mutant::SendsBeforeSaved,
    Mutant::DropsBlockedMessages,
    Mutant::IgnoresSessionPosition,
    Mutant::OmitsQueuedMessages,
    Mutant::DeliversBelowPosition,
    Mutant::ServesWithoutLease,
    Mutant::OmitsUnreleasedPacketIds,
    Mutant::SettlesReturnedMessages,
    Mutant::SettlesOnDelivery,
];

#[test]
fn deliberate_faults_are_found() {
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
