//! A log that accepts no records: persistent clients are refused or disconnected, and other clients are served.

use tautwire_engine::{Acks, Settings};
use tautwire_protocol::{
    ConnectReason, DecodeOptions, Delivery, DisconnectReason, OwnedPacket, Packet, Properties, ProtocolVersion,
    PubAckReason, Publish, QoS, RetainHandling, SubscribeReason, TopicFilter, TopicName, Unsubscribe,
    UnsubscribeReason, decode,
};
use tautwire_session::{AckLevel, LogState};

use crate::journal::{SharedLog, SlowJournal};
use crate::ledger::Request;
use crate::packets::{ConnectOptions, connect_bytes, id, subscribe_bytes};
use crate::support::{NoDelays, SimulatedBroker, SocketId};
use crate::world::{RETAINED, returning};

struct World {
    broker: SimulatedBroker<SlowJournal>,
    log: SharedLog,
}

impl World {
    fn new() -> World {
        World::with(2, Acks::default())
    }

    fn with(shards: usize, acks: Acks) -> World {
        let log = SharedLog::default();
        log.sync_immediately();
        let settings = Settings { sys_interval_s: 0, acks, ..Settings::default() };
        World { broker: SimulatedBroker::new(shards, settings, RETAINED, |shard| log.journal(shard)), log }
    }

    /// Sets the state of the log and runs turns until all shards sleep.
    fn set_state(&mut self, state: LogState) {
        self.log.set_state(state);
        self.broker.wake_all();
        self.broker.settle(&mut NoDelays);
    }

    fn connect(&mut self, name: &str, is_persistent: bool) -> SocketId {
        let expiry_interval_s = if is_persistent { 3_600 } else { 0 };
        let options = ConnectOptions { expiry_interval_s, clean_start: !is_persistent, ..returning() };
        let socket = self.broker.connect(0, 1 << 20);
        self.broker.send(socket, &connect_bytes(name, ProtocolVersion::V5, &options, None));
        socket
    }

    fn subscribe(&mut self, socket: SocketId, filter: &str) -> SubscribeReason {
        let request = Request {
            filter: filter.into(),
            qos: QoS::AtLeastOnce,
            no_local: false,
            retain_as_published: false,
            retain_handling: RetainHandling::SendAtSubscribe,
            identifier: None,
        };
        self.broker.send(socket, &subscribe_bytes(ProtocolVersion::V5, id(1), &[request]));
        let answers = self.answers(socket);
        let Some(Packet::SubAck(ack)) = answers.last().map(OwnedPacket::as_packet) else { panic!("{answers:?}") };
        ack.reasons.iter().next().expect("one for each filter")
    }

    fn unsubscribe(&mut self, socket: SocketId, filter: &str) -> UnsubscribeReason {
        let filters = [TopicFilter::new(filter).expect("our filters are valid")];
        let unsubscribe =
            Unsubscribe { packet_id: id(2), properties: Properties::EMPTY, filters: (&filters[..]).into() };
        let mut bytes = Vec::new();
        unsubscribe.append_to(ProtocolVersion::V5, &mut bytes).expect("our UNSUBSCRIBE is valid");
        self.broker.send(socket, &bytes);
        let answers = self.answers(socket);
        let Some(Packet::UnsubAck(ack)) = answers.last().map(OwnedPacket::as_packet) else { panic!("{answers:?}") };
        ack.reasons.iter().next().expect("one for each filter")
    }

    /// Publishes at QoS 1 and returns the reason of PUBACK.
    fn publish(&mut self, socket: SocketId, topic: &str) -> PubAckReason {
        let delivery = Delivery::AtLeastOnce { packet_id: id(7), dup: false };
        self.send(socket, topic, delivery);
        let answers = self.answers(socket);
        let Some(Packet::PubAck(ack)) = answers.last().map(OwnedPacket::as_packet) else { panic!("{answers:?}") };
        ack.reason
    }

    fn send(&mut self, socket: SocketId, topic: &str, delivery: Delivery) {
        let topic = TopicName::new(topic).ok();
        let publish = Publish { delivery, retain: false, topic, properties: Properties::EMPTY, payload: b"x" };
        let mut bytes = Vec::new();
        publish.append_to(ProtocolVersion::V5, &mut bytes).expect("our PUBLISH is valid");
        self.broker.send(socket, &bytes);
    }

    fn answers(&mut self, socket: SocketId) -> Vec<OwnedPacket> {
        self.broker.settle(&mut NoDelays);
        let bytes = self.broker.take(socket, usize::MAX);
        let (mut rest, mut packets) = (&bytes[..], Vec::new());
        while let Ok((packet, length)) = decode(rest, &DecodeOptions::new(ProtocolVersion::V5)) {
            packets.push(packet.to_owned_packet().expect("a decoded packet can be owned"));
            rest = &rest[length..];
        }
        packets
    }

    fn connected(&mut self, socket: SocketId) -> ConnectReason {
        let answers = self.answers(socket);
        let Some(Packet::ConnAck(connack)) = answers.first().map(OwnedPacket::as_packet) else { panic!("{answers:?}") };
        connack.reason
    }
}

#[test]
fn a_failed_disk_disconnects_only_clients_that_need_it() {
    let mut world = World::new();
    let persistent = world.connect("lasting", true);
    let transient = world.connect("passing", false);
    assert_eq!(world.subscribe(persistent, "kept/#"), SubscribeReason::GrantedQoS1);
    assert_eq!(world.subscribe(transient, "live/#"), SubscribeReason::GrantedQoS1);
    assert_eq!(world.publish(transient, "kept/a"), PubAckReason::Success);
    assert!(matches!(world.answers(persistent)[..], [_]), "the subscriber did not receive the message");

    world.set_state(LogState::Failed);
    let received = world.answers(persistent);
    let Some(Packet::Disconnect(disconnect)) = received.last().map(OwnedPacket::as_packet) else {
        panic!("{received:?}")
    };
    assert_eq!(disconnect.reason, DisconnectReason::QuotaExceeded);
    assert!(world.broker.closed_at_ms(persistent).is_some());

    assert_eq!(world.publish(transient, "kept/a"), PubAckReason::QuotaExceeded);
    assert_eq!(world.publish(transient, "live/a"), PubAckReason::Success, "no persistent session receives it");
    assert_eq!(world.subscribe(transient, "more/#"), SubscribeReason::GrantedQoS1, "the session is not persistent");
    assert_eq!(world.unsubscribe(transient, "more/#"), UnsubscribeReason::Success);
    world.send(transient, "kept/a", Delivery::AtMostOnce);
    let again = world.connect("lasting", true);
    assert_eq!(world.connected(again), ConnectReason::ServerUnavailable);
    let newcomer = world.connect("newcomer", true);
    assert_eq!(world.connected(newcomer), ConnectReason::ServerUnavailable);
    let other = world.connect("other", false);
    assert_eq!(world.connected(other), ConnectReason::Success);
    assert_eq!(world.publish(other, "live/b"), PubAckReason::Success);
    // A clean start that ends a persistent session needs no record.
    let restarted = world.connect("lasting", false);
    assert_eq!(world.connected(restarted), ConnectReason::Success);
    let totals = world.broker.totals();
    assert_eq!((totals.publishes_refused_disk, totals.resources_refused_disk), (1, 3));
}

/// The writer's wake-up during a turn has no effect: the turn must check the state of the log again before the shard sleeps.
#[test]
fn a_disk_failure_during_a_turn_is_noticed_before_sleeping() {
    // With two shards, the other one would wake this one.
    let mut world = World::with(1, Acks::default());
    world.log.stop_syncing();
    world.log.fail_with_next_frame();
    let client = world.connect("unlucky", true);
    assert_eq!(world.connected(client), ConnectReason::ServerUnavailable);
    assert!(world.broker.closed_at_ms(client).is_some());
    let totals = world.broker.totals();
    assert_eq!((totals.resources_refused_disk, totals.connects_refused), (1, 1));
}

/// The writer of the log can fail while a packet is handled.
#[test]
fn a_disk_failure_while_handling_a_message_prevents_its_acknowledgement() {
    let mut world = World::new();
    let persistent = world.connect("lasting", true);
    let transient = world.connect("passing", false);
    assert_eq!(world.subscribe(persistent, "kept/#"), SubscribeReason::GrantedQoS1);
    world.broker.abandon(persistent);
    assert_eq!(world.publish(transient, "kept/a"), PubAckReason::Success);

    world.log.fail_with_next_record();
    world.send(transient, "kept/b", Delivery::AtLeastOnce { packet_id: id(7), dup: false });
    let received = world.answers(transient);
    let [disconnect] = &received[..] else { panic!("{received:?}") };
    let Packet::Disconnect(disconnect) = disconnect.as_packet() else { panic!("{received:?}") };
    assert_eq!(disconnect.reason, DisconnectReason::QuotaExceeded);
}

#[test]
fn a_full_disk_refuses_new_records_and_delivers_queued_messages() {
    let mut world = World::new();
    let persistent = world.connect("lasting", true);
    let transient = world.connect("passing", false);
    assert_eq!(world.subscribe(persistent, "kept/#"), SubscribeReason::GrantedQoS1);
    world.broker.abandon(persistent);
    assert_eq!(world.publish(transient, "kept/a"), PubAckReason::Success);

    world.set_state(LogState::Full);
    assert_eq!(world.publish(transient, "kept/b"), PubAckReason::QuotaExceeded);
    let newcomer = world.connect("newcomer", true);
    assert_eq!(world.connected(newcomer), ConnectReason::ServerBusy);
    let back = world.connect("lasting", true);
    let answers = world.answers(back);
    let [connack, message] = &answers[..] else { panic!("{answers:?}") };
    let (Packet::ConnAck(connack), Packet::Publish(_)) = (connack.as_packet(), message.as_packet()) else {
        panic!("{answers:?}")
    };
    assert_eq!((connack.reason, connack.session_present), (ConnectReason::Success, true));
    assert_eq!(world.subscribe(back, "more/#"), SubscribeReason::QuotaExceeded);
    assert_eq!(
        world.subscribe(back, "kept/#"),
        SubscribeReason::GrantedQoS1,
        "the session already has the subscription"
    );
    assert_eq!(world.unsubscribe(back, "kept/#"), UnsubscribeReason::Success, "UNSUBSCRIBE is accepted on a full disk");
    assert_eq!(world.subscribe(transient, "more/#"), SubscribeReason::GrantedQoS1, "the session is not persistent");
    assert_eq!(world.unsubscribe(transient, "more/#"), UnsubscribeReason::Success);
    let totals = world.broker.totals();
    assert_eq!((totals.publishes_refused_disk, totals.resources_refused_disk), (1, 2));

    world.set_state(LogState::Open);
    assert_eq!(world.subscribe(back, "more/#"), SubscribeReason::GrantedQoS1);
    assert_eq!(world.publish(transient, "more/c"), PubAckReason::Success);
    let newcomer = world.connect("newcomer", true);
    assert_eq!(world.connected(newcomer), ConnectReason::Success);
}

#[test]
fn an_acknowledgement_waits_for_the_level_of_its_topic() {
    let topics = vec![("m/memory".into(), AckLevel::Memory), ("m/os".into(), AckLevel::Os)];
    let mut world = World::with(2, Acks { topics, ..Acks::default() });
    let persistent = world.connect("lasting", true);
    assert_eq!(world.subscribe(persistent, "m/#"), SubscribeReason::GrantedQoS1);
    world.broker.abandon(persistent);
    world.log.stop_syncing();
    world.log.hold_frames(true);
    let publish = |world: &mut World, topic| {
        // Each client waits for one acknowledgement only.
        let socket = world.connect(topic, false);
        world.answers(socket);
        world.send(socket, topic, Delivery::AtLeastOnce { packet_id: id(7), dup: false });
        socket
    };
    let (memory, os, disk) =
        (publish(&mut world, "m/memory"), publish(&mut world, "m/os"), publish(&mut world, "m/disk"));
    let answered = |world: &mut World| [memory, os, disk].map(|socket| world.answers(socket).len());
    assert_eq!(answered(&mut world), [1, 0, 0]);
    world.log.hold_frames(false);
    world.broker.wake_all();
    assert_eq!(answered(&mut world), [0, 1, 0]);
    world.log.sync_immediately();
    world.broker.wake_all();
    assert_eq!(answered(&mut world), [0, 0, 1]);
}
