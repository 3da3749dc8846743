//! The authenticator: asks the chain of the client's listener, with slow steps on worker threads.

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

/// Authenticates clients with the chains of their listeners.
pub(crate) struct ChainAuthenticator {
    chains: RwLock<Arc<AuthChains>>,
    shared_state: Mutex<SharedAuthState>,
    bans: Arc<Bans>,
    /// The cache of verified passwords.
    verified: Arc<VerifiedPasswords>,
    /// The file that persists bans, if any.
    ban_file: Mutex<Option<BanFile>>,
    /// `None` if no configured method needs worker threads.
    workers: RwLock<Option<WorkerPool>>,
    /// The configuration of the first worker threads.
    pool: WorkerPoolConfig,
    tally: Arc<WorkerTally>,
    clock: Clock,
}

/// The configuration of the worker threads.
#[derive(Debug, Clone, PartialEq, Eq)]
struct WorkerPoolConfig {
    limits: WorkerLimits,
    /// Certificate authorities in DER.
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

/// Worker threads with their configuration.
pub(crate) struct WorkerPool(WorkerPoolConfig, Arc<Workers>);

/// Authentication settings read for a reload, to be applied later.
pub(crate) struct LoadedAuth {
    pub(crate) chains: Arc<AuthChains>,
    pool: WorkerPoolConfig,
    rules: Vec<FailureRule>,
    password_cache_entries: usize,
}

impl ChainAuthenticator {
    /// Creates the authenticator of a configuration. Its threads are started when needed.
    ///
    /// # Errors
    /// All errors in the files that the configuration names.
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

    /// Reads the authentication settings of another configuration, with the shared users.
    ///
    /// # Errors
    /// All errors in the files that the configuration names.
    pub(crate) fn read(&self, config: &Config, shared: &Parts) -> Result<LoadedAuth, Vec<String>> {
        let mut shared_state = self.shared_state.lock().unwrap_or_else(PoisonError::into_inner);
        let chains = AuthChains::read(config, shared, &mut shared_state);
        match (chains, WorkerPoolConfig::of(config)) {
            (Ok(chains), Ok(pool)) => Ok(LoadedAuth {
                chains: Arc::new(chains),
                pool,
                rules: config.auth.ban_rules.0.clone(),
                password_cache_entries: config.auth.password_cache_entries,
            }),
            (chains, pool) => Err([chains.err(), pool.err()].into_iter().flatten().flatten().collect()),
        }
    }

    /// Starts the threads that the loaded settings need, unless the current ones fit.
    ///
    /// # Errors
    /// The threads cannot be started.
    pub(crate) fn workers_for(&self, loaded: &LoadedAuth) -> Result<Option<WorkerPool>, String> {
        let LoadedAuth { chains, pool, .. } = loaded;
        let current = self.workers.read().unwrap_or_else(PoisonError::into_inner);
        if !chains.requires_auth() || current.as_ref().is_some_and(|WorkerPool(current, _)| current == pool) {
            return Ok(None);
        }
        drop(current);
        self.start_pool(pool).map(Some)
    }

    /// Applies loaded settings without blocking, except for freeing the previous chains. `workers`: from
    /// [`ChainAuthenticator::workers_for`].
    pub(crate) fn apply(&self, loaded: LoadedAuth, workers: Option<WorkerPool>) {
        let LoadedAuth { chains, pool: _, rules, password_cache_entries } = loaded;
        self.bans.set_rules(rules);
        self.verified.clear(password_cache_entries);
        if workers.is_some() {
            // The previous threads complete their queues.
            *self.workers.write().unwrap_or_else(PoisonError::into_inner) = workers;
        }
        *self.chains.write().unwrap_or_else(PoisonError::into_inner) = chains;
    }

    pub(crate) fn chains(&self) -> Arc<AuthChains> {
        self.chains.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts the worker threads at startup, if anything needs them.
    ///
    /// # Errors
    /// The threads cannot be started.
    pub(crate) fn start_workers(&self) -> Result<(), String> {
        if self.chains().requires_auth() {
            let workers = self.start_pool(&self.pool)?;
            *self.workers.write().unwrap_or_else(PoisonError::into_inner) = Some(workers);
        }
        Ok(())
    }

    /// Must not run on threads that serve clients: it reads the system's certificates.
    fn start_pool(&self, pool: &WorkerPoolConfig) -> Result<WorkerPool, String> {
        let http_client = Box::new(UreqClient::new(&pool.authorities));
        let workers = Workers::start(pool.limits, self.clock, http_client, self.tally.clone());
        let workers = workers.map_err(|error| format!("cannot start the authentication threads: {error}"))?;
        Ok(WorkerPool(pool.clone(), Arc::new(workers)))
    }

    fn workers(&self) -> Option<Arc<Workers>> {
        let current = self.workers.read().unwrap_or_else(PoisonError::into_inner);
        current.as_ref().map(|WorkerPool(_, workers)| workers.clone())
    }

    /// The active bans.
    pub(crate) fn bans(&self) -> &Bans {
        &self.bans
    }

    /// Replaces the bans shared in the cluster. They are not persisted on this node.
    pub(crate) fn apply_shared_bans(&self, bans: Vec<Ban>) {
        self.bans.share(bans, self.now());
    }

    /// Loads the bans persisted in a folder, and persists new ones there.
    ///
    /// # Errors
    /// The file is invalid.
    pub(crate) fn persist_bans_in(&self, folder: &Path) -> Result<(), String> {
        let path = folder.join(ban_file::NAME);
        let now = self.now();
        for ban in ban_file::read(&path)? {
            // Expired bans are dropped.
            if ban.until_unix_s.is_none_or(|until_s| until_s > now.unix_s) && self.bans.add(ban, now).is_err() {
                return Err(format!(
                    "{}: too many bans, or the reason of a ban is too long [bans_file]",
                    path.display()
                ));
            }
        }
        *self.ban_file.lock().unwrap_or_else(PoisonError::into_inner) = Some(BanFile::new(path));
        Ok(())
    }

    /// Persists the active bans, if a file is configured.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn persist_bans(&self) -> Result<(), String> {
        self.persist_bans_if(|_, _| true)
    }

    /// Persists bans made by rules, if any is missing in the file. A failed write is retried with the next ban.
    pub(crate) fn persist_rule_bans(&self) {
        if let Err(error) = self.persist_bans_if(BanFile::is_out_of_date) {
            log::error!("cannot persist bans made by rules; a restart loses them: {error}");
        }
    }

    fn persist_bans_if(&self, is_connected: impl Fn(&BanFile, u64) -> bool) -> Result<(), String> {
        // Locked, so that the last write includes all bans.
        let mut file = self.ban_file.lock().unwrap_or_else(PoisonError::into_inner);
        let by_rule = self.bans.counters().by_rule;
        match file.as_mut().filter(|file| is_connected(file, by_rule)) {
            Some(file) => file.write(&self.bans.list_own(self.now()), by_rule),
            None => Ok(()),
        }
    }

    /// Checks the password of a user for the admin API. A banned user fails. Counts like an authentication on a listener, takes equally
    /// long for an unknown user, and runs on the calling thread.
    pub(crate) fn verify_password(
        &self,
        file: &Arc<PasswordFile>,
        name: &str,
        password: &Secret,
        address: IpAddr,
    ) -> bool {
        let chain = self.shared_state.lock().unwrap_or_else(PoisonError::into_inner).chain_of(file.clone());
        // Behind a local proxy, the loopback address does not identify the client.
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
            log::info!("admin: login failed: {refusal}");
        }
        matches!(step, AuthStep::Admit { .. })
    }

    /// The cache of verified passwords.
    pub(crate) fn verified(&self) -> &VerifiedPasswords {
        &self.verified
    }

    /// The counters of the worker threads.
    pub(crate) fn counters(&self) -> WorkerCounters {
        self.tally.counters()
    }

    /// The clock of the chains.
    pub(crate) fn now(&self) -> Now {
        self.clock.now()
    }
}

/// A pending authentication of a client.
struct PendingAuth {
    listener: Arc<str>,
    ticket: AuthResponder,
}

impl AuthCallback for PendingAuth {
    fn is_connected(&self) -> bool {
        self.ticket.is_connected()
    }

    fn complete(self: Box<Self>, step: AuthStep) {
        // Work that has run leaves no further work here.
        if let Ok(decision) = to_decision(&self.listener, step) {
            self.ticket.send_auth_decision(decision);
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

    fn ask(&self, origin: &ConnectionOrigin, request: AuthRequest, ticket: AuthResponder) -> Option<AuthDecision> {
        let now = self.now();
        let listener = origin.listener().clone();
        let step = match request {
            AuthRequest::Connect(attempt) | AuthRequest::Reauthenticate(attempt) => {
                let Some(chain) = self.chains().of(&listener) else {
                    return Some(refusal(
                        ConnectReason::ServerUnavailable,
                        "this listener has no authentication chain",
                    ));
                };
                let mut fill = |bytes: &mut [u8]| random(bytes).map_err(|_| RandomUnavailable);
                chain.begin(to_attempt(origin, attempt), now, &mut fill)
            }
            AuthRequest::Continue { data, state } => match state.downcast::<Exchange>() {
                Ok(exchange) => exchange.go_on(&data, now),
                Err(_) => {
                    return Some(refusal(ConnectReason::NotAuthorized, "no authentication exchange is in progress"));
                }
            },
        };
        let work = match to_decision(&listener, step) {
            Ok(decision) => return Some(decision),
            Err(work) => work,
        };
        let Some(workers) = self.workers() else {
            return Some(refusal(ConnectReason::ServerBusy, "no authentication threads are running"));
        };
        workers.submit(work, PendingAuth { listener, ticket });
        None
    }
}

/// Converts a step to a decision, or returns the work to do first.
fn to_decision(listener: &Arc<str>, step: AuthStep) -> Result<AuthDecision, identity::AuthWork> {
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

fn refusal(reason: ConnectReason, why: &'static str) -> AuthDecision {
    AuthDecision::Refused { reason, why: why.into(), detail: None }
}

fn to_attempt(origin: &ConnectionOrigin, attempt: AuthAttempt) -> identity::AuthAttempt {
    let AuthAttempt { version, client_id, user_name, password, method, data } = attempt;
    identity::AuthAttempt {
        origin: Arc::new(to_client_origin(origin)),
        client_id,
        user_name,
        password: password.map(|bytes| Secret::new(bytes.into_vec())),
        method,
        data: data.map(|bytes| Secret::new(bytes.into_vec())),
        is_v5: version == ProtocolVersion::V5,
    }
}

fn to_client_origin(origin: &ConnectionOrigin) -> identity::ClientOrigin {
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
