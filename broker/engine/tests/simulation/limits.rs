//! Timeouts and limits that random clients do not reach.

use tautwire_engine::Settings;
use tautwire_engine::Volatile;
use tautwire_protocol::{
    DecodeOptions, Delivery, OwnedPacket, Packet, Properties, ProtocolVersion, PubRec, Publish, QoS, RetainHandling,
    TopicName, decode,
};

use crate::ledger::Request;
use crate::packets::{ConnectOptions, connect_bytes, id, subscribe_bytes};
use crate::support::{NoDelays, SimulatedBroker, SocketId};
use crate::world::{RETAINED, returning};

type Broker = SimulatedBroker<Volatile>;

fn broker(settings: Settings) -> Broker {
    SimulatedBroker::new(1, Settings { sys_interval_s: 0, ..settings }, RETAINED, |_| Volatile)
}

fn connect(broker: &mut Broker, id: &str, room_bytes: usize) -> SocketId {
    let socket = broker.connect(0, room_bytes);
    broker.send(socket, &connect_bytes(id, ProtocolVersion::V5, &returning(), None));
    broker.settle(&mut NoDelays);
    let packets = packets(&broker.take(socket, usize::MAX));
    assert!(matches!(packets[0].as_packet(), Packet::ConnAck(_)));
    socket
}

fn packets(mut bytes: &[u8]) -> Vec<OwnedPacket> {
    let mut packets = Vec::new();
    while !bytes.is_empty() {
        let (packet, length) =
            decode(bytes, &DecodeOptions::new(ProtocolVersion::V5)).expect("the bytes are whole valid packets");
        packets.push(packet.to_owned_packet().expect("a decoded packet can be owned"));
        bytes = &bytes[length..];
    }
    packets
}

fn bytes_of(packet: &Packet<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet.append_to(ProtocolVersion::V5, &mut bytes).expect("our packets are valid");
    bytes
}

fn publish(delivery: Delivery, payload: &[u8]) -> Vec<u8> {
    let topic = TopicName::new("t").ok();
    bytes_of(&Packet::Publish(Publish { delivery, retain: false, topic, properties: Properties::EMPTY, payload }))
}

#[test]
fn a_publisher_whose_reads_end_within_packets_stays_connected() {
    let mut broker = broker(Settings { incomplete_packet_timeout_s: 30, ..Settings::default() });
    let socket = connect(&mut broker, "c", 1 << 30);
    let packet = publish(Delivery::AtMostOnce, &[0; 100]);
    let (begin, end) = packet.split_at(40);
    broker.send(socket, begin);
    for _ in 0..100 {
        broker.settle(&mut NoDelays);
        broker.advance(1_000);
        broker.send(socket, end);
        broker.send(socket, begin);
    }
    broker.settle(&mut NoDelays);
    assert_eq!(broker.closed_at_ms(socket), None);
    assert_eq!(broker.totals().publishes_received, 100);
}

#[test]
fn an_incomplete_packet_ends_its_connection() {
    let mut broker = broker(Settings { incomplete_packet_timeout_s: 30, ..Settings::default() });
    let socket = connect(&mut broker, "c", 1 << 30);
    let packet = publish(Delivery::AtMostOnce, &[0; 100]);
    // More bytes of the incomplete packet do not extend the timeout.
    for byte in &packet[..60] {
        broker.send(socket, &[*byte]);
        broker.settle(&mut NoDelays);
        broker.advance(1_000);
    }
    broker.settle(&mut NoDelays);
    assert!(broker.closed_at_ms(socket).is_some());
    assert_eq!(broker.totals().incomplete_packet_timeouts, 1);
}

#[test]
fn responses_to_a_client_that_does_not_read_are_bounded() {
    const PINGS: usize = 100_000;
    let limit = 10_000;
    let mut broker = broker(Settings { connection_output_bytes: limit, ..Settings::default() });
    let socket = connect(&mut broker, "c", 1_000);
    for _ in 0..PINGS / 1_000 {
        broker.send(socket, &[0xC0, 0].repeat(1_000));
        broker.settle(&mut NoDelays);
        let pending = broker.totals().output_bytes;
        assert!(pending <= limit as u64 + 4_000, "{pending} bytes are pending");
    }
    assert!(broker.totals().clients_paused_for_output > 0);
    let mut answers = 0;
    while answers < PINGS {
        let bytes = broker.take(socket, usize::MAX);
        assert!(!bytes.is_empty(), "only {answers} PINGRESP arrived");
        answers += bytes.len() / 2;
        broker.settle(&mut NoDelays);
    }
}

/// The client has the message but its PUBREC is lost. It reconnects with a Maximum Packet Size below that of the message.
#[test]
fn an_identifier_in_use_by_the_client_is_not_reused() {
    let mut broker = broker(Settings::default());
    let publisher = connect(&mut broker, "publisher", 1 << 30);
    let subscriber = connect(&mut broker, "subscriber", 1 << 30);
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
    broker.send(publisher, &publish(Delivery::ExactlyOnce { packet_id: id(1), dup: false }, &[0; 1_000]));
    broker.settle(&mut NoDelays);
    let first = packets(&broker.take(subscriber, usize::MAX));
    let Packet::Publish(held) = first[0].as_packet() else { panic!("{first:?}") };
    let held_id = held.packet_id().expect("QoS 2");
    // The client has the message; its PUBREC does not arrive.
    broker.cut(subscriber);
    broker.settle(&mut NoDelays);

    let subscriber = broker.connect(0, 1 << 30);
    let options = ConnectOptions { maximum_packet_bytes: Some(500), ..returning() };
    broker.send(subscriber, &connect_bytes("subscriber", ProtocolVersion::V5, &options, None));
    broker.settle(&mut NoDelays);
    broker.send(publisher, &publish(Delivery::ExactlyOnce { packet_id: id(2), dup: false }, b"small"));
    broker.settle(&mut NoDelays);
    for packet in packets(&broker.take(subscriber, usize::MAX)) {
        if let Packet::Publish(publish) = packet.as_packet() {
            assert_ne!(publish.packet_id(), Some(held_id), "the client would take the message for a duplicate");
        }
    }
    broker.send(subscriber, &bytes_of(&Packet::PubRec(PubRec::success(held_id))));
    broker.settle(&mut NoDelays);
    assert_eq!(broker.closed_at_ms(subscriber), None);
}
