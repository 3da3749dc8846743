//! An MQTT client that keeps the rules, and checks that the broker does.

mod receiving;

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU16;

use tautwire_engine::Mode;
use tautwire_protocol::{
    Delivery, Disconnect, DisconnectReason, Packet, PacketId, Properties, Property, ProtocolVersion, PubAck, PubComp,
    PubRec, Publish, QoS, TopicFilter, TopicName, Unsubscribe,
};

use crate::ledger::{MemoryLedger, Request};
use crate::packets::{ConnectOptions, connect_bytes, subscribe_bytes};
use crate::support::{Choices, SimulatedBroker, SocketId};

/// A session that is kept longer than this is there when a CONNECT sent now takes effect.
const SURELY_MS: u64 = 1_000_000;

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

/// An acknowledgement that came, for tests that look at when it may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Acknowledged {
    /// CONNACK came.
    Connected,
    /// A QoS 2 message came, for the first time.
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
    pub(crate) terms: Option<ConnectOptions>,
    /// What the broker has acknowledged since this was last emptied.
    pub(crate) acknowledged: Vec<Acknowledged>,
    socket: Option<SocketId>,
    /// A connection given up before CONNACK. Its CONNECT may still take effect while it is not closed.
    lingering: Option<SocketId>,
    input: Vec<u8>,
    last_packet_id: u16,
    /// It takes the lowest that is free, not the next one.
    pub(crate) reuses_packet_ids: bool,
    outgoing: Vec<Outgoing>,
    asked: BTreeMap<u16, PendingRequest>,
    /// In the order in which answers are due, by the packet identifier.
    awaited_acks: VecDeque<(QoS, u16)>,
    /// QoS 2 messages received and not released.
    held: BTreeMap<u16, usize>,
    /// QoS 1 and 2 messages of this connection that are not answered to the end.
    in_flight: BTreeMap<u16, QoS>,
    owed: VecDeque<PendingAnswer>,
    aliases_in: BTreeMap<u16, String>,
    aliases_out: BTreeMap<String, u16>,
    broker_receive_maximum: usize,
    broker_alias_maximum: u16,
    expected: Expected,
    /// The client does not know whether it got the clean start that it asked for, or to which session it would come back: it asks for
    /// a clean start until it gets one.
    must_start_clean: bool,
    /// How long the broker surely keeps the session of the last connection.
    kept_until_ms: u64,
    /// The broker has so little memory that it may refuse things, and end connections, for want of it.
    pub(crate) may_be_refused: bool,
    /// How often it did.
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
            terms: None,
            acknowledged: Vec::new(),
            socket: None,
            lingering: None,
            input: Vec::new(),
            last_packet_id: 0,
            reuses_packet_ids: false,
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
            must_start_clean: false,
            kept_until_ms: 0,
            may_be_refused: false,
            refusals: 0,
        }
    }

    pub(crate) fn is_v5(&self) -> bool {
        self.version == ProtocolVersion::V5
    }

    /// Nothing is owed by or to the client.
    pub(crate) fn is_idle(&self) -> bool {
        self.outgoing.is_empty() && self.owed.is_empty() && self.asked.is_empty() && self.in_flight.is_empty()
    }

    /// It is away and has a session to come back to.
    pub(crate) fn is_offline(&self) -> bool {
        self.phase == Phase::Offline && self.session.is_some()
    }

    pub(crate) fn socket(&self) -> Option<SocketId> {
        self.socket
    }

    pub(crate) fn connect<M: Mode>(
        &mut self,
        broker: &mut SimulatedBroker<M>,
        ledger: &mut MemoryLedger,
        shard: usize,
        mut terms: ConnectOptions,
    ) {
        self.allow_will(ledger);
        self.drop_connection();
        if self.must_start_clean && !terms.clean_start {
            terms.clean_start = true;
            terms.expiry_interval_s = if self.is_v5() { terms.expiry_interval_s } else { 0 };
        }
        if terms.clean_start {
            self.expected = Expected::Absent;
        }
        let will = terms.will.map(|number| &ledger.publications[number]);
        let bytes = connect_bytes(&self.id, self.version, &terms, will);
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

    fn note_maximum(&self, ledger: &mut MemoryLedger, session: usize) {
        let maximum = self.terms.as_ref().and_then(|terms| terms.maximum_packet_bytes).filter(|_| self.is_v5());
        let least = &mut ledger.incarnations[session].maximum_packet_bytes;
        *least = [*least, maximum].into_iter().flatten().min();
    }

    /// Gives the present connection up, without a word and without waiting.
    fn drop_connection(&mut self) {
        self.phase = Phase::Offline;
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
    fn left(&mut self, now_ms: u64, ledger: &mut MemoryLedger) {
        let established = self.phase != Phase::Connecting;
        let persistent = self.terms.as_ref().is_some_and(|terms| terms.expiry_interval_s > 0);
        self.expected = match (established, persistent) {
            // The connection may have ended earlier than the client saw it end.
            (true, true) if self.may_be_refused => Expected::Unknown,
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
        self.drop_connection();
        if established && !persistent {
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
    fn allow_will(&self, ledger: &mut MemoryLedger) {
        if let Some(will) = self.terms.as_ref().and_then(|terms| terms.will) {
            ledger.forbidden_wills.remove(&will);
        }
    }

    pub(crate) fn may_connect<M: Mode>(&self, broker: &SimulatedBroker<M>) -> bool {
        self.phase == Phase::Offline && self.lingering.is_none_or(|socket| broker.closed_at_ms(socket).is_some())
    }

    /// A connection may only be lost before CONNACK where that leaves no doubt about the session.
    pub(crate) fn may_be_cut(&self, now_ms: u64) -> bool {
        match self.phase {
            Phase::Offline | Phase::Leaving => false,
            Phase::Connected => true,
            Phase::Connecting => {
                let lasts = self.terms.as_ref().is_some_and(|terms| !terms.clean_start && terms.expiry_interval_s > 0);
                lasts && (self.session.is_none() || now_ms + SURELY_MS < self.kept_until_ms)
            }
        }
    }

    /// Loses the connection; `finished`: what the client has sent still arrives.
    pub(crate) fn cut<M: Mode>(&mut self, broker: &mut SimulatedBroker<M>, ledger: &mut MemoryLedger, finished: bool) {
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

    /// The broker has crashed.
    pub(crate) fn lose_broker(&mut self, now_ms: u64, ledger: &mut MemoryLedger) {
        self.lingering = None;
        if self.phase != Phase::Offline {
            self.must_start_clean |= self.phase == Phase::Connecting && !self.may_be_cut(now_ms);
            self.left(now_ms, ledger);
        }
    }

    /// Turns to another connection; this one stays open.
    pub(crate) fn abandon<M: Mode>(&mut self, broker: &SimulatedBroker<M>, ledger: &mut MemoryLedger) {
        self.left(broker.now_ms(), ledger);
    }

    /// DISCONNECT; the client then waits for the broker to close.
    pub(crate) fn disconnect<M: Mode>(
        &mut self,
        broker: &mut SimulatedBroker<M>,
        ledger: &mut MemoryLedger,
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
        self.phase == Phase::Connected
            && (qos == QoS::AtMostOnce || self.outgoing.len() < self.broker_receive_maximum.min(20))
    }

    pub(crate) fn publish<M: Mode>(
        &mut self,
        broker: &mut SimulatedBroker<M>,
        ledger: &mut MemoryLedger,
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
        ledger: &mut MemoryLedger,
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

    /// Sends the first bytes of a PUBLISH, behind which nothing comes.
    pub(crate) fn publish_in_part<M: Mode>(
        &mut self,
        broker: &mut SimulatedBroker<M>,
        ledger: &mut MemoryLedger,
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
        ledger: &mut MemoryLedger,
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
        self.asked.insert(id.get(), PendingRequest::Subscribe(requests));
        self.send_bytes(broker, &bytes);
    }

    pub(crate) fn unsubscribe<M: Mode>(
        &mut self,
        broker: &mut SimulatedBroker<M>,
        ledger: &mut MemoryLedger,
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
        self.asked.insert(id.get(), PendingRequest::Unsubscribe(filters));
        self.send_bytes(broker, &bytes);
    }

    pub(crate) fn is_asking_about(&self, filter: &str) -> bool {
        self.asked.values().any(|asked| match asked {
            PendingRequest::Subscribe(requests) => requests.iter().any(|request| request.filter == filter),
            PendingRequest::Unsubscribe(filters) => filters.iter().any(|held| held == filter),
        })
    }

    /// Sends up to `most` answers that are owed, now and then one twice.
    pub(crate) fn answer<M: Mode>(&mut self, broker: &mut SimulatedBroker<M>, most: usize, choices: &mut impl Choices) {
        for _ in 0..most {
            let Some(owed) = self.owed.pop_front() else { return };
            let packet = match owed {
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
            let taken = self.asked.contains_key(&id) || self.outgoing.iter().any(|outgoing| outgoing.id.get() == id);
            if let Some(id) = PacketId::new(id).filter(|_| !taken) {
                return id;
            }
        }
    }
}
