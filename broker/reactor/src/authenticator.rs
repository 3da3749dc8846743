//! Who finds out who clients are.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Weak};

use tautwire_engine::{AuthDecision, AuthProgress, AuthRequest, ConnectionId, ConnectionOrigin};

use crate::inbox::Inbox;

/// Finds out who clients are. There is one for all threads of the broker.
pub trait Authenticator: fmt::Debug + Send + Sync {
    /// Whether anybody from this address may connect at all. Called for each connection before anything is done for it.
    fn accepts_address(&self, address: IpAddr) -> bool;

    /// Counts what is done to find out who clients are, for as long as the broker lives. A client whose answer takes longer than the connect
    /// timeout keeps waiting while the count grows.
    fn progress(&self) -> Arc<AuthProgress>;

    /// Answers the question of a client from there at once, or takes it along with the ticket and answers later, from any thread. Called on a thread of
    /// the broker, so it may wait for nothing.
    fn ask(&self, origin: &ConnectionOrigin, question: AuthRequest, ticket: AuthResponder) -> Option<AuthDecision>;
}

/// Where the verdict on one client is given. If it is dropped, the client waits until `mqtt.connect_timeout_s` has passed without progress.
#[derive(Debug)]
pub struct AuthResponder {
    inbox: Arc<Inbox>,
    id: ConnectionId,
    /// Nobody but the connection keeps it.
    origin: Weak<ConnectionOrigin>,
}

impl AuthResponder {
    pub(crate) fn new(inbox: &Arc<Inbox>, id: ConnectionId, origin: &Arc<ConnectionOrigin>) -> AuthResponder {
        AuthResponder { inbox: inbox.clone(), id, origin: Arc::downgrade(origin) }
    }

    /// Whether the client is still there, as far as is known. Where it is not, finding out who it was is work for nobody.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.origin.strong_count() > 0
    }

    /// Gives the verdict. Where the client is gone, it goes to nobody.
    pub fn send_auth_decision(self, verdict: AuthDecision) {
        self.inbox.send_auth_decision(self.id, verdict);
    }
}
