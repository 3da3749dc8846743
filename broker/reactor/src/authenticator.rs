//! The interface to the authentication of clients.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Weak};

use tautwire_engine::{AuthDecision, AuthProgress, AuthRequest, ConnectionId, ConnectionOrigin};

use crate::inbox::Inbox;

/// Authenticates clients. One instance serves all threads of the broker.
pub trait Authenticator: fmt::Debug + Send + Sync {
    /// Whether this address may connect at all. Called for each connection before any work is done for it.
    fn accepts_address(&self, address: IpAddr) -> bool;

    /// Returns a counter of authentication work, which lives as long as the broker. A client whose decision takes longer than the connect
    /// timeout keeps waiting while the counter grows.
    fn progress(&self) -> Arc<AuthProgress>;

    /// Decides a client's request at once, or keeps it with the responder and decides later, on any thread. Called on a thread of the
    /// broker, so it must not block.
    fn ask(&self, origin: &ConnectionOrigin, request: AuthRequest, responder: AuthResponder) -> Option<AuthDecision>;
}

/// Delivers the decision for one client. If it is dropped, the client waits until `mqtt.connect_timeout_s` has passed without progress.
#[derive(Debug)]
pub struct AuthResponder {
    inbox: Arc<Inbox>,
    id: ConnectionId,
    /// Only the connection keeps the origin alive.
    origin: Weak<ConnectionOrigin>,
}

impl AuthResponder {
    pub(crate) fn new(inbox: &Arc<Inbox>, id: ConnectionId, origin: &Arc<ConnectionOrigin>) -> AuthResponder {
        AuthResponder { inbox: inbox.clone(), id, origin: Arc::downgrade(origin) }
    }

    /// Whether the client is still connected, as far as is known. If not, the decision is not needed.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.origin.strong_count() > 0
    }

    /// Sends the decision. Has no effect if the client is gone.
    pub fn send_auth_decision(self, decision: AuthDecision) {
        self.inbox.send_auth_decision(self.id, decision);
    }
}
