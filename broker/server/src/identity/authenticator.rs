//! Who finds out who clients are: asks the chain of their listener, and has threads do what takes long.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tautwire_access::Identity;
use tautwire_engine::{AuthAttempt, AuthDecision, AuthProgress, AuthRequest, Certificate, ConnectionOrigin, Peer};
use tautwire_identity::{
    self as identity, AuthStep, Ban, Bans, Exchange, FailureRule, Now, PasswordFile, RandomUnavailable, Secret,
    VerifiedPasswords,
};
use tautwire_protocol::{ConnectReason, ProtocolVersion};
use tautwire_reactor::{AuthResponder, Authenticator};

use super::ban_file::{self, BanFile};
use super::chains::{AuthChains, SharedAuthState};
use super::http_client::{UreqClient, read_authorities};
use super::random;
use super::workers::{AuthCallback, Clock, WorkerCounters, WorkerLimits, WorkerTally, Workers};
use crate::config::Config;
use crate::shared::Parts;

/// Finds out who clients are.
pub(crate) struct ChainAuthenticator {
    chains: RwLock<Arc<AuthChains>>,
    shared_state: Mutex<SharedAuthState>,
    bans: Arc<Bans>,
    /// Passwords that need no hash.
    verified: Arc<VerifiedPasswords>,
    /// Where bans outlive the broker.
    ban_file: Mutex<Option<BanFile>>,
    /// Where nothing takes long, there are no threads for it.
    workers: RwLock<Option<WorkerPool>>,
    /// What the first threads are started with.
    pool: WorkerPoolConfig,
    tally: Arc<WorkerTally>,
    clock: Clock,
}

/// What threads are started with.
#[derive(Debug, Clone, PartialEq, Eq)]
struct WorkerPoolConfig {
    limits: WorkerLimits,
    /// In DER.
    authorities: Vec<Vec<u8>>,
}

impl WorkerPoolConfig {
    fn of(config: &Config) -> Result<WorkerPoolConfig, Vec<String>> {
        let auth = &config.auth;
        let mut limits = WorkerLimits { queue: config.limits.authentications, ..WorkerLimits::default() };
        limits.waiting_threads = auth.hook_concurrency;
        if auth.threads > 0 {
            limits.computing_threads = auth.threads;
        }
        Ok(WorkerPoolConfig {
            limits,
            authorities: read_authorities("auth.https_ca", auth.https_ca.iter()).map_err(|why| vec![why])?,
        })
    }
}

/// Threads, and what they have been started with.
pub(crate) struct WorkerPool(WorkerPoolConfig, Arc<Workers>);

/// What a porter has read, to be adopted.
pub(crate) struct LoadedAuth {
    pub(crate) chains: Arc<AuthChains>,
    pool: WorkerPoolConfig,
    rules: Vec<FailureRule>,
    cached_passwords: usize,
}

impl ChainAuthenticator {
    /// A porter by whom clients are asked what the configuration says. It has threads of its own as soon as something takes long.
    ///
    /// # Errors
    /// Everything that is wrong with the files that are named.
    pub(crate) fn new(config: &Config) -> Result<ChainAuthenticator, Vec<String>> {
        let mut shared_state = SharedAuthState::new(&config.auth).map_err(|error| vec![error])?;
        let chains = AuthChains::read(config, &Parts::default(), &mut shared_state)?;
        Ok(ChainAuthenticator {
            chains: RwLock::new(Arc::new(chains)),
            bans: shared_state.bans().clone(),
            verified: shared_state.verified().clone(),
            ban_file: Mutex::new(None),
            shared_state: Mutex::new(shared_state),
            workers: RwLock::new(None),
            pool: WorkerPoolConfig::of(config)?,
            tally: Arc::default(),
            clock: Clock::start(),
        })
    }

    /// What the listeners would ask by another configuration, and what the cluster shares.
    ///
    /// # Errors
    /// Everything that is wrong with the files that it names.
    pub(crate) fn read(&self, config: &Config, shared: &Parts) -> Result<LoadedAuth, Vec<String>> {
        let mut shared_state = self.shared_state.lock().unwrap_or_else(PoisonError::into_inner);
        let chains = AuthChains::read(config, shared, &mut shared_state);
        match (chains, WorkerPoolConfig::of(config)) {
            (Ok(chains), Ok(pool)) => Ok(LoadedAuth {
                chains: Arc::new(chains),
                pool,
                rules: config.auth.ban.0.clone(),
                cached_passwords: config.auth.cached_passwords,
            }),
            (chains, pool) => Err([chains.err(), pool.err()].into_iter().flatten().flatten().collect()),
        }
    }

    /// Starts the threads that a reading needs and that are not there.
    ///
    /// # Errors
    /// They cannot be started.
    pub(crate) fn workers_for(&self, reading: &LoadedAuth) -> Result<Option<WorkerPool>, String> {
        let LoadedAuth { chains, pool, .. } = reading;
        let held = self.workers.read().unwrap_or_else(PoisonError::into_inner);
        if !chains.ask() || held.as_ref().is_some_and(|WorkerPool(held, _)| held == pool) {
            return Ok(None);
        }
        drop(held);
        self.started(pool).map(Some)
    }

    /// From now on clients are asked by these. It takes no time, but for whoever drops the chains of before last. `workers` are those of [`ChainAuthenticator::workers_for`].
    pub(crate) fn adopt(&self, reading: LoadedAuth, workers: Option<WorkerPool>) {
        let LoadedAuth { chains, pool: _, rules, cached_passwords } = reading;
        self.bans.set_rules(rules);
        self.verified.clear(cached_passwords);
        if workers.is_some() {
            // Threads of before finish what they have.
            *self.workers.write().unwrap_or_else(PoisonError::into_inner) = workers;
        }
        *self.chains.write().unwrap_or_else(PoisonError::into_inner) = chains;
    }

    pub(crate) fn chains(&self) -> Arc<AuthChains> {
        self.chains.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts the threads for what takes long, if anything is asked, when the broker starts.
    ///
    /// # Errors
    /// They cannot be started.
    pub(crate) fn start_workers(&self) -> Result<(), String> {
        if self.chains().ask() {
            let workers = self.started(&self.pool)?;
            *self.workers.write().unwrap_or_else(PoisonError::into_inner) = Some(workers);
        }
        Ok(())
    }

    /// Not for threads that serve clients: it reads the system's certificates.
    fn started(&self, pool: &WorkerPoolConfig) -> Result<WorkerPool, String> {
        let http_client = Box::new(UreqClient::new(&pool.authorities));
        let workers = Workers::start(pool.limits, self.clock, http_client, self.tally.clone());
        let workers = workers.map_err(|error| format!("threads for authentication cannot be started: {error}"))?;
        Ok(WorkerPool(pool.clone(), Arc::new(workers)))
    }

    fn workers(&self) -> Option<Arc<Workers>> {
        let held = self.workers.read().unwrap_or_else(PoisonError::into_inner);
        held.as_ref().map(|WorkerPool(_, workers)| workers.clone())
    }

    /// Who is not let in, whatever it shows.
    pub(crate) fn bans(&self) -> &Bans {
        &self.bans
    }

    /// From now on these are the bans that the nodes of a cluster share. They are not written down here.
    pub(crate) fn apply_shared_bans(&self, bans: Vec<Ban>) {
        self.bans.share(bans, self.now());
    }

    /// Takes on the bans that are kept in a folder, and keeps those that are made from now on there.
    ///
    /// # Errors
    /// What is there is not understood.
    pub(crate) fn persist_bans_in(&self, folder: &Path) -> Result<(), String> {
        let path = folder.join(ban_file::NAME);
        let now = self.now();
        for ban in ban_file::read(&path)? {
            // One that is over is forgotten.
            if ban.until_unix_s.is_none_or(|until_s| until_s > now.unix_s) && self.bans.add(ban, now).is_err() {
                return Err(format!("{}: has more bans than may be, or too long a reason [bans_file]", path.display()));
            }
        }
        *self.ban_file.lock().unwrap_or_else(PoisonError::into_inner) = Some(BanFile::new(path));
        Ok(())
    }

    /// Writes down the bans that hold, where they are kept.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn persist_bans(&self) -> Result<(), String> {
        self.persist_bans_if(|_, _| true)
    }

    /// The same, if rules have made bans that are not written down. One that cannot be written is tried again with the next.
    pub(crate) fn persist_rule_bans(&self) {
        if let Err(error) = self.persist_bans_if(BanFile::is_out_of_date) {
            log::error!("bans by rule hold, but a restart forgets them: {error}");
        }
    }

    fn persist_bans_if(&self, is_wanted: impl Fn(&BanFile, u64) -> bool) -> Result<(), String> {
        // Under the lock, so that the last to write knows of all.
        let mut file = self.ban_file.lock().unwrap_or_else(PoisonError::into_inner);
        let by_rule = self.bans.counters().by_rule;
        match file.as_mut().filter(|file| is_wanted(file, by_rule)) {
            Some(file) => file.write(&self.bans.list_own(self.now()), by_rule),
            None => Ok(()),
        }
    }

    /// Whether this is the password of a user of a file, who is not banned, for those who use the admin API. It counts as an
    /// authentication by a listener does, takes as long for a user that is not there, and runs here.
    pub(crate) fn verify_password(
        &self,
        file: &Arc<PasswordFile>,
        name: &str,
        password: &Secret,
        address: IpAddr,
    ) -> bool {
        let chain = self.shared_state.lock().unwrap_or_else(PoisonError::into_inner).chain_of(file.clone());
        // A proxy on this machine is not who fails.
        let address = Some(address).filter(|address| !address.to_canonical().is_loopback());
        let origin = identity::ClientOrigin {
            listener: Arc::from("admin"),
            address,
            is_encrypted: false,
            certificate: None,
            peer_uid: None,
        };
        let attempt = identity::AuthAttempt {
            origin: Arc::new(origin),
            client_id: "".into(),
            user_name: Some(name.into()),
            password: Some(password.clone()),
            method: None,
            data: None,
            is_v5: true,
        };
        let mut step = chain.begin(attempt, self.now(), &mut |_| Ok(()));
        while let AuthStep::AuthWork(work) = step {
            step = work.run(&(), self.now());
        }
        if let AuthStep::Refuse(refusal) = &step {
            log::info!("admin: nobody is let in: {refusal}");
        }
        matches!(step, AuthStep::Admit { .. })
    }

    /// Passwords that need no hash.
    pub(crate) fn verified(&self) -> &VerifiedPasswords {
        &self.verified
    }

    /// What its threads have done.
    pub(crate) fn counters(&self) -> WorkerCounters {
        self.tally.counters()
    }

    /// The time as chains count it.
    pub(crate) fn now(&self) -> Now {
        self.clock.now()
    }
}

/// A client of a listener, of which it is found out who it is.
struct PendingAuth {
    listener: Arc<str>,
    ticket: AuthResponder,
}

impl AuthCallback for PendingAuth {
    fn is_wanted(&self) -> bool {
        self.ticket.is_wanted()
    }

    fn complete(self: Box<Self>, step: AuthStep) {
        // Of work that has been run, nothing is left.
        if let Ok(verdict) = verdict(&self.listener, step) {
            self.ticket.send_auth_decision(verdict);
        }
    }
}

impl fmt::Debug for ChainAuthenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChainAuthenticator").finish_non_exhaustive()
    }
}

impl Authenticator for ChainAuthenticator {
    fn accepts_address(&self, address: IpAddr) -> bool {
        !self.bans.has_address(address, self.now())
    }

    fn progress(&self) -> Arc<AuthProgress> {
        self.tally.progress().clone()
    }

    fn ask(&self, origin: &ConnectionOrigin, question: AuthRequest, ticket: AuthResponder) -> Option<AuthDecision> {
        let now = self.now();
        let listener = origin.listener().clone();
        let step = match question {
            AuthRequest::Connect(attempt) | AuthRequest::Reauthenticate(attempt) => {
                let Some(chain) = self.chains().of(&listener) else {
                    return Some(refused(ConnectReason::ServerUnavailable, "nobody knows clients of this listener"));
                };
                let mut fill = |bytes: &mut [u8]| random(bytes).map_err(|_| RandomUnavailable);
                chain.begin(to_attempt(origin, attempt), now, &mut fill)
            }
            AuthRequest::Continue { data, state } => match state.downcast::<Exchange>() {
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
        workers.submit(work, PendingAuth { listener, ticket });
        None
    }
}

/// What comes of a step, or what there is to do first.
fn verdict(listener: &Arc<str>, step: AuthStep) -> Result<AuthDecision, identity::AuthWork> {
    match step {
        AuthStep::Admit { principal, data } => {
            let identity = Identity {
                listener: listener.clone(),
                user: principal.user,
                client_id: principal.client_id,
                claims: principal.claims,
                roles: principal.roles,
                ends_at_ms: principal.expires_at_unix_s.map(|seconds| seconds.saturating_mul(1_000)),
                by: principal.backend,
            };
            Ok(AuthDecision::Admitted { identity: Arc::new(identity), data: data.map(Vec::into_boxed_slice) })
        }
        AuthStep::Refuse(refusal) => {
            let detail = Some(refusal.to_string().into());
            Ok(AuthDecision::Refused { reason: refusal.reason, why: refusal.client.into(), detail })
        }
        AuthStep::Challenge { data, exchange } => {
            Ok(AuthDecision::Challenge { data: data.into(), state: Box::new(exchange) })
        }
        AuthStep::AuthWork(work) => Err(work),
    }
}

fn refused(reason: ConnectReason, why: &'static str) -> AuthDecision {
    AuthDecision::Refused { reason, why: why.into(), detail: None }
}

fn to_attempt(origin: &ConnectionOrigin, attempt: AuthAttempt) -> identity::AuthAttempt {
    let AuthAttempt { version, client_id, user_name, password, method, data } = attempt;
    identity::AuthAttempt {
        origin: Arc::new(to_provenance(origin)),
        client_id,
        user_name,
        password: password.map(|bytes| Secret::new(bytes.into_vec())),
        method,
        data: data.map(|bytes| Secret::new(bytes.into_vec())),
        is_v5: version == ProtocolVersion::V5,
    }
}

fn to_provenance(origin: &ConnectionOrigin) -> identity::ClientOrigin {
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
    identity::ClientOrigin {
        listener: origin.listener().clone(),
        address,
        is_encrypted: origin.is_encrypted(),
        certificate,
        peer_uid,
    }
}
