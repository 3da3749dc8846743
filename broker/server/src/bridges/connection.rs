//! Moves bytes between a link and the sockets of both brokers.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};
use tautwire_bridge::{Link, LinkCounters, LinkError, LinkState, Side};
use tautwire_client::transport::{self, Layers};
use tautwire_client::{Error as ClientError, Options};
use tautwire_reactor::Control;

use super::election::Election;
use super::local::LocalListener;
use super::plan::{BridgePlan, StartMode};
use super::report::Report;
use super::socket::{READ_BYTES, ReadResult, Socket};
use super::status::{BridgeState, Command, Shared};
use crate::time::since_epoch;

pub(super) const WAKER: Token = Token(0);
const REMOTE: Token = Token(1);
const LOCAL: Token = Token(2);

/// Reads and writes before the clock is looked at again.
const ROUNDS: usize = 64;
/// Time for the other broker to take what is left when the bridge ends.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// How often the counters are published.
const STATUS_INTERVAL: Duration = Duration::from_millis(500);

/// Why a connection has ended.
#[derive(Debug)]
pub(super) enum End {
    /// It was to stop or to pause, is not needed any longer, or its time is over.
    Intended,
    Link(LinkError),
    /// Connecting, TLS or WebSocket failed, or the remote broker closed the connection.
    Remote(ClientError),
    /// This broker closed the connection.
    LocalClosed,
    /// A socket failed.
    Io(Side, io::Error),
}

impl End {
    /// A stable code.
    pub(super) fn code(&self) -> &'static str {
        match self {
            End::Intended => "closed",
            End::Link(error) => error.code(),
            End::Remote(error) => error.code(),
            End::LocalClosed => "local_closed",
            End::Io(..) => "lost",
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Intended => f.write_str("the bridge was disconnected as intended"),
            End::Link(error) => error.fmt(f),
            End::Remote(error) => error.fmt(f),
            End::LocalClosed => f.write_str("this broker closed the connection of the bridge"),
            End::Io(side, error) => write!(f, "the connection to {side} failed: {error}"),
        }
    }
}

/// The connection of a bridge to one address of the remote broker, and to its own broker.
pub(super) struct Connection<'a> {
    plan: &'a BridgePlan,
    control: &'a Control,
    listener: &'a Arc<LocalListener>,
    shared: &'a Shared,
    election: &'a mut Election,
    poll: &'a mut Poll,
    began: Instant,
    link: Link,
    layers: Layers,
    remote: Socket,
    local: Option<Socket>,
    buffer: Vec<u8>,
    /// Packets and bytes on their way through the layers.
    packets: Vec<u8>,
    spare: Vec<u8>,
    /// When the link was connected.
    connected: Option<Instant>,
    status_at: Instant,
    /// What is in the status already.
    recorded: LinkCounters,
    report: Report,
    /// When a message was forwarded last, and how many had been then.
    last_message: (Instant, u64),
}

/// What a bridge needs for a connection.
pub(super) struct Parts<'a> {
    pub(super) plan: &'a BridgePlan,
    pub(super) control: &'a Control,
    pub(super) listener: &'a Arc<LocalListener>,
    pub(super) shared: &'a Shared,
    pub(super) election: &'a mut Election,
    pub(super) poll: &'a mut Poll,
}

impl<'a> Connection<'a> {
    /// Connects to an address of the remote broker, and begins the handshakes.
    pub(super) fn open(
        parts: Parts<'a>,
        options: &Options,
        clean_start: bool,
        removed: Vec<(Side, String)>,
    ) -> Result<Connection<'a>, End> {
        let Parts { plan, control, listener, shared, election, poll } = parts;
        let now = Instant::now();
        let stream = transport::open(options, now + plan.connect_timeout).map_err(End::Remote)?;
        let mut first = Vec::new();
        let layers = Layers::new(options, &mut first).map_err(End::Remote)?;
        let mut remote = Socket::new(stream, poll.registry(), REMOTE).map_err(|error| End::Io(Side::Remote, error))?;
        remote.add_output(&first);
        let began = Instant::now();
        let mut link = Link::new(plan.link.clone(), clean_start, 0);
        removed.into_iter().for_each(|(side, filter)| link.remove_filter(side, filter));
        Ok(Connection {
            plan,
            control,
            listener,
            shared,
            election,
            poll,
            began,
            link,
            layers,
            remote,
            local: None,
            buffer: vec![0; READ_BYTES],
            packets: Vec::new(),
            spare: Vec::new(),
            connected: None,
            status_at: began,
            recorded: LinkCounters::default(),
            report: Report::default(),
            last_message: (began, 0),
        })
    }

    /// How long messages have been forwarded.
    pub(super) fn connected(&self) -> Duration {
        self.connected.map(|since| since.elapsed()).unwrap_or_default()
    }

    /// Serves the connection until it ends.
    pub(super) fn run(&mut self) -> End {
        // Connecting takes time, and after it another thread may run the bridge, which the session must not be taken from.
        if self.shared.current() != Command::Run {
            return End::Intended;
        }
        let mut events = Events::with_capacity(8);
        let end = loop {
            if let Err(end) = self.advance(&mut events) {
                break end;
            }
        };
        if self.report.due(&self.link).is_some() {
            self.report.write(self.plan, &self.link);
        }
        self.record_progress();
        end
    }

    fn advance(&mut self, events: &mut Events) -> Result<(), End> {
        let mut is_busy = true;
        for _ in 0..ROUNDS {
            is_busy = self.round()?;
            if !is_busy {
                break;
            }
        }
        if self.should_end() {
            return Err(self.close(events));
        }
        self.report();
        let timeout = if is_busy { Some(Duration::ZERO) } else { self.timeout() };
        self.poll_events(events, timeout)
    }

    /// Moves bytes once in each direction. Returns whether anything moved.
    fn round(&mut self) -> Result<bool, End> {
        let now_ms = self.now_ms();
        if self.link.next_timeout_ms().is_some_and(|due_ms| due_ms <= now_ms) {
            self.link.handle_timeout(now_ms).map_err(End::Link)?;
        }
        if self.link.state() == LinkState::NeedsLocal && self.local.is_none() {
            let stream = self.listener.connect(self.plan, self.control).map_err(|error| End::Io(Side::Local, error))?;
            let socket =
                Socket::new(stream, self.poll.registry(), LOCAL).map_err(|error| End::Io(Side::Local, error))?;
            self.local = Some(socket);
            self.link.begin_local(now_ms);
        }
        let wrote = self.write_remote(now_ms)? | self.write_local(now_ms)?;
        self.link.resume(now_ms).map_err(End::Link)?;
        let read = self.read_remote(now_ms)? | self.read_local(now_ms)?;
        if self.connected.is_none() && self.link.is_subscribed() {
            self.connected = Some(Instant::now());
            self.shared.update(|status| {
                status.state = BridgeState::Connected;
                status.since_unix_s = since_epoch().as_secs();
                status.error = None;
                status.connections += 1;
            });
            log::info!(bridge = &*self.plan.name; "the bridge is connected");
        }
        Ok(wrote | read)
    }

    fn write_remote(&mut self, now_ms: u64) -> Result<bool, End> {
        let mut moved = false;
        if self.remote.is_written() && self.layers.is_ready() {
            let packets = self.link.take_output(Side::Remote, std::mem::take(&mut self.spare), now_ms);
            if packets.is_empty() {
                self.spare = packets;
            } else {
                let mut bytes = self.remote.set_output(Vec::new());
                bytes.clear();
                self.layers.encode(&packets, &mut bytes).map_err(End::Remote)?;
                self.remote.set_output(bytes);
                self.spare = packets;
                moved = true;
            }
        }
        Ok(self.remote.write().map_err(|error| End::Io(Side::Remote, error))? | moved)
    }

    fn write_local(&mut self, now_ms: u64) -> Result<bool, End> {
        let Some(local) = &mut self.local else { return Ok(false) };
        if local.is_written() {
            let spare = local.set_output(Vec::new());
            local.set_output(self.link.take_output(Side::Local, spare, now_ms));
        }
        local.write().map_err(|error| End::Io(Side::Local, error))
    }

    fn read_remote(&mut self, now_ms: u64) -> Result<bool, End> {
        if !self.layers.is_ready() || self.link.wants_input(Side::Remote) {
            match self.remote.read(&mut self.buffer).map_err(|error| End::Io(Side::Remote, error))? {
                ReadResult::WouldBlock => {}
                ReadResult::Closed => return Err(End::Remote(self.layers.closed())),
                ReadResult::Bytes(count) => {
                    let mut replies = Vec::new();
                    self.packets.clear();
                    let decoded = self.layers.decode(&self.buffer[..count], &mut self.packets, &mut replies);
                    self.remote.add_output(&replies);
                    if !self.packets.is_empty() {
                        self.link.handle_input(Side::Remote, &self.packets, now_ms).map_err(End::Link)?;
                    }
                    decoded.map_err(End::Remote)?;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn read_local(&mut self, now_ms: u64) -> Result<bool, End> {
        let Some(local) = &mut self.local else { return Ok(false) };
        if !self.link.wants_input(Side::Local) {
            return Ok(false);
        }
        match local.read(&mut self.buffer).map_err(|error| End::Io(Side::Local, error))? {
            ReadResult::WouldBlock => Ok(false),
            ReadResult::Closed => Err(End::LocalClosed),
            ReadResult::Bytes(count) => {
                self.link.handle_input(Side::Local, &self.buffer[..count], now_ms).map_err(End::Link)?;
                Ok(true)
            }
        }
    }

    /// Whether the connection is to end although nothing has failed.
    fn should_end(&mut self) -> bool {
        if self.shared.current() != Command::Run || !self.election.is_won() {
            return true;
        }
        let counters = self.link.counters();
        let messages = counters.messages_in + counters.messages_out;
        if messages != self.last_message.1 {
            self.last_message = (Instant::now(), messages);
        }
        match &self.plan.start {
            StartMode::Automatic => false,
            StartMode::Lazy(idle) => self.connected.is_some() && self.last_message.0.elapsed() >= *idle,
            StartMode::Scheduled(schedule) => !schedule.state_at(since_epoch().as_secs()).0,
        }
    }

    /// Tells the remote broker that the connection ends, and waits until it has been sent.
    fn close(&mut self, events: &mut Events) -> End {
        self.link.close(self.now_ms());
        let until = Instant::now() + CLOSE_TIMEOUT;
        while Instant::now() < until {
            let now_ms = self.now_ms();
            let sent = self.write_remote(now_ms).and_then(|remote| Ok(remote | self.write_local(now_ms)?));
            let is_sent = self.remote.is_written() && self.local.as_ref().is_none_or(Socket::is_written);
            match sent {
                Ok(true) => {}
                Ok(false) if !is_sent => {
                    if self.poll_events(events, Some(until.saturating_duration_since(Instant::now()))).is_err() {
                        break;
                    }
                }
                _ => break,
            }
        }
        self.remote.finish();
        End::Intended
    }

    /// Writes what is new to the log and the status.
    fn report(&mut self) {
        if self.report.due(&self.link).is_some_and(|due| due.is_zero()) {
            self.report.write(self.plan, &self.link);
        }
        if self.status_at.elapsed() >= STATUS_INTERVAL {
            self.status_at = Instant::now();
            self.record_progress();
        }
    }

    /// Adds what the link has done since the last call to the status.
    pub(super) fn record_progress(&mut self) {
        let counters = *self.link.counters();
        let since = counters.since(&self.recorded);
        self.recorded = counters;
        self.shared.update(|status| {
            status.counters.add(&since);
            status.refused_rules.clone_from_slice(self.link.refused_rules());
        });
    }

    /// How long to wait for an event.
    fn timeout(&self) -> Option<Duration> {
        let due_ms = self.link.next_timeout_ms();
        let link = due_ms.map(|due_ms| Duration::from_millis(due_ms.saturating_sub(self.now_ms())));
        let idle = match &self.plan.start {
            StartMode::Automatic => None,
            StartMode::Lazy(idle) => Some(idle.saturating_sub(self.last_message.0.elapsed())),
            StartMode::Scheduled(schedule) => Some(Duration::from_secs(schedule.state_at(since_epoch().as_secs()).1)),
        };
        let status = (*self.link.counters() != self.recorded).then_some(STATUS_INTERVAL);
        // One millisecond more: the poller rounds down.
        [link, idle, status, self.election.next_check(), self.report.due(&self.link)]
            .into_iter()
            .flatten()
            .min()
            .map(|timeout| timeout + Duration::from_millis(1))
    }

    fn poll_events(&mut self, events: &mut Events, timeout: Option<Duration>) -> Result<(), End> {
        match self.poll.poll(events, timeout) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(End::Io(Side::Local, error)),
            _ => {}
        }
        for event in events.iter() {
            match (event.token(), &mut self.local) {
                (REMOTE, _) => self.remote.record(event),
                (LOCAL, Some(local)) => local.record(event),
                _ => {}
            }
        }
        Ok(())
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
