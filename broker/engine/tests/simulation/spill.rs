//! Messages that are spilled and loaded again: their order is kept and none is lost, even if the disk fails.

use std::cell::Cell;
use std::rc::Rc;

use tautwire_engine::Settings;
use tautwire_memory::Kind;
use tautwire_message::MessageId;
use tautwire_protocol::{Delivery, Packet, Properties, ProtocolVersion, Publish, QoS, RetainHandling, TopicName};
use tautwire_router::RetainedLimits;
use tautwire_session::{Journal, LogPosition, Record, SessionNumber};
use tautwire_spill::Faults;

use crate::ledger::Request;
use crate::packets::{ConnectOptions, connect_bytes, each_packet, id, subscribe_bytes};
use crate::random_clients::{SeedReporter, seeds};
use crate::support::{Choices, NoDelays, Random, SimulatedBroker, SocketId};
use crate::world::{Plan, RETAINED, World, returning, settings};

/// A journal whose records are durable at once, unless it stalls. It holds no messages in memory.
pub(crate) struct PromptLog {
    sessions: Rc<Cell<u64>>,
    ended: u64,
    /// While it stalls, it is durable up to this position.
    stalls_at: Rc<Cell<Option<u64>>>,
}

impl PromptLog {
    pub(crate) fn for_all_shards() -> impl FnMut(usize) -> PromptLog {
        PromptLog::stalling(Rc::default())
    }

    fn stalling(stalls_at: Rc<Cell<Option<u64>>>) -> impl FnMut(usize) -> PromptLog {
        let sessions = Rc::new(Cell::new(0));
        move |_| PromptLog { sessions: sessions.clone(), ended: 0, stalls_at: stalls_at.clone() }
    }
}

impl Journal for PromptLog {
    const PERSISTENT: bool = true;

    fn next_session(&mut self) -> SessionNumber {
        self.sessions.set(self.sessions.get() + 1);
        SessionNumber(self.sessions.get())
    }

    fn record(&mut self, record: Record<'_>) -> LogPosition {
        if let Record::Changed { change, .. } = record {
            use tautwire_session::Change::{Queued, Started};
            if let Queued(delivery) | Started(delivery) = change {
                assert!(delivery.message.loaded().is_some(), "a recorded message is spilled");
            }
        }
        LogPosition(self.ended + 1)
    }

    fn mark_forwarded(&mut self, _: MessageId) {}

    fn end_frame(&mut self) {
        self.ended += 1;
    }

    fn has_submitted_all(&self) -> bool {
        true
    }

    fn durable(&self) -> LogPosition {
        LogPosition(self.stalls_at.get().unwrap_or(self.ended))
    }

    fn is_lagging(&self) -> bool {
        false
    }
}

fn plan(random: &mut Random) -> Plan {
    Plan {
        shards: 1 + random.below(3),
        clients: 2 + random.below(6),
        steps: random.pick(&[500, 1_500]),
        prompt_clients: random.chance(20),
    }
}

#[test]
fn spilled_messages_arrive_as_guaranteed() {
    let (mut written, mut read) = (0, 0);
    for seed in seeds() {
        let _reporter = SeedReporter(seed);
        let mut random = Random::new(!seed);
        let settings = Settings { spill_threshold_bytes: random.pick(&[0, 0, 5_000, 50_000]), ..settings(&mut random) };
        let plan = plan(&mut random);
        let mut world = World::new(seed, plan.clone(), settings, PromptLog::for_all_shards());
        let store = world.broker.connect_spill_store();
        world.run().unwrap_or_else(|error| panic!("{plan:?}: {error}"));
        let counts = store.counts();
        (written, read) = (written + counts.1, read + counts.2);
        assert_eq!(world.broker.totals().spill_lost, 0);
    }
    if seeds().count() >= 200 {
        assert!(written > 1_000 && read > 1_000, "{written} messages were written and {read} were read");
    }
}

/// Reads and writes sometimes fail. A client waits for an unreadable message and receives it when the disk works again.
#[test]
fn a_temporary_disk_failure_loses_nothing() {
    for seed in seeds() {
        let _reporter = SeedReporter(seed);
        let mut random = Random::new(!seed ^ 0xFA17);
        let settings = Settings {
            spill_threshold_bytes: random.pick(&[0, 5_000]),
            memory_bytes: 8 << 20,
            memory_bytes_per_client: 8 << 20,
            receive_maximum: 20,
            ..settings(&mut random)
        };
        let plan = plan(&mut random);
        let mut world = World::new(seed, plan.clone(), settings, PromptLog::for_all_shards());
        let store = world.broker.connect_spill_store();
        for _ in 0..plan.steps {
            if random.chance(3) {
                store.set_faults(Faults {
                    writing: random.chance(30),
                    creating: random.chance(10),
                    reading: random.chance(30),
                    flipping: random.chance(30),
                });
            }
            world.step().unwrap_or_else(|error| panic!("{plan:?}: {error}"));
        }
        store.set_faults(Faults::default());
        // Failed operations are retried each second, and others wait for them.
        for _ in 0..20 {
            world.broker.advance(2_000);
            world.exchange_all().unwrap_or_else(|error| panic!("{plan:?}: {error}"));
        }
        world.finish().unwrap_or_else(|error| panic!("{plan:?}: {error}"));
        assert_eq!(world.broker.totals().spill_lost, 0);
    }
}

/// The clients read and do not acknowledge. Their Receive Maximum is large, or 1, so that the other messages are queued.
#[test]
fn pending_messages_of_slow_connected_clients_are_spilled() {
    const CLIENTS: usize = 20;
    const MESSAGES: u16 = 12;
    const PAYLOAD_BYTES: usize = 8 << 10;
    const SPILL_THRESHOLD_BYTES: usize = 64 << 10;
    for (qos, receive_maximum) in
        [(QoS::AtLeastOnce, 65_535), (QoS::ExactlyOnce, 65_535), (QoS::AtLeastOnce, 1), (QoS::ExactlyOnce, 1)]
    {
        let settings =
            Settings { sys_interval_s: 0, spill_threshold_bytes: SPILL_THRESHOLD_BYTES, ..Settings::default() };
        let mut broker = SimulatedBroker::new(1, settings, RETAINED, PromptLog::for_all_shards());
        broker.connect_spill_store();
        let connect = |broker: &mut SimulatedBroker<PromptLog>, number: usize, receive_maximum| {
            let socket = broker.connect(0, 1 << 30);
            let options =
                ConnectOptions { expiry_interval_s: 3_600, receive_maximum: Some(receive_maximum), ..returning() };
            broker.send(socket, &connect_bytes(&number.to_string(), ProtocolVersion::V5, &options, None));
            socket
        };
        let slow: Vec<SocketId> = (0..CLIENTS).map(|number| connect(&mut broker, number, receive_maximum)).collect();
        for (number, socket) in slow.iter().enumerate() {
            let request = Request {
                filter: number.to_string(),
                qos,
                no_local: false,
                retain_as_published: false,
                retain_handling: RetainHandling::SendAtSubscribe,
                identifier: None,
            };
            broker.send(*socket, &subscribe_bytes(ProtocolVersion::V5, id(1), &[request]));
        }
        let publisher = connect(&mut broker, CLIENTS, 65_535);
        for number in 0..MESSAGES {
            for topic in (0..CLIENTS).map(|client| client.to_string()) {
                let delivery = match qos {
                    QoS::ExactlyOnce => Delivery::ExactlyOnce { packet_id: id(number + 1), dup: false },
                    _ => Delivery::AtLeastOnce { packet_id: id(number + 1), dup: false },
                };
                let payload = [&number.to_be_bytes()[..], &[0; PAYLOAD_BYTES]].concat();
                let topic = TopicName::new(&topic).ok();
                let (retain, properties) = (false, Properties::EMPTY);
                let publish = Publish { delivery, retain, topic, properties, payload: &payload };
                let mut bytes = Vec::new();
                publish.append_to(ProtocolVersion::V5, &mut bytes).expect("a valid packet");
                broker.send(publisher, &bytes);
                if qos == QoS::ExactlyOnce {
                    let released = tautwire_protocol::PubRel::success(id(number + 1));
                    let mut bytes = Vec::new();
                    Packet::PubRel(released).append_to(ProtocolVersion::V5, &mut bytes).expect("a valid packet");
                    broker.send(publisher, &bytes);
                }
                broker.settle(&mut NoDelays);
            }
        }
        for _ in 0..4 {
            broker.advance(1_000);
            broker.wake_all();
            broker.settle(&mut NoDelays);
        }
        let loaded_bytes = broker.memory().held(Kind::Message);
        assert!(
            loaded_bytes <= SPILL_THRESHOLD_BYTES as u64 + 2 * PAYLOAD_BYTES as u64,
            "{loaded_bytes} bytes of {qos:?} are in memory, Receive Maximum {receive_maximum}"
        );
        for number in 0..CLIENTS {
            let back = connect(&mut broker, number, 65_535);
            broker.settle(&mut NoDelays);
            let bytes = broker.take(back, usize::MAX);
            let seen = each_packet(&bytes, |packet| match packet {
                Packet::Publish(publish) => Some(u16::from_be_bytes([publish.payload[0], publish.payload[1]])),
                _ => None,
            });
            assert_eq!(seen, (0..MESSAGES).collect::<Vec<_>>());
        }
        assert_eq!(broker.totals().spill_lost, 0);
    }
}

/// New retained messages are spilled at once, however many others there are.
#[test]
fn retained_messages_are_spilled_in_the_turn_in_which_they_arrive() {
    const SMALL: usize = 50_000;
    const LARGE: usize = 100;
    const PAYLOAD_BYTES: usize = 8 << 10;
    const SPILL_THRESHOLD_BYTES: usize = 4 << 20;
    let settings = Settings { sys_interval_s: 0, spill_threshold_bytes: SPILL_THRESHOLD_BYTES, ..Settings::default() };
    let limits = RetainedLimits { messages: 1 << 20, bytes: 1 << 30 };
    let mut broker = SimulatedBroker::new(1, settings, limits, PromptLog::for_all_shards());
    let store = broker.connect_spill_store();
    let socket = broker.connect(0, 1 << 30);
    broker.send(socket, &connect_bytes("p", ProtocolVersion::V5, &returning(), None));
    let retain = |broker: &mut SimulatedBroker<PromptLog>, topic: &str, payload: &[u8]| {
        let (delivery, topic) = (Delivery::AtMostOnce, TopicName::new(topic).ok());
        let publish = Publish { delivery, retain: true, topic, properties: Properties::EMPTY, payload };
        let mut bytes = Vec::new();
        publish.append_to(ProtocolVersion::V5, &mut bytes).expect("a valid packet");
        broker.send(socket, &bytes);
    };
    // Too small to be spilled.
    (0..SMALL).for_each(|number| retain(&mut broker, &format!("a/{number}"), &[0; 80]));
    broker.settle(&mut NoDelays);
    let before = broker.exchange().retained_loaded_bytes();
    assert!(before > SPILL_THRESHOLD_BYTES as u64, "{before}");
    // One is replaced before it is spilled.
    (0..LARGE).for_each(|number| retain(&mut broker, &format!("z/{number}"), &[1; PAYLOAD_BYTES]));
    retain(&mut broker, "z/0", &[2; PAYLOAD_BYTES]);
    for _ in 0..4 {
        broker.turn(0, &mut NoDelays);
        while let Some(shard) = store.serve(&mut NoDelays) {
            broker.wake(shard);
        }
    }
    let loaded_bytes = broker.exchange().retained_loaded_bytes();
    assert!(loaded_bytes <= before + PAYLOAD_BYTES as u64, "{} more bytes are in memory", loaded_bytes - before);
    let replaced = broker.exchange().retained_message("z/0").expect("the message is retained");
    assert_eq!(store.payload(replaced.spilled().expect("the message is spilled")), [2; PAYLOAD_BYTES]);
    drop(replaced);

    // Messages that are cleared before they are spilled are freed.
    (0..LARGE).for_each(|number| retain(&mut broker, &format!("z/{number}"), &[3; PAYLOAD_BYTES]));
    (0..SMALL).for_each(|number| retain(&mut broker, &format!("a/{number}"), b""));
    (0..LARGE).for_each(|number| retain(&mut broker, &format!("z/{number}"), b""));
    broker.settle(&mut NoDelays);
    assert_eq!((broker.exchange().retained().0, broker.memory().held(Kind::Message)), (0, 0));
}

/// QoS 2 messages are in flight and not sent while the log stalls, however long that takes.
#[test]
fn messages_that_wait_for_the_log_stay_in_memory() {
    const MESSAGES: u16 = 20;
    const PAYLOAD_BYTES: usize = 8 << 10;
    let stalls_at = Rc::new(Cell::new(None));
    let settings = Settings { sys_interval_s: 0, spill_threshold_bytes: 0, ..Settings::default() };
    let mut broker = SimulatedBroker::new(1, settings, RETAINED, PromptLog::stalling(stalls_at.clone()));
    broker.connect_spill_store();
    let connect = |broker: &mut SimulatedBroker<PromptLog>, name: &str| {
        let socket = broker.connect(0, 1 << 30);
        broker.send(socket, &connect_bytes(name, ProtocolVersion::V5, &returning(), None));
        broker.settle(&mut NoDelays);
        socket
    };
    let (subscriber, publisher) = (connect(&mut broker, "s"), connect(&mut broker, "p"));
    let request = Request {
        filter: "t".into(),
        qos: QoS::ExactlyOnce,
        no_local: false,
        retain_as_published: false,
        retain_handling: RetainHandling::SendAtSubscribe,
        identifier: None,
    };
    broker.send(subscriber, &subscribe_bytes(ProtocolVersion::V5, id(1), &[request]));
    broker.settle(&mut NoDelays);
    broker.take(subscriber, usize::MAX);
    stalls_at.set(Some(0));
    for number in 1..=MESSAGES {
        let delivery = Delivery::ExactlyOnce { packet_id: id(number), dup: false };
        let topic = TopicName::new("t").ok();
        let (retain, properties) = (false, Properties::EMPTY);
        let publish = Publish { delivery, retain, topic, properties, payload: &[0; PAYLOAD_BYTES] };
        let mut bytes = Vec::new();
        publish.append_to(ProtocolVersion::V5, &mut bytes).expect("a valid packet");
        broker.send(publisher, &bytes);
    }
    for _ in 0..5 {
        broker.settle(&mut NoDelays);
        broker.advance(1_000);
        broker.wake_all();
    }
    assert!(broker.take(subscriber, usize::MAX).is_empty(), "a message was sent while the log stalls");
    stalls_at.set(None);
    broker.wake_all();
    broker.settle(&mut NoDelays);
    let bytes = broker.take(subscriber, usize::MAX);
    let sent = each_packet(&bytes, |packet| matches!(packet, Packet::Publish(_)).then_some(()));
    assert_eq!((sent.len(), broker.totals().spill_lost), (usize::from(MESSAGES), 0));
}
