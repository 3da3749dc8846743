//! The protocol without I/O: bytes in, bytes out, the time as an argument.
//!
//! A [`Machine`] exists as long as the client, over many connections. Its session is that of the broker
//! ([`tautwire_session::Session`]): messages flow in the same way in both directions, so both use the same packet
//! identifier window, queue, resending and set of received QoS 2 identifiers.
//!
//! The driver connects, calls [`Machine::opened`], then [`Machine::receive`] with received bytes and
//! [`Machine::take_output`] for bytes to send, [`Machine::on_time`] at [`Machine::deadline_ms`], and [`Machine::lost`]
//! when the connection has ended. Times are milliseconds of any monotonic clock.

mod auth_call;
mod authentication;
mod durable;
mod events;
mod handshake;
mod inbound;
mod incoming;
mod link;
mod outgoing;
mod publish_packet;
mod request;
mod requests;
mod tracked_message;

use std::collections::VecDeque;

use hashbrown::{HashMap, HashSet};
use tautwire_protocol::{
    DecodeOptions, Disconnect, DisconnectReason, Packet, PacketId, Properties, ProtocolVersion, decode,
};
use tautwire_session::Session;

use crate::duration::millis;
use crate::store::StoreWatch;
use crate::{Credentials, Error, FileStore, Options};
use auth_call::Reply;
use inbound::Inbound;
use link::{Link, Phase};
use request::Request;
use tracked_message::TrackedMessage;

pub(crate) use auth_call::AuthCall;
pub use events::{Acceptance, AckToken, Answer, Event, Handler, Incoming, MachineCounters, Published};
pub use link::Offer;
pub(crate) use request::FilterRequest;

/// The capacity above which an emptied buffer is freed.
const BUFFER_KEPT_BYTES: usize = 256 << 10;

/// The client side of MQTT, see the [module](self). `T` is the caller's tag for a message or request, returned with its
/// result.
pub struct Machine<T> {
    options: Options,
    client_id: String,
    session: Session,
    phase: Phase,
    link: Link,
    /// A connection of this client has been accepted before.
    was_open: bool,
    /// The Response Information of the current connection.
    response_information: Option<Box<str>>,
    input: Vec<u8>,
    output: Vec<u8>,
    scratch: Vec<u8>,
    /// The messages in the session's window.
    tags: HashMap<PacketId, TrackedMessage<T>>,
    /// QoS 2 messages in the window whose PUBREC said No Matching Subscribers.
    unmatched: HashSet<PacketId>,
    /// The messages in the session's queue, in its order.
    queued_tags: VecDeque<TrackedMessage<T>>,
    /// QoS 0 messages in the session's queue.
    queued_at_most_once: usize,
    /// SUBSCRIBE and UNSUBSCRIBE packets without an answer.
    requests: VecDeque<(PacketId, Request<T>)>,
    /// Requests that have not been sent.
    unsent: VecDeque<Request<T>>,
    inbound: Inbound,
    store: Option<FileStore>,
    /// The client identifier of the session in the store.
    stored_client_id: Option<String>,
    /// The last sequence number in the store.
    last_sequence: u64,
    /// The tag of the current re-authentication.
    reauthentication: Option<T>,
    /// The driver calls authenticators that may wait.
    asks_outside: bool,
    /// The authenticator call that the driver has to make.
    auth_call: Option<Box<AuthCall>>,
    /// Its result, until the step that needs it.
    answer: Option<Reply>,
    counters: MachineCounters,
}

impl<T> Machine<T> {
    /// Creates a client that has never connected.
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
            auth_call: None,
            answer: None,
            counters: MachineCounters::default(),
            options,
        };
        machine.restore();
        machine
    }

    /// The options of the client.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Sets the user name and password of later connections.
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

    /// The prefix for response topics, if the server has sent one (section 4.10).
    pub(crate) fn response_information(&self) -> Option<&str> {
        self.response_information.as_deref()
    }

    /// The client identifier, also if the server has assigned it.
    pub fn client_id(&self) -> &str {
        &self.client_id
    }

    /// What the server supports according to its CONNACK; defaults before that.
    pub fn offer(&self) -> &Offer {
        &self.link.offer
    }

    /// The counters of the machine.
    pub fn counters(&self) -> MachineCounters {
        self.counters
    }

    /// Whether CONNACK has arrived and the connection is not closing.
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Handles bytes from the server. Replies are in the output afterwards.
    ///
    /// # Errors
    /// The connection has ended; the output may hold a final DISCONNECT for the server. Call [`Machine::lost`] next.
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

    /// Handles complete packets and returns how many bytes they took.
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
            // After our DISCONNECT, only a DISCONNECT of the server matters: it may have been first.
            (Phase::Offline | Phase::Closing, Packet::Disconnect(disconnect)) => Err(link::disconnected(disconnect)),
            (Phase::Offline | Phase::Closing, _) => Ok(()),
            (Phase::Connecting { .. }, Packet::ConnAck(connack)) => self.on_connack(connack, now_ms, handler),
            (Phase::Connecting { .. } | Phase::Open, Packet::Auth(auth)) => self.on_auth(auth, handler),
            (_, Packet::Disconnect(disconnect)) => Err(link::disconnected(disconnect)),
            (Phase::Connecting { .. }, _) => Err(self.breach("a packet before CONNACK")),
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
            _ => Err(self.breach("unexpected packet")),
        }
    }

    /// Takes the bytes to send; they count as sent now. Queued messages then get room.
    ///
    /// `spare` becomes the next buffer, so that two buffers alternate and nothing is allocated.
    pub fn take_output(&mut self, spare: Vec<u8>, now_ms: u64, handler: &mut impl Handler<T>) -> Vec<u8> {
        let mut output = std::mem::replace(&mut self.output, spare);
        self.output.clear();
        if self.output.capacity() > BUFFER_KEPT_BYTES.max(2 * self.options.limits.output_bytes) {
            self.output = Vec::new();
        }
        if output.is_empty() {
            // Nothing to send; queued messages may have become ready unnoticed.
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

    /// Whether [`Machine::take_output`] would return bytes.
    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// When [`Machine::on_time`] is due, if ever.
    pub fn deadline_ms(&self) -> Option<u64> {
        self.link.deadline_ms(self.phase, self.ping_timeout_ms())
    }

    /// Sends a PINGREQ or gives up the connection when it is time. `is_reading` says whether the socket is read: if not,
    /// silence of the server means nothing.
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

    /// The connection has ended. The session is kept.
    pub fn lost(&mut self) {
        self.phase = Phase::Offline;
        self.link = Link::default();
        self.input = Vec::new();
        self.output.clear();
        self.inbound.carry();
        // Unanswered requests are sent again, before later ones.
        while let Some((_, request)) = self.requests.pop_back() {
            self.unsent.push_front(request);
        }
    }

    /// Ends the connection cleanly: nothing is sent afterwards [MQTT-3.14.4-1].
    ///
    /// # Errors
    /// A property is not allowed in DISCONNECT; nothing is sent then.
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

    /// Whether no exchange is open: no sent messages, requests, or received and acknowledged QoS 2 messages.
    pub fn is_settled(&self) -> bool {
        self.queued_tags.is_empty()
            && self.tags.is_empty()
            && self.requests.is_empty()
            && self.unsent.is_empty()
            && self.session.held().map_or(0, |held| held.len()) <= self.inbound.unanswered_exactly_once()
    }

    /// Whether an answer of the server is pending, so that reading must continue even if other buffers are full.
    pub fn awaits_answer(&self) -> bool {
        !self.tags.is_empty()
            || !self.requests.is_empty()
            || self.reauthentication.is_some()
            || self.phase != Phase::Open
    }

    /// Removes the tags that will never be resolved because the client is closed.
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

    /// Writes a packet that can always be encoded.
    fn write(&mut self, packet: &Packet<'_>) {
        let written = packet.append_to(self.options.version, &mut self.output);
        debug_assert!(written.is_ok(), "{written:?}");
    }

    /// Sends DISCONNECT with the reason, if this version of MQTT has one.
    fn leave(&mut self, reason: DisconnectReason) {
        if self.version().is_v5() && self.phase == Phase::Open {
            self.write(&Packet::Disconnect(Disconnect::new(reason)));
        }
        self.phase = Phase::Closing;
    }

    /// The error for a protocol violation of the server.
    fn breach(&mut self, what: &'static str) -> Error {
        self.leave(DisconnectReason::ProtocolError);
        Error::Protocol(what)
    }
}
