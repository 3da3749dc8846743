//! The authentication chain of a listener.

use std::sync::Arc;

use base64ct::{Base64, Encoding as _};

use crate::jwt::looks_like_a_token;
use crate::limits::{BACKENDS_MAX, CLIENT_ID_BYTES_MAX};
use crate::password_file::PasswordHash;
use crate::scram::ScramServer;
use crate::work::{AuthJob, AuthWork, AuthWorker};
use crate::{
    AuthAttempt, BanTarget, Bans, CertificateRules, Exchange, Hook, Jwt, Now, PasswordFile, Principal, Refusal,
    RefusalCode, ScramHash, VerifiedPasswords,
};

/// Random bytes in the server's SCRAM nonce.
const SCRAM_NONCE_BYTES: usize = 18;

/// The authentication backends of a listener, in order. The first that accepts or refuses a client decides. If each of them does not know
/// the client, it is refused.
#[derive(Debug)]
pub struct Chain {
    backends: Box<[AuthBackend]>,
    settings: Settings,
}

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

/// Settings of a whole chain.
#[derive(Clone)]
pub struct Settings {
    /// Whether a password or a token is accepted on a connection that others can read.
    pub allows_plain_passwords: bool,
    /// Random, created once per process: responses for unknown users must stay the same, or they could be recognised.
    pub key: [u8; 32],
    /// Bans, and the rules for automatic bans.
    pub bans: Arc<Bans>,
    /// Cache of verified passwords.
    pub verified: Arc<VerifiedPasswords>,
}

/// The system's random number generator failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RandomUnavailable;

/// The result of an authentication step.
#[derive(Debug)]
pub enum AuthStep {
    /// The client is authenticated.
    Admit {
        /// The authenticated principal.
        principal: Principal,
        /// Authentication Data for CONNACK, or for the AUTH that ends a re-authentication.
        data: Option<Vec<u8>>,
    },
    /// The client is refused.
    Refuse(Refusal),
    /// The step takes long: run it on a thread that may block.
    AuthWork(AuthWork),
    /// The client must respond: send it an AUTH with 0x18 [MQTT-4.12.0-2].
    Challenge {
        /// The Authentication Data of the AUTH.
        data: Vec<u8>,
        /// Continues with the client's response.
        exchange: Exchange,
    },
}

/// The response of a backend.
pub(crate) enum BackendResponse {
    Yes {
        principal: Principal,
        data: Option<Vec<u8>>,
    },
    No(Refusal),
    /// With the work that a known user would cost.
    Unknown(Option<Decoy>),
    /// The reason to refuse, unless another backend knows the client.
    UnknownBecause(Refusal),
    NeedsWork(AuthJob),
    Challenge {
        data: Vec<u8>,
        scram_server: Box<ScramServer>,
    },
}

/// The work that is done for an unknown user, so that it cannot be distinguished from a known one.
pub(crate) enum Decoy {
    Hash(PasswordHash),
    /// The client is challenged, and refused whatever it responds.
    Exchange {
        data: Vec<u8>,
        scram_server: Box<ScramServer>,
    },
}

/// An attempt in progress.
pub(crate) struct PendingAuth {
    attempt: AuthAttempt,
    /// The next backend to ask.
    at: usize,
    /// The work before a refusal: as much as if the first password file had known the user.
    decoy: Option<Decoy>,
    /// The server's part of the SCRAM nonce.
    nonce: String,
    /// The reason to refuse if no backend knows the client, if there is a specific one.
    refusal: Option<Refusal>,
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

    /// Starts an attempt. `random` fills a buffer with unpredictable bytes; if it fails, attempts that need them are refused.
    pub fn begin(
        self: &Arc<Self>,
        attempt: AuthAttempt,
        now: Now,
        random: &mut dyn FnMut(&mut [u8]) -> Result<(), RandomUnavailable>,
    ) -> AuthStep {
        let mut progress = PendingAuth { attempt, at: 0, decoy: None, nonce: String::new(), refusal: None };
        if let Err(refusal) = self.check(&progress.attempt, now) {
            return self.clone().refuse(progress, refusal, now);
        }
        if progress.attempt.method.is_some() {
            let mut bytes = [0; SCRAM_NONCE_BYTES];
            if random(&mut bytes).is_err() {
                let log = "the system's random number generator failed, so no challenge can be created";
                return self.clone().refuse(progress, Refusal::new(RefusalCode::NoRandom, log), now);
            }
            progress.nonce = Base64::encode_string(&bytes);
        }
        self.clone().ask(progress, now, None)
    }

    /// Checks that apply to every attempt.
    fn check(&self, attempt: &AuthAttempt, now: Now) -> Result<(), Refusal> {
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

    /// Asks the remaining backends. A worker may do long work inline.
    fn ask(self: Arc<Self>, mut progress: PendingAuth, now: Now, worker: Option<AuthWorker<'_>>) -> AuthStep {
        while let Some(backend) = self.backends.get(progress.at) {
            progress.at += 1;
            let mut response = backend.ask(&progress.attempt, &progress.nonce, &self.settings, now);
            if let BackendResponse::NeedsWork(job) = response {
                if matches!(job, AuthJob::Password { .. }) {
                    // It costs as much as the decoy would.
                    progress.decoy = None;
                }
                let Some(worker) = worker.filter(|worker| worker.is_for(&job)) else {
                    return AuthStep::AuthWork(AuthWork::new(self, progress, job));
                };
                response = job.run(&progress.attempt, worker.http_client, now);
            }
            match response {
                BackendResponse::Unknown(_) | BackendResponse::UnknownBecause(_) => progress.record(response),
                response => return self.continue_with(progress, response, now, worker),
            }
        }
        let refusal = progress.refusal.take().unwrap_or_else(|| progress.attempt.unknown());
        self.continue_with(progress, BackendResponse::No(refusal), now, worker)
    }

    /// Continues with the response of a backend.
    pub(crate) fn continue_with(
        self: Arc<Self>,
        mut progress: PendingAuth,
        response: BackendResponse,
        now: Now,
        worker: Option<AuthWorker<'_>>,
    ) -> AuthStep {
        match response {
            BackendResponse::Yes { principal, data } => match self.admit(&progress.attempt, principal, now) {
                Ok(principal) => AuthStep::Admit { principal, data },
                Err(refusal) => self.refuse(progress, refusal, now),
            },
            BackendResponse::No(refusal) => match (progress.decoy.take(), progress.attempt.password.take()) {
                (Some(Decoy::Hash(hash)), Some(password)) => {
                    let job = AuthJob::Decoy { hash, password, refusal };
                    match worker.filter(|worker| worker.is_for(&job)) {
                        Some(known) => {
                            let response = job.run(&progress.attempt, known.http_client, now);
                            self.continue_with(progress, response, now, worker)
                        }
                        None => AuthStep::AuthWork(AuthWork::new(self, progress, job)),
                    }
                }
                (Some(Decoy::Exchange { data, scram_server }), _) => {
                    AuthStep::Challenge { data, exchange: Exchange::new(self, progress, *scram_server) }
                }
                _ => self.refuse(progress, refusal, now),
            },
            BackendResponse::Unknown(_) | BackendResponse::UnknownBecause(_) => {
                progress.record(response);
                self.ask(progress, now, worker)
            }
            BackendResponse::NeedsWork(job) => AuthStep::AuthWork(AuthWork::new(self, progress, job)),
            BackendResponse::Challenge { data, scram_server } => {
                // The user is known, so its exchange is the only one.
                progress.decoy = None;
                AuthStep::Challenge { data, exchange: Exchange::new(self, progress, *scram_server) }
            }
        }
    }

    /// A principal must be within the limits and not banned.
    fn admit(&self, attempt: &AuthAttempt, principal: Principal, now: Now) -> Result<Principal, Refusal> {
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

    fn refuse(self: Arc<Self>, progress: PendingAuth, mut refusal: Refusal, now: Now) -> AuthStep {
        if refusal.code.counts_as_failure() {
            for who in self.settings.bans.failed(&progress.attempt, now) {
                refusal.log.to_mut().push_str(&format!("; {who} is banned after too many failures"));
            }
        }
        AuthStep::Refuse(refusal)
    }
}

impl PendingAuth {
    /// Whether a refusal costs another hash.
    pub(crate) fn has_decoy(&self) -> bool {
        self.decoy.is_some()
    }

    /// Records the user that the client claims to be, if the data of its method names it.
    pub(crate) fn set_user(&mut self, user: &str) {
        self.attempt.user_name.get_or_insert_with(|| user.into());
    }

    pub(crate) fn attempt(&self) -> &AuthAttempt {
        &self.attempt
    }

    /// Records the response of a backend that does not know the client.
    fn record(&mut self, response: BackendResponse) {
        match response {
            BackendResponse::Unknown(decoy) => self.decoy = self.decoy.take().or(decoy),
            BackendResponse::UnknownBecause(refusal) => self.refusal = self.refusal.take().or(Some(refusal)),
            _ => {}
        }
    }
}

impl AuthBackend {
    fn ask(&self, attempt: &AuthAttempt, nonce: &str, settings: &Settings, now: Now) -> BackendResponse {
        match self {
            AuthBackend::Anonymous(who) => {
                let has_no_credentials = attempt.user_name.is_none() && attempt.password.is_none();
                let is_mine = attempt.method.is_none() && (has_no_credentials || *who == Anonymous::Everybody);
                match is_mine {
                    true => BackendResponse::yes(Principal { backend: "anonymous", ..Principal::default() }),
                    false => BackendResponse::Unknown(None),
                }
            }
            AuthBackend::PasswordFile(file) => {
                if let Some(hash) = attempt.method.as_deref().and_then(ScramHash::of_method) {
                    let data = attempt.data.as_ref().map_or(&[][..], |data| data.expose());
                    return ScramServer::begin(hash, file, data, attempt.user_name.as_deref(), nonce, &settings.key);
                }
                let (None, Some(name), Some(password)) = (&attempt.method, &attempt.user_name, &attempt.password)
                else {
                    return BackendResponse::Unknown(None);
                };
                let Some(account) = file.user(name) else {
                    return BackendResponse::Unknown(Some(Decoy::Hash(file.decoy(&settings.key, name))));
                };
                let principal =
                    Principal { user: Some((&**name).into()), backend: "password_file", ..Principal::default() };
                let verified = &settings.verified;
                let fingerprint = verified.fingerprint(name, &account.password, password.expose());
                if fingerprint.as_ref().is_some_and(|fingerprint| verified.has(fingerprint)) {
                    return BackendResponse::yes(principal);
                }
                let (hash, password) = (account.password.clone(), password.clone());
                let note = fingerprint.map(|fingerprint| (verified.clone(), fingerprint));
                BackendResponse::NeedsWork(AuthJob::Password { hash, password, principal, note })
            }
            AuthBackend::Certificate(rules) => match (&attempt.method, &attempt.origin.certificate) {
                (None, Some(certificate)) => {
                    rules.principal(certificate).map_or_else(BackendResponse::No, BackendResponse::yes)
                }
                _ => BackendResponse::Unknown(None),
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
                    None => BackendResponse::Unknown(None),
                }
            }
            AuthBackend::Hook(_) if attempt.method.is_some() => BackendResponse::Unknown(None),
            AuthBackend::Hook(hook) => {
                hook.cached(attempt, now).unwrap_or_else(|| BackendResponse::NeedsWork(AuthJob::Hook(hook.clone())))
            }
        }
    }
}

impl BackendResponse {
    fn yes(principal: Principal) -> BackendResponse {
        BackendResponse::Yes { principal, data: None }
    }
}

impl AuthAttempt {
    /// Whether the attempt contains a replayable secret. SCRAM messages are none.
    fn has_secret(&self) -> bool {
        self.password.is_some() || self.method.as_deref() == Some(JWT_METHOD)
    }

    /// The reason to refuse if no backend knows the client.
    fn unknown(&self) -> Refusal {
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

/// A valid name of a user or a client.
pub(crate) fn checked_name(name: &str, bytes_max: usize) -> Option<Arc<str>> {
    let is_usable = !name.is_empty() && name.len() <= bytes_max && !name.chars().any(char::is_control);
    is_usable.then(|| name.into())
}

/// Text from a client, for the log: truncated, and without control characters.
pub(crate) fn shown(text: &str) -> String {
    const CHARACTERS_MAX: usize = 64;
    let mut shown: String = text.chars().take(CHARACTERS_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(CHARACTERS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// Omits the key, which is a secret.
impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings").field("allows_plain_passwords", &self.allows_plain_passwords).finish_non_exhaustive()
    }
}
