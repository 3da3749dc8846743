//! Authentication, access rules and quotas of clients.

mod config;
mod connect;
mod exchange;
mod quotas;
mod resumed_sessions;
mod rules;
mod world;

use tautwire_protocol::{
    ConnAck, Connect, ConnectReason, List, Packet, PacketId, Properties, Property, ProtocolVersion, Publish, QoS,
    ReasonCode, SubAck, Subscribe, SubscriptionOptions, SubscriptionRequest, TopicFilter, TopicName,
};

use world::{Client, World};

const V5: ProtocolVersion = ProtocolVersion::V5;
const V3: ProtocolVersion = ProtocolVersion::V3_1_1;

fn connect<'a>(client_id: &'a str, properties: &'a [Property<'a>]) -> Connect<'a> {
    Connect {
        version: V5,
        clean_start: false,
        keep_alive_s: 0,
        client_id,
        will: None,
        user_name: Some("ann"),
        password: Some(b"secret"),
        properties: Properties::from_list(properties),
    }
}

fn connect_v3(client_id: &str) -> Connect<'_> {
    Connect { version: V3, ..connect(client_id, &[]) }
}

/// Session Present and the reason of a CONNACK.
fn connack(packet: &Packet<'_>) -> (bool, ConnectReason) {
    let Packet::ConnAck(ConnAck { session_present, reason, .. }) = packet else {
        panic!("{packet:?} is not a CONNACK")
    };
    (*session_present, *reason)
}

/// A client of 5.0, connected as `user`, with a persistent session.
fn member(world: &mut World, client_id: &str, user: &str) -> Client {
    let client = world.connection();
    world.send(client, &Packet::Connect(connect(client_id, &[Property::SessionExpiryInterval(3_600)])));
    assert!(world.auth_request(client).is_some(), "the client is not authenticated");
    world.admit(client, user);
    let answers = world.received(V5, client, connack);
    assert_eq!(answers.iter().map(|(_, reason)| *reason).collect::<Vec<_>>(), [ConnectReason::Success]);
    client
}

/// Subscribes at QoS 1. Returns the codes of SUBACK.
fn subscribe(world: &mut World, client: Client, filters: &[&str]) -> Vec<u8> {
    send_subscribe(world, client, filters);
    suback(world, client)
}

/// The reason codes of the SUBACK that the client has received.
fn suback(world: &mut World, client: Client) -> Vec<u8> {
    let codes = world.received(V5, client, |packet| match packet {
        Packet::SubAck(SubAck { reasons, .. }) => reasons.iter().map(|reason| reason.as_u8()).collect(),
        other => panic!("{other:?} is not a SUBACK"),
    });
    codes.into_iter().next().expect("a SUBACK")
}

fn send_subscribe(world: &mut World, client: Client, filters: &[&str]) {
    with_subscribe(filters, |packet| world.send(client, packet));
}

fn with_subscribe(filters: &[&str], send: impl FnOnce(&Packet<'_>)) {
    let options = SubscriptionOptions { qos: QoS::AtLeastOnce, ..SubscriptionOptions::default() };
    let requests: Vec<_> = filters
        .iter()
        .map(|filter| SubscriptionRequest { filter: TopicFilter::new(filter).expect("a filter"), options })
        .collect();
    let packet_id = PacketId::new(9).expect("not 0");
    let subscribe = Subscribe { packet_id, properties: Properties::EMPTY, requests: List::from(&requests[..]) };
    send(&Packet::Subscribe(subscribe));
}

/// Subscribes to one filter and checks that `qos` is granted.
fn subscribe_at(world: &mut World, client: Client, filter: &str, qos: QoS) {
    let options = SubscriptionOptions { qos, ..SubscriptionOptions::default() };
    let requests = [SubscriptionRequest { filter: TopicFilter::new(filter).expect("a filter"), options }];
    let packet_id = PacketId::new(9).expect("not 0");
    let subscribe = Subscribe { packet_id, properties: Properties::EMPTY, requests: List::from(&requests[..]) };
    world.send(client, &Packet::Subscribe(subscribe));
    assert_eq!(world.received_bytes(client).last(), Some(&qos.as_u8()), "the granted QoS differs");
}

fn publish(world: &mut World, client: Client, topic: &str, qos: QoS, retain: bool) {
    send_publish(world, V5, client, topic, qos, retain);
}

fn send_publish(world: &mut World, version: ProtocolVersion, client: Client, topic: &str, qos: QoS, retain: bool) {
    let packet_id = PacketId::new(7).expect("not 0");
    let delivery = match qos {
        QoS::AtMostOnce => tautwire_protocol::Delivery::AtMostOnce,
        QoS::AtLeastOnce => tautwire_protocol::Delivery::AtLeastOnce { packet_id, dup: false },
        QoS::ExactlyOnce => tautwire_protocol::Delivery::ExactlyOnce { packet_id, dup: false },
    };
    let topic = TopicName::new(topic).expect("a topic");
    let publish = Publish { topic: Some(topic), delivery, retain, properties: Properties::EMPTY, payload: b"x" };
    world.send_in_version(version, client, &Packet::Publish(publish));
}

/// The topics of the messages that a client of 5.0 has received, and `?` for each other packet.
fn topics(world: &mut World, client: Client) -> Vec<String> {
    world.received(V5, client, |packet| match packet {
        Packet::Publish(publish) => publish.topic.map_or(String::new(), |topic| topic.as_str().to_owned()),
        _ => "?".to_owned(),
    })
}

/// The reason code of the only packet that a client of 5.0 has received.
fn code(world: &mut World, client: Client) -> ReasonCode {
    let codes = world.received(V5, client, |packet| match packet {
        Packet::PubAck(ack) => ack.reason.into(),
        Packet::PubRec(received) => received.reason.into(),
        Packet::Disconnect(disconnect) => disconnect.reason.into(),
        Packet::ConnAck(connack) => connack.reason.into(),
        other => panic!("{other:?} has no reason code"),
    });
    let [code] = codes[..] else { panic!("{codes:?}") };
    code
}
