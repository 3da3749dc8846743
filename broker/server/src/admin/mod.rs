//! The HTTP API for those who run the broker: health, metrics, contracts at run time, messages.
//!
//! It has threads of its own: one that accepts ([`serving`]), and one for each request under way. Of those that move messages it asks
//! nothing but to publish what is to be published. A connection has one request.

mod attempts;
mod bans;
mod caller;
mod clients;
mod cluster;
mod configuration;
mod connection;
mod contracts;
mod credentials;
mod explain;
mod health;
mod history;
mod listeners;
mod login;
mod messages;
mod metrics;
mod openapi;
mod overview;
mod payload;
mod request;
mod response;
mod retained;
mod roles;
mod routes;
mod rules;
mod serving;
mod sessions;
mod shared;
mod spelled;
mod tap;
mod token;
mod tokens_file;
mod topic_metrics;
mod ui;
mod violations;
mod why;

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tautwire_reactor::Control;
use tautwire_tls::Server;

use crate::contracts::Store;
use crate::serve::reload::Reloader;
use attempts::Attempts;
use connection::Connection;
pub(crate) use credentials::{Credentials, CurrentCredentials};
use request::Reading;
use response::{Response, Status};
pub(crate) use roles::{Grant, Role};
pub(crate) use serving::Serving;
use sessions::Sessions;
pub(crate) use token::{Token, read_text as read_token, unguessable};
pub(crate) use tokens_file::NamedToken;
pub(crate) mod tokens {
    pub(crate) use super::tokens_file::{FILE_BYTES_MAX, add, is_name, parse, read_moment, remove};
}

/// Requests under way at once. Further connections are answered with 503.
const CONNECTIONS_MAX: usize = 16;
/// Time for a request to come and its answer to be taken.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(5);

/// What the API answers from.
pub(crate) struct Admin {
    control: Control,
    credentials: Arc<CurrentCredentials>,
    sessions: Sessions,
    /// Logins that have failed.
    attempts: Attempts,
    /// Held while a password is looked at.
    checking: Mutex<()>,
    store: Arc<Store>,
    reloader: Arc<Reloader>,
    counters: Counters,
    history: Arc<history::History>,
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
    logins: AtomicU64,
    logins_refused: AtomicU64,
    /// Those not looked at, because too many had failed before.
    logins_slowed: AtomicU64,
    /// Sessions that ended because others began.
    sessions_displaced: AtomicU64,
    connections: AtomicUsize,
    taps: AtomicUsize,
    taps_refused: AtomicU64,
    tap_messages_skipped: AtomicU64,
}

impl Admin {
    pub(crate) fn new(
        control: Control,
        credentials: Arc<CurrentCredentials>,
        store: Arc<Store>,
        reloader: Arc<Reloader>,
    ) -> Admin {
        Admin {
            control,
            credentials,
            sessions: Sessions::default(),
            attempts: Attempts::default(),
            checking: Mutex::new(()),
            store,
            reloader,
            counters: Counters::default(),
            history: Arc::default(),
            started: Instant::now(),
        }
    }

    /// All metrics in the format of Prometheus.
    pub(crate) fn metrics(&self) -> String {
        metrics::text(self)
    }

    fn session_count(&self) -> usize {
        self.sessions.count(self.credentials.get().limits(), Instant::now())
    }

    /// Gives the connection a thread. One that cannot have one is answered and given back; over TLS it is closed, which costs no handshake.
    fn admit(self: Arc<Admin>, stream: TcpStream, peer: SocketAddr, tls: Option<Arc<Server>>) -> Result<(), TcpStream> {
        if self.counters.connections.fetch_add(1, Ordering::AcqRel) >= CONNECTIONS_MAX {
            self.counters.connections.fetch_sub(1, Ordering::AcqRel);
            self.counters.connections_refused.fetch_add(1, Ordering::Relaxed);
            return if tls.is_none() { Err(busy(stream)) } else { Ok(()) };
        }
        let admin = self.clone();
        let spawned = thread::Builder::new().name("admin-request".to_owned()).spawn(move || {
            admin.serve(stream, peer, tls.as_deref());
            admin.counters.connections.fetch_sub(1, Ordering::AcqRel);
        });
        if let Err(error) = spawned {
            self.counters.connections.fetch_sub(1, Ordering::AcqRel);
            self.counters.connections_refused.fetch_add(1, Ordering::Relaxed);
            log::warn!("the admin API cannot start a thread: {error}");
        }
        Ok(())
    }

    /// One connection, and its request.
    fn serve(&self, stream: TcpStream, peer: SocketAddr, tls: Option<&Server>) {
        let deadline = Instant::now() + EXCHANGE_TIMEOUT;
        let Some(server) = tls else {
            return self.exchange(&Connection::plain(stream), peer, deadline);
        };
        match connection::begins_tls(&stream, deadline) {
            Ok(true) => match Connection::over_tls(stream, server.config()) {
                Ok(connection) => self.exchange(&connection, peer, deadline),
                Err(error) => log::warn!("admin: no TLS with {peer}: {error}"),
            },
            Ok(false) => {
                self.counters.requests.fetch_add(1, Ordering::Relaxed);
                self.counters.refused.fetch_add(1, Ordering::Relaxed);
                let connection = Connection::plain(stream);
                let told = "this address speaks HTTPS: write https://";
                let answer = Response::error(Status::BAD_REQUEST, "https_needed", told);
                if answer.write(&connection, deadline).is_ok() {
                    Reading::new(&connection, deadline).drain();
                }
            }
            // Nothing came: whoever it was did not want anything.
            Err(_) => {}
        }
    }

    /// One request and its answer.
    fn exchange(&self, connection: &Connection, peer: SocketAddr, deadline: Instant) {
        let mut reading = Reading::new(connection, deadline);
        let answer = match reading.head() {
            Ok(Some(head)) => {
                let (answer, caller) = routes::answer(self, &head, &mut reading, peer);
                // Who looks changes nothing.
                if head.method != "GET" || matches!(answer.status(), Status::UNAUTHORIZED | Status::FORBIDDEN) {
                    let (address, status) = (peer.to_string(), answer.status().code());
                    let by = caller.as_ref().map_or_else(String::new, |caller| caller.holder.by());
                    log::error!(
                        target: crate::log::audit::TARGET,
                        event = "admin", method = &*head.method, path = &*head.path, by = &*by, address = &*address, status = status;
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
        if answer.write(connection, deadline).is_ok() {
            reading.drain();
        }
    }
}

/// Answers that there is no room, and gives the connection back.
fn busy(stream: TcpStream) -> TcpStream {
    let busy = Response::error(Status::SERVICE_UNAVAILABLE, "busy", "too many requests at once; try again");
    // So short an answer finds room in the kernel.
    let copy = stream.set_nonblocking(true).and_then(|()| stream.try_clone());
    let _ = copy.and_then(|copy| busy.write(&Connection::plain(copy), Instant::now()));
    let _ = stream.shutdown(Shutdown::Write);
    stream
}
