//! Running the broker.

mod cgroup;
pub(crate) mod descriptors;
pub(crate) mod memory;
mod notify;
pub(crate) mod reload;
pub(crate) mod settings;
mod tls;
mod user;
mod watch;

use std::io::{self, Write};
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

use crate::admin::{Admin, AdminServer, Credentials, CurrentCredentials};
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

/// The longest that the start waits for each thread to have nothing to do. After a restart to which many clients come back, a thread may be
/// busy from the beginning.
const SETTLE: Duration = Duration::from_millis(100);

/// What the configuration names, read and checked.
pub(crate) struct LoadedConfig {
    contracts: Catalogue,
    credentials: Credentials,
    tls: TlsServers,
    policy: Arc<Policy>,
    authenticator: Arc<ChainAuthenticator>,
    /// Whom the broker becomes once it listens.
    user: Option<User>,
    telemetry: Option<Plan>,
    /// Where the broker is one of several.
    cluster: Option<ClusterPlan>,
}

impl LoadedConfig {
    /// What clients of a listener are shown, where it speaks TLS.
    pub(crate) fn listener_certificates(&self, listener: &Listener) -> Option<Arc<[CertificateInfo]>> {
        self.tls.listener_certificates(listener)
    }

    /// What clients of the admin API are shown, where it speaks TLS.
    pub(crate) fn admin_certificates(&self, config: &Config) -> Option<Arc<[CertificateInfo]>> {
        self.tls.admin_certificates(config)
    }

    /// What the files allow and probably do not mean, one sentence each.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.policy.warnings().iter().map(ToString::to_string).collect()
    }

    /// The contracts of the folder that the configuration names.
    pub(crate) fn contracts(&self) -> &Catalogue {
        &self.contracts
    }

    /// Who owns what the broker makes.
    pub(crate) fn owner(&self) -> Option<(u32, u32)> {
        self.user.as_ref().map(|user| (user.uid, user.gid))
    }
}

/// Reads the files that the configuration names.
///
/// # Errors
/// Everything that is wrong with them.
pub(crate) fn prepare(config: &Config) -> Result<LoadedConfig, Vec<String>> {
    let contracts = config.contracts.path.get().map_or_else(|| Ok(Catalogue::default()), read_contracts);
    // What a cluster shares is known once the broker is one of several.
    let own = Parts::default();
    let credentials = Credentials::read(config, &own);
    let authenticator = ChainAuthenticator::new(config);
    let user = Some(&*config.user.0).filter(|user| !user.is_empty()).map(User::find).transpose();
    let outside = (Plan::read(config), ClusterPlan::read(config));
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
            (Ok(telemetry), Ok(cluster)),
        ) => Ok(LoadedConfig {
            contracts,
            credentials,
            tls,
            policy,
            authenticator: Arc::new(authenticator),
            user,
            telemetry,
            cluster,
        }),
        (contracts, credentials, tls, policy, authenticator, user, (telemetry, cluster)) => {
            let lists =
                [contracts.err(), policy.err(), authenticator.err(), credentials.err(), telemetry.err(), cluster.err()];
            let lists = lists.into_iter().flatten().flatten();
            Err(lists.chain(tls.err()).chain(user.err()).collect())
        }
    }
}

/// Reads the contracts of a folder.
///
/// # Errors
/// Everything that is wrong with them, a line each.
fn read_contracts(folder: &Path) -> Result<Catalogue, Vec<String>> {
    contracts::load(folder).map_err(|errors| contracts::format_errors(folder, &errors))
}

/// Runs the broker until it is told to stop by SIGINT or SIGTERM. The line `listening on mqtt://ADDRESS:PORT`,
/// `listening on ws://ADDRESS:PORT/PATH` or `listening on http://ADDRESS:PORT` and the like on standard output says that it is ready, one
/// for each address.
pub(crate) fn run(source: Source, mut config: Config, mut prepared: LoadedConfig, on_damage: OnDamage) -> ExitCode {
    tautwire_reactor::set_mmap_threshold();
    // As early as may be: the log of the start is sent, too.
    let telemetry = Arc::new(Telemetry::new());
    telemetry.adopt(prepared.telemetry.take());
    // From here on a signal ends the broker in order.
    let mut signals = match Signals::new([SIGINT, SIGTERM, SIGHUP]) {
        Ok(signals) => signals,
        Err(error) => {
            log::error!("signals cannot be watched: {error}");
            return ExitCode::FAILURE;
        }
    };
    if user::is_implicit_root(prepared.user.as_ref()) {
        log::warn!(
            "the broker runs as root, and need not: name a user in `user`, or have the service manager start it as one"
        );
    }
    if let Some(check_limit) = descriptors::check_limit(descriptors::raise_limit(), config.limits.connections as u64) {
        log::warn!("{check_limit}");
    }
    if config.contracts.path.get().is_some() {
        log::info!("{}", counted(prepared.contracts.contracts().len(), "contract"));
        contracts::warn_of_observe_mode(&prepared.contracts);
    }
    // Whoever waits for others looks whether the broker is to end; what is there to be read again has not been read yet.
    let mut gives_up = || signals.pending().any(|signal| signal != SIGHUP);
    let node = match prepared.cluster.take().map(|plan| join(plan, &config, &mut gives_up)).transpose() {
        Ok(None) => None,
        Ok(Some(Some(node))) => Some(Arc::new(node)),
        Ok(Some(None)) => {
            telemetry.stop();
            return ExitCode::SUCCESS;
        }
        Err(error) => return failed(&error, &telemetry),
    };
    let started = start(source, &mut config, prepared, on_damage, telemetry.clone(), node.clone());
    let RunningBroker { broker, reloader, admin } = match started {
        Ok(running) => running,
        Err(error) => return failed(&error, &telemetry),
    };
    if let Some(node) = &node
        && !node.await_service(&mut gives_up)
    {
        log::warn!("the cluster does not let this broker serve clients yet: they are refused until it does");
    }
    let mut sockets = broker.addresses().iter();
    let mut bound = |address: Address| match address.socket().and_then(|_| sockets.next()) {
        Some(socket) => address.at(*socket),
        None => address,
    };
    let listeners = config.listeners();
    let bound: Vec<Address> = listeners.iter().map(|listener| bound(listener.address.clone())).collect();
    let mut addresses: Vec<String> = bound.iter().map(ToString::to_string).collect();
    addresses.extend(admin);
    let plain = listeners.iter().zip(&bound).filter(|(_, address)| address.is_plain());
    let example = plain.filter_map(|(listener, address)| QuickStart::of(listener, address)).next();
    // Starting is over when each thread has made its first turn, which publishes the `$SYS` topics; whoever looks at the memory after being
    // told where the broker listens does not see what that took.
    broker.wait_until_idle(SETTLE);
    tautwire_reactor::release_code_pages();
    if announce(&addresses, example).is_err() {
        log::warn!("standard output is closed: nobody was told where the broker listens");
    }
    notify::ready();
    notify::watch(broker.control());
    for signal in signals.forever() {
        if signal != SIGHUP {
            break;
        }
        reloader.reload_and_notify("SIGHUP");
    }
    log::info!("stopping");
    notify::stopping();
    reloader.stop();
    // The last ones may wait for the next look at who is connected.
    reloader.authenticator().persist_rule_bans();
    broker.stop();
    if let Some(node) = node {
        node.stop();
    }
    telemetry.stop();
    ExitCode::SUCCESS
}

/// The start has failed, and this is why.
fn failed(error: &str, telemetry: &Telemetry) -> ExitCode {
    log::error!("{error}");
    telemetry.stop();
    ExitCode::FAILURE
}

/// Finds the cluster; `None` once `gives_up` says so.
fn join(plan: ClusterPlan, config: &Config, gives_up: &mut dyn FnMut() -> bool) -> Result<Option<Node>, String> {
    let path = config.data.path.directory()?;
    Node::join(plan, path.as_deref(), threads(config), gives_up)
}

/// A broker and what goes with it.
struct RunningBroker {
    broker: Broker,
    reloader: Arc<Reloader>,
    /// Where the admin API is served.
    admin: Option<String>,
}

/// Listens, and starts all that there is to start.
fn start(
    source: Source,
    config: &mut Config,
    prepared: LoadedConfig,
    on_damage: OnDamage,
    telemetry: Arc<Telemetry>,
    node: Option<Arc<Node>>,
) -> Result<RunningBroker, String> {
    let directory = config.data.path.directory()?.filter(|_| node.is_none());
    // Before anything is listened on: another broker may have the directory, and clients would come here in vain.
    let lock = directory.as_deref().map(|path| lock_data(path, prepared.owner())).transpose()?.flatten();
    let admin_server = Arc::new(AdminServer::default());
    let door = admin_server.prepare(config.admin.listen.0, prepared.tls.admin_server(config))?;
    let credentials = Arc::new(CurrentCredentials::new(prepared.credentials));
    let data = config.data.path.directory()?;
    match &data {
        _ if node.is_some() => log::info!("state is kept by the cluster"),
        Some(path) => log::info!("state is kept in {}", path.display()),
        None => log::info!("state is in memory alone: a restart loses it"),
    }
    if let Some(path) = &data {
        prepared.authenticator.persist_bans_in(path)?;
    }
    let limit_bytes = settings::disk_limit(config);
    let data = directory.as_deref().map(|path| DataDirectory { path, on_damage, limit_bytes, lock: lock.as_ref() });
    let (contracts, policy) = (Arc::new(prepared.contracts), prepared.policy);
    let authenticator = prepared.authenticator;
    authenticator.start_workers()?;
    let has_bans = !authenticator.bans().list(authenticator.now()).is_empty();
    let asks = authenticator.chains().ask() || !policy.is_open() || has_bans;
    let doors =
        AccessControl { authenticator: authenticator.clone(), asks, policy, user: prepared.user, node: node.clone() };
    let broker = start_broker(config, contracts, doors, &prepared.tls, data).map_err(|error| error.to_string())?;
    if let Some(node) = &node {
        node.begin(broker.control().cluster_sender())?;
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
        (credentials.clone(), admin_server.clone()),
        ReloadTargets { tls: prepared.tls.clone(), authenticator, telemetry: telemetry.clone(), node: node.clone() },
    ));
    let measured = admin_server.by(Admin::new(control, credentials, store, reloader.clone()));
    telemetry.measure(move || measured.metrics());
    let admin = admin_server.adopt(door);
    reloader.enforce_bans_by_rule();
    reloader.watch_files();
    if let Some(node) = &node {
        let taker = Arc::downgrade(&reloader);
        node.apply_with(move |revision| match taker.upgrade() {
            Some(reloader) => reloader.apply(revision),
            None => Err(vec!["the broker stops".to_owned()]),
        })?;
    }
    Ok(RunningBroker { broker, reloader, admin })
}

/// Locks the data directory. `owner`: whom the broker becomes once it listens, where it has been started as root. What is made then is to be
/// that user's, so a directory that is not there yet is not locked here.
fn lock_data(path: &Path, owner: Option<(u32, u32)>) -> Result<Option<DataLock>, String> {
    let changes_user = user::effective_uid() == user::ROOT && owner.is_some_and(|(uid, _)| uid != user::ROOT);
    if changes_user && !DataLock::is_possible(path) {
        return Ok(None);
    }
    DataLock::take(path).map(Some).map_err(|error| error.to_string())
}

/// Who lets clients in, and what they may do then.
#[derive(Clone)]
struct AccessControl {
    authenticator: Arc<ChainAuthenticator>,
    asks: bool,
    policy: Arc<Policy>,
    user: Option<User>,
    node: Option<Arc<Node>>,
}

/// How many threads serve clients.
fn threads(config: &Config) -> usize {
    match config.threads {
        0 => default_threads(thread::available_parallelism().map_or(1, NonZeroUsize::get)),
        count => count,
    }
}

/// A core is left to the kernel and to other programs: a thread that shares its core with them, or with another thread of the
/// broker, waits for a slice of the scheduler at each hop.
fn default_threads(cores: usize) -> usize {
    cores.saturating_sub(1).max(1)
}

/// Starts the broker, without the WebSocket of the default where another program has its port. `data`: where it keeps its state.
fn start_broker(
    config: &mut Config,
    contracts: Arc<Catalogue>,
    doors: AccessControl,
    tls: &TlsServers,
    data: Option<DataDirectory<'_>>,
) -> Result<Broker, StartError> {
    let threads = threads(config);
    loop {
        let (engine, retained) = settings::of(config);
        let listener_configs = settings::listener_configs(config, &config.listeners(), tls);
        let tls_handshakes = config.limits.tls_handshakes;
        let AccessControl { authenticator, asks, policy, user, node } = doors.clone();
        let accept_rate = settings::accept_rate(&config.limits);
        let authenticator: Option<Arc<dyn Authenticator>> = Some(authenticator);
        let sockets: Vec<&Path> = listener_configs.iter().filter_map(|listen| listen.place.path()).collect();
        let on_bound = || user.as_ref().map_or(Ok(()), |user| user.assume(&sockets));
        let open = AcceptOptions::open(&listener_configs);
        let cluster = node.map(|node| node.seat());
        let entrance = AcceptOptions {
            on_bound: &on_bound,
            tls_handshakes,
            authenticator,
            asks,
            policy,
            accept_rate,
            cluster,
            ..open
        };
        match Broker::start(engine, retained, contracts.clone(), entrance, threads, data) {
            Err(StartError::ListenerConfig(ListenAddress::Network(address), error))
                if error.kind() == io::ErrorKind::AddrInUse && config.listen.give_up(address) =>
            {
                log::warn!(
                    "no WebSocket: the port of {address} is in use; choose another one with `listen` or --listen"
                );
            }
            result => return result,
        }
    }
}

/// The commands that a person can try first at a listener for MQTT over plain TCP.
struct QuickStart {
    port: u16,
    needs_password: bool,
}

impl QuickStart {
    /// `None` where neither clients without credentials nor clients with a password are accepted.
    fn of(listener: &Listener, address: &Address) -> Option<QuickStart> {
        let port = address.socket()?.port();
        let needs_password = !listener.allows_anonymous();
        let has_users =
            || listener.accepts_passwords() && !listener.auth.password_file.get().is_some_and(files::has_no_entries);
        (!needs_password || has_users()).then_some(QuickStart { port, needs_password })
    }
}

/// Prints where the broker listens, and the commands to try it.
fn announce(addresses: &[String], example: Option<QuickStart>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for address in addresses {
        writeln!(out, "listening on {address}")?;
    }
    if let Some(QuickStart { port, needs_password }) = example {
        let port = match port {
            MQTT_PORT => String::new(),
            port => format!(" -p {port}"),
        };
        if needs_password {
            writeln!(
                out,
                "try, in two other terminals, with the name of a user and its password in TAUTWIRE_PASSWORD:"
            )?;
            writeln!(out, "  tautwire sub{port} -u NAME 'demo/#'")?;
            writeln!(out, "  tautwire pub{port} -u NAME demo/hello hi")?;
        } else {
            writeln!(out, "try, in two other terminals:")?;
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
    fn a_core_is_left_to_others() {
        assert_eq!([1, 2, 3, 64].map(default_threads), [1, 1, 2, 63]);
    }
}
