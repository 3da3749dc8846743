//! A client that waits for the log alone has its shard write it; where others would wait too, the writer does.

use std::cell::RefCell;
use std::rc::Rc;

use tautwire_engine::Settings;
use tautwire_message::MessageId;
use tautwire_protocol::{
    Delivery, Packet, Properties, ProtocolVersion, Publish, QoS, RetainHandling, SubscribeReason, TopicName,
};
use tautwire_session::{Journal, LogPosition, Record, SessionNumber};

use crate::ledger::Request;
use crate::packets::{connect_bytes, each_packet, id, subscribe_bytes};
use crate::support::{Prompt, SimulatedBroker, SocketId};
use crate::world::{RETAINED, returning};

/// What is ended quietly is safe once it has been asked for; everything else at once.
#[derive(Default)]
struct State {
    sessions: u64,
    has_records: bool,
    ended: u64,
    durable: u64,
    is_quiet: bool,
    /// Times that something ended quietly was written by the shard, and times that it was left to the writer.
    at_once: usize,
    left: usize,
}

#[derive(Default, Clone)]
struct QuietLog(Rc<RefCell<State>>);

impl Journal for QuietLog {
    const KEEPS: bool = true;

    fn next_session(&mut self) -> SessionNumber {
        let mut state = self.0.borrow_mut();
        state.sessions += 1;
        SessionNumber(state.sessions)
    }

    fn record(&mut self, _: Record<'_>) -> LogPosition {
        let mut state = self.0.borrow_mut();
        state.has_records = true;
        LogPosition(state.ended + 1)
    }

    fn know(&mut self, _: MessageId) {}

    fn end_frame(&mut self) {
        let mut state = self.0.borrow_mut();
        assert!(!state.is_quiet, "the turn before has left it lying");
        if std::mem::take(&mut state.has_records) {
            state.ended += 1;
            state.durable = state.ended;
        }
    }

    fn end_frame_quietly(&mut self) {
        let mut state = self.0.borrow_mut();
        if std::mem::take(&mut state.has_records) {
            state.ended += 1;
            state.is_quiet = true;
        }
    }

    fn write_at_once(&mut self, may_wait: bool) -> bool {
        let mut state = self.0.borrow_mut();
        if !std::mem::take(&mut state.is_quiet) {
            return false;
        }
        state.durable = state.ended;
        state.at_once += usize::from(may_wait);
        state.left += usize::from(!may_wait);
        may_wait
    }

    fn has_posted_all(&self) -> bool {
        true
    }

    fn durable(&self) -> LogPosition {
        LogPosition(self.0.borrow().durable)
    }

    fn is_behind(&self) -> bool {
        false
    }
}

struct World {
    broker: SimulatedBroker<QuietLog>,
    log: QuietLog,
}

impl World {
    fn new() -> World {
        let log = QuietLog::default();
        let settings = Settings { sys_interval_s: 0, ..Settings::default() };
        World { broker: SimulatedBroker::new(1, settings, RETAINED, |_| log.clone()), log }
    }

    fn connect(&mut self, name: &str) -> SocketId {
        let socket = self.broker.connect(0, 1 << 20);
        self.broker.send(socket, &connect_bytes(name, ProtocolVersion::V5, &returning(), None));
        self.broker.settle(&mut Prompt);
        assert_eq!(self.take(socket, |packet| matches!(packet, Packet::ConnAck(_)).then_some(())).len(), 1);
        socket
    }

    fn publish(&mut self, socket: SocketId, messages: u16) {
        for number in 1..=messages {
            let delivery = Delivery::AtLeastOnce { packet_id: id(number), dup: false };
            let topic = TopicName::new("t").ok();
            let publish = Publish { delivery, retain: false, topic, properties: Properties::EMPTY, payload: b"x" };
            let mut bytes = Vec::new();
            publish.append_to(ProtocolVersion::V5, &mut bytes).expect("our PUBLISH is valid");
            self.broker.send(socket, &bytes);
        }
    }

    fn take<T>(&mut self, socket: SocketId, look: impl FnMut(&Packet<'_>) -> Option<T>) -> Vec<T> {
        each_packet(&self.broker.take(socket, usize::MAX), look)
    }

    /// What has come of the log since it was last asked: see [`State`].
    fn written(&mut self) -> (usize, usize) {
        let mut state = self.log.0.borrow_mut();
        (std::mem::take(&mut state.at_once), std::mem::take(&mut state.left))
    }
}

#[test]
fn a_shard_writes_the_log_itself_for_one_client_and_not_for_several() {
    let mut world = World::new();
    let subscriber = world.connect("subscriber");
    let request = Request {
        filter: "t".into(),
        qos: QoS::AtLeastOnce,
        no_local: false,
        retain_as_published: false,
        retain_handling: RetainHandling::SendAtSubscribe,
        identifier: None,
    };
    world.broker.send(subscriber, &subscribe_bytes(ProtocolVersion::V5, id(1), &[request]));
    world.broker.settle(&mut Prompt);
    let granted = world.take(subscriber, |packet| match packet {
        Packet::SubAck(ack) => ack.reasons.iter().next(),
        _ => None,
    });
    assert_eq!(granted, [SubscribeReason::GrantedQoS1]);
    let publishers: Vec<_> = (0..5).map(|number| world.connect(&format!("publisher-{number}"))).collect();
    assert!(world.written().0 > 0, "CONNACK and SUBACK wait as well");
    let acks = |world: &mut World, socket| {
        world.take(socket, |packet| matches!(packet, Packet::PubAck(_)).then_some(())).len()
    };

    world.publish(publishers[0], 1);
    world.broker.settle(&mut Prompt);
    assert_eq!((acks(&mut world, publishers[0]), world.written()), (1, (1, 0)));
    // Several messages of one client, and one of each of several clients.
    world.publish(publishers[0], 20);
    world.broker.settle(&mut Prompt);
    assert_eq!((acks(&mut world, publishers[0]), world.written()), (20, (0, 0)));
    for publisher in &publishers {
        world.publish(*publisher, 1);
    }
    world.broker.settle(&mut Prompt);
    for publisher in &publishers {
        assert_eq!(acks(&mut world, *publisher), 1);
    }
    assert_eq!(world.written(), (0, 0));
    assert!(world.broker.totals().log_writes_at_once > 0);
}
