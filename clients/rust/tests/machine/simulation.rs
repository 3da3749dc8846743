//! Long random runs: messages in both directions at every QoS, withheld acknowledgements, connections lost at any point. In
//! the end no message is missing, duplicated or out of order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tautwire_client::machine::{Acceptance, Answer, Event, Handler, Incoming, Machine};
use tautwire_client::{AckToken, Error, Options, ProtocolVersion, PubAckReason, Publication, QoS, Subscribe};

use crate::server::{Random, Server};

const RECEIVE_MAXIMUM: u16 = 8;

/// What the application has seen.
#[derive(Default)]
struct Application {
    /// Received messages, by QoS, in order.
    received: BTreeMap<QoS, Vec<u32>>,
    /// Not yet acknowledged.
    tokens: Vec<AckToken>,
    resolved: BTreeMap<u32, Result<(), Error>>,
    subscribed: usize,
    connected: usize,
}

impl Handler<u32> for Application {
    fn message(&mut self, message: &Incoming<'_>) -> Answer {
        let number = u32::from_be_bytes(message.publish.payload.try_into().expect("four bytes"));
        self.received.entry(message.publish.qos()).or_default().push(number);
        match message.token {
            Some(token) if number % 3 != 0 => {
                self.tokens.push(token);
                Answer::Later
            }
            _ => Answer::Acknowledge,
        }
    }

    fn event(&mut self, event: Event<'_, u32>) {
        match event {
            Event::Published(number, outcome) => {
                let before = self.resolved.insert(number, outcome.map(|_| ()));
                assert!(before.is_none(), "message {number} is resolved twice");
            }
            Event::Subscribed(_, outcome) => {
                outcome.expect("granted");
                self.subscribed += 1;
            }
            Event::Unsubscribed(_, outcome) => {
                outcome.expect("ended");
            }
            Event::Connected { .. } => self.connected += 1,
            Event::Reauthenticated(_) => {}
            Event::SubscriptionLost(filter, error) => panic!("{filter}: {error}"),
        }
    }
}

struct World {
    random: Random,
    machine: Machine<u32>,
    server: Server,
    application: Application,
    to_server: Vec<u8>,
    to_client: Vec<u8>,
    now_ms: u64,
    connected: bool,
    losses: usize,
}

impl World {
    fn new(seed: u64, version: ProtocolVersion) -> World {
        let mut random = Random(seed);
        let options = Options::new("mqtt://server")
            .expect("an address")
            .client_id("c")
            .version(version)
            .persistent(Duration::from_secs(1000))
            .receive_maximum(RECEIVE_MAXIMUM.try_into().expect("not zero"));
        let server_maximum = 1 + random.below(12) as u16;
        World {
            machine: Machine::new(options),
            server: Server::new(version, server_maximum, RECEIVE_MAXIMUM.into()),
            random,
            application: Application::default(),
            to_server: Vec::new(),
            to_client: Vec::new(),
            now_ms: 0,
            connected: false,
            losses: 0,
        }
    }

    fn connect(&mut self) {
        self.machine.opened(self.now_ms).expect("CONNECT can be written");
        self.connected = true;
    }

    fn lose(&mut self) {
        self.machine.lost();
        self.server.connection_lost();
        self.to_client.clear();
        self.to_server.clear();
        self.connected = false;
        self.losses += 1;
    }

    /// Transfers some bytes, in pieces of any size.
    fn travel(&mut self, all: bool) {
        let output = self.machine.take_output(Vec::new(), self.now_ms, &mut self.application);
        self.to_server.extend_from_slice(&output);
        let count = if all { self.to_server.len() } else { self.random.below(self.to_server.len() + 1) };
        let piece: Vec<u8> = self.to_server.drain(..count).collect();
        self.server.receive(&piece);
        self.to_client.append(&mut self.server.output);
        let count = if all { self.to_client.len() } else { self.random.below(self.to_client.len() + 1) };
        let piece: Vec<u8> = self.to_client.drain(..count).collect();
        self.machine.receive(&piece, self.now_ms, &mut self.application).expect("the server keeps to the rules");
    }

    fn acknowledge_some(&mut self, all: bool) {
        while !self.application.tokens.is_empty() && (all || self.random.chance(2)) {
            let at = self.random.below(self.application.tokens.len());
            let token = self.application.tokens.swap_remove(at);
            self.machine.acknowledge(token, PubAckReason::Success);
        }
    }

    /// Runs until nothing is in flight.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            if !self.connected {
                self.connect();
            }
            self.travel(true);
            self.acknowledge_some(true);
            if self.machine.is_settled() && self.server.is_settled() && self.application.tokens.is_empty() {
                return;
            }
        }
        panic!("messages are still in flight");
    }
}

fn qos_of(number: u32) -> QoS {
    QoS::from_u8((number % 3) as u8).expect("0 to 2")
}

fn publish(world: &mut World, number: u32) {
    let payload = number.to_be_bytes();
    let publication = Publication::new("t", &payload).qos(qos_of(number));
    match world.machine.publish(&publication, world.now_ms, || number) {
        Ok(Acceptance::Sent) => {
            world.application.resolved.insert(number, Ok(()));
        }
        Ok(Acceptance::Tracked) => {}
        Err(error) => panic!("{error}"),
    }
}

/// Each number once, in order.
fn assert_each_once(numbers: &[u32], of: impl Iterator<Item = u32>, what: &str) {
    assert_eq!(numbers, of.collect::<Vec<_>>(), "{what}");
}

/// Each number at least once; without repetitions, in order.
fn assert_each_in_order(numbers: &[u32], of: impl Iterator<Item = u32>, what: &str) {
    let mut seen = BTreeSet::new();
    let first: Vec<u32> = numbers.iter().copied().filter(|number| seen.insert(*number)).collect();
    assert_each_once(&first, of, what);
}

fn live(seed: u64, version: ProtocolVersion) -> usize {
    const MESSAGES: u32 = 240;
    let mut world = World::new(seed, version);
    let (mut sent, mut served) = (0, 0);
    let subscribe = Subscribe::to("t").qos(QoS::ExactlyOnce);
    world.machine.subscribe(&subscribe, 0, &mut world.application).expect("taken");
    while sent < MESSAGES || served < MESSAGES {
        world.now_ms += 1;
        match world.random.below(8) {
            0 | 1 if sent < MESSAGES => {
                publish(&mut world, sent);
                sent += 1;
            }
            2 | 3 if served < MESSAGES && world.server.subscribed > 0 => {
                let qos = if served % 2 == 0 { QoS::AtLeastOnce } else { QoS::ExactlyOnce };
                world.server.publish(served, qos);
                served += 1;
            }
            4 => world.acknowledge_some(false),
            5 if world.random.chance(6) => world.lose(),
            _ if !world.connected => world.connect(),
            _ => world.travel(false),
        }
    }
    world.settle();
    let numbers = |qos: u8| (0..MESSAGES).filter(move |number| number % 3 == u32::from(qos));
    assert_each_in_order(&world.server.received[1], numbers(1), "QoS 1 to the server");
    assert_each_once(&world.server.received[2], numbers(2), "QoS 2 to the server");
    for number in (0..MESSAGES).filter(|number| number % 3 != 0) {
        assert!(matches!(world.application.resolved.get(&number), Some(Ok(()))), "message {number} is not resolved");
    }
    let even = (0..MESSAGES).filter(|number| number % 2 == 0);
    let odd = (0..MESSAGES).filter(|number| number % 2 == 1);
    assert_each_in_order(&world.application.received[&QoS::AtLeastOnce], even, "QoS 1 to the client");
    assert_each_once(&world.application.received[&QoS::ExactlyOnce], odd, "QoS 2 to the client");
    assert_eq!(world.application.subscribed, 1, "the subscription is answered once");
    world.losses
}

#[test]
fn no_message_is_lost_duplicated_or_reordered() {
    let mut losses = 0;
    for seed in 0..150 {
        losses += live(seed, ProtocolVersion::V5);
        losses += live(seed, ProtocolVersion::V3_1_1);
    }
    assert!(losses > 1000, "{losses} connections were lost; the test tests nothing");
}

#[test]
fn every_message_is_acknowledged_even_if_sessions_are_lost() {
    for seed in 0..150 {
        let mut world = World::new(seed, ProtocolVersion::V5);
        let subscribe = Subscribe::to("t").qos(QoS::ExactlyOnce);
        world.machine.subscribe(&subscribe, u32::MAX, &mut world.application).expect("taken");
        let mut told = 0;
        for number in 0..200 {
            world.now_ms += 1;
            publish(&mut world, number);
            match world.random.below(12) {
                0 => {
                    world.lose();
                    // A client that has not noticed the loss cannot distinguish the new session from its own.
                    if world.application.connected == told {
                        world.server.forget();
                    }
                }
                1 => {
                    world.lose();
                    world.server.forget();
                    told = world.application.connected;
                }
                _ if !world.connected => world.connect(),
                _ => world.travel(false),
            }
        }
        world.settle();
        for number in (0..200u32).filter(|number| number % 3 != 0) {
            let taken = world.server.received[number as usize % 3].iter().filter(|taken| **taken == number).count();
            match &world.application.resolved[&number] {
                Ok(()) => assert!(taken >= 1, "message {number} is acknowledged and lost"),
                Err(Error::SessionLost) => assert_eq!(number % 3, 2, "only QoS 2 gives up"),
                Err(error) => panic!("{error}"),
            }
            assert!(number % 3 == 1 || taken <= 1, "QoS 2 message {number} came {taken} times");
        }
        assert!(world.server.subscribed >= 1);
    }
}
