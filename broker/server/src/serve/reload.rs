//! Reloading: everything is read and checked first, then applied as a whole or not at all.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tautwire_access::Policy;
use tautwire_contracts::Catalogue;
use tautwire_engine::{ClientCheck, ClientInfo, RecheckOutcome};
use tautwire_identity::{Ban, BanTarget};
use tautwire_reactor::{ConfigChange, Control, ListenAddress, PreparedListeners, StartError};

use super::notify;
use super::reload_report::ReloadReport;
use super::settings;
use super::tls::{CertificateInfo, PreparedTls, TlsServers};
use super::watch::FileWatcher;
use crate::admin::{AdminListener, Credentials, CurrentCredentials, ListenerChange};
use crate::bridges::{self, BACKEND, BridgePlan, Bridges};
use crate::cluster::{Node, Plan as ClusterPlan};
use crate::config::listener::Listener;
use crate::config::reload_effect::{self, ListenerChanges, ReloadEffect};
use crate::config::{self, Config, Override};
use crate::contracts::{Store, StoreLocation, load_catalogue, warn_of_observe_mode};
use crate::identity::{AuthChains, BanEnforcer, ChainAuthenticator, LoadedAuth, WorkerPool};
use crate::log::audit::{self, OpenAuditFile};
use crate::rules;
use crate::shared::{Parts, Shared};
use crate::telemetry::{Plan, Telemetry};

/// The sources of the configuration.
#[derive(Debug, Clone, Default)]
pub(crate) struct Source {
    pub(crate) file: Option<PathBuf>,
    pub(crate) overrides: Vec<Override>,
}

impl Source {
    /// Loads and checks the configuration.
    ///
    /// # Errors
    /// All errors in the configuration.
    pub(crate) fn load(&self) -> Result<Config, Vec<config::ConfigError>> {
        Config::load(self.file.as_deref(), &self.overrides)
    }
}

/// Reloads the configuration and the files it names.
pub(crate) struct Reloader {
    source: Source,
    control: Control,
    store: Arc<Store>,
    credentials: Arc<CurrentCredentials>,
    admin_listener: Arc<AdminListener>,
    tls: Mutex<TlsServers>,
    authenticator: Arc<ChainAuthenticator>,
    /// The running configuration: that of the start, with the changes applied since.
    running: Mutex<Config>,
    /// The shared configuration of the cluster, which replaces files of this node. Changes only while `running` is locked.
    shared: Mutex<Arc<Shared>>,
    /// The broker is stopping.
    is_stopping: AtomicBool,
    watch: FileWatcher,
    telemetry: Arc<Telemetry>,
    /// Set if the broker is part of a cluster.
    node: Option<Arc<Node>>,
    bridges: Bridges,
}

/// The services that a reload reconfigures.
pub(crate) struct ReloadTargets {
    pub(crate) tls: TlsServers,
    pub(crate) authenticator: Arc<ChainAuthenticator>,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) node: Option<Arc<Node>>,
}

impl Reloader {
    pub(crate) fn new(
        source: Source,
        running: Config,
        control: Control,
        store: Arc<Store>,
        (credentials, admin_listener): (Arc<CurrentCredentials>, Arc<AdminListener>),
        targets: ReloadTargets,
    ) -> Reloader {
        let ReloadTargets { tls, authenticator, telemetry, node } = targets;
        let bridges = Bridges::new(control.clone(), node.clone());
        Reloader {
            source,
            control,
            store,
            credentials,
            admin_listener,
            tls: Mutex::new(tls),
            authenticator,
            running: Mutex::new(running),
            shared: Mutex::default(),
            is_stopping: AtomicBool::new(false),
            watch: FileWatcher::default(),
            telemetry,
            node,
            bridges,
        }
    }

    /// The running configuration as TOML.
    pub(crate) fn running_toml(&self) -> String {
        config::to_toml(&self.running())
    }

    /// The certificates of the TLS listeners.
    pub(crate) fn certificates(&self) -> Vec<(String, Arc<[CertificateInfo]>)> {
        let (listeners, tls) = (self.running().listeners(), self.tls());
        let served = |listener: Listener| tls.listener_certificates(&listener).map(|found| (listener.name, found));
        listeners.into_iter().filter_map(served).collect()
    }

    /// Marks the broker as stopping: readiness checks fail from now on.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    /// Whether the broker is stopping.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// The authenticator of clients.
    pub(crate) fn authenticator(&self) -> &ChainAuthenticator {
        &self.authenticator
    }

    /// The cluster node, if the broker is part of a cluster.
    pub(crate) fn node(&self) -> Option<&Node> {
        self.node.as_deref()
    }

    /// The exporter of telemetry.
    pub(crate) fn telemetry(&self) -> &Telemetry {
        &self.telemetry
    }

    /// Reads everything again, and reports what a reload would change.
    ///
    /// # Errors
    /// All errors, one per line with file, line and reason.
    pub(crate) fn compare(&self) -> Result<ReloadReport, Vec<String>> {
        let running = self.running();
        let ready = self.prepare(&running, self.read()?, &self.shared().parts)?;
        Ok(ready.compared_with(&running))
    }

    /// Reads everything again, and applies it.
    ///
    /// # Errors
    /// All errors, as for `compare`. Nothing is changed then.
    pub(crate) fn reload(&self) -> Result<ReloadReport, Vec<String>> {
        // Reopened on every reload, so that log rotation can move the file.
        audit::reopen();
        let _reloading = notify::reloading();
        let result = self.store.reload(|| self.apply_config(&mut self.running(), self.read()?, self.shared()));
        let (outcome, changes) = to_audit_fields(&result);
        log::error!(target: audit::TARGET, event = "reload", result = outcome, changes = &*changes; "");
        if let Some(node) = self.node.as_ref().filter(|_| result.is_ok()) {
            node.retry_refused();
        }
        result
    }

    /// Applies a revision of the shared configuration, with the running settings. Files that these name are read again.
    ///
    /// # Errors
    /// All errors, one per line. Nothing is changed then.
    pub(crate) fn apply(&self, revision: &Arc<Shared>) -> Result<(), Vec<String>> {
        let result = self.store.reload(|| {
            let mut running = self.running();
            let config = running.clone();
            self.apply_config(&mut running, config, revision.clone())
        });
        let (outcome, changes) = to_audit_fields(&result);
        log::error!(target: audit::TARGET, event = "configuration", number = revision.number, result = outcome, changes = &*changes; "");
        result.map(drop)
    }

    /// Checks whether this node could apply a shared configuration.
    ///
    /// # Errors
    /// All errors, one per line.
    pub(crate) fn check(&self, parts: &Parts) -> Result<(), Vec<String>> {
        let running = self.running();
        self.prepare(&running, running.clone(), parts).map(drop)
    }

    /// Reloads, and logs the result with its `cause`.
    pub(crate) fn reload_and_log(&self, cause: &str) {
        match self.reload() {
            Ok(reloaded) => log::info!("{cause}: {reloaded}"),
            Err(errors) => {
                errors.iter().for_each(|line| log::error!("{cause}: {line}"));
                log::error!("{cause}: reload failed, the configuration is unchanged");
            }
        }
    }

    /// Starts watching files, if configured.
    pub(crate) fn watch_files(self: &Arc<Reloader>) {
        let reloader = Arc::downgrade(self);
        self.watch.on_change(move || {
            if let Some(reloader) = reloader.upgrade() {
                reloader.reload_and_log("files have changed");
            }
        });
        let running = self.running();
        self.watch.configure(running.file_watch_interval_s, self.files_of(&running));
    }

    /// The files that a reload reads.
    fn files_of(&self, config: &Config) -> Vec<PathBuf> {
        let mut files = config.referenced_files();
        files.extend(self.source.file.clone());
        files
    }

    /// Enforces bans on connected clients, and makes sure that new ones are checked.
    pub(crate) fn enforce_bans(&self) {
        // A reload that has not seen the ban might otherwise turn the checks off.
        let _alone = self.running();
        self.control.recheck_clients(self.client_check(self.authenticator.chains()));
    }

    /// Enforces bans made by rules on connected clients as well, and persists them.
    pub(crate) fn enforce_bans_by_rule(self: &Arc<Reloader>) {
        let reloader = Arc::downgrade(self);
        let enforcer = BanEnforcer::new(move || {
            if let Some(reloader) = reloader.upgrade() {
                reloader.enforce_bans();
                reloader.authenticator.persist_rule_bans();
            }
        });
        self.authenticator.bans().on_rule_ban(move || enforcer.schedule());
    }

    /// Whether clients need any check.
    fn requires_auth(&self, chains: &AuthChains, policy: &Policy) -> bool {
        chains.requires_auth()
            || !policy.is_open()
            || !self.authenticator.bans().list(self.authenticator.now()).is_empty()
    }

    /// The bridges to other brokers.
    pub(crate) fn bridges(&self) -> &Bridges {
        &self.bridges
    }

    /// Starts the bridges, once the broker is running.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn start_bridges(&self, plans: Vec<BridgePlan>) -> Result<(), String> {
        self.bridges.apply(plans)
    }

    /// A check whether a client is still known and not banned.
    fn client_check(&self, chains: Arc<AuthChains>) -> ClientCheck {
        let authenticator = self.authenticator.clone();
        Arc::new(move |visitor| {
            let ClientInfo { identity, client_id, listener, address } = *visitor;
            let bans = authenticator.bans();
            let is_banned = || {
                let now = authenticator.now();
                let user = identity.and_then(|identity| identity.user.as_deref());
                user.is_some_and(|user| bans.has(&BanTarget::User(user.into()), now))
                    || bans.has(&BanTarget::ClientId(client_id.into()), now)
                    || address.is_some_and(|address| bans.has_address(address, now))
            };
            // This runs for each CONNECT, and usually there are no bans.
            if bans.is_any() && is_banned() {
                RecheckOutcome::Banned
            } else if identity.is_some_and(|identity| identity.by == BACKEND) {
                RecheckOutcome::Accepted
            } else if !chains.recognizes(identity, listener) {
                RecheckOutcome::Unknown
            } else if address.is_none() && bans.has_networks() {
                RecheckOutcome::DependsOnAddress
            } else {
                RecheckOutcome::Accepted
            }
        })
    }

    /// Reads the current settings of the source.
    fn read(&self) -> Result<Config, Vec<String>> {
        self.source.load().map_err(|errors| errors.iter().map(ToString::to_string).collect())
    }

    /// Reads the files that the settings name, except for shared parts.
    fn prepare(&self, running: &Config, read: Config, shared: &Parts) -> Result<ReloadPlan, Vec<String>> {
        let mut config = running.reloaded(&read);
        // If the port of the default WebSocket listener was in use at startup, it is not tried again.
        let mut given_up = config.listen.clone();
        if given_up.remove_websocket_default() && given_up == running.listen {
            config.listen = given_up;
        }
        let listeners = config.listeners();
        let tls = self.tls().next(&config).map_err(|error| vec![error]);
        let policy = rules::load_all(&config, shared);
        let chains = self.authenticator.read(&config, shared);
        let contracts = match &shared.contracts {
            Some(_) => shared.contracts(),
            None => config.contracts.path.get().map(load_catalogue).transpose(),
        };
        let contracts = contracts.map(|contracts| contracts.map(Arc::new));
        let credentials = Credentials::read(&config, shared);
        let bans = shared.bans();
        let services = (Plan::read(&config), ClusterPlan::read(&config), bridges::read(&config));
        match (tls, policy, chains, contracts, (credentials, bans), services) {
            (
                Ok(tls),
                Ok(policy),
                Ok(chains),
                Ok(contracts),
                (Ok(credentials), Ok(bans)),
                (Ok(telemetry), Ok(cluster), Ok(bridges)),
            ) => Ok(ReloadPlan {
                read,
                config,
                listeners,
                tls,
                policy,
                chains,
                contracts,
                credentials,
                bans,
                telemetry,
                cluster,
                bridges,
            }),
            (tls, policy, chains, contracts, (credentials, bans), (telemetry, cluster, bridges)) => {
                let lists = [
                    tls.err(),
                    policy.err(),
                    chains.err(),
                    contracts.err(),
                    credentials.err(),
                    bans.err(),
                    telemetry.err(),
                    cluster.err(),
                    bridges.err(),
                ];
                Err(lists.into_iter().flatten().flatten().collect())
            }
        }
    }

    /// Applies a configuration, and returns the location of contracts for the store. `running` is locked, so calls are serialized.
    fn apply_config(
        &self,
        running: &mut Config,
        read: Config,
        shared: Arc<Shared>,
    ) -> Result<(StoreLocation, ReloadReport), Vec<String>> {
        let mut plan = self.prepare(running, read, &shared.parts)?;
        let mut report = plan.compared_with(running);
        let OpenedResources { listeners, workers, audit, admin } =
            self.open(&plan, running).map_err(|error| vec![error])?;
        // From here on nothing can fail.
        // Contracts that are no longer configured are replaced by none. If there never were any, nothing changes.
        let had_contracts = running.contracts.path.get().is_some() || self.shared().parts.contracts.is_some();
        plan.contracts = plan.contracts.or_else(|| had_contracts.then(Arc::default));
        // Kept until the end, so that no thread that serves clients has to free them.
        let _previous_chains = self.authenticator.chains();
        let config = self.apply_plan(plan, listeners, workers);
        report.admin = self.admin_listener.apply(admin);
        if let Some(admin) = &report.admin {
            log::info!("admin API listening on {admin}");
        }
        if let Some(audit) = audit {
            audit::apply(audit);
        }
        crate::log::apply(&config.log);
        self.report_added_listeners(&mut report);
        let store_location = match config.contracts.path.get() {
            _ if shared.parts.contracts.is_some() => StoreLocation::Cluster,
            Some(folder) => StoreLocation::Folder(folder.to_owned()),
            None => StoreLocation::Disabled,
        };
        self.watch.configure(config.file_watch_interval_s, self.files_of(&config));
        *self.shared.lock().unwrap_or_else(PoisonError::into_inner) = shared;
        *running = config;
        Ok((store_location, report))
    }

    /// Opens everything that a plan needs, without any effect on the running broker.
    fn open(&self, plan: &ReloadPlan, running: &Config) -> Result<OpenedResources, String> {
        let ReloadPlan { config, listeners, tls, chains, .. } = plan;
        let listener_configs = settings::listener_configs(config, listeners, &tls.servers);
        let listeners = self.control.prepare_listeners(&listener_configs, settings::accept_rate(&config.limits));
        let listeners = listeners.map_err(|error| listen_error(running, &error))?;
        let workers = self.authenticator.workers_for(chains)?;
        let has_moved = running.audit.file != config.audit.file;
        let audit = has_moved.then(|| audit::open_next(config.audit.file.get())).transpose()?;
        let admin = self.admin_listener.prepare(config.admin.listen.0, tls.servers.admin_server(config))?;
        Ok(OpenedResources { listeners, workers, audit, admin })
    }

    /// Changes the broker and its services, and returns the configuration that is in effect.
    fn apply_plan(&self, plan: ReloadPlan, listeners: PreparedListeners, workers: Option<WorkerPool>) -> Config {
        let ReloadPlan { config, policy, chains, contracts, .. } = plan;
        self.authenticator.apply_shared_bans(plan.bans);
        if let Some(contracts) = &contracts {
            warn_of_observe_mode(contracts);
        }
        let (servers, apply_certificates) = plan.tls.into_parts();
        *self.tls() = servers;
        let (settings, retained) = settings::of(&config);
        let requires_auth = self.requires_auth(&chains.chains, &policy);
        for warning in policy.warnings() {
            log::warn!("{warning}");
        }
        let client_check = self.client_check(chains.chains.clone());
        let authenticator = self.authenticator.clone();
        self.telemetry.apply(plan.telemetry);
        if let (Some(node), Some(plan)) = (&self.node, plan.cluster) {
            node.apply(plan);
        }
        let tracer = self.telemetry.tracer();
        self.control.adopt(ConfigChange {
            listeners,
            settings,
            retained,
            tls_handshakes: config.limits.tls_handshakes,
            disk_limit: settings::disk_limit(&config),
            config: Box::new(move |next| {
                next.requires_auth = requires_auth;
                next.policy = policy;
                next.tracer = tracer;
                if let Some(contracts) = contracts {
                    next.contracts = contracts;
                }
                next.recheck_clients(client_check);
            }),
            // After the rules are in effect: clients accepted by the new authenticator are subject to them. Clients accepted before are
            // rechecked.
            on_apply: Box::new(move || {
                authenticator.apply(chains, workers);
                apply_certificates();
            }),
        });
        if let Err(error) = self.bridges.apply(plan.bridges) {
            log::error!("{error}");
        }
        self.credentials.set(plan.credentials);
        config
    }

    /// Logs the new listeners, and adds their addresses to the report.
    fn report_added_listeners(&self, report: &mut ReloadReport) {
        for name in &report.listeners.added {
            match self.control.address_of(name) {
                Some(address) => {
                    log::info!("listener {name} is listening on {address}");
                    report.addresses.push((name.clone(), address));
                }
                None => log::info!("listener {name} is listening"),
            }
        }
    }

    fn shared(&self) -> Arc<Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn tls(&self) -> MutexGuard<'_, TlsServers> {
        self.tls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> MutexGuard<'_, Config> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A new configuration with all its files, read and checked.
struct ReloadPlan {
    /// The configuration as read.
    read: Config,
    /// The configuration to apply: keys that need a restart are unchanged.
    config: Config,
    listeners: Vec<Listener>,
    tls: PreparedTls,
    policy: Arc<Policy>,
    chains: LoadedAuth,
    /// `None` if no folder is configured.
    contracts: Option<Arc<Catalogue>>,
    credentials: Credentials,
    /// The bans shared in the cluster.
    bans: Vec<Ban>,
    telemetry: Option<Plan>,
    cluster: Option<ClusterPlan>,
    bridges: Vec<BridgePlan>,
}

/// What a reload opens before it changes anything.
struct OpenedResources {
    listeners: PreparedListeners,
    /// Set if other threads are to authenticate clients.
    workers: Option<WorkerPool>,
    /// Set if the audit log moves to another file, or ends.
    audit: Option<OpenAuditFile>,
    admin: ListenerChange,
}

impl ReloadPlan {
    fn compared_with(&self, running: &Config) -> ReloadReport {
        let listeners = ListenerChanges::between(running, &self.config);
        let of = |reload_effect| -> Vec<String> {
            let changed = reload_effect::changed(running, &self.read).map(|key| key.name);
            let keys = changed.filter(|key| ReloadEffect::of(key) == reload_effect).map(str::to_owned);
            let of_tables = listeners.keys.iter().filter(|(_, key)| ReloadEffect::of_listener(key) == reload_effect);
            keys.chain(of_tables.map(|(name, key)| format!("listener {name}: {key}"))).collect()
        };
        let mut applied = of(ReloadEffect::Immediate);
        applied.extend(reload_effect::changed_bridges(running, &self.config));
        ReloadReport {
            applied,
            new_connections: of(ReloadEffect::NewConnections),
            after_restart: of(ReloadEffect::Restart),
            listeners,
            addresses: Vec::new(),
            admin: None,
            contracts: self.contracts.as_ref().map(|catalogue| catalogue.contracts().len()),
            rules: (!self.policy.is_open()).then(|| self.policy.rule_count()),
        }
    }
}

/// The fields of the result for the audit log.
fn to_audit_fields(result: &Result<ReloadReport, Vec<String>>) -> (&'static str, String) {
    match result {
        Ok(reloaded) => ("success", reloaded.to_string()),
        Err(errors) => ("failure", errors.join("; ")),
    }
}

/// The error for a listener that cannot be opened.
fn listen_error(running: &Config, error: &StartError) -> String {
    let has_port = |address: &SocketAddr| {
        running
            .listeners()
            .iter()
            .any(|listener| listener.address.socket().is_some_and(|socket| socket.port() == address.port()))
    };
    match error {
        StartError::ListenerConfig(ListenAddress::Network(address), cause)
            if cause.kind() == io::ErrorKind::AddrInUse && has_port(address) =>
        {
            format!(
                "cannot listen on {address}: the broker already uses this port at another address; remove that listener with a separate \
                 reload first, or restart the broker [listen]"
            )
        }
        error => format!("{error} [listen]"),
    }
}
