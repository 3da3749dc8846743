//! A store of cold messages that is slower than those who publish: what is in memory has an end, and so has their wait.

use tautwire_engine::Settings;
use tautwire_memory::Kind;
use tautwire_protocol::{
    Delivery, Disconnect, DisconnectReason, Packet, Properties, ProtocolVersion, PubAck, PubAckReason, Publish, QoS,
    RetainHandling, TopicName,
};
use tautwire_router::RetainedLimits;

use crate::cold::PromptLog;
use crate::ledger::Request;
use crate::packets::{ConnectOptions, connect_bytes, each_packet, id, subscribe_bytes};
use crate::support::{NoDelays, SimulatedBroker, SocketId};
use crate::world::returning;

const V5: ProtocolVersion = ProtocolVersion::V5;
const MESSAGES: u16 = 300;
const PAYLOAD_BYTES: usize = 64 << 10;
const SPILL_THRESHOLD_BYTES: usize = 1 << 20;
/// Half as much again as may be in memory, as much again for what the store is writing, and for what comes in a turn.
const BOUND_BYTES: u64 =
    (SPILL_THRESHOLD_BYTES + SPILL_THRESHOLD_BYTES / 2 + SPILL_THRESHOLD_BYTES + SPILL_THRESHOLD_BYTES) as u64;

struct Scene {
    broker: SimulatedBroker<PromptLog>,
    next_packet_id: u16,
}

impl Scene {
    fn new(shards: usize, settings: Settings) -> Scene {
        let settings = Settings { sys_interval_s: 0, spill_threshold_bytes: SPILL_THRESHOLD_BYTES, ..settings };
        let limits = RetainedLimits { messages: 1 << 20, bytes: 1 << 30 };
        let mut broker = SimulatedBroker::new(shards, settings, limits, PromptLog::of_all_shards());
        broker.connect_spill_store();
        Scene { broker, next_packet_id: 0 }
    }

    /// A client whose session lives on `shard`.
    fn client(&mut self, shard: usize, name: &str, terms: &ConnectOptions) -> SocketId {
        let name = self.broker.client_id_on(shard, name);
        let socket = self.broker.connect(shard, 1 << 30);
        self.broker.send(socket, &connect_bytes(&name, V5, terms, None));
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

    /// A session on `shard` whose client has gone.
    fn create_offline_session(&mut self, shard: usize, filter: &str) {
        let away = self.client(shard, "s", &returning());
        self.subscribe(away, filter);
        self.broker.cut(away);
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

    /// The store does nothing meanwhile.
    fn turns(&mut self, count: usize) {
        for _ in 0..count {
            for shard in 0..self.broker.shards() {
                self.broker.turn(shard, &mut NoDelays);
            }
        }
    }

    fn hot_bytes(&self) -> u64 {
        self.broker.memory().held(Kind::Message)
    }

    #[track_caller]
    fn assert_is_bounded(&self) {
        let hot_bytes = self.hot_bytes();
        assert!(hot_bytes <= BOUND_BYTES, "{hot_bytes} of {BOUND_BYTES}");
    }

    /// The store serves all that it is asked for.
    fn serve(&mut self) {
        let store = self.broker.spilled().expect("it is connected").clone();
        while let Some(shard) = store.serve(&mut NoDelays) {
            self.broker.wake(shard);
            self.turns(1);
            // Those who wait on another shard look again after a while.
            self.broker.advance(5);
            self.turns(1);
            self.assert_is_bounded();
        }
    }

    /// The reasons of the PUBACKs that have come.
    fn acknowledged(&mut self, socket: SocketId) -> Vec<PubAckReason> {
        let bytes = self.broker.take(socket, usize::MAX);
        each_packet(&bytes, |packet| if let Packet::PubAck(ack) = packet { Some(ack.reason) } else { None })
    }
}

#[test]
fn publishers_of_retained_messages_wait_while_the_store_is_behind() {
    let mut scene = Scene::new(1, Settings::default());
    let publisher = scene.client(0, "p", &returning());
    let other = scene.client(0, "q", &returning());
    scene.publish_many(publisher, true);
    scene.turns(1_000);
    assert!(scene.hot_bytes() > SPILL_THRESHOLD_BYTES as u64);
    scene.assert_is_bounded();
    assert!(scene.broker.totals().clients_paused_for_spill > 0);
    scene.send(other, &Packet::PingReq);
    scene.turns(1);
    assert!(!scene.broker.take(other, usize::MAX).is_empty(), "who adds nothing is heard");
    scene.serve();
    scene.broker.settle(&mut NoDelays);
    assert_eq!(scene.acknowledged(publisher).len(), usize::from(MESSAGES));
    assert_eq!(scene.broker.exchange().retained().0, usize::from(MESSAGES));
}

/// It is another shard that gives the store its messages.
#[test]
fn publishers_wait_for_the_sessions_of_other_shards() {
    let mut scene = Scene::new(2, Settings { session_queue_bytes: 1 << 30, ..Settings::default() });
    let publisher = scene.client(0, "p", &returning());
    scene.create_offline_session(1, "t/#");
    scene.publish_many(publisher, false);
    scene.turns(1_000);
    scene.assert_is_bounded();
    assert!(scene.broker.totals().clients_paused_for_spill > 0);
    scene.serve();
    scene.broker.settle(&mut NoDelays);
    assert_eq!(scene.acknowledged(publisher), [PubAckReason::Success].repeat(usize::from(MESSAGES)));
}

/// Messages on their way to a slow store do not bring the account of memory to its limits first.
#[test]
fn publishers_wait_before_they_would_be_refused() {
    for shards in [1, 2] {
        let (memory_bytes, session_queue_bytes) = (8 * SPILL_THRESHOLD_BYTES, 1 << 30);
        let mut scene = Scene::new(shards, Settings { memory_bytes, session_queue_bytes, ..Settings::default() });
        let publisher = scene.client(0, "p", &returning());
        scene.create_offline_session(shards - 1, "t/#");
        let store = scene.broker.spilled().expect("it is connected").clone();
        let mut reasons = Vec::new();
        for number in 0..MESSAGES {
            scene.publish(publisher, &format!("t/{number}"), false, &[0; PAYLOAD_BYTES]);
            scene.turns(3);
            reasons.extend(scene.acknowledged(publisher));
            // It does one thing at a time, and only when somebody waits for it.
            while reasons.len() == usize::from(number) {
                scene.assert_is_bounded();
                if let Some(shard) = store.serve(&mut NoDelays) {
                    scene.broker.wake(shard);
                }
                scene.broker.advance(5);
                scene.turns(3);
                reasons.extend(scene.acknowledged(publisher));
            }
        }
        assert_eq!(reasons, [PubAckReason::Success].repeat(usize::from(MESSAGES)));
        assert!(scene.broker.totals().clients_paused_for_spill > 0);
    }
}

/// What a client has sent behind the message that waits is heard, where it may overtake it.
#[test]
fn a_subscriber_goes_on_whose_acknowledgements_are_behind_a_message_that_waits() {
    let mut scene = Scene::new(1, Settings::default());
    let one_at_a_time = ConnectOptions { receive_maximum: Some(1), ..returning() };
    let both = scene.client(0, "p", &one_at_a_time);
    scene.subscribe(both, "mine");
    let other = scene.client(0, "q", &returning());
    scene.publish(other, "mine", false, b"one");
    scene.publish(other, "mine", false, b"two");
    scene.turns(2);
    let received = |bytes: &[u8]| {
        each_packet(bytes, |packet| match packet {
            Packet::Publish(Publish { payload, delivery: Delivery::AtLeastOnce { packet_id, .. }, .. }) => {
                Some((*packet_id, payload.to_vec()))
            }
            _ => None,
        })
    };
    let first = received(&scene.broker.take(both, usize::MAX));
    assert_eq!(first.iter().map(|(_, payload)| &payload[..]).collect::<Vec<_>>(), [b"one"]);

    // Enough of other clients that each message of this one waits.
    scene.publish_many(other, true);
    scene.turns(100);
    let before = scene.broker.totals().clients_paused_for_spill;
    scene.publish(both, "t/last", true, &[0; PAYLOAD_BYTES]);
    let ack = PubAck { packet_id: first[0].0, reason: PubAckReason::Success, properties: Properties::EMPTY };
    scene.send(both, &Packet::PubAck(ack));
    scene.send(both, &Packet::PingReq);
    scene.turns(100);
    let bytes = scene.broker.take(both, usize::MAX);
    assert_eq!(scene.broker.totals().clients_paused_for_spill, before + 1, "its message waits");
    assert_eq!(received(&bytes).iter().map(|(_, payload)| &payload[..]).collect::<Vec<_>>(), [b"two"]);
    let answers = each_packet(&bytes, |packet| matches!(packet, Packet::PingResp).then_some(()));
    assert_eq!(answers.len(), 1);

    // What it says last does not overtake what it has published.
    scene.send(both, &Packet::Disconnect(Disconnect::new(DisconnectReason::NormalDisconnection)));
    scene.turns(10);
    assert_eq!(scene.broker.closed_at_ms(both), None);
    scene.serve();
    scene.broker.settle(&mut NoDelays);
    assert!(scene.broker.exchange().retained_message("t/last").is_some());
    assert!(scene.broker.closed_at_ms(both).is_some());
}

/// A store that never answers: the account of memory refuses what is too much, as if there were none.
#[test]
fn publishers_do_not_wait_for_ever_for_a_store_that_stands_still() {
    let (memory_bytes, session_queue_bytes) = (16 << 20, 1 << 30);
    let limits = Settings { memory_bytes, session_queue_bytes, session_queue_memory: false, ..Settings::default() };
    let mut scene = Scene::new(1, limits);
    let publisher = scene.client(0, "p", &returning());
    scene.create_offline_session(0, "t/#");
    let mut reasons = Vec::new();
    let mut waits = 0;
    for number in 0..MESSAGES {
        scene.publish(publisher, &format!("t/{number}"), false, &[0; PAYLOAD_BYTES]);
        scene.turns(3);
        let mut answer = scene.acknowledged(publisher);
        if answer.is_empty() {
            waits += 1;
            scene.assert_is_bounded();
            scene.broker.advance(10_000);
            scene.turns(3);
            answer = scene.acknowledged(publisher);
        }
        reasons.extend(answer);
    }
    assert_eq!((reasons.len(), waits), (usize::from(MESSAGES), 1));
    assert_eq!(reasons.last(), Some(&PubAckReason::QuotaExceeded));
}
