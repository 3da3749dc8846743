//! Shards sleep only when they have no work, so no client waits forever. The simulation finds faults that would make a client wait.

use tautwire_engine::Settings;
use tautwire_engine::Volatile;
use tautwire_engine::mutant::{Mutant, mutate};
use tautwire_protocol::{
    DecodeOptions, Delivery, Packet, Properties, ProtocolVersion, Publish, QoS, RetainHandling, TopicName, decode,
};

use crate::ledger::Request;
use crate::packets::{connect_bytes, id, subscribe_bytes};
use crate::random_clients::{SeedReporter, seeds};
use crate::support::{Choices, NoDelays, Random, SimulatedBroker, SocketId};
use crate::world::{RETAINED, returning};

/// The number of receivers, enough to defer fan-outs.
const RECEIVERS: usize = 100;
const PUBLISHERS: usize = 3;
const MESSAGES: u16 = 20;
/// The number of seeds to try without a fault.
const FAULTLESS_SEEDS: usize = 32;
/// The number of seeds to try for each fault.
const SEEDS_MAX: u64 = 100;
/// The largest payload that is copied for each receiver. A batch full of them takes more than one turn.
const PAYLOAD_BYTES: usize = 3_900;

type Broker = SimulatedBroker<Volatile>;
type Outcome = Result<(), String>;

/// Publishers on one shard, many receivers on another, and a shard channel for `channel_batches` between them.
struct FanOutWorld {
    broker: Broker,
    random: Random,
    publishers: Vec<SocketId>,
    receivers: Vec<SocketId>,
}

impl FanOutWorld {
    fn new(seed: u64, channel_batches: usize, mutant: Option<Mutant>) -> FanOutWorld {
        let mut random = Random::new(seed);
        let settings = Settings { shard_queue_batches: channel_batches, sys_interval_s: 0, ..Settings::default() };
        let mut broker = Broker::new(2, settings, RETAINED, |_| Volatile);
        let mut join = |broker: &mut Broker, shard, name: String| {
            let id = broker.client_id_on(shard, &name);
            let socket = broker.connect(random.below(2), 1 << 30);
            broker.send(socket, &connect_bytes(&id, ProtocolVersion::V5, &returning(), None));
            socket
        };
        let publishers = (0..PUBLISHERS).map(|n| join(&mut broker, 0, format!("publisher-{n}"))).collect();
        let receivers: Vec<_> = (0..RECEIVERS).map(|n| join(&mut broker, 1, format!("receiver-{n}"))).collect();
        for socket in &receivers {
            let request = Request {
                filter: "t".into(),
                qos: QoS::AtMostOnce,
                no_local: false,
                retain_as_published: false,
                retain_handling: RetainHandling::SendAtSubscribe,
                identifier: None,
            };
            broker.send(*socket, &subscribe_bytes(ProtocolVersion::V5, id(1), &[request]));
        }
        broker.settle(&mut random);
        mutate(mutant);
        FanOutWorld { broker, random, publishers, receivers }
    }

    /// Has all publishers publish, and checks that everything is acknowledged and arrives.
    fn run(mut self) -> Outcome {
        for number in 1..=MESSAGES {
            for publisher in self.publishers.clone() {
                self.publish(publisher, number);
            }
            for _ in 0..self.random.below(4) {
                let shard = self.random.below(2);
                self.broker.turn(shard, &mut self.random);
            }
        }
        self.broker.settle(&mut self.random);
        for socket in self.publishers.clone() {
            let answers = self.count(socket, |packet| matches!(packet, Packet::PubAck(_)));
            if answers != usize::from(MESSAGES) {
                return Err(format!("all shards sleep, and a publisher has {answers} of {MESSAGES} acknowledgements"));
            }
        }
        for socket in self.receivers.clone() {
            let messages = self.count(socket, |packet| matches!(packet, Packet::Publish(_)));
            if messages != PUBLISHERS * usize::from(MESSAGES) {
                return Err(format!("all shards sleep, and a receiver has only {messages} messages"));
            }
        }
        Ok(())
    }

    fn publish(&mut self, publisher: SocketId, number: u16) {
        let publish = Publish {
            delivery: Delivery::AtLeastOnce { packet_id: id(number), dup: false },
            retain: false,
            topic: TopicName::new("t").ok(),
            properties: Properties::EMPTY,
            payload: &[b'x'; PAYLOAD_BYTES],
        };
        let mut bytes = Vec::new();
        publish.append_to(ProtocolVersion::V5, &mut bytes).expect("our PUBLISH is valid");
        self.broker.send(publisher, &bytes);
    }

    fn count(&mut self, socket: SocketId, is_meant: impl Fn(&Packet<'_>) -> bool) -> usize {
        let bytes = self.broker.take(socket, usize::MAX);
        let mut rest = &bytes[..];
        let mut count = 0;
        while let Ok((packet, length)) = decode(rest, &DecodeOptions::new(ProtocolVersion::V5)) {
            count += usize::from(is_meant(&packet));
            rest = &rest[length..];
        }
        count
    }
}

/// A client that connects while fan-outs are deferred and batches wait is accepted at once.
#[test]
fn a_migrating_client_does_not_wait_behind_batches() {
    let mut world = FanOutWorld::new(1, 1, None);
    for number in 1..=MESSAGES {
        for publisher in world.publishers.clone() {
            world.publish(publisher, number);
        }
    }
    for shard in [0, 1] {
        world.broker.turn(shard, &mut NoDelays);
    }
    assert!(world.broker.totals().fan_outs_deferred > 0, "no fan-out is deferred");
    let newcomer = world.broker.connect(0, 1 << 30);
    let name = world.broker.client_id_on(1, "newcomer");
    world.broker.send(newcomer, &connect_bytes(&name, ProtocolVersion::V5, &returning(), None));
    // The connection is accepted in one turn, read in the next, and migrated.
    for shard in [0, 0, 1] {
        world.broker.turn(shard, &mut NoDelays);
    }
    assert_eq!(world.count(newcomer, |packet| matches!(packet, Packet::ConnAck(_))), 1);
    let some = world.count(world.receivers[RECEIVERS - 1], |packet| matches!(packet, Packet::Publish(_)));
    assert!(some < PUBLISHERS * usize::from(MESSAGES), "the deferred fan-outs have ended");
}

fn channel_batches(seed: u64) -> usize {
    1 + seed as usize % 8
}

#[test]
fn many_receivers_on_another_shard_get_everything_with_any_channel_size() {
    for seed in seeds().take(FAULTLESS_SEEDS) {
        let _reporter = SeedReporter(seed);
        if let Err(error) = FanOutWorld::new(seed, channel_batches(seed), None).run() {
            panic!("{error}");
        }
    }
}

/// Whether the simulation fails with this fault.
fn is_found(mutant: Mutant) -> bool {
    let is_found = (0..SEEDS_MAX).any(|seed| {
        mutate(None);
        FanOutWorld::new(seed, channel_batches(seed), Some(mutant)).run().is_err()
    });
    mutate(None);
    is_found
}

/// Another shard receives batches after paused publishers were checked and before the other batches are sent. Then no channel is full,
/// nothing is left to send, and no wake-up arrives.
#[test]
fn publishers_that_resume_too_early_in_a_turn_are_found() {
    assert!(is_found(Mutant::ResumesBeforeSending));
}

#[test]
fn a_shard_that_sleeps_with_unsent_batches_is_found() {
    assert!(is_found(Mutant::SleepsWithUnsentBatches));
}

#[test]
fn a_shard_that_sleeps_with_deferred_fan_outs_is_found() {
    assert!(is_found(Mutant::SleepsWithDeferredFanOuts));
}

#[test]
fn a_shard_that_sleeps_with_a_partial_batch_is_found() {
    assert!(is_found(Mutant::SleepsWithPartialBatches));
}
