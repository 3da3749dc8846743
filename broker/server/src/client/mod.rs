//! A small MQTT client for `tautwire pub`, `sub` and `discover`.
//!
//! One thread owns the connection. It takes events with [`Client::poll`] until there are none, then sleeps in
//! [`Client::wait`]. It never connects again by itself: the end of the connection is the end of the client.

pub(crate) mod discovery;
mod error;
mod session;
mod wake;

use std::borrow::Cow;
use std::io::{self, Write as _};
use std::net::{Shutdown, TcpStream, ToSocketAddrs as _};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use tautwire_protocol::{
    ConnAck, Connect, DecodeOptions, Disconnect, DisconnectReason, Fault, List, MAX_PACKET_SIZE_BYTES, Packet,
    PacketId, Properties, Property, ProtocolVersion, QoS, ReasonCode, Subscribe, SubscribeReason, SubscriptionRequest,
    TopicFilter, TopicName, Unsubscribe, UnsubscribeReason, Will, decode,
};

pub(crate) use error::ClientError;
use session::{Offer, Session};
use wake::Wake;

/// Output gathered before it is written even though more may follow.
const OUTPUT_BATCH_BYTES: usize = 64 * 1024;
/// Time a write may take no byte before the connection counts as lost.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// Time given at the end to finish QoS 2 handshakes, and then to the broker to close.
const FAREWELL: Duration = Duration::from_secs(2);
/// The shortest packet.
const PACKET_MIN_BYTES: usize = 2;

/// How to connect. Properties count for MQTT 5.0.
#[derive(Debug, Clone)]
pub(crate) struct ConnectOptions {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) version: ProtocolVersion,
    pub(crate) client_id: String,
    pub(crate) user_name: Option<String>,
    pub(crate) password: Option<Vec<u8>>,
    /// 0 turns keep alive off.
    pub(crate) keep_alive_s: u16,
    pub(crate) clean_start: bool,
    pub(crate) will: Option<WillMessage>,
    pub(crate) properties: Vec<Property<'static>>,
    pub(crate) disconnect_properties: Vec<Property<'static>>,
    /// For the TCP connection to each address, and for CONNACK.
    pub(crate) timeout: Duration,
    /// QoS 1 and 2 messages sent and not acknowledged at once; the broker's Receive Maximum counts where it is lower.
    pub(crate) max_in_flight: u16,
}

/// The message that the broker publishes if this client goes without a word.
#[derive(Debug, Clone)]
pub(crate) struct WillMessage {
    pub(crate) topic: TopicName<'static>,
    pub(crate) payload: Vec<u8>,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) properties: Vec<Property<'static>>,
}

/// A message to publish.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutgoingMessage<'a> {
    /// `None` where a topic alias among the properties stands for it.
    pub(crate) topic: Option<TopicName<'a>>,
    pub(crate) payload: &'a [u8],
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) properties: &'a [Property<'a>],
}

/// A message received. It is acknowledged when the client is used next.
#[derive(Debug, Clone)]
pub(crate) struct Message<'a> {
    pub(crate) topic: Cow<'a, str>,
    pub(crate) payload: &'a [u8],
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) packet_id: Option<PacketId>,
    pub(crate) properties: Properties<'a>,
}

/// What the broker sent, as far as it concerns the caller. Texts are the broker's reason strings.
#[derive(Debug)]
pub(crate) enum Event<'a> {
    Message(Message<'a>),
    /// A message of QoS 1 or 2 is acknowledged in full, or refused.
    Published {
        packet_id: PacketId,
        reason: ReasonCode,
        text: Option<&'a str>,
    },
    /// The answer to SUBSCRIBE, a reason for each filter.
    Subscribed {
        reasons: List<'a, SubscribeReason>,
        text: Option<&'a str>,
    },
    /// The answer to UNSUBSCRIBE, a reason for each filter; none before MQTT 5.0.
    Unsubscribed {
        reasons: List<'a, UnsubscribeReason>,
        text: Option<&'a str>,
    },
}

/// What ended a [`Client::wait`].
#[derive(Debug)]
pub(crate) enum Woken {
    /// The broker sent something.
    Network,
    /// SIGINT or SIGTERM.
    Interrupted,
    Deadline,
    /// The line that was asked for with [`Client::request_line`], without its end.
    Line(Vec<u8>),
    InputEnded,
    InputFailed(io::Error),
}

/// A connection to a broker.
pub(crate) struct Client {
    stream: TcpStream,
    wakes: Receiver<Wake>,
    waker: SyncSender<Wake>,
    line_asker: Option<SyncSender<()>>,
    input: Input,
    session: Session,
    /// What the broker answered to CONNECT.
    welcome: Welcome,
    keep_alive: Option<Duration>,
    last_sent: Instant,
    max_in_flight: usize,
    disconnect_properties: Vec<Property<'static>>,
}

/// What CONNACK said that a person may want to know.
#[derive(Debug, Clone)]
pub(crate) struct Welcome {
    pub(crate) client_id: String,
    pub(crate) session_present: bool,
}

impl Client {
    /// Connects and waits for CONNACK.
    ///
    /// # Errors
    /// No connection, no answer in time, or a refusal.
    pub(crate) fn connect(options: ConnectOptions) -> Result<Self, ClientError> {
        let address = format!("{}:{}", options.host, options.port);
        let unreachable = |error| ClientError::Unreachable { address: address.clone(), error };
        let stream = open(&options).map_err(unreachable)?;
        let (waker, wakes) = sync_channel(wake::WAKES_MAX);
        wake::watch_signals(waker.clone()).map_err(unreachable)?;
        stream
            .set_nodelay(true)
            .and_then(|()| stream.set_write_timeout(Some(WRITE_TIMEOUT)))
            .and_then(|()| stream.try_clone())
            .and_then(|reader| wake::watch_network(reader, waker.clone()))
            .map_err(unreachable)?;

        let properties = Properties::from_list(&options.properties);
        let maximum_packet_size = properties.maximum_packet_size().map_or(MAX_PACKET_SIZE_BYTES, |size| size.get());
        let no_offer = Offer::from_connack(
            &ConnAck {
                session_present: false,
                reason: tautwire_protocol::ConnectReason::Success,
                properties: Properties::EMPTY,
            },
            options.version,
        );
        let mut client = Self {
            stream,
            wakes,
            waker,
            line_asker: None,
            input: Input::new(DecodeOptions { version: options.version, max_packet_size: maximum_packet_size }),
            session: Session::new(options.version, no_offer),
            welcome: Welcome { client_id: options.client_id.clone(), session_present: false },
            keep_alive: None,
            last_sent: Instant::now(),
            max_in_flight: options.max_in_flight.into(),
            disconnect_properties: Vec::new(),
        };
        client.session.push("CONNECT", &Packet::Connect(connect_packet(&options)))?;
        client.await_connack(options.timeout, options.keep_alive_s)?;
        client.disconnect_properties = options.disconnect_properties;
        Ok(client)
    }

    pub(crate) fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// Sends SUBSCRIBE. The answer is [`Event::Subscribed`].
    pub(crate) fn subscribe(
        &mut self,
        requests: &[SubscriptionRequest<'_>],
        properties: &[Property<'_>],
    ) -> Result<(), ClientError> {
        let packet_id = self.session.request_id()?;
        let subscribe =
            Subscribe { packet_id, properties: Properties::from_list(properties), requests: List::from(requests) };
        self.session.push("SUBSCRIBE", &Packet::Subscribe(subscribe))
    }

    /// Sends UNSUBSCRIBE. The answer is [`Event::Unsubscribed`].
    pub(crate) fn unsubscribe(
        &mut self,
        filters: &[TopicFilter<'_>],
        properties: &[Property<'_>],
    ) -> Result<(), ClientError> {
        let packet_id = self.session.request_id()?;
        let unsubscribe =
            Unsubscribe { packet_id, properties: Properties::from_list(properties), filters: List::from(filters) };
        self.session.push("UNSUBSCRIBE", &Packet::Unsubscribe(unsubscribe))
    }

    /// Sends PUBLISH; QoS 1 and 2 give the identifier that [`Event::Published`] will name.
    /// The caller asks [`Client::can_publish`] before.
    pub(crate) fn publish(&mut self, message: &OutgoingMessage<'_>) -> Result<Option<PacketId>, ClientError> {
        let packet_id = self.session.publish(message)?;
        if self.session.output.len() >= OUTPUT_BATCH_BYTES {
            self.flush()?;
        }
        Ok(packet_id)
    }

    /// Whether the broker takes another QoS 1 or 2 message now `[MQTT-3.3.4-7]`.
    pub(crate) fn can_publish(&self) -> bool {
        self.session.in_flight() < self.max_in_flight.min(self.session.offer.receive_maximum.into())
    }

    /// Messages of QoS 1 and 2 not yet acknowledged in full.
    pub(crate) fn in_flight(&self) -> usize {
        self.session.in_flight()
    }

    /// Asks for the next line of standard input, once; it comes as [`Woken::Line`].
    pub(crate) fn request_line(&mut self) -> io::Result<()> {
        let asker = match self.line_asker.take() {
            Some(asker) => asker,
            None => wake::watch_input(self.waker.clone())?,
        };
        // The thread is gone only after it said that the input has ended.
        let _ = asker.send(());
        self.line_asker = Some(asker);
        Ok(())
    }

    /// The next event among what has arrived.
    ///
    /// # Errors
    /// A bad packet, or the broker's DISCONNECT.
    pub(crate) fn poll(&mut self) -> Result<Option<Event<'_>>, ClientError> {
        self.session.acknowledge_handed_over()?;
        while let Some((packet, end)) = self.input.peek()? {
            // Only numbers change here: an event may borrow from the bytes.
            self.input.start.set(end);
            if let Some(event) = self.session.take(packet)? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// Writes what is to be sent, then sleeps until something comes or the deadline passes. Keeps the connection alive.
    ///
    /// # Errors
    /// The connection is lost.
    pub(crate) fn wait(&mut self, deadline: Option<Instant>) -> Result<Woken, ClientError> {
        self.session.acknowledge_handed_over()?;
        self.flush()?;
        loop {
            let ping_at = self.keep_alive.map(|keep_alive| self.last_sent + keep_alive);
            let wake = match [deadline, ping_at].into_iter().flatten().min() {
                Some(until) => self.wakes.recv_timeout(until.saturating_duration_since(Instant::now())),
                None => self.wakes.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match wake {
                Ok(Wake::Bytes(bytes)) => {
                    self.input.push(&bytes);
                    return Ok(Woken::Network);
                }
                Ok(Wake::Closed(error)) => return Err(closed(error)),
                Ok(Wake::Interrupted) => return Ok(Woken::Interrupted),
                Ok(Wake::Line(line)) => return Ok(Woken::Line(line)),
                Ok(Wake::InputEnded) => return Ok(Woken::InputEnded),
                Ok(Wake::InputFailed(error)) => return Ok(Woken::InputFailed(error)),
                Err(RecvTimeoutError::Timeout) => {
                    if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                        return Ok(Woken::Deadline);
                    }
                    self.ping()?;
                }
                Err(RecvTimeoutError::Disconnected) => return Err(closed(None)),
            }
        }
    }

    /// Ends the connection cleanly: what is owed is sent, DISCONNECT after it, and the broker closes.
    ///
    /// # Errors
    /// The connection was lost before, or the broker ended it with a reason.
    pub(crate) fn disconnect(mut self) -> Result<(), ClientError> {
        self.session.acknowledge_handed_over()?;
        self.session.closing = true;
        // A QoS 2 message handed over but not released would come again in the next connection of the session.
        let deadline = Instant::now() + FAREWELL;
        while self.session.owes_pubcomp() {
            while self.poll()?.is_some() {}
            if self.session.owes_pubcomp() && matches!(self.wait(Some(deadline))?, Woken::Deadline) {
                break;
            }
        }
        let properties = std::mem::take(&mut self.disconnect_properties);
        let disconnect = Disconnect {
            reason: DisconnectReason::NormalDisconnection,
            properties: Properties::from_list(&properties),
        };
        self.session.push("DISCONNECT", &Packet::Disconnect(disconnect))?;
        self.flush()?;
        // Closing with unread bytes would reset the connection, and the broker might lose what we sent last.
        // Waiting also brings a DISCONNECT in which the broker refuses a QoS 0 message.
        let _ = self.stream.shutdown(Shutdown::Write);
        self.keep_alive = None;
        let deadline = Instant::now() + FAREWELL;
        loop {
            self.input.drop_taken();
            match self.input.peek()? {
                Some((Packet::Disconnect(disconnect), _)) => {
                    let _ = self.session.take(Packet::Disconnect(disconnect))?;
                }
                Some((_, end)) => {
                    self.input.start.set(end);
                    continue;
                }
                None => {}
            }
            match self.wakes.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Wake::Bytes(bytes)) => self.input.push(&bytes),
                Ok(Wake::Closed(_)) | Err(_) => return Ok(()),
                Ok(_) => {}
            }
        }
    }

    fn await_connack(&mut self, timeout: Duration, keep_alive_s: u16) -> Result<(), ClientError> {
        let deadline = Instant::now() + timeout;
        let connack = loop {
            // Not `poll`: a refusal ends here, whatever follows it.
            if let Some((packet, end)) = self.input.peek()? {
                self.input.start.set(end);
                match packet {
                    Packet::ConnAck(connack) => break connack,
                    other => {
                        let _ = self.session.take(other)?;
                        return Err(ClientError::Lost("the broker sent another packet before CONNACK".into()));
                    }
                }
            }
            match self.wait(Some(deadline))? {
                Woken::Deadline => {
                    return Err(ClientError::Timeout { what: "CONNACK", waited: timeout });
                }
                Woken::Interrupted => {
                    return Err(ClientError::Lost("interrupted before CONNACK came".into()));
                }
                _ => {}
            }
        };
        let properties = connack.properties;
        if connack.reason.is_error() {
            return Err(ClientError::Refused {
                what: "the connection".into(),
                reason: connack.reason.into(),
                text: properties.reason_string().map(str::to_owned),
            });
        }
        let keep_alive_s = properties.server_keep_alive().unwrap_or(keep_alive_s);
        self.keep_alive = (keep_alive_s > 0).then(|| Duration::from_secs(keep_alive_s.into()));
        if let Some(assigned) = properties.assigned_client_identifier() {
            self.welcome.client_id = assigned.to_owned();
        }
        self.welcome.session_present = connack.session_present;
        self.session.offer = Offer::from_connack(&connack, self.session.version);
        Ok(())
    }

    /// A PINGREQ for each keep alive interval without another packet `[MQTT-3.1.2-20]`; it has as long for its answer.
    fn ping(&mut self) -> Result<(), ClientError> {
        if std::mem::replace(&mut self.session.ping_outstanding, true) {
            return Err(ClientError::Timeout { what: "PINGRESP", waited: self.keep_alive.unwrap_or_default() });
        }
        self.session.push("PINGREQ", &Packet::PingReq)?;
        self.flush()
    }

    fn flush(&mut self) -> Result<(), ClientError> {
        if self.session.output.is_empty() {
            return Ok(());
        }
        let written = self.stream.write_all(&self.session.output);
        self.session.output.clear();
        self.last_sent = Instant::now();
        written.map_err(|error| self.write_failure(error))
    }

    /// A broker that ends a connection says why before it closes: the reason tells more than the failed write.
    fn write_failure(&mut self, error: io::Error) -> ClientError {
        let deadline = Instant::now() + FAREWELL;
        loop {
            loop {
                match self.input.peek() {
                    Ok(Some((packet @ Packet::Disconnect(_), _))) => {
                        if let Err(reason) = self.session.take(packet) {
                            return reason;
                        }
                        break;
                    }
                    Ok(Some((_, end))) => self.input.start.set(end),
                    Ok(None) => break,
                    Err(bad) => return bad,
                }
            }
            match self.wakes.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Wake::Bytes(bytes)) => self.input.push(&bytes),
                Ok(Wake::Closed(_)) | Err(_) => {
                    return ClientError::Lost(format!("writing to the broker failed: {error}"));
                }
                Ok(_) => {}
            }
        }
    }
}

/// Bytes of the broker that are not yet dealt with.
struct Input {
    options: DecodeOptions,
    bytes: Vec<u8>,
    /// Where the next packet starts. A cell, so that it can move while an event borrows the bytes.
    start: std::cell::Cell<usize>,
    /// Bytes from `start` below which another attempt to decode is not worth it.
    needed: std::cell::Cell<usize>,
}

impl Input {
    fn new(options: DecodeOptions) -> Self {
        Self { options, bytes: Vec::new(), start: 0.into(), needed: PACKET_MIN_BYTES.into() }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.drop_taken();
        self.bytes.extend_from_slice(bytes);
    }

    fn drop_taken(&mut self) {
        self.bytes.drain(..self.start.replace(0));
    }

    /// The next packet and where it ends, if it has arrived whole.
    fn peek(&self) -> Result<Option<(Packet<'_>, usize)>, ClientError> {
        let bytes = &self.bytes[self.start.get()..];
        if bytes.len() < self.needed.get() {
            return Ok(None);
        }
        match decode(bytes, &self.options) {
            Ok((packet, consumed)) => {
                self.needed.set(PACKET_MIN_BYTES);
                Ok(Some((packet, self.start.get() + consumed)))
            }
            Err(error) => match error.fault {
                Fault::Incomplete { needed } => {
                    self.needed.set(needed);
                    Ok(None)
                }
                Fault::Malformed | Fault::ProtocolError | Fault::OverLimit => Err(ClientError::BadPacket { error }),
            },
        }
    }
}

fn open(options: &ConnectOptions) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
    for address in (options.host.as_str(), options.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, options.timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn connect_packet(options: &ConnectOptions) -> Connect<'_> {
    Connect {
        version: options.version,
        clean_start: options.clean_start,
        keep_alive_s: options.keep_alive_s,
        client_id: &options.client_id,
        will: options.will.as_ref().map(|will| Will {
            topic: will.topic,
            payload: &will.payload,
            qos: will.qos,
            retain: will.retain,
            properties: Properties::from_list(&will.properties),
        }),
        user_name: options.user_name.as_deref(),
        password: options.password.as_deref(),
        properties: Properties::from_list(&options.properties),
    }
}

fn closed(error: Option<io::Error>) -> ClientError {
    ClientError::Lost(match error {
        Some(error) => error.to_string(),
        None => "the broker closed it".to_owned(),
    })
}
