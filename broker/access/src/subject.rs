//! Who somebody is.

/// Who asks: what is known of a client when its CONNECT has been authenticated. None of it is believed to be more than text;
/// who hands it over vouches for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Subject<'a> {
    /// The Client Identifier, also where the broker has assigned it. Clients choose theirs, unless authentication ties it to
    /// the user.
    pub client_id: &'a str,
    /// The authenticated user; `None` for an anonymous client. Never a user name that nobody has checked.
    pub user: Option<&'a str>,
    /// The name of the listener that the client came by.
    pub listener: &'a str,
    /// Names and values that authentication has vouched for: claims of a token, fields of a certificate. A name may come several
    /// times.
    pub claims: &'a [(&'a str, &'a str)],
    /// Names of roles that authentication gives, beside those that the rule file gives. A name that the file does not have
    /// gives nothing: see [`crate::Policy::has_role`].
    pub roles: &'a [&'a str],
}

impl Subject<'_> {
    /// Who publishes by the admin API: nobody with a Client Identifier or a user, on a listener called `admin`.
    pub const ADMIN: Subject<'static> =
        Subject { client_id: "", user: None, listener: "admin", claims: &[], roles: &[] };
}

impl<'a> Subject<'a> {
    /// Whether a claim has this value, among others maybe.
    pub(crate) fn has_claim(&self, name: &str, value: &str) -> bool {
        self.claims.contains(&(name, value))
    }

    /// The value of a claim that has one value.
    pub(crate) fn only_claim(&self, name: &str) -> Option<&'a str> {
        let mut values = self.claims.iter().filter(|(known, _)| *known == name);
        let (_, value) = values.next()?;
        values.next().is_none().then_some(*value)
    }
}

/// Values of claims may be personal: only their names are shown.
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
