//! Messages that cross from one shard to another while the log is behind, and a crash: whatever was acknowledged reaches
//! everybody whose session lasts, what has QoS 2 reaches them once, and each publisher's order is kept.

use std::collections::BTreeMap;

use tautwire_engine::Settings;
use tautwire_protocol::{
    DecodeOptions, Delivery, Packet, PacketId, Properties, ProtocolVersion, Publish, QoS, RetainHandling, TopicName,
    decode,
};

use crate::journal::{SharedLog, SlowJournal};
use crate::ledger::Request;
use crate::packets::{connect_bytes, subscribe_bytes};
use crate::random_clients::{Named, seeds};
use crate::support::{Choices, Random, SimulatedBroker, SocketId};
use crate::world::{RETAINED, returning};

const PUBLISHERS: usize = 4;
/// Each has subscribed for itself.
const SUBSCRIBERS: usize = 5;
/// They share a subscription.
const MEMBERS: usize = 4;
const STEPS: usize = 150;

#[derive(Default)]
struct Publisher {
    name: String,
    socket: Option<SocketId>,
    /// What it has published, and whether it knows that the broker has it.
    published: Vec<(QoS, bool)>,
}

struct World {
    broker: SimulatedBroker<SlowJournal>,
    log: SharedLog,
    random: Random,
    publishers: Vec<Publisher>,
    subscribers: Vec<String>,
    members: Vec<String>,
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random::new(seed);
        let log = SharedLog::default();
        log.become_instant();
        let settings = Settings {
            shard_queue_batches: 2 + random.below(8),
            sys_interval_s: 0,
            in_flight_per_client: 10_000,
            ..Settings::default()
        };
        let shards = 2 + random.below(3);
        let broker = SimulatedBroker::new(shards, settings, RETAINED, |shard| log.journal(shard));
        let names = |what: &str, count: usize| (0..count).map(|n| format!("{what}-{n}")).collect::<Vec<_>>();
        let publishers = names("publisher", PUBLISHERS).into_iter();
        let mut world = World {
            broker,
            log,
            random,
            publishers: publishers.map(|name| Publisher { name, ..Publisher::default() }).collect(),
            subscribers: names("subscriber", SUBSCRIBERS),
            members: names("member", MEMBERS),
        };
        let subscribers = world.subscribers.iter().map(|name| (name, "m/+"));
        let members = world.members.iter().map(|name| (name, "$share/g/m/#"));
        let all: Vec<_> = subscribers.chain(members).map(|(name, filter)| (name.clone(), filter)).collect();
        for (name, filter) in all {
            let socket = world.connect(&name);
            let request = Request {
                filter: filter.into(),
                qos: QoS::ExactlyOnce,
                no_local: false,
                retain_as_published: false,
                retain_handling: RetainHandling::SendAtSubscribe,
                identifier: None,
            };
            world.broker.send(socket, &subscribe_bytes(ProtocolVersion::V5, id(1), &[request]));
        }
        world.settle();
        world.broker.cut_all_but(&[]);
        world.connect_publishers();
        world
    }

    fn connect(&mut self, name: &str) -> SocketId {
        let shard = self.random.below(self.broker.shards());
        let socket = self.broker.connect(shard, 1 << 30);
        self.broker.send(socket, &connect_bytes(name, ProtocolVersion::V5, &returning(), None));
        socket
    }

    fn connect_publishers(&mut self) {
        for index in 0..PUBLISHERS {
            let name = self.publishers[index].name.clone();
            self.publishers[index].socket = Some(self.connect(&name));
        }
        self.settle();
    }

    fn settle(&mut self) {
        self.broker.settle(&mut self.random);
    }

    fn publish(&mut self, index: usize, number: usize, dup: bool) {
        let Publisher { socket, published, .. } = &self.publishers[index];
        let packet_id = id(number as u16 + 1);
        let delivery = match published[number].0 {
            QoS::ExactlyOnce => Delivery::ExactlyOnce { packet_id, dup },
            _ => Delivery::AtLeastOnce { packet_id, dup },
        };
        let payload = format!("{index}:{number}");
        let topic = TopicName::new("m/x").ok();
        let publish =
            Publish { delivery, retain: false, topic, properties: Properties::EMPTY, payload: payload.as_bytes() };
        let mut bytes = Vec::new();
        publish.append_to(ProtocolVersion::V5, &mut bytes).expect("our PUBLISH is valid");
        self.broker.send(socket.expect("it is connected"), &bytes);
    }

    fn step(&mut self) {
        if self.random.chance(40) {
            let index = self.random.below(PUBLISHERS);
            let qos = self.random.pick(&[QoS::AtLeastOnce, QoS::ExactlyOnce]);
            self.publishers[index].published.push((qos, false));
            let number = self.publishers[index].published.len() - 1;
            self.publish(index, number, false);
        }
        let shard = self.random.below(self.broker.shards());
        self.broker.turn(shard, &mut self.random);
        if self.random.chance(10) {
            let takes_none = self.random.chance(50);
            self.log.take_no_frames(takes_none);
            self.broker.wake_all();
        }
        if self.random.chance(15) {
            self.log.make_durable(&mut self.random);
            self.broker.wake_all();
        }
    }

    /// Notes what publishers have been told.
    fn read_answers(&mut self) {
        for index in 0..PUBLISHERS {
            let socket = self.publishers[index].socket.expect("it is connected");
            let answered = each_packet(&self.broker.take(socket, usize::MAX), |packet| match packet {
                Packet::PubAck(ack) => Some(ack.packet_id),
                Packet::PubRec(ack) => Some(ack.packet_id),
                _ => None,
            });
            for packet_id in answered {
                self.publishers[index].published[usize::from(packet_id.get()) - 1].1 = true;
            }
        }
    }

    fn crash(&mut self) {
        self.broker.cut_all_but(&[]);
        self.log.crash();
        let shards = 1 + self.random.below(4);
        let log = self.log.clone();
        self.broker.restart(shards, RETAINED, self.log.replay(), |shard| log.journal(shard));
    }

    fn resend(&mut self) {
        for index in 0..PUBLISHERS {
            for number in 0..self.publishers[index].published.len() {
                if !self.publishers[index].published[number].1 {
                    self.publish(index, number, true);
                }
            }
        }
    }

    /// What a client gets when it comes: payloads in the order of their first arrival, and how often each came.
    fn received(&mut self, name: &str) -> (Vec<String>, BTreeMap<String, usize>) {
        let socket = self.connect(name);
        self.settle();
        let payloads = each_packet(&self.broker.take(socket, usize::MAX), |packet| match packet {
            Packet::Publish(publish) => Some(String::from_utf8_lossy(publish.payload).into_owned()),
            _ => None,
        });
        let (mut order, mut counts) = (Vec::new(), BTreeMap::new());
        for payload in payloads {
            let count = counts.entry(payload.clone()).or_default();
            *count += 1;
            if *count == 1 {
                order.push(payload);
            }
        }
        (order, counts)
    }

    fn check(&mut self) {
        for name in self.subscribers.clone() {
            let (order, counts) = self.received(&name);
            self.check_counts(&name, &counts);
            for index in 0..PUBLISHERS {
                let of_one: Vec<usize> = order.iter().filter_map(|payload| number_of(payload, index)).collect();
                let of_qos_2: Vec<_> = of_one.into_iter().filter(|number| self.is_qos_2(index, *number)).collect();
                assert!(of_qos_2.is_sorted(), "{name} got what publisher {index} sent out of order: {of_qos_2:?}");
            }
        }
        let mut counts = BTreeMap::<String, usize>::new();
        for name in self.members.clone() {
            for (payload, count) in self.received(&name).1 {
                *counts.entry(payload).or_default() += count;
            }
        }
        self.check_counts("the group", &counts);
    }

    fn is_qos_2(&self, index: usize, number: usize) -> bool {
        self.publishers[index].published[number].0 == QoS::ExactlyOnce
    }

    fn check_counts(&self, name: &str, counts: &BTreeMap<String, usize>) {
        for (index, publisher) in self.publishers.iter().enumerate() {
            for (number, (qos, _)) in publisher.published.iter().enumerate() {
                let count = counts.get(&format!("{index}:{number}")).copied().unwrap_or_default();
                let is_right = if *qos == QoS::ExactlyOnce { count == 1 } else { count >= 1 };
                assert!(is_right, "{name} got message {number} of publisher {index} {count} times, {qos:?}");
            }
        }
    }
}

pub(crate) fn each_packet<T>(bytes: &[u8], mut look: impl FnMut(&Packet<'_>) -> Option<T>) -> Vec<T> {
    let (mut rest, mut found) = (bytes, Vec::new());
    while let Ok((packet, length)) = decode(rest, &DecodeOptions::new(ProtocolVersion::V5)) {
        found.extend(look(&packet));
        rest = &rest[length..];
    }
    found
}

fn number_of(payload: &str, publisher: usize) -> Option<usize> {
    let (index, number) = payload.split_once(':')?;
    (index.parse() == Ok(publisher)).then(|| number.parse().ok())?
}

pub(crate) fn id(n: u16) -> PacketId {
    PacketId::new(n).expect("not zero")
}

#[test]
fn what_is_on_its_way_between_shards_survives_a_crash() {
    for seed in seeds() {
        let _named = Named(seed);
        let mut world = World::new(seed);
        for _ in 0..1 + seed % 3 {
            world.log.fall_behind();
            for _ in 0..STEPS {
                world.step();
            }
            world.read_answers();
            world.crash();
            world.log.become_instant();
            world.connect_publishers();
            world.resend();
            world.settle();
            world.read_answers();
            assert!(world.publishers.iter().flat_map(|publisher| &publisher.published).all(|(_, told)| *told));
        }
        world.check();
    }
}
