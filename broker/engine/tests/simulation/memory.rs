//! Random clients of a broker with little memory.
//!
//! No acknowledged message is lost, no client waits forever once all clients have reconnected, and no memory is charged at the end.

use tautwire_engine::Settings;
use tautwire_engine::Volatile;

use crate::random_clients::{SeedReporter, seeds};
use crate::support::{Choices, Random};
use crate::world::{Plan, World, settings};

/// The limit of seeds; simulations with little memory take longer than others.
const SEEDS_MAX: usize = 100;

fn plan(random: &mut Random) -> Plan {
    Plan {
        shards: 1 + random.below(3),
        clients: 3 + random.below(6),
        steps: random.pick(&[500, 2_000]),
        prompt_clients: random.chance(20),
    }
}

fn small_memory_settings(random: &mut Random) -> Settings {
    let settings = settings(random);
    let memory_bytes = random.pick(&[200 << 10, 300 << 10, 500 << 10, 1 << 20, 2 << 20]);
    Settings {
        memory_bytes,
        memory_bytes_per_client: random.pick(&[100 << 10, 200 << 10, memory_bytes]),
        session_queue_messages: 1 << 20,
        session_queue_bytes: 1 << 30,
        session_queue_memory: false,
        // So low that publishers often reach it.
        receive_maximum: 20,
        // Publishers of 3.1.1 can wait for memory that others of them hold. This timeout disconnects the one that waits longest.
        incomplete_packet_timeout_s: 60,
        ..settings
    }
}

#[test]
fn acknowledged_messages_arrive_with_little_memory() {
    let (mut refusals, mut waits, mut throttled) = (0, 0, 0);
    for seed in seeds().take(SEEDS_MAX) {
        let _reporter = SeedReporter(seed);
        let mut random = Random::new(!seed);
        let (plan, settings) = (plan(&mut random), small_memory_settings(&mut random));
        let (memory_bytes, memory_bytes_per_client) = (settings.memory_bytes, settings.memory_bytes_per_client);
        let mut world = World::new(seed, plan.clone(), settings, |_| Volatile);
        world.broker.interleave_turns();
        if let Err(error) = world.run() {
            panic!("{plan:?}, {memory_bytes} bytes, {memory_bytes_per_client} for each client: {error}");
        }
        refusals += world.clients.iter().map(|client| client.refusals).sum::<usize>();
        let totals = world.broker.totals();
        waits += totals.publishers_paused_for_memory;
        throttled += totals.sessions_throttled;
    }
    if seeds().count() >= SEEDS_MAX {
        assert!(
            refusals > 0 && waits > 0 && throttled > 0,
            "{refusals} refusals, {waits} paused publishers, {throttled} throttled sessions"
        );
    }
}
