//! Starting, running and stopping the broker.

mod cgroup;
pub(crate) mod descriptors;
pub(crate) mod memory;
mod notify;
pub(crate) mod reload;
pub(crate) mod reload_report;
pub(crate) mod settings;
mod tls;
mod user;
mod watch;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tautwire_access::Policy;
use tautwire_contracts::Catalogue;
use tautwire_reactor::{
    AcceptOptions, Authenticator, Broker, DataDirectory, DataLock, ListenAddress, OnDamage, StartError, counted,
};

use crate::admin::{AdminListener, AdminState, Credentials, CurrentCredentials};
use crate::bridges::{self, BridgePlan};
use crate::cluster::{Node, Plan as ClusterPlan};
use crate::config::Config;
use crate::config::listen::{Address, MQTT_PORT};
use crate::config::listener::Listener;
use crate::contracts::{self, Store};
use crate::files;
use crate::identity::ChainAuthenticator;
use crate::rules;
use crate::shared::Parts;
use crate::telemetry::{Plan, Telemetry};
use reload::{ReloadTargets, Reloader, Source};
use tls::{CertificateInfo, TlsServers};
use user::User;

/// Longest wait for each thread to become idle at startup. After a restart with many reconnecting clients, a thread may be busy from the
/// start.
const SETTLE: Duration = Duration::from_millis(100);

/// A configuration with all files it names, read and checked.
pub(crate) struct LoadedConfig {
    contracts: Catalogue,
    credentials: Credentials,
    tls: TlsServers,
    policy: Arc<Policy>,
    authenticator: Arc<ChainAuthenticator>,
    /// The user that the broker switches to once it listens.
    user: Option<User>,
    telemetry: Option<Plan>,
    /// Set if the broker is part of a cluster.
    cluster: Option<ClusterPlan>,
    bridges: Vec<BridgePlan>,
}

impl LoadedConfig {
    /// The certificates of a TLS listener.
    pub(crate) fn listener_certificates(&self, listener: &Listener) -> Option<Arc<[CertificateInfo]>> {
        self.tls.listener_certificates(listener)
    }

    /// The certificates of the admin API, if it uses TLS.
    pub(crate) fn admin_certificates(&self, config: &Config) -> Option<Arc<[CertificateInfo]>> {
        self.tls.admin_certificates(config)
    }

    /// Warnings about valid but probably unintended settings, one sentence each.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.policy.warnings().iter().map(ToString::to_string).collect()
    }

    /// The contracts of the configured folder.
    pub(crate) fn contracts(&self) -> &Catalogue {
        &self.contracts
    }

    /// The user and group that own the files the broker creates.
    pub(crate) fn owner(&self) -> Option<(u32, u32)> {
        self.user.as_ref().map(|user| (user.uid, user.gid))
    }
}

/// Reads and checks the files that the configuration names.
///
/// # Errors
/// All errors in the files.
pub(crate) fn prepare(config: &Config) -> Result<LoadedConfig, Vec<String>> {
    let contracts = config.contracts.path.get().map_or_else(|| Ok(Catalogue::default()), contracts::load_catalogue);
    // The shared configuration is known only after joining the cluster.
    let own = Parts::default();
    let credentials = Credentials::read(config, &own);
    let authenticator = ChainAuthenticator::new(config);
    let user = Some(&*config.user.0).filter(|user| !user.is_empty()).map(User::find).transpose();
    let outside = (Plan::read(config), ClusterPlan::read(config), bridges::read(config));
    match (
        contracts,
        credentials,
        TlsServers::read(config),
        rules::load_all(config, &own),
        authenticator,
        user,
        outside,
    ) {
        (
            Ok(contracts),
            Ok(credentials),
            Ok(tls),
            Ok(policy),
            Ok(authenticator),
            Ok(user),
            (Ok(telemetry), Ok(cluster), Ok(bridges)),
        ) => Ok(LoadedConfig {
            contracts,
            credentials,
            tls,
            policy,
            authenticator: Arc::new(authenticator),
            user,
            telemetry,
            cluster,
            bridges,
        }),
        (contracts, credentials, tls, policy, authenticator, user, (telemetry, cluster, bridges)) => {
            let files = [contracts.err(), policy.err(), authenticator.err(), credentials.err()];
            let services = [telemetry.err(), cluster.err(), bridges.err()];
            let lists = files.into_iter().chain(services).flatten().flatten();
            Err(lists.chain(tls.err()).chain(user.err()).collect())
        }
    }
}

/// Runs the broker until SIGINT or SIGTERM. When it is ready, it prints one line per address to standard output:
/// `listening on mqtt://ADDRESS:PORT`, `listening on ws://ADDRESS:PORT/PATH`, `listening on http://ADDRESS:PORT` and so on.
pub(crate) fn run(source: Source, config: Config, mut prepared: LoadedConfig, on_damage: OnDamage) -> ExitCode {
    tautwire_reactor::set_mmap_threshold();
    // As early as possible, so that startup logs are exported too.
    let telemetry = Arc::new(Telemetry::new());
    telemetry.apply(prepared.telemetry.take());
    let result = run_until_signal(source, config, prepared, on_damage, &telemetry);
    if let Err(error) = &result {
        log::error!("{error}");
    }
    telemetry.stop();
    if result.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run_until_signal(
    source: Source,
    mut config: Config,
    mut prepared: LoadedConfig,
    on_damage: OnDamage,
    telemetry: &Arc<Telemetry>,
) -> Result<(), String> {
    // From here on, a signal leads to an orderly shutdown.
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP]);
    let mut signals = signals.map_err(|error| format!("cannot register signal handlers: {error}"))?;
    prepare_process(&config, &prepared);
    // Blocking waits poll this for a shutdown. SIGHUP is ignored, since nothing has been read that could be reloaded.
    let mut is_cancelled = || signals.pending().any(|signal| signal != SIGHUP);
    let node = match prepared.cluster.take().map(|plan| join(plan, &config, &mut is_cancelled)).transpose()? {
        None => None,
        Some(Some(node)) => Some(Arc::new(node)),
        Some(None) => return Ok(()),
    };
    let bridge_plans = std::mem::take(&mut prepared.bridges);
    let RunningBroker { broker, reloader, admin } =
        start(source, &mut config, prepared, on_damage, telemetry.clone(), node.clone())?;
    if let Some(node) = &node
        && !node.await_service(&mut is_cancelled)
    {
        log::warn!("the cluster does not let this broker serve clients yet; clients are refused until it does");
    }
    // Startup ends when each thread has completed its first turn, which publishes the `$SYS` topics.
    broker.wait_until_idle(SETTLE);
    if print_addresses(&config.listeners(), broker.addresses(), admin).is_err() {
        log::warn!("cannot print the listening addresses: standard output is closed");
    }
    if let Err(error) = reloader.start_bridges(bridge_plans) {
        log::error!("{error}");
    }
    notify::ready();
    notify::watch(broker.control());
    tautwire_reactor::release_code_pages();
    for signal in signals.forever() {
        if signal != SIGHUP {
            break;
        }
        reloader.reload_and_log("SIGHUP");
    }
    log::info!("stopping");
    notify::stopping();
    reloader.stop();
    // The bans of the last moments may not have been enforced and persisted yet.
    reloader.authenticator().persist_rule_bans();
    reloader.bridges().stop();
    broker.stop();
    if let Some(node) = node {
        node.stop();
    }
    Ok(())
}

/// Raises the limit of open files, and logs what an operator should know before the broker listens.
fn prepare_process(config: &Config, prepared: &LoadedConfig) {
    if user::is_implicit_root(prepared.user.as_ref()) {
        log::warn!(
            "the broker runs as root without need: set `user`, or have the service manager start it as another user"
        );
    }
    if let Some(warning) = descriptors::check_limit(descriptors::raise_limit(), config.limits.connections as u64) {
        log::warn!("{warning}");
    }
    if config.contracts.path.get().is_some() {
        log::info!("{}", counted(prepared.contracts.contracts().len(), "contract"));
        contracts::warn_of_observe_mode(&prepared.contracts);
    }
}

/// Joins the cluster; `None` if `is_cancelled` returns true.
fn join(plan: ClusterPlan, config: &Config, is_cancelled: &mut dyn FnMut() -> bool) -> Result<Option<Node>, String> {
    let path = config.data.path.directory()?;
    Node::join(plan, path.as_deref(), threads(config), is_cancelled)
}

/// A started broker with its services.
struct RunningBroker {
    broker: Broker,
    reloader: Arc<Reloader>,
    /// The URL of the admin API.
    admin: Option<String>,
}

/// Opens the listeners and starts all services.
fn start(
    source: Source,
    config: &mut Config,
    prepared: LoadedConfig,
    on_damage: OnDamage,
    telemetry: Arc<Telemetry>,
    node: Option<Arc<Node>>,
) -> Result<RunningBroker, String> {
    let directory = config.data.path.directory()?.filter(|_| node.is_none());
    // Before listening: another broker may use the directory, and clients would connect for nothing.
    let lock = directory.as_deref().map(|path| lock_data(path, prepared.owner())).transpose()?.flatten();
    let admin_listener = Arc::new(AdminListener::default());
    let admin_change = admin_listener.prepare(config.admin.listen.0, prepared.tls.admin_server(config))?;
    let credentials = Arc::new(CurrentCredentials::new(prepared.credentials));
    let state = config.data.path.directory()?;
    match &state {
        _ if node.is_some() => log::info!("state is stored in the cluster"),
        Some(path) => log::info!("state is stored in {}", path.display()),
        None => log::info!("state is stored in memory only: a restart loses it"),
    }
    if let Some(path) = &state {
        prepared.authenticator.persist_bans_in(path)?;
    }
    let limit_bytes = settings::disk_limit(config);
    let data = directory.as_deref().map(|path| DataDirectory { path, on_damage, limit_bytes, lock: lock.as_ref() });
    let authenticator = prepared.authenticator;
    authenticator.start_workers()?;
    let access = AccessControl {
        authenticator: authenticator.clone(),
        policy: prepared.policy,
        user: prepared.user,
        node: node.clone(),
    };
    let contracts = Arc::new(prepared.contracts);
    let broker = start_broker(config, contracts, access, &prepared.tls, data).map_err(|error| error.to_string())?;
    if let Some(node) = &node {
        node.start(broker.control().cluster_sender())?;
    }
    let control = broker.control();
    crate::log::count_losses(&control);
    if let Some(tracer) = telemetry.tracer() {
        control.trace(Some(tracer));
    }
    let store = Arc::new(Store::new(config.contracts.path.get(), control.clone()));
    let reloader = Arc::new(Reloader::new(
        source,
        config.clone(),
        control.clone(),
        store.clone(),
        (credentials.clone(), admin_listener.clone()),
        ReloadTargets { tls: prepared.tls.clone(), authenticator, telemetry: telemetry.clone(), node: node.clone() },
    ));
    let admin = Arc::new(AdminState::new(control, credentials, store, reloader.clone()));
    admin.serve_on(&admin_listener);
    telemetry.set_metrics_source(move || admin.metrics());
    let admin = admin_listener.apply(admin_change);
    reloader.enforce_bans_by_rule();
    reloader.watch_files();
    if let Some(node) = &node {
        apply_shared_configuration(node, &reloader)?;
    }
    Ok(RunningBroker { broker, reloader, admin })
}

/// Has the reloader apply each revision of the configuration that the cluster shares.
fn apply_shared_configuration(node: &Node, reloader: &Arc<Reloader>) -> Result<(), String> {
    let reloader = Arc::downgrade(reloader);
    node.apply_with(move |revision| match reloader.upgrade() {
        Some(reloader) => reloader.apply(revision),
        None => Err(vec!["the broker is stopping".to_owned()]),
    })
}

/// Locks the data directory. `owner`: the user that a broker started as root switches to. Files are to be created by that user, so a
/// directory that does not exist yet is not locked here.
fn lock_data(path: &Path, owner: Option<(u32, u32)>) -> Result<Option<DataLock>, String> {
    let changes_user = user::effective_uid() == user::ROOT && owner.is_some_and(|(uid, _)| uid != user::ROOT);
    if changes_user && !DataLock::is_possible(path) {
        return Ok(None);
    }
    DataLock::take(path).map(Some).map_err(|error| error.to_string())
}

/// How clients are authenticated and authorized.
#[derive(Clone)]
struct AccessControl {
    authenticator: Arc<ChainAuthenticator>,
    policy: Arc<Policy>,
    user: Option<User>,
    node: Option<Arc<Node>>,
}

impl AccessControl {
    /// Whether clients need any check.
    fn requires_auth(&self) -> bool {
        let AccessControl { authenticator, policy, .. } = self;
        let has_bans = || !authenticator.bans().list(authenticator.now()).is_empty();
        authenticator.chains().requires_auth() || !policy.is_open() || has_bans()
    }
}

/// The number of threads that serve clients.
fn threads(config: &Config) -> usize {
    match config.threads {
        0 => default_threads(thread::available_parallelism().map_or(1, NonZeroUsize::get)),
        count => count,
    }
}

/// Leaves one core to the kernel and to other programs: a thread that shares its core with them, or with another thread of the broker,
/// waits for a scheduler slice at each hop between threads.
fn default_threads(cores: usize) -> usize {
    cores.saturating_sub(1).max(1)
}

/// Starts the broker. Drops the default WebSocket listener if another program uses its port. `data`: the data directory.
fn start_broker(
    config: &mut Config,
    contracts: Arc<Catalogue>,
    access: AccessControl,
    tls: &TlsServers,
    data: Option<DataDirectory<'_>>,
) -> Result<Broker, StartError> {
    let threads = threads(config);
    loop {
        let (engine, retained) = settings::of(config);
        let listener_configs = settings::listener_configs(config, &config.listeners(), tls);
        let tls_handshakes = config.limits.tls_handshakes;
        let requires_auth = access.requires_auth();
        let AccessControl { authenticator, policy, user, node } = access.clone();
        let accept_rate = settings::accept_rate(&config.limits);
        let authenticator: Option<Arc<dyn Authenticator>> = Some(authenticator);
        let sockets: Vec<&Path> = listener_configs.iter().filter_map(|listen| listen.place.path()).collect();
        let on_bound = || user.as_ref().map_or(Ok(()), |user| user.assume(&sockets));
        let open = AcceptOptions::open(&listener_configs);
        let cluster = node.map(|node| node.cluster_options());
        let options = AcceptOptions {
            on_bound: &on_bound,
            tls_handshakes,
            authenticator,
            requires_auth,
            policy,
            accept_rate,
            cluster,
            ..open
        };
        match Broker::start(engine, retained, contracts.clone(), options, threads, data) {
            Err(StartError::ListenerConfig(ListenAddress::Network(address), error))
                if error.kind() == io::ErrorKind::AddrInUse && config.listen.give_up(address) =>
            {
                log::warn!(
                    "the WebSocket listener is disabled: the port of {address} is in use; choose another one with `listen` or --listen"
                );
            }
            result => return result,
        }
    }
}

/// The commands to try first on a listener for MQTT over plain TCP.
struct QuickStart {
    port: u16,
    needs_password: bool,
}

impl QuickStart {
    /// `None` if the listener accepts neither clients without credentials nor clients with a password.
    fn of(listener: &Listener, address: &Address) -> Option<QuickStart> {
        let port = address.socket()?.port();
        let needs_password = !listener.allows_anonymous();
        let has_users =
            || listener.accepts_passwords() && !listener.auth.password_file.get().is_some_and(files::has_no_entries);
        (!needs_password || has_users()).then_some(QuickStart { port, needs_password })
    }
}

/// Prints the addresses of all listeners and of the admin API, and commands to try the broker. `sockets`: the bound addresses of the
/// listeners that have one.
fn print_addresses(listeners: &[Listener], sockets: &[SocketAddr], admin: Option<String>) -> io::Result<()> {
    let mut sockets = sockets.iter();
    let mut bound = |address: &Address| match address.socket().and_then(|_| sockets.next()) {
        Some(socket) => address.clone().at(*socket),
        None => address.clone(),
    };
    let bound: Vec<Address> = listeners.iter().map(|listener| bound(&listener.address)).collect();
    let mut out = io::stdout().lock();
    for address in bound.iter().map(ToString::to_string).chain(admin) {
        writeln!(out, "listening on {address}")?;
    }
    let mut plain = listeners.iter().zip(&bound).filter(|(_, address)| address.is_plain());
    let example = plain.find_map(|(listener, address)| QuickStart::of(listener, address));
    if let Some(QuickStart { port, needs_password }) = example {
        let port = match port {
            MQTT_PORT => String::new(),
            port => format!(" -p {port}"),
        };
        if needs_password {
            writeln!(out, "try it in two other terminals, with a user name and its password in TAUTWIRE_PASSWORD:")?;
            writeln!(out, "  tautwire sub{port} -u NAME 'demo/#'")?;
            writeln!(out, "  tautwire pub{port} -u NAME demo/hello hi")?;
        } else {
            writeln!(out, "try it in two other terminals:")?;
            writeln!(out, "  tautwire sub{port} 'demo/#'")?;
            writeln!(out, "  tautwire pub{port} demo/hello hi")?;
            writeln!(out, "  mosquitto_pub{port} -t demo/hello -m hi")?;
        }
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_core_is_left_free() {
        assert_eq!([1, 2, 3, 64].map(default_threads), [1, 1, 2, 63]);
    }
}
