//! The authenticated identity of a client.

use std::fmt;
use std::sync::Arc;

/// The authenticated identity of a client.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Principal {
    /// The user; `None` for an anonymous client.
    pub user: Option<Arc<str>>,
    /// The Client Identifier that authentication assigns, whatever the client requested; `None` leaves it to the client.
    pub client_id: Option<Arc<str>>,
    /// Names and values of verified claims, for access rules. A name may occur several times.
    pub claims: Claims,
    /// Names of roles, in addition to those of the access rules.
    pub roles: Box<[Box<str>]>,
    /// When it expires, in seconds since 1970. The client must re-authenticate before.
    pub expires_at_unix_s: Option<u64>,
    /// The backend that authenticated it, for log and metrics.
    pub backend: &'static str,
}

/// Names and values.
pub type Claims = Box<[(Box<str>, Box<str>)]>;

/// Shows only the names of claims: their values may be personal data.
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
