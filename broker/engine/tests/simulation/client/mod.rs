//! An MQTT client that conforms to the specification, and checks that the broker does.

mod receiving;

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU16;

use tautwire_engine::Mode;
use tautwire_protocol::{
    Delivery, Disconnect, DisconnectReason, Packet, PacketId, Properties, Property, ProtocolVersion, PubAck, PubComp,
    PubRec, Publish, QoS, TopicFilter, TopicName, Unsubscribe,
};

use crate::ledger::{DeliveryLedger, Request};
use crate::packets::{ConnectOptions, connect_bytes, subscribe_bytes};
use crate::support::{Choices, SimulatedBroker, SocketId};

/// A session with at least this time to its expiry still exists when a CONNECT sent now takes effect.
const EXPIRY_MARGIN_MS: u64 = 1_000_000;

/// The highest Packet Identifier that any client uses.
pub(crate) const PACKET_IDS_MAX: u16 = 300;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Offline,
    /// CONNECT is sent.
    Connecting,
    Connected,
    /// DISCONNECT is sent.
    Leaving,
}

/// Whether the client expects Session Present in CONNACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Present,
    Absent,
    Unknown,
}

/// A message that the client has sent and that is not completely acknowledged.
#[derive(Debug)]
struct Outgoing {
    id: PacketId,
    number: usize,
    qos: QoS,
    /// PUBREC was received.
    received: bool,
}

/// An acknowledgement that the client has not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PendingAnswer {
    /// PUBACK.
    Published(PacketId),
    /// PUBREC.
    Received(PacketId),
    /// PUBCOMP.
    Complete(PacketId),
}

#[derive(Debug)]
enum PendingRequest {
    Subscribe(Vec<Request>),
    Unsubscribe(Vec<String>),
}

/// A received acknowledgement, for tests that check whether it was too early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Acknowledged {
    /// CONNACK.
    Connected,
    /// A QoS 2 message, for the first time.
    Delivered(usize),
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
    pub(crate) options: Option<ConnectOptions>,
    /// The acknowledgements since this was last taken.
    pub(crate) acknowledged: Vec<Acknowledged>,
    socket: Option<SocketId>,
    /// A connection abandoned before CONNACK. Its CONNECT can take effect until the connection is closed.
    abandoned_socket: Option<SocketId>,
    input: Vec<u8>,
    last_packet_id: u16,
    /// Whether the client uses the lowest free Packet Identifier, not the next one.
    pub(crate) reuses_packet_ids: bool,
    outgoing: Vec<Outgoing>,
    pending_requests: BTreeMap<u16, PendingRequest>,
    /// The Packet Identifiers of sent messages, in the order in which acknowledgements are due.
    awaited_acks: VecDeque<(QoS, u16)>,
    /// QoS 2 messages received and not released.
    unreleased: BTreeMap<u16, usize>,
    /// QoS 1 and 2 messages of this connection that are not completely acknowledged.
    in_flight: BTreeMap<u16, QoS>,
    pending_answers: VecDeque<PendingAnswer>,
    aliases_in: BTreeMap<u16, String>,
    aliases_out: BTreeMap<String, u16>,
    broker_receive_maximum: usize,
    broker_alias_maximum: u16,
    expected: Expected,
    /// Whether the client requests a clean start until it gets one, because it does not know whether an earlier one took effect.
    must_start_clean: bool,
    /// Until when the session of the last connection certainly exists.
    expires_at_ms: u64,
    /// Whether the broker has so little memory that it may refuse requests and close connections.
    pub(crate) may_be_refused: bool,
    /// The number of refusals.
    pub(crate) refusals: usize,
}

type Outcome = Result<(), String>;

impl Client {
    pub(crate) fn new(index: usize, id: String, version: ProtocolVersion) -> Client {
        Client {
            index,
            id,
            version,
            phase: Phase::Offline,
            session: None,
            options: None,
            acknowledged: Vec::new(),
            socket: None,
            abandoned_socket: None,
            input: Vec::new(),
            last_packet_id: 0,
            reuses_packet_ids: false,
            outgoing: Vec::new(),
            pending_requests: BTreeMap::new(),
            awaited_acks: VecDeque::new(),
            unreleased: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            pending_answers: VecDeque::new(),
            aliases_in: BTreeMap::new(),
            aliases_out: BTreeMap::new(),
            broker_receive_maximum: 0,
            broker_alias_maximum: 0,
            expected: Expected::Absent,
            must_start_clean: false,
            expires_at_ms: 0,
            may_be_refused: false,
            refusals: 0,
        }
    }

    pub(crate) fn is_v5(&self) -> bool {
        self.version == ProtocolVersion::V5
    }

    /// Whether no acknowledgement or response is pending on either side.
    pub(crate) fn is_idle(&self) -> bool {
        self.outgoing.is_empty()
            && self.pending_answers.is_empty()
            && self.pending_requests.is_empty()
            && self.in_flight.is_empty()
    }

    /// Whether the client is offline and has a session.
    pub(crate) fn is_offline(&self) -> bool {
        self.phase == Phase::Offline && self.session.is_some()
    }

    pub(crate) fn socket(&self) -> Option<SocketId> {
        self.socket
    }

    pub(crate) fn connect<M: Mode>(
        &mut self,
        broker: &mut SimulatedBroker<M>,
        ledger: &mut DeliveryLedger,
        shard: usize,
        mut options: ConnectOptions,
    ) {
        self.allow_will(ledger);
        self.drop_connection();
        if self.must_start_clean && !options.clean_start {
            options.clean_start = true;
            options.expiry_interval_s = if self.is_v5() { options.expiry_interval_s } else { 0 };
        }
        if options.clean_start {
            self.expected = Expected::Absent;
        }
        let will = options.will.map(|number| &ledger.publications[number]);
        let bytes = connect_bytes(&self.id, self.version, &options, will);
        let socket = broker.connect(shard, options.room_bytes);
        broker.send(socket, &bytes);
        self.socket = Some(socket);
        self.phase = Phase::Connecting;
        self.options = Some(options);
        // It applies from when CONNECT takes effect, even if the client never receives CONNACK.
        if let Some(session) = self.session {
            self.update_maximum_packet_bytes(ledger, session);
        }
    }

    fn update_maximum_packet_bytes(&self, ledger: &mut DeliveryLedger, session: usize) {
        let maximum = self.options.as_ref().and_then(|options| options.maximum_packet_bytes).filter(|_| self.is_v5());
        let least = &mut ledger.sessions[session].maximum_packet_bytes;
        *least = [*least, maximum].into_iter().flatten().min();
    }

    /// Abandons the current connection without DISCONNECT.
    fn drop_connection(&mut self) {
        self.phase = Phase::Offline;
        self.socket = None;
        self.input.clear();
        self.aliases_in.clear();
        self.aliases_out.clear();
        self.in_flight.clear();
        self.pending_answers.clear();
        self.pending_requests.clear();
        self.awaited_acks.clear();
    }

    /// Handles the end of the connection.
    fn handle_disconnected(&mut self, now_ms: u64, ledger: &mut DeliveryLedger) {
        let established = self.phase != Phase::Connecting;
        let persistent = self.options.as_ref().is_some_and(|options| options.expiry_interval_s > 0);
        self.expected = match (established, persistent) {
            // The broker may have closed the connection earlier.
            (true, true) if self.may_be_refused => Expected::Unknown,
            (true, true) => Expected::Present,
            (true, false) => Expected::Absent,
            (false, _) if self.expected == Expected::Present => Expected::Present,
            (false, _) => Expected::Unknown,
        };
        if self.phase != Phase::Leaving {
            self.update_expiry(now_ms);
        }
        if self.phase != Phase::Leaving {
            self.allow_will(ledger);
        }
        self.drop_connection();
        if established && !persistent {
            // The session ends.
            self.outgoing.clear();
            self.unreleased.clear();
            if let Some(session) = self.session.take() {
                ledger.end(session);
            }
        }
    }

    /// Computes the earliest expiry of the session: the broker may close the connection from now on.
    fn update_expiry(&mut self, now_ms: u64) {
        let expiry_s = self.options.as_ref().map_or(0, |options| options.expiry_interval_s);
        let expires_at_ms = now_ms + u64::from(expiry_s) * 1000;
        self.expires_at_ms = match self.phase {
            // The broker may not have seen this CONNECT.
            Phase::Connecting => self.expires_at_ms.min(expires_at_ms),
            _ => expires_at_ms,
        };
    }

    /// Allows the broker to publish the will from now on.
    fn allow_will(&self, ledger: &mut DeliveryLedger) {
        if let Some(will) = self.options.as_ref().and_then(|options| options.will) {
            ledger.forbidden_wills.remove(&will);
        }
    }

    pub(crate) fn may_connect<M: Mode>(&self, broker: &SimulatedBroker<M>) -> bool {
        self.phase == Phase::Offline && self.abandoned_socket.is_none_or(|socket| broker.closed_at_ms(socket).is_some())
    }

    /// Whether the connection can break now. Before CONNACK it can only if the state of the session stays certain.
    pub(crate) fn may_be_cut(&self, now_ms: u64) -> bool {
        match self.phase {
            Phase::Offline | Phase::Leaving => false,
            Phase::Connected => true,
            Phase::Connecting => {
                let is_persistent =
                    self.options.as_ref().is_some_and(|options| !options.clean_start && options.expiry_interval_s > 0);
                is_persistent && (self.session.is_none() || now_ms + EXPIRY_MARGIN_MS < self.expires_at_ms)
            }
        }
    }

    /// Breaks the connection. If `finished`, bytes already sent still arrive.
    pub(crate) fn cut<M: Mode>(
        &mut self,
        broker: &mut SimulatedBroker<M>,
        ledger: &mut DeliveryLedger,
        finished: bool,
    ) {
        if let Some(socket) = self.socket {
            if finished {
                broker.abandon(socket)
            } else {
                broker.cut(socket)
            }
            if self.phase == Phase::Connecting {
                self.abandoned_socket = Some(socket);
            }
            self.handle_disconnected(broker.now_ms(), ledger);
        }
    }

    /// The broker has crashed.
    pub(crate) fn lose_broker(&mut self, now_ms: u64, ledger: &mut DeliveryLedger) {
        self.abandoned_socket = None;
        if self.phase != Phase::Offline {
            self.must_start_clean |= self.phase == Phase::Connecting && !self.may_be_cut(now_ms);
            self.handle_disconnected(now_ms, ledger);
        }
    }

    /// Abandons the connection, which stays open.
    pub(crate) fn abandon<M: Mode>(&mut self, broker: &SimulatedBroker<M>, ledger: &mut DeliveryLedger) {
        self.handle_disconnected(broker.now_ms(), ledger);
    }

    /// Sends DISCONNECT and waits until the broker closes the connection.
    pub(crate) fn disconnect<M: Mode>(
        &mut self,
        broker: &mut SimulatedBroker<M>,
        ledger: &mut DeliveryLedger,
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
        self.update_expiry(broker.now_ms());
        self.phase = Phase::Leaving;
    }

    pub(crate) fn may_publish(&self, qos: QoS) -> bool {
        self.phase == Phase::Connected
            && (qos == QoS::AtMostOnce || self.outgoing.len() < self.broker_receive_maximum.min(20))
    }

    pub(crate) fn publish<M: Mode>(
        &mut self,
        broker: &mut SimulatedBroker<M>,
        ledger: &mut DeliveryLedger,
        number: usize,
    ) {
        let qos = ledger.publications[number].qos;
        let id = (qos != QoS::AtMostOnce).then(|| self.next_packet_id());
        if let Some(id) = id {
            self.outgoing.push(Outgoing { id, number, qos, received: false });
        }
        self.send_publish(broker, ledger, number, id, false);
    }

    fn send_publish<M: Mode>(
        &mut self,
        broker: &mut SimulatedBroker<M>,
        ledger: &mut DeliveryLedger,
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

    /// Sends a part of a PUBLISH, and nothing after it.
    pub(crate) fn publish_in_part<M: Mode>(
        &mut self,
        broker: &mut SimulatedBroker<M>,
        ledger: &mut DeliveryLedger,
        number: usize,
        choices: &mut impl Choices,
    ) {
        let publication = &mut ledger.publications[number];
        publication.is_cut_off = true;
        let publish = Publish {
            delivery: Delivery::AtMostOnce,
            retain: publication.retain,
            topic: TopicName::new(&publication.topic).ok(),
            properties: Properties::EMPTY,
            payload: &publication.payload,
        };
        let mut bytes = Vec::new();
        publish.append_to(self.version, &mut bytes).expect("our PUBLISH is valid");
        bytes.truncate(choices.below(bytes.len()));
        self.send_bytes(broker, &bytes);
    }

    pub(crate) fn subscribe<M: Mode>(
        &mut self,
        broker: &mut SimulatedBroker<M>,
        ledger: &mut DeliveryLedger,
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
        let bytes = subscribe_bytes(self.version, id, &requests);
        if let Some(session) = self.session {
            for request in &requests {
                ledger.subscribing(session, request);
            }
        }
        self.pending_requests.insert(id.get(), PendingRequest::Subscribe(requests));
        self.send_bytes(broker, &bytes);
    }

    pub(crate) fn unsubscribe<M: Mode>(
        &mut self,
        broker: &mut SimulatedBroker<M>,
        ledger: &mut DeliveryLedger,
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
        self.pending_requests.insert(id.get(), PendingRequest::Unsubscribe(filters));
        self.send_bytes(broker, &bytes);
    }

    pub(crate) fn is_asking_about(&self, filter: &str) -> bool {
        self.pending_requests.values().any(|request| match request {
            PendingRequest::Subscribe(requests) => requests.iter().any(|request| request.filter == filter),
            PendingRequest::Unsubscribe(filters) => filters.iter().any(|held| held == filter),
        })
    }

    /// Sends up to `most` pending acknowledgements, sometimes one twice.
    pub(crate) fn answer<M: Mode>(&mut self, broker: &mut SimulatedBroker<M>, most: usize, choices: &mut impl Choices) {
        for _ in 0..most {
            let Some(answer) = self.pending_answers.pop_front() else { return };
            let packet = match answer {
                PendingAnswer::Published(id) => {
                    self.in_flight.remove(&id.get());
                    Packet::PubAck(PubAck::success(id))
                }
                PendingAnswer::Received(id) => Packet::PubRec(PubRec::success(id)),
                PendingAnswer::Complete(id) => {
                    self.in_flight.remove(&id.get());
                    Packet::PubComp(PubComp::success(id))
                }
            };
            for _ in 0..=usize::from(choices.chance(5)) {
                self.send(broker, &packet);
            }
        }
    }

    pub(crate) fn ping<M: Mode>(&mut self, broker: &mut SimulatedBroker<M>) {
        self.send(broker, &Packet::PingReq);
    }

    pub(crate) fn send<M: Mode>(&mut self, broker: &mut SimulatedBroker<M>, packet: &Packet<'_>) {
        let mut bytes = Vec::new();
        packet.append_to(self.version, &mut bytes).expect("our packets are valid");
        self.send_bytes(broker, &bytes);
    }

    fn send_bytes<M: Mode>(&mut self, broker: &mut SimulatedBroker<M>, bytes: &[u8]) {
        if let Some(socket) = self.socket {
            broker.send(socket, bytes);
        }
    }

    fn next_packet_id(&mut self) -> PacketId {
        if self.reuses_packet_ids {
            self.last_packet_id = 0;
        }
        loop {
            self.last_packet_id = self.last_packet_id % PACKET_IDS_MAX + 1;
            let id = self.last_packet_id;
            let taken =
                self.pending_requests.contains_key(&id) || self.outgoing.iter().any(|outgoing| outgoing.id.get() == id);
            if let Some(id) = PacketId::new(id).filter(|_| !taken) {
                return id;
            }
        }
    }
}
