//! Who finds out who clients are: asks the chain of their listener, and has threads do what takes long.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use tautwire_access::Identity;
use tautwire_engine::{Attempt, Certificate, Origin, Peer, Question, Verdict};
use tautwire_identity::{self as identity, Bans, Exchange, Now, Secret, Step};
use tautwire_protocol::{ConnectReason, ProtocolVersion};
use tautwire_reactor::{Doorkeeper, Ticket};

use super::chains::{Chains, Lasting};
use super::outside::Http;
use super::random;
use super::workers::{Clock, Told, WorkerCounters, WorkerLimits, Workers};
use crate::config::Config;
use crate::config::settings::AuthConfig;

/// Finds out who clients are.
pub(crate) struct Porter {
    chains: RwLock<Arc<Chains>>,
    lasting: Mutex<Lasting>,
    bans: Arc<Bans>,
    /// Where nothing takes long, there are no threads for it.
    workers: OnceLock<Option<Workers>>,
    limits: WorkerLimits,
    authorities: Vec<Vec<u8>>,
    clock: Clock,
}

impl Porter {
    /// A porter by whom clients are asked what the configuration says. It has threads of its own as soon as something takes long.
    ///
    /// # Errors
    /// Everything that is wrong with the files that are named.
    pub(crate) fn new(config: &Config) -> Result<Porter, Vec<String>> {
        let auth = &config.auth;
        let mut lasting = Lasting::new(auth.ban.0.clone()).map_err(|error| vec![error])?;
        let chains = Chains::read(&config.listeners(), auth, &mut lasting)?;
        let mut limits = WorkerLimits { queue: config.limits.authentications, ..WorkerLimits::default() };
        limits.wait = Duration::from_secs(config.mqtt.connect_timeout_s.into());
        limits.waiting_threads = auth.hook_concurrency;
        if auth.threads > 0 {
            limits.computing_threads = auth.threads;
        }
        Ok(Porter {
            chains: RwLock::new(Arc::new(chains)),
            bans: lasting.bans().clone(),
            lasting: Mutex::new(lasting),
            workers: OnceLock::new(),
            limits,
            authorities: authorities(auth)?,
            clock: Clock::start(),
        })
    }

    /// What the listeners would ask by another configuration.
    ///
    /// # Errors
    /// Everything that is wrong with the files that it names.
    pub(crate) fn read(&self, config: &Config) -> Result<Chains, Vec<String>> {
        let mut lasting = self.lasting.lock().unwrap_or_else(PoisonError::into_inner);
        Chains::read(&config.listeners(), &config.auth, &mut lasting)
    }

    /// From now on clients are asked by these.
    pub(crate) fn adopt(&self, chains: Arc<Chains>) {
        *self.chains.write().unwrap_or_else(PoisonError::into_inner) = chains;
        self.start_workers();
    }

    pub(crate) fn chains(&self) -> Arc<Chains> {
        self.chains.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts the threads for what takes long, if anything is asked. Not for threads that serve clients: it reads the system's
    /// certificates.
    pub(crate) fn start_workers(&self) {
        if !self.chains().ask() {
            return;
        }
        self.workers.get_or_init(|| {
            match Workers::start(self.limits, self.clock, Box::new(Http::new(&self.authorities))) {
                Ok(workers) => Some(workers),
                Err(error) => {
                    log::error!("threads for authentication cannot be started: {error}");
                    None
                }
            }
        });
    }

    fn workers(&self) -> Option<&Workers> {
        self.workers.get().and_then(Option::as_ref)
    }

    /// Who is not let in, whatever it shows.
    pub(crate) fn bans(&self) -> &Bans {
        &self.bans
    }

    /// What its threads have done.
    pub(crate) fn counters(&self) -> WorkerCounters {
        self.workers().map_or(WorkerCounters::default(), Workers::counters)
    }

    /// The time as chains count it.
    pub(crate) fn now(&self) -> Now {
        self.clock.now()
    }
}

/// A client of a listener, of which it is found out who it is.
struct Asked {
    listener: Arc<str>,
    ticket: Ticket,
}

impl Told for Asked {
    fn is_wanted(&self) -> bool {
        self.ticket.is_wanted()
    }

    fn tell(self: Box<Self>, step: Step) {
        // Of work that has been run, nothing is left.
        if let Ok(verdict) = verdict(&self.listener, step) {
            self.ticket.decide(verdict);
        }
    }
}

/// The authorities that certificates of hooks and of keys' URLs come from, in DER.
fn authorities(auth: &AuthConfig) -> Result<Vec<Vec<u8>>, Vec<String>> {
    let mut authorities = Vec::new();
    for path in auth.https_ca.iter() {
        let wrong = |why: &dyn fmt::Display| vec![format!("auth.https_ca: {}: {why}", path.display())];
        let certificates = CertificateDer::pem_file_iter(path).map_err(|error| wrong(&error))?;
        for certificate in certificates {
            authorities.push(certificate.map_err(|error| wrong(&error))?.to_vec());
        }
    }
    Ok(authorities)
}

impl fmt::Debug for Porter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Porter").finish_non_exhaustive()
    }
}

impl Doorkeeper for Porter {
    fn lets_in(&self, address: IpAddr) -> bool {
        !self.bans.has_address(address, self.now())
    }

    fn ask(&self, origin: &Origin, question: Question, ticket: Ticket) -> Option<Verdict> {
        let now = self.now();
        let listener = origin.listener().clone();
        let step = match question {
            Question::Connect(attempt) | Question::Again(attempt) => {
                let Some(chain) = self.chains().of(&listener) else {
                    return Some(refused(ConnectReason::ServerUnavailable, "nobody knows clients of this listener"));
                };
                // Without random bytes the nonce is worth nothing, but the client's own is there still.
                let mut fill = |bytes: &mut [u8]| _ = random(bytes);
                chain.begin(attempt_of(origin, attempt), now, &mut fill)
            }
            Question::Continue { data, state } => match state.downcast::<Exchange>() {
                Ok(exchange) => exchange.go_on(&data, now),
                Err(_) => return Some(refused(ConnectReason::NotAuthorized, "the authentication was not begun here")),
            },
        };
        let work = match verdict(&listener, step) {
            Ok(verdict) => return Some(verdict),
            Err(work) => work,
        };
        let Some(workers) = self.workers() else {
            return Some(refused(ConnectReason::ServerBusy, "no thread finds out who clients are"));
        };
        workers.submit(work, Asked { listener, ticket });
        None
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
        Some(Certificate::Der(der)) => Some(identity::Certificate::Der(Arc::from(&**der))),
        Some(Certificate::CommonName(name)) => Some(identity::Certificate::CommonName(name.clone())),
        None => None,
    };
    identity::Origin {
        listener: origin.listener().clone(),
        address,
        is_encrypted: origin.is_encrypted(),
        certificate,
        peer_uid,
    }
}
