//! Starts and stops all threads.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mio::Poll;
use mio::net::TcpStream;
use tautwire_access::Policy;
use tautwire_contracts::Catalogue;
use tautwire_engine::{
    AdminQuery, ClientCheck, ClientDetail, ClientsPage, ClientsQuery, ConfigCell, ConfigSnapshot, ConnectionListener,
    ConnectionOrigin, Counters, Explanation, Latencies, LatencyCounts, Peer, Publication, QueryResult, Settings, Shard,
    Shared, SubscriptionList, TopicTotals, Totals, ViolationReport, WhyQuery,
};
use tautwire_engine::{Clustered, Mode, Volatile};
use tautwire_journal::WriterHandle;
use tautwire_memory::Memory;
use tautwire_router::{Exchange, RetainedLimits, SHARDS_MAX, ShardIndex};
use tautwire_session::AckLevel;
use tautwire_spill::SpillThread;

use crate::accept_limiter::ListenerState;
use crate::accept_rate::AcceptLimits;
use crate::accepted_connection::AcceptedConnection;
use crate::admin_queries::{self, QueryDeadline, QueryError};
use crate::authenticator::Authenticator;
use crate::clock::Clock;
use crate::cluster::{ClusterOptions, ClusterSender};
use crate::data::{self, Data, DataDirectory, DataError, DataState};
use crate::descriptors;
use crate::inbox::{Command, ConfigStep, Inbox, PublishError};
use crate::listener_config::{ListenAddress, ListenerConfig};
use crate::listener_set::{ListenerSet, PreparedListeners};
use crate::shard_channels::connect;
use crate::waker::Waker;
use crate::worker::{WAKER_TOKEN, Worker, WorkerParts};

/// How long a configuration change waits for threads that are in the middle of a turn.
pub const CONFIG_APPLY_TIMEOUT: Duration = Duration::from_secs(1);
/// How often the change checks whether all threads have applied it.
const CONFIG_APPLY_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Whether the broker was built with cluster support, which its threads have separate code for.
const HAS_CLUSTER: bool = cfg!(feature = "cluster");

/// A running broker.
#[derive(Debug)]
pub struct Broker {
    addresses: Vec<SocketAddr>,
    stop: Arc<AtomicBool>,
    wakers: Vec<Arc<Waker>>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    /// The journal, if state is persisted.
    data: Option<Data>,
    /// The thread that spills messages to disk.
    spill_thread: Option<SpillThread>,
    control: Control,
    /// Each thread sends one message when it is idle for the first time.
    idle_receiver: Mutex<Receiver<()>>,
}

/// Controls and observes a broker from other threads, even after it has stopped.
#[derive(Clone)]
pub struct Control {
    exchange: Arc<Exchange>,
    /// Settings, access rules and contracts.
    config_cell: Arc<ConfigCell>,
    /// The limit of concurrent TLS handshakes on each thread.
    tls_handshakes: Arc<AtomicUsize>,
    counters: Arc<[Counters]>,
    latencies: Arc<[LatencyCounts]>,
    memory: Arc<Memory>,
    /// The writer of the journal, if state is persisted.
    data: Option<WriterHandle>,
    default_limit_bytes: u64,
    listeners: Arc<Mutex<ListenerSet>>,
    /// One per shard. The first shard reports the contracts, and publishes for operators.
    pub(crate) inboxes: Arc<[Arc<Inbox>]>,
    /// One per shard, to wake it.
    wakers: Arc<[Arc<Waker>]>,
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").finish_non_exhaustive()
    }
}

impl Control {
    /// Returns the counters.
    pub fn totals(&self) -> Totals {
        Totals::of(self.counters.iter())
    }

    /// Returns the latencies of messages and acknowledgements.
    pub fn latencies(&self) -> Latencies {
        Latencies::of(self.latencies.iter())
    }

    /// Returns the counters by topic filter, in the order in which the filters are configured.
    pub fn topic_totals(&self) -> Vec<TopicTotals> {
        self.config_cell.current().topic_totals()
    }

    /// Returns the sender with which the cluster thread reaches the broker's threads.
    pub fn cluster_sender(&self) -> ClusterSender {
        ClusterSender::new(self.inboxes.clone())
    }

    /// Returns the state of the data directory, if there is one.
    pub fn data(&self) -> Option<DataState> {
        self.data.as_ref().map(DataState::of)
    }

    /// Returns the state of the listeners, in the configured order.
    pub fn listeners(&self) -> Vec<ListenerState> {
        self.listener_set().states()
    }

    /// Returns the address of a listener, if it has one.
    pub fn address_of(&self, listener: &str) -> Option<SocketAddr> {
        self.listener_set().address_of(listener)
    }

    /// Binds the new ones of these listeners, without any other change; [`Control::adopt`] makes them active. A listener with the name, the
    /// address and the transport of an existing one is the same listener, and keeps its clients.
    ///
    /// # Errors
    /// An address cannot be bound. Nothing has changed.
    pub fn prepare_listeners(
        &self,
        listener_configs: &[ListenerConfig],
        limits: AcceptLimits,
    ) -> Result<PreparedListeners, StartError> {
        self.listener_set()
            .next(listener_configs, limits)
            .map_err(|(place, error)| StartError::ListenerConfig(place, error))
    }

    /// Applies a change in one step: each thread applies all of it between two packets, and has done so when this returns, unless one is
    /// delayed by more than [`CONFIG_APPLY_TIMEOUT`]. Apply one change at a time, in the order in which their listeners were prepared.
    pub fn adopt(&self, change: ConfigChange) {
        let ConfigChange { listeners, settings, retained, tls_handshakes, disk_limit, config, on_apply } = change;
        let (listener_set, planned, removed) = listeners.into_parts();
        let control = self.clone();
        let step = ConfigStep::new(move || {
            removed.iter().for_each(|accept_limiter| accept_limiter.close());
            control.tls_handshakes.store(tls_handshakes, Ordering::Relaxed);
            control.exchange.set_retained_limits(retained);
            let before = control.config_cell.change(|next| {
                next.settings = Arc::new(settings);
                config(next);
            });
            on_apply();
            before
        });
        // A broker that is stopping has closed its listeners, and serves no client.
        if let Ok(before) = self.inboxes[0].request_unbounded(|answer| Command::ApplyConfig(planned, step, answer)) {
            if let Some(data) = &self.data {
                data.set_limit(data::disk_limit(disk_limit, self.default_limit_bytes));
            }
            *self.listener_set() = listener_set;
            self.apply_and_wait(before);
        }
    }

    /// Makes all threads apply the current configuration, and waits for them.
    fn apply_and_wait(&self, before: Arc<ConfigSnapshot>) {
        self.wake_all();
        let began = Instant::now();
        // The last reference to the old configuration is dropped here, not by a thread that serves clients.
        while Arc::strong_count(&before) > 1 && began.elapsed() < CONFIG_APPLY_TIMEOUT {
            thread::sleep(CONFIG_APPLY_POLL_INTERVAL);
        }
    }

    fn listener_set(&self) -> MutexGuard<'_, ListenerSet> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the memory that clients make the broker hold, by kind.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Returns the approximate memory of the retained messages in bytes, including their nodes in the tree.
    pub fn retained_held_bytes(&self) -> u64 {
        self.exchange.retained_held_bytes()
    }

    /// Returns the bytes that count against [`Settings::memory_bytes`]: memory held for clients, without retained messages.
    pub fn memory_bytes(&self) -> u64 {
        self.memory.total_held().saturating_sub(self.exchange.retained_message_bytes())
    }

    /// Returns the number of threads.
    pub fn threads(&self) -> usize {
        self.inboxes.len()
    }

    /// Returns the current settings.
    pub fn settings(&self) -> Arc<Settings> {
        self.config_cell.current().settings.clone()
    }

    /// Counts lost lines of the log.
    pub fn count_lost_log_lines(&self, lines: u64) {
        if let Some(counters) = self.counters.last() {
            counters.log_lines_dropped.add_from_any_thread(lines);
        }
    }

    /// Counts lines of the audit log that were lost or held back.
    pub fn count_lost_audit_lines(&self, lines: u64) {
        if let Some(counters) = self.counters.last() {
            counters.audit_lines_dropped.add_from_any_thread(lines);
        }
    }

    /// Returns the number of retained messages, and the bytes of those that count against the limit.
    pub fn retained(&self) -> (usize, usize) {
        self.exchange.retained()
    }

    /// Returns the current contracts.
    pub fn contracts(&self) -> Arc<Catalogue> {
        self.config_cell.current().contracts.clone()
    }

    /// Replaces the contracts. Each thread applies them between two messages, and has done so when this returns, as with
    /// [`Control::adopt`].
    pub fn set_contracts(&self, contracts: Arc<Catalogue>) {
        self.change_config(|next| next.contracts = contracts);
    }

    /// Changes the configuration, and waits until each thread has applied it.
    pub(crate) fn change_config(&self, change: impl FnOnce(&mut ConfigSnapshot)) {
        let before = self.config_cell.change(change);
        self.apply_and_wait(before);
    }

    /// Returns the current access rules.
    pub fn policy(&self) -> Arc<Policy> {
        self.config_cell.current().policy.clone()
    }

    /// Checks all connected clients again, and disconnects those that `client_check` rejects. New clients must authenticate from now on. Does not
    /// wait.
    pub fn recheck_clients(&self, client_check: ClientCheck) {
        self.config_cell.change(|next| {
            next.requires_auth = true;
            next.recheck_clients(client_check);
        });
        self.wake_all();
    }

    fn wake_all(&self) {
        for waker in self.wakers.iter() {
            waker.wake();
        }
    }

    /// Returns some of the clients, with their sessions. Waits for all threads.
    ///
    /// # Errors
    /// Not all threads have answered.
    pub fn clients(&self, query: &ClientsQuery, deadline: QueryDeadline<'_>) -> Result<ClientsPage, QueryError> {
        let ask = |reply| AdminQuery::Clients(query.clone(), reply);
        let pages = admin_queries::ask_all(&self.inboxes, ask, deadline)?;
        Ok(ClientsPage::merge(pages, query))
    }

    /// Returns one client, by the [name](tautwire_session::session_name) of its session, or `None` if it does not exist.
    ///
    /// # Errors
    /// There was no answer.
    pub fn client(&self, name: &str, deadline: QueryDeadline<'_>) -> Result<Option<ClientDetail>, QueryError> {
        admin_queries::ask(self.inbox_of(name), |reply| AdminQuery::Client(name.into(), reply), deadline)
    }

    /// Returns subscriptions of one client after a filter, in order, or `None` if the client does not exist.
    ///
    /// # Errors
    /// There was no answer.
    pub fn subscriptions(
        &self,
        name: &str,
        after: &str,
        limit: usize,
        deadline: QueryDeadline<'_>,
    ) -> Result<Option<SubscriptionList>, QueryError> {
        let ask = |reply| AdminQuery::Subscriptions(name.into(), after.into(), limit, reply);
        admin_queries::ask(self.inbox_of(name), ask, deadline)
    }

    /// Explains whether a message would reach a client, and why not.
    ///
    /// # Errors
    /// There was no answer.
    pub fn why(&self, query: WhyQuery, deadline: QueryDeadline<'_>) -> Result<Explanation, QueryError> {
        let message = query.message.clone();
        let publishes_on = self.inbox_of(message.publisher.as_deref().unwrap_or(&query.name));
        let judged = admin_queries::ask(publishes_on, |reply| AdminQuery::Publish(message, reply), deadline)?;
        let inbox = self.inbox_of(&query.name);
        let mut explained = admin_queries::ask(inbox, |reply| AdminQuery::Why(query, reply), deadline)?.after(judged);
        for finding in &mut explained.findings {
            if let QueryResult::SharedDispatches { others: Some(others), .. } = finding
                && let Some(inbox) = self.inboxes.get(usize::from(others.member.shard.0))
            {
                others.name = admin_queries::ask(inbox, |reply| AdminQuery::Name(others.member, reply), deadline)?;
            }
        }
        Ok(explained)
    }

    /// Returns how often contracts were violated, and why. Waits for all threads.
    ///
    /// # Errors
    /// Not all threads have answered.
    pub fn violations(&self, deadline: QueryDeadline<'_>) -> Result<ViolationReport, QueryError> {
        Ok(ViolationReport::merge(admin_queries::ask_all(&self.inboxes, AdminQuery::Violations, deadline)?))
    }

    /// Whether all threads are responsive: each has answered within `timeout`, has too many queries to answer, or is stopping.
    pub fn is_responsive(&self, timeout: Duration) -> bool {
        !matches!(self.violations(timeout.into()), Err(QueryError::Timeout))
    }

    /// Disconnects a client, and ends its session if requested. Returns whether there was something to end.
    ///
    /// # Errors
    /// It was not done, except perhaps after [`QueryError::Timeout`].
    pub fn disconnect(&self, name: &str, ends_session: bool, timeout: Duration) -> Result<bool, QueryError> {
        let ask = |answer| Command::Disconnect(name.into(), ends_session, answer);
        Ok(self.inbox_of(name).request(ask, timeout)?)
    }

    /// Adds the connection of a client inside of this process. `stream` is one end of a pair of sockets; the client speaks MQTT at the other.
    ///
    /// # Errors
    /// The broker is stopping or overloaded, or system errors.
    pub fn connect(
        &self,
        listener: Arc<dyn ConnectionListener>,
        stream: UnixStream,
        ack_level: AckLevel,
    ) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        // All families of streams are read and written by the same calls, see `local`.
        let stream = TcpStream::from(OwnedFd::from(stream));
        let origin = Arc::new(ConnectionOrigin::new(listener, Peer::Local { uid: None }));
        let accepted = AcceptedConnection { stream, origin, layers: None, ack_level, auth_state: None };
        self.inboxes[0]
            .send(Command::Connect(Box::new(accepted)))
            .map_err(|error| io::Error::other(QueryError::from(error)))
    }

    /// Returns the inbox of the shard that owns a session.
    fn inbox_of(&self, name: &str) -> &Inbox {
        &self.inboxes[usize::from(self.exchange.owner(name).0)]
    }

    /// Publishes a message as a client would: to the same topics, within the same limits, with the same contracts. Waits at most `timeout`
    /// for the answer. Returns whether there were subscribers, once the journal has persisted the message as far as a client's
    /// acknowledgement would require.
    ///
    /// # Errors
    /// It was not published, except perhaps after [`PublishError::Timeout`] and certainly after [`PublishError::NotDurable`].
    pub fn publish(&self, publication: &Publication<'_>, timeout: Duration) -> Result<bool, PublishError> {
        let message = publication.to_message();
        let published = self.inboxes[0].request(|answer| Command::Publish(message, answer), timeout)?;
        Ok(published?)
    }
}

/// A configuration change of a running broker.
pub struct ConfigChange {
    /// The new set of listeners. Clients of a removed listener are disconnected.
    pub listeners: PreparedListeners,
    /// The settings of each thread. Existing connections keep the values announced in CONNACK, and the acknowledgement level.
    /// [`Settings::spill_bytes`] and [`Settings::shard_queue_batches`] keep their values from the start.
    pub settings: Settings,
    /// The limits of retained messages.
    pub retained: RetainedLimits,
    /// The limit of concurrent TLS handshakes on each thread.
    pub tls_handshakes: usize,
    /// The size limit of the state on disk; `None` means the default determined at start.
    pub disk_limit: Option<u64>,
    /// Changes the rest of the configuration: access rules, contracts, and known clients.
    pub config: Box<dyn FnOnce(&mut ConfigSnapshot) + Send>,
    /// Runs in the same step, for example to change what the [`Authenticator`] decides by. It must be short, because the thread that
    /// accepts connections waits for it, and must not call this broker.
    pub on_apply: Box<dyn FnOnce() + Send>,
}

impl fmt::Debug for ConfigChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Change").field("listeners", &self.listeners).finish_non_exhaustive()
    }
}

/// How clients connect.
#[derive(Clone)]
pub struct AcceptOptions<'a> {
    /// The listeners.
    pub listener_configs: &'a [ListenerConfig],
    /// Called once all listeners are bound, before anything is accepted, read or persisted. The process can drop privileges here that only
    /// binding needs.
    pub on_bound: &'a dyn Fn() -> Result<(), String>,
    /// The limit of concurrent TLS handshakes on each thread.
    pub tls_handshakes: usize,
    /// Authenticates clients, if they must authenticate.
    pub authenticator: Option<Arc<dyn Authenticator>>,
    /// Whether clients must authenticate from the first connection on.
    pub requires_auth: bool,
    /// The access rules from the first packet on.
    pub policy: Arc<Policy>,
    /// Limits on the number and rate of connections.
    pub accept_rate: AcceptLimits,
    /// The cluster, if the broker is part of one. Clients are rejected until the cluster thread has told all threads that the node is
    /// active.
    pub cluster: Option<ClusterOptions>,
}

impl<'a> AcceptOptions<'a> {
    /// Accepts all clients and allows them everything.
    pub fn open(listener_configs: &'a [ListenerConfig]) -> AcceptOptions<'a> {
        AcceptOptions {
            listener_configs,
            on_bound: &|| Ok(()),
            tls_handshakes: 64,
            authenticator: None,
            requires_auth: false,
            policy: Arc::new(Policy::open()),
            accept_rate: AcceptLimits::default(),
            cluster: None,
        }
    }
}

/// Why a broker did not start.
#[derive(Debug)]
pub enum StartError {
    /// A listener cannot be bound.
    ListenerConfig(ListenAddress, io::Error),
    /// [`AcceptOptions::on_bound`] has failed, with this reason.
    AfterBind(String),
    /// A thread or a resource of it cannot be created.
    Thread(io::Error),
    /// The data directory cannot be used.
    Data(DataError),
    /// The broker is part of a cluster, whose store has the sessions, but a data directory is configured.
    DataInCluster,
    /// The broker is configured for a cluster, but was built without the feature `cluster`.
    NoCluster,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::ListenerConfig(ListenAddress::Network(address), error)
                if error.kind() == io::ErrorKind::AddrInUse =>
            {
                write!(
                    f,
                    "cannot listen on {address}: the port is in use; stop the other server or choose another port with --listen"
                )
            }
            StartError::ListenerConfig(place, error) => write!(f, "cannot listen on {place}: {error}"),
            StartError::AfterBind(why) => f.write_str(why),
            StartError::Thread(error) => write!(f, "cannot start a thread: {error}"),
            StartError::Data(error) => error.fmt(f),
            StartError::DataInCluster => f.write_str(
                "a cluster node stores no state locally; set data.path to an empty string [cluster_with_data]",
            ),
            StartError::NoCluster => f.write_str(
                "this broker was built without cluster support; build it with the feature `cluster` [cluster_not_built]",
            ),
        }
    }
}

impl std::error::Error for StartError {}

impl Broker {
    /// Starts `threads` threads, at most [`SHARDS_MAX`], and listens. `contracts` apply from the first message on. State is persisted in
    /// the directory `data`, if given, and otherwise in memory only.
    ///
    /// # Errors
    /// A listener cannot be bound, a thread cannot be started, or the directory cannot be used; nothing is left running.
    pub fn start(
        settings: Settings,
        retained: RetainedLimits,
        contracts: Arc<Catalogue>,
        entrance: AcceptOptions<'_>,
        threads: usize,
        data: Option<DataDirectory<'_>>,
    ) -> Result<Broker, StartError> {
        let AcceptOptions {
            listener_configs,
            on_bound,
            tls_handshakes,
            authenticator,
            requires_auth,
            policy,
            accept_rate,
            cluster,
        } = entrance;
        if cluster.is_some() && !HAS_CLUSTER {
            return Err(StartError::NoCluster);
        }
        if cluster.is_some() && data.is_some() {
            return Err(StartError::DataInCluster);
        }
        let tls_handshakes = Arc::new(AtomicUsize::new(tls_handshakes));
        let threads = threads.clamp(1, SHARDS_MAX);
        descriptors::reserve();
        let (listener_set, mut listeners) = ListenerSet::bind(listener_configs, accept_rate)
            .map_err(|(place, error)| StartError::ListenerConfig(place, error))?;
        on_bound().map_err(StartError::AfterBind)?;
        let queue_batches = settings.shard_queue_batches;
        let shared = Shared::new(settings, Exchange::new(threads, retained));
        shared.config_cell.change(|first| {
            first.requires_auth = requires_auth;
            if let Some(authenticator) = &authenticator {
                first.auth_progress = authenticator.progress();
            }
            first.policy = policy;
            if !contracts.contracts().is_empty() {
                first.contracts = contracts;
            }
        });

        let polls = (0..threads).map(|_| Poll::new()).collect::<io::Result<Vec<_>>>().map_err(StartError::Thread)?;
        let wakers = polls
            .iter()
            .map(|poll| Ok(Arc::new(Waker::new(mio::Waker::new(poll.registry(), WAKER_TOKEN)?))))
            .collect::<io::Result<Vec<_>>>()
            .map_err(StartError::Thread)?;
        let shard_channels = connect(&wakers, queue_batches);
        let mut clock = Clock::new();
        let stop = Arc::new(AtomicBool::new(false));
        let (inboxes, commands): (Vec<_>, Vec<_>) = wakers.iter().cloned().map(Inbox::new).unzip();
        let (idle_sender, idle_receiver) = mpsc::channel();
        let mut broker = Broker {
            idle_receiver: Mutex::new(idle_receiver),
            addresses: listener_set.addresses(),
            stop: stop.clone(),
            wakers: wakers.clone(),
            threads: Vec::new(),
            data: None,
            spill_thread: None,
            control: Control {
                exchange: shared.exchange.clone(),
                config_cell: shared.config_cell.clone(),
                tls_handshakes: tls_handshakes.clone(),
                counters: shared.counters.clone(),
                latencies: shared.latencies.clone(),
                memory: shared.memory.clone(),
                data: None,
                default_limit_bytes: 0,
                listeners: Arc::new(Mutex::new(listener_set)),
                inboxes: inboxes.into(),
                wakers: wakers.clone().into(),
            },
        };
        let mut kept = Vec::new().into_iter();
        if let Some(directory) = data {
            let opened = data::open(directory, listener_configs, &shared, &wakers, clock).map_err(StartError::Data)?;
            clock = opened.clock;
            broker.control.default_limit_bytes = opened.default_limit_bytes;
            broker.control.data = Some(opened.data.handle());
            broker.data = Some(opened.data);
            broker.spill_thread = Some(opened.spill_thread);
            kept = opened.shards.into_iter();
        }
        let mut mode = None;
        let ends = polls.into_iter().zip(wakers).zip(shard_channels).zip(commands);
        for (index, (((poll, waker), shard_channels), commands)) in ends.enumerate() {
            // The first thread accepts; a connection moves to its client's thread after CONNECT.
            let listeners = if index == 0 { std::mem::take(&mut listeners) } else { Vec::new() };
            let (stop, authenticator, tls_handshakes) = (stop.clone(), authenticator.clone(), tls_handshakes.clone());
            let idle_signal = idle_sender.clone();
            let parts = WorkerParts {
                poll,
                listeners,
                shard_channels,
                waker,
                stop,
                commands,
                clock,
                tls_handshakes,
                authenticator,
                cluster: cluster.as_ref().map(|seat| seat.thread.clone()),
                idle_signal,
            };
            let shard = ShardIndex(index as u8);
            let started = if let Some(shard) = kept.next() {
                run(index, parts, shard)
            } else if HAS_CLUSTER && let Some(seat) = &cluster {
                let mode = mode.get_or_insert_with(|| Clustered::new(seat.seed, seat.settings.clone())).clone();
                run(index, parts, Shard::new(shard, shared.clone(), mode, clock.now_ms()))
            } else {
                run(index, parts, Shard::new(shard, shared.clone(), Volatile, clock.now_ms()))
            };
            match started {
                Ok(thread) => broker.threads.push(thread),
                Err(error) => {
                    broker.stop();
                    return Err(StartError::Thread(error));
                }
            }
        }
        Ok(broker)
    }

    /// Returns the bound addresses, in the configured order, without Unix sockets.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Waits until each thread was idle once, and has thus run the code of an idle thread. Waits at most `timeout` per thread; returns
    /// whether all were. Call it once.
    pub fn wait_until_idle(&self, timeout: Duration) -> bool {
        let idle_receiver = self.idle_receiver.lock().unwrap_or_else(PoisonError::into_inner);
        self.threads.iter().all(|_| idle_receiver.recv_timeout(timeout).is_ok())
    }

    /// Returns a handle to control and observe the broker.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Disconnects all clients, closes their connections, and ends all threads.
    pub fn stop(self) {
        self.stop.store(true, Ordering::SeqCst);
        for waker in &self.wakers {
            waker.wake();
        }
        for thread in self.threads {
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => log::error!("a thread ended early: {error}"),
                Err(_) => log::error!("a thread panicked"),
            }
        }
        drop(self.spill_thread);
        if let Some(Err(error)) = self.data.map(Data::close) {
            log::error!("the journal was not closed cleanly: {error}");
        }
    }
}

/// Starts the thread of a shard.
fn run<M: Mode<Journal: Send>>(
    index: usize,
    parts: WorkerParts,
    shard: Shard<M>,
) -> io::Result<JoinHandle<io::Result<()>>> {
    let worker = Worker::new(parts, shard)?;
    thread::Builder::new().name(format!("shard-{index}")).spawn(move || worker.run())
}
