//! The HTTP API for those who run the broker: health, metrics, contracts at run time, messages.
//!
//! It has threads of its own: one that accepts, and one for each request under way. Of those that move messages it asks
//! nothing but to publish what is to be published. A connection has one request.

mod bans;
mod clients;
mod messages;
mod metrics;
mod request;
mod response;
mod routes;
mod spelled;
mod token;
mod why;

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tautwire_reactor::Control;

use crate::contracts::Store;
use crate::serve::reload::Reloader;
use request::Reading;
use response::{Response, Status};
pub(crate) use token::{CurrentToken, Token, is_open_to_others, read_text as read_token};

/// Requests under way at once. Further connections are answered with 503.
const CONNECTIONS_MAX: usize = 16;
/// Connections answered with 503 that are kept until others come.
const REFUSED_KEPT: usize = 16;
/// Time for a request to come and its answer to be taken.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time between accepting one connection and the next after that has failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What the API answers from.
pub(crate) struct Admin {
    control: Control,
    token: Arc<CurrentToken>,
    store: Arc<Store>,
    reloader: Arc<Reloader>,
    counters: Counters,
    started: Instant,
}

/// What the API counts of itself.
#[derive(Debug, Default)]
struct Counters {
    requests: AtomicU64,
    /// Those answered with an error.
    refused: AtomicU64,
    connections_refused: AtomicU64,
    messages_published: AtomicU64,
    connections: AtomicUsize,
}

impl Admin {
    pub(crate) fn new(control: Control, token: Arc<CurrentToken>, store: Arc<Store>, reloader: Arc<Reloader>) -> Admin {
        Admin { control, token, store, reloader, counters: Counters::default(), started: Instant::now() }
    }

    /// Answers at `listener` for as long as the process lives.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn serve(self, listener: TcpListener) -> io::Result<()> {
        let admin = Arc::new(self);
        thread::Builder::new().name("admin".to_owned()).spawn(move || admin.accept(&listener)).map(|_| ())
    }

    fn accept(self: Arc<Admin>, listener: &TcpListener) {
        // A connection that is closed while its client still writes may lose its answer on the way.
        let mut refused = VecDeque::new();
        loop {
            match listener.accept() {
                Ok((stream, peer)) => {
                    if let Err(stream) = self.clone().admit(stream, peer) {
                        refused.truncate(REFUSED_KEPT - 1);
                        refused.push_front(stream);
                    }
                }
                Err(error) => {
                    log::warn!("the admin API cannot accept a connection: {error}");
                    thread::sleep(ACCEPT_PAUSE);
                }
            }
        }
    }

    /// Gives the connection a thread. One that cannot have one is answered and given back.
    fn admit(self: Arc<Admin>, stream: TcpStream, peer: SocketAddr) -> Result<(), TcpStream> {
        if self.counters.connections.fetch_add(1, Ordering::AcqRel) >= CONNECTIONS_MAX {
            self.counters.connections.fetch_sub(1, Ordering::AcqRel);
            self.counters.connections_refused.fetch_add(1, Ordering::Relaxed);
            let busy = Response::error(Status::SERVICE_UNAVAILABLE, "busy", "too many requests at once; try again");
            // So short an answer finds room in the kernel.
            let _ = stream.set_nonblocking(true).and_then(|()| busy.write(&stream, Instant::now()));
            let _ = stream.shutdown(Shutdown::Write);
            return Err(stream);
        }
        let admin = self.clone();
        let spawned = thread::Builder::new().name("admin-request".to_owned()).spawn(move || {
            admin.exchange(&stream, peer);
            admin.counters.connections.fetch_sub(1, Ordering::AcqRel);
        });
        if let Err(error) = spawned {
            self.counters.connections.fetch_sub(1, Ordering::AcqRel);
            self.counters.connections_refused.fetch_add(1, Ordering::Relaxed);
            log::warn!("the admin API cannot start a thread: {error}");
        }
        Ok(())
    }

    /// One request and its answer.
    fn exchange(&self, stream: &TcpStream, peer: SocketAddr) {
        let deadline = Instant::now() + EXCHANGE_TIMEOUT;
        let mut reading = Reading::new(stream, deadline);
        let answer = match reading.head() {
            Ok(Some(head)) => {
                let answer = routes::answer(self, &head, &mut reading);
                // Who looks changes nothing.
                if head.method != "GET" || answer.status() == Status::UNAUTHORIZED {
                    let (address, status) = (peer.to_string(), answer.status().code());
                    log::error!(
                        target: crate::log::audit::TARGET,
                        event = "admin", method = &*head.method, path = &*head.path, address = &*address, status = status;
                        ""
                    );
                }
                answer
            }
            // Nothing came: whoever it was did not want anything.
            Ok(None) => return,
            Err(refusal) => refusal,
        };
        self.counters.requests.fetch_add(1, Ordering::Relaxed);
        if answer.is_error() {
            self.counters.refused.fetch_add(1, Ordering::Relaxed);
            log::debug!("admin: {peer} is answered with {}", answer.status());
        }
        if answer.write(stream, deadline).is_ok() {
            reading.drain();
        }
    }
}
