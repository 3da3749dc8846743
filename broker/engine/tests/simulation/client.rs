//! An MQTT client that keeps the rules, and checks that the broker does.

use std::collections::{BTreeMap, VecDeque};
use std::num::{NonZeroU16, NonZeroU32};

use tautwire_protocol::{
    ConnAck, Connect, ConnectReason, DecodeOptions, Delivery, Disconnect, DisconnectReason, OwnedPacket, Packet,
    PacketId, Properties, Property, ProtocolVersion, PubAck, PubComp, PubRec, PubRel, Publish, QoS, Subscribe,
    SubscriptionId, SubscriptionOptions, SubscriptionRequest, TopicFilter, TopicName, Unsubscribe, Will, decode,
};
use tautwire_session::Journal;

use crate::ledger::{Arrival, Ledger, Request};
use crate::support::{Choices, SimulatedBroker, SocketId};

/// A session that is kept longer than this is there when a CONNECT sent now takes effect.
const SURELY_MS: u64 = 1_000_000;

/// How a client connects.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub(crate) clean_start: bool,
    /// `u32::MAX` for 3.1.1 without Clean Session.
    pub(crate) expiry_interval_s: u32,
    pub(crate) receive_maximum: Option<u16>,
    pub(crate) maximum_packet_bytes: Option<u32>,
    pub(crate) topic_alias_maximum: u16,
    pub(crate) will: Option<usize>,
    pub(crate) will_delay_s: u32,
    pub(crate) room_bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Away,
    /// CONNECT is sent.
    Connecting,
    Here,
    /// DISCONNECT is sent.
    Leaving,
}

/// What the client knows of whether the broker holds a session for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Present,
    Absent,
    Unknown,
}

/// A message that the client has sent and that is not acknowledged to the end.
#[derive(Debug)]
struct Outgoing {
    id: PacketId,
    number: usize,
    qos: QoS,
    /// PUBREC has come.
    received: bool,
}

/// An answer that the client owes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owed {
    PubAck(PacketId),
    PubRec(PacketId),
    PubComp(PacketId),
}

#[derive(Debug)]
enum Asked {
    Subscribe(Vec<Request>),
    Unsubscribe(Vec<String>),
}

/// An acknowledgement that came, for tests that look at when it may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Acknowledged {
    Message(usize),
    Release(PacketId),
    Received(PacketId),
    Subscribed(Vec<String>),
    Unsubscribed(Vec<String>),
}

pub(crate) struct Client {
    pub(crate) index: usize,
    pub(crate) id: String,
    pub(crate) version: ProtocolVersion,
    pub(crate) phase: Phase,
    pub(crate) session: Option<usize>,
    pub(crate) terms: Option<Terms>,
    /// What the broker has acknowledged since this was last emptied.
    pub(crate) acknowledged: Vec<Acknowledged>,
    socket: Option<SocketId>,
    /// A connection given up before CONNACK. Its CONNECT may still take effect while it is not closed.
    lingering: Option<SocketId>,
    input: Vec<u8>,
    last_packet_id: u16,
    outgoing: Vec<Outgoing>,
    asked: BTreeMap<u16, Asked>,
    /// In the order in which answers are due, by the packet identifier.
    awaited_acks: VecDeque<(QoS, u16)>,
    /// QoS 2 messages received and not released.
    held: BTreeMap<u16, usize>,
    /// QoS 1 and 2 messages of this connection that are not answered to the end.
    in_flight: BTreeMap<u16, QoS>,
    owed: VecDeque<Owed>,
    aliases_in: BTreeMap<u16, String>,
    aliases_out: BTreeMap<String, u16>,
    broker_receive_maximum: usize,
    broker_alias_maximum: u16,
    expected: Expected,
    /// How long the broker surely keeps the session of the last connection.
    kept_until_ms: u64,
}

type Outcome = Result<(), String>;

impl Client {
    pub(crate) fn new(index: usize, id: String, version: ProtocolVersion) -> Client {
        Client {
            index,
            id,
            version,
            phase: Phase::Away,
            session: None,
            terms: None,
            acknowledged: Vec::new(),
            socket: None,
            lingering: None,
            input: Vec::new(),
            last_packet_id: 0,
            outgoing: Vec::new(),
            asked: BTreeMap::new(),
            awaited_acks: VecDeque::new(),
            held: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            owed: VecDeque::new(),
            aliases_in: BTreeMap::new(),
            aliases_out: BTreeMap::new(),
            broker_receive_maximum: 0,
            broker_alias_maximum: 0,
            expected: Expected::Absent,
            kept_until_ms: 0,
        }
    }

    pub(crate) fn is_v5(&self) -> bool {
        self.version == ProtocolVersion::V5
    }

    /// Everything that the client owes or is owed is done.
    pub(crate) fn is_idle(&self) -> bool {
        self.outgoing.is_empty() && self.owed.is_empty() && self.asked.is_empty() && self.in_flight.is_empty()
    }

    pub(crate) fn socket(&self) -> Option<SocketId> {
        self.socket
    }

    // What the client does.

    pub(crate) fn connect<J: Journal>(
        &mut self,
        broker: &mut SimulatedBroker<J>,
        ledger: &mut Ledger,
        shard: usize,
        terms: Terms,
    ) {
        self.allow_will(ledger);
        self.forget_connection();
        let lasting = terms.expiry_interval_s > 0;
        if terms.clean_start {
            self.expected = Expected::Absent;
        }
        let will = terms.will.map(|number| &ledger.publications[number]);
        let will_delay = [Property::WillDelayInterval(terms.will_delay_s)];
        let mut properties = Vec::new();
        if self.is_v5() {
            if lasting {
                properties.push(Property::SessionExpiryInterval(terms.expiry_interval_s));
            }
            properties.extend(terms.receive_maximum.and_then(NonZeroU16::new).map(Property::ReceiveMaximum));
            properties.extend(terms.maximum_packet_bytes.and_then(NonZeroU32::new).map(Property::MaximumPacketSize));
            if terms.topic_alias_maximum > 0 {
                properties.push(Property::TopicAliasMaximum(terms.topic_alias_maximum));
            }
        }
        let connect = Connect {
            version: self.version,
            clean_start: terms.clean_start,
            keep_alive_s: 0,
            client_id: &self.id,
            will: will.map(|message| Will {
                topic: TopicName::new(&message.topic).expect("our topics are valid"),
                payload: &message.payload,
                qos: message.qos,
                retain: message.retain,
                properties: if terms.will_delay_s > 0 { Properties::from_list(&will_delay) } else { Properties::EMPTY },
            }),
            user_name: None,
            password: None,
            properties: Properties::from_list(&properties),
        };
        let mut bytes = Vec::new();
        connect.append_to(self.version, &mut bytes).expect("our CONNECT is valid");
        let socket = broker.connect(shard, terms.room_bytes);
        broker.send(socket, &bytes);
        self.socket = Some(socket);
        self.phase = Phase::Connecting;
        self.terms = Some(terms);
        // It counts from when CONNECT takes effect, even if the client never hears of that.
        if let Some(session) = self.session {
            self.note_maximum(ledger, session);
        }
    }

    /// Gives the present connection up, without a word and without waiting.
    fn forget_connection(&mut self) {
        self.phase = Phase::Away;
        self.socket = None;
        self.input.clear();
        self.aliases_in.clear();
        self.aliases_out.clear();
        self.in_flight.clear();
        self.owed.clear();
        self.asked.clear();
        self.awaited_acks.clear();
    }

    /// The connection is gone, or the client lets it go.
    fn left(&mut self, now_ms: u64, ledger: &mut Ledger) {
        let established = self.phase != Phase::Connecting;
        let lasting = self.terms.as_ref().is_some_and(|terms| terms.expiry_interval_s > 0);
        self.expected = match (established, lasting) {
            (true, true) => Expected::Present,
            (true, false) => Expected::Absent,
            (false, _) if self.expected == Expected::Present => Expected::Present,
            (false, _) => Expected::Unknown,
        };
        if self.phase != Phase::Leaving {
            self.kept_until(now_ms);
        }
        if self.phase != Phase::Leaving {
            self.allow_will(ledger);
        }
        self.forget_connection();
        if established && !lasting {
            // The session ends on both sides.
            self.outgoing.clear();
            self.held.clear();
            if let Some(session) = self.session.take() {
                ledger.end(session);
            }
        }
    }

    /// The broker's end of the connection may end from now on.
    fn kept_until(&mut self, now_ms: u64) {
        let kept_s = self.terms.as_ref().map_or(0, |terms| terms.expiry_interval_s);
        let kept_until_ms = now_ms + u64::from(kept_s) * 1000;
        self.kept_until_ms = match self.phase {
            // The broker may not have seen this CONNECT.
            Phase::Connecting => self.kept_until_ms.min(kept_until_ms),
            _ => kept_until_ms,
        };
    }

    /// From now on the broker may publish the will.
    fn allow_will(&self, ledger: &mut Ledger) {
        if let Some(will) = self.terms.as_ref().and_then(|terms| terms.will) {
            ledger.forbidden_wills.remove(&will);
        }
    }

    pub(crate) fn may_connect<J: Journal>(&self, broker: &SimulatedBroker<J>) -> bool {
        self.phase == Phase::Away && self.lingering.is_none_or(|socket| broker.closed_at_ms(socket).is_some())
    }

    /// A connection may only be lost before CONNACK where that leaves no doubt about the session.
    pub(crate) fn may_be_cut(&self, now_ms: u64) -> bool {
        match self.phase {
            Phase::Away | Phase::Leaving => false,
            Phase::Here => true,
            Phase::Connecting => {
                let lasts = self.terms.as_ref().is_some_and(|terms| !terms.clean_start && terms.expiry_interval_s > 0);
                lasts && (self.session.is_none() || now_ms + SURELY_MS < self.kept_until_ms)
            }
        }
    }

    /// Loses the connection; `finished`: what the client has sent still arrives.
    pub(crate) fn cut<J: Journal>(&mut self, broker: &mut SimulatedBroker<J>, ledger: &mut Ledger, finished: bool) {
        if let Some(socket) = self.socket {
            if finished {
                broker.abandon(socket)
            } else {
                broker.cut(socket)
            }
            if self.phase == Phase::Connecting {
                self.lingering = Some(socket);
            }
            self.left(broker.now_ms(), ledger);
        }
    }

    /// Turns to another connection; this one stays open.
    pub(crate) fn abandon<J: Journal>(&mut self, broker: &SimulatedBroker<J>, ledger: &mut Ledger) {
        self.left(broker.now_ms(), ledger);
    }

    /// DISCONNECT; the client then waits for the broker to close.
    pub(crate) fn disconnect<J: Journal>(
        &mut self,
        broker: &mut SimulatedBroker<J>,
        ledger: &mut Ledger,
        reason: DisconnectReason,
    ) {
        let reason = if self.is_v5() { reason } else { DisconnectReason::NormalDisconnection };
        if reason != DisconnectReason::NormalDisconnection {
            self.allow_will(ledger);
        }
        self.send(broker, &Packet::Disconnect(Disconnect::new(reason)));
        if let Some(socket) = self.socket {
            broker.finish(socket);
        }
        self.kept_until(broker.now_ms());
        self.phase = Phase::Leaving;
    }

    pub(crate) fn may_publish(&self, qos: QoS) -> bool {
        self.phase == Phase::Here
            && (qos == QoS::AtMostOnce || self.outgoing.len() < self.broker_receive_maximum.min(20))
    }

    pub(crate) fn publish<J: Journal>(&mut self, broker: &mut SimulatedBroker<J>, ledger: &mut Ledger, number: usize) {
        let qos = ledger.publications[number].qos;
        let id = (qos != QoS::AtMostOnce).then(|| self.next_packet_id());
        if let Some(id) = id {
            self.outgoing.push(Outgoing { id, number, qos, received: false });
        }
        self.send_publish(broker, ledger, number, id, false);
    }

    fn send_publish<J: Journal>(
        &mut self,
        broker: &mut SimulatedBroker<J>,
        ledger: &mut Ledger,
        number: usize,
        packet_id: Option<PacketId>,
        dup: bool,
    ) {
        ledger.sent(number, dup);
        let publication = &ledger.publications[number];
        let mut properties = Vec::new();
        let mut topic = TopicName::new(&publication.topic).ok();
        if self.is_v5() {
            properties.extend(publication.expiry_interval_s.map(Property::MessageExpiryInterval));
            properties.push(Property::UserProperty("number", publication.topic.as_str()));
            if self.broker_alias_maximum > 0 && number.is_multiple_of(3) {
                let fresh = self.aliases_out.len() as u16 + 1;
                match self.aliases_out.get(&publication.topic) {
                    Some(alias) => {
                        topic = None;
                        properties.extend(NonZeroU16::new(*alias).map(Property::TopicAlias));
                    }
                    None if fresh <= self.broker_alias_maximum => {
                        self.aliases_out.insert(publication.topic.clone(), fresh);
                        properties.extend(NonZeroU16::new(fresh).map(Property::TopicAlias));
                    }
                    None => {}
                }
            }
        }
        let delivery = match (publication.qos, packet_id) {
            (QoS::AtLeastOnce, Some(packet_id)) => Delivery::AtLeastOnce { packet_id, dup },
            (QoS::ExactlyOnce, Some(packet_id)) => Delivery::ExactlyOnce { packet_id, dup },
            _ => Delivery::AtMostOnce,
        };
        let publish = Publish {
            delivery,
            retain: publication.retain,
            topic,
            properties: Properties::from_list(&properties),
            payload: &publication.payload,
        };
        let mut bytes = Vec::new();
        publish.append_to(self.version, &mut bytes).expect("our PUBLISH is valid");
        if let Some(packet_id) = packet_id {
            self.awaited_acks.push_back((publication.qos, packet_id.get()));
        }
        self.send_bytes(broker, &bytes);
    }

    pub(crate) fn subscribe<J: Journal>(
        &mut self,
        broker: &mut SimulatedBroker<J>,
        ledger: &mut Ledger,
        mut requests: Vec<Request>,
    ) {
        let identifier = requests.first().and_then(|request| request.identifier).filter(|_| self.is_v5());
        for request in &mut requests {
            request.identifier = identifier;
            if !self.is_v5() {
                (request.no_local, request.retain_as_published) = (false, false);
            }
        }
        let id = self.next_packet_id();
        let v5 = self.is_v5();
        let items: Vec<SubscriptionRequest<'_>> = requests
            .iter()
            .map(|request| SubscriptionRequest {
                filter: TopicFilter::new(&request.filter).expect("our filters are valid"),
                options: if v5 {
                    SubscriptionOptions {
                        qos: request.qos,
                        no_local: request.no_local,
                        retain_as_published: request.retain_as_published,
                        retain_handling: request.retain_handling,
                    }
                } else {
                    SubscriptionOptions::with_qos(request.qos)
                },
            })
            .collect();
        let property = identifier.and_then(SubscriptionId::new).map(Property::SubscriptionIdentifier);
        let subscribe = Subscribe {
            packet_id: id,
            properties: Properties::from_list(property.as_slice()),
            requests: (&items[..]).into(),
        };
        let mut bytes = Vec::new();
        subscribe.append_to(self.version, &mut bytes).expect("our SUBSCRIBE is valid");
        if let Some(session) = self.session {
            for request in &requests {
                ledger.subscribing(session, request);
            }
        }
        self.asked.insert(id.get(), Asked::Subscribe(requests));
        self.send_bytes(broker, &bytes);
    }

    pub(crate) fn unsubscribe<J: Journal>(
        &mut self,
        broker: &mut SimulatedBroker<J>,
        ledger: &mut Ledger,
        filters: Vec<String>,
    ) {
        let id = self.next_packet_id();
        let items: Vec<TopicFilter<'_>> = filters.iter().filter_map(|filter| TopicFilter::new(filter).ok()).collect();
        let packet = Unsubscribe { packet_id: id, properties: Properties::EMPTY, filters: (&items[..]).into() };
        let mut bytes = Vec::new();
        packet.append_to(self.version, &mut bytes).expect("our UNSUBSCRIBE is valid");
        if let Some(session) = self.session {
            for filter in &filters {
                ledger.unsubscribing(session, filter);
            }
        }
        self.asked.insert(id.get(), Asked::Unsubscribe(filters));
        self.send_bytes(broker, &bytes);
    }

    pub(crate) fn is_asking_about(&self, filter: &str) -> bool {
        self.asked.values().any(|asked| match asked {
            Asked::Subscribe(requests) => requests.iter().any(|request| request.filter == filter),
            Asked::Unsubscribe(filters) => filters.iter().any(|held| held == filter),
        })
    }

    /// Sends up to `most` answers that are owed, now and then one twice.
    pub(crate) fn answer<J: Journal>(
        &mut self,
        broker: &mut SimulatedBroker<J>,
        most: usize,
        choices: &mut impl Choices,
    ) {
        for _ in 0..most {
            let Some(owed) = self.owed.pop_front() else { return };
            let packet = match owed {
                Owed::PubAck(id) => {
                    self.in_flight.remove(&id.get());
                    Packet::PubAck(PubAck::success(id))
                }
                Owed::PubRec(id) => Packet::PubRec(PubRec::success(id)),
                Owed::PubComp(id) => {
                    self.in_flight.remove(&id.get());
                    Packet::PubComp(PubComp::success(id))
                }
            };
            for _ in 0..=usize::from(choices.chance(5)) {
                self.send(broker, &packet);
            }
        }
    }

    pub(crate) fn ping<J: Journal>(&mut self, broker: &mut SimulatedBroker<J>) {
        self.send(broker, &Packet::PingReq);
    }

    pub(crate) fn send<J: Journal>(&mut self, broker: &mut SimulatedBroker<J>, packet: &Packet<'_>) {
        let mut bytes = Vec::new();
        packet.append_to(self.version, &mut bytes).expect("our packets are valid");
        self.send_bytes(broker, &bytes);
    }

    fn send_bytes<J: Journal>(&mut self, broker: &mut SimulatedBroker<J>, bytes: &[u8]) {
        if let Some(socket) = self.socket {
            broker.send(socket, bytes);
        }
    }

    fn next_packet_id(&mut self) -> PacketId {
        loop {
            self.last_packet_id = self.last_packet_id % 300 + 1;
            let id = self.last_packet_id;
            let taken = self.asked.contains_key(&id) || self.outgoing.iter().any(|outgoing| outgoing.id.get() == id);
            if let Some(id) = PacketId::new(id).filter(|_| !taken) {
                return id;
            }
        }
    }

    // What comes from the broker.

    /// All packets in `bytes`, as they are.
    pub(crate) fn decode_all(&self, bytes: &[u8]) -> Vec<OwnedPacket> {
        let mut packets = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (packet, length) = decode(rest, &DecodeOptions::new(self.version)).expect("whole valid packets");
            packets.push(packet.to_owned_packet().expect("what was decoded can be kept"));
            rest = &rest[length..];
        }
        packets
    }

    /// Takes up to `most` bytes and handles all whole packets.
    pub(crate) fn read<J: Journal>(
        &mut self,
        broker: &mut SimulatedBroker<J>,
        ledger: &mut Ledger,
        most: usize,
    ) -> Outcome {
        let Some(socket) = self.socket else { return Ok(()) };
        let bytes = broker.take(socket, most);
        self.input.extend_from_slice(&bytes);
        let input = std::mem::take(&mut self.input);
        let mut at = 0;
        while at < input.len() {
            let options = DecodeOptions::new(self.version);
            let (packet, length) = match decode(&input[at..], &options) {
                Ok(decoded) => decoded,
                Err(error) if error.is_incomplete() => break,
                Err(error) => return Err(format!("client {} got bytes that are no packet: {error}", self.index)),
            };
            let maximum = self.terms.as_ref().and_then(|terms| terms.maximum_packet_bytes).filter(|_| self.is_v5());
            if maximum.is_some_and(|maximum| length > maximum as usize) {
                return Err(format!("{length} bytes of {:?}, accepted {maximum:?}", packet.packet_type()));
            }
            self.on_packet(broker, ledger, &packet)
                .map_err(|wrong| format!("client {} ({}): {wrong}", self.index, self.version))?;
            at += length;
        }
        self.input = input[at..].to_vec();
        let drained = bytes.len() < most;
        if drained && self.socket == Some(socket) && broker.closed_at_ms(socket).is_some() {
            self.left(broker.now_ms(), ledger);
        }
        Ok(())
    }

    fn on_packet<J: Journal>(
        &mut self,
        broker: &mut SimulatedBroker<J>,
        ledger: &mut Ledger,
        packet: &Packet<'_>,
    ) -> Outcome {
        match (self.phase, packet) {
            (Phase::Connecting, Packet::ConnAck(connack)) => self.on_connack(broker, ledger, connack),
            (Phase::Connecting, Packet::Disconnect(_)) => Ok(()),
            (Phase::Connecting, other) => Err(format!("{:?} before CONNACK", other.packet_type())),
            (_, Packet::Publish(publish)) => self.on_publish(ledger, publish),
            (_, Packet::PubAck(ack)) => {
                self.on_acknowledgement(ledger, QoS::AtLeastOnce, ack.packet_id, ack.reason.is_error())
            }
            (_, Packet::PubRec(ack)) => {
                self.on_acknowledgement(ledger, QoS::ExactlyOnce, ack.packet_id, ack.reason.is_error())?;
                self.send(broker, &Packet::PubRel(PubRel::success(ack.packet_id)));
                Ok(())
            }
            (_, Packet::PubRel(release)) => {
                self.acknowledged.push(Acknowledged::Received(release.packet_id));
                self.held.remove(&release.packet_id.get());
                self.owed.push_back(Owed::PubComp(release.packet_id));
                Ok(())
            }
            (_, Packet::PubComp(complete)) => {
                self.acknowledged.push(Acknowledged::Release(complete.packet_id));
                self.outgoing.retain(|outgoing| outgoing.id != complete.packet_id);
                Ok(())
            }
            (_, Packet::SubAck(suback)) => {
                let Some(Asked::Subscribe(requests)) = self.asked.remove(&suback.packet_id.get()) else {
                    return Err("a SUBACK for nothing".into());
                };
                let granted: Vec<u8> = suback.reasons.iter().map(|reason| reason.as_u8()).collect();
                let wanted: Vec<u8> = requests.iter().map(|request| request.qos.as_u8()).collect();
                if granted != wanted {
                    return Err(format!("{wanted:?} wanted, {granted:?} granted"));
                }
                if let Some(session) = self.session {
                    requests.iter().for_each(|request| ledger.subscribed(session, &request.filter));
                }
                let filters = requests.into_iter().map(|request| request.filter).collect();
                self.acknowledged.push(Acknowledged::Subscribed(filters));
                Ok(())
            }
            (_, Packet::UnsubAck(unsuback)) => {
                let Some(Asked::Unsubscribe(filters)) = self.asked.remove(&unsuback.packet_id.get()) else {
                    return Err("an UNSUBACK for nothing".into());
                };
                if let Some(session) = self.session {
                    filters.iter().for_each(|filter| ledger.unsubscribed(session, filter));
                }
                self.acknowledged.push(Acknowledged::Unsubscribed(filters));
                Ok(())
            }
            (_, Packet::PingResp) => Ok(()),
            // The client may have come back on another connection, which ends this one.
            (_, Packet::Disconnect(disconnect)) => Err(format!("disconnected: {:?}", disconnect.reason)),
            (_, other) => Err(format!("{:?} from a server", other.packet_type())),
        }
    }

    fn on_connack<J: Journal>(
        &mut self,
        broker: &mut SimulatedBroker<J>,
        ledger: &mut Ledger,
        connack: &ConnAck<'_>,
    ) -> Outcome {
        if connack.reason != ConnectReason::Success {
            return Err(format!("refused: {:?}", connack.reason));
        }
        match (self.expected, connack.session_present) {
            (Expected::Present, false) if broker.now_ms() < self.kept_until_ms => {
                return Err("the session is lost".into());
            }
            (Expected::Absent, true) => return Err("a session that cannot be".into()),
            _ => {}
        }
        self.phase = Phase::Here;
        ledger.forbidden_wills.extend(self.terms.as_ref().and_then(|terms| terms.will));
        self.broker_receive_maximum =
            connack.properties.receive_maximum().map_or(65_535, |maximum| maximum.get().into());
        self.broker_alias_maximum = connack.properties.topic_alias_maximum().unwrap_or(0);
        if !connack.session_present {
            if let Some(session) = self.session.take() {
                ledger.end(session);
            }
            self.outgoing.clear();
            self.held.clear();
        }
        let session = *self.session.get_or_insert_with(|| ledger.begin(self.index));
        self.note_maximum(ledger, session);
        self.resend(broker, ledger);
        Ok(())
    }

    fn note_maximum(&self, ledger: &mut Ledger, session: usize) {
        let maximum = self.terms.as_ref().and_then(|terms| terms.maximum_packet_bytes).filter(|_| self.is_v5());
        let least = &mut ledger.incarnations[session].maximum_packet_bytes;
        *least = [*least, maximum].into_iter().flatten().min();
    }

    /// [MQTT-4.4.0-1]
    fn resend<J: Journal>(&mut self, broker: &mut SimulatedBroker<J>, ledger: &mut Ledger) {
        let outgoing: Vec<_> =
            self.outgoing.iter().map(|outgoing| (outgoing.id, outgoing.number, outgoing.received)).collect();
        for (id, number, received) in outgoing {
            if received {
                self.send(broker, &Packet::PubRel(PubRel::success(id)));
            } else {
                self.send_publish(broker, ledger, number, Some(id), true);
            }
        }
    }

    /// PUBACK and PUBREC come in the order of the messages [MQTT-4.6.0-2], [MQTT-4.6.0-3].
    fn on_acknowledgement(&mut self, ledger: &mut Ledger, qos: QoS, id: PacketId, is_error: bool) -> Outcome {
        if is_error {
            return Err(format!("message refused, packet {}", id.get()));
        }
        let Some(at) = self.awaited_acks.iter().position(|(awaited, _)| *awaited == qos) else {
            return Err(format!("an acknowledgement of {} that nobody waits for", id.get()));
        };
        match self.awaited_acks.remove(at) {
            Some((_, awaited)) if awaited == id.get() => {}
            other => return Err(format!("packet {} acknowledged, {other:?} was the next", id.get())),
        }
        let Some(outgoing) = self.outgoing.iter_mut().find(|outgoing| outgoing.id == id && outgoing.qos == qos) else {
            return Err(format!("an acknowledgement of {}, which is not in flight", id.get()));
        };
        outgoing.received = true;
        let number = outgoing.number;
        ledger.acknowledged(number);
        self.acknowledged.push(Acknowledged::Message(number));
        if qos == QoS::AtLeastOnce {
            self.outgoing.retain(|outgoing| outgoing.id != id);
        }
        Ok(())
    }

    fn on_publish(&mut self, ledger: &mut Ledger, publish: &Publish<'_>) -> Outcome {
        let alias = publish.properties.topic_alias().map(NonZeroU16::get);
        let accepted = self.terms.as_ref().map_or(0, |terms| terms.topic_alias_maximum);
        if alias.is_some_and(|alias| alias > accepted) {
            return Err(format!("topic alias {alias:?}, accepted {accepted}"));
        }
        let topic = match (publish.topic, alias) {
            (Some(topic), Some(alias)) => {
                self.aliases_in.insert(alias, topic.as_str().into());
                topic.as_str().to_owned()
            }
            (Some(topic), None) => topic.as_str().to_owned(),
            (None, Some(alias)) => self.aliases_in.get(&alias).cloned().ok_or("an alias that stands for nothing")?,
            (None, None) => return Err("a PUBLISH without a topic".into()),
        };
        let repeated = self.take_on(publish, ledger)?;
        let arrival = Arrival {
            topic: &topic,
            payload: publish.payload,
            qos: publish.qos(),
            dup: publish.dup(),
            retain: publish.retain,
            identifiers: publish.properties.subscription_identifiers().map(SubscriptionId::get).collect(),
            expiry_interval_s: publish.properties.message_expiry_interval(),
            repeated,
        };
        match self.session {
            Some(session) => ledger.arrived(session, &arrival),
            None => Err("a PUBLISH without a session".into()),
        }
    }

    /// Keeps account of packet identifiers; true where QoS 2 says that the message is here already.
    fn take_on(&mut self, publish: &Publish<'_>, ledger: &Ledger) -> Result<bool, String> {
        let Some(id) = publish.packet_id() else { return Ok(false) };
        if self.in_flight.insert(id.get(), publish.qos()).is_some() {
            return Err(format!("packet identifier {} is in use", id.get()));
        }
        let terms = self.terms.as_ref();
        let maximum = terms.and_then(|terms| terms.receive_maximum).filter(|_| self.is_v5()).unwrap_or(65_535);
        if self.in_flight.len() > usize::from(maximum) {
            return Err(format!("{} messages in flight, accepted {maximum}", self.in_flight.len()));
        }
        if publish.qos() == QoS::AtLeastOnce {
            self.owed.push_back(Owed::PubAck(id));
            return Ok(false);
        }
        self.owed.push_back(Owed::PubRec(id));
        let number = ledger.publications.iter().position(|held| held.payload == publish.payload);
        match (self.held.get(&id.get()), number) {
            (Some(held), Some(number)) if *held == number => Ok(true),
            (Some(_), _) => Err(format!("packet identifier {} is of a message not released", id.get())),
            (None, _) => {
                self.held.insert(id.get(), number.unwrap_or(usize::MAX));
                Ok(false)
            }
        }
    }
}
