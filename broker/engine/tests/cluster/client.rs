//! A client of MQTT 5.0 that stores its session, acknowledges messages, and sends unacknowledged ones again.

use std::collections::BTreeSet;

use tautwire_protocol::{
    Connect, ConnectReason, DecodeOptions, Delivery, Disconnect, DisconnectReason, Packet, PacketId, Properties,
    Property, ProtocolVersion, PubAck, PubAckReason, PubComp, PubCompReason, PubRec, PubRecReason, PubRel,
    PubRelReason, Publish, QoS, ReasonCode, Subscribe, SubscriptionOptions, SubscriptionRequest, TopicFilter,
    TopicName, Will, decode,
};

use crate::support::SocketId;

/// A message that the client received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReceivedMessage {
    pub(crate) topic: String,
    pub(crate) payload: String,
    pub(crate) qos: QoS,
    pub(crate) is_dup: bool,
    pub(crate) is_retained: bool,
    pub(crate) packet_id: u16,
}

/// The will of a client.
#[derive(Debug, Clone)]
pub(crate) struct WillMessage {
    pub(crate) topic: String,
    pub(crate) payload: String,
    pub(crate) qos: QoS,
    pub(crate) is_retained: bool,
    pub(crate) delay_s: u32,
    pub(crate) message_expiry_s: Option<u32>,
}

impl WillMessage {
    pub(crate) fn new(topic: &str, payload: &str) -> WillMessage {
        WillMessage {
            topic: topic.to_owned(),
            payload: payload.to_owned(),
            qos: QoS::AtLeastOnce,
            is_retained: false,
            delay_s: 0,
            message_expiry_s: None,
        }
    }
}

/// A message that the client has sent, and that is not complete.
#[derive(Debug, Clone)]
struct SentMessage {
    packet_id: u16,
    topic: String,
    payload: String,
    qos: QoS,
    is_retained: bool,
    is_received: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Client {
    pub(crate) name: String,
    /// Its connection: the place of the node, and the socket there.
    pub(crate) at: Option<(usize, SocketId)>,
    input: Vec<u8>,
    output: Vec<u8>,
    /// The reason code and Session Present of CONNACK.
    pub(crate) connack: Option<(ConnectReason, bool)>,
    /// How often it was accepted.
    pub(crate) accepted: usize,
    pub(crate) assigned: Option<String>,
    /// The reason code of DISCONNECT.
    pub(crate) disconnected: Option<DisconnectReason>,
    pub(crate) received: Vec<ReceivedMessage>,
    /// Packet identifiers of QoS 2 messages that were received and not released; each is in `received` once.
    unreleased: BTreeSet<u16>,
    in_flight: Vec<SentMessage>,
    last_packet_id: u16,
    /// Payloads of completely acknowledged messages, and of refused ones.
    pub(crate) done: Vec<String>,
    pub(crate) refused: Vec<String>,
    /// The reason codes of the refusals.
    pub(crate) reasons: Vec<ReasonCode>,
    /// The number of received PUBACK and PUBREC packets.
    pub(crate) answers: usize,
    pub(crate) suback: Vec<u8>,
    pub(crate) unsubacks: usize,
    /// It receives messages without acknowledging them.
    pub(crate) withholds_acks: bool,
    pending_acks: Vec<(QoS, u16)>,
    pub(crate) receive_maximum: Option<u16>,
    pub(crate) releases: Vec<u16>,
    /// It uses MQTT 3.1.1.
    pub(crate) is_v3: bool,
    /// The will of its next connections.
    pub(crate) will: Option<WillMessage>,
    /// The Server Reference it received.
    pub(crate) reference: Option<String>,
    /// The Message Expiry Interval of its messages.
    pub(crate) message_expiry_s: Option<u32>,
    /// Whether CONNACK allows shared subscriptions.
    pub(crate) may_share: bool,
}

impl Client {
    pub(crate) fn new(name: &str) -> Client {
        Client { name: name.to_owned(), ..Client::default() }
    }

    pub(crate) fn is_connected(&self) -> bool {
        matches!(self.connack, Some((ConnectReason::Success, _)))
    }

    /// Whether all of its messages are complete.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// The payloads it received.
    pub(crate) fn payloads(&self) -> Vec<&str> {
        self.received.iter().map(|received| &*received.payload).collect()
    }

    /// Takes the bytes for its node.
    pub(crate) fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    fn send(&mut self, packet: &Packet<'_>) {
        packet.append_to(self.version(), &mut self.output).expect("a valid packet");
    }

    fn version(&self) -> ProtocolVersion {
        if self.is_v3 { ProtocolVersion::V3_1_1 } else { ProtocolVersion::V5 }
    }

    /// Starts a connection.
    pub(crate) fn connect(&mut self, is_clean: bool, expiry_s: u32) {
        (self.input, self.output) = (Vec::new(), Vec::new());
        (self.connack, self.disconnected, self.reference) = (None, None, None);
        self.pending_acks.clear();
        if is_clean {
            self.in_flight.clear();
            self.unreleased.clear();
        }
        let mut properties = vec![Property::SessionExpiryInterval(expiry_s)];
        properties.extend(self.receive_maximum.and_then(std::num::NonZeroU16::new).map(Property::ReceiveMaximum));
        if self.is_v3 {
            properties.clear();
        }
        let (name, will) = (self.name.clone(), self.will.clone());
        let mut will_properties = Vec::new();
        if let Some(will) = will.as_ref().filter(|_| !self.is_v3) {
            will_properties.push(Property::WillDelayInterval(will.delay_s));
            will_properties.extend(will.message_expiry_s.map(Property::MessageExpiryInterval));
        }
        let connect = Connect {
            version: self.version(),
            clean_start: is_clean,
            keep_alive_s: 0,
            client_id: &name,
            will: will.as_ref().map(|will| Will {
                topic: TopicName::new(&will.topic).expect("a valid topic"),
                payload: will.payload.as_bytes(),
                qos: will.qos,
                retain: will.is_retained,
                properties: Properties::from_list(&will_properties),
            }),
            user_name: None,
            password: None,
            properties: Properties::from_list(&properties),
        };
        self.send(&Packet::Connect(connect));
    }

    /// Drops the connection.
    pub(crate) fn drop_connection(&mut self) {
        (self.at, self.connack) = (None, None);
        (self.input, self.output) = (Vec::new(), Vec::new());
    }

    pub(crate) fn send_disconnect(&mut self) {
        self.send_disconnect_reason(DisconnectReason::NormalDisconnection);
    }

    pub(crate) fn send_disconnect_reason(&mut self, reason: DisconnectReason) {
        self.send(&Packet::Disconnect(Disconnect::new(reason)));
    }

    pub(crate) fn subscribe(&mut self, filter: &str, qos: QoS, no_local: bool) {
        let options = SubscriptionOptions { no_local, ..SubscriptionOptions::with_qos(qos) };
        let request = SubscriptionRequest { filter: TopicFilter::new(filter).expect("a valid filter"), options };
        let packet_id = self.free_packet_id();
        let requests = [request];
        let subscribe = Subscribe { packet_id, properties: Properties::EMPTY, requests: (&requests[..]).into() };
        self.suback.clear();
        self.send(&Packet::Subscribe(subscribe));
    }

    pub(crate) fn unsubscribe(&mut self, filter: &str) {
        let filters = [TopicFilter::new(filter).expect("a valid filter")];
        let unsubscribe = tautwire_protocol::Unsubscribe {
            packet_id: self.free_packet_id(),
            properties: Properties::EMPTY,
            filters: (&filters[..]).into(),
        };
        self.send(&Packet::Unsubscribe(unsubscribe));
    }

    /// Identifiers are reused soon, so that one which the broker wrongly believes to be in use does harm.
    fn free_packet_id(&mut self) -> PacketId {
        loop {
            self.last_packet_id = self.last_packet_id % 24 + 1;
            let is_free = |sent: &SentMessage| sent.packet_id != self.last_packet_id;
            if self.in_flight.iter().all(is_free) {
                return id(self.last_packet_id);
            }
        }
    }

    pub(crate) fn publish(&mut self, topic: &str, payload: &str, qos: QoS, retain: bool) {
        let packet_id = if qos == QoS::AtMostOnce { 0 } else { self.free_packet_id().get() };
        let (topic, payload) = (topic.into(), payload.into());
        let sent = SentMessage { packet_id, topic, payload, qos, is_retained: retain, is_received: false };
        self.send_publish(&sent, false);
        if qos != QoS::AtMostOnce {
            self.in_flight.push(sent);
        }
    }

    fn send_publish(&mut self, sent: &SentMessage, dup: bool) {
        let delivery = match sent.qos {
            QoS::AtMostOnce => Delivery::AtMostOnce,
            QoS::AtLeastOnce => Delivery::AtLeastOnce { packet_id: id(sent.packet_id), dup },
            QoS::ExactlyOnce => Delivery::ExactlyOnce { packet_id: id(sent.packet_id), dup },
        };
        let properties: Vec<_> = self.message_expiry_s.map(Property::MessageExpiryInterval).into_iter().collect();
        let publish = Publish {
            delivery,
            retain: sent.is_retained,
            topic: Some(TopicName::new(&sent.topic).expect("a valid topic")),
            properties: Properties::from_list(&properties),
            payload: sent.payload.as_bytes(),
        };
        publish.append_to(self.version(), &mut self.output).expect("a valid packet");
    }

    /// Handles bytes from its node.
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        let input = std::mem::take(&mut self.input);
        let mut rest = &input[..];
        while let Ok((packet, length)) = decode(rest, &DecodeOptions::new(self.version())) {
            self.handle_packet(&packet);
            rest = &rest[length..];
        }
        self.input = rest.to_vec();
    }

    fn handle_packet(&mut self, packet: &Packet<'_>) {
        match packet {
            Packet::ConnAck(connack) => {
                self.connack = Some((connack.reason, connack.session_present));
                self.reference = connack.properties.server_reference().map(str::to_owned);
                self.may_share = connack.properties.shared_subscription_available() != Some(false);
                self.assigned = connack.properties.assigned_client_identifier().map(str::to_owned);
                if connack.reason == ConnectReason::Success {
                    self.accepted += 1;
                    self.resume(connack.session_present);
                }
            }
            Packet::Disconnect(disconnect) => {
                self.disconnected = Some(disconnect.reason);
                self.reference = disconnect.properties.server_reference().map(str::to_owned);
            }
            Packet::SubAck(suback) => self.suback = suback.reasons.iter().map(|reason| reason.as_u8()).collect(),
            Packet::UnsubAck(_) => self.unsubacks += 1,
            Packet::PubAck(ack) => {
                self.answers += 1;
                self.finish(ack.packet_id.get(), ack.reason.is_error().then_some(ack.reason.into()));
            }
            Packet::PubRec(ack) if ack.reason.is_error() => {
                self.answers += 1;
                self.finish(ack.packet_id.get(), Some(ack.reason.into()));
            }
            Packet::PubRec(ack) => {
                self.answers += 1;
                // A message that was sent twice may be acknowledged twice.
                if let Some(sent) = self.in_flight.iter_mut().find(|sent| sent.packet_id == ack.packet_id.get()) {
                    assert_eq!(sent.qos, QoS::ExactlyOnce);
                    sent.is_received = true;
                }
                self.send_release(ack.packet_id);
            }
            Packet::PubComp(ack) => self.finish(ack.packet_id.get(), None),
            Packet::PubRel(release) => {
                self.unreleased.remove(&release.packet_id.get());
                self.releases.push(release.packet_id.get());
                if !self.withholds_acks {
                    self.complete(release.packet_id);
                }
            }
            Packet::Publish(publish) => self.handle_publish(publish),
            _ => {}
        }
    }

    fn resume(&mut self, is_present: bool) {
        if !is_present {
            // The server does not know them.
            self.unreleased.clear();
            self.in_flight.iter_mut().for_each(|sent| sent.is_received = false);
        }
        // In the order in which they were sent [MQTT-4.4.0-1], [MQTT-4.6.0-1].
        for sent in self.in_flight.clone() {
            if sent.is_received {
                self.send_release(id(sent.packet_id));
            } else {
                self.send_publish(&sent, is_present);
            }
        }
    }

    fn finish(&mut self, packet_id: u16, refused: Option<ReasonCode>) {
        if let Some(at) = self.in_flight.iter().position(|sent| sent.packet_id == packet_id) {
            let sent = self.in_flight.remove(at);
            if refused.is_some() {
                self.refused.push(sent.payload)
            } else {
                self.done.push(sent.payload)
            }
            self.reasons.extend(refused);
        }
    }

    fn send_release(&mut self, packet_id: PacketId) {
        let release = PubRel { packet_id, reason: PubRelReason::Success, properties: Properties::EMPTY };
        self.send(&Packet::PubRel(release));
    }

    fn complete(&mut self, packet_id: PacketId) {
        let complete = PubComp { packet_id, reason: PubCompReason::Success, properties: Properties::EMPTY };
        self.send(&Packet::PubComp(complete));
    }

    fn handle_publish(&mut self, publish: &Publish<'_>) {
        let packet_id = publish.packet_id().map_or(0, PacketId::get);
        let is_dup = match publish.delivery {
            Delivery::AtMostOnce => false,
            Delivery::AtLeastOnce { dup, .. } | Delivery::ExactlyOnce { dup, .. } => dup,
        };
        let received = ReceivedMessage {
            topic: publish.topic.map_or("", |topic| topic.as_str()).to_owned(),
            payload: String::from_utf8(publish.payload.to_vec()).expect("a payload in UTF-8"),
            qos: publish.qos(),
            is_dup,
            is_retained: publish.retain,
            packet_id,
        };
        match publish.qos() {
            QoS::AtMostOnce => self.received.push(received),
            QoS::AtLeastOnce => {
                self.received.push(received);
                self.acknowledge_later(QoS::AtLeastOnce, packet_id);
            }
            QoS::ExactlyOnce => {
                if self.unreleased.insert(packet_id) {
                    self.received.push(received);
                }
                self.acknowledge_later(QoS::ExactlyOnce, packet_id);
            }
        }
    }

    fn acknowledge_later(&mut self, qos: QoS, packet_id: u16) {
        self.pending_acks.push((qos, packet_id));
        if !self.withholds_acks {
            self.acknowledge();
        }
    }

    /// Acknowledges all received messages.
    pub(crate) fn acknowledge(&mut self) {
        for (qos, packet_id) in std::mem::take(&mut self.pending_acks) {
            let packet_id = id(packet_id);
            if qos == QoS::AtLeastOnce {
                let reason = PubAckReason::Success;
                self.send(&Packet::PubAck(PubAck { packet_id, reason, properties: Properties::EMPTY }));
            } else {
                let reason = PubRecReason::Success;
                self.send(&Packet::PubRec(PubRec { packet_id, reason, properties: Properties::EMPTY }));
            }
        }
    }
}

fn id(number: u16) -> PacketId {
    PacketId::new(number).expect("not 0")
}
