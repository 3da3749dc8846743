//! Opens sessions, a few concurrently, and takes each through the same steps.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;

use super::context::Context;
use super::parameters::plain_payload;
use crate::failure::{Failure, Result};
use crate::measure::Account;
use crate::mqtt::{self, Frame, Incoming, PacketId, PayloadStamp, Publishes, QoS, SMALLEST_PAYLOAD_BYTES};
use crate::net::{Connection, Poller, ReadBuffer, begin_connecting_from};

const STALL_TIMEOUT: Duration = Duration::from_secs(20);

/// The number of loopback source addresses: closed connections occupy their local port for a minute, and an address has about
/// 28,000 of them.
const SOURCE_ADDRESSES: u64 = 200;

/// The steps of each session after CONNECT.
#[derive(Debug, Clone, Copy)]
pub(super) struct Steps {
    /// Subscribe, by default at QoS 0.
    pub subscribe: Option<Topic>,
    /// Publish to that topic and wait for the message.
    pub publish: bool,
    /// Send DISCONNECT and close; otherwise the connection stays.
    pub disconnect: bool,
    pub keep_alive_s: u16,
    /// The prefix of client identifiers.
    pub client_ids: &'static str,
}

/// The topics that sessions subscribe to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Topic {
    /// Each to a unique topic.
    Own,
    /// The same at QoS 1, in a session that outlives the connection.
    OwnPersistent,
    Shared(&'static str),
}

pub(super) struct SessionMill<'a> {
    context: &'a Context<'a>,
    steps: Steps,
    tls: Option<Arc<ClientConfig>>,
    /// The addresses, which sessions use in turn.
    addresses: Vec<SocketAddr>,
    poller: Poller,
    buffer: ReadBuffer,
    /// By token. A session that disconnects frees its slot for the next.
    sessions: Vec<Option<Session>>,
    disconnect: Vec<u8>,
    pub started: u64,
    pub finished: u64,
    /// How many of them resumed an earlier TLS session.
    pub resumed: u64,
    account: Account,
}

struct Session {
    connection: Connection,
    number: u64,
    /// The CONNECT waits for the TCP handshake.
    is_connecting: bool,
    awaits: AwaitedPacket,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AwaitedPacket {
    ConnAck,
    SubAck,
    OwnMessage,
    /// All steps are done; the connection stays.
    Nothing,
}

impl<'a> SessionMill<'a> {
    pub(super) fn new(context: &'a Context<'a>, steps: Steps) -> Result<Self> {
        Ok(Self {
            context,
            steps,
            tls: context.broker.tls.clone(),
            addresses: vec![context.broker.address],
            poller: Poller::new()?,
            buffer: ReadBuffer::new(),
            sessions: Vec::new(),
            disconnect: mqtt::disconnect(context.version)?,
            started: 0,
            finished: 0,
            resumed: 0,
            account: Account::default(),
        })
    }

    /// Overrides the default way to connect to this broker.
    pub(super) fn connecting_by(self, tls: Arc<ClientConfig>) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// Runs with `parallel` concurrent sessions until `total` have been started since the mill was created, and
    /// finishes them. Returns the time.
    pub(super) fn run(&mut self, parallel: u64, total: u64) -> Result<Duration> {
        let begun = Instant::now();
        let mut last_progress = begun;
        let mut free_tokens: Vec<usize> = Vec::new();
        loop {
            let now = Instant::now();
            while self.started - self.finished < parallel && self.started < total {
                let token = free_tokens.pop().unwrap_or(self.sessions.len());
                self.start_session(token)?;
            }
            if self.started == self.finished {
                return Ok(begun.elapsed());
            }
            self.poller.wait(Some(Duration::from_millis(100)))?;
            for index in 0..self.poller.ready_count() {
                let token = self.poller.ready(index).token;
                if self.advance(token)? {
                    free_tokens.push(token);
                }
            }
            if self.poller.ready_count() > 0 {
                last_progress = now;
            } else if now.duration_since(last_progress) > STALL_TIMEOUT {
                return Err(Failure::new(format!(
                    "{} sessions were started, {} finished, then there was no progress for {} s",
                    self.started,
                    self.finished,
                    STALL_TIMEOUT.as_secs()
                )));
            }
        }
    }

    /// Fails if the broker has closed a connection or sent anything since.
    pub(super) fn expect_silence(&mut self) -> Result<()> {
        self.poller.wait(Some(Duration::ZERO))?;
        for index in 0..self.poller.ready_count() {
            self.advance(self.poller.ready(index).token)?;
        }
        Ok(())
    }

    /// The connections that stay, in the order of their start.
    pub(super) fn into_connections(self) -> Vec<Connection> {
        self.sessions.into_iter().flatten().map(|session| session.connection).collect()
    }

    /// One expected delivery for each session that publishes.
    pub(super) fn account(&self) -> Account {
        let mut account = self.account;
        account.lost = account.expected.saturating_sub(account.delivered);
        account
    }

    fn start_session(&mut self, token: usize) -> Result<()> {
        let number = self.started;
        let address = self.addresses[number as usize % self.addresses.len()];
        let stream = begin_connecting_from(Some(source_address(number)), address)?;
        let mut connection = Connection::begin(stream, self.tls.as_ref())?;
        self.poller.add(connection.stream(), token)?;
        let id = format!("{}-{number}", self.steps.client_ids);
        let lasts = matches!(self.steps.subscribe, Some(Topic::OwnPersistent));
        let connect = if lasts { mqtt::connect_persistent } else { mqtt::connect };
        connection.send(&connect(self.context.version, &id, self.steps.keep_alive_s)?)?;
        // Usually the handshake is complete by now, and nothing is left unsent.
        let is_connecting = connection.has_unsent();
        if is_connecting {
            self.poller.set_writable_interest(connection.stream(), token, true)?;
        }
        let session = Some(Session { connection, number, is_connecting, awaits: AwaitedPacket::ConnAck });
        match self.sessions.get_mut(token) {
            Some(place) => *place = session,
            None => self.sessions.push(session),
        }
        self.started += 1;
        Ok(())
    }

    /// Reads for one session and performs the due steps. Returns true if it has disconnected.
    fn advance(&mut self, token: usize) -> Result<bool> {
        let Some(session) = self.sessions[token].as_mut() else {
            return Ok(false);
        };
        if session.is_connecting {
            session.connection.flush()?;
            session.is_connecting = session.connection.has_unsent();
            if !session.is_connecting {
                self.poller.set_writable_interest(session.connection.stream(), token, false)?;
            }
            return Ok(false);
        }
        let (context, steps, account) = (self.context, self.steps, &mut self.account);
        let number = session.number;
        let mut awaits = session.awaits;
        let mut output = Vec::new();
        session.connection.read_frames(&mut self.buffer, |frame| {
            awaits = next_step(context, steps, number, awaits, frame, account, &mut output)?;
            Ok(())
        })?;
        session.connection.send(&output)?;
        if awaits != AwaitedPacket::Nothing || session.awaits == AwaitedPacket::Nothing {
            session.awaits = awaits;
            return Ok(false);
        }
        session.awaits = awaits;
        self.finished += 1;
        self.resumed += u64::from(session.connection.is_resumed());
        if steps.disconnect {
            session.connection.send(&self.disconnect)?;
            self.sessions[token] = None;
        }
        Ok(steps.disconnect)
    }
}

/// The topic of session `number` if each has a unique topic.
pub(super) fn own_topic(number: u64) -> String {
    format!("bench/{number}/own")
}

pub(super) fn source_address(number: u64) -> Ipv4Addr {
    let [_, _, high, low] = (u32::from(Ipv4Addr::LOCALHOST) + 1 + (number % SOURCE_ADDRESSES) as u32).to_be_bytes();
    Ipv4Addr::new(127, 0, high, low)
}

/// The packet that the session awaits after `frame`; its next packet goes to `output`.
fn next_step(
    context: &Context<'_>,
    steps: Steps,
    number: u64,
    awaits: AwaitedPacket,
    frame: Frame<'_>,
    account: &mut Account,
    output: &mut Vec<u8>,
) -> Result<AwaitedPacket> {
    let incoming = frame.read(context.version.is_v5())?;
    let topic = || match steps.subscribe {
        Some(Topic::Shared(topic)) => topic.to_owned(),
        Some(Topic::Own | Topic::OwnPersistent) | None => own_topic(number),
    };
    match (awaits, incoming) {
        (AwaitedPacket::ConnAck, Incoming::ConnAck { refusal: 0, .. }) => {
            if steps.subscribe.is_none() {
                return Ok(AwaitedPacket::Nothing);
            }
            let id = PacketId::new(1).ok_or_else(|| Failure::new("packet id 0"))?;
            let lasts = matches!(steps.subscribe, Some(Topic::OwnPersistent));
            let qos = if lasts { QoS::AtLeastOnce } else { QoS::AtMostOnce };
            output.extend_from_slice(&mqtt::subscribe(context.version, id, [topic().as_str()], qos)?);
            Ok(AwaitedPacket::SubAck)
        }
        (AwaitedPacket::SubAck, Incoming::SubAck { refused: false, .. }) => {
            if !steps.publish {
                return Ok(AwaitedPacket::Nothing);
            }
            let topic = topic();
            let form = plain_payload(SMALLEST_PAYLOAD_BYTES)?;
            let mut publish = Publishes::encode(context.version, QoS::AtMostOnce, &form, [topic.as_str()])?;
            publish.stamp(0, PayloadStamp { seq: number, publisher: 0, run: context.run }, None);
            output.extend_from_slice(publish.bytes(0..1));
            account.published += 1;
            account.expected += 1;
            Ok(AwaitedPacket::OwnMessage)
        }
        (AwaitedPacket::OwnMessage, Incoming::Publish { qos, payload, .. }) => {
            let stamp = plain_payload(SMALLEST_PAYLOAD_BYTES)?.read(payload, context.run);
            let is_own = stamp.is_some_and(|stamp| stamp.seq == number);
            account.delivered += u64::from(is_own);
            account.corrupted += u64::from(!is_own);
            account.violations += u64::from(qos != 0);
            Ok(if is_own { AwaitedPacket::Nothing } else { awaits })
        }
        (_, incoming) => Err(Failure::new(format!("session {number} awaited {awaits:?} and got {incoming:?}"))),
    }
}
