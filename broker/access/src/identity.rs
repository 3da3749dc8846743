//! The identity of a connected client.

use std::fmt;
use std::sync::Arc;

use crate::subject::Subject;

/// The identity of an authenticated client. Clients of one user may share its parts.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The name of the listener that the client connected to.
    pub listener: Arc<str>,
    /// The authenticated user; `None` for an anonymous client.
    pub user: Option<Arc<str>>,
    /// The Client Identifier that authentication assigns, whatever the client requested.
    pub client_id: Option<Arc<str>>,
    /// Names and values of verified claims.
    pub claims: Box<[(Box<str>, Box<str>)]>,
    /// Names of roles that authentication grants.
    pub roles: Box<[Box<str>]>,
    /// When it expires, in milliseconds since the Unix epoch, if ever: the client is disconnected unless it has re-authenticated.
    pub ends_at_ms: Option<u64>,
    /// The authentication backend that verified it.
    pub by: &'static str,
}

impl Identity {
    /// An anonymous client of a listener.
    #[must_use]
    pub fn anonymous(listener: Arc<str>) -> Identity {
        Identity {
            listener,
            user: None,
            client_id: None,
            claims: Box::default(),
            roles: Box::default(),
            ends_at_ms: None,
            by: "",
        }
    }

    /// Calls `ask` with the [`Subject`] of a client with this identity.
    pub fn as_subject<T>(&self, client_id: &str, ask: impl FnOnce(&Subject<'_>) -> T) -> T {
        let claims: Vec<(&str, &str)> = self.claims.iter().map(|(name, value)| (&**name, &**value)).collect();
        let roles: Vec<&str> = self.roles.iter().map(|role| &**role).collect();
        let listener = &*self.listener;
        ask(&Subject { client_id, user: self.user.as_deref(), listener, claims: &claims, roles: &roles })
    }
}

/// Shows only the names of claims: their values may be personal data.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_subject(self.client_id.as_deref().unwrap_or_default(), |subject| subject.fmt(f))
    }
}
