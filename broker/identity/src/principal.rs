//! Who a client is.

use std::fmt;
use std::sync::Arc;

/// Who a client is, once that is known.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Principal {
    /// The user; `None` for an anonymous client.
    pub user: Option<Arc<str>>,
    /// The Client Identifier that the client has, whatever it says itself; `None` leaves it its own.
    pub client_id: Option<Arc<str>>,
    /// Names and values that authentication vouches for, for access rules. A name may come several times.
    pub claims: Claims,
    /// Names of roles, beside those that access rules give.
    pub roles: Box<[Box<str>]>,
    /// When this ends, in seconds since 1970. The client must have authenticated again by then.
    pub expires_at_unix_s: Option<u64>,
    /// Which link has vouched for it, for log and metrics.
    pub backend: &'static str,
}

/// Names and values.
pub type Claims = Box<[(Box<str>, Box<str>)]>;

/// Values of claims may be personal: only their names are shown.
impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let claims: Vec<&str> = self.claims.iter().map(|(name, _)| &**name).collect();
        f.debug_struct("Principal")
            .field("user", &self.user)
            .field("client_id", &self.client_id)
            .field("claims", &claims)
            .field("roles", &self.roles)
            .field("expires_at_unix_s", &self.expires_at_unix_s)
            .field("link", &self.backend)
            .finish()
    }
}
