//! Random clients of both versions, several shards, a disk that loses unsynced writes, kills, power failures and restarts.
//!
//! The ledger decides what a crash may lose: nothing that was acknowledged.

use tautwire_durable::ShardLog;

use crate::machine::{Crash, Machine};
use crate::random_clients::{SeedReporter, seeds};
use crate::support::{Choices, Random};
use crate::world::{Plan, RETAINED, World, settings};

const SHARDS_MAX: usize = 3;
/// The number of steps between two crashes.
const STEPS: [usize; 3] = [50, 200, 400];
/// The probability in percent that a step writes the log.
const WRITES_PERCENT: [usize; 3] = [2, 10, 30];

impl World<ShardLog> {
    fn on_machine(seed: u64) -> World<ShardLog> {
        let mut random = Random::new(!seed);
        let plan = Plan {
            shards: 1 + random.below(SHARDS_MAX),
            clients: 2 + random.below(5),
            steps: 0,
            prompt_clients: random.chance(40),
        };
        let mut machine = Machine::new(seed);
        let (journals, _) = machine.start(plan.shards, 0, None);
        let mut journals = journals.into_iter();
        let mut world =
            World::new(seed, plan, settings(&mut random), |_| journals.next().expect("each shard has a journal"));
        world.machine = Some(machine);
        world.broker.begin_digest();
        world.broker.interleave_turns();
        if random.chance(25) {
            world.broker.connect_spill_store();
        }
        // A restart can add shards.
        world.ledger.has_channels = true;
        world
    }

    /// Runs clients with crashes and restarts, then checks that every acknowledged message arrived.
    fn run_with_crashes(&mut self) -> Result<(), String> {
        for _ in 0..self.random.below(4) {
            self.work()?;
            self.crash()?;
        }
        self.work()?;
        self.finish()
    }

    fn work(&mut self) -> Result<(), String> {
        let writes_percent = self.random.pick(&WRITES_PERCENT);
        for _ in 0..self.random.pick(&STEPS) {
            self.step()?;
            let machine = self.machine.as_mut().expect("the world has a machine");
            machine.set_time(self.broker.now_ms());
            match self.random.below(100) {
                0..=4 => machine.prepare(),
                5..=6 => machine.begin_snapshot(),
                7 => machine.write_snapshot(),
                _ => {}
            }
            if self.random.chance(writes_percent) {
                self.write_log();
            }
        }
        Ok(())
    }

    fn crash(&mut self) -> Result<(), String> {
        let is_quiet = self.random.chance(20);
        if is_quiet {
            self.exchange_all()?;
            self.ledger.mark_quiet();
        }
        if !is_quiet && self.random.chance(50) {
            // The log stalls, and clients continue as far as they can.
            for _ in 0..self.random.below(6) {
                self.exchange_once()?;
            }
        }
        let crash = self.random.pick(&[Crash::Stopped, Crash::Killed, Crash::PowerFailure, Crash::PowerFailure]);
        for client in 0..self.clients.len() {
            // Unread bytes are lost with the connection.
            if self.random.chance(50) {
                self.clients[client].read(&mut self.broker, &mut self.ledger, usize::MAX)?;
            }
            self.clients[client].lose_broker(self.broker.now_ms(), &mut self.ledger);
        }
        self.ledger.crashed(is_quiet);
        if self.random.chance(50) {
            let ms = self.random.pick(&[1, 1_000, 60_000]);
            self.broker.advance(ms);
        }
        let now_ms = self.broker.now_ms();
        let shards = 1 + self.random.below(SHARDS_MAX);
        let machine = self.machine.as_mut().expect("the world has a machine");
        machine.end(crash);
        self.broker.restart_with(shards, RETAINED, |ledger| machine.start(shards, now_ms, Some(ledger)));
        Ok(())
    }
}

/// Runs the simulation of one seed, and panics on a failure. Returns the digest of all bytes sent.
pub(crate) fn run_seed(seed: u64) -> u64 {
    let mut world = World::on_machine(seed);
    world.run_with_crashes().unwrap_or_else(|error| panic!("{error}"));
    world.broker.digest().expect("the digest is enabled")
}

#[test]
fn acknowledged_state_survives_crashes() {
    for seed in seeds() {
        let _reporter = SeedReporter(seed);
        let digest = run_seed(seed);
        println!("seed {seed}: digest {digest:016x}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for seed in 0..10 {
        assert_eq!(run_seed(seed), run_seed(seed), "seed {seed}");
    }
}
