//! Runs several nodes against a model of the store, with all possible faults between them. A seed determines the events.

mod client;
mod engine;
mod ledger;
mod model;
mod mutants;
mod plan;
mod random;
mod session;
mod shard;
mod steps;
mod store;
mod tally;
mod world;

use plan::Plan;
use tally::Tally;
use world::World;

/// The number of runs of each test, unless `TAUTWIRE_CLUSTER_SEEDS` sets another one.
const SEEDS: u64 = 150;

fn live(seed: u64) {
    World::new(seed, Plan::of(seed)).live();
}

#[test]
fn no_acknowledged_message_is_lost_and_clients_have_one_node() {
    let one = std::env::var("TAUTWIRE_CLUSTER_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = std::env::var("TAUTWIRE_CLUSTER_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS);
    let mut done = Tally::default();
    for seed in one.map_or(0..seeds, |seed: u64| seed..seed + 1) {
        println!("seed {seed}");
        done += World::new(seed, Plan::of(seed)).live();
    }
    println!("{done:?}");
    // A run without events proves nothing.
    assert!(one.is_some() || done.has_coverage(), "{done:?}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..5 {
        let [one, other] = [(); 2].map(|()| World::new(seed, Plan::of(seed)).live());
        assert_eq!(one, other, "seed {seed}");
    }
}
