//! What stands between a socket and MQTT.

use std::sync::Arc;

use tautwire_memory::{Charge, Kind, MemoryLedger};
use tautwire_tls::Tls;
use tautwire_websocket::WebSocket;

use super::handshakes::HandshakeWait;
use crate::accept_limiter::AcceptLimiter;

/// The header of a proxy, TLS and WebSocket, or some of them, from the network up. It moves with its socket from thread to thread.
#[derive(Debug)]
pub(crate) struct Layers {
    /// A proxy is to say first whom it speaks for, whom this gate may not let in.
    pub(super) awaits_proxy_header: Option<Arc<AcceptLimiter>>,
    pub(crate) tls: Option<Box<Tls>>,
    pub(crate) websocket: Option<Box<WebSocket>>,
    /// What the handshake of TLS waits for.
    pub(super) due: HandshakeWait,
    /// What they take, on the thread where they are.
    charge: Option<Charge>,
}

impl Layers {
    /// `None` where nothing is between.
    pub(crate) fn new(
        awaits_proxy_header: Option<Arc<AcceptLimiter>>,
        tls: Option<Tls>,
        websocket: Option<WebSocket>,
    ) -> Option<Box<Layers>> {
        let (tls, websocket) = (tls.map(Box::new), websocket.map(Box::new));
        let layers = Layers { awaits_proxy_header, tls, websocket, due: HandshakeWait::default(), charge: None };
        (!layers.is_empty()).then(|| Box::new(layers))
    }

    /// Whether nothing is between.
    pub(super) fn is_empty(&self) -> bool {
        self.awaits_proxy_header.is_none() && self.tls.is_none() && self.websocket.is_none()
    }

    /// Whether the handshake of TLS goes on, whose steps take a processor long.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// The client has sent something that is to be looked at, while the handshake goes on.
    pub(super) fn record_input(&mut self) {
        self.due.has_input = true;
    }

    /// What the client has sent of the handshake has been looked at.
    pub(super) fn record_progress(&mut self, now_ms: u64) {
        self.due.has_input = false;
        // It has got an answer, and has the next part to send.
        if self.tls.as_ref().is_some_and(|tls| tls.has_output()) {
            self.due.since_ms = now_ms;
        }
    }

    /// They are of the thread of this ledger now.
    pub(super) fn enter(&mut self, ledger: &Arc<MemoryLedger>) {
        self.charge = Some(Charge::new(ledger, Kind::Transport));
        self.update_charge();
    }

    /// They leave their thread.
    pub(super) fn leave(&mut self) {
        self.charge = None;
    }

    /// Enters what they take now.
    pub(super) fn update_charge(&mut self) {
        // The certificate stands in the origin of the connection, too.
        let certificate_bytes = |tls: &Tls| tls.client_certificate().map_or(0, <[u8]>::len);
        let tls_bytes = self.tls.as_ref().map_or(0, |tls| tls.held_bytes() + certificate_bytes(tls));
        let websocket_bytes = if self.websocket.is_some() { size_of::<WebSocket>() } else { 0 };
        if let Some(charge) = &mut self.charge {
            charge.set(size_of::<Layers>() + tls_bytes + websocket_bytes);
        }
    }
}
