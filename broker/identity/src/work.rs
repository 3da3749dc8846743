//! Work that takes too long for a thread that serves clients.

use std::hint::black_box;
use std::sync::Arc;

use crate::chain::{AuthStep, BackendResponse, Chain, PendingAuth};
use crate::password_file::PasswordHash;
use crate::verified::Fingerprint;
use crate::{AuthAttempt, Hook, HttpClient, Jwt, Now, Principal, Refusal, RefusalCode, Secret, VerifiedPasswords};

/// A long step of an authentication: a hash, a signature. Any thread may run it, and it may be dropped.
pub struct AuthWork(Box<(Arc<Chain>, PendingAuth, AuthJob)>);

/// The resources that a step needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WorkKind {
    /// CPU time of tens of milliseconds, and the memory of a hash.
    Hash,
    /// CPU time of less than a millisecond.
    Signature,
    /// It may wait for the network, and needs no CPU meanwhile.
    Network,
}

/// The work of a step.
pub(crate) enum AuthJob {
    /// Verify the password of a user, and cache it if it is correct.
    Password {
        hash: PasswordHash,
        password: Secret,
        principal: Principal,
        note: Option<(Arc<VerifiedPasswords>, Fingerprint)>,
    },
    /// Take as long as for a known user, then refuse.
    Decoy { hash: PasswordHash, password: Secret, refusal: Refusal },
    /// Verify a token.
    Token { jwt: Arc<Jwt>, token: Secret },
    /// Ask the hook.
    Hook(Arc<Hook>),
}

impl AuthWork {
    pub(crate) fn new(chain: Arc<Chain>, progress: PendingAuth, job: AuthJob) -> AuthWork {
        AuthWork(Box::new((chain, progress, job)))
    }

    /// The resources that it needs.
    #[must_use]
    pub fn kind(&self) -> WorkKind {
        self.0.2.kind()
    }

    /// Runs the step and all following ones of the same kind, and returns the result of the attempt.
    #[must_use]
    pub fn run(self, http_client: &dyn HttpClient, now: Now) -> AuthStep {
        let (chain, progress, job) = *self.0;
        let worker = AuthWorker { http_client, kind: job.kind() };
        let response = job.run(progress.attempt(), http_client, now);
        chain.continue_with(progress, response, now, Some(worker))
    }
}

/// A thread that runs work of one kind.
#[derive(Clone, Copy)]
pub(crate) struct AuthWorker<'o> {
    pub(crate) http_client: &'o dyn HttpClient,
    kind: WorkKind,
}

impl AuthWorker<'_> {
    pub(crate) fn is_for(&self, job: &AuthJob) -> bool {
        self.kind == job.kind()
    }
}

impl AuthJob {
    fn kind(&self) -> WorkKind {
        match self {
            AuthJob::Password { .. } | AuthJob::Decoy { .. } => WorkKind::Hash,
            AuthJob::Token { jwt, .. } if !jwt.can_fetch() => WorkKind::Signature,
            AuthJob::Token { .. } | AuthJob::Hook(_) => WorkKind::Network,
        }
    }

    pub(crate) fn run(self, attempt: &AuthAttempt, http_client: &dyn HttpClient, now: Now) -> BackendResponse {
        match self {
            AuthJob::Password { hash, password, principal, note } => {
                if hash.verify(password.expose()) {
                    if let Some((verified, fingerprint)) = note {
                        verified.record(fingerprint);
                    }
                    BackendResponse::Yes { principal, data: None }
                } else {
                    let user = principal.user.as_deref().unwrap_or_default();
                    let log = format!("wrong password for user {}", user.escape_debug());
                    BackendResponse::No(Refusal::new(RefusalCode::WrongPassword, log))
                }
            }
            AuthJob::Decoy { hash, password, refusal } => {
                black_box(hash.verify(password.expose()));
                BackendResponse::No(refusal)
            }
            AuthJob::Token { jwt, token } => jwt.verify_token(token.expose(), http_client, now),
            AuthJob::Hook(hook) => hook.ask(attempt, http_client, now),
        }
    }
}

impl std::fmt::Debug for AuthWork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let job = match &self.0.2 {
            AuthJob::Password { .. } => "password",
            AuthJob::Decoy { .. } => "decoy",
            AuthJob::Token { .. } => "token",
            AuthJob::Hook(_) => "hook",
        };
        let decoy_follows = self.0.1.has_decoy();
        f.debug_struct("Work").field("job", &job).field("decoy_follows", &decoy_follows).finish_non_exhaustive()
    }
}
