//! A whole broker of two shards with arbitrary bytes from any number of connections, split and delayed in any way: it never panics,
//! everything that it sends can be decoded, and nothing is left when all connections and sessions have ended.

#![no_main]

#[allow(dead_code, unused_imports, reason = "tests use more of it")]
#[path = "../../../engine/tests/support/mod.rs"]
mod support;

mod peer;
mod script;

use libfuzzer_sys::fuzz_target;
use tautwire_engine::Volatile;
use tautwire_engine::{Settings, SlowConsumer};
use tautwire_router::RetainedLimits;

use peer::Peer;
use script::{Script, Step};
use support::{NoDelays, SimulatedBroker};

const SHARDS: usize = 2;
const PEERS_MAX: usize = 12;
/// Longer than the expiry of any session.
const AFTERWARDS_MS: u64 = 400_000;

fuzz_target!(|input: &[u8]| {
    let mut script = Script::new(input);
    let settings = settings(script.byte());
    let retained = RetainedLimits { messages: 10, bytes: 2_000 };
    let mut broker = SimulatedBroker::new(SHARDS, settings, retained, |_| Volatile);
    let mut peers: Vec<Peer> = Vec::new();

    while let Some(step) = script.next_step() {
        match step {
            Step::Connect { shard, room_bytes } if peers.len() < PEERS_MAX => {
                let socket = broker.connect(shard % SHARDS, room_bytes);
                peers.push(Peer::new(socket));
            }
            Step::Connect { .. } => {}
            Step::Send { peer, bytes } => {
                if let Some(peer) = pick(&mut peers, peer) {
                    peer.send(&mut broker, &bytes);
                }
            }
            Step::Read { peer, most } => {
                if let Some(peer) = pick(&mut peers, peer) {
                    peer.read(&mut broker, most);
                }
            }
            Step::Finish { peer } => {
                if let Some(peer) = pick(&mut peers, peer) {
                    broker.finish(peer.socket());
                }
            }
            Step::Cut { peer } => {
                if let Some(peer) = pick(&mut peers, peer) {
                    peer.cut(&mut broker);
                }
            }
            Step::Turn { shard } => {
                broker.turn(shard % SHARDS, &mut script);
            }
            Step::Advance { ms } => broker.advance(ms),
        }
    }

    broker.settle(&mut NoDelays);
    for peer in &mut peers {
        peer.read(&mut broker, usize::MAX);
    }
    broker.cut_all_but(&[]);
    broker.settle(&mut NoDelays);
    for _ in 0..3 {
        broker.advance(AFTERWARDS_MS);
        broker.settle(&mut NoDelays);
    }
    let totals = broker.totals();
    let gauges = [
        totals.connections,
        totals.sessions,
        totals.sessions_connected,
        totals.stored_messages,
        totals.stored_bytes,
        totals.output_bytes,
        totals.subscriptions,
        broker.exchange().shares() as u64,
    ];
    assert_eq!(gauges, [0; 8], "nothing is left: {totals:?}");
});

fn pick(peers: &mut [Peer], at: usize) -> Option<&mut Peer> {
    let at = at.checked_rem(peers.len())?;
    peers.get_mut(at)
}

/// Limits so low that a short input reaches them.
fn settings(choice: u8) -> Settings {
    let slow_consumer = match choice & 3 {
        0 => SlowConsumer::DropNew,
        1 => SlowConsumer::DropOld,
        2 => SlowConsumer::Disconnect,
        _ if choice & 64 == 0 => SlowConsumer::Refuse,
        _ => SlowConsumer::PausePublisher,
    };
    Settings {
        receive_maximum: 3,
        maximum_packet_size_bytes: 20_000,
        topic_alias_maximum: 3,
        max_session_expiry_s: 300,
        connections: 10,
        sessions: 6,
        client_id_bytes: 30,
        topic_bytes: 100,
        topic_levels: 8,
        subscriptions_per_session: 6,
        subscriptions_per_packet: 5,
        in_flight_per_client: if choice & 4 == 0 { 2 } else { 100 },
        session_queue_messages: 4,
        session_queue_bytes: 6_000,
        slow_consumer: slow_consumer.into(),
        connection_output_bytes: if choice & 8 == 0 { 1_000 } else { 100_000 },
        memory_bytes: if choice & 16 == 0 { 3_000 } else { 1 << 30 },
        shard_queue_batches: 1,
        sys_interval_s: u32::from(choice & 32 == 0) * 20,
        ..Settings::default()
    }
}
