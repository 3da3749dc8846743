//! The layers between a socket and MQTT.

use std::sync::Arc;

use tautwire_memory::{Charge, Kind, MemoryLedger};
use tautwire_tls::Tls;
use tautwire_websocket::WebSocket;

use super::handshakes::HandshakeWait;
use crate::accept_limiter::AcceptLimiter;

/// The PROXY header, TLS and WebSocket, or some of them, from the network up. Migrates with its socket between threads.
#[derive(Debug)]
pub(crate) struct Layers {
    /// A PROXY header is expected; this limiter decides about the client that it names.
    pub(super) awaits_proxy_header: Option<Arc<AcceptLimiter>>,
    pub(crate) tls: Option<Box<Tls>>,
    pub(crate) websocket: Option<Box<WebSocket>>,
    /// What the TLS handshake waits for.
    pub(super) due: HandshakeWait,
    /// The memory charged to the ledger of the current thread.
    charge: Option<Charge>,
}

impl Layers {
    /// Returns `None` if there are no layers.
    pub(crate) fn new(
        awaits_proxy_header: Option<Arc<AcceptLimiter>>,
        tls: Option<Tls>,
        websocket: Option<WebSocket>,
    ) -> Option<Box<Layers>> {
        let (tls, websocket) = (tls.map(Box::new), websocket.map(Box::new));
        let layers = Layers { awaits_proxy_header, tls, websocket, due: HandshakeWait::default(), charge: None };
        (!layers.is_empty()).then(|| Box::new(layers))
    }

    /// Whether there are no layers.
    pub(super) fn is_empty(&self) -> bool {
        self.awaits_proxy_header.is_none() && self.tls.is_none() && self.websocket.is_none()
    }

    /// Whether a TLS handshake is in progress, whose steps are expensive.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Records that the client has sent data during the handshake.
    pub(super) fn record_input(&mut self) {
        self.due.has_input = true;
    }

    /// Records that the client's handshake data was processed.
    pub(super) fn record_progress(&mut self, now_ms: u64) {
        self.due.has_input = false;
        // The client got an answer, and has to send the next message.
        if self.tls.as_ref().is_some_and(|tls| tls.has_output()) {
            self.due.since_ms = now_ms;
        }
    }

    /// Charges the layers to the ledger of their new thread.
    pub(super) fn enter(&mut self, ledger: &Arc<MemoryLedger>) {
        self.charge = Some(Charge::new(ledger, Kind::Transport));
        self.update_charge();
    }

    /// Uncharges the layers, which leave their thread.
    pub(super) fn leave(&mut self) {
        self.charge = None;
    }

    /// Updates the charge to the current size.
    pub(super) fn update_charge(&mut self) {
        // The origin of the connection has a copy of the certificate.
        let certificate_bytes = |tls: &Tls| tls.client_certificate().map_or(0, <[u8]>::len);
        let tls_bytes = self.tls.as_ref().map_or(0, |tls| tls.held_bytes() + certificate_bytes(tls));
        let websocket_bytes = if self.websocket.is_some() { size_of::<WebSocket>() } else { 0 };
        if let Some(charge) = &mut self.charge {
            charge.set(size_of::<Layers>() + tls_bytes + websocket_bytes);
        }
    }
}
