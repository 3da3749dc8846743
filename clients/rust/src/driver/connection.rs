//! One connection: moves bytes as far as possible, then reports what it waits for. Threads and tasks share it.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::late;
use crate::Error;
use crate::state::{Shared, Turn};
use crate::tls::{TlsFailure, TlsFault};
use crate::wire::Wire;

/// Bytes per read.
const READ_BYTES: usize = 64 << 10;
/// Rounds of I/O before other tasks get their turn.
const TURNS: usize = 32;
/// Time for the server to close after our DISCONNECT, or to send its reason after a failed write.
const FAREWELL_MS: u64 = 2000;
/// The capacity above which an emptied buffer is freed.
const BUFFER_KEPT_BYTES: usize = 1 << 20;

/// A non-blocking socket.
pub(crate) trait Socket {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>>;
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;
    /// Shuts down the sending side.
    fn finish_writing(&mut self);
}

pub(crate) struct Connection<S> {
    socket: S,
    wire: Wire,
    shared: Arc<Shared>,
    /// Bytes to write, from `written` on.
    out: Vec<u8>,
    written: usize,
    /// The store position that must be on disk before the output is sent.
    depends_on: Option<u64>,
    spare: Vec<u8>,
    packets: Vec<u8>,
    read: Box<[u8]>,
    /// The server has sent something.
    has_heard: bool,
    phase: Phase,
    /// When to run again.
    deadline_ms: Option<u64>,
}

enum Phase {
    /// TLS and WebSocket.
    Handshake { until_ms: u64 },
    /// MQTT.
    Open,
    /// The connection is closing. `why` is the error, unless the end was intended. If it `lingers`, the server may still send something
    /// before it closes; otherwise it ends as soon as all output is written.
    Ending { until_ms: u64, why: Option<Error>, lingers: bool },
}

/// The state of a connection after `advance`.
pub(crate) enum Progress {
    /// The connection has ended: as intended, or with this error.
    Ended(Option<Error>),
    /// Nothing to do until an event or the deadline. All wakers are registered.
    Idle(Option<u64>),
    /// There is more to do, after other tasks.
    Busy,
}

impl<S: Socket> Connection<S> {
    /// Starts the handshakes; the server must accept the client by `until_ms`.
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

    /// The socket, to which events are reported.
    pub(crate) fn socket(&mut self) -> &mut S {
        &mut self.socket
    }

    /// Moves bytes as far as possible.
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

    /// One round of taking output, writing and reading. Returns whether anything moved.
    fn turn(&mut self, cx: &mut Context<'_>) -> Result<bool, End> {
        let is_reading = self.take()?;
        let wrote = self.write(cx)?;
        let is_written = self.is_written();
        if let Phase::Ending { why, lingers: false, .. } = &mut self.phase
            && is_written
        {
            return Err(End(why.take()));
        }
        // Read even if output is pending: the server may not read until its own output has been read.
        let read = is_reading && self.read(cx)?;
        Ok(wrote || read)
    }

    /// Takes the output of the machine. Returns whether to read from the socket.
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
                        Err(End(Some(late(&server, "the end of the TLS or WebSocket handshake"))))
                    }
                    () => Ok(true),
                }
            }
            Phase::Open => {
                // Add nothing to unwritten output: the machine's limit on output must hold.
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

    /// While output is pending, timers and reading continue.
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

    /// Stops sending MQTT packets; pending output is still written.
    fn end(&mut self, why: Option<Error>) -> Result<(), End> {
        if matches!(self.phase, Phase::Open) {
            let last = self.shared.disconnect_output();
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
                    // A server that closes a connection sends the reason first, which says more than this error.
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
            // Closing with unread bytes would reset the connection, and the server might lose our last packets.
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

    /// The end of the stream, or a read error.
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
            // Replies of the layers (TLS, WebSocket) are added to the pending output.
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
            // The reason that the server sends says more than this error, also if the end was intended: the server may refuse the last
            // packets.
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

/// Whether these are the first bytes of a TLS alert, the reply of a TLS server to plain text. No MQTT packet of a server begins like this.
fn is_tls(bytes: &[u8]) -> bool {
    bytes.starts_with(&[21, 3])
}

/// The end of a connection; without an error if it was intended.
struct End(Option<Error>);
