//! What takes too long for a thread that serves clients.

use std::hint::black_box;
use std::sync::Arc;

use crate::chain::{Answer, Case, Chain, Step};
use crate::password_file::PasswordHash;
use crate::verified::Fingerprint;
use crate::{Attempt, Hook, Jwt, Now, Outside, Principal, Refusal, RefusalCode, Secret, VerifiedPasswords};

/// A part of an authentication that takes long: a hash, a signature. Any thread may run it, and dropping it does no harm.
pub struct Work(Box<(Arc<Chain>, Case, Job)>);

/// What a part of an authentication takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A processor for tens of milliseconds, and the memory of a hash.
    Hash,
    /// A processor for less than a millisecond.
    Signature,
    /// It may wait for a network, and needs no processor meanwhile.
    Network,
}

/// What there is to do.
pub(crate) enum Job {
    /// Is this the password of the user? Where it is, that is noted.
    Password {
        hash: PasswordHash,
        password: Secret,
        principal: Principal,
        note: Option<(Arc<VerifiedPasswords>, Fingerprint)>,
    },
    /// Take as long as for a user that is known, then refuse.
    Decoy { hash: PasswordHash, password: Secret, refusal: Refusal },
    /// Whose token is it?
    Token { jwt: Arc<Jwt>, token: Secret },
    /// What does the hook say?
    Hook(Arc<Hook>),
}

impl Work {
    pub(crate) fn new(chain: Arc<Chain>, case: Case, job: Job) -> Work {
        Work(Box::new((chain, case, job)))
    }

    /// What it takes.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.0.2.kind()
    }

    /// Does it, and whatever of the same kind comes after it, and says what comes of the attempt.
    #[must_use]
    pub fn run(self, outside: &dyn Outside, now: Now) -> Step {
        let (chain, case, job) = *self.0;
        let worker = Worker { outside, kind: job.kind() };
        let answer = job.run(case.attempt(), outside, now);
        chain.go_on_with(case, answer, now, Some(worker))
    }
}

/// A thread that runs work of one kind.
#[derive(Clone, Copy)]
pub(crate) struct Worker<'o> {
    pub(crate) outside: &'o dyn Outside,
    kind: Kind,
}

impl Worker<'_> {
    pub(crate) fn is_for(&self, job: &Job) -> bool {
        self.kind == job.kind()
    }
}

impl Job {
    fn kind(&self) -> Kind {
        match self {
            Job::Password { .. } | Job::Decoy { .. } => Kind::Hash,
            Job::Token { jwt, .. } if !jwt.may_fetch() => Kind::Signature,
            Job::Token { .. } | Job::Hook(_) => Kind::Network,
        }
    }

    pub(crate) fn run(self, attempt: &Attempt, outside: &dyn Outside, now: Now) -> Answer {
        match self {
            Job::Password { hash, password, principal, note } => {
                if hash.verify(password.expose()) {
                    if let Some((verified, fingerprint)) = note {
                        verified.note(fingerprint);
                    }
                    Answer::Yes { principal, data: None }
                } else {
                    let user = principal.user.as_deref().unwrap_or_default();
                    let log = format!("wrong password for user {}", user.escape_debug());
                    Answer::No(Refusal::new(RefusalCode::WrongPassword, log))
                }
            }
            Job::Decoy { hash, password, refusal } => {
                black_box(hash.verify(password.expose()));
                Answer::No(refusal)
            }
            Job::Token { jwt, token } => jwt.judge(token.expose(), outside, now),
            Job::Hook(hook) => hook.ask(attempt, outside, now),
        }
    }
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let job = match &self.0.2 {
            Job::Password { .. } => "password",
            Job::Decoy { .. } => "decoy",
            Job::Token { .. } => "token",
            Job::Hook(_) => "hook",
        };
        let decoy_follows = self.0.1.has_decoy();
        f.debug_struct("Work").field("job", &job).field("decoy_follows", &decoy_follows).finish_non_exhaustive()
    }
}
