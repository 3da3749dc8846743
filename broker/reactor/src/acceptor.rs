//! Accepts connections on the listening sockets of a thread.

use std::sync::Arc;

use mio::{Interest, Registry, Token};
use tautwire_engine::{ConnectionListener, ConnectionOrigin, Counters, Peer};

use crate::accept_burst::{AcceptBurst, POLL_INTERVAL_US};
use crate::accepted_connection::AcceptedConnection;
use crate::authenticator::Authenticator;
use crate::listener::{AcceptResult, Listener, PlannedListener, ReserveDescriptor, accept};
use crate::short_timer::ShortTimer;

/// The number of connections accepted in one turn, so that a burst leaves time for existing connections.
const ACCEPTS_MAX: usize = 8;
/// The delay before the next attempt after an error of `accept` that is not the peer's fault.
const ACCEPT_PAUSE_MS: u64 = 100;

#[derive(Debug)]
pub(crate) struct Acceptor {
    listeners: Vec<Listener>,
    authenticator: Option<Arc<dyn Authenticator>>,
    registry: Registry,
    first_token: usize,
    /// Listeners that may have pending connections, with the time of the next attempt.
    accepting: Vec<(usize, u64)>,
    accepts_left: usize,
    /// Connections accepted in this turn, or since the last poll of a burst began.
    accepted_count: u32,
    reserve: ReserveDescriptor,
    accept_burst: AcceptBurst,
    short_timer: ShortTimer,
}

impl Acceptor {
    /// Creates an acceptor. Listener number n reports with the token `first_token + n`, and the timer with `on_timer`.
    ///
    /// # Errors
    /// A listener cannot be registered, or the timer cannot be created.
    pub(crate) fn new(
        listeners: Vec<Listener>,
        registry: Registry,
        first_token: usize,
        tick: Token,
        authenticator: Option<Arc<dyn Authenticator>>,
    ) -> std::io::Result<Acceptor> {
        let short_timer = ShortTimer::new(&registry, tick)?;
        let mut acceptor = Acceptor {
            listeners,
            authenticator,
            registry,
            first_token,
            accepting: Vec::new(),
            accepts_left: 0,
            accepted_count: 0,
            reserve: ReserveDescriptor::new(),
            accept_burst: AcceptBurst::new(),
            short_timer,
        };
        acceptor.watch()?;
        Ok(acceptor)
    }

    /// Returns the authenticator, which decides which addresses may connect.
    pub(crate) fn authenticator(&self) -> Option<&Arc<dyn Authenticator>> {
        self.authenticator.as_ref()
    }

    /// Begins a turn.
    pub(crate) fn begin_turn(&mut self) {
        self.accepts_left = ACCEPTS_MAX;
    }

    /// Records that a listener has pending connections.
    pub(crate) fn set_ready(&mut self, listener: usize, now_ms: u64) {
        if !self.accept_burst.is_active() {
            self.accepting.push((listener, now_ms));
        }
    }

    /// Handles the timer: polls the listeners in a burst.
    pub(crate) fn on_timer(&mut self, now_ms: u64) {
        if self.accept_burst.is_active() && self.accepting.is_empty() {
            self.accepted_count = 0;
            self.accepting.extend((0..self.listeners.len()).map(|at| (at, now_ms)));
        }
    }

    /// Whether connections accepted now have probably sent data already.
    pub(crate) fn is_accept_burst(&self) -> bool {
        self.accept_burst.is_active()
    }

    /// Whether a connection may be accepted now.
    pub(crate) fn has_work(&self, now_ms: u64) -> bool {
        self.accepting.iter().any(|(_, at_ms)| *at_ms <= now_ms)
    }

    /// Returns the time of the next attempt.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        self.accepting.iter().map(|(_, at_ms)| *at_ms).min()
    }

    /// Accepts the next pending connection, if this turn accepts any more.
    pub(crate) fn next(&mut self, now_ms: u64, counters: &Counters) -> Option<AcceptedConnection> {
        while self.accepts_left > 0 {
            let due = self.accepting.iter().position(|(_, at_ms)| *at_ms <= now_ms)?;
            let (at, _) = self.accepting[due];
            self.accepts_left -= 1;
            match accept(&self.listeners[at], &mut self.reserve) {
                Ok(AcceptResult::Connection(stream, peer)) => {
                    self.accepted_count += 1;
                    let listener = &self.listeners[at];
                    let accept_limiter = &listener.accept_limiter;
                    if let (Peer::Network { ip, .. }, Some(authenticator)) = (peer, &self.authenticator)
                        && !authenticator.accepts_address(ip)
                    {
                        counters.connections_refused_banned.add(1);
                        log::info!(listener = &**accept_limiter.name(), address = &*peer.to_string(); "refused connection: the address is banned");
                        continue;
                    }
                    if accept_limiter.accept(peer, counters, now_ms).is_err() {
                        continue;
                    }
                    log::debug!("listener {}: a connection from {peer}", accept_limiter.name());
                    let ack_level = listener.ack_level;
                    let origin = Arc::new(ConnectionOrigin::new(accept_limiter.clone(), peer));
                    match listener.layers() {
                        Ok(layers) => {
                            return Some(AcceptedConnection { stream, origin, layers, ack_level, auth_state: None });
                        }
                        Err(failure) => log::error!("cannot start a TLS session: {failure}"),
                    }
                }
                Ok(AcceptResult::Refused) => {
                    counters.connections_refused.add(1);
                    log::warn!(
                        listener = &**self.listeners[at].accept_limiter.name();
                        "refused connection: no file descriptor is free; raise the limit on open files"
                    );
                }
                Ok(AcceptResult::None) => {
                    self.accepting.remove(due);
                    if self.accepting.is_empty() {
                        self.resume_watching(now_ms);
                    }
                }
                Err(error) => {
                    log::error!("cannot accept connections, will retry: {error}");
                    self.accepting[due].1 = now_ms + ACCEPT_PAUSE_MS;
                }
            }
        }
        None
    }

    /// Handles the case that no connection is pending: makes sure that the next one is noticed.
    fn resume_watching(&mut self, now_ms: u64) {
        let accepted_count = std::mem::take(&mut self.accepted_count);
        if self.accept_burst.is_active() {
            if self.accept_burst.record_poll(accepted_count) && self.short_timer.set(POLL_INTERVAL_US) {
                return;
            }
            self.accept_burst.end();
            if let Err(error) = self.watch() {
                log::error!("cannot register a listener for events: {error}");
            }
        } else if self.accept_burst.record_connections(accepted_count, now_ms) {
            if self.short_timer.set(POLL_INTERVAL_US) {
                self.unwatch();
            } else {
                self.accept_burst.end();
            }
        }
    }

    /// Registers the listeners, which then report new connections and those that arrived since they last did.
    fn watch(&mut self) -> std::io::Result<()> {
        for (at, listener) in self.listeners.iter_mut().enumerate() {
            self.registry.register(listener.source(), Token(self.first_token + at), Interest::READABLE)?;
        }
        Ok(())
    }

    fn unwatch(&mut self) {
        for listener in &mut self.listeners {
            // Events of a listener that stays registered are ignored.
            let _ = self.registry.deregister(listener.source());
        }
    }

    /// Replaces the listeners.
    pub(crate) fn replace(&mut self, planned: Vec<PlannedListener>, now_ms: u64) {
        self.unwatch();
        self.listeners = PlannedListener::take_all(planned, std::mem::take(&mut self.listeners));
        if !self.accept_burst.is_active()
            && let Err(error) = self.watch()
        {
            log::error!("cannot register a listener for events: {error}");
        }
        // Connections may be pending already.
        self.accepting = (0..self.listeners.len()).map(|at| (at, now_ms)).collect();
    }

    /// Stops accepting connections.
    pub(crate) fn close(&mut self) {
        self.listeners.clear();
        self.accepting.clear();
        self.accept_burst.end();
    }
}
