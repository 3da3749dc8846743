//! Who a client is, kept for as long as it is connected.

use std::fmt;
use std::sync::Arc;

use crate::subject::Subject;

/// Who a client is, once that has been found out. Clients of one user may share what they have in common.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The name of the listener that the client came by.
    pub listener: Arc<str>,
    /// The authenticated user; `None` for an anonymous client.
    pub user: Option<Arc<str>>,
    /// The Client Identifier that authentication gives, whatever the client calls itself.
    pub client_id: Option<Arc<str>>,
    /// Names and values that authentication has vouched for.
    pub claims: Box<[(Box<str>, Box<str>)]>,
    /// Names of roles that authentication gives.
    pub roles: Box<[Box<str>]>,
    /// When it ends, in milliseconds since the Unix epoch, where it does: the client is disconnected unless it has
    /// authenticated again.
    pub ends_at_ms: Option<u64>,
    /// What has vouched for it.
    pub by: &'static str,
}

impl Identity {
    /// Somebody of whom no more is known than the listener.
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

    /// Calls `ask` with what rules know of a client with this identity.
    pub fn as_subject<T>(&self, client_id: &str, ask: impl FnOnce(&Subject<'_>) -> T) -> T {
        let claims: Vec<(&str, &str)> = self.claims.iter().map(|(name, value)| (&**name, &**value)).collect();
        let roles: Vec<&str> = self.roles.iter().map(|role| &**role).collect();
        let listener = &*self.listener;
        ask(&Subject { client_id, user: self.user.as_deref(), listener, claims: &claims, roles: &roles })
    }
}

/// Values of claims may be personal: only their names are shown.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_subject(self.client_id.as_deref().unwrap_or_default(), |subject| subject.fmt(f))
    }
}
