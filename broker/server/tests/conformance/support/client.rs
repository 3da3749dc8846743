//! A blocking client that does exactly what a test says, and reads the broker's answers one packet at a time.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use tautwire_protocol::{
    Auth, ConnAck, DecodeOptions, Disconnect, DisconnectReason, Fault, List, OwnedPacket, Packet, PacketId, Properties,
    Property, ProtocolVersion, PubAck, PubAckReason, PubComp, PubCompReason, PubRec, PubRecReason, PubRel,
    PubRelReason, QoS, ReasonCode, Subscribe, SubscriptionOptions, SubscriptionRequest, TopicFilter, Unsubscribe,
    decode,
};

use super::message::{Message, OutgoingPublish};
use super::property::subscription_identifier;
use super::wire::{Transport, Wire};

/// Timeout of one expectation, also on a busy machine. No test waits this long unless it fails.
pub(crate) const EXPECT_TIMEOUT: Duration = Duration::from_secs(90);

/// Bytes of incomplete data shown when a test fails.
const HEAD_BYTES: usize = 32;
/// How long a write waits for room in the kernel before it counts as blocked.
const WRITE_TIMEOUT: Duration = Duration::from_millis(200);

/// One connection to the broker.
pub(crate) struct Client {
    stream: Wire,
    version: ProtocolVersion,
    /// Received data; the first `taken` bytes have been consumed.
    received: Vec<u8>,
    taken: usize,
    /// Messages that arrived while the test waited for an acknowledgement.
    waiting: VecDeque<OwnedPacket>,
    last_packet_id: u16,
    connack: Option<OwnedPacket>,
}

/// The result of `Client::read`.
enum Arrival {
    Packet(OwnedPacket),
    Closed,
}

// Connecting.
impl Client {
    pub(crate) fn dial(transport: Transport, version: ProtocolVersion) -> Client {
        Client::on(Wire::dial(transport), version)
    }

    /// A client on an existing connection.
    pub(crate) fn on(stream: Wire, version: ProtocolVersion) -> Client {
        Client {
            stream,
            version,
            received: Vec::new(),
            taken: 0,
            waiting: VecDeque::new(),
            last_packet_id: 0,
            connack: None,
        }
    }

    pub(crate) fn version(&self) -> ProtocolVersion {
        self.version
    }

    /// Expects a CONNACK with Reason Code 0x00 and stores it for [`Client::connack`].
    #[track_caller]
    pub(crate) fn expect_accepted(&mut self) {
        let packet = self.next();
        match packet.as_packet() {
            Packet::ConnAck(connack) => assert_eq!(connack.reason.as_u8(), 0, "CONNACK: {connack:?}"),
            other => panic!("expected CONNACK, got {other:?}"),
        }
        self.connack = Some(packet);
    }

    /// Expects a CONNACK that refuses. Returns its code as encoded in this version.
    #[track_caller]
    pub(crate) fn expect_connack_code(&mut self) -> u8 {
        let version = self.version;
        let packet = self.next();
        match packet.as_packet() {
            Packet::ConnAck(connack) => {
                assert!(!connack.session_present, "[MQTT-3.2.2-6] a refusal has no session present");
                if version.is_v5() {
                    connack.reason.as_u8()
                } else {
                    connack.reason.v3_return_code().expect("a CONNACK of 3.1.1 carries a return code of 3.1.1")
                }
            }
            other => panic!("expected CONNACK, got {other:?}"),
        }
    }

    /// The CONNACK of this connection.
    pub(crate) fn connack(&self) -> ConnAck<'_> {
        match self.connack.as_ref().map(OwnedPacket::as_packet) {
            Some(Packet::ConnAck(connack)) => connack,
            _ => panic!("this connection was not accepted"),
        }
    }

    pub(crate) fn session_present(&self) -> bool {
        self.connack().session_present
    }
}

// Sending.
impl Client {
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the broker accepts the data");
    }

    /// Sends data that the broker may refuse midway: a reset while writing is not a failure.
    pub(crate) fn send_bytes_unless_closed(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Writes what the kernel accepts within a moment. Returns the number of bytes, possibly not whole packets.
    pub(crate) fn send_what_fits(&mut self, bytes: &[u8]) -> usize {
        self.stream.set_write_timeout(Some(WRITE_TIMEOUT)).expect("a positive time is a valid timeout");
        match self.stream.write(bytes) {
            Ok(count) => count,
            Err(error) if is_nothing_yet(&error) => 0,
            Err(error) => panic!("writing failed: {error}"),
        }
    }

    pub(crate) fn send(&mut self, packet: &Packet<'_>) {
        let bytes = self.encoded(packet);
        self.send_bytes(&bytes);
    }

    pub(crate) fn encoded(&self, packet: &Packet<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        packet.append_to(self.version, &mut bytes).expect("the test builds a legal packet");
        bytes
    }

    /// The next Packet Identifier of this client.
    pub(crate) fn next_packet_id(&mut self) -> PacketId {
        self.last_packet_id = if self.last_packet_id == u16::MAX { 1 } else { self.last_packet_id + 1 };
        packet_id(self.last_packet_id)
    }

    /// Sends a PUBLISH without waiting. Returns its Packet Identifier (unused at QoS 0).
    pub(crate) fn send_publish(&mut self, outgoing: &OutgoingPublish<'_>) -> u16 {
        let id = if outgoing.qos == QoS::AtMostOnce { packet_id(1) } else { self.next_packet_id() };
        self.send_publish_as(outgoing, id.get());
        id.get()
    }

    /// Sends a PUBLISH with this Packet Identifier.
    pub(crate) fn send_publish_as(&mut self, outgoing: &OutgoingPublish<'_>, id: u16) {
        self.send(&Packet::Publish(outgoing.publish(packet_id(id))));
    }

    pub(crate) fn send_puback(&mut self, id: u16) {
        self.send_puback_with(id, PubAckReason::Success);
    }

    pub(crate) fn send_puback_with(&mut self, id: u16, reason: PubAckReason) {
        self.send(&Packet::PubAck(PubAck { packet_id: packet_id(id), reason, properties: Properties::EMPTY }));
    }

    pub(crate) fn send_pubrec(&mut self, id: u16) {
        self.send_pubrec_with(id, PubRecReason::Success);
    }

    pub(crate) fn send_pubrec_with(&mut self, id: u16, reason: PubRecReason) {
        self.send(&Packet::PubRec(PubRec { packet_id: packet_id(id), reason, properties: Properties::EMPTY }));
    }

    pub(crate) fn send_pubrel(&mut self, id: u16) {
        let reason = PubRelReason::Success;
        self.send(&Packet::PubRel(PubRel { packet_id: packet_id(id), reason, properties: Properties::EMPTY }));
    }

    pub(crate) fn send_pubcomp(&mut self, id: u16) {
        let reason = PubCompReason::Success;
        self.send(&Packet::PubComp(PubComp { packet_id: packet_id(id), reason, properties: Properties::EMPTY }));
    }

    pub(crate) fn send_auth(&mut self, auth: Auth<'_>) {
        self.send(&Packet::Auth(auth));
    }

    /// Sends a SUBSCRIBE without waiting. Returns its Packet Identifier.
    pub(crate) fn send_subscribe(
        &mut self,
        filters: &[(&str, SubscriptionOptions)],
        properties: &[Property<'_>],
    ) -> u16 {
        let id = self.next_packet_id();
        let requests: Vec<SubscriptionRequest<'_>> = filters
            .iter()
            .map(|&(filter, options)| SubscriptionRequest {
                filter: TopicFilter::new(filter).expect("the test names a valid filter"),
                options,
            })
            .collect();
        self.send(&Packet::Subscribe(Subscribe {
            packet_id: id,
            properties: Properties::from(properties),
            requests: List::from_slice(&requests),
        }));
        id.get()
    }
}

// Whole exchanges.
impl Client {
    /// Publishes without properties and completes the handshake; see [`Client::deliver`].
    #[track_caller]
    pub(crate) fn publish(&mut self, topic: &str, qos: QoS, payload: &[u8]) -> u8 {
        self.deliver(&OutgoingPublish::new(topic, qos, payload))
    }

    /// Publishes and completes the handshake. Returns the Reason Code of the PUBACK or PUBREC (0 at QoS 0).
    #[track_caller]
    pub(crate) fn deliver(&mut self, outgoing: &OutgoingPublish<'_>) -> u8 {
        let id = self.send_publish(outgoing);
        match outgoing.qos {
            QoS::AtMostOnce => 0,
            QoS::AtLeastOnce => self.expect_puback(id),
            QoS::ExactlyOnce => {
                let reason = self.expect_pubrec(id);
                if reason < 0x80 {
                    self.send_pubrel(id);
                    assert_eq!(self.expect_pubcomp(id), 0, "PUBCOMP");
                }
                reason
            }
        }
    }

    /// Subscribes to one filter and expects the requested QoS to be granted.
    #[track_caller]
    pub(crate) fn subscribe(&mut self, filter: &str, qos: QoS) {
        self.subscribe_as(filter, options(qos));
    }

    /// Subscribes to one filter with options and expects the requested QoS to be granted.
    #[track_caller]
    pub(crate) fn subscribe_as(&mut self, filter: &str, options: SubscriptionOptions) {
        let codes = self.subscribe_all(&[(filter, options)], &[]);
        assert_eq!(codes, [options.qos.as_u8()], "SUBACK for {filter}");
    }

    /// Subscribes to one filter with a Subscription Identifier and expects the requested QoS to be granted.
    #[track_caller]
    pub(crate) fn subscribe_identified(&mut self, filter: &str, qos: QoS, identifier: u32) {
        let codes = self.subscribe_all(&[(filter, options(qos))], &[subscription_identifier(identifier)]);
        assert_eq!(codes, [qos.as_u8()], "SUBACK for {filter}");
    }

    /// Sends one SUBSCRIBE. Returns the codes of its SUBACK.
    #[track_caller]
    pub(crate) fn subscribe_all(
        &mut self,
        filters: &[(&str, SubscriptionOptions)],
        properties: &[Property<'_>],
    ) -> Vec<u8> {
        let id = self.send_subscribe(filters, properties);
        self.expect_suback(id)
    }

    /// Sends one UNSUBSCRIBE. Returns the codes of its UNSUBACK (none in 3.1.1).
    #[track_caller]
    pub(crate) fn unsubscribe(&mut self, filters: &[&str]) -> Vec<u8> {
        let id = self.next_packet_id();
        let filters: Vec<TopicFilter<'_>> =
            filters.iter().map(|filter| TopicFilter::new(filter).expect("the test names a valid filter")).collect();
        self.send(&Packet::Unsubscribe(Unsubscribe {
            packet_id: id,
            properties: Properties::EMPTY,
            filters: List::from_slice(&filters),
        }));
        self.acknowledgement("UNSUBACK", |packet| match packet {
            Packet::UnsubAck(unsuback) if unsuback.packet_id == id => {
                Some(unsuback.reasons.iter().map(|reason| reason.as_u8()).collect())
            }
            _ => None,
        })
    }

    /// PINGREQ and PINGRESP: everything sent before is processed, and its answers to this client have arrived.
    #[track_caller]
    pub(crate) fn ping(&mut self) {
        self.send(&Packet::PingReq);
        self.acknowledgement("PINGRESP", |packet| matches!(packet, Packet::PingResp).then_some(()));
    }

    /// A ping that ignores acknowledgements, for a test that is about to break the connection.
    #[track_caller]
    pub(crate) fn ping_ignoring_acknowledgements(&mut self) {
        self.send(&Packet::PingReq);
        while !matches!(self.next().as_packet(), Packet::PingResp) {}
    }

    /// Disconnects normally and waits until the broker has closed and thus processed it.
    #[track_caller]
    pub(crate) fn disconnect(self) {
        self.disconnect_as(DisconnectReason::NormalDisconnection, &[]);
    }

    /// Disconnects with this reason and waits until the broker has closed.
    #[track_caller]
    pub(crate) fn disconnect_as(mut self, reason: DisconnectReason, properties: &[Property<'_>]) {
        self.send(&Packet::Disconnect(Disconnect { reason, properties: Properties::from(properties) }));
        self.packets_until_closed();
    }

    /// Ends the connection without DISCONNECT and waits until the broker has closed its side too.
    #[track_caller]
    pub(crate) fn cut(mut self) {
        self.stream.shutdown(Shutdown::Write).expect("the connection is open");
        self.packets_until_closed();
    }
}

// Expecting.
impl Client {
    /// The next packet of any type; messages that arrived during an exchange come first.
    #[track_caller]
    pub(crate) fn next(&mut self) -> OwnedPacket {
        self.next_or_closed().expect("the broker sends a packet and does not close the connection")
    }

    /// The next packet, or `None` if the broker closes instead.
    #[track_caller]
    pub(crate) fn next_or_closed(&mut self) -> Option<OwnedPacket> {
        if let Some(packet) = self.waiting.pop_front() {
            return Some(packet);
        }
        match self.read(Instant::now() + EXPECT_TIMEOUT) {
            Arrival::Packet(packet) => Some(packet),
            Arrival::Closed => None,
        }
    }

    /// The next packet, or `None` if it does not arrive before `deadline`.
    #[track_caller]
    pub(crate) fn next_before(&mut self, deadline: Instant) -> Option<OwnedPacket> {
        if let Some(packet) = self.waiting.pop_front() {
            return Some(packet);
        }
        match self.read_before(deadline)? {
            Arrival::Packet(packet) => Some(packet),
            Arrival::Closed => panic!("the broker closed the connection"),
        }
    }

    /// Whether anything, including the end of the connection, arrives within `patience` or is unread.
    pub(crate) fn has_input_within(&self, patience: Duration) -> bool {
        self.stream.set_read_timeout(Some(patience)).expect("a positive time is a valid timeout");
        loop {
            match self.stream.peek(&mut [0]) {
                Ok(_) => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
            }
        }
    }

    /// Waits for data or the end of the connection. Returns whether the connection was closed without data.
    #[track_caller]
    pub(crate) fn is_closed_without_data(&mut self) -> bool {
        self.stream.set_read_timeout(Some(EXPECT_TIMEOUT)).expect("a positive time is a valid timeout");
        loop {
            match self.stream.peek(&mut [0]) {
                Ok(count) => return count == 0,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return true,
                Err(error) => panic!("the broker neither answers nor closes: {error}"),
            }
        }
    }

    /// Sends single bytes, ten a second, until the broker answers or closes.
    #[track_caller]
    pub(crate) fn trickle_until_answered(&mut self, bytes: impl IntoIterator<Item = u8>) {
        let deadline = Instant::now() + EXPECT_TIMEOUT;
        for byte in bytes {
            self.send_bytes_unless_closed(&[byte]);
            if self.has_input_within(Duration::from_millis(100)) {
                return;
            }
            assert!(Instant::now() < deadline, "the broker still accepts single bytes {EXPECT_TIMEOUT:?} later");
        }
        panic!("the broker accepted every byte and did not answer");
    }

    /// The next `count` bytes, whatever they mean.
    #[track_caller]
    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        self.stream.set_read_timeout(Some(EXPECT_TIMEOUT)).expect("a positive time is a valid timeout");
        let mut bytes = self.received.split_off(std::mem::take(&mut self.taken));
        self.received.clear();
        let arrived = bytes.len();
        bytes.resize(count, 0);
        self.stream.read_exact(&mut bytes[arrived..]).expect("the broker sends so many bytes");
        bytes
    }

    /// All bytes until the broker closes.
    #[track_caller]
    pub(crate) fn bytes_until_closed(&mut self) -> Vec<u8> {
        self.stream.set_read_timeout(Some(EXPECT_TIMEOUT)).expect("a positive time is a valid timeout");
        let mut bytes = self.received.split_off(std::mem::take(&mut self.taken));
        self.received.clear();
        match self.stream.read_to_end(&mut bytes) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            Err(error) => panic!("the broker did not close: {error}"),
        }
        bytes
    }

    /// The next packet, which must be a PUBLISH. It is not acknowledged.
    #[track_caller]
    pub(crate) fn expect_publish(&mut self) -> Message {
        let packet = self.next();
        match packet.as_packet() {
            Packet::Publish(publish) => Message::from(publish),
            other => panic!("expected PUBLISH, got {other:?}"),
        }
    }

    /// The next packet, which must be a PUBLISH at QoS 0; `None` if it does not arrive before `deadline`.
    #[track_caller]
    pub(crate) fn publish_before(&mut self, deadline: Instant) -> Option<Message> {
        while self.waiting.is_empty() {
            match self.read_before(deadline)? {
                Arrival::Packet(packet) => self.waiting.push_back(packet),
                Arrival::Closed => panic!("expected PUBLISH, but the broker closed the connection"),
            }
        }
        let message = self.expect_publish();
        assert_eq!(message.qos(), QoS::AtMostOnce, "{message:?}");
        Some(message)
    }

    /// The next packet: a PUBLISH, which is not acknowledged, or `None` for a DISCONNECT, which stays to be expected.
    #[track_caller]
    pub(crate) fn publish_or_disconnect(&mut self) -> Option<Message> {
        let packet = self.next();
        let is_publish = matches!(packet.as_packet(), Packet::Publish(_));
        self.waiting.push_front(packet);
        is_publish.then(|| self.expect_publish())
    }

    /// The refusal of a QoS 1 message: a PUBACK with an error, or a DISCONNECT.
    #[track_caller]
    pub(crate) fn expect_refusal(&mut self) -> u8 {
        let packet = self.next();
        match packet.as_packet() {
            Packet::PubAck(puback) => puback.reason.as_u8(),
            _ => {
                self.waiting.push_front(packet);
                self.expect_disconnect()
            }
        }
    }

    /// A message that arrived while the test waited for something else.
    pub(crate) fn pending_message(&mut self) -> Option<Message> {
        let packet = self.waiting.pop_front()?;
        match packet.as_packet() {
            Packet::Publish(publish) => Some(Message::from(publish)),
            other => panic!("expected PUBLISH, got {other:?}"),
        }
    }

    /// Drops messages that arrived while the test waited for something else.
    pub(crate) fn discard_pending_messages(&mut self) {
        self.waiting.clear();
    }

    /// The next packet, which must be a PUBLISH. It is acknowledged, through PUBCOMP at QoS 2.
    #[track_caller]
    pub(crate) fn receive(&mut self) -> Message {
        let message = self.expect_publish();
        self.acknowledge(&message);
        message
    }

    /// Acknowledges a message, through PUBCOMP at QoS 2.
    #[track_caller]
    pub(crate) fn acknowledge(&mut self, message: &Message) {
        match message.qos() {
            QoS::AtMostOnce => {}
            QoS::AtLeastOnce => self.send_puback(message.id()),
            QoS::ExactlyOnce => {
                self.send_pubrec(message.id());
                self.expect_pubrel(message.id());
                self.send_pubcomp(message.id());
            }
        }
    }

    /// Receives and acknowledges `count` messages. Returns their payloads as text.
    #[track_caller]
    pub(crate) fn receive_texts(&mut self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.receive().text().to_owned()).collect()
    }

    #[track_caller]
    pub(crate) fn expect_puback(&mut self, id: u16) -> u8 {
        self.acknowledgement("PUBACK", |packet| match packet {
            Packet::PubAck(puback) if puback.packet_id.get() == id => Some(puback.reason.as_u8()),
            _ => None,
        })
    }

    #[track_caller]
    pub(crate) fn expect_pubrec(&mut self, id: u16) -> u8 {
        self.acknowledgement("PUBREC", |packet| match packet {
            Packet::PubRec(pubrec) if pubrec.packet_id.get() == id => Some(pubrec.reason.as_u8()),
            _ => None,
        })
    }

    #[track_caller]
    pub(crate) fn expect_pubrel(&mut self, id: u16) -> u8 {
        self.acknowledgement("PUBREL", |packet| match packet {
            Packet::PubRel(pubrel) if pubrel.packet_id.get() == id => Some(pubrel.reason.as_u8()),
            _ => None,
        })
    }

    #[track_caller]
    pub(crate) fn expect_pubcomp(&mut self, id: u16) -> u8 {
        self.acknowledgement("PUBCOMP", |packet| match packet {
            Packet::PubComp(pubcomp) if pubcomp.packet_id.get() == id => Some(pubcomp.reason.as_u8()),
            _ => None,
        })
    }

    #[track_caller]
    pub(crate) fn expect_suback(&mut self, id: u16) -> Vec<u8> {
        self.acknowledgement("SUBACK", |packet| match packet {
            Packet::SubAck(suback) if suback.packet_id.get() == id => {
                Some(suback.reasons.iter().map(|reason| reason.as_u8()).collect())
            }
            _ => None,
        })
    }

    /// Reads until `take` accepts a packet. Messages that arrive first are kept for later; anything else is a failure.
    #[track_caller]
    pub(crate) fn acknowledgement<T>(&mut self, what: &str, take: impl Fn(&Packet<'_>) -> Option<T>) -> T {
        let deadline = Instant::now() + EXPECT_TIMEOUT;
        loop {
            let Arrival::Packet(packet) = self.read(deadline) else {
                panic!("expected {what}, but the broker closed the connection");
            };
            if let Some(found) = take(&packet.as_packet()) {
                return found;
            }
            match packet.as_packet() {
                Packet::Publish(_) => self.waiting.push_back(packet),
                other => panic!("expected {what}, got {other:?}"),
            }
        }
    }

    /// Expects a DISCONNECT and then the end of the connection. Returns its Reason Code.
    #[track_caller]
    pub(crate) fn expect_disconnect(&mut self) -> u8 {
        let packet = self.next();
        let reason = match packet.as_packet() {
            Packet::Disconnect(disconnect) => {
                // [MQTT-3.14.2-2]
                assert_eq!(disconnect.properties.session_expiry_interval(), None, "{disconnect:?}");
                disconnect.reason.as_u8()
            }
            other => panic!("expected DISCONNECT, got {other:?}"),
        };
        self.expect_closed();
        reason
    }

    /// Expects to be disconnected for `reason`: with DISCONNECT in 5.0, without in 3.1.1, which has no server DISCONNECT.
    #[track_caller]
    pub(crate) fn expect_server_disconnect(&mut self, reason: ReasonCode) {
        if self.version.is_v5() {
            assert_eq!(self.expect_disconnect(), reason.as_u8(), "expected {}", reason.name());
        } else {
            self.expect_closed();
        }
    }

    /// Expects the broker to close the connection without another packet.
    #[track_caller]
    pub(crate) fn expect_closed(&mut self) {
        if let Some(packet) = self.waiting.pop_front() {
            panic!("expected the end of the connection, got {:?}", packet.as_packet());
        }
        if let Arrival::Packet(packet) = self.read(Instant::now() + EXPECT_TIMEOUT) {
            panic!("expected the end of the connection, got {:?}", packet.as_packet());
        }
    }

    /// All packets until the broker closes.
    #[track_caller]
    pub(crate) fn packets_until_closed(&mut self) -> Vec<OwnedPacket> {
        let deadline = Instant::now() + EXPECT_TIMEOUT;
        let mut packets: Vec<OwnedPacket> = self.waiting.drain(..).collect();
        while let Arrival::Packet(packet) = self.read(deadline) {
            packets.push(packet);
        }
        packets
    }

    /// Expects that nothing was sent to this client so far: its next packet is the answer to a ping.
    #[track_caller]
    pub(crate) fn expect_nothing(&mut self) {
        self.ping();
        let first = self.waiting.front().map(OwnedPacket::as_packet);
        assert!(first.is_none(), "expected nothing, got {first:?}");
    }

    #[track_caller]
    fn read(&mut self, deadline: Instant) -> Arrival {
        match self.read_before(deadline) {
            Some(arrival) => arrival,
            None => panic!("nothing arrived for {EXPECT_TIMEOUT:?}"),
        }
    }

    fn read_before(&mut self, deadline: Instant) -> Option<Arrival> {
        loop {
            if let Some(packet) = self.take_packet() {
                return Some(Arrival::Packet(packet));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            self.received.drain(..std::mem::take(&mut self.taken));
            self.stream.set_read_timeout(Some(left)).expect("a positive time is a valid timeout");
            let mut chunk = [0; 16 * 1024];
            match self.stream.read(&mut chunk) {
                Ok(0) => return Some(self.closed()),
                Ok(count) => self.received.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Some(self.closed()),
                Err(error) if is_nothing_yet(&error) => {}
                Err(error) => panic!("reading failed: {error}"),
            }
        }
    }

    fn closed(&self) -> Arrival {
        assert!(
            self.received.len() == self.taken,
            "the broker closed in the middle of a packet: {:02x?} and {} bytes more",
            self.head(),
            self.received.len().saturating_sub(self.taken + HEAD_BYTES)
        );
        Arrival::Closed
    }

    fn take_packet(&mut self) -> Option<OwnedPacket> {
        let options = DecodeOptions::new(self.version);
        match decode(&self.received[self.taken..], &options) {
            Ok((packet, consumed)) => {
                let packet = packet.to_owned_packet().expect("a decoded packet can be owned");
                self.taken += consumed;
                Some(packet)
            }
            Err(error) if matches!(error.fault, Fault::Incomplete { .. }) => None,
            Err(error) => panic!("the broker sent a bad packet: {error:?} at the beginning of {:02x?}", self.head()),
        }
    }

    /// The first bytes of an incomplete packet.
    fn head(&self) -> &[u8] {
        let rest = &self.received[self.taken..];
        &rest[..rest.len().min(HEAD_BYTES)]
    }
}

/// Whether a socket was not ready in time. With a timeout the kernel does not restart the call of a process that was stopped.
fn is_nothing_yet(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Subscription Options with this QoS and zeroes.
pub(crate) fn options(qos: QoS) -> SubscriptionOptions {
    SubscriptionOptions::with_qos(qos)
}

/// A Packet Identifier, not zero.
pub(crate) fn packet_id(id: u16) -> PacketId {
    PacketId::new(id).expect("Packet Identifiers are not zero")
}
