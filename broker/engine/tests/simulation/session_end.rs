//! A session ends with many pending messages of a shared subscription, and the broker crashes meanwhile, perhaps more than once.
//!
//! Each acknowledged message reaches another member, and no QoS 2 message arrives twice.

use std::collections::{BTreeMap, BTreeSet};

use tautwire_engine::Settings;
use tautwire_protocol::{
    Delivery, Disconnect, DisconnectReason, Packet, Properties, Property, ProtocolVersion, Publish, QoS,
    RetainHandling, TopicName,
};
use tautwire_session::{Change, Record, Replay, SessionNumber};

use crate::journal::{SharedLog, SlowJournal};
use crate::ledger::Request;
use crate::packets::{ConnectOptions, connect_bytes, each_packet, id, subscribe_bytes};
use crate::random_clients::{SeedReporter, seeds};
use crate::support::{Choices, Random, SimulatedBroker, SocketId};
use crate::world::{RETAINED, returning};

const SHARED: &str = "$share/g/m/#";
const ENDING: &str = "ending";

/// How the session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EndCause {
    /// The client connects with Clean Start.
    CleanStart,
    /// The session expires.
    Expiry,
    /// The client sends DISCONNECT with Session Expiry Interval 0.
    Disconnect,
    /// The session is no longer persistent, and the connection breaks.
    ConnectionLoss,
}

struct World {
    broker: SimulatedBroker<SlowJournal>,
    log: SharedLog,
    random: Random,
    /// The QoS of each message of the shared subscription.
    published: Vec<QoS>,
    /// The messages that were sent to the client before its session ended.
    sent: BTreeSet<String>,
    client: Option<SocketId>,
    options: ConnectOptions,
    others: Vec<String>,
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random::new(seed ^ 0xE7D);
        let log = SharedLog::default();
        log.sync_immediately();
        let has_spill_store = random.chance(30);
        let settings = Settings {
            sys_interval_s: 0,
            in_flight_per_client: 10_000,
            receive_maximum: 65_535,
            spill_threshold_bytes: if has_spill_store { 0 } else { 1 << 30 },
            shard_queue_batches: 2 + random.below(8),
            ..Settings::default()
        };
        let shards = 1 + random.below(3);
        let mut broker = SimulatedBroker::new(shards, settings, RETAINED, |shard| log.journal(shard));
        if has_spill_store {
            broker.connect_spill_store();
        }
        let options = ConnectOptions { receive_maximum: Some(1 + random.below(40) as u16), ..returning() };
        let others = (0..1 + random.below(3)).map(|n| format!("other-{n}")).collect();
        let (published, sent) = (Vec::new(), BTreeSet::new());
        World { broker, log, random, published, sent, client: None, options, others }
    }

    fn connect(&mut self, name: &str, options: &ConnectOptions) -> SocketId {
        let shard = self.random.below(self.broker.shards());
        let socket = self.broker.connect(shard, 1 << 30);
        self.broker.send(socket, &connect_bytes(name, ProtocolVersion::V5, options, None));
        socket
    }

    fn subscribe(&mut self, socket: SocketId, filter: &str) {
        let request = Request {
            filter: filter.into(),
            qos: QoS::ExactlyOnce,
            no_local: false,
            retain_as_published: false,
            retain_handling: RetainHandling::SendAtSubscribe,
            identifier: None,
        };
        self.broker.send(socket, &subscribe_bytes(ProtocolVersion::V5, id(1), &[request]));
    }

    fn settle(&mut self) {
        self.broker.settle(&mut self.random);
    }

    /// Publishes messages while the client is the only member. Some of them match only the client's own subscription.
    fn queue_messages(&mut self, cause: EndCause) {
        let options = self.options.clone();
        let socket = self.connect(ENDING, &options);
        self.subscribe(socket, SHARED);
        self.subscribe(socket, "own/#");
        self.settle();
        if self.random.chance(50) {
            self.broker.cut(socket);
        }
        self.publish();
        self.record_sent(socket);
        let comes_back = matches!(cause, EndCause::Disconnect | EndCause::ConnectionLoss) || self.random.chance(50);
        self.broker.cut(socket);
        self.settle();
        if comes_back {
            let expiry_interval_s = if cause == EndCause::ConnectionLoss { 0 } else { options.expiry_interval_s };
            let socket = self.connect(ENDING, &ConnectOptions { expiry_interval_s, ..options });
            self.settle();
            self.record_sent(socket);
            self.client = Some(socket);
        }
        for name in self.others.clone() {
            let socket = self.connect(&name, &without_expiry());
            self.subscribe(socket, SHARED);
            self.settle();
            self.broker.cut(socket);
        }
        self.settle();
    }

    fn publish(&mut self) {
        let publisher = self.connect("publisher", &returning());
        let qos_2 = self.random.pick(&[0, 20, 100]);
        let own = self.random.pick(&[0, 0, 50, 90]);
        let all = 300 + self.random.below(1_500);
        for number in 0..all {
            let is_own = self.random.chance(own);
            let qos = if self.random.chance(qos_2) { QoS::ExactlyOnce } else { QoS::AtLeastOnce };
            let packet_id = id(number as u16 + 1);
            let (topic, payload) = match is_own {
                true => ("own/x", format!("own {number:>100}")),
                false => ("m/x", format!("{:>100}", self.published.len())),
            };
            if !is_own {
                self.published.push(qos);
            }
            let publish = Publish {
                delivery: match qos {
                    QoS::ExactlyOnce => Delivery::ExactlyOnce { packet_id, dup: false },
                    _ => Delivery::AtLeastOnce { packet_id, dup: false },
                },
                retain: false,
                topic: TopicName::new(topic).ok(),
                properties: Properties::EMPTY,
                payload: payload.as_bytes(),
            };
            let mut bytes = Vec::new();
            publish.append_to(ProtocolVersion::V5, &mut bytes).expect("our PUBLISH is valid");
            self.broker.send(publisher, &bytes);
        }
        self.settle();
        let answers = each_packet(&self.broker.take(publisher, usize::MAX), |packet| {
            matches!(packet, Packet::PubAck(_) | Packet::PubRec(_)).then_some(())
        });
        assert_eq!(answers.len(), all, "some messages are not acknowledged");
        self.broker.cut(publisher);
    }

    fn record_sent(&mut self, socket: SocketId) {
        let sent = payloads(&self.broker.take(socket, usize::MAX));
        self.sent.extend(sent);
    }

    fn end(&mut self, cause: EndCause) {
        match cause {
            EndCause::CleanStart => {
                let socket = self.connect(ENDING, &ConnectOptions { clean_start: true, ..returning() });
                if self.random.chance(30) {
                    self.subscribe(socket, SHARED);
                }
            }
            EndCause::Expiry => {
                if let Some(client) = self.client {
                    self.broker.cut(client);
                    self.settle();
                }
                self.broker.advance(u64::from(self.options.expiry_interval_s) * 1_000 + 1_000);
            }
            EndCause::Disconnect => {
                let properties = [Property::SessionExpiryInterval(0)];
                let properties = Properties::from_list(&properties);
                let goodbye = Disconnect { reason: DisconnectReason::NormalDisconnection, properties };
                let mut bytes = Vec::new();
                Packet::Disconnect(goodbye)
                    .append_to(ProtocolVersion::V5, &mut bytes)
                    .expect("our DISCONNECT is valid");
                self.broker.send(self.client.expect("the client is connected"), &bytes);
            }
            EndCause::ConnectionLoss => self.broker.cut(self.client.expect("the client is connected")),
        }
    }

    fn run_some_turns(&mut self) {
        for _ in 0..self.random.below(40) {
            let shard = self.random.below(self.broker.shards());
            self.broker.turn(shard, &mut self.random);
            if self.random.chance(10) {
                let holds = self.random.chance(50);
                self.log.hold_frames(holds);
                self.broker.wake_all();
            }
            if self.random.chance(40) {
                self.log.make_durable(&mut self.random);
                self.broker.wake_all();
            }
        }
    }

    /// Crashes the broker and restarts it with another number of shards from the durable records, or from a snapshot of them.
    fn crash(&mut self) {
        self.broker.cut_all_but(&[]);
        self.log.crash();
        self.log.hold_frames(false);
        let shards = 1 + self.random.below(3);
        let log = self.log.clone();
        let replay = if self.random.chance(50) { replay_through_snapshot(&log.replay()) } else { log.replay() };
        self.broker.restart(shards, RETAINED, replay, |shard| log.journal(shard));
    }

    fn received(&mut self, name: &str) -> Vec<String> {
        let socket = self.connect(name, &without_expiry());
        self.settle();
        payloads(&self.broker.take(socket, usize::MAX))
    }

    fn check(&mut self) {
        let mut clients = BTreeSet::new();
        for replayed in self.log.replay().sessions() {
            let session = &replayed.session;
            assert!(session.expiry_interval_s() > 0, "the ended session of {} still exists", session.client_id());
            assert!(clients.insert(session.client_id().to_owned()), "{} has two sessions", session.client_id());
        }
        let mut counts = BTreeMap::<String, usize>::new();
        for name in self.others.clone() {
            for payload in self.received(&name) {
                assert!(!payload.starts_with("own"), "{payload} was for another client");
                *counts.entry(payload).or_default() += 1;
            }
        }
        // A QoS 2 message that was sent to one member must not go to another [MQTT-4.8.2-5].
        let was_sent = |number: usize| self.sent.contains(&number.to_string());
        for (number, qos) in self.published.iter().enumerate() {
            let is_elsewhere = counts.contains_key(&number.to_string());
            assert!(
                *qos == QoS::AtLeastOnce || !was_sent(number) || !is_elsewhere,
                "message {number} was sent to two members"
            );
        }
        for payload in self.received(ENDING) {
            *counts.entry(payload).or_default() += 1;
        }
        for (number, qos) in self.published.iter().enumerate() {
            let count = counts.get(&number.to_string()).copied().unwrap_or_default();
            let is_right = match qos {
                QoS::ExactlyOnce if self.sent.contains(&number.to_string()) => count <= 1,
                QoS::ExactlyOnce => count == 1,
                _ => count >= 1,
            };
            let all = self.published.len();
            assert!(is_right, "message {number} of {all}, {qos:?}, arrived {count} times");
        }
    }
}

fn without_expiry() -> ConnectOptions {
    ConnectOptions { expiry_interval_s: u32::MAX, ..returning() }
}

fn payloads(bytes: &[u8]) -> Vec<String> {
    each_packet(bytes, |packet| match packet {
        Packet::Publish(publish) => Some(String::from_utf8_lossy(publish.payload).trim().to_owned()),
        _ => None,
    })
}

fn replay_through_snapshot(replay: &Replay) -> Replay {
    let mut read = Replay::default();
    let all = replay.describe(
        |_| None,
        |record| read.apply(record).unwrap_or_else(|error| panic!("the snapshot has an invalid record: {error}")),
    );
    all.expect("no message is spilled");
    read
}

#[test]
fn messages_of_an_ended_session_reach_other_members_despite_crashes() {
    for seed in seeds() {
        let _reporter = SeedReporter(seed);
        let mut world = World::new(seed);
        let cause = world.random.pick(&[
            EndCause::CleanStart,
            EndCause::Expiry,
            EndCause::Disconnect,
            EndCause::ConnectionLoss,
        ]);
        world.queue_messages(cause);
        world.log.stop_syncing();
        world.end(cause);
        for _ in 0..1 + world.random.below(3) {
            world.run_some_turns();
            world.crash();
        }
        world.log.sync_immediately();
        world.broker.wake_all();
        world.settle();
        world.check();
    }
}

/// The clock was so far ahead that adding the interval overflows. The session expires counted from the restart.
#[test]
fn a_session_disconnected_in_the_future_expires() {
    let log = SharedLog::default();
    log.sync_immediately();
    let settings = Settings { sys_interval_s: 0, ..Settings::default() };
    let mut broker = SimulatedBroker::new(1, settings, RETAINED, |shard| log.journal(shard));
    let session = SessionNumber(1);
    let mut replay = Replay::default();
    for record in [
        Record::Opened { session, client_id: "early", at_ms: u64::MAX },
        Record::Changed { session, change: &Change::ExpiryInterval(60), packet_id: None },
        Record::Left { session, at_ms: u64::MAX },
    ] {
        replay.apply(&record).expect("a valid record");
    }
    broker.restart(1, RETAINED, replay, |shard| log.journal(shard));
    for (ms, sessions) in [(59_000, 1), (2_000, 0)] {
        broker.advance(ms);
        broker.settle(&mut Random::new(1));
        assert_eq!(broker.totals().sessions, sessions, "after {ms} ms");
    }
}
