//! Authentication backends.

use std::sync::Arc;

use crate::decision::BackendDecision;
use crate::jwt::looks_like_a_token;
use crate::password_file::PasswordHash;
use crate::scram::{ScramChallenge, ScramServer};
use crate::work::AuthJob;
use crate::{AuthAttempt, CertificateRules, Hook, Jwt, Now, PasswordFile, Principal, ScramHash, Settings};

/// An authentication backend.
#[derive(Debug, Clone)]
pub enum AuthBackend {
    /// Clients without credentials.
    Anonymous(Anonymous),
    /// Users with passwords, in a file.
    PasswordFile(Arc<PasswordFile>),
    /// Holders of certificates.
    Certificate(Arc<CertificateRules>),
    /// Clients with tokens: in the password, or as the data of the Authentication Method [`JWT_METHOD`].
    Jwt(Arc<Jwt>),
    /// Clients that a service of the operator knows.
    Hook(Arc<Hook>),
}

/// The Authentication Method for tokens, in CONNECT and to re-authenticate before the token expires.
pub const JWT_METHOD: &str = "JWT";

/// Which clients are accepted as anonymous.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Anonymous {
    /// Those without user name, password and method. A client with any of them must be known to another backend.
    #[default]
    WithoutCredentials,
    /// All. User name and password are ignored, and the client is anonymous in any case.
    Everybody,
}

/// The response of a backend.
pub(crate) enum BackendResponse {
    Decided(BackendDecision),
    /// The backend does not know the user. A known one would cost this work.
    UnknownUser(Decoy),
    NeedsWork(AuthJob),
    Challenge(ScramChallenge),
}

/// The work that is done for an unknown user, so that it cannot be distinguished from a known one.
pub(crate) enum Decoy {
    Hash(PasswordHash),
    /// The client is challenged, and refused whatever it responds.
    Exchange(ScramChallenge),
}

impl AuthBackend {
    /// Asks the backend about an attempt. Does no long work.
    pub(crate) fn ask(&self, attempt: &AuthAttempt, nonce: &str, settings: &Settings, now: Now) -> BackendResponse {
        match self {
            AuthBackend::Anonymous(who) => {
                let has_no_credentials = attempt.user_name.is_none() && attempt.password.is_none();
                let is_mine = attempt.method.is_none() && (has_no_credentials || *who == Anonymous::Everybody);
                match is_mine {
                    true => Principal { backend: "anonymous", ..Principal::default() }.into(),
                    false => BackendResponse::UNKNOWN,
                }
            }
            AuthBackend::PasswordFile(file) => ask_password_file(file, attempt, nonce, settings),
            AuthBackend::Certificate(rules) => match (&attempt.method, &attempt.origin.certificate) {
                (None, Some(certificate)) => {
                    rules.principal(certificate).map_or_else(BackendResponse::from, BackendResponse::from)
                }
                _ => BackendResponse::UNKNOWN,
            },
            AuthBackend::Jwt(jwt) => {
                let token = match attempt.method.as_deref() {
                    Some(JWT_METHOD) => attempt.data.as_ref(),
                    Some(_) => None,
                    None => attempt.password.as_ref().filter(|password| looks_like_a_token(password.expose())),
                };
                match token {
                    Some(token) => {
                        BackendResponse::NeedsWork(AuthJob::Token { jwt: jwt.clone(), token: token.clone() })
                    }
                    None => BackendResponse::UNKNOWN,
                }
            }
            AuthBackend::Hook(_) if attempt.method.is_some() => BackendResponse::UNKNOWN,
            AuthBackend::Hook(hook) => {
                let cached = hook.cached(attempt, now).map(BackendResponse::Decided);
                cached.unwrap_or_else(|| BackendResponse::NeedsWork(AuthJob::Hook(hook.clone())))
            }
        }
    }
}

fn ask_password_file(file: &PasswordFile, attempt: &AuthAttempt, nonce: &str, settings: &Settings) -> BackendResponse {
    if let Some(hash) = attempt.method.as_deref().and_then(ScramHash::of_method) {
        let data = attempt.data.as_ref().map_or(&[][..], |data| data.expose());
        return match ScramServer::begin(hash, file, data, attempt.user_name.as_deref(), nonce, &settings.key) {
            Ok(challenge) if challenge.is_user_known => BackendResponse::Challenge(challenge),
            Ok(challenge) => BackendResponse::UnknownUser(Decoy::Exchange(challenge)),
            Err(refusal) => refusal.into(),
        };
    }
    let (None, Some(name), Some(password)) = (&attempt.method, &attempt.user_name, &attempt.password) else {
        return BackendResponse::UNKNOWN;
    };
    let Some(account) = file.user(name) else {
        return BackendResponse::UnknownUser(Decoy::Hash(file.decoy(&settings.key, name)));
    };
    let principal = Principal { user: Some((&**name).into()), backend: "password_file", ..Principal::default() };
    let verified = &settings.verified;
    let fingerprint = verified.fingerprint(name, &account.password, password.expose());
    if fingerprint.as_ref().is_some_and(|fingerprint| verified.has(fingerprint)) {
        return principal.into();
    }
    let (hash, password) = (account.password.clone(), password.clone());
    let note = fingerprint.map(|fingerprint| (verified.clone(), fingerprint));
    BackendResponse::NeedsWork(AuthJob::Password { hash, password, principal, note })
}

impl BackendResponse {
    const UNKNOWN: BackendResponse = BackendResponse::Decided(BackendDecision::Unknown);
}

impl<D: Into<BackendDecision>> From<D> for BackendResponse {
    fn from(decision: D) -> BackendResponse {
        BackendResponse::Decided(decision.into())
    }
}
