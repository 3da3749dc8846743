//! The protocol without input and output: bytes in, bytes out, the time as an argument.
//!
//! A [`Machine`] lives as long as the client, over many connections. The session within it is the one that the broker has
//! ([`tautwire_session::Session`]): the flow of messages is the same in both directions, so the window of identifiers, the
//! queue, resending and the identifiers of received QoS 2 messages are too.
//!
//! Whoever drives it connects, calls [`Machine::opened`], then [`Machine::receive`] with what comes and
//! [`Machine::take_output`] for what is to be sent, [`Machine::on_time`] when [`Machine::deadline_ms`] has come, and
//! [`Machine::lost`] when the connection is gone. Times are milliseconds of any clock that does not go back.

mod durable;
mod events;
mod handshake;
mod inbound;
mod incoming;
mod link;
mod outgoing;
mod question;
mod requests;

use std::collections::VecDeque;

use hashbrown::{HashMap, HashSet};
use tautwire_protocol::{
    DecodeOptions, Disconnect, DisconnectReason, EncodeError, Packet, PacketId, Properties, ProtocolVersion, decode,
};
use tautwire_session::Session;

use crate::store::StoreWatch;
use crate::{Credentials, Error, FileStore, Options};
use durable::Tracked;
use inbound::Inbound;
use link::{Link, Phase};
use question::Reply;
use requests::Request;

pub use events::{Acceptance, AckToken, Answer, Event, Handler, Incoming, MachineCounters};
pub use link::Offer;
pub use outgoing::Published;
pub(crate) use question::Question;
pub(crate) use requests::Wanted;

/// An emptied buffer with room for more than this gives its memory back.
const BUFFER_KEPT_BYTES: usize = 256 << 10;

/// The client's side of MQTT, see the [module](self). `T` is what the caller wants to have back when a message or a
/// request has been answered.
pub struct Machine<T> {
    options: Options,
    client_id: String,
    session: Session,
    phase: Phase,
    link: Link,
    /// A connection of this client has been accepted before.
    was_open: bool,
    /// What the server of the present connection said of topics for responses.
    response_information: Option<Box<str>>,
    input: Vec<u8>,
    output: Vec<u8>,
    scratch: Vec<u8>,
    /// Of messages in the session's window.
    tags: HashMap<PacketId, Tracked<T>>,
    /// QoS 2 messages of the window for which PUBREC said that nobody has subscribed to their topic.
    unmatched: HashSet<PacketId>,
    /// Of messages in the session's queue, in its order.
    queued_tags: VecDeque<Tracked<T>>,
    /// QoS 0 messages in the session's queue.
    queued_at_most_once: usize,
    /// SUBSCRIBE and UNSUBSCRIBE without their answer.
    requests: VecDeque<(PacketId, Request<T>)>,
    /// Those to be sent.
    unsent: VecDeque<Request<T>>,
    inbound: Inbound,
    store: Option<FileStore>,
    /// Whose session is in the store.
    stored_client_id: Option<String>,
    /// Of the messages in the store.
    last_sequence: u64,
    /// One that is under way.
    reauthentication: Option<T>,
    /// Whoever drives the machine asks authenticators that may wait.
    asks_outside: bool,
    /// What it is to ask.
    question: Option<Box<Question>>,
    /// Its answer, until the step for which it is.
    answer: Option<Reply>,
    counters: MachineCounters,
}

impl<T> Machine<T> {
    /// A client that has never connected.
    pub fn new(mut options: Options) -> Machine<T> {
        let mut machine = Machine {
            client_id: options.client_id.clone(),
            session: Session::new(&options.client_id),
            phase: Phase::Offline,
            link: Link::default(),
            was_open: false,
            response_information: None,
            input: Vec::new(),
            output: Vec::new(),
            scratch: Vec::new(),
            tags: HashMap::new(),
            unmatched: HashSet::new(),
            queued_tags: VecDeque::new(),
            queued_at_most_once: 0,
            requests: VecDeque::new(),
            unsent: VecDeque::new(),
            inbound: Inbound::default(),
            store: options.store.take(),
            stored_client_id: None,
            last_sequence: 0,
            reauthentication: None,
            asks_outside: false,
            question: None,
            answer: None,
            counters: MachineCounters::default(),
            options,
        };
        machine.restore();
        machine
    }

    /// How the client was set up.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Takes the user name and the password of the connections to come.
    pub fn set_credentials(&mut self, credentials: Credentials) {
        self.options.user_name = credentials.user_name;
        self.options.password = credentials.password;
    }

    pub(crate) fn options_mut(&mut self) -> &mut Options {
        &mut self.options
    }

    pub(crate) fn store(&self) -> Option<StoreWatch> {
        self.store.as_ref().map(FileStore::watch)
    }

    /// What topics for responses should begin with, where the server has said so (section 4.10).
    pub(crate) fn response_information(&self) -> Option<&str> {
        self.response_information.as_deref()
    }

    /// The client identifier, also where the server has chosen it.
    pub fn client_id(&self) -> &str {
        &self.client_id
    }

    /// What the server said in CONNACK that it accepts; defaults before that.
    pub fn offer(&self) -> &Offer {
        &self.link.offer
    }

    /// What has been counted so far.
    pub fn counters(&self) -> MachineCounters {
        self.counters
    }

    /// Whether CONNACK has come and the connection is not about to end.
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Handles what has come from the server. What it asks for is in the output afterwards.
    ///
    /// # Errors
    /// The connection is over; the output may hold a last DISCONNECT for the server. Call [`Machine::lost`] next.
    pub fn receive(&mut self, bytes: &[u8], now_ms: u64, handler: &mut impl Handler<T>) -> Result<(), Error> {
        self.link.received(now_ms);
        self.counters.bytes_received += bytes.len() as u64;
        let mut input = std::mem::take(&mut self.input);
        if input.is_empty() {
            let used = self.receive_packets(bytes, now_ms, handler)?;
            input.extend_from_slice(&bytes[used..]);
        } else {
            input.extend_from_slice(bytes);
            let used = self.receive_packets(&input, now_ms, handler)?;
            input.drain(..used);
        }
        if input.is_empty() && input.capacity() > BUFFER_KEPT_BYTES {
            input = Vec::new();
        }
        self.input = input;
        Ok(())
    }

    /// Handles whole packets and says how many bytes they took.
    fn receive_packets(&mut self, bytes: &[u8], now_ms: u64, handler: &mut impl Handler<T>) -> Result<usize, Error> {
        let options =
            DecodeOptions { version: self.options.version, max_packet_size: self.options.maximum_packet_size_bytes };
        let mut at = 0;
        loop {
            match decode(&bytes[at..], &options) {
                Ok((packet, length)) => {
                    if self.asks_before(&packet) {
                        return Ok(at);
                    }
                    at += length;
                    self.on_packet(&packet, now_ms, handler)?;
                }
                Err(error) if error.is_incomplete() => return Ok(at),
                Err(error) => {
                    if let Some(refusal) = self.refusal_in_v3(&bytes[at..]) {
                        return Err(refusal);
                    }
                    // [MQTT-4.13.1-1]
                    let reason = DisconnectReason::try_from(error.reason);
                    self.leave(reason.unwrap_or(DisconnectReason::MalformedPacket));
                    return Err(Error::BadPacket(error));
                }
            }
        }
    }

    fn on_packet(&mut self, packet: &Packet<'_>, now_ms: u64, handler: &mut impl Handler<T>) -> Result<(), Error> {
        match (self.phase, packet) {
            // After our DISCONNECT nothing counts any more but why the server may have been first.
            (Phase::Offline | Phase::Closing, Packet::Disconnect(disconnect)) => Err(link::disconnected(disconnect)),
            (Phase::Offline | Phase::Closing, _) => Ok(()),
            (Phase::Connecting { .. }, Packet::ConnAck(connack)) => self.on_connack(connack, now_ms, handler),
            (Phase::Connecting { .. } | Phase::Open, Packet::Auth(auth)) => self.on_auth(auth, handler),
            (_, Packet::Disconnect(disconnect)) => Err(link::disconnected(disconnect)),
            (Phase::Connecting { .. }, _) => Err(self.breach("another packet before CONNACK")),
            (Phase::Open, packet) => self.on_open_packet(packet, now_ms, handler),
        }
    }

    fn on_open_packet(&mut self, packet: &Packet<'_>, now_ms: u64, handler: &mut impl Handler<T>) -> Result<(), Error> {
        match packet {
            Packet::Publish(publish) => self.on_publish(publish, handler),
            Packet::PubAck(ack) => self.on_puback(ack, now_ms, handler),
            Packet::PubRec(received) => self.on_pubrec(received, now_ms, handler),
            Packet::PubRel(release) => self.on_pubrel(release),
            Packet::PubComp(complete) => self.on_pubcomp(complete, now_ms, handler),
            Packet::SubAck(ack) => self.on_suback(ack, now_ms, handler),
            Packet::UnsubAck(ack) => self.on_unsuback(ack, now_ms, handler),
            Packet::PingResp => {
                self.link.ping_sent_ms = None;
                Ok(())
            }
            _ => Err(self.breach("a packet that a server does not send now")),
        }
    }

    /// What is to be sent; it is taken as sent now. Calling it makes room for messages that wait.
    ///
    /// `spare` becomes the next buffer, so that two take turns and nothing is allocated.
    pub fn take_output(&mut self, spare: Vec<u8>, now_ms: u64, handler: &mut impl Handler<T>) -> Vec<u8> {
        let mut output = std::mem::replace(&mut self.output, spare);
        self.output.clear();
        if self.output.capacity() > BUFFER_KEPT_BYTES.max(2 * self.options.limits.output_bytes) {
            self.output = Vec::new();
        }
        if output.is_empty() {
            // Nothing to say; messages may have become ready without anybody looking.
            self.pump(now_ms, handler);
            std::mem::swap(&mut output, &mut self.output);
        } else if !self.queued_tags.is_empty() {
            self.pump(now_ms, handler);
        }
        if !output.is_empty() {
            self.link.last_sent_ms = now_ms;
            self.counters.bytes_sent += output.len() as u64;
        }
        output
    }

    /// Whether [`Machine::take_output`] has something to give.
    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// When [`Machine::on_time`] is due, if ever.
    pub fn deadline_ms(&self) -> Option<u64> {
        self.link.deadline_ms(self.phase, self.ping_timeout_ms())
    }

    /// Sends a sign of life or gives the connection up, where it is time. `is_reading` says whether what the server sends
    /// is read at all: if not, its silence says nothing.
    ///
    /// # Errors
    /// The server has been silent for too long. Call [`Machine::lost`] next.
    pub fn on_time(&mut self, now_ms: u64, is_reading: bool) -> Result<(), Error> {
        match self.phase {
            Phase::Connecting { until_ms } if now_ms >= until_ms => {
                let address = self.options.server.authority().into();
                Err(Error::ConnectTimeout { address, awaited: "CONNACK" })
            }
            Phase::Open => {
                let timeout_ms = self.ping_timeout_ms();
                if !is_reading {
                    self.link.forgive_silence(now_ms);
                }
                if self.link.ping_sent_ms.is_some_and(|sent_ms| now_ms >= sent_ms.saturating_add(timeout_ms)) {
                    return Err(Error::KeepAliveTimeout);
                }
                if self.link.ping_is_due(now_ms) {
                    // [MQTT-3.1.2-20]
                    self.link.ping_sent_ms = Some(now_ms);
                    self.write(&Packet::PingReq);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The connection is gone. What must outlive it is kept.
    pub fn lost(&mut self) {
        self.phase = Phase::Offline;
        self.link = Link::default();
        self.input = Vec::new();
        self.output.clear();
        self.inbound.carry();
        // Unanswered requests are made again, before those that follow.
        while let Some((_, request)) = self.requests.pop_back() {
            self.unsent.push_front(request);
        }
    }

    /// Ends the connection cleanly: nothing is sent after this [MQTT-3.14.4-1].
    ///
    /// # Errors
    /// Properties that may not stand in DISCONNECT; nothing is sent then.
    pub fn disconnect(&mut self, reason: DisconnectReason, properties: Properties<'_>) -> Result<(), Error> {
        if self.phase != Phase::Open {
            return Ok(());
        }
        let disconnect = Disconnect { reason, properties };
        disconnect
            .append_to(self.options.version, &mut self.output)
            .map_err(|error| Error::Encode { packet: "DISCONNECT", error })?;
        self.phase = Phase::Closing;
        Ok(())
    }

    /// Whether nothing is under way that another moment of patience would complete: messages sent, requests, and QoS 2
    /// messages received and acknowledged.
    pub fn is_settled(&self) -> bool {
        self.queued_tags.is_empty()
            && self.tags.is_empty()
            && self.requests.is_empty()
            && self.unsent.is_empty()
            && self.session.held().map_or(0, |held| held.len()) <= self.inbound.unanswered_exactly_once()
    }

    /// Whether the client waits for an answer of the server, so that reading must go on whatever else is full.
    pub fn awaits_answer(&self) -> bool {
        !self.tags.is_empty()
            || !self.requests.is_empty()
            || self.reauthentication.is_some()
            || self.phase != Phase::Open
    }

    /// Takes out what will never be answered any more, because the client is closed.
    pub fn drain_tags(&mut self) -> Vec<T> {
        let mut tags: Vec<T> = self.tags.drain().filter_map(|(_, tracked)| tracked.tag).collect();
        tags.extend(self.queued_tags.drain(..).filter_map(|tracked| tracked.tag));
        tags.extend(self.requests.drain(..).filter_map(|(_, request)| request.tag));
        tags.extend(self.unsent.drain(..).filter_map(|request| request.tag));
        tags.extend(self.reauthentication.take());
        tags
    }

    fn version(&self) -> ProtocolVersion {
        self.options.version
    }

    fn ping_timeout_ms(&self) -> u64 {
        millis(self.options.ping_timeout)
    }

    /// Writes a packet that cannot fail to be written.
    fn write(&mut self, packet: &Packet<'_>) {
        let written = packet.append_to(self.options.version, &mut self.output);
        debug_assert!(written.is_ok(), "{written:?}");
    }

    /// Tells the server why the connection ends, as far as its version has words for it.
    fn leave(&mut self, reason: DisconnectReason) {
        if self.version().is_v5() && self.phase == Phase::Open {
            self.write(&Packet::Disconnect(Disconnect::new(reason)));
        }
        self.phase = Phase::Closing;
    }

    /// The server has broken a rule.
    fn breach(&mut self, what: &'static str) -> Error {
        self.leave(DisconnectReason::ProtocolError);
        Error::Protocol(what)
    }
}

pub(crate) fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn unwritable(packet: &'static str, error: EncodeError) -> Error {
    Error::Encode { packet, error }
}
