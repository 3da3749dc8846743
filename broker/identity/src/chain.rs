//! The authentication chain of a listener.

use std::sync::Arc;

use crate::limits::{BACKENDS_MAX, CLIENT_ID_BYTES_MAX};
use crate::text::shown;
use crate::{
    Anonymous, AuthAttempt, AuthBackend, BanTarget, JWT_METHOD, Now, Principal, Refusal, RefusalCode, Settings,
};

/// The authentication backends of a listener, in order. The first that accepts or refuses a client decides. If each of them does not know
/// the client, it is refused.
#[derive(Debug)]
pub struct Chain {
    backends: Box<[AuthBackend]>,
    settings: Settings,
}

impl Chain {
    /// A chain of at most [`BACKENDS_MAX`] backends; `None` if there are more.
    #[must_use]
    pub fn new(backends: Vec<AuthBackend>, settings: Settings) -> Option<Chain> {
        (backends.len() <= BACKENDS_MAX).then(|| Chain { backends: backends.into(), settings })
    }

    /// A chain that accepts everybody as anonymous.
    #[must_use]
    pub fn open() -> Chain {
        let settings =
            Settings { allows_plain_passwords: true, key: [0; 32], bans: Arc::default(), verified: Arc::default() };
        Chain { backends: [AuthBackend::Anonymous(Anonymous::Everybody)].into(), settings }
    }

    pub(crate) fn backend(&self, at: usize) -> Option<&AuthBackend> {
        self.backends.get(at)
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Checks that apply to every attempt.
    pub(crate) fn check(&self, attempt: &AuthAttempt, now: Now) -> Result<(), Refusal> {
        if let Some(who) = self.settings.bans.find(attempt, now) {
            return Err(banned(&who));
        }
        if attempt.has_secret() && attempt.origin.is_exposed() && !self.settings.allows_plain_passwords {
            let log = format!(
                "a password or a token was sent unencrypted on listener {}; use TLS, or allow it for this listener",
                attempt.origin.listener
            );
            return Err(Refusal::new(RefusalCode::PlainPassword, log));
        }
        if attempt.origin.certificate.as_ref().is_some_and(|certificate| certificate.has_expired(now)) {
            let log = "the client's certificate has expired since the TLS session that was resumed";
            return Err(Refusal::new(RefusalCode::CertificateExpired, log));
        }
        Ok(())
    }

    /// A principal must be within the limits and not banned.
    pub(crate) fn admit(&self, attempt: &AuthAttempt, principal: Principal, now: Now) -> Result<Principal, Refusal> {
        if principal.client_id.as_ref().is_some_and(|id| id.is_empty() || id.len() > CLIENT_ID_BYTES_MAX) {
            let log = format!("the client identifier assigned by {} is not valid", principal.backend);
            return Err(Refusal::new(RefusalCode::ClientId, log));
        }
        let principal = with_peer(principal, attempt.origin.peer_uid);
        let user = principal.user.as_deref().map(|user| BanTarget::User(user.into()));
        let client_id = principal.client_id.as_deref().map(|id| BanTarget::ClientId(id.into()));
        match [user, client_id].into_iter().flatten().find(|who| self.settings.bans.has(who, now)) {
            Some(who) => Err(banned(&who)),
            None => Ok(principal),
        }
    }

    /// Counts a failed attempt, which may lead to bans. Returns the refusal with the bans in its log text.
    pub(crate) fn refuse(&self, attempt: &AuthAttempt, mut refusal: Refusal, now: Now) -> Refusal {
        if refusal.code.counts_as_failure() {
            for who in self.settings.bans.failed(attempt, now) {
                refusal.log.to_mut().push_str(&format!("; {who} is banned after too many failures"));
            }
        }
        refusal
    }
}

impl AuthAttempt {
    /// Whether the attempt contains a replayable secret. SCRAM messages are none.
    fn has_secret(&self) -> bool {
        self.password.is_some() || self.method.as_deref() == Some(JWT_METHOD)
    }

    /// The reason to refuse if no backend knows the client.
    pub(crate) fn unknown(&self) -> Refusal {
        if let Some(method) = &self.method {
            let log = format!("authentication method {} is not supported", shown(method));
            return Refusal::new(RefusalCode::UnknownMethod, log);
        }
        match (&self.user_name, &self.password) {
            (None, None) => Refusal::new(
                RefusalCode::NoCredentials,
                format!(
                    "the client has no credentials, and listener {} does not accept anonymous clients",
                    self.origin.listener
                ),
            ),
            (Some(name), None) => {
                Refusal::new(RefusalCode::NoPassword, format!("user {} sent no password", shown(name)))
            }
            (Some(name), Some(_)) => {
                Refusal::new(RefusalCode::UnknownUser, format!("there is no user {}", shown(name)))
            }
            (None, Some(_)) => Refusal::new(RefusalCode::UnknownUser, "a password without a user name"),
        }
    }
}

/// The claim with the user ID of the peer on a Unix socket.
const PEER_CLAIM: &str = "peer_uid";

/// Adds the claim that only the system can set: a token cannot set it.
fn with_peer(mut principal: Principal, peer_uid: Option<u32>) -> Principal {
    if peer_uid.is_some() || principal.claims.iter().any(|(name, _)| &**name == PEER_CLAIM) {
        let mut claims = principal.claims.into_vec();
        claims.retain(|(name, _)| &**name != PEER_CLAIM);
        claims.extend(peer_uid.map(|uid| (PEER_CLAIM.into(), uid.to_string().into())));
        principal.claims = claims.into();
    }
    principal
}

fn banned(who: &BanTarget) -> Refusal {
    Refusal::new(RefusalCode::Banned, format!("{who} is banned"))
}
