//! Random clients, checked against the ledger.
//!
//! `TAUTWIRE_SIMULATION_SEEDS` sets how many seeds are tried; `TAUTWIRE_SIMULATION_SEED` tries a single one.

use std::env;

use tautwire_engine::Volatile;

use crate::support::{Choices, Random};
use crate::world::{Plan, World, settings};

const SEEDS: u64 = 200;

/// The seeds to try.
pub(crate) fn seeds() -> Box<dyn Iterator<Item = u64>> {
    let number = |name| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("TAUTWIRE_SIMULATION_SEED") {
        Some(seed) => Box::new(std::iter::once(seed)),
        None => Box::new(0..number("TAUTWIRE_SIMULATION_SEEDS").unwrap_or(SEEDS)),
    }
}

/// Prints the seed when its simulation panics.
pub(crate) struct SeedReporter(pub(crate) u64);

impl Drop for SeedReporter {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}", self.0);
        }
    }
}

fn plan(seed: u64) -> Plan {
    let mut random = Random::new(!seed);
    Plan {
        shards: 1 + random.below(4),
        clients: 2 + random.below(6),
        steps: random.pick(&[200, 1_000, 3_000]),
        prompt_clients: random.chance(20),
    }
}

#[test]
fn published_messages_arrive_as_guaranteed() {
    for seed in seeds() {
        let _reporter = SeedReporter(seed);
        let mut world = World::new(seed, plan(seed), settings(&mut Random::new(seed)), |_| Volatile);
        if let Err(error) = world.run() {
            panic!("{:?}: {error}", plan(seed));
        }
    }
}
