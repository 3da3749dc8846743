//! Work that takes too long for a thread that serves clients.

use std::hint::black_box;
use std::sync::Arc;

use crate::decision::BackendDecision;
use crate::password_file::PasswordHash;
use crate::verified::Fingerprint;
use crate::{AuthAttempt, Hook, HttpClient, Jwt, Now, Principal, Refusal, RefusalCode, Secret, VerifiedPasswords};

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

/// A thread that runs work of one kind.
#[derive(Clone, Copy)]
pub(crate) struct AuthWorker<'o> {
    pub(crate) http_client: &'o dyn HttpClient,
    pub(crate) kind: WorkKind,
}

impl AuthWorker<'_> {
    pub(crate) fn is_for(&self, job: &AuthJob) -> bool {
        self.kind == job.kind()
    }
}

impl AuthJob {
    /// A name for the log.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            AuthJob::Password { .. } => "password",
            AuthJob::Decoy { .. } => "decoy",
            AuthJob::Token { .. } => "token",
            AuthJob::Hook(_) => "hook",
        }
    }

    pub(crate) fn kind(&self) -> WorkKind {
        match self {
            AuthJob::Password { .. } | AuthJob::Decoy { .. } => WorkKind::Hash,
            AuthJob::Token { jwt, .. } if !jwt.can_fetch() => WorkKind::Signature,
            AuthJob::Token { .. } | AuthJob::Hook(_) => WorkKind::Network,
        }
    }

    pub(crate) fn run(self, attempt: &AuthAttempt, http_client: &dyn HttpClient, now: Now) -> BackendDecision {
        match self {
            AuthJob::Password { hash, password, principal, note } => {
                if hash.verify(password.expose()) {
                    if let Some((verified, fingerprint)) = note {
                        verified.record(fingerprint);
                    }
                    principal.into()
                } else {
                    let user = principal.user.as_deref().unwrap_or_default();
                    let log = format!("wrong password for user {}", user.escape_debug());
                    Refusal::new(RefusalCode::WrongPassword, log).into()
                }
            }
            AuthJob::Decoy { hash, password, refusal } => {
                black_box(hash.verify(password.expose()));
                refusal.into()
            }
            AuthJob::Token { jwt, token } => jwt.verify_token(token.expose(), http_client, now),
            AuthJob::Hook(hook) => hook.ask(attempt, http_client, now),
        }
    }
}
