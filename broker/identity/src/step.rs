//! The steps of an authentication: from backend to backend, and back from long work and challenges.

use std::fmt;
use std::sync::Arc;

use base64ct::{Base64, Encoding as _};

use crate::backend::{BackendResponse, Decoy};
use crate::decision::BackendDecision;
use crate::scram::{ScramChallenge, ScramServer};
use crate::work::{AuthJob, AuthWorker};
use crate::{AuthAttempt, Chain, HttpClient, Now, Principal, Refusal, RefusalCode, WorkKind};

/// Random bytes in the server's SCRAM nonce.
const SCRAM_NONCE_BYTES: usize = 18;

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

/// A long step of an authentication: a hash, a signature. Any thread may run it, and it may be dropped.
pub struct AuthWork(Box<(Arc<Chain>, PendingAuth, AuthJob)>);

/// A client that has been challenged, and the state to verify its proof.
pub struct Exchange(Box<(Arc<Chain>, PendingAuth, ScramServer)>);

/// An attempt in progress.
struct PendingAuth {
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
    /// Starts an attempt. `random` fills a buffer with unpredictable bytes; if it fails, attempts that need them are refused.
    pub fn begin(
        self: &Arc<Self>,
        attempt: AuthAttempt,
        now: Now,
        random: &mut dyn FnMut(&mut [u8]) -> Result<(), RandomUnavailable>,
    ) -> AuthStep {
        let mut progress = PendingAuth { attempt, at: 0, decoy: None, nonce: String::new(), refusal: None };
        if let Err(refusal) = self.check(&progress.attempt, now) {
            return AuthStep::Refuse(self.refuse(&progress.attempt, refusal, now));
        }
        if progress.attempt.method.is_some() {
            let mut bytes = [0; SCRAM_NONCE_BYTES];
            if random(&mut bytes).is_err() {
                let log = "the system's random number generator failed, so no challenge can be created";
                let refusal = Refusal::new(RefusalCode::NoRandom, log);
                return AuthStep::Refuse(self.refuse(&progress.attempt, refusal, now));
            }
            progress.nonce = Base64::encode_string(&bytes);
        }
        self.clone().ask(progress, now, None)
    }

    /// Asks the remaining backends. A worker may do long work inline.
    fn ask(self: Arc<Self>, mut progress: PendingAuth, now: Now, worker: Option<AuthWorker<'_>>) -> AuthStep {
        while let Some(backend) = self.backend(progress.at) {
            progress.at += 1;
            let decision = match backend.ask(&progress.attempt, &progress.nonce, self.settings(), now) {
                BackendResponse::Decided(decision) => decision,
                BackendResponse::UnknownUser(decoy) => {
                    progress.decoy.get_or_insert(decoy);
                    continue;
                }
                BackendResponse::NeedsWork(job) => {
                    if matches!(job, AuthJob::Password { .. }) {
                        // It costs as much as the decoy would.
                        progress.decoy = None;
                    }
                    let Some(worker) = worker.filter(|worker| worker.is_for(&job)) else {
                        return AuthStep::AuthWork(AuthWork::new(self, progress, job));
                    };
                    job.run(&progress.attempt, worker.http_client, now)
                }
                BackendResponse::Challenge(challenge) => {
                    // The user is known, so its exchange is the only one.
                    progress.decoy = None;
                    return self.challenge(progress, challenge);
                }
            };
            match decision {
                BackendDecision::Unknown => {}
                BackendDecision::UnknownBecause(refusal) => progress.set_refusal(refusal),
                decision => return self.continue_with(progress, decision, now, worker),
            }
        }
        let refusal = progress.refusal.take().unwrap_or_else(|| progress.attempt.unknown());
        self.continue_with(progress, refusal.into(), now, worker)
    }

    /// Continues with the decision of a backend.
    fn continue_with(
        self: Arc<Self>,
        mut progress: PendingAuth,
        decision: BackendDecision,
        now: Now,
        worker: Option<AuthWorker<'_>>,
    ) -> AuthStep {
        match decision {
            BackendDecision::Yes { principal, data } => match self.admit(&progress.attempt, principal, now) {
                Ok(principal) => AuthStep::Admit { principal, data },
                Err(refusal) => AuthStep::Refuse(self.refuse(&progress.attempt, refusal, now)),
            },
            BackendDecision::No(refusal) => match (progress.decoy.take(), progress.attempt.password.take()) {
                (Some(Decoy::Hash(hash)), Some(password)) => {
                    let job = AuthJob::Decoy { hash, password, refusal };
                    match worker.filter(|worker| worker.is_for(&job)) {
                        Some(known) => {
                            let decision = job.run(&progress.attempt, known.http_client, now);
                            self.continue_with(progress, decision, now, worker)
                        }
                        None => AuthStep::AuthWork(AuthWork::new(self, progress, job)),
                    }
                }
                (Some(Decoy::Exchange(challenge)), _) => self.challenge(progress, challenge),
                _ => AuthStep::Refuse(self.refuse(&progress.attempt, refusal, now)),
            },
            BackendDecision::Unknown => self.ask(progress, now, worker),
            BackendDecision::UnknownBecause(refusal) => {
                progress.set_refusal(refusal);
                self.ask(progress, now, worker)
            }
        }
    }

    fn challenge(self: Arc<Self>, progress: PendingAuth, challenge: ScramChallenge) -> AuthStep {
        let exchange = Exchange(Box::new((self, progress, *challenge.scram_server)));
        AuthStep::Challenge { data: challenge.data, exchange }
    }
}

impl PendingAuth {
    /// Records why a backend refuses the client, unless an earlier one did.
    fn set_refusal(&mut self, refusal: Refusal) {
        self.refusal.get_or_insert(refusal);
    }
}

impl AuthWork {
    fn new(chain: Arc<Chain>, progress: PendingAuth, job: AuthJob) -> AuthWork {
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
        let decision = job.run(&progress.attempt, http_client, now);
        chain.continue_with(progress, decision, now, Some(worker))
    }
}

impl Exchange {
    /// Continues with the client's response: the Authentication Data of its AUTH.
    #[must_use]
    pub fn go_on(self, data: &[u8], now: Now) -> AuthStep {
        let (chain, mut progress, scram_server) = *self.0;
        // The user that the client claims to be, if only the data of its method names it.
        progress.attempt.user_name.get_or_insert_with(|| scram_server.user().into());
        chain.continue_with(progress, scram_server.finish(data), now, None)
    }
}

impl fmt::Debug for AuthWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, progress, job) = &*self.0;
        f.debug_struct("Work")
            .field("job", &job.name())
            .field("decoy_follows", &progress.decoy.is_some())
            .finish_non_exhaustive()
    }
}

/// Omits the keys.
impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").field("method", &self.0.2.hash().method()).finish_non_exhaustive()
    }
}
