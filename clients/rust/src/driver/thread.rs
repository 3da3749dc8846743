//! A thread that drives a client.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream, ToSocketAddrs as _};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll as Poller, Token};

use super::backoff::Backoff;
use super::connection::{Connection, Progress, Socket};
use super::{Begin, unreachable};
use crate::state::{Shared, lock};
use crate::{Error, Scheme, log};

const SOCKET: Token = Token(0);
const BELL: Token = Token(1);
/// Events taken at once: the socket and the bell.
const EVENTS: usize = 4;

/// Starts the thread.
pub(crate) fn start(shared: Arc<Shared>, begin: Begin) -> Result<(), Error> {
    let failed = |error: io::Error| Error::Options(format!("a thread for the client cannot be started: {error}"));
    let poller = Poller::new().map_err(failed)?;
    let bell = Arc::new(Bell(mio::Waker::new(poller.registry(), BELL).map_err(failed)?));
    let driver = Driver { shared, poller, events: Events::with_capacity(EVENTS), waker: Waker::from(bell) };
    thread::Builder::new().name("tautwire-client".into()).spawn(move || driver.run(begin)).map_err(failed)?;
    Ok(())
}

struct Bell(mio::Waker);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // It cannot fail but for want of memory in the kernel; the thread then wakes at its next deadline.
        let _ = self.0.wake();
    }
}

struct Driver {
    shared: Arc<Shared>,
    poller: Poller,
    events: Events,
    waker: Waker,
}

impl Driver {
    fn run(mut self, begin: Begin) {
        let mut backoff = Backoff::default();
        let mut keeps_trying = begin == Begin::KeepTrying;
        loop {
            self.shared.set_connecting();
            let begun = Instant::now();
            let end = match self.connect() {
                Ok(connection) => self.serve(connection),
                Err(error) => Some(error),
            };
            let was_online = self.shared.was_online();
            keeps_trying |= was_online;
            if was_online {
                backoff.connection_ended(begun.elapsed());
            }
            let error = end.unwrap_or(Error::Closed);
            if !self.shared.lost(&error, keeps_trying) {
                log::ended(&error);
                return;
            }
            let Some(reconnect) = self.shared.with_options(|options| options.reconnect) else { return };
            let pause = backoff.next(reconnect);
            log::trying_again(&error, pause);
            if !self.pause(pause) {
                self.shared.finish(&Error::Closed);
                return;
            }
        }
    }

    fn connect(&self) -> Result<Connection<MioSocket>, Error> {
        let (server, timeout) = self.shared.with_options(|options| (options.server.clone(), options.connect_timeout));
        log::connecting(&server);
        let address = server.authority();
        let stream = match server.scheme {
            Scheme::Unix => super::open_local(&server.path),
            _ => open(&server.host, server.port, timeout),
        };
        let socket = stream.and_then(|stream| MioSocket::new(stream, &self.poller));
        Connection::new(socket.map_err(|error| unreachable(&address, error))?, self.shared.clone())
    }

    /// Drives the connection to its end; gives why it ended, where that was not wanted.
    fn serve(&mut self, mut connection: Connection<MioSocket>) -> Option<Error> {
        let waker = self.waker.clone();
        let mut cx = Context::from_waker(&waker);
        loop {
            let timeout = match connection.advance(&mut cx) {
                Progress::Ended(why) => return why,
                Progress::Busy => Some(Duration::ZERO),
                Progress::Idle(deadline_ms) => deadline_ms
                    .map(|at_ms| self.shared.instant_of(at_ms).saturating_duration_since(Instant::now()))
                    // A millisecond more: the poller rounds down, and would wake too early again and again.
                    .map(|left| left + Duration::from_millis(1)),
            };
            match self.poller.poll(&mut self.events, timeout) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Some(Error::lost(error)),
            }
            for event in &self.events {
                if event.token() == SOCKET {
                    connection.socket().note(event);
                }
            }
        }
    }

    /// Waits; false where the client is to end.
    fn pause(&mut self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        let waker = self.waker.clone();
        loop {
            if !self.shared.sleep_offline(&Context::from_waker(&waker)) {
                return false;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            if self.poller.poll(&mut self.events, Some(left)).is_err() {
                thread::sleep(left.min(Duration::from_millis(10)));
            }
        }
    }
}

fn open(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout.max(Duration::from_millis(1))) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// A socket that remembers whether there is any use in trying.
pub(crate) struct MioSocket {
    stream: mio::net::TcpStream,
    readable: bool,
    writable: bool,
}

impl MioSocket {
    /// Of one that does not block.
    fn new(stream: TcpStream, poller: &Poller) -> io::Result<MioSocket> {
        let mut stream = mio::net::TcpStream::from_std(stream);
        poller.registry().register(&mut stream, SOCKET, Interest::READABLE | Interest::WRITABLE)?;
        Ok(MioSocket { stream, readable: true, writable: true })
    }

    pub(crate) fn note(&mut self, event: &mio::event::Event) {
        self.readable |= event.is_readable() || event.is_read_closed() || event.is_error();
        self.writable |= event.is_writable() || event.is_write_closed() || event.is_error();
    }
}

impl Socket for MioSocket {
    fn poll_read(&mut self, _: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        if !self.readable {
            return Poll::Pending;
        }
        match self.stream.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                Poll::Pending
            }
            Ok(count) => {
                // Less than there was room for: what comes later makes a new event.
                self.readable = count == buffer.len() || count == 0;
                Poll::Ready(Ok(count))
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn poll_write(&mut self, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if !self.writable {
            return Poll::Pending;
        }
        match self.stream.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.writable = false;
                Poll::Pending
            }
            done => Poll::Ready(done),
        }
    }

    fn finish_writing(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}

/// Runs a future to its end on this thread, which sleeps while it waits. `None` where the time was not enough.
pub(crate) fn block_on<F: Future>(future: F, until: Option<Instant>) -> Option<F::Output> {
    let parker = Arc::new(Parker::default());
    let waker = Waker::from(parker.clone());
    let mut cx = Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return Some(output);
        }
        if !parker.park(until) {
            return None;
        }
    }
}

/// Not the thread's own parking, which others may use for purposes of theirs.
#[derive(Default)]
struct Parker {
    is_woken: Mutex<bool>,
    bell: Condvar,
}

impl Parker {
    /// Waits to be woken; false where the time has come first.
    fn park(&self, until: Option<Instant>) -> bool {
        let mut is_woken = lock(&self.is_woken);
        while !*is_woken {
            is_woken = match until {
                None => self.bell.wait(is_woken).unwrap_or_else(std::sync::PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return false;
                    }
                    self.bell.wait_timeout(is_woken, left).unwrap_or_else(std::sync::PoisonError::into_inner).0
                }
            };
        }
        *is_woken = false;
        true
    }
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        *lock(&self.is_woken) = true;
        self.bell.notify_one();
    }
}
