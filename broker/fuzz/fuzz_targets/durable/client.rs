//! Clients that send valid packets, and record the broker's acknowledgements.

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use tautwire_protocol::{
    Connect, DecodeOptions, Delivery, Disconnect, DisconnectReason, Packet, PacketId, Properties, Property,
    ProtocolVersion, PubAck, PubComp, PubRec, PubRel, Publish, QoS, Subscribe, SubscriptionOptions,
    SubscriptionRequest, TopicFilter, TopicName, decode,
};

use crate::life::DiskJournal;
use crate::support::{SimulatedBroker, SocketId};

/// At the beginning of each payload, and nowhere else.
pub(crate) const MARK: u8 = b'=';
/// The first packet identifier of these clients. Raw bytes hardly ever use it.
const FIRST_ID: u16 = 0x6161;
const V5: ProtocolVersion = ProtocolVersion::V5;

type Broker = SimulatedBroker<DiskJournal>;

/// One Client Identifier and its current connection.
pub(crate) struct Client {
    pub(crate) name: String,
    socket: Option<SocketId>,
    input: Vec<u8>,
    /// Unacknowledged messages of this connection: packet identifier, then number.
    waiting: BTreeMap<u16, usize>,
    /// Received messages, by packet identifier, with their QoS.
    received: BTreeMap<u16, QoS>,
    next_id: u16,
}

impl Client {
    pub(crate) fn new(name: &str) -> Client {
        let (waiting, received) = (BTreeMap::new(), BTreeMap::new());
        Client { name: name.to_owned(), socket: None, input: Vec::new(), waiting, received, next_id: FIRST_ID }
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.socket.is_some()
    }

    pub(crate) fn connect(&mut self, broker: &mut Broker, shard: usize, clean_start: bool, expiry_s: u32) {
        self.cut(broker);
        let socket = broker.connect(shard % broker.shards(), 1 << 20);
        self.socket = Some(socket);
        let properties =
            [Property::SessionExpiryInterval(expiry_s), Property::ReceiveMaximum(NonZeroU16::MIN.saturating_add(4))];
        let name = self.name.clone();
        let connect = Connect {
            version: V5,
            clean_start,
            keep_alive_s: 0,
            client_id: &name,
            will: None,
            user_name: None,
            password: None,
            properties: Properties::from_list(&properties),
        };
        self.send(broker, &Packet::Connect(connect));
    }

    /// Loses the connection and everything in transit.
    pub(crate) fn cut(&mut self, broker: &mut Broker) {
        if let Some(socket) = self.socket {
            broker.cut(socket);
        }
        self.forget();
    }

    /// The broker has stopped.
    pub(crate) fn forget(&mut self) {
        self.socket = None;
        self.input.clear();
        self.waiting.clear();
        self.received.clear();
    }

    /// Disconnects; with `ends`, also ends the session.
    pub(crate) fn leave(&mut self, broker: &mut Broker, ends: bool) {
        let properties = [Property::SessionExpiryInterval(0)];
        let properties = if ends { Properties::from_list(&properties) } else { Properties::EMPTY };
        self.send(
            broker,
            &Packet::Disconnect(Disconnect { reason: DisconnectReason::NormalDisconnection, properties }),
        );
        if let Some(socket) = self.socket {
            broker.finish(socket);
        }
        self.forget();
    }

    pub(crate) fn subscribe(&mut self, broker: &mut Broker, filter: &str) {
        let Ok(filter) = TopicFilter::new(filter) else { return };
        let requests = [SubscriptionRequest { filter, options: SubscriptionOptions::with_qos(QoS::ExactlyOnce) }];
        let packet_id = self.new_id();
        let packet = Subscribe { packet_id, properties: Properties::EMPTY, requests: (&requests[..]).into() };
        self.send(broker, &Packet::Subscribe(packet));
    }

    /// Publishes message `number`.
    pub(crate) fn publish(
        &mut self,
        broker: &mut Broker,
        number: usize,
        qos: QoS,
        topic: &str,
        len: usize,
        retain: bool,
    ) {
        let packet_id = self.new_id();
        let mut payload = format!("{}{number}:", char::from(MARK)).into_bytes();
        payload.resize(payload.len() + len, b'.');
        let publish = Publish {
            delivery: match qos {
                QoS::ExactlyOnce => Delivery::ExactlyOnce { packet_id, dup: false },
                _ => Delivery::AtLeastOnce { packet_id, dup: false },
            },
            retain,
            topic: TopicName::new(topic).ok(),
            properties: Properties::EMPTY,
            payload: &payload,
        };
        if self.socket.is_some() {
            self.waiting.insert(packet_id.get(), number);
        }
        self.send(broker, &Packet::Publish(publish));
    }

    /// Acknowledges the oldest received message, by its next step.
    pub(crate) fn acknowledge(&mut self, broker: &mut Broker) {
        let Some((id, qos)) = self.received.pop_first() else { return };
        let Some(packet_id) = PacketId::new(id) else { return };
        let packet = match qos {
            QoS::ExactlyOnce => Packet::PubRec(PubRec::success(packet_id)),
            _ => Packet::PubAck(PubAck::success(packet_id)),
        };
        self.send(broker, &packet);
    }

    /// Sends arbitrary bytes.
    pub(crate) fn send_raw(&mut self, broker: &mut Broker, bytes: &[u8]) {
        if let Some(socket) = self.socket {
            let unmarked: Vec<u8> = bytes.iter().map(|byte| if *byte == MARK { 0 } else { *byte }).collect();
            broker.send(socket, &unmarked);
        }
    }

    /// Reads received bytes; returns the numbers of messages that have been acknowledged.
    pub(crate) fn read(&mut self, broker: &mut Broker) -> Vec<usize> {
        let Some(socket) = self.socket else { return Vec::new() };
        self.input.extend(broker.take(socket, usize::MAX));
        let (input, mut at, mut acknowledged) = (std::mem::take(&mut self.input), 0, Vec::new());
        loop {
            let (packet, length) = match decode(&input[at..], &DecodeOptions::new(V5)) {
                Ok(decoded) => decoded,
                Err(error) if error.is_incomplete() => break,
                Err(error) => panic!("the broker sent {error}"),
            };
            at += length;
            match packet {
                Packet::PubAck(ack) => {
                    let number = self.waiting.remove(&ack.packet_id.get());
                    acknowledged.extend(number.filter(|_| !ack.reason.is_error()));
                }
                Packet::PubRec(ack) => {
                    let number = self.waiting.remove(&ack.packet_id.get());
                    acknowledged.extend(number.filter(|_| !ack.reason.is_error()));
                    if !ack.reason.is_error() {
                        self.send(broker, &Packet::PubRel(PubRel::success(ack.packet_id)));
                    }
                }
                Packet::PubRel(release) => {
                    self.send(broker, &Packet::PubComp(PubComp::success(release.packet_id)));
                }
                Packet::Publish(publish) => {
                    if let Some(id) = publish.packet_id() {
                        self.received.insert(id.get(), publish.qos());
                    }
                }
                _ => {}
            }
        }
        self.input = input[at..].to_vec();
        acknowledged
    }

    fn new_id(&mut self) -> PacketId {
        let id = PacketId::new(self.next_id).unwrap_or_else(|| unreachable!("an input is short"));
        self.next_id += 1;
        id
    }

    fn send(&mut self, broker: &mut Broker, packet: &Packet<'_>) {
        let Some(socket) = self.socket else { return };
        let mut bytes = Vec::new();
        packet.append_to(V5, &mut bytes).unwrap_or_else(|error| panic!("these packets can be encoded: {error}"));
        broker.send(socket, &bytes);
    }
}
