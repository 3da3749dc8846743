//! A spill store that is slower than the publishers: memory stays bounded, and so does the time that publishers are paused.

use tautwire_engine::Settings;
use tautwire_memory::Kind;
use tautwire_protocol::{
    Delivery, Disconnect, DisconnectReason, Packet, Properties, ProtocolVersion, PubAck, PubAckReason, Publish, QoS,
    RetainHandling, TopicName,
};
use tautwire_router::RetainedLimits;

use crate::ledger::Request;
use crate::packets::{ConnectOptions, connect_bytes, each_packet, id, subscribe_bytes};
use crate::spill::PromptLog;
use crate::support::{NoDelays, SimulatedBroker, SocketId};
use crate::world::returning;

const V5: ProtocolVersion = ProtocolVersion::V5;
const MESSAGES: u16 = 300;
const PAYLOAD_BYTES: usize = 64 << 10;
const SPILL_THRESHOLD_BYTES: usize = 1 << 20;
/// One and a half times the threshold, once more for writes in progress, and once more for the messages of a turn.
const BOUND_BYTES: u64 =
    (SPILL_THRESHOLD_BYTES + SPILL_THRESHOLD_BYTES / 2 + SPILL_THRESHOLD_BYTES + SPILL_THRESHOLD_BYTES) as u64;

struct Fixture {
    broker: SimulatedBroker<PromptLog>,
    next_packet_id: u16,
}

impl Fixture {
    fn new(shards: usize, settings: Settings) -> Fixture {
        let settings = Settings { sys_interval_s: 0, spill_threshold_bytes: SPILL_THRESHOLD_BYTES, ..settings };
        let limits = RetainedLimits { messages: 1 << 20, bytes: 1 << 30 };
        let mut broker = SimulatedBroker::new(shards, settings, limits, PromptLog::for_all_shards());
        broker.connect_spill_store();
        Fixture { broker, next_packet_id: 0 }
    }

    /// Connects a client whose session belongs to `shard`.
    fn client(&mut self, shard: usize, name: &str, options: &ConnectOptions) -> SocketId {
        let name = self.broker.client_id_on(shard, name);
        let socket = self.broker.connect(shard, 1 << 30);
        self.broker.send(socket, &connect_bytes(&name, V5, options, None));
        self.broker.settle(&mut NoDelays);
        self.broker.take(socket, usize::MAX);
        socket
    }

    fn subscribe(&mut self, socket: SocketId, filter: &str) {
        let request = Request {
            filter: filter.into(),
            qos: QoS::AtLeastOnce,
            identifier: None,
            no_local: false,
            retain_as_published: false,
            retain_handling: RetainHandling::DoNotSend,
        };
        self.broker.send(socket, &subscribe_bytes(V5, id(1), &[request]));
        self.broker.settle(&mut NoDelays);
        self.broker.take(socket, usize::MAX);
    }

    /// A session on `shard` whose client is offline.
    fn create_offline_session(&mut self, shard: usize, filter: &str) {
        let socket = self.client(shard, "s", &returning());
        self.subscribe(socket, filter);
        self.broker.cut(socket);
        self.broker.settle(&mut NoDelays);
    }

    fn send(&mut self, socket: SocketId, packet: &Packet<'_>) {
        let mut bytes = Vec::new();
        packet.append_to(V5, &mut bytes).expect("a valid packet");
        self.broker.send(socket, &bytes);
    }

    fn publish(&mut self, socket: SocketId, topic: &str, retain: bool, payload: &[u8]) {
        self.next_packet_id += 1;
        let delivery = Delivery::AtLeastOnce { packet_id: id(self.next_packet_id), dup: false };
        let topic = TopicName::new(topic).ok();
        self.send(
            socket,
            &Packet::Publish(Publish { delivery, retain, topic, properties: Properties::EMPTY, payload }),
        );
    }

    fn publish_many(&mut self, socket: SocketId, retain: bool) {
        (0..MESSAGES).for_each(|number| self.publish(socket, &format!("t/{number}"), retain, &[0; PAYLOAD_BYTES]));
    }

    /// Runs turns without the store.
    fn run_turns(&mut self, count: usize) {
        for _ in 0..count {
            for shard in 0..self.broker.shards() {
                self.broker.turn(shard, &mut NoDelays);
            }
        }
    }

    fn loaded_bytes(&self) -> u64 {
        self.broker.memory().held(Kind::Message)
    }

    #[track_caller]
    fn assert_is_bounded(&self) {
        let loaded_bytes = self.loaded_bytes();
        assert!(loaded_bytes <= BOUND_BYTES, "{loaded_bytes} bytes exceed the bound of {BOUND_BYTES}");
    }

    /// Has the store serve all requests.
    fn serve_requests(&mut self) {
        let store = self.broker.spilled().expect("it is connected").clone();
        while let Some(shard) = store.serve(&mut NoDelays) {
            self.broker.wake(shard);
            self.run_turns(1);
            // Publishers that are paused on another shard retry after a while.
            self.broker.advance(5);
            self.run_turns(1);
            self.assert_is_bounded();
        }
    }

    /// The reasons of the received PUBACK packets.
    fn acknowledged(&mut self, socket: SocketId) -> Vec<PubAckReason> {
        let bytes = self.broker.take(socket, usize::MAX);
        each_packet(&bytes, |packet| if let Packet::PubAck(ack) = packet { Some(ack.reason) } else { None })
    }
}

#[test]
fn publishers_of_retained_messages_are_paused_while_the_store_lags() {
    let mut fixture = Fixture::new(1, Settings::default());
    let publisher = fixture.client(0, "p", &returning());
    let other = fixture.client(0, "q", &returning());
    fixture.publish_many(publisher, true);
    fixture.run_turns(1_000);
    assert!(fixture.loaded_bytes() > SPILL_THRESHOLD_BYTES as u64);
    fixture.assert_is_bounded();
    assert!(fixture.broker.totals().clients_paused_for_spill > 0);
    fixture.send(other, &Packet::PingReq);
    fixture.run_turns(1);
    assert!(!fixture.broker.take(other, usize::MAX).is_empty(), "a client that publishes nothing is paused");
    fixture.serve_requests();
    fixture.broker.settle(&mut NoDelays);
    assert_eq!(fixture.acknowledged(publisher).len(), usize::from(MESSAGES));
    assert_eq!(fixture.broker.exchange().retained().0, usize::from(MESSAGES));
}

/// Another shard spills the messages.
#[test]
fn publishers_are_paused_for_sessions_of_other_shards() {
    let mut fixture = Fixture::new(2, Settings { session_queue_bytes: 1 << 30, ..Settings::default() });
    let publisher = fixture.client(0, "p", &returning());
    fixture.create_offline_session(1, "t/#");
    fixture.publish_many(publisher, false);
    fixture.run_turns(1_000);
    fixture.assert_is_bounded();
    assert!(fixture.broker.totals().clients_paused_for_spill > 0);
    fixture.serve_requests();
    fixture.broker.settle(&mut NoDelays);
    assert_eq!(fixture.acknowledged(publisher), [PubAckReason::Success].repeat(usize::from(MESSAGES)));
}

/// Messages that wait for a slow store do not reach the memory limit before publishers are paused.
#[test]
fn publishers_are_paused_before_they_would_be_refused() {
    for shards in [1, 2] {
        let (memory_bytes, session_queue_bytes) = (8 * SPILL_THRESHOLD_BYTES, 1 << 30);
        let mut fixture = Fixture::new(shards, Settings { memory_bytes, session_queue_bytes, ..Settings::default() });
        let publisher = fixture.client(0, "p", &returning());
        fixture.create_offline_session(shards - 1, "t/#");
        let store = fixture.broker.spilled().expect("it is connected").clone();
        let mut reasons = Vec::new();
        for number in 0..MESSAGES {
            fixture.publish(publisher, &format!("t/{number}"), false, &[0; PAYLOAD_BYTES]);
            fixture.run_turns(3);
            reasons.extend(fixture.acknowledged(publisher));
            // The store serves one request at a time, and only when the publisher waits for it.
            while reasons.len() == usize::from(number) {
                fixture.assert_is_bounded();
                if let Some(shard) = store.serve(&mut NoDelays) {
                    fixture.broker.wake(shard);
                }
                fixture.broker.advance(5);
                fixture.run_turns(3);
                reasons.extend(fixture.acknowledged(publisher));
            }
        }
        assert_eq!(reasons, [PubAckReason::Success].repeat(usize::from(MESSAGES)));
        assert!(fixture.broker.totals().clients_paused_for_spill > 0);
    }
}

/// Packets after a waiting PUBLISH are handled if they may overtake it.
#[test]
fn acknowledgements_after_a_waiting_publish_are_handled() {
    let mut fixture = Fixture::new(1, Settings::default());
    let one_at_a_time = ConnectOptions { receive_maximum: Some(1), ..returning() };
    let both = fixture.client(0, "p", &one_at_a_time);
    fixture.subscribe(both, "mine");
    let other = fixture.client(0, "q", &returning());
    fixture.publish(other, "mine", false, b"one");
    fixture.publish(other, "mine", false, b"two");
    fixture.run_turns(2);
    let received = |bytes: &[u8]| {
        each_packet(bytes, |packet| match packet {
            Packet::Publish(Publish { payload, delivery: Delivery::AtLeastOnce { packet_id, .. }, .. }) => {
                Some((*packet_id, payload.to_vec()))
            }
            _ => None,
        })
    };
    let first = received(&fixture.broker.take(both, usize::MAX));
    assert_eq!(first.iter().map(|(_, payload)| &payload[..]).collect::<Vec<_>>(), [b"one"]);

    // The other client publishes so much that each message of this one waits.
    fixture.publish_many(other, true);
    fixture.run_turns(100);
    let before = fixture.broker.totals().clients_paused_for_spill;
    fixture.publish(both, "t/last", true, &[0; PAYLOAD_BYTES]);
    let ack = PubAck { packet_id: first[0].0, reason: PubAckReason::Success, properties: Properties::EMPTY };
    fixture.send(both, &Packet::PubAck(ack));
    fixture.send(both, &Packet::PingReq);
    fixture.run_turns(100);
    let bytes = fixture.broker.take(both, usize::MAX);
    assert_eq!(fixture.broker.totals().clients_paused_for_spill, before + 1, "the message does not wait");
    assert_eq!(received(&bytes).iter().map(|(_, payload)| &payload[..]).collect::<Vec<_>>(), [b"two"]);
    let answers = each_packet(&bytes, |packet| matches!(packet, Packet::PingResp).then_some(()));
    assert_eq!(answers.len(), 1);

    // DISCONNECT does not overtake the PUBLISH.
    fixture.send(both, &Packet::Disconnect(Disconnect::new(DisconnectReason::NormalDisconnection)));
    fixture.run_turns(10);
    assert_eq!(fixture.broker.closed_at_ms(both), None);
    fixture.serve_requests();
    fixture.broker.settle(&mut NoDelays);
    assert!(fixture.broker.exchange().retained_message("t/last").is_some());
    assert!(fixture.broker.closed_at_ms(both).is_some());
}

/// If the store never answers, the memory limit refuses messages, as without a store.
#[test]
fn waiting_for_a_stalled_store_has_a_timeout() {
    let (memory_bytes, session_queue_bytes) = (16 << 20, 1 << 30);
    let limits = Settings { memory_bytes, session_queue_bytes, session_queue_memory: false, ..Settings::default() };
    let mut fixture = Fixture::new(1, limits);
    let publisher = fixture.client(0, "p", &returning());
    fixture.create_offline_session(0, "t/#");
    let mut reasons = Vec::new();
    let mut waits = 0;
    for number in 0..MESSAGES {
        fixture.publish(publisher, &format!("t/{number}"), false, &[0; PAYLOAD_BYTES]);
        fixture.run_turns(3);
        let mut answer = fixture.acknowledged(publisher);
        if answer.is_empty() {
            waits += 1;
            fixture.assert_is_bounded();
            fixture.broker.advance(10_000);
            fixture.run_turns(3);
            answer = fixture.acknowledged(publisher);
        }
        reasons.extend(answer);
    }
    assert_eq!((reasons.len(), waits), (usize::from(MESSAGES), 1));
    assert_eq!(reasons.last(), Some(&PubAckReason::QuotaExceeded));
}
