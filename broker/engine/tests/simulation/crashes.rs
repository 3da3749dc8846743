//! Everything at once: random clients of both versions, several shards, the log on a disk that loses what was not synced, kills, power
//! cuts and restarts. The ledger says what a crash may take: nothing of what anybody was told.

use tautwire_durable::ShardLog;

use crate::machine::{Crash, Machine};
use crate::random_clients::{Named, seeds};
use crate::support::{Choices, Random};
use crate::world::{Plan, RETAINED, World, settings};

const SHARDS_MAX: usize = 3;
/// What is published and who subscribes takes so many steps between two crashes.
const STEPS: [usize; 3] = [50, 200, 400];
/// How often the log is written.
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
            World::new(seed, plan, settings(&mut random), |_| journals.next().expect("there is one for each shard"));
        world.machine = Some(machine);
        world.broker.begin_digest();
        world.broker.interleave_turns();
        if random.chance(25) {
            world.broker.connect_spill_store();
        }
        // There may be more of them later.
        world.ledger.has_channels = true;
        world
    }

    /// Crashes and restarts, and all that clients do meanwhile; in the end everything that was promised is there.
    fn live(&mut self) -> Result<(), String> {
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
            let machine = self.machine.as_mut().expect("there is one");
            machine.set_time(self.broker.now_ms());
            match self.random.below(100) {
                0..=4 => machine.prepare(),
                5..=6 => machine.begin_snapshot(),
                7 => machine.make_snapshot(),
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
            self.ledger.is_quiet();
        }
        if !is_quiet && self.random.chance(50) {
            // The log stands still, and everybody goes as far as that allows.
            for _ in 0..self.random.below(6) {
                self.talk()?;
            }
        }
        let crash = self.random.pick(&[Crash::Stopped, Crash::Killed, Crash::WithoutPower, Crash::WithoutPower]);
        for client in 0..self.clients.len() {
            // What has come may be lost with the connection.
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
        let machine = self.machine.as_mut().expect("there is one");
        machine.end(crash);
        self.broker.restart_with(shards, RETAINED, |ledger| machine.start(shards, now_ms, Some(ledger)));
        Ok(())
    }
}

/// The world of one seed, which panics where something is wrong. Gives the digest of all that was sent.
pub(crate) fn live(seed: u64) -> u64 {
    let mut world = World::on_machine(seed);
    world.live().unwrap_or_else(|wrong| panic!("{wrong}"));
    world.broker.digest().expect("it was asked for")
}

#[test]
fn what_was_promised_survives_crashes() {
    for seed in seeds() {
        let _named = Named(seed);
        let digest = live(seed);
        println!("seed {seed}: what was sent has the digest {digest:016x}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for seed in 0..10 {
        assert_eq!(live(seed), live(seed), "seed {seed}");
    }
}
