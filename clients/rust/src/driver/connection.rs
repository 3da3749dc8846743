//! One connection: moves bytes as far as they go, then says what it waits for. The same for threads and tasks.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::late;
use crate::Error;
use crate::state::{Shared, Turn};
use crate::tls::{TlsFailure, TlsFault};
use crate::wire::Wire;

/// Read at once.
const READ_BYTES: usize = 64 << 10;
/// Times that bytes are moved before others get their turn.
const TURNS: usize = 32;
/// Time given to the server to close after our DISCONNECT, or to say why where writing has failed.
const FAREWELL_MS: u64 = 2000;
/// An emptied buffer with room for more than this gives its memory back.
const BUFFER_KEPT_BYTES: usize = 1 << 20;

/// A socket that does not block.
pub(crate) trait Socket {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>>;
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;
    /// Says that no more will be written.
    fn finish_writing(&mut self);
}

pub(crate) struct Connection<S> {
    socket: S,
    wire: Wire,
    shared: Arc<Shared>,
    /// To be written from `written` on.
    out: Vec<u8>,
    written: usize,
    /// What the store has to have written before it leaves.
    depends_on: Option<u64>,
    spare: Vec<u8>,
    packets: Vec<u8>,
    read: Box<[u8]>,
    /// The server has said something.
    has_heard: bool,
    phase: Phase,
    /// When to look again.
    deadline_ms: Option<u64>,
}

enum Phase {
    /// TLS and WebSocket.
    Handshake { until_ms: u64 },
    /// MQTT.
    Open,
    /// All is said. The error is why it ends, if it was not wanted. Where it `lingers`, the server may still have something to
    /// say before it closes; otherwise the end follows as soon as all is written.
    Ending { until_ms: u64, why: Option<Error>, lingers: bool },
}

/// How far a connection has come.
pub(crate) enum Progress {
    /// It is over: wanted, or because of this.
    Ended(Option<Error>),
    /// Nothing can be done before something happens or the time has come. The waker has been left everywhere.
    Idle(Option<u64>),
    /// There is more to do; others should have their turn first.
    Busy,
}

impl<S: Socket> Connection<S> {
    /// The handshakes begin; the server has to have accepted the client by `until_ms`.
    pub(crate) fn new(socket: S, shared: Arc<Shared>, until_ms: u64) -> Result<Connection<S>, Error> {
        let mut wire = shared.with_options(Wire::new)?;
        let mut out = Vec::new();
        wire.begin(&mut out)?;
        Ok(Connection {
            socket,
            wire,
            shared,
            out,
            written: 0,
            depends_on: None,
            spare: Vec::new(),
            packets: Vec::new(),
            read: vec![0; READ_BYTES].into(),
            has_heard: false,
            phase: Phase::Handshake { until_ms },
            deadline_ms: None,
        })
    }

    /// The socket, to be told what has happened to it.
    pub(crate) fn socket(&mut self) -> &mut S {
        &mut self.socket
    }

    /// Moves bytes as far as they go.
    pub(crate) fn advance(&mut self, cx: &mut Context<'_>) -> Progress {
        for _ in 0..TURNS {
            match self.turn(cx) {
                Ok(true) => {}
                Ok(false) if matches!(self.phase, Phase::Open) && !self.shared.sleep(cx) => {}
                Ok(false) => return Progress::Idle(self.deadline_ms),
                Err(End(why)) => return Progress::Ended(why),
            }
        }
        Progress::Busy
    }

    /// One round of taking, writing and reading; whether anything moved.
    fn turn(&mut self, cx: &mut Context<'_>) -> Result<bool, End> {
        let is_reading = self.take()?;
        let wrote = self.write(cx)?;
        let is_written = self.is_written();
        if let Phase::Ending { why, lingers: false, .. } = &mut self.phase
            && is_written
        {
            return Err(End(why.take()));
        }
        // Also where output is pending: a server that does not read until it is read from must not stop us.
        let read = is_reading && self.read(cx)?;
        Ok(wrote || read)
    }

    /// Takes what is to be sent; gives whether the server is to be listened to.
    fn take(&mut self) -> Result<bool, End> {
        let now_ms = self.shared.now_ms();
        match &mut self.phase {
            Phase::Handshake { until_ms } => {
                if self.wire.is_ready() {
                    self.shared.opened(*until_ms).map_err(|error| End(Some(error)))?;
                    self.phase = Phase::Open;
                    return self.take();
                }
                self.deadline_ms = Some(*until_ms);
                match () {
                    () if self.shared.is_stopping() => Err(End(None)),
                    () if now_ms >= *until_ms => {
                        let server = self.shared.with_options(|options| options.server.clone());
                        Err(End(Some(late(&server, "the end of the handshake of TLS or WebSocket"))))
                    }
                    () => Ok(true),
                }
            }
            Phase::Open => {
                // What has not been written is not added to: the machine's limit on output is to hold.
                let spare = if self.is_written() { std::mem::take(&mut self.spare) } else { return self.look() };
                let turn = match self.shared.turn(spare) {
                    Ok(turn) => turn,
                    Err(error) => return self.end(Some(error)).map(|()| true),
                };
                self.put_out(turn)
            }
            Phase::Ending { until_ms, why, .. } => {
                self.deadline_ms = Some(*until_ms);
                if now_ms >= *until_ms { Err(End(why.take())) } else { Ok(true) }
            }
        }
    }

    /// While output is pending: times are kept and reading goes on.
    fn look(&mut self) -> Result<bool, End> {
        match self.shared.watch() {
            Ok(watch) if watch.is_over => Err(End(None)),
            Ok(watch) => {
                self.deadline_ms = watch.deadline_ms;
                Ok(watch.is_reading)
            }
            Err(error) => self.end(Some(error)).map(|()| true),
        }
    }

    fn put_out(&mut self, turn: Turn) -> Result<bool, End> {
        self.deadline_ms = turn.deadline_ms;
        self.depends_on = turn.depends_on;
        if self.wire.is_plain() {
            self.spare = std::mem::replace(&mut self.out, turn.output);
        } else {
            self.out.clear();
            if !turn.output.is_empty() {
                self.wire.encode(&turn.output, &mut self.out).map_err(|error| End(Some(error)))?;
            }
            self.spare = turn.output;
        }
        for buffer in [&mut self.out, &mut self.spare] {
            if buffer.capacity() > BUFFER_KEPT_BYTES && buffer.is_empty() {
                *buffer = Vec::new();
            }
        }
        self.written = 0;
        if turn.is_leaving {
            self.end(None)?;
        }
        Ok(turn.is_reading)
    }

    /// Nothing more of MQTT is sent; what is to be written still is.
    fn end(&mut self, why: Option<Error>) -> Result<(), End> {
        if matches!(self.phase, Phase::Open) {
            let last = self.shared.last_words();
            if !last.is_empty() {
                self.depends_on = self.shared.store_ticket();
                self.wire.encode(&last, &mut self.out).map_err(|_| End(why.clone()))?;
            }
        }
        self.wire.end(&mut self.out).map_err(|_| End(why.clone()))?;
        let until_ms = self.shared.now_ms().saturating_add(FAREWELL_MS);
        self.deadline_ms = Some(until_ms);
        self.phase = Phase::Ending { until_ms, lingers: why.is_none(), why };
        if self.is_written() {
            self.socket.finish_writing();
        }
        Ok(())
    }

    fn is_written(&self) -> bool {
        self.written == self.out.len()
    }

    fn write(&mut self, cx: &mut Context<'_>) -> Result<bool, End> {
        let mut moved = false;
        if let Some(ticket) = self.depends_on.filter(|_| !self.is_written()) {
            match self.shared.poll_stored(ticket, cx) {
                Poll::Pending => return Ok(false),
                Poll::Ready(Ok(())) => self.depends_on = None,
                Poll::Ready(Err(error)) => return Err(End(Some(error))),
            }
        }
        while !self.is_written() {
            match self.socket.poll_write(cx, &self.out[self.written..]) {
                Poll::Ready(Ok(count)) => {
                    self.written += count;
                    moved = true;
                }
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Poll::Ready(Err(error)) => {
                    // A server that ends a connection says why before it closes, and the reason tells more than this.
                    self.out.clear();
                    self.written = 0;
                    if !matches!(self.phase, Phase::Ending { .. }) {
                        let why = Some(Error::lost(format_args!("writing failed: {error}")));
                        let until_ms = self.shared.now_ms().saturating_add(FAREWELL_MS);
                        self.phase = Phase::Ending { until_ms, why, lingers: true };
                    }
                    return Ok(true);
                }
                Poll::Pending => return Ok(moved),
            }
        }
        if moved && matches!(self.phase, Phase::Ending { .. }) {
            // Closing with unread bytes would reset the connection, and the server might lose what we sent last.
            self.socket.finish_writing();
        }
        Ok(moved)
    }

    fn read(&mut self, cx: &mut Context<'_>) -> Result<bool, End> {
        match self.socket.poll_read(cx, &mut self.read) {
            Poll::Pending => Ok(false),
            Poll::Ready(Ok(0)) => Err(self.gone(self.wire.ended())),
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            Poll::Ready(Err(error)) => Err(self.gone(Error::lost(error))),
            Poll::Ready(Ok(count)) => {
                self.receive(count)?;
                Ok(true)
            }
        }
    }

    /// The socket gives no more.
    fn gone(&mut self, error: Error) -> End {
        match &mut self.phase {
            Phase::Ending { why, .. } => End(why.take()),
            _ => End(Some(error)),
        }
    }

    fn receive(&mut self, count: usize) -> Result<(), End> {
        let is_first = !std::mem::replace(&mut self.has_heard, true);
        let received = if self.wire.is_plain() {
            if is_first && is_tls(&self.read[..count]) {
                return Err(End(Some(Error::Tls(TlsFailure::new(TlsFault::Needed, "")))));
            }
            self.shared.receive(&self.read[..count])
        } else {
            self.packets.clear();
            // What the layers answer joins what is pending.
            let decoded = self.wire.decode(&self.read[..count], &mut self.packets, &mut self.out);
            if let Phase::Handshake { until_ms } = self.phase
                && self.wire.is_ready()
                && decoded.is_ok()
            {
                self.shared.opened(until_ms).map_err(|error| End(Some(error)))?;
                self.phase = Phase::Open;
            }
            let received = if self.packets.is_empty() { Ok(()) } else { self.shared.receive(&self.packets) };
            received.and(decoded)
        };
        match (received, &mut self.phase) {
            (Ok(()), _) => Ok(()),
            // What the server says of the end tells more than how it was found out, also where the end was wanted: it may
            // refuse what was sent last.
            (Err(error), Phase::Ending { why, .. }) => {
                if why.is_some() || matches!(error, Error::Disconnected { .. }) {
                    *why = Some(error);
                }
                Ok(())
            }
            (Err(error @ (Error::Disconnected { .. } | Error::Refused { .. })), _) => Err(End(Some(error))),
            (Err(error), _) => self.end(Some(error)),
        }
    }
}

/// Whether these are the first bytes of an alert of TLS, with which a server answers what is no TLS. No packet of MQTT that a server sends
/// begins so.
fn is_tls(bytes: &[u8]) -> bool {
    bytes.starts_with(&[21, 3])
}

/// The connection is over; wanted where there is no error.
struct End(Option<Error>);
