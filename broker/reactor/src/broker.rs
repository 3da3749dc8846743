//! Starting and stopping all threads.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mio::Poll;
use tautwire_access::Policy;
use tautwire_cold::SpillThread;
use tautwire_contracts::Catalogue;
use tautwire_engine::{
    AdminQuery, ClientCheck, ClientDetail, ClientsPage, ClientsQuery, ConfigCell, ConfigSnapshot, Counters,
    Explanation, Latencies, LatencyCounts, Publication, QueryResult, Settings, Shard, Shared, SubscriptionList,
    TopicTotals, Totals, ViolationReport, WhyQuery,
};
use tautwire_engine::{Clustered, Mode, Volatile};
use tautwire_journal::WriterHandle;
use tautwire_memory::Memory;
use tautwire_router::{Exchange, RetainedLimits, SHARDS_MAX, ShardIndex};

use crate::accept_limiter::ListenerState;
use crate::accept_rate::AcceptLimits;
use crate::admin_queries::{self, QueryDeadline, QueryError};
use crate::authenticator::Authenticator;
use crate::clock::Clock;
use crate::cluster::{ClusterOptions, ClusterSender};
use crate::data::{self, Data, DataDirectory, DataError, DataState};
use crate::descriptors;
use crate::inbox::{Command, ConfigStep, Inbox, PublishError};
use crate::listener::{ListenAddress, ListenerConfig};
use crate::listener_set::{ListenerSet, PreparedListeners};
use crate::shard_channels::connect;
use crate::waker::Waker;
use crate::worker::{WAKER_TOKEN, Worker, WorkerParts};

/// How long a change waits for threads that are in the midst of a turn.
pub const CONFIG_APPLY_TIMEOUT: Duration = Duration::from_secs(1);
/// How often it looks whether they have taken it on.
const CONFIG_APPLY_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Whether the broker can be one of a cluster. Its threads have code of their own for that.
const HAS_CLUSTER: bool = cfg!(feature = "cluster");

/// A running broker.
#[derive(Debug)]
pub struct Broker {
    addresses: Vec<SocketAddr>,
    stop: Arc<AtomicBool>,
    wakers: Vec<Arc<Waker>>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    /// What keeps the state, where it is kept.
    data: Option<Data>,
    /// What has messages that are not in memory.
    cold: Option<SpillThread>,
    control: Control,
    /// Each thread sends one word when it has nothing to do for the first time.
    settled: Mutex<Receiver<()>>,
}

/// What other threads may ask of a broker and tell it, also when it has stopped.
#[derive(Clone)]
pub struct Control {
    exchange: Arc<Exchange>,
    /// Settings, access rules and contracts.
    config_cell: Arc<ConfigCell>,
    /// Handshakes of TLS that may go on at once, on each thread.
    tls_handshakes: Arc<AtomicUsize>,
    counters: Arc<[Counters]>,
    latencies: Arc<[LatencyCounts]>,
    memory: Arc<Memory>,
    /// What writes the state down, where it is kept.
    data: Option<WriterHandle>,
    default_limit_bytes: u64,
    listeners: Arc<Mutex<ListenerSet>>,
    /// One for each shard. The first says what contracts there are, and publishes for operators.
    pub(crate) inboxes: Arc<[Arc<Inbox>]>,
    /// One for each shard, to wake it.
    wakers: Arc<[Arc<Waker>]>,
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").finish_non_exhaustive()
    }
}

impl Control {
    /// What has been counted so far.
    pub fn totals(&self) -> Totals {
        Totals::of(self.counters.iter())
    }

    /// How long messages and acknowledgements have taken so far.
    pub fn latencies(&self) -> Latencies {
        Latencies::of(self.latencies.iter())
    }

    /// What has been counted by topic filters, in the order in which they are named.
    pub fn topic_totals(&self) -> Vec<TopicTotals> {
        self.config_cell.current().topic_totals()
    }

    /// By which the thread of the cluster reaches the broker's threads.
    pub fn cluster_sender(&self) -> ClusterSender {
        ClusterSender::new(self.inboxes.clone())
    }

    /// How the data directory is, where there is one.
    pub fn data(&self) -> Option<DataState> {
        self.data.as_ref().map(DataState::of)
    }

    /// How the listeners are, in the order of those asked for.
    pub fn listeners(&self) -> Vec<ListenerState> {
        self.listener_set().states()
    }

    /// Where a listener listens that has an address.
    pub fn address_of(&self, listener: &str) -> Option<SocketAddr> {
        self.listener_set().address_of(listener)
    }

    /// Binds what is new of these listeners, to be adopted when all else is right. Nothing else has changed yet. One that has the name, the
    /// place and the transport of one that is there is the same, and its clients stay.
    ///
    /// # Errors
    /// Somewhere cannot be listened. Nothing has changed then.
    pub fn prepare_listeners(
        &self,
        listener_configs: &[ListenerConfig],
        limits: AcceptLimits,
    ) -> Result<PreparedListeners, StartError> {
        self.listener_set()
            .next(listener_configs, limits)
            .map_err(|(place, error)| StartError::ListenerConfig(place, error))
    }

    /// Makes a change in one step: each thread takes all of it on between two packets, and is done with that when this returns, unless
    /// one is held up for longer than [`CONFIG_APPLY_TIMEOUT`]. To be called for one change at a time, in the order in which their listeners were
    /// prepared.
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
        // A broker that stops has closed its listeners, and serves nobody any more.
        if let Ok(before) = self.inboxes[0].request_unbounded(|answer| Command::ApplyConfig(planned, step, answer)) {
            if let Some(data) = &self.data {
                data.set_limit(data::disk_limit(disk_limit, self.default_limit_bytes));
            }
            *self.listener_set() = listener_set;
            self.apply_and_wait(before);
        }
    }

    /// Has all threads take on what holds now, and waits for that.
    fn apply_and_wait(&self, before: Arc<ConfigSnapshot>) {
        self.wake_all();
        let began = Instant::now();
        // What only this thread has is freed here, and not by one that serves clients.
        while Arc::strong_count(&before) > 1 && began.elapsed() < CONFIG_APPLY_TIMEOUT {
            thread::sleep(CONFIG_APPLY_POLL_INTERVAL);
        }
    }

    fn listener_set(&self) -> MutexGuard<'_, ListenerSet> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What clients make the broker hold, by kind.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// About how many bytes of memory the retained messages take, their places in the tree included.
    pub fn retained_held_bytes(&self) -> u64 {
        self.exchange.retained_held_bytes()
    }

    /// Bytes that count against [`Settings::buffered_bytes`]: what clients make the broker hold, without retained messages.
    pub fn buffered_bytes(&self) -> u64 {
        self.memory.total_held().saturating_sub(self.exchange.retained_message_bytes())
    }

    /// How many threads there are.
    pub fn threads(&self) -> usize {
        self.inboxes.len()
    }

    /// The settings that hold now.
    pub fn settings(&self) -> Arc<Settings> {
        self.config_cell.current().settings.clone()
    }

    /// Counts lines of the log that were lost.
    pub fn count_lost_log_lines(&self, lines: u64) {
        if let Some(counters) = self.counters.last() {
            counters.log_lines_lost.add_from_any_thread(lines);
        }
    }

    /// Counts lines of the audit log that were lost, or held back.
    pub fn count_lost_audit_lines(&self, lines: u64) {
        if let Some(counters) = self.counters.last() {
            counters.audit_lines_lost.add_from_any_thread(lines);
        }
    }

    /// How many messages are retained, and the bytes of those that count against the limit.
    pub fn retained(&self) -> (usize, usize) {
        self.exchange.retained()
    }

    /// The contracts that hold now.
    pub fn contracts(&self) -> Arc<Catalogue> {
        self.config_cell.current().contracts.clone()
    }

    /// From now on `contracts` hold. Each thread changes over between two messages, and has done so when this returns, as with
    /// [`Control::adopt`].
    pub fn set_contracts(&self, contracts: Arc<Catalogue>) {
        self.change_config(|next| next.contracts = contracts);
    }

    /// Has something else hold, and waits until each thread has taken it on.
    pub(crate) fn change_config(&self, change: impl FnOnce(&mut ConfigSnapshot)) {
        let before = self.config_cell.change(change);
        self.apply_and_wait(before);
    }

    /// The access rules that hold now.
    pub fn policy(&self) -> Arc<Policy> {
        self.config_cell.current().policy.clone()
    }

    /// Looks at each client again that has been let in, and disconnects those who are not `known` any more. Whoever comes from now on is
    /// asked who it is. Waits for nobody.
    pub fn recheck_clients(&self, known: ClientCheck) {
        self.config_cell.change(|next| {
            next.asks = true;
            next.review(known);
        });
        self.wake_all();
    }

    fn wake_all(&self) {
        for waker in self.wakers.iter() {
            waker.wake();
        }
    }

    /// Some of the clients, with their sessions. Waits for all threads.
    ///
    /// # Errors
    /// Not all have answered.
    pub fn clients(&self, query: &ClientsQuery, patience: QueryDeadline<'_>) -> Result<ClientsPage, QueryError> {
        let ask = |reply| AdminQuery::Clients(query.clone(), reply);
        let pages = admin_queries::ask_all(&self.inboxes, ask, patience)?;
        Ok(ClientsPage::merge(pages, query))
    }

    /// One client, by the [name](tautwire_session::session_name) of its session; `None` where there is none.
    ///
    /// # Errors
    /// There was no answer.
    pub fn client(&self, name: &str, patience: QueryDeadline<'_>) -> Result<Option<ClientDetail>, QueryError> {
        admin_queries::ask(self.inbox_of(name), |reply| AdminQuery::Client(name.into(), reply), patience)
    }

    /// Subscriptions of one client behind a filter, in their order; `None` where there is no such client.
    ///
    /// # Errors
    /// There was no answer.
    pub fn subscriptions(
        &self,
        name: &str,
        after: &str,
        limit: usize,
        patience: QueryDeadline<'_>,
    ) -> Result<Option<SubscriptionList>, QueryError> {
        let ask = |reply| AdminQuery::Subscriptions(name.into(), after.into(), limit, reply);
        admin_queries::ask(self.inbox_of(name), ask, patience)
    }

    /// Whether a message would reach a client, and why not.
    ///
    /// # Errors
    /// There was no answer.
    pub fn why(&self, query: WhyQuery, patience: QueryDeadline<'_>) -> Result<Explanation, QueryError> {
        let message = query.message.clone();
        let publishes_on = self.inbox_of(message.publisher.as_deref().unwrap_or(&query.name));
        let judged = admin_queries::ask(publishes_on, |reply| AdminQuery::Publish(message, reply), patience)?;
        let inbox = self.inbox_of(&query.name);
        let mut explained = admin_queries::ask(inbox, |reply| AdminQuery::Why(query, reply), patience)?.after(judged);
        for finding in &mut explained.findings {
            if let QueryResult::SharedTurns { others: Some(others), .. } = finding
                && let Some(inbox) = self.inboxes.get(usize::from(others.member.shard.0))
            {
                others.name = admin_queries::ask(inbox, |reply| AdminQuery::Name(others.member, reply), patience)?;
            }
        }
        Ok(explained)
    }

    /// How often contracts were broken, and why. Waits for all threads.
    ///
    /// # Errors
    /// Not all have answered.
    pub fn violations(&self, patience: QueryDeadline<'_>) -> Result<ViolationReport, QueryError> {
        Ok(ViolationReport::merge(admin_queries::ask_all(&self.inboxes, AdminQuery::Violations, patience)?))
    }

    /// Whether all threads go on with their work: each has answered within `timeout`, has more than enough to answer, or ends.
    pub fn is_responsive(&self, timeout: Duration) -> bool {
        !matches!(self.violations(timeout.into()), Err(QueryError::Timeout))
    }

    /// Disconnects a client, and ends its session too if asked; says whether there was something to end.
    ///
    /// # Errors
    /// It was not done, but perhaps after [`QueryError::Timeout`].
    pub fn disconnect(&self, name: &str, ends_session: bool, timeout: Duration) -> Result<bool, QueryError> {
        let ask = |answer| Command::Disconnect(name.into(), ends_session, answer);
        Ok(self.inbox_of(name).request(ask, timeout)?)
    }

    /// That of the shard to which a session belongs.
    fn inbox_of(&self, name: &str) -> &Inbox {
        &self.inboxes[usize::from(self.exchange.owner(name).0)]
    }

    /// Publishes a message like one that a client sends: to the same topics, within the same limits, held to its contract.
    /// Says whether anybody wanted it, once the log has what must last, as far as a client's acknowledgement would wait. Waits for
    /// the answer at most `timeout`.
    ///
    /// # Errors
    /// It was not published, but perhaps after [`PublishError::Timeout`], and surely after [`PublishError::NotDurable`].
    pub fn publish(&self, publication: &Publication<'_>, timeout: Duration) -> Result<bool, PublishError> {
        let message = publication.to_message();
        let published = self.inboxes[0].request(|answer| Command::Publish(message, answer), timeout)?;
        Ok(published?)
    }
}

/// A change of what a broker runs with.
pub struct ConfigChange {
    /// What is listened on from now on. Who is not let in any more because its listener has gone is disconnected by a review.
    pub listeners: PreparedListeners,
    /// What each thread runs with. Connections that are there keep what they were told in CONNACK, and their acknowledgements wait for
    /// what they did. [`Settings::cold_bytes`] and [`Settings::shard_queue_batches`] stay what they were at start.
    pub settings: Settings,
    /// How much is retained at most.
    pub retained: RetainedLimits,
    /// Handshakes of TLS that may go on at once, on each thread.
    pub tls_handshakes: usize,
    /// What the state may take on disk; `None` is what it is where nobody has said at start.
    pub disk_limit: Option<u64>,
    /// Changes the rest of what holds: rules, contracts, and who is known.
    pub config: Box<dyn FnOnce(&mut ConfigSnapshot) + Send>,
    /// What else belongs to the step: what the [`Authenticator`] answers by. It must be short, as the thread that lets newcomers in waits for
    /// it, and must not ask anything of this broker.
    pub on_apply: Box<dyn FnOnce() + Send>,
}

impl fmt::Debug for ConfigChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Change").field("listeners", &self.listeners).finish_non_exhaustive()
    }
}

/// Where clients come in.
#[derive(Clone)]
pub struct AcceptOptions<'a> {
    /// What is listened on.
    pub listener_configs: &'a [ListenerConfig],
    /// Called once all addresses are listened on, before anything is accepted, read or kept: here the process gives up rights that listening
    /// alone needs.
    pub on_bound: &'a dyn Fn() -> Result<(), String>,
    /// Handshakes of TLS that may go on at once, on each thread.
    pub tls_handshakes: usize,
    /// Finds out who clients are, where they are asked.
    pub authenticator: Option<Arc<dyn Authenticator>>,
    /// Whether they are asked from the first connection on.
    pub asks: bool,
    /// What clients may do, from the first packet on.
    pub policy: Arc<Policy>,
    /// How many may come from one address, and how fast.
    pub accept_rate: AcceptLimits,
    /// Where the broker is one of several. Its clients are refused until the thread of the cluster has told all threads that a life of the
    /// node begins.
    pub cluster: Option<ClusterOptions>,
}

impl<'a> AcceptOptions<'a> {
    /// Everybody is let in and may do everything.
    pub fn open(listener_configs: &'a [ListenerConfig]) -> AcceptOptions<'a> {
        AcceptOptions {
            listener_configs,
            on_bound: &|| Ok(()),
            tls_handshakes: 64,
            authenticator: None,
            asks: false,
            policy: Arc::new(Policy::open()),
            accept_rate: AcceptLimits::default(),
            cluster: None,
        }
    }
}

/// Why a broker did not start.
#[derive(Debug)]
pub enum StartError {
    /// Somewhere could not be listened.
    ListenerConfig(ListenAddress, io::Error),
    /// What was to be done once it listened has failed, and this is why.
    AfterBind(String),
    /// A thread or what it needs could not be had.
    Thread(io::Error),
    /// The data directory cannot be used.
    Data(DataError),
    /// There is a data directory, and the broker is one of a cluster, whose store has the sessions.
    DataInCluster,
    /// The broker is to be one of a cluster, and has been built without the feature `cluster`.
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
                "a broker of a cluster keeps no state of its own; set data.path to an empty text [cluster_with_data]",
            ),
            StartError::NoCluster => f.write_str(
                "this broker has been built without clusters; build it with the feature `cluster` [cluster_not_built]",
            ),
        }
    }
}

impl std::error::Error for StartError {}

impl Broker {
    /// Starts `threads` threads, at most [`SHARDS_MAX`], and listens. `contracts` hold from the first message on. State is kept in
    /// the directory `data`, if one is given, and else in memory.
    ///
    /// # Errors
    /// Where an address cannot be listened on, a thread cannot be started, or the directory cannot be used; nothing runs then.
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
            asks,
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
            first.asks = asks;
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
        let (settles, settled) = mpsc::channel();
        let mut broker = Broker {
            settled: Mutex::new(settled),
            addresses: listener_set.addresses(),
            stop: stop.clone(),
            wakers: wakers.clone(),
            threads: Vec::new(),
            data: None,
            cold: None,
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
            broker.cold = Some(opened.cold);
            kept = opened.shards.into_iter();
        }
        let mut mode = None;
        let ends = polls.into_iter().zip(wakers).zip(shard_channels).zip(commands);
        for (index, (((poll, waker), shard_channels), commands)) in ends.enumerate() {
            // The first thread accepts; a connection moves to its client's thread when CONNECT has come.
            let listeners = if index == 0 { std::mem::take(&mut listeners) } else { Vec::new() };
            let (stop, authenticator, tls_handshakes) = (stop.clone(), authenticator.clone(), tls_handshakes.clone());
            let settled = settles.clone();
            let parts = WorkerParts {
                poll,
                shard: (),
                listeners,
                shard_channels,
                waker,
                stop,
                commands,
                clock,
                tls_handshakes,
                authenticator,
                cluster: cluster.as_ref().map(|seat| seat.thread.clone()),
                settled,
            };
            let shard = ShardIndex(index as u8);
            let started = if let Some(shard) = kept.next() {
                run(index, parts.with(shard))
            } else if HAS_CLUSTER && let Some(seat) = &cluster {
                let mode = mode.get_or_insert_with(|| Clustered::new(seat.seed, seat.settings.clone())).clone();
                run(index, parts.with(Shard::new(shard, shared.clone(), mode, clock.now_ms())))
            } else {
                run(index, parts.with(Shard::new(shard, shared.clone(), Volatile, clock.now_ms())))
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

    /// The addresses listened on, in the order of those asked for; Unix sockets are none.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Waits until each thread has made a turn after which there was nothing left to do: it has then run the code that an idle thread runs.
    /// Waits for each thread at most `timeout`; says whether all have. To be called once.
    pub fn wait_until_idle(&self, timeout: Duration) -> bool {
        let settled = self.settled.lock().unwrap_or_else(PoisonError::into_inner);
        self.threads.iter().all(|_| settled.recv_timeout(timeout).is_ok())
    }

    /// For those who watch and steer the broker.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Tells the clients, closes their connections and ends all threads.
    pub fn stop(self) {
        self.stop.store(true, Ordering::SeqCst);
        for waker in &self.wakers {
            waker.wake();
        }
        for thread in self.threads {
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => log::error!("a thread ended early: {error}"),
                Err(_) => log::error!("a thread ended in a panic"),
            }
        }
        drop(self.cold);
        if let Some(Err(error)) = self.data.map(Data::close) {
            log::error!("the log could not be closed in order: {error}");
        }
    }
}

/// Starts the thread of a shard.
fn run<M: Mode<Journal: Send>>(index: usize, parts: WorkerParts<Shard<M>>) -> io::Result<JoinHandle<io::Result<()>>> {
    let worker = Worker::new(parts)?;
    thread::Builder::new().name(format!("shard-{index}")).spawn(move || worker.run())
}
