use std::hint::black_box;

use tautwire_engine::{Action, Chunk, ConnectionId, Io, NextTurn, Settings, Shard, Shared, turn};
use tautwire_engine::{Mode, Volatile};
use tautwire_router::{Batch, Exchange, Placement, RetainedLimits, ShardIndex};

use crate::Case;
use crate::packets::{self, Layout, acknowledgement};

pub const NOW_MS: u64 = 1_700_000_000_000;
/// The number of publishes per read.
const BATCH: u32 = 50;

/// The position of the packet identifier in a PUBLISH of [`packets::publish`].
const PACKET_ID_AT: usize = 2 + 2 + 20;
const ACKNOWLEDGEMENT_BYTES: usize = 4;

const PUBACK: u8 = 0x40;
const PUBREC: u8 = 0x50;
const PUBREL: u8 = 0x62;
const PUBCOMP: u8 = 0x70;

/// From the publisher's bytes to the subscribers' through a shard, one message per operation; at QoS 1 and 2 with all
/// acknowledgements on both sides.
pub fn cases() -> Vec<Case> {
    vec![
        flood("route/engine-qos0-batch", 1, Layout::V3),
        flood("route/engine-qos0-to-100-batch", 100, Layout::V3),
        flood("route/engine-qos0-v5-properties-batch", 1, Layout::V5WithProperties),
        single("route/engine-qos0"),
        qos1(),
        flood_acknowledged("route/engine-qos1-batch", 1),
        flood_acknowledged("route/engine-qos1-to-100-batch", 100),
        qos2(),
        cycle(),
    ]
}

/// Fifty messages per turn, on ten topics: with more topics, the random seed of the match cache affects the count.
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
            broker.turn(publisher, black_box(&chunk), len, |_, bytes| {
                black_box(bytes);
            });
        }
    })
}

/// One message per turn, as in a round trip.
fn single(name: &'static str) -> Case {
    let mut broker = Broker::new();
    let publisher = broker.connect("publisher", Layout::V3);
    broker.subscriber("subscriber", 0, Layout::V3);
    let bytes = packets::publish(1, 0, 0, Layout::V3);
    let len = bytes.len();
    let chunk = Chunk::from(bytes);
    Case::new(name, move |times| {
        for _ in 0..times {
            broker.turn(publisher, black_box(&chunk), len, |_, bytes| {
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
            let packet_id = broker.delivered(publisher, black_box(&chunk), len, subscriber);
            let puback = answer.is(PUBACK, packet_id);
            broker.turn(subscriber, puback, 4, |_, _| unreachable!("PUBACK is not answered"));
        }
    })
}

/// Fifty messages per turn, and fifty acknowledgements from each subscriber.
fn flood_acknowledged(name: &'static str, subscribers: usize) -> Case {
    let publish = |at: usize| packets::publish(at % 10, 1, at as u16 + 1, Layout::V3);
    let mut broker = Broker::new();
    let publisher = broker.connect("publisher", Layout::V3);
    let mut acknowledging: Vec<(ConnectionId, Chunk, usize)> = (0..subscribers)
        .map(|number| broker.subscriber(&format!("subscriber-{number}"), 1, Layout::V3))
        .map(|subscriber| (subscriber, Chunk::new(BATCH as usize * ACKNOWLEDGEMENT_BYTES), 0))
        .collect();
    let publish_bytes = publish(0).len();
    let bytes: Vec<u8> = (0..BATCH as usize).flat_map(publish).collect();
    let len = bytes.len();
    let chunk = Chunk::from(bytes);
    Case::new(name, move |times| {
        for _ in 0..times / BATCH {
            broker.turn(publisher, black_box(&chunk), len, |id, bytes| {
                let Some((_, answer, len)) = acknowledging.iter_mut().find(|(subscriber, ..)| *subscriber == id) else {
                    return;
                };
                let answer = answer.get_mut().expect("small packets are not referred to");
                for publish in bytes.chunks_exact(publish_bytes) {
                    let packet_id = u16::from_be_bytes([publish[PACKET_ID_AT], publish[PACKET_ID_AT + 1]]);
                    answer[*len..][..ACKNOWLEDGEMENT_BYTES].copy_from_slice(&acknowledgement(PUBACK, packet_id));
                    *len += ACKNOWLEDGEMENT_BYTES;
                }
            });
            for (subscriber, answer, len) in &mut acknowledging {
                assert_eq!(*len, BATCH as usize * ACKNOWLEDGEMENT_BYTES, "all messages have arrived");
                broker.turn(*subscriber, answer, *len, |_, _| unreachable!("PUBACK is not answered"));
                *len = 0;
            }
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
            let packet_id = broker.delivered(publisher, black_box(&chunk), len, subscriber);
            for (from, first_byte, packet_id, answered) in
                [(publisher, PUBREL, 7, PUBCOMP), (subscriber, PUBREC, packet_id, PUBREL)]
            {
                broker.turn(from, answer.is(first_byte, packet_id), 4, |_, bytes| assert_eq!(bytes[0], answered));
            }
            let pubcomp = answer.is(PUBCOMP, packet_id);
            broker.turn(subscriber, pubcomp, 4, |_, _| unreachable!("PUBCOMP is not answered"));
        }
    })
}

/// Connect, subscribe and disconnect are one operation.
fn cycle() -> Case {
    let mut broker = Broker::new();
    Case::new("route/engine-connect-subscribe-disconnect", move |times| {
        for _ in 0..times {
            let id = broker.subscriber("visitor", 0, Layout::V3);
            broker.turn(id, &Chunk::from(vec![0xE0, 0]), 2, |_, _| unreachable!("DISCONNECT is not answered"));
            assert_eq!(broker.dropped.take(), Some(id));
        }
    })
}

/// One shard, driven like by a reactor, but without system calls.
pub struct Broker<M: Mode> {
    pub shard: Shard<M>,
    /// The client whose connection was dropped last.
    dropped: Option<ConnectionId>,
}

impl Broker<Volatile> {
    fn new() -> Broker<Volatile> {
        Broker::with(Volatile)
    }
}

impl<M: Mode> Broker<M> {
    pub fn with(mode: M) -> Broker<M> {
        let settings = Settings { sys_interval_s: 0, ..Settings::default() };
        let limits = RetainedLimits { messages: 1_000, bytes: 1 << 20 };
        let exchange = Exchange::with_placement(Placement::new(1, 0), limits);
        let shared = Shared::new(settings, exchange);
        Broker { shard: Shard::new(ShardIndex(0), shared, mode, NOW_MS), dropped: None }
    }

    pub fn connect(&mut self, client_id: &str, layout: Layout) -> ConnectionId {
        let id = self.shard.accept(NOW_MS).expect("there is room");
        self.say(id, packets::connect(client_id, layout));
        id
    }

    fn subscriber(&mut self, client_id: &str, qos: u8, layout: Layout) -> ConnectionId {
        let id = self.connect(client_id, layout);
        self.say(id, packets::subscribe("sensors/+/temp", qos, layout));
        id
    }

    /// Sends a packet that has a response.
    fn say(&mut self, id: ConnectionId, bytes: Vec<u8>) {
        let len = bytes.len();
        let mut answers = 0;
        self.turn(id, &Chunk::from(bytes), len, |_, _| answers += 1);
        assert_eq!(answers, 1);
    }

    /// Reads `len` bytes, and runs the shard until it is idle; `written` is called with its output and the receiver.
    #[inline]
    fn turn(&mut self, id: ConnectionId, chunk: &Chunk, len: usize, written: impl FnMut(ConnectionId, &[u8])) {
        let mut network = Network { input: Some((id, chunk, len)), written, dropped: &mut self.dropped };
        while turn(&mut self.shard, &mut network, NOW_MS) == NextTurn::Busy {}
    }

    /// The same with a message for the subscriber. Returns the packet identifier of the delivery.
    #[inline]
    fn delivered(&mut self, from: ConnectionId, chunk: &Chunk, len: usize, subscriber: ConnectionId) -> u16 {
        let mut packet_id = 0;
        self.turn(from, chunk, len, |id, bytes| {
            if id == subscriber {
                packet_id = u16::from_be_bytes([bytes[PACKET_ID_AT], bytes[PACKET_ID_AT + 1]]);
            }
        });
        assert_ne!(packet_id, 0, "the message has arrived");
        packet_id
    }
}

/// One client sends bytes, and all output is consumed at once.
struct Network<'a, W> {
    input: Option<(ConnectionId, &'a Chunk, usize)>,
    written: W,
    dropped: &'a mut Option<ConnectionId>,
}

impl<M: Mode, W: FnMut(ConnectionId, &[u8])> Io<M> for Network<'_, W> {
    fn room(&mut self, _: ShardIndex) -> usize {
        unreachable!("there is one shard")
    }

    fn adopt(&mut self, _: &mut Shard<M>) -> bool {
        false
    }

    fn next_batch(&mut self, _: ShardIndex) -> Option<Batch> {
        None
    }

    fn batches_taken(&mut self, _: ShardIndex) {}

    fn read(&mut self, shard: &mut Shard<M>) -> bool {
        let Some((id, chunk, len)) = self.input.take() else { return false };
        let consumed = shard.receive(id, chunk, 0..len, NOW_MS);
        assert_eq!(consumed, len, "all of it is understood");
        true
    }

    fn accept(&mut self, _: &mut Shard<M>) {}

    fn run_commands(&mut self, _: &mut Shard<M>) {}

    fn perform(&mut self, shard: &mut Shard<M>, action: Action) {
        match action {
            Action::Drop(id) => {
                shard.connection_closed(id);
                *self.dropped = Some(id);
            }
            // All its bytes have been read.
            Action::Resume(_) => {}
            // It gets its last bytes in this turn, and is then dropped.
            Action::Close(_) => {}
            other => unreachable!("{other:?}"),
        }
    }

    fn send(&mut self, _: ShardIndex, _: impl Iterator<Item = Batch>) {}

    fn write_ready(&mut self, _: &mut Shard<M>) {}

    fn write(&mut self, shard: &mut Shard<M>, id: ConnectionId) {
        let Some(output) = shard.output(id) else { return };
        let bytes = output.single().expect("small payloads are copied");
        (self.written)(id, bytes);
        let len = bytes.len();
        shard.advance_output(id, len, NOW_MS);
    }

    fn end_turn(&mut self, _: &mut Shard<M>) -> NextTurn {
        NextTurn::Until(None)
    }

    fn has_room_or_arm_waker(&mut self, _: ShardIndex) -> bool {
        false
    }
}

/// Acknowledgements of four bytes with different packet identifiers.
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
