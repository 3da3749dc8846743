//! What is read again while the broker runs. All of it is read and checked first; then all of it holds, or nothing has changed.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tautwire_access::Policy;
use tautwire_contracts::Catalogue;
use tautwire_engine::{ClientCheck, ClientInfo, RecheckOutcome};
use tautwire_identity::{Ban, BanTarget};
use tautwire_reactor::{ConfigChange, Control, ListenAddress, StartError, counted};

use super::notify;
use super::tls::{CertificateInfo, PreparedTls, TlsServers};
use super::watch::FileWatcher;
use super::{read_contracts, settings};
use crate::admin::{AdminServer, Credentials, CurrentCredentials};
use crate::cluster::{Node, Plan as ClusterPlan};
use crate::config::listener::Listener;
use crate::config::reload_effect::{self, ListenerChanges, ReloadEffect};
use crate::config::{self, Config, Override};
use crate::contracts::{Store, StoreLocation, warn_of_observe_mode};
use crate::identity::{AuthChains, BanEnforcer, ChainAuthenticator, LoadedAuth};
use crate::json;
use crate::log::audit;
use crate::rules;
use crate::shared::{Parts, Shared};
use crate::telemetry::{Plan, Telemetry};

/// Where the configuration comes from.
#[derive(Debug, Clone, Default)]
pub(crate) struct Source {
    pub(crate) file: Option<PathBuf>,
    pub(crate) overrides: Vec<Override>,
}

impl Source {
    /// Reads it.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub(crate) fn load(&self) -> Result<Config, Vec<config::ConfigError>> {
        Config::load(self.file.as_deref(), &self.overrides)
    }
}

/// Reads again what the broker runs with.
pub(crate) struct Reloader {
    source: Source,
    control: Control,
    store: Arc<Store>,
    credentials: Arc<CurrentCredentials>,
    admin_server: Arc<AdminServer>,
    tls: Mutex<TlsServers>,
    authenticator: Arc<ChainAuthenticator>,
    /// What the broker has been started with, but for what has been applied since.
    running: Mutex<Config>,
    /// What stands in place of files of this node. It changes while `running` is held.
    shared: Mutex<Arc<Shared>>,
    /// The broker is about to end.
    stops: AtomicBool,
    watch: FileWatcher,
    telemetry: Arc<Telemetry>,
    /// Where the broker is one of several.
    node: Option<Arc<Node>>,
}

/// What stands between the broker and others, and changes with a reload as well.
pub(crate) struct ReloadTargets {
    pub(crate) tls: TlsServers,
    pub(crate) authenticator: Arc<ChainAuthenticator>,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) node: Option<Arc<Node>>,
}

/// What a reload has come to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ReloadReport {
    /// Keys that have changed and hold now.
    pub(crate) applied: Vec<String>,
    /// Keys that have changed and hold for those who connect from now on.
    pub(crate) new_connections: Vec<String>,
    /// Keys that have changed and hold after a restart.
    pub(crate) after_restart: Vec<String>,
    /// What has become of listeners.
    pub(crate) listeners: ListenerChanges,
    /// Where those listen that have been added.
    pub(crate) addresses: Vec<(String, SocketAddr)>,
    /// Where the admin API is, if it has moved.
    pub(crate) admin: Option<String>,
    /// How many contracts there are, where there is a folder of them.
    pub(crate) contracts: Option<usize>,
    /// How many access rules there are, where there is a file of them.
    pub(crate) rules: Option<usize>,
}

impl Reloader {
    pub(crate) fn new(
        source: Source,
        running: Config,
        control: Control,
        store: Arc<Store>,
        (credentials, admin_server): (Arc<CurrentCredentials>, Arc<AdminServer>),
        outside: ReloadTargets,
    ) -> Reloader {
        let ReloadTargets { tls, authenticator, telemetry, node } = outside;
        Reloader {
            source,
            control,
            store,
            credentials,
            admin_server,
            tls: Mutex::new(tls),
            authenticator,
            running: Mutex::new(running),
            shared: Mutex::default(),
            stops: AtomicBool::new(false),
            watch: FileWatcher::default(),
            telemetry,
            node,
        }
    }

    /// The configuration that holds now, as a file.
    pub(crate) fn running_toml(&self) -> String {
        config::to_toml(&self.running())
    }

    /// The certificates by which listeners are served that speak TLS.
    pub(crate) fn certificates(&self) -> Vec<(String, Arc<[CertificateInfo]>)> {
        let (listeners, tls) = (self.running().listeners(), self.tls());
        let served = |listener: Listener| tls.listener_certificates(&listener).map(|found| (listener.name, found));
        listeners.into_iter().filter_map(served).collect()
    }

    /// The broker is about to end: nobody is to be sent here any more.
    pub(crate) fn stop(&self) {
        self.stops.store(true, Ordering::Relaxed);
    }

    /// Whether the broker is about to end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stops.load(Ordering::Relaxed)
    }

    /// Who finds out who clients are.
    pub(crate) fn authenticator(&self) -> &ChainAuthenticator {
        &self.authenticator
    }

    /// This broker as one of several, if it is.
    pub(crate) fn node(&self) -> Option<&Node> {
        self.node.as_deref()
    }

    /// What is sent to a collector of telemetry.
    pub(crate) fn telemetry(&self) -> &Telemetry {
        &self.telemetry
    }

    /// Reads everything again, and says what a reload would come to.
    ///
    /// # Errors
    /// Everything that is wrong, a line each with file, line and reason.
    pub(crate) fn compare(&self) -> Result<ReloadReport, Vec<String>> {
        let running = self.running();
        let ready = self.prepare(&running, self.read()?, &self.shared().parts)?;
        Ok(ready.compared_with(&running))
    }

    /// Reads everything again, and has it hold.
    ///
    /// # Errors
    /// Everything that is wrong, likewise. Nothing has changed then.
    pub(crate) fn reload(&self) -> Result<ReloadReport, Vec<String>> {
        // So that it can be moved away, whatever else there is to read.
        audit::reopen();
        let _reloading = notify::reloading();
        let result = self.store.reload(|| self.adopt(&mut self.running(), self.read()?, self.shared()));
        let (is_done, what) = to_audit_fields(&result);
        log::error!(target: audit::TARGET, event = "reload", done = is_done, what = &*what; "");
        if let Some(node) = self.node.as_ref().filter(|_| result.is_ok()) {
            node.retry_refused();
        }
        result
    }

    /// Has a revision of what the cluster shares hold, with the settings that hold already. Files that these name are read again.
    ///
    /// # Errors
    /// Everything that is wrong, a line each. Nothing has changed then.
    pub(crate) fn apply(&self, revision: &Arc<Shared>) -> Result<(), Vec<String>> {
        let result = self.store.reload(|| {
            let mut running = self.running();
            let config = running.clone();
            self.adopt(&mut running, config, revision.clone())
        });
        let (is_done, what) = to_audit_fields(&result);
        log::error!(target: audit::TARGET, event = "configuration", number = revision.number, done = is_done, what = &*what; "");
        result.map(drop)
    }

    /// Whether this node could take on what the cluster is to share.
    ///
    /// # Errors
    /// Everything that is wrong, a line each.
    pub(crate) fn check(&self, parts: &Parts) -> Result<(), Vec<String>> {
        let running = self.running();
        self.prepare(&running, running.clone(), parts).map(drop)
    }

    /// Reads everything again, and logs what has come of it. `cause` is why.
    pub(crate) fn reload_and_notify(&self, cause: &str) {
        match self.reload() {
            Ok(reloaded) => log::info!("{cause}: {reloaded}"),
            Err(errors) => {
                errors.iter().for_each(|line| log::error!("{cause}: {line}"));
                log::error!("{cause}: nothing has changed");
            }
        }
    }

    /// From now on files that have changed are read again, where the configuration wants it.
    pub(crate) fn watch_files(self: &Arc<Reloader>) {
        let every_s = self.running().watch_files_s;
        let files = self.files();
        self.watch.begin(every_s, &files, Arc::downgrade(self));
    }

    /// The files that a reload reads.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.files_of(&self.running())
    }

    fn files_of(&self, config: &Config) -> Vec<PathBuf> {
        let mut files = config.referenced_files();
        files.extend(self.source.file.clone());
        files
    }

    /// Somebody has been banned: clients are asked who they are from now on, and those who are there are looked at.
    pub(crate) fn enforce_bans(&self) {
        // A reload that has not seen the ban may be about to say that nobody need be asked.
        let _alone = self.running();
        self.control.recheck_clients(self.known(self.authenticator.chains()));
    }

    /// From now on bans by rule are enforced on those who are connected, too, and written down where bans are kept.
    pub(crate) fn enforce_bans_by_rule(self: &Arc<Reloader>) {
        let reloader = Arc::downgrade(self);
        let enforcement = BanEnforcer::new(move || {
            if let Some(reloader) = reloader.upgrade() {
                reloader.enforce_bans();
                reloader.authenticator.persist_rule_bans();
            }
        });
        self.authenticator.bans().on_rule_ban(move || enforcement.note());
    }

    /// Whether clients have to be asked anything.
    fn asks(&self, chains: &AuthChains, policy: &Policy) -> bool {
        chains.ask() || !policy.is_open() || !self.authenticator.bans().list(self.authenticator.now()).is_empty()
    }

    /// Says who is not known any more, or banned.
    fn known(&self, chains: Arc<AuthChains>) -> ClientCheck {
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
            // Each CONNECT comes by here, and mostly nobody is banned.
            if bans.is_any() && is_banned() {
                RecheckOutcome::Banned
            } else if !chains.recognizes(identity, listener) {
                RecheckOutcome::Unknown
            } else if address.is_none() && bans.has_networks() {
                RecheckOutcome::DependsOnAddress
            } else {
                RecheckOutcome::Accepted
            }
        })
    }

    /// The settings as they are written now.
    fn read(&self) -> Result<Config, Vec<String>> {
        self.source.load().map_err(|errors| errors.iter().map(ToString::to_string).collect())
    }

    /// Reads the files that settings name, but for what is shared.
    fn prepare(&self, running: &Config, read: Config, shared: &Parts) -> Result<ReloadPlan, Vec<String>> {
        let mut config = running.reloaded(&read);
        // Where the port of the default's WebSocket was taken at start, nobody asks for it again.
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
            None => config.contracts.path.get().map(read_contracts).transpose(),
        };
        let contracts = contracts.map(|contracts| contracts.map(Arc::new));
        let credentials = Credentials::read(&config, shared);
        let bans = shared.bans();
        let outside = (Plan::read(&config), ClusterPlan::read(&config));
        match (tls, policy, chains, contracts, (credentials, bans), outside) {
            (
                Ok(tls),
                Ok(policy),
                Ok(chains),
                Ok(contracts),
                (Ok(credentials), Ok(bans)),
                (Ok(telemetry), Ok(cluster)),
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
            }),
            (tls, policy, chains, contracts, (credentials, bans), (telemetry, cluster)) => {
                let lists = [
                    tls.err(),
                    policy.err(),
                    chains.err(),
                    contracts.err(),
                    credentials.err(),
                    bans.err(),
                    telemetry.err(),
                    cluster.err(),
                ];
                Err(lists.into_iter().flatten().flatten().collect())
            }
        }
    }

    /// Gives where contracts are from then on, too. One at a time, whoever asks for it: that is what `running` is held for.
    fn adopt(
        &self,
        running: &mut Config,
        read: Config,
        shared: Arc<Shared>,
    ) -> Result<(StoreLocation, ReloadReport), Vec<String>> {
        let ready = self.prepare(running, read, &shared.parts)?;
        let mut reloaded = ready.compared_with(running);
        let listener_configs = settings::listener_configs(&ready.config, &ready.listeners, &ready.tls.servers);
        let listeners = self.control.prepare_listeners(&listener_configs, settings::accept_rate(&ready.config.limits));
        let listeners = listeners.map_err(|error| vec![not_bound(running, &error)])?;
        let workers = self.authenticator.workers_for(&ready.chains).map_err(|error| vec![error])?;
        let moved = running.audit.file != ready.config.audit.file;
        let audit = moved.then(|| audit::open_next(ready.config.audit.file.get())).transpose();
        let audit = audit.map_err(|error| vec![error])?;
        let door =
            self.admin_server.prepare(ready.config.admin.listen.0, ready.tls.servers.admin_server(&ready.config));
        let door = door.map_err(|error| vec![error])?;
        // From here on nothing can fail.
        let ReloadPlan {
            read: _,
            config,
            listeners: _,
            tls,
            policy,
            chains,
            contracts,
            credentials,
            bans,
            telemetry,
            cluster,
        } = ready;
        self.authenticator.apply_shared_bans(bans);
        // Where there were contracts and are none, there are none. Where there never were any, nothing has changed.
        let had_some = running.contracts.path.get().is_some() || self.shared().parts.contracts.is_some();
        let contracts = contracts.or_else(|| had_some.then(Arc::default));
        if let Some(contracts) = &contracts {
            warn_of_observe_mode(contracts);
        }
        let (servers, adopt_certificates) = tls.into_parts();
        *self.tls() = servers;
        let (settings, retained) = settings::of(&config);
        let asks = self.asks(&chains.chains, &policy);
        for warning in policy.warnings() {
            log::warn!("{warning}");
        }
        let known = self.known(chains.chains.clone());
        // Held until the end, so that no thread that serves clients has to free them.
        let _chains_of_before = self.authenticator.chains();
        let authenticator = self.authenticator.clone();
        self.telemetry.adopt(telemetry);
        if let (Some(node), Some(plan)) = (&self.node, cluster) {
            node.adopt(plan);
        }
        let tracer = self.telemetry.tracer();
        self.control.adopt(ConfigChange {
            listeners,
            settings,
            retained,
            tls_handshakes: config.limits.tls_handshakes,
            disk_limit: settings::disk_limit(&config),
            config: Box::new(move |next| {
                next.asks = asks;
                next.policy = policy;
                next.tracer = tracer;
                if let Some(contracts) = contracts {
                    next.contracts = contracts;
                }
                next.review(known);
            }),
            // After the rules: who is let in by it is held to them. Who was let in before by what does not hold any more is looked at again.
            on_apply: Box::new(move || {
                authenticator.adopt(chains, workers);
                adopt_certificates();
            }),
        });
        self.credentials.set(credentials);
        reloaded.admin = self.admin_server.adopt(door);
        if let Some(admin) = &reloaded.admin {
            log::info!("the admin API is at {admin}");
        }
        if let Some(audit) = audit {
            audit::adopt(audit);
        }
        crate::log::adopt(&config.log);
        for name in &reloaded.listeners.added {
            match self.control.address_of(name) {
                Some(address) => {
                    log::info!("listening on {name}, at {address}");
                    reloaded.addresses.push((name.clone(), address));
                }
                None => log::info!("listening on {name}"),
            }
        }
        let place = match config.contracts.path.get() {
            _ if shared.parts.contracts.is_some() => StoreLocation::Cluster,
            Some(folder) => StoreLocation::Folder(folder.to_owned()),
            None => StoreLocation::Disabled,
        };
        self.watch.adopt(config.watch_files_s, &self.files_of(&config));
        *self.shared.lock().unwrap_or_else(PoisonError::into_inner) = shared;
        *running = config;
        Ok((place, reloaded))
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

/// All that has been read, and is right.
struct ReloadPlan {
    /// As it is written.
    read: Config,
    /// As it is to hold: what needs a restart is as before.
    config: Config,
    listeners: Vec<Listener>,
    tls: PreparedTls,
    policy: Arc<Policy>,
    chains: LoadedAuth,
    /// `None` where there is no folder of them.
    contracts: Option<Arc<Catalogue>>,
    credentials: Credentials,
    /// Those that are shared.
    bans: Vec<Ban>,
    telemetry: Option<Plan>,
    cluster: Option<ClusterPlan>,
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
        ReloadReport {
            applied: of(ReloadEffect::Immediate),
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

/// What has come of it, for the audit log.
fn to_audit_fields(result: &Result<ReloadReport, Vec<String>>) -> (&'static str, String) {
    match result {
        Ok(reloaded) => ("yes", reloaded.to_string()),
        Err(errors) => ("no", errors.join("; ")),
    }
}

/// Why the reload is refused: somewhere cannot be listened.
fn not_bound(running: &Config, error: &StartError) -> String {
    let has_port = |address: &SocketAddr| {
        running.listeners().iter().any(|held| held.address.socket().is_some_and(|held| held.port() == address.port()))
    };
    match error {
        StartError::ListenerConfig(ListenAddress::Network(address), cause)
            if cause.kind() == io::ErrorKind::AddrInUse && has_port(address) =>
        {
            format!(
                "cannot listen on {address}: the broker itself listens on this port at another address; remove that listener by a \
                 reload of its own first, or start the broker again [listen]"
            )
        }
        error => format!("{error} [listen]"),
    }
}

impl ReloadReport {
    /// As an object of JSON.
    pub(crate) fn to_json(&self) -> String {
        let mut json = String::from("{");
        let lists = [
            ("applied", &self.applied),
            ("new_connections", &self.new_connections),
            ("after_restart", &self.after_restart),
            ("listeners_added", &self.listeners.added),
            ("listeners_removed", &self.listeners.removed),
        ];
        for (name, values) in lists {
            json.push_str(&format!("\"{name}\":["));
            for (at, value) in values.iter().enumerate() {
                json.push_str(if at > 0 { "," } else { "" });
                json::push_string(&mut json, value);
            }
            json.push_str("],");
        }
        json.push_str("\"addresses\":{");
        for (at, (name, address)) in self.addresses.iter().enumerate() {
            json.push_str(if at > 0 { "," } else { "" });
            json::push_string(&mut json, name);
            json.push_str(&format!(":\"{address}\""));
        }
        json.push_str("},\"admin\":");
        match &self.admin {
            Some(address) => json::push_string(&mut json, address),
            None => json.push_str("null"),
        }
        json.push(',');
        let number = |count: Option<usize>| count.map_or("null".to_owned(), |count| count.to_string());
        json.push_str(&format!("\"contracts\":{},\"rules\":{}}}\n", number(self.contracts), number(self.rules)));
        json
    }
}

impl fmt::Display for ReloadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the configuration and the files it names are read")?;
        if let Some(count) = self.rules {
            write!(f, "; {}", counted(count, "rule"))?;
        }
        if let Some(count) = self.contracts {
            write!(f, "; {}", counted(count, "contract"))?;
        }
        for (names, what) in [(&self.listeners.added, "added"), (&self.listeners.removed, "removed")] {
            if !names.is_empty() {
                write!(f, "; listeners {what}: {}", names.join(", "))?;
            }
        }
        if !self.applied.is_empty() {
            write!(f, "; new: {}", self.applied.join(", "))?;
        }
        if !self.new_connections.is_empty() {
            write!(f, "; new for those who connect from now on: {}", self.new_connections.join(", "))?;
        }
        if !self.after_restart.is_empty() {
            write!(f, "; after a restart: {}", self.after_restart.join(", "))?;
        }
        Ok(())
    }
}
