//! Links that are asked one after the other.

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

/// Random bytes in a nonce of SCRAM's server.
const SCRAM_NONCE_BYTES: usize = 18;

/// What a listener asks about a client: links, in their order. The first that says yes or no decides. Where each says that the client
/// is not its own, the client is refused.
#[derive(Debug)]
pub struct Chain {
    backends: Box<[AuthBackend]>,
    settings: Settings,
}

/// One who may know clients.
#[derive(Debug, Clone)]
pub enum AuthBackend {
    /// Clients that do not say who they are.
    Anonymous(Anonymous),
    /// Users with passwords, in a file.
    PasswordFile(Arc<PasswordFile>),
    /// Holders of certificates.
    Certificate(Arc<CertificateRules>),
    /// Clients with tokens: in the password, or as the data of the Authentication Method [`JWT_METHOD`].
    Jwt(Arc<Jwt>),
    /// Whoever a service of the operator's knows.
    Hook(Arc<Hook>),
}

/// The Authentication Method by which a client gives a token, in CONNECT and to authenticate again before the token expires.
pub const JWT_METHOD: &str = "JWT";

/// Which clients are let in without a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Anonymous {
    /// Those that give neither user name nor password nor method. One that gives some must be known to another link.
    #[default]
    WithoutCredentials,
    /// All. User name and password are not looked at, and the client is nobody all the same.
    Everybody,
}

/// What holds for all links of a chain.
#[derive(Clone)]
pub struct Settings {
    /// Whether a password or a token may come over a connection that others can read.
    pub allows_plain_passwords: bool,
    /// Random, made once for the life of the process: what is done for unknown users must not change, or one could tell.
    pub key: [u8; 32],
    /// Who is not let in, and how often one may fail.
    pub bans: Arc<Bans>,
    /// Passwords that need no hash.
    pub verified: Arc<VerifiedPasswords>,
}

/// The system gives no random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RandomUnavailable;

/// What comes of an attempt.
#[derive(Debug)]
pub enum AuthStep {
    /// The client is known.
    Admit {
        /// Who it is.
        principal: Principal,
        /// Authentication Data for CONNACK, or for the AUTH that ends a re-authentication.
        data: Option<Vec<u8>>,
    },
    /// The client is not let in.
    Refuse(Refusal),
    /// It takes longer: to be run on a thread that may wait.
    AuthWork(AuthWork),
    /// The client must answer: an AUTH with 0x18 goes to it [MQTT-4.12.0-2].
    Challenge {
        /// The Authentication Data of the AUTH.
        data: Vec<u8>,
        /// What goes on with the answer.
        exchange: Exchange,
    },
}

/// What a link says.
pub(crate) enum BackendResponse {
    Yes {
        principal: Principal,
        data: Option<Vec<u8>>,
    },
    No(Refusal),
    /// With what would have to be computed if it were.
    Unknown(Option<Decoy>),
    /// Unless another link knows it, this is why.
    UnknownBecause(Refusal),
    NeedsWork(AuthJob),
    Challenge {
        data: Vec<u8>,
        scram_server: Box<ScramServer>,
    },
}

/// What is done for a user that nobody knows, so that it looks like one that somebody knows.
pub(crate) enum Decoy {
    Hash(PasswordHash),
    /// The client is challenged, and refused whatever it answers.
    Exchange {
        data: Vec<u8>,
        scram_server: Box<ScramServer>,
    },
}

/// An attempt on its way through a chain.
pub(crate) struct PendingAuth {
    attempt: AuthAttempt,
    /// The link to be asked next.
    at: usize,
    /// What a refusal costs: as much as if the first password file had known the user.
    decoy: Option<Decoy>,
    /// What SCRAM's server adds to the nonce of the client.
    nonce: String,
    /// Why it is refused if no link knows it, where one can say that.
    refusal: Option<Refusal>,
}

impl Chain {
    /// A chain of [`BACKENDS_MAX`] links at most; `None` if there are more.
    #[must_use]
    pub fn new(backends: Vec<AuthBackend>, settings: Settings) -> Option<Chain> {
        (backends.len() <= BACKENDS_MAX).then(|| Chain { backends: backends.into(), settings })
    }

    /// A chain that lets in everybody as nobody.
    #[must_use]
    pub fn open() -> Chain {
        let settings =
            Settings { allows_plain_passwords: true, key: [0; 32], bans: Arc::default(), verified: Arc::default() };
        Chain { backends: [AuthBackend::Anonymous(Anonymous::Everybody)].into(), settings }
    }

    /// Begins with an attempt. `random` fills bytes by which nobody can guess; where it cannot, an attempt that needs them is refused.
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
                let log = "the system gives no random bytes, so no challenge can be made";
                return self.clone().refuse(progress, Refusal::new(RefusalCode::NoRandom, log), now);
            }
            progress.nonce = Base64::encode_string(&bytes);
        }
        self.clone().ask(progress, now, None)
    }

    /// What is wrong with an attempt whoever it is from.
    fn check(&self, attempt: &AuthAttempt, now: Now) -> Result<(), Refusal> {
        if let Some(who) = self.settings.bans.find(attempt, now) {
            return Err(banned(&who));
        }
        if attempt.has_secret() && attempt.origin.is_exposed() && !self.settings.allows_plain_passwords {
            let log = format!(
                "a password or a token came unencrypted by listener {}; use TLS, or allow it for this listener",
                attempt.origin.listener
            );
            return Err(Refusal::new(RefusalCode::PlainPassword, log));
        }
        if attempt.origin.certificate.as_ref().is_some_and(|certificate| certificate.has_expired(now)) {
            let log = "the client's certificate has expired since it was shown, and a session of TLS resumed";
            return Err(Refusal::new(RefusalCode::CertificateExpired, log));
        }
        Ok(())
    }

    /// Asks the links that have not been asked yet. A worker may do what takes long.
    fn ask(self: Arc<Self>, mut progress: PendingAuth, now: Now, worker: Option<AuthWorker<'_>>) -> AuthStep {
        while let Some(backend) = self.backends.get(progress.at) {
            progress.at += 1;
            let mut answer = backend.ask(&progress.attempt, &progress.nonce, &self.settings, now);
            if let BackendResponse::NeedsWork(job) = answer {
                if matches!(job, AuthJob::Password { .. }) {
                    // It costs as much as the decoy would.
                    progress.decoy = None;
                }
                let Some(worker) = worker.filter(|worker| worker.is_for(&job)) else {
                    return AuthStep::AuthWork(AuthWork::new(self, progress, job));
                };
                answer = job.run(&progress.attempt, worker.http_client, now);
            }
            match answer {
                BackendResponse::Unknown(_) | BackendResponse::UnknownBecause(_) => progress.record(answer),
                answer => return self.continue_with(progress, answer, now, worker),
            }
        }
        let refusal = progress.refusal.take().unwrap_or_else(|| progress.attempt.unknown());
        self.continue_with(progress, BackendResponse::No(refusal), now, worker)
    }

    /// What comes of a link's answer.
    pub(crate) fn continue_with(
        self: Arc<Self>,
        mut progress: PendingAuth,
        answer: BackendResponse,
        now: Now,
        worker: Option<AuthWorker<'_>>,
    ) -> AuthStep {
        match answer {
            BackendResponse::Yes { principal, data } => match self.admit(&progress.attempt, principal, now) {
                Ok(principal) => AuthStep::Admit { principal, data },
                Err(refusal) => self.refuse(progress, refusal, now),
            },
            BackendResponse::No(refusal) => match (progress.decoy.take(), progress.attempt.password.take()) {
                (Some(Decoy::Hash(hash)), Some(password)) => {
                    let job = AuthJob::Decoy { hash, password, refusal };
                    match worker.filter(|worker| worker.is_for(&job)) {
                        Some(known) => {
                            let answer = job.run(&progress.attempt, known.http_client, now);
                            self.continue_with(progress, answer, now, worker)
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
                progress.record(answer);
                self.ask(progress, now, worker)
            }
            BackendResponse::NeedsWork(job) => AuthStep::AuthWork(AuthWork::new(self, progress, job)),
            BackendResponse::Challenge { data, scram_server } => {
                // The user is known now, so its exchange is the only one.
                progress.decoy = None;
                AuthStep::Challenge { data, exchange: Exchange::new(self, progress, *scram_server) }
            }
        }
    }

    /// Whoever a link has vouched for must fit the limits and may not be banned.
    fn admit(&self, attempt: &AuthAttempt, principal: Principal, now: Now) -> Result<Principal, Refusal> {
        if principal.client_id.as_ref().is_some_and(|id| id.is_empty() || id.len() > CLIENT_ID_BYTES_MAX) {
            let log = format!("the client identifier that {} gives cannot be used", principal.backend);
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
                refusal.log.to_mut().push_str(&format!("; {who} is banned for failing too often"));
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

    /// Notes who the client says it is, where that is in the data of its method.
    pub(crate) fn set_user(&mut self, user: &str) {
        self.attempt.user_name.get_or_insert_with(|| user.into());
    }

    pub(crate) fn attempt(&self) -> &AuthAttempt {
        &self.attempt
    }

    /// Keeps what a link says of a client that is not its own.
    fn record(&mut self, answer: BackendResponse) {
        match answer {
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
                let gives_none = attempt.user_name.is_none() && attempt.password.is_none();
                let is_mine = attempt.method.is_none() && (gives_none || *who == Anonymous::Everybody);
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
    /// Whether it gives something by which whoever reads it could come in, too. What SCRAM sends is no such thing.
    fn has_secret(&self) -> bool {
        self.password.is_some() || self.method.as_deref() == Some(JWT_METHOD)
    }

    /// Why it is refused when no link knows it.
    fn unknown(&self) -> Refusal {
        if let Some(method) = &self.method {
            let log = format!("nothing here authenticates by {}", shown(method));
            return Refusal::new(RefusalCode::UnknownMethod, log);
        }
        match (&self.user_name, &self.password) {
            (None, None) => Refusal::new(
                RefusalCode::NoCredentials,
                format!(
                    "the client does not say who it is, and listener {} lets in no such clients",
                    self.origin.listener
                ),
            ),
            (Some(name), None) => {
                Refusal::new(RefusalCode::NoPassword, format!("user {} gives no password", shown(name)))
            }
            (Some(name), Some(_)) => {
                Refusal::new(RefusalCode::UnknownUser, format!("there is no user {}", shown(name)))
            }
            (None, Some(_)) => {
                Refusal::new(RefusalCode::UnknownUser, "a password without a user name belongs to nobody")
            }
        }
    }
}

/// The claim by which access rules know the user of this machine at the other end of a Unix socket.
const PEER_CLAIM: &str = "peer_uid";

/// With the claim that the system vouches for, and nobody else: a token that has it says nothing by it.
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

/// A name that a user or a client can have.
pub(crate) fn checked_name(name: &str, bytes_max: usize) -> Option<Arc<str>> {
    let is_usable = !name.is_empty() && name.len() <= bytes_max && !name.chars().any(char::is_control);
    is_usable.then(|| name.into())
}

/// Text of a client, for the log: short, and without control characters.
pub(crate) fn shown(text: &str) -> String {
    const CHARACTERS_MAX: usize = 64;
    let mut shown: String = text.chars().take(CHARACTERS_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(CHARACTERS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// The key is a secret.
impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings").field("allows_plain_passwords", &self.allows_plain_passwords).finish_non_exhaustive()
    }
}
