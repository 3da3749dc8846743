//! Shards that sleep whenever they may: nobody waits for something that does not come. And the simulation finds the faults
//! that would make somebody wait.

use tautwire_engine::Settings;
use tautwire_engine::Volatile;
use tautwire_engine::mutant::{Mutant, mutate};
use tautwire_protocol::{
    DecodeOptions, Delivery, Packet, Properties, ProtocolVersion, Publish, QoS, RetainHandling, TopicName, decode,
};

use crate::ledger::Request;
use crate::packets::{connect_bytes, id, subscribe_bytes};
use crate::random_clients::{Named, seeds};
use crate::support::{Choices, NoDelays, Random, SimulatedBroker, SocketId};
use crate::world::{RETAINED, returning};

/// So many receivers stand in line.
const AUDIENCE: usize = 100;
const PUBLISHERS: usize = 3;
const MESSAGES: u16 = 20;
/// Crowds that are tried without a fault.
const WORLDS: usize = 32;
/// A fault that is not found with so many seeds is not found.
const SEEDS_MAX: u64 = 100;
/// The largest payloads that are copied for each receiver: a batch full of them is too much to be taken at a time.
const PAYLOAD_BYTES: usize = 3_900;

type Broker = SimulatedBroker<Volatile>;
type Outcome = Result<(), String>;

/// Publishers on one shard, many receivers on another, and a way between them that takes `channel_batches`.
struct FanOutWorld {
    broker: Broker,
    random: Random,
    publishers: Vec<SocketId>,
    audience: Vec<SocketId>,
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
        let audience: Vec<_> = (0..AUDIENCE).map(|n| join(&mut broker, 1, format!("receiver-{n}"))).collect();
        for socket in &audience {
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
        FanOutWorld { broker, random, publishers, audience }
    }

    /// Everybody publishes; all of it is acknowledged and arrives.
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
                return Err(format!("a publisher has {answers} of {MESSAGES} answers, and all shards sleep"));
            }
        }
        for socket in self.audience.clone() {
            let messages = self.count(socket, |packet| matches!(packet, Packet::Publish(_)));
            if messages != PUBLISHERS * usize::from(MESSAGES) {
                return Err(format!("a receiver has {messages} messages, and all shards sleep"));
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

/// Who connects while receivers stand in line and batches wait for them is let in at once.
#[test]
fn a_client_that_moves_does_not_wait_behind_batches() {
    let mut crowd = FanOutWorld::new(1, 1, None);
    for number in 1..=MESSAGES {
        for publisher in crowd.publishers.clone() {
            crowd.publish(publisher, number);
        }
    }
    for shard in [0, 1] {
        crowd.broker.turn(shard, &mut NoDelays);
    }
    assert!(crowd.broker.totals().fan_outs_deferred > 0, "receivers stand in line");
    let newcomer = crowd.broker.connect(0, 1 << 30);
    let name = crowd.broker.client_id_on(1, "newcomer");
    crowd.broker.send(newcomer, &connect_bytes(&name, ProtocolVersion::V5, &returning(), None));
    // It is accepted in one turn, read in the next, and moves.
    for shard in [0, 0, 1] {
        crowd.broker.turn(shard, &mut NoDelays);
    }
    assert_eq!(crowd.count(newcomer, |packet| matches!(packet, Packet::ConnAck(_))), 1);
    let some = crowd.count(crowd.audience[AUDIENCE - 1], |packet| matches!(packet, Packet::Publish(_)));
    assert!(some < PUBLISHERS * usize::from(MESSAGES), "the others are still waiting");
}

fn channel_batches(seed: u64) -> usize {
    1 + seed as usize % 8
}

#[test]
fn a_crowd_on_another_shard_gets_everything_through_a_way_of_any_size() {
    for seed in seeds().take(WORLDS) {
        let _named = Named(seed);
        if let Err(wrong) = FanOutWorld::new(seed, channel_batches(seed), None).run() {
            panic!("{wrong}");
        }
    }
}

/// Whether somebody waits in vain, with this fault in all shards.
fn is_found(mutant: Mutant) -> bool {
    let is_found = (0..SEEDS_MAX).any(|seed| {
        mutate(None);
        FanOutWorld::new(seed, channel_batches(seed), Some(mutant)).run().is_err()
    });
    mutate(None);
    is_found
}

/// Another thread takes batches after paused publishers have been looked at and before the others are sent: then no way is full,
/// nothing is left to send, and nobody rings.
#[test]
fn publishers_that_are_resumed_too_early_in_the_turn_are_found() {
    assert!(is_found(Mutant::ResumesBeforeItSends));
}

#[test]
fn a_shard_that_sleeps_on_batches_is_found() {
    assert!(is_found(Mutant::SleepsOnBatches));
}

#[test]
fn a_shard_that_sleeps_while_receivers_stand_in_line_is_found() {
    assert!(is_found(Mutant::SleepsOnFanOuts));
}

#[test]
fn a_shard_that_sleeps_on_a_part_of_a_batch_is_found() {
    assert!(is_found(Mutant::SleepsOnBegunBatches));
}
