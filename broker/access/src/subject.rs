//! The client that a request is from.

/// What is known of a client after its CONNECT has been authenticated. Values are treated only as text; the caller vouches for them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Subject<'a> {
    /// The Client Identifier, even if the broker assigned it. Clients choose theirs, unless authentication ties it to the user.
    pub client_id: &'a str,
    /// The authenticated user; `None` for an anonymous client. Never an unverified user name.
    pub user: Option<&'a str>,
    /// The name of the listener that the client connected to.
    pub listener: &'a str,
    /// Names and values of verified claims: claims of a token, fields of a certificate. A name may occur several times.
    pub claims: &'a [(&'a str, &'a str)],
    /// Names of roles that authentication grants, in addition to those of the rule file. A name that is not in the file has no effect: see
    /// [`crate::Policy::has_role`].
    pub roles: &'a [&'a str],
}

impl Subject<'_> {
    /// The publisher of messages from the admin API: without Client Identifier and user, on a listener called `admin`.
    pub const ADMIN: Subject<'static> =
        Subject { client_id: "", user: None, listener: "admin", claims: &[], roles: &[] };
}

impl<'a> Subject<'a> {
    /// Whether one of the values of a claim is this.
    pub(crate) fn has_claim(&self, name: &str, value: &str) -> bool {
        self.claims.contains(&(name, value))
    }

    /// The value of a claim that has exactly one value.
    pub(crate) fn only_claim(&self, name: &str) -> Option<&'a str> {
        let mut values = self.claims.iter().filter(|(known, _)| *known == name);
        let (_, value) = values.next()?;
        values.next().is_none().then_some(*value)
    }
}

/// Shows only the names of claims: their values may be personal data.
impl std::fmt::Debug for Subject<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let claims: Vec<&str> = self.claims.iter().map(|(name, _)| *name).collect();
        f.debug_struct("Subject")
            .field("client_id", &self.client_id)
            .field("user", &self.user)
            .field("listener", &self.listener)
            .field("claims", &claims)
            .field("roles", &self.roles)
            .finish()
    }
}
