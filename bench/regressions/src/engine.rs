use std::hint::black_box;

use tautwire_engine::{Action, Chunk, ConnectionId, Settings, Shard, Shared};
use tautwire_router::{Exchange, RetainedLimits, ShardIndex};
use tautwire_session::Volatile;

use crate::Case;
use crate::packets::{self, Layout, acknowledgement};

const NOW_MS: u64 = 1_700_000_000_000;
/// Publishes that one read brings.
const BATCH: u32 = 50;

const PUBACK: u8 = 0x40;
const PUBREC: u8 = 0x50;
const PUBREL: u8 = 0x62;
const PUBCOMP: u8 = 0x70;

/// From the publisher's bytes to the subscribers' through a shard, one message an operation; at QoS 1 and 2 with all
/// acknowledgements on both sides.
pub fn cases() -> Vec<Case> {
    vec![
        flood("route/engine-qos0-batch", 1, Layout::V3),
        flood("route/engine-qos0-to-100-batch", 100, Layout::V3),
        flood("route/engine-qos0-v5-properties-batch", 1, Layout::V5WithProperties),
        single("route/engine-qos0"),
        qos1(),
        qos2(),
        cycle(),
    ]
}

/// Fifty messages a turn, of ten topics: with more of them, the random seed of the match cache shows in the count.
fn flood(name: &'static str, subscribers: usize, layout: Layout) -> Case {
    let mut broker = Broker::new();
    let publisher = broker.connect("publisher", layout);
    for number in 0..subscribers {
        broker.subscriber(&format!("subscriber-{number}"), 0, layout);
    }
    let bytes: Vec<u8> = (0..BATCH as usize).flat_map(|at| packets::publish(at % 10, 0, 0, layout)).collect();
    let len = bytes.len();
    let chunk = Chunk::from(bytes);
    Case::new(name, move |times| {
        for _ in 0..times / BATCH {
            broker.turn(publisher, black_box(&chunk), len);
            broker.flush(|_, bytes| {
                black_box(bytes);
            });
        }
    })
}

/// One message a turn, as in a round trip.
fn single(name: &'static str) -> Case {
    let mut broker = Broker::new();
    let publisher = broker.connect("publisher", Layout::V3);
    broker.subscriber("subscriber", 0, Layout::V3);
    let bytes = packets::publish(1, 0, 0, Layout::V3);
    let len = bytes.len();
    let chunk = Chunk::from(bytes);
    Case::new(name, move |times| {
        for _ in 0..times {
            broker.turn(publisher, black_box(&chunk), len);
            broker.flush(|_, bytes| {
                black_box(bytes);
            });
        }
    })
}

fn qos1() -> Case {
    let mut broker = Broker::new();
    let publisher = broker.connect("publisher", Layout::V3);
    let subscriber = broker.subscriber("subscriber", 1, Layout::V3);
    let bytes = packets::publish(1, 1, 7, Layout::V3);
    let len = bytes.len();
    let chunk = Chunk::from(bytes);
    let mut answer = Answer::new();
    Case::new("route/engine-qos1", move |times| {
        for _ in 0..times {
            broker.turn(publisher, black_box(&chunk), len);
            let packet_id = broker.delivered(subscriber);
            broker.turn(subscriber, answer.is(PUBACK, packet_id), 4);
            broker.flush(|_, _| unreachable!("PUBACK is not answered"));
        }
    })
}

fn qos2() -> Case {
    let mut broker = Broker::new();
    let publisher = broker.connect("publisher", Layout::V3);
    let subscriber = broker.subscriber("subscriber", 2, Layout::V3);
    let bytes = packets::publish(1, 2, 7, Layout::V3);
    let len = bytes.len();
    let chunk = Chunk::from(bytes);
    let mut answer = Answer::new();
    Case::new("route/engine-qos2", move |times| {
        for _ in 0..times {
            broker.turn(publisher, black_box(&chunk), len);
            let packet_id = broker.delivered(subscriber);
            for (from, first_byte, packet_id, answered) in
                [(publisher, PUBREL, 7, PUBCOMP), (subscriber, PUBREC, packet_id, PUBREL)]
            {
                broker.turn(from, answer.is(first_byte, packet_id), 4);
                broker.flush(|_, bytes| assert_eq!(bytes[0], answered));
            }
            broker.turn(subscriber, answer.is(PUBCOMP, packet_id), 4);
            broker.flush(|_, _| unreachable!("PUBCOMP is not answered"));
        }
    })
}

/// Connect, subscribe, disconnect: one of each is one operation.
fn cycle() -> Case {
    let mut broker = Broker::new();
    Case::new("route/engine-connect-subscribe-disconnect", move |times| {
        for _ in 0..times {
            let id = broker.subscriber("visitor", 0, Layout::V3);
            broker.turn(id, &Chunk::from(vec![0xE0, 0]), 2);
            assert!(matches!(broker.shard.next_action(), Some(Action::Drop(dropped)) if dropped == id));
            broker.shard.released(id);
        }
    })
}

/// One shard and what a reactor does with it, without the system calls.
struct Broker {
    shard: Shard<Volatile>,
}

impl Broker {
    fn new() -> Broker {
        let settings = Settings { sys_interval_s: 0, ..Settings::default() };
        let exchange = Exchange::with_seed(1, RetainedLimits { messages: 1_000, bytes: 1 << 20 }, 0);
        let shared = Shared::new(settings, exchange);
        Broker { shard: Shard::new(ShardIndex(0), shared, Volatile, NOW_MS) }
    }

    fn connect(&mut self, client_id: &str, layout: Layout) -> ConnectionId {
        let id = self.shard.accept(NOW_MS).expect("there is room");
        self.say(id, packets::connect(client_id, layout));
        id
    }

    fn subscriber(&mut self, client_id: &str, qos: u8, layout: Layout) -> ConnectionId {
        let id = self.connect(client_id, layout);
        self.say(id, packets::subscribe("sensors/+/temp", qos, layout));
        id
    }

    /// Sends a packet that is answered.
    fn say(&mut self, id: ConnectionId, bytes: Vec<u8>) {
        let len = bytes.len();
        self.turn(id, &Chunk::from(bytes), len);
        let mut answers = 0;
        self.flush(|_, _| answers += 1);
        assert_eq!(answers, 1);
    }

    /// Reads `len` bytes, and does what is due.
    fn turn(&mut self, id: ConnectionId, chunk: &Chunk, len: usize) {
        let consumed = self.shard.receive(id, chunk, 0..len, NOW_MS);
        assert_eq!(consumed, len, "all of it is understood");
        self.shard.turn(NOW_MS);
    }

    /// Writes what is pending, each connection once.
    fn flush(&mut self, mut written: impl FnMut(ConnectionId, &[u8])) {
        while let Some(id) = self.shard.next_dirty().or_else(|| self.shard.next_late()) {
            let Some(output) = self.shard.output(id) else { continue };
            let bytes = output.single().expect("small payloads are copied");
            written(id, bytes);
            let len = bytes.len();
            self.shard.sent(id, len, NOW_MS);
        }
        if self.shard.has_fan_outs() {
            self.shard.end_fan_outs(NOW_MS);
            while self.shard.next_action().is_some() {}
        }
    }

    /// Writes what is pending; gives the packet identifier under which the subscriber got the message.
    fn delivered(&mut self, subscriber: ConnectionId) -> u16 {
        const PACKET_ID_AT: usize = 2 + 2 + 20;
        let mut packet_id = 0;
        self.flush(|id, bytes| {
            if id == subscriber {
                packet_id = u16::from_be_bytes([bytes[PACKET_ID_AT], bytes[PACKET_ID_AT + 1]]);
            }
        });
        assert_ne!(packet_id, 0, "the message has arrived");
        packet_id
    }
}

/// Four bytes that are an acknowledgement, each time another one.
struct Answer(Chunk);

impl Answer {
    fn new() -> Answer {
        Answer(Chunk::new(4))
    }

    fn is(&mut self, first_byte: u8, packet_id: u16) -> &Chunk {
        let bytes = self.0.get_mut().expect("small packets are not referred to");
        bytes.copy_from_slice(&acknowledgement(first_byte, packet_id));
        &self.0
    }
}
