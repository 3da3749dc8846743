//! Who finds out who clients are: what the listeners ask, and threads for what takes long.

mod chains;
mod pool;

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ring::rand::{SecureRandom as _, SystemRandom};
use tautwire_access::Identity;
use tautwire_engine::{Attempt, Certificate, Origin, Peer, Question, Verdict};
use tautwire_identity::{self as identity, Bans, Exchange, Now, Secret, Step};
use tautwire_protocol::{ConnectReason, ProtocolVersion};
use tautwire_reactor::{Doorkeeper, Ticket};

use crate::config::Config;
pub(crate) use chains::Chains;
use pool::{Pool, Task};

/// Finds out who clients are.
pub(crate) struct Porter {
    shared: Arc<Shared>,
    pool: Pool,
}

/// What the threads that compute need, too.
struct Shared {
    chains: RwLock<Arc<Chains>>,
    random: SystemRandom,
    began: Instant,
}

impl Porter {
    /// A porter by whom clients are asked what `chains` say. It has threads of its own as soon as something takes long.
    pub(crate) fn new(config: &Config, chains: Arc<Chains>) -> Arc<Porter> {
        let shared =
            Arc::new(Shared { chains: RwLock::new(chains), random: SystemRandom::new(), began: Instant::now() });
        let pool = Pool::new(config.auth.threads, config.limits.authentications);
        Arc::new(Porter { shared, pool })
    }

    /// What holds for all chains of this process.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub(crate) fn settings() -> Result<identity::Settings, String> {
        let mut key = [0; 32];
        SystemRandom::new().fill(&mut key).map_err(|_| "the system has no random bytes".to_owned())?;
        Ok(identity::Settings { allows_plain_passwords: false, key, bans: Arc::new(Bans::default()) })
    }

    /// From now on clients are asked by these.
    pub(crate) fn adopt(&self, chains: Arc<Chains>) {
        *self.shared.chains.write().unwrap_or_else(PoisonError::into_inner) = chains;
    }

    pub(crate) fn chains(&self) -> Arc<Chains> {
        self.shared.chains()
    }
}

impl fmt::Debug for Porter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Porter").finish_non_exhaustive()
    }
}

impl Doorkeeper for Porter {
    fn ask(&self, origin: &Origin, question: Question, ticket: Ticket) -> Option<Verdict> {
        let now = self.shared.now();
        let listener = origin.listener().clone();
        let step = match question {
            Question::Connect(attempt) | Question::Again(attempt) => {
                let Some(chain) = self.chains().of(&listener) else {
                    return Some(refused(ConnectReason::ServerUnavailable, "nobody knows clients of this listener"));
                };
                let mut random = |bytes: &mut [u8]| {
                    // Without random bytes the nonce is worth nothing, but the client's own is there still.
                    let _ = self.shared.random.fill(bytes);
                };
                chain.begin(attempt_of(origin, attempt), now, &mut random)
            }
            Question::Continue { data, state } => match state.downcast::<Exchange>() {
                Ok(exchange) => exchange.go_on(&data, now),
                Err(_) => return Some(refused(ConnectReason::NotAuthorized, "the authentication was not begun here")),
            },
        };
        match verdict(&listener, step) {
            Ok(verdict) => Some(verdict),
            Err(work) => match self.pool.give(Task { work, ticket, listener }, &self.shared) {
                Ok(()) => None,
                Err(_) => Some(refused(ConnectReason::ServerBusy, "too many clients wait to be let in")),
            },
        }
    }
}

impl Shared {
    fn chains(&self) -> Arc<Chains> {
        self.chains.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn now(&self) -> Now {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { unix_s: unix.as_secs(), steady_ms: self.began.elapsed().as_millis() as u64 }
    }
}

/// What comes of a step, or what there is to do first.
fn verdict(listener: &Arc<str>, step: Step) -> Result<Verdict, identity::Work> {
    match step {
        Step::Admit { principal, data } => {
            let identity = Identity {
                listener: listener.clone(),
                user: principal.user,
                client_id: principal.client_id,
                claims: principal.claims,
                roles: principal.roles,
                ends_at_ms: principal.expires_at_unix_s.map(|seconds| seconds.saturating_mul(1_000)),
                by: principal.link,
            };
            Ok(Verdict::Admitted { identity: Arc::new(identity), data: data.map(Vec::into_boxed_slice) })
        }
        Step::Refuse(refusal) => {
            log::info!("listener {listener}: a client was not let in: {refusal}");
            Ok(refused(refusal.reason, refusal.client))
        }
        Step::Challenge { data, exchange } => Ok(Verdict::Challenge { data: data.into(), state: Box::new(exchange) }),
        Step::Work(work) => Err(work),
    }
}

fn refused(reason: ConnectReason, why: &'static str) -> Verdict {
    Verdict::Refused { reason, why: why.into() }
}

fn attempt_of(origin: &Origin, attempt: Attempt) -> identity::Attempt {
    let Attempt { version, client_id, user_name, password, method, data } = attempt;
    identity::Attempt {
        origin: Arc::new(origin_of(origin)),
        client_id,
        user_name,
        password: password.map(|bytes| Secret::new(bytes.into_vec())),
        method,
        data: data.map(|bytes| Secret::new(bytes.into_vec())),
        is_v5: version == ProtocolVersion::V5,
        current: None,
    }
}

fn origin_of(origin: &Origin) -> identity::Origin {
    let (address, peer_uid) = match origin.peer() {
        Some(Peer::Network { ip, .. }) => (Some(ip), None),
        Some(Peer::Local { uid }) => (None, uid),
        None => (None, None),
    };
    let certificate = match origin.certificate() {
        Some(Certificate::Der(der)) => Some(Arc::from(&**der)),
        // A name alone, from a proxy, is no certificate that could be read.
        Some(Certificate::CommonName(_)) | None => None,
    };
    identity::Origin {
        listener: origin.listener().clone(),
        address,
        is_encrypted: origin.is_encrypted(),
        certificate,
        peer_uid,
    }
}
