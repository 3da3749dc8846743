//! Where connections come in: the listening sockets of a thread.

use std::sync::Arc;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use tautwire_engine::{AuthState, ConnectionListener, ConnectionOrigin, Counters, Peer};
use tautwire_session::AckLevel;

use crate::connections::Layers;
use crate::doorkeeper::Doorkeeper;
use crate::listener::{Accepted, Listener, Placed, Reserve, accept};
use crate::rush::{LOOK_AFTER_US, Rush};
use crate::ticker::Ticker;

/// Connections accepted in one turn, so that a storm of them leaves time for those that are there.
const ACCEPTS_MAX: usize = 8;
/// After an error of accepting that is nobody's fault, how long until the next attempt.
const ACCEPT_PAUSE_MS: u64 = 100;

#[derive(Debug)]
pub(crate) struct Door {
    listeners: Vec<Listener>,
    doorkeeper: Option<Arc<dyn Doorkeeper>>,
    registry: Registry,
    first_token: usize,
    /// Listeners that may have connections, with the moment of the next attempt.
    accepting: Vec<(usize, u64)>,
    accepts_left: usize,
    /// Connections accepted in this turn, or since the last look of a rush began.
    taken: u32,
    reserve: Reserve,
    rush: Rush,
    ticker: Ticker,
}

/// Somebody who comes in.
#[derive(Debug)]
pub(crate) struct Newcomer {
    pub(crate) stream: TcpStream,
    /// Where it comes from.
    pub(crate) origin: Arc<ConnectionOrigin>,
    /// What stands between it and MQTT.
    pub(crate) layers: Option<Box<Layers>>,
    /// What acknowledgements wait for.
    pub(crate) ack_level: AckLevel,
    /// Who the client is, as far as another thread has found out.
    pub(crate) standing: Option<Box<AuthState>>,
}

impl Newcomer {
    /// Whether a handshake of TLS is to come.
    pub(crate) fn is_by_tls(&self) -> bool {
        self.layers.as_ref().is_some_and(|layers| layers.is_shaking())
    }
}

impl Door {
    /// Listener number n reports with the token `first_token + n`, and the ticker with `tick`.
    ///
    /// # Errors
    /// A listener cannot be watched, or there is no timer.
    pub(crate) fn new(
        listeners: Vec<Listener>,
        registry: Registry,
        first_token: usize,
        tick: Token,
        doorkeeper: Option<Arc<dyn Doorkeeper>>,
    ) -> std::io::Result<Door> {
        let ticker = Ticker::new(&registry, tick)?;
        let mut door = Door {
            listeners,
            doorkeeper,
            registry,
            first_token,
            accepting: Vec::new(),
            accepts_left: 0,
            taken: 0,
            reserve: Reserve::new(),
            rush: Rush::new(),
            ticker,
        };
        door.watch()?;
        Ok(door)
    }

    /// Who says which addresses may come.
    pub(crate) fn doorkeeper(&self) -> Option<&Arc<dyn Doorkeeper>> {
        self.doorkeeper.as_ref()
    }

    /// To be called before each turn.
    pub(crate) fn begin_turn(&mut self) {
        self.accepts_left = ACCEPTS_MAX;
    }

    /// Somebody waits at a listener.
    pub(crate) fn knock(&mut self, listener: usize, now_ms: u64) {
        if !self.rush.is_on() {
            self.accepting.push((listener, now_ms));
        }
    }

    /// It is time to look at the listeners.
    pub(crate) fn tick(&mut self, now_ms: u64) {
        if self.rush.is_on() && self.accepting.is_empty() {
            self.taken = 0;
            self.accepting.extend((0..self.listeners.len()).map(|at| (at, now_ms)));
        }
    }

    /// Whether those whom this thread lets in now have probably said something already.
    pub(crate) fn is_rush(&self) -> bool {
        self.rush.is_on()
    }

    /// Whether somebody may be let in now.
    pub(crate) fn has_work(&self, now_ms: u64) -> bool {
        self.accepting.iter().any(|(_, at_ms)| *at_ms <= now_ms)
    }

    /// When it is to be tried again.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        self.accepting.iter().map(|(_, at_ms)| *at_ms).min()
    }

    /// The next one who waits, if this turn lets in any more.
    pub(crate) fn next(&mut self, now_ms: u64, counters: &Counters) -> Option<Newcomer> {
        while self.accepts_left > 0 {
            let due = self.accepting.iter().position(|(_, at_ms)| *at_ms <= now_ms)?;
            let (at, _) = self.accepting[due];
            self.accepts_left -= 1;
            match accept(&self.listeners[at], &mut self.reserve) {
                Ok(Accepted::Connection(stream, peer)) => {
                    self.taken += 1;
                    let listener = &self.listeners[at];
                    let gate = &listener.gate;
                    if let (Peer::Network { ip, .. }, Some(doorkeeper)) = (peer, &self.doorkeeper)
                        && !doorkeeper.lets_in(ip)
                    {
                        counters.connections_refused_banned.add(1);
                        log::info!(listener = &**gate.name(), address = &*peer.to_string(); "refused connection: the address is banned");
                        continue;
                    }
                    if gate.arrive(peer, counters, now_ms).is_err() {
                        continue;
                    }
                    log::debug!("listener {}: a connection from {peer}", gate.name());
                    let ack_level = listener.ack_level;
                    let origin = Arc::new(ConnectionOrigin::new(gate.clone(), peer));
                    match listener.layers() {
                        Ok(layers) => return Some(Newcomer { stream, origin, layers, ack_level, standing: None }),
                        Err(failure) => log::error!("a connection by TLS cannot be made: {failure}"),
                    }
                }
                Ok(Accepted::Refused) => {
                    counters.connections_refused.add(1);
                    log::warn!(
                        listener = &**self.listeners[at].gate.name();
                        "refused connection: no file descriptor is free; raise the limit on open files"
                    );
                }
                Ok(Accepted::None) => {
                    self.accepting.remove(due);
                    if self.accepting.is_empty() {
                        self.rest(now_ms);
                    }
                }
                Err(error) => {
                    log::error!("connections cannot be accepted: {error}");
                    self.accepting[due].1 = now_ms + ACCEPT_PAUSE_MS;
                }
            }
        }
        None
    }

    /// Nobody waits any more. Sees to it that whoever comes next is noticed.
    fn rest(&mut self, now_ms: u64) {
        let taken = std::mem::take(&mut self.taken);
        if self.rush.is_on() {
            if self.rush.looked(taken) && self.ticker.set(LOOK_AFTER_US) {
                return;
            }
            self.rush.end();
            if let Err(error) = self.watch() {
                log::error!("a listener cannot be watched: {error}");
            }
        } else if self.rush.came(taken, now_ms) {
            if self.ticker.set(LOOK_AFTER_US) {
                self.look_away();
            } else {
                self.rush.end();
            }
        }
    }

    /// Has the listeners report whoever comes, and who has come since they did so last.
    fn watch(&mut self) -> std::io::Result<()> {
        for (at, listener) in self.listeners.iter_mut().enumerate() {
            self.registry.register(listener.source(), Token(self.first_token + at), Interest::READABLE)?;
        }
        Ok(())
    }

    fn look_away(&mut self) {
        for listener in &mut self.listeners {
            // One that reports nevertheless is not listened to.
            let _ = self.registry.deregister(listener.source());
        }
    }

    /// From now on these listeners are there.
    pub(crate) fn replace(&mut self, placed: Vec<Placed>, now_ms: u64) {
        self.look_away();
        self.listeners = Placed::take_all(placed, std::mem::take(&mut self.listeners));
        if !self.rush.is_on()
            && let Err(error) = self.watch()
        {
            log::error!("a listener cannot be watched: {error}");
        }
        // Somebody may wait already.
        self.accepting = (0..self.listeners.len()).map(|at| (at, now_ms)).collect();
    }

    /// Nobody is let in any more.
    pub(crate) fn close(&mut self) {
        self.listeners.clear();
        self.accepting.clear();
        self.rush.end();
    }
}
