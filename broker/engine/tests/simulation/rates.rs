//! Clients that publish faster than their rate limit.
//!
//! No client exceeds its token bucket, no message is lost or reordered, and no client waits longer than necessary.

use tautwire_engine::Settings;
use tautwire_engine::Volatile;
use tautwire_protocol::{
    Connect, DecodeOptions, Delivery, OwnedPacket, Packet, PacketId, Properties, ProtocolVersion, Publish, QoS,
    RetainHandling, TopicName, decode,
};

use crate::ledger::Request;
use crate::packets::subscribe_bytes;
use crate::random_clients::{SeedReporter, seeds};
use crate::support::{Choices, NoDelays, Random, SimulatedBroker, SocketId};
use crate::world::{Plan, RETAINED, World, settings};

type Broker = SimulatedBroker<Volatile>;

const V: ProtocolVersion = ProtocolVersion::V3_1_1;
/// Longer than any publisher is silent before it has sent everything.
const KEEP_ALIVE_S: u16 = 60;
/// The step of the clock while publishers are paused.
const STEP_MS: usize = 10;

fn bytes_of(packet: &Packet<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet.append_to(V, &mut bytes).expect("our packets are valid");
    bytes
}

fn connect_as(broker: &mut Broker, client_id: &str, clean_start: bool, keep_alive_s: u16) -> SocketId {
    let socket = broker.connect(0, 1 << 30);
    let connect = Connect {
        version: V,
        clean_start,
        keep_alive_s,
        client_id,
        will: None,
        user_name: None,
        password: None,
        properties: Properties::EMPTY,
    };
    broker.send(socket, &bytes_of(&Packet::Connect(connect)));
    broker.settle(&mut NoDelays);
    assert_eq!(packets(broker, socket).len(), 1, "CONNACK");
    socket
}

/// Takes the packets that a client has received.
fn packets(broker: &mut Broker, socket: SocketId) -> Vec<OwnedPacket> {
    let bytes = broker.take(socket, usize::MAX);
    let mut rest = &bytes[..];
    let mut packets = Vec::new();
    while !rest.is_empty() {
        let (packet, length) = decode(rest, &DecodeOptions::new(V)).expect("the bytes are whole valid packets");
        packets.push(packet.to_owned_packet().expect("a decoded packet can be owned"));
        rest = &rest[length..];
    }
    packets
}

fn publish_bytes(qos: QoS, number: usize, topic: &str, payload: &[u8]) -> Vec<u8> {
    let packet_id = PacketId::new(number as u16 + 1).expect("not zero");
    let delivery = match qos {
        QoS::AtMostOnce => Delivery::AtMostOnce,
        QoS::AtLeastOnce => Delivery::AtLeastOnce { packet_id, dup: false },
        QoS::ExactlyOnce => Delivery::ExactlyOnce { packet_id, dup: false },
    };
    let topic = TopicName::new(topic).ok();
    bytes_of(&Packet::Publish(Publish { delivery, retain: false, topic, properties: Properties::EMPTY, payload }))
}

fn subscriber(broker: &mut Broker) -> SocketId {
    let socket = connect_as(broker, "subscriber", true, 0);
    let request = Request {
        filter: "#".into(),
        qos: QoS::AtMostOnce,
        no_local: false,
        retain_as_published: false,
        retain_handling: RetainHandling::SendAtSubscribe,
        identifier: None,
    };
    broker.send(socket, &subscribe_bytes(V, PacketId::new(1).expect("not zero"), &[request]));
    broker.settle(&mut NoDelays);
    broker.take(socket, usize::MAX);
    socket
}

/// A publisher with its sent packets and their arrivals.
struct Publisher {
    id: String,
    topic: String,
    qos: QoS,
    socket: SocketId,
    /// The lengths of the packets sent.
    sent: Vec<usize>,
    /// When each arrived.
    arrived_ms: Vec<u64>,
}

impl Publisher {
    fn publish(&mut self, broker: &mut Broker, payload_bytes: usize) {
        let mut payload = vec![b'x'; payload_bytes.max(4)];
        payload[..4].copy_from_slice(&(self.sent.len() as u32).to_be_bytes());
        let bytes = publish_bytes(self.qos, self.sent.len(), &self.topic, &payload);
        self.sent.push(bytes.len());
        broker.send(self.socket, &bytes);
    }

    /// Checks each sequence of consecutive packets: it fits into a full bucket and the tokens added meanwhile. The last packet can
    /// be larger than the bucket.
    fn check_rate(&self, rate: u64, burst: u64, weight: impl Fn(usize) -> u64) {
        for (first, from_ms) in self.arrived_ms.iter().enumerate() {
            let mut sum = 0;
            for (last, until_ms) in self.arrived_ms.iter().enumerate().skip(first) {
                let len = weight(self.sent[last]);
                sum += len;
                let most = (burst + len.saturating_sub(burst)) * 1_000 + rate * (until_ms - from_ms);
                assert!(
                    sum * 1_000 <= most,
                    "{}: packets {first} to {last} used {sum} tokens in {} ms",
                    self.id,
                    until_ms - from_ms
                );
            }
        }
    }
}

fn random_settings(random: &mut Random) -> Settings {
    let by_messages = random.chance(70);
    let by_bytes = !by_messages || random.chance(50);
    let settings = Settings {
        publish_burst_messages: random.pick(&[1, 2, 5, 20]),
        publish_burst_bytes: random.pick(&[1, 100, 2_000]),
        receive_maximum: u16::MAX,
        shard_queue_batches: 64,
        sys_interval_s: 0,
        ..Settings::default()
    };
    Settings {
        publish_messages_per_s: if by_messages { random.pick(&[1, 3, 50]) } else { 0 },
        publish_bytes_per_s: if by_bytes { random.pick(&[100, 1_000, 5_000]) } else { 0 },
        ..settings
    }
}

#[test]
fn rates_are_enforced_and_all_messages_arrive_in_order_and_in_time() {
    let mut pauses = 0;
    for seed in seeds() {
        let _reporter = SeedReporter(seed);
        let mut random = Random::new(seed);
        let settings = random_settings(&mut random);
        pauses += run(&mut random, settings);
    }
    assert!(pauses > 0, "no client exceeded its rate");
}

/// Returns how often a client was paused.
fn run(random: &mut Random, settings: Settings) -> u64 {
    let rates = settings.clone();
    let shards = 1 + random.below(3);
    let mut broker = SimulatedBroker::new(shards, settings, RETAINED, |_| Volatile);
    let subscriber = subscriber(&mut broker);
    let mut publishers: Vec<_> = (0..1 + random.below(3))
        .map(|number| {
            let id = broker.client_id_on(random.below(shards), &format!("publisher-{number}"));
            let socket = connect_as(&mut broker, &id, true, KEEP_ALIVE_S);
            let qos = random.pick(&[QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce]);
            let topic = number.to_string();
            Publisher { id, topic, qos, socket, sent: Vec::new(), arrived_ms: Vec::new() }
        })
        .collect();
    for _ in 0..60 {
        let publisher = random.below(publishers.len());
        let publisher = &mut publishers[publisher];
        match random.below(10) {
            0..=5 => {
                for _ in 0..=random.below(6) {
                    let bytes = random.pick(&[0, 10, 100, 500]);
                    publisher.publish(&mut broker, bytes);
                }
                broker.send(publisher.socket, &bytes_of(&Packet::PingReq));
            }
            // A client that reconnects keeps its tokens.
            6 if publisher.sent.len() == publisher.arrived_ms.len() => {
                if random.chance(50) {
                    broker.cut(publisher.socket);
                }
                publisher.socket = connect_as(&mut broker, &publisher.id, random.chance(50), KEEP_ALIVE_S);
            }
            _ => broker.advance(random.pick(&[1, 7, 100, 1_000])),
        }
        settle(&mut broker, random, subscriber, &mut publishers);
    }
    let sent_all_ms = broker.now_ms();
    while publishers.iter().any(|publisher| publisher.arrived_ms.len() < publisher.sent.len()) {
        broker.advance(STEP_MS as u64);
        settle(&mut broker, random, subscriber, &mut publishers);
        let waited_ms = broker.now_ms() - sent_all_ms;
        assert!(
            publishers.iter().any(|publisher| waited_ms <= max_duration_ms(&rates, publisher)),
            "a publisher is paused too long"
        );
    }
    for publisher in &publishers {
        let deadline_ms = publisher.arrived_ms.last().map_or(0, |at_ms| at_ms + u64::from(KEEP_ALIVE_S) * 1_500);
        let closed_ms = broker.closed_at_ms(publisher.socket);
        assert!(closed_ms.is_none_or(|at_ms| at_ms >= deadline_ms), "keep alive expired while reading was paused");
        if rates.publish_messages_per_s > 0 {
            let (rate, burst) = (rates.publish_messages_per_s, rates.publish_burst_messages);
            publisher.check_rate(rate as u64, burst as u64, |_| 1);
        }
        if rates.publish_bytes_per_s > 0 {
            let (rate, burst) = (rates.publish_bytes_per_s, rates.publish_burst_bytes);
            publisher.check_rate(rate as u64, burst as u64, |len| len as u64);
        }
    }
    let totals = broker.totals();
    assert_eq!((totals.dropped(), totals.protocol_errors), (0, 0));
    totals.clients_paused_for_rate
}

/// Runs turns until all shards sleep, then records the messages that have arrived.
fn settle(broker: &mut Broker, random: &mut Random, subscriber: SocketId, publishers: &mut [Publisher]) {
    broker.settle(random);
    let now_ms = broker.now_ms();
    for packet in packets(broker, subscriber) {
        let Packet::Publish(publish) = packet.as_packet() else { panic!("{packet:?}") };
        let topic = publish.topic.expect("3.1.1 has no aliases").as_str();
        let publisher = publishers.iter_mut().find(|publisher| publisher.topic == topic).expect("a known publisher");
        let number = u32::from_be_bytes(publish.payload[..4].try_into().expect("four bytes"));
        assert_eq!(number as usize, publisher.arrived_ms.len(), "a message is lost, duplicated or out of order");
        publisher.arrived_ms.push(now_ms);
    }
    for publisher in publishers {
        broker.take(publisher.socket, usize::MAX);
    }
}

/// The longest time for all packets of a publisher: the time to earn the tokens of each, and some delay.
fn max_duration_ms(rates: &Settings, publisher: &Publisher) -> u64 {
    let cost_ms = |amount: usize, per_s: usize| if per_s == 0 { 0 } else { (amount * 1_000).div_ceil(per_s) };
    let costs = publisher
        .sent
        .iter()
        .map(|len| cost_ms(1, rates.publish_messages_per_s) + cost_ms(*len, rates.publish_bytes_per_s) + 12 + STEP_MS);
    costs.sum::<usize>() as u64
}

fn rate_limited_broker(burst_messages: usize) -> Broker {
    let settings = Settings {
        publish_messages_per_s: 1,
        publish_burst_messages: burst_messages,
        sys_interval_s: 0,
        ..Settings::default()
    };
    SimulatedBroker::new(1, settings, RETAINED, |_| Volatile)
}

fn received(broker: &mut Broker) -> u64 {
    broker.settle(&mut NoDelays);
    broker.totals().publishes_received
}

#[test]
fn reconnecting_does_not_reset_the_rate_limit() {
    let mut publishes: Vec<_> = (0..5).map(|number| publish_bytes(QoS::AtLeastOnce, number, "t", b"x")).collect();
    let more = publishes.split_off(3).concat();
    let burst = publishes.concat();
    for clean_start in [true, false] {
        let mut broker = rate_limited_broker(3);
        let mut socket = connect_as(&mut broker, "c", clean_start, 0);
        broker.send(socket, &burst);
        assert_eq!(received(&mut broker), 3);
        for round in 1..10 {
            // The first time, the connection has ended; later it is paused, and the session is taken over.
            if round == 1 {
                broker.cut(socket);
                broker.settle(&mut NoDelays);
                assert_eq!(broker.totals().connections, 0);
            }
            socket = connect_as(&mut broker, "c", clean_start, 0);
            broker.advance(500);
            broker.send(socket, &more);
            assert_eq!(received(&mut broker), 3 + round / 2, "each reconnect adds half a token");
        }
        // Other clients have their own rate limit.
        let other = connect_as(&mut broker, "d", clean_start, 0);
        broker.send(other, &burst);
        assert_eq!(received(&mut broker), 7 + 3);
        // Messages that wait on a lost connection are still processed.
        broker.cut(socket);
        broker.advance(2_000);
        assert_eq!(received(&mut broker), 10 + 2);
        // After enough time offline, the bucket is full.
        broker.advance(3_000);
        let socket = connect_as(&mut broker, "c", clean_start, 0);
        broker.send(socket, &[&burst[..], &more].concat());
        assert_eq!(received(&mut broker), 12 + 3);
    }
}

#[test]
fn keep_alive_is_suspended_while_reading_is_paused() {
    let mut broker = rate_limited_broker(1);
    let socket = connect_as(&mut broker, "c", true, 1);
    for number in 0..20 {
        broker.send(socket, &publish_bytes(QoS::AtMostOnce, number, "t", b"x"));
    }
    broker.send(socket, &bytes_of(&Packet::PingReq));
    assert_eq!(received(&mut broker), 1);
    // A pause of many keep alive intervals, without a turn.
    broker.advance(18_999);
    broker.settle(&mut NoDelays);
    for _ in 0..30 {
        broker.advance(1_000);
        broker.settle(&mut NoDelays);
        if broker.totals().publishes_received == 20 {
            break;
        }
        assert_eq!(broker.closed_at_ms(socket), None);
        assert_eq!(packets(&mut broker, socket).len(), 0, "PINGREQ waits behind the messages");
    }
    assert_eq!(packets(&mut broker, socket).len(), 1, "PINGRESP");
    assert_eq!(broker.closed_at_ms(socket), None);
    for _ in 0..8 {
        broker.advance(250);
        broker.settle(&mut NoDelays);
    }
    assert!(broker.closed_at_ms(socket).is_some(), "the keep alive timeout did not expire");
    assert_eq!(broker.totals().keep_alive_timeouts, 1);
}

/// The guarantees of MQTT hold for random clients with a rate limit.
#[test]
fn rate_limited_messages_arrive_as_guaranteed() {
    let mut pauses = 0;
    for seed in seeds().take(100) {
        let _reporter = SeedReporter(seed);
        let mut random = Random::new(!seed);
        let plan = Plan {
            shards: 1 + random.below(3),
            clients: 2 + random.below(5),
            steps: random.pick(&[200, 1_000]),
            prompt_clients: random.chance(20),
        };
        let settings = Settings {
            publish_messages_per_s: random.pick(&[0, 1, 20]),
            publish_burst_messages: random.pick(&[1, 3, 10]),
            publish_bytes_per_s: random.pick(&[10_000, 100_000]),
            publish_burst_bytes: random.pick(&[1, 5_000, 100_000]),
            ..settings(&mut random)
        };
        let mut world = World::new(seed, plan.clone(), settings.clone(), |_| Volatile);
        if let Err(error) = world.run() {
            panic!("{plan:?}: {error}");
        }
        pauses += world.broker.totals().clients_paused_for_rate;
    }
    assert!(pauses > 0, "no client exceeded its rate");
}
