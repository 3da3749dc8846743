//! The thread that drives a client.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll as Poller, Token};

use super::attempts::Attempts;
use super::connection::{Connection, Progress, Socket};
use super::{Begin, ask_credentials, late, name_not_found, next_attempt, share_of, unreachable};
use crate::state::Shared;
use crate::sync::lock;
use crate::{Error, Scheme, Server, log};

const SOCKET: Token = Token(0);
const WAKER: Token = Token(1);
/// The capacity of the event buffer: the socket and the waker.
const EVENTS: usize = 4;

/// Starts the thread.
pub(crate) fn start(shared: Arc<Shared>, begin: Begin) -> Result<(), Error> {
    let failed = |error: io::Error| Error::Options(format!("cannot start the thread of the client: {error}"));
    let poller = Poller::new().map_err(failed)?;
    let waker = Arc::new(ThreadWaker(mio::Waker::new(poller.registry(), WAKER).map_err(failed)?));
    let driver = Driver { shared, poller, events: Events::with_capacity(EVENTS), waker: Waker::from(waker) };
    thread::Builder::new().name("tautwire-client".into()).spawn(move || driver.run(begin)).map_err(failed)?;
    Ok(())
}

struct ThreadWaker(mio::Waker);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // It fails only if the kernel has no memory; the thread then wakes at its next deadline.
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
        let mut attempts = Attempts::new(begin);
        loop {
            attempts.begin(&self.shared);
            let end = match self.connect() {
                Ok(connection) => self.serve(connection),
                Err(error) => Some(error),
            };
            let Some(pause) = attempts.end(&self.shared, end) else { return };
            if !self.pause(pause) {
                self.shared.finish(&Error::Closed);
                return;
            }
        }
    }

    fn connect(&self) -> Result<Connection<MioSocket>, Error> {
        let (server, until_ms) = next_attempt(&self.shared);
        let until = self.shared.instant_of(until_ms);
        let asked = block_on(ask_credentials(&self.shared), Some(until));
        asked.ok_or_else(|| late(&server, "the credentials of the application"))??;
        log::connecting(&server);
        let stream = dial(&server, until)?;
        let socket = MioSocket::new(stream, &self.poller).map_err(|error| unreachable(&server, error))?;
        Connection::new(socket, self.shared.clone(), until_ms)
    }

    /// Serves a connection. Returns why it ended, or `None` if that was intended.
    fn serve(&mut self, mut connection: Connection<MioSocket>) -> Option<Error> {
        let waker = self.waker.clone();
        let mut cx = Context::from_waker(&waker);
        loop {
            let timeout = match connection.advance(&mut cx) {
                Progress::Ended(why) => return why,
                Progress::Busy => Some(Duration::ZERO),
                Progress::Idle(deadline_ms) => deadline_ms
                    .map(|at_ms| self.shared.instant_of(at_ms).saturating_duration_since(Instant::now()))
                    // One millisecond more: the poller rounds down and would wake too early repeatedly.
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

    /// Waits; returns false if the client is to end.
    fn pause(&mut self, pause: Duration) -> bool {
        let began = Instant::now();
        let waker = self.waker.clone();
        loop {
            if !self.shared.sleep_offline(&Context::from_waker(&waker)) {
                return false;
            }
            // The elapsed time is compared, because the clock may not be able to represent the end of a very long pause.
            let left = pause.saturating_sub(began.elapsed());
            if left.is_zero() {
                return true;
            }
            if self.poller.poll(&mut self.events, Some(left)).is_err() {
                thread::sleep(left.min(Duration::from_millis(10)));
            }
        }
    }
}

/// Connects a non-blocking socket.
pub(crate) fn dial(server: &Server, until: Instant) -> Result<TcpStream, Error> {
    if server.scheme == Scheme::Unix {
        return super::open_local(&server.path).map_err(|error| unreachable(server, error));
    }
    let addresses = look_up(server, until)?;
    let mut last = name_not_found(server, io::ErrorKind::NotFound.into());
    for (at, address) in addresses.iter().enumerate() {
        let connected = TcpStream::connect_timeout(address, share_of(until, addresses.len() - at));
        let ready = connected.and_then(|stream| {
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            Ok(stream)
        });
        last = match ready {
            Ok(stream) => return Ok(stream),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => late(server, "the connection"),
            Err(error) => unreachable(server, error),
        };
    }
    Err(last)
}

/// Resolves a host name. The system call has no time limit, so it runs in a thread of its own, which is abandoned on timeout.
fn look_up(server: &Server, until: Instant) -> Result<Vec<SocketAddr>, Error> {
    if let Ok(address) = server.host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, server.port)]);
    }
    let (host, port) = (server.host.clone(), server.port);
    let (tell, told) = mpsc::sync_channel(1);
    let find = move || {
        // The receiver is gone after a timeout.
        let _ = tell.send((host.as_str(), port).to_socket_addrs().map(Vec::from_iter));
    };
    let started = thread::Builder::new().name("tautwire-lookup".into()).spawn(find);
    started.map_err(|error| unreachable(server, error))?;
    match told.recv_timeout(until.saturating_duration_since(Instant::now())) {
        Ok(found) => found.map_err(|error| name_not_found(server, error)),
        Err(_) => Err(late(server, "the address of the name")),
    }
}

/// A socket that remembers whether it is readable and writable.
pub(crate) struct MioSocket {
    stream: mio::net::TcpStream,
    readable: bool,
    writable: bool,
    /// The end of the stream has been reported, maybe together with the last bytes: no more events follow.
    has_ended: bool,
}

impl MioSocket {
    /// Wraps a non-blocking stream.
    fn new(stream: TcpStream, poller: &Poller) -> io::Result<MioSocket> {
        let mut stream = mio::net::TcpStream::from_std(stream);
        poller.registry().register(&mut stream, SOCKET, Interest::READABLE | Interest::WRITABLE)?;
        Ok(MioSocket { stream, readable: true, writable: true, has_ended: false })
    }

    pub(crate) fn note(&mut self, event: &mio::event::Event) {
        self.has_ended |= event.is_read_closed() || event.is_error();
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
                // A short read: data that arrives later causes a new event.
                self.readable = count == buffer.len() || count == 0 || self.has_ended;
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

/// Runs a future to completion on this thread, which sleeps while it waits. Returns `None` on timeout.
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

/// Parks a thread. `thread::park` is not used, because other code may unpark the thread.
#[derive(Default)]
struct Parker {
    is_woken: Mutex<bool>,
    waker: Condvar,
}

impl Parker {
    /// Waits for a wake-up; returns false on timeout.
    fn park(&self, until: Option<Instant>) -> bool {
        let mut is_woken = lock(&self.is_woken);
        while !*is_woken {
            is_woken = match until {
                None => self.waker.wait(is_woken).unwrap_or_else(std::sync::PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return false;
                    }
                    self.waker.wait_timeout(is_woken, left).unwrap_or_else(std::sync::PoisonError::into_inner).0
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
        self.waker.notify_one();
    }
}
