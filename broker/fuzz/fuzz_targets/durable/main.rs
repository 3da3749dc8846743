//! A whole broker whose log is on a disk that loses unsynced data. It crashes where the input says, and restarts with another number of
//! threads: each acknowledged message is there, once, for offline clients.

#![no_main]

#[allow(dead_code, unused_imports, reason = "tests use more of it")]
#[path = "../../../engine/tests/support/mod.rs"]
mod support;

mod client;
mod life;
#[cfg(feature = "mutants")]
mod mutants;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use libfuzzer_sys::fuzz_target;
use tautwire_engine::Settings;
use tautwire_journal::disk::{Faults, FaultyDisk};
use tautwire_protocol::QoS;
use tautwire_router::RetainedLimits;
use tautwire_session::{Change, Session};

use client::{Client, MARK};
use life::{DiskJournal, Life, SHARDS_MAX};
use support::{Choices, NoDelays, SimulatedBroker};

const RETAINED: RetainedLimits = RetainedLimits { messages: 1_000, bytes: 10 << 20 };
const STEPS_MAX: usize = 500;
const TOPICS: [&str; 3] = ["t", "t/u", "u"];
const FILTERS: [&str; 4] = ["t/#", "#", "$share/g/#", "$share/h/t/#"];
const LENGTHS: [usize; 4] = [0, 3, 300, 5_000];
const TIMES_MS: [u64; 4] = [1, 300, 5_000, 70_000];
/// In a group of which no member ever receives anything. The first keeps its session.
const MEMBERS: [&str; 3] = ["member-0", "member-1", "member-2"];
const GROUP: &str = "$share/all/#";
/// Never reconnects, so all messages are queued for it.
const OBSERVER: &str = "observer";

fuzz_target!(|input: &[u8]| {
    #[cfg(feature = "mutants")]
    mutants::enable();
    let mut play = Play { rest: input, steps: 0 };
    let mut world = World::new(play.byte(), play.byte());
    while play.has_more() {
        world.step(&mut play);
    }
    world.end();
});

struct World {
    broker: SimulatedBroker<DiskJournal>,
    disk: FaultyDisk,
    life: Rc<RefCell<Life>>,
    lives: u64,
    clients: Vec<Client>,
    members: Vec<Client>,
    /// The QoS of each message.
    published: Vec<QoS>,
    acknowledged: BTreeSet<usize>,
}

impl World {
    fn new(how: u8, seed: u8) -> World {
        let disk = FaultyDisk::new(seed.into());
        let (life, empty) = life::open(&disk, 1, 0);
        let settings = Settings {
            max_session_expiry_s: u32::MAX,
            in_flight_per_client: 4,
            spill_threshold_bytes: if how & 1 == 0 { 0 } else { 1 << 30 },
            shard_queue_batches: 1 + usize::from(how >> 1 & 3),
            sys_interval_s: 0,
            ..Settings::default()
        };
        let shards = 1 + usize::from(how >> 3) % SHARDS_MAX;
        let journal = |shard| DiskJournal::new(&life, shard, empty.last_session());
        let mut broker = SimulatedBroker::new(shards, settings, RETAINED, journal);
        if how & 1 == 0 {
            broker.connect_spill_store();
        }
        let clients = ["a", "b", "c"].map(Client::new).into();
        let members = MEMBERS.map(Client::new).into();
        let (published, acknowledged) = (Vec::new(), BTreeSet::new());
        let mut world = World { broker, disk, life, lives: 1, clients, members, published, acknowledged };
        world.subscribe_for_ever(OBSERVER, "#");
        for name in MEMBERS {
            world.subscribe_for_ever(name, GROUP);
        }
        world
    }

    /// Creates a session, and disconnects.
    fn subscribe_for_ever(&mut self, name: &str, filter: &str) {
        let mut client = Client::new(name);
        client.connect(&mut self.broker, 0, false, u32::MAX);
        client.subscribe(&mut self.broker, filter);
        self.settle();
        client.cut(&mut self.broker);
        self.settle();
    }

    /// Runs until nothing is pending, with a log that is always durable.
    fn settle(&mut self) {
        self.life.borrow_mut().is_prompt = true;
        self.life.borrow_mut().commit();
        self.broker.wake_all();
        self.broker.settle(&mut NoDelays);
        self.life.borrow_mut().is_prompt = false;
    }

    fn step(&mut self, play: &mut Play<'_>) {
        let (kind, which) = (play.byte(), usize::from(play.byte()));
        let World { broker, clients, life, disk, .. } = self;
        let at = which % clients.len();
        let client = &mut clients[at];
        match kind % 24 {
            0 | 1 => client.connect(broker, which >> 2, which & 64 != 0, [0, 60, 4_000_000][which % 3]),
            2 | 3 => client.subscribe(broker, play.pick(&FILTERS)),
            4..=8 => {
                if client.is_connected() {
                    let qos = play.pick(&[QoS::AtLeastOnce, QoS::ExactlyOnce]);
                    let (topic, len, retain) = (play.pick(&TOPICS), play.pick(&LENGTHS), which & 128 != 0);
                    client.publish(broker, self.published.len(), qos, topic, len, retain);
                    self.published.push(qos);
                }
            }
            9 | 10 => self.read(at),
            11 => client.acknowledge(broker),
            12 => client.cut(broker),
            13 => client.leave(broker, which & 64 != 0),
            14 => client.send_raw(broker, &play.bytes()),
            15 => broker.advance(play.pick(&TIMES_MS)),
            16 => {
                life.borrow_mut().commit();
                broker.wake_all();
            }
            17 => {
                life.borrow_mut().commit();
                life.borrow_mut().compact(disk, false);
                broker.wake_all();
            }
            18 => self.end_member(which),
            19 => self.crash(play.byte(), which),
            _ => {
                broker.turn(which % broker.shards(), play);
            }
        }
        if self.life.borrow().has_failed() {
            self.crash(0, which);
        }
    }

    fn read(&mut self, at: usize) {
        let acknowledged = self.clients[at].read(&mut self.broker);
        self.acknowledged.extend(acknowledged);
    }

    /// Ends the session of a member, whose pending messages go to others. Then it rejoins.
    fn end_member(&mut self, which: usize) {
        let member = &mut self.members[1 + which % (MEMBERS.len() - 1)];
        if which & 64 == 0 {
            member.connect(&mut self.broker, which >> 2, true, u32::MAX);
            member.subscribe(&mut self.broker, GROUP);
        } else {
            member.connect(&mut self.broker, which >> 2, false, 0);
        }
        if which & 128 == 0 {
            member.leave(&mut self.broker, false);
        }
    }

    /// Loses the power, perhaps during a write, and restarts.
    fn crash(&mut self, how: u8, which: usize) {
        let power_lost_at = Some(self.disk.operations() + u64::from(how >> 2));
        match how % 4 {
            0 => {}
            1 | 2 => {
                self.disk.set_faults(Faults { power_lost_at, ..Faults::default() });
                self.life.borrow_mut().commit();
            }
            _ => {
                self.disk.set_faults(Faults { power_lost_at, ..Faults::default() });
                self.life.borrow_mut().compact(&self.disk, true);
            }
        }
        self.clients.iter_mut().chain(&mut self.members).for_each(Client::forget);
        self.disk.crash();
        self.lives += 1;
        let (life, found) = life::open(&self.disk, self.lives, self.broker.now_ms());
        self.life = life;
        let last = found.last_session();
        let life = &self.life;
        self.broker.restart(1 + which % SHARDS_MAX, RETAINED, found, |shard| DiskJournal::new(life, shard, last));
    }

    /// Waits until everything is settled. Acknowledged messages are on the disk.
    fn end(&mut self) {
        for _ in 0..2 {
            self.settle();
            (0..self.clients.len()).for_each(|at| self.read(at));
            self.clients.iter_mut().chain(&mut self.members).for_each(|client| client.cut(&mut self.broker));
            self.broker.advance(100_000);
        }
        self.settle();
        let state = life::replay(&self.disk);
        let (mut observed, mut shared) = (BTreeMap::new(), BTreeMap::new());
        let mut names = BTreeSet::new();
        for replayed in state.sessions() {
            let session = &replayed.session;
            assert!(session.expiry_interval_s() > 0, "the session of {} has ended", session.client_id());
            assert!(names.insert(session.client_id()), "{} has two sessions", session.client_id());
            match session.client_id() {
                OBSERVER => count(session, &mut observed),
                name if MEMBERS.contains(&name) => count(session, &mut shared),
                _ => {}
            }
        }
        assert!(names.contains(OBSERVER) && names.contains(MEMBERS[0]), "their sessions do not expire");
        assert_eq!(self.broker.totals().sessions, names.len() as u64);
        for (number, qos) in self.published.iter().enumerate() {
            let is_acknowledged = self.acknowledged.contains(&number);
            let times = |counts: &BTreeMap<usize, usize>| counts.get(&number).copied().unwrap_or_default();
            let (own, shared) = (times(&observed), times(&shared));
            assert!(own <= 1 && (own == 1 || !is_acknowledged), "{qos:?} message {number} is there {own} times");
            // A QoS 2 message that has been sent to a member is not redispatched.
            let may_miss = !is_acknowledged || *qos == QoS::ExactlyOnce;
            assert!(shared <= 1 && (shared == 1 || may_miss), "{qos:?} message {number} has {shared} members");
        }
    }
}

/// Counts the messages that a session holds, by number.
fn count(session: &Session, counts: &mut BTreeMap<usize, usize>) {
    session.describe(|change, _| {
        if let Change::Started(pending) | Change::Queued(pending) = change
            && let Some(message) = pending.message.loaded()
            && let Some(payload) = message.payload().strip_prefix(&[MARK])
            && let Some(digits) = payload.split(|byte| *byte == b':').next()
            && let Some(number) = str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok())
        {
            *counts.entry(number).or_default() += 1;
        }
    });
}

/// The rest of an input. When it is used up, all further choices are 0.
struct Play<'a> {
    rest: &'a [u8],
    steps: usize,
}

impl Play<'_> {
    fn has_more(&mut self) -> bool {
        self.steps += 1;
        !self.rest.is_empty() && self.steps <= STEPS_MAX
    }

    fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *byte
    }

    fn bytes(&mut self) -> Vec<u8> {
        let length = usize::from(self.byte() % 32).min(self.rest.len());
        let (bytes, rest) = self.rest.split_at(length);
        self.rest = rest;
        bytes.to_vec()
    }
}

impl Choices for Play<'_> {
    fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound
    }
}
