//! A strict server: it records the client's packets and fails if a rule is violated.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tautwire_client::{ProtocolVersion, QoS};
use tautwire_protocol::{
    ConnAck, ConnectReason, DecodeOptions, Delivery, List, Packet, PacketId, Properties, Property, PubAck, PubComp,
    PubRec, PubRel, Publish, SubAck, SubscribeReason, TopicName, UnsubAck, UnsubscribeReason, decode,
};

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    pub(crate) fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }
}

pub(crate) struct Server {
    version: ProtocolVersion,
    /// The limit of in-flight messages for the client.
    receive_maximum: u16,
    client_receive_maximum: usize,
    has_session: bool,
    is_open: bool,
    input: Vec<u8>,
    pub(crate) output: Vec<u8>,
    /// Payload numbers accepted, in order, by QoS.
    pub(crate) received: [Vec<u32>; 3],
    /// QoS 2 identifiers for which PUBREC was sent and PUBREL has not arrived.
    received_ids: BTreeSet<u16>,
    /// Identifiers of SUBSCRIBE seen on this connection.
    pub(crate) subscribed: usize,
    queue: VecDeque<(u32, QoS)>,
    window: VecDeque<Outgoing>,
    next_id: u16,
}

struct Outgoing {
    id: u16,
    number: u32,
    qos: QoS,
    sent: bool,
    released: bool,
    ever_sent: bool,
}

impl Server {
    pub(crate) fn new(version: ProtocolVersion, receive_maximum: u16, client_receive_maximum: usize) -> Server {
        Server {
            version,
            receive_maximum,
            client_receive_maximum,
            has_session: false,
            is_open: false,
            input: Vec::new(),
            output: Vec::new(),
            received: Default::default(),
            received_ids: BTreeSet::new(),
            subscribed: 0,
            queue: VecDeque::new(),
            window: VecDeque::new(),
            next_id: 1,
        }
    }

    /// A message for the client.
    pub(crate) fn publish(&mut self, number: u32, qos: QoS) {
        self.queue.push_back((number, qos));
        self.pump();
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.queue.is_empty() && self.window.is_empty() && self.received_ids.is_empty()
    }

    pub(crate) fn connection_lost(&mut self) {
        self.is_open = false;
        self.input.clear();
        self.output.clear();
        for outgoing in &mut self.window {
            outgoing.sent = false;
        }
    }

    /// The session is lost, with everything in it.
    pub(crate) fn forget(&mut self) {
        self.has_session = false;
        self.received_ids.clear();
        self.queue.clear();
        self.window.clear();
    }

    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        let input = std::mem::take(&mut self.input);
        let mut at = 0;
        loop {
            match decode(&input[at..], &DecodeOptions::new(self.version)) {
                Ok((packet, len)) => {
                    at += len;
                    self.on_packet(&packet);
                }
                Err(error) => {
                    assert!(error.is_incomplete(), "the client sent {error}");
                    break;
                }
            }
        }
        self.input = input[at..].to_vec();
    }

    fn on_packet(&mut self, packet: &Packet<'_>) {
        if let Packet::Connect(connect) = packet {
            assert!(!self.is_open, "a second CONNECT");
            if connect.clean_start {
                self.forget();
            }
            let properties = [Property::ReceiveMaximum(self.receive_maximum.try_into().expect("not zero"))];
            let properties = if self.version.is_v5() { &properties[..] } else { &[] };
            self.write(&Packet::ConnAck(ConnAck {
                session_present: self.has_session,
                reason: ConnectReason::Success,
                properties: Properties::from_list(properties),
            }));
            self.is_open = true;
            self.has_session = true;
            self.resend();
            return;
        }
        assert!(self.is_open, "{packet:?} before CONNECT");
        match packet {
            Packet::Publish(publish) => self.on_publish(publish),
            Packet::PubRel(release) => {
                self.received_ids.remove(&release.packet_id.get());
                self.write(&Packet::PubComp(PubComp::success(release.packet_id)));
            }
            Packet::PubAck(ack) => {
                assert!(!ack.reason.is_error());
                self.check_order(ack.packet_id, QoS::AtLeastOnce);
                self.window.retain(|outgoing| outgoing.id != ack.packet_id.get());
            }
            Packet::PubRec(ack) => {
                self.check_order(ack.packet_id, QoS::ExactlyOnce);
                if let Some(outgoing) = self.window.iter_mut().find(|outgoing| outgoing.id == ack.packet_id.get()) {
                    outgoing.released = true;
                }
                self.write(&Packet::PubRel(PubRel::success(ack.packet_id)));
            }
            Packet::PubComp(complete) => self.window.retain(|outgoing| outgoing.id != complete.packet_id.get()),
            Packet::Subscribe(subscribe) => {
                self.check_free(subscribe.packet_id);
                self.subscribed += subscribe.requests.len();
                let reasons = vec![SubscribeReason::GrantedQoS2; subscribe.requests.len()];
                self.write(&Packet::SubAck(SubAck {
                    packet_id: subscribe.packet_id,
                    properties: Properties::EMPTY,
                    reasons: List::from_slice(&reasons),
                }));
            }
            Packet::Unsubscribe(unsubscribe) => {
                self.check_free(unsubscribe.packet_id);
                let reasons = vec![UnsubscribeReason::Success; unsubscribe.filters.len()];
                let reasons = if self.version.is_v5() { &reasons[..] } else { &[] };
                self.write(&Packet::UnsubAck(UnsubAck {
                    packet_id: unsubscribe.packet_id,
                    properties: Properties::EMPTY,
                    reasons: List::from_slice(reasons),
                }));
            }
            Packet::PingReq => self.write(&Packet::PingResp),
            Packet::Disconnect(_) => self.is_open = false,
            other => panic!("a client does not send {other:?}"),
        }
        self.pump();
    }

    /// [MQTT-2.2.1-3]: an identifier is not in use twice.
    fn check_free(&self, id: PacketId) {
        assert!(!self.received_ids.contains(&id.get()), "identifier {} is in use for a message", id.get());
    }

    fn on_publish(&mut self, publish: &Publish<'_>) {
        let number = u32::from_be_bytes(publish.payload.try_into().expect("four bytes"));
        let log = &mut self.received[usize::from(publish.qos().as_u8())];
        match publish.delivery {
            Delivery::AtMostOnce => log.push(number),
            Delivery::AtLeastOnce { packet_id, .. } => {
                log.push(number);
                self.check_free(packet_id);
                self.write(&Packet::PubAck(PubAck::success(packet_id)));
            }
            Delivery::ExactlyOnce { packet_id, dup } => {
                let new = self.received_ids.insert(packet_id.get());
                assert!(new || dup, "identifier {} is given to two messages", packet_id.get());
                if new {
                    log.push(number);
                }
                // [MQTT-3.3.4-9]
                assert!(
                    self.received_ids.len() <= usize::from(self.receive_maximum) || !self.version.is_v5(),
                    "more than Receive Maximum"
                );
                self.write(&Packet::PubRec(PubRec::success(packet_id)));
            }
        }
    }

    /// [MQTT-4.6.0-2] [MQTT-4.6.0-3]: acknowledgements arrive in the order of the messages.
    fn check_order(&self, id: PacketId, qos: QoS) {
        let first = self.window.iter().find(|outgoing| outgoing.qos == qos && outgoing.sent && !outgoing.released);
        let released = self.window.iter().any(|outgoing| outgoing.id == id.get() && outgoing.released);
        if let Some(first) = first
            && !released
        {
            assert_eq!(first.id, id.get(), "an answer overtakes an earlier one");
        }
    }

    fn pump(&mut self) {
        if !self.is_open || !self.has_session {
            return;
        }
        while self.window.len() < self.client_receive_maximum
            && let Some((number, qos)) = self.queue.pop_front()
        {
            let taken: BTreeMap<u16, ()> = self.window.iter().map(|outgoing| (outgoing.id, ())).collect();
            while taken.contains_key(&self.next_id) || self.next_id == 0 {
                self.next_id = self.next_id.wrapping_add(1);
            }
            let id = self.next_id;
            // Few identifiers, so that they are reused soon.
            self.next_id = self.next_id % 40 + 1;
            self.window.push_back(Outgoing { id, number, qos, sent: false, released: false, ever_sent: false });
            self.send(self.window.len() - 1);
        }
    }

    fn resend(&mut self) {
        for at in 0..self.window.len() {
            self.send(at);
        }
        self.pump();
    }

    fn send(&mut self, at: usize) {
        let outgoing = &mut self.window[at];
        let packet_id = PacketId::new(outgoing.id).expect("not zero");
        outgoing.sent = true;
        let dup = std::mem::replace(&mut outgoing.ever_sent, true);
        if outgoing.released {
            self.write(&Packet::PubRel(PubRel::success(packet_id)));
            return;
        }
        let payload = outgoing.number.to_be_bytes();
        let delivery = match outgoing.qos {
            QoS::ExactlyOnce => Delivery::ExactlyOnce { packet_id, dup },
            _ => Delivery::AtLeastOnce { packet_id, dup },
        };
        self.write(&Packet::Publish(Publish {
            delivery,
            retain: false,
            topic: TopicName::new("t").ok(),
            properties: Properties::EMPTY,
            payload: &payload,
        }));
    }

    fn write(&mut self, packet: &Packet<'_>) {
        packet.append_to(self.version, &mut self.output).expect("valid");
    }
}
