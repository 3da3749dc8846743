//! Where connections come in: the listening sockets of a thread.

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use tautwire_engine::Counters;
use tautwire_websocket::WebSocket;

use crate::listener::{Accepted, Listener, Reserve, accept};

/// Connections accepted from one listener in one turn, so that a storm of them leaves time for those that are there.
const ACCEPTS_MAX: usize = 64;
/// After an error of accepting that is nobody's fault, how long until the next attempt.
const ACCEPT_PAUSE_MS: u64 = 100;

#[derive(Debug)]
pub(crate) struct Door {
    listeners: Vec<Listener>,
    /// Listeners that may have more connections than one turn took, with the moment of the next attempt.
    accepting: Vec<(usize, u64)>,
    reserve: Reserve,
}

impl Door {
    /// Listener number n reports with the token `first_token + n`.
    ///
    /// # Errors
    /// A listener cannot be watched.
    pub(crate) fn new(mut listeners: Vec<Listener>, registry: &Registry, first_token: usize) -> std::io::Result<Door> {
        for (at, listener) in listeners.iter_mut().enumerate() {
            registry.register(&mut listener.socket, Token(first_token + at), Interest::READABLE)?;
        }
        Ok(Door { listeners, accepting: Vec::new(), reserve: Reserve::new() })
    }

    pub(crate) fn has_listeners(&self) -> bool {
        !self.listeners.is_empty()
    }

    /// Somebody waits at a listener.
    pub(crate) fn knock(&mut self, listener: usize, now_ms: u64) {
        self.accepting.push((listener, now_ms));
    }

    /// When it is to be tried again.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        self.accepting.iter().map(|(_, at_ms)| *at_ms).min()
    }

    /// Lets in those who wait, some of them in this turn.
    pub(crate) fn accept(&mut self, now_ms: u64, counters: &Counters) -> Vec<(TcpStream, Option<Box<WebSocket>>)> {
        let mut accepted = Vec::new();
        for (at, not_before_ms) in std::mem::take(&mut self.accepting) {
            if not_before_ms > now_ms {
                self.accepting.push((at, not_before_ms));
            } else if let Some(again_ms) = self.accept_from(at, now_ms, counters, &mut accepted) {
                self.accepting.push((at, again_ms));
            }
        }
        accepted
    }

    /// Says when it is to be tried again.
    fn accept_from(
        &mut self,
        at: usize,
        now_ms: u64,
        counters: &Counters,
        accepted: &mut Vec<(TcpStream, Option<Box<WebSocket>>)>,
    ) -> Option<u64> {
        for _ in 0..ACCEPTS_MAX {
            match accept(&self.listeners[at].socket, &mut self.reserve) {
                Ok(Accepted::Connection(stream, peer)) => {
                    log::trace!("connection from {peer}");
                    counters.connections_accepted.add(1);
                    accepted.push((stream, self.listeners[at].websocket()));
                }
                Ok(Accepted::Refused) => {
                    counters.connections_refused.add(1);
                    log::warn!("a connection was refused: no file descriptor is free; raise the limit on open files");
                }
                Ok(Accepted::None) => return None,
                Err(error) => {
                    log::error!("connections cannot be accepted: {error}");
                    return Some(now_ms + ACCEPT_PAUSE_MS);
                }
            }
        }
        Some(now_ms)
    }

    /// Nobody is let in any more.
    pub(crate) fn close(&mut self) {
        self.listeners.clear();
        self.accepting.clear();
    }
}
