//! Starting and stopping all threads.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mio::{Poll, Waker};
use tautwire_access::Policy;
use tautwire_cold::SpillThread;
use tautwire_contracts::Catalogue;
use tautwire_engine::{
    AdminQuery, ClientCheck, ClientDetail, ClientsPage, ClientsQuery, ConfigCell, ConfigSnapshot, Counters,
    Explanation, Latencies, LatencyCounts, Publication, QueryResult, Settings, Shard, Shared, SubscriptionList,
    TopicTotals, Totals, ViolationReport, WhyQuery,
};
use tautwire_journal::WriterHandle;
use tautwire_memory::Memory;
use tautwire_router::{Exchange, RetainedLimits, SHARDS_MAX, ShardIndex};
use tautwire_session::{InCluster, Journal, Volatile};

use crate::arrivals::ArrivalLimits;
use crate::bell::Bell;
use crate::clock::Clock;
use crate::cluster::{ClusterMail, ClusterSeat};
use crate::data::{self, Data, DataDirectory, DataError, DataState};
use crate::descriptors;
use crate::doorkeeper::Doorkeeper;
use crate::gate::ListenerState;
use crate::inbox::{Inbox, Order, PublishError, Step};
use crate::listener::{Listen, Place};
use crate::roster::{NextListeners, Roster};
use crate::surveys::{self, AskError, Patience};
use crate::ways::connect;
use crate::worker::{BELL, Equipment, Worker};

/// How long a change waits for threads that are in the midst of a turn.
pub const TAKEN_ON_MAX: Duration = Duration::from_secs(1);
/// How often it looks whether they have taken it on.
const TAKEN_ON_LOOK: Duration = Duration::from_millis(1);

/// Whether the broker can be one of a cluster. Its threads have code of their own for that.
const HAS_CLUSTER: bool = cfg!(feature = "cluster");

/// A running broker.
#[derive(Debug)]
pub struct Broker {
    addresses: Vec<SocketAddr>,
    stop: Arc<AtomicBool>,
    bells: Vec<Arc<Bell>>,
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
    listeners: Arc<Mutex<Roster>>,
    /// One for each shard. The first says what contracts there are, and publishes for operators.
    pub(crate) inboxes: Arc<[Arc<Inbox>]>,
    /// One for each shard, to wake it.
    bells: Arc<[Arc<Bell>]>,
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
    pub fn cluster_mail(&self) -> ClusterMail {
        ClusterMail::new(self.inboxes.clone())
    }

    /// How the data directory is, where there is one.
    pub fn data(&self) -> Option<DataState> {
        self.data.as_ref().map(DataState::of)
    }

    /// How the listeners are, in the order of those asked for.
    pub fn listeners(&self) -> Vec<ListenerState> {
        self.roster().states()
    }

    /// Where a listener listens that has an address.
    pub fn address_of(&self, listener: &str) -> Option<SocketAddr> {
        self.roster().address_of(listener)
    }

    /// Binds what is new of these listeners, to be adopted when all else is right. Nothing else has changed yet. One that has the name, the
    /// place and the transport of one that is there is the same, and its clients stay.
    ///
    /// # Errors
    /// Somewhere cannot be listened. Nothing has changed then.
    pub fn prepare_listeners(&self, listens: &[Listen], limits: ArrivalLimits) -> Result<NextListeners, StartError> {
        self.roster().next(listens, limits).map_err(|(place, error)| StartError::Listen(place, error))
    }

    /// Makes a change in one step: each thread takes all of it on between two packets, and is done with that when this returns, unless
    /// one is held up for longer than [`TAKEN_ON_MAX`]. To be called for one change at a time, in the order in which their listeners were
    /// prepared.
    pub fn adopt(&self, change: Change) {
        let Change { listeners, settings, retained, tls_handshakes, disk_limit, config, and } = change;
        let (roster, placed, gone) = listeners.into_parts();
        let control = self.clone();
        let step = Step::new(move || {
            gone.iter().for_each(|gate| gate.shut());
            control.tls_handshakes.store(tls_handshakes, Ordering::Relaxed);
            control.exchange.set_retained_limits(retained);
            let before = control.config_cell.change(|next| {
                next.settings = Arc::new(settings);
                config(next);
            });
            and();
            before
        });
        // A broker that stops has closed its listeners, and serves nobody any more.
        if let Ok(before) = self.inboxes[0].insist(|answer| Order::Adopt(placed, step, answer)) {
            if let Some(data) = &self.data {
                data.set_limit(data::disk_limit(disk_limit, self.default_limit_bytes));
            }
            *self.roster() = roster;
            self.have_taken_on(before);
        }
    }

    /// Has all threads take on what holds now, and waits for that.
    fn have_taken_on(&self, before: Arc<ConfigSnapshot>) {
        self.wake_all();
        let began = Instant::now();
        // What only this thread has is freed here, and not by one that serves clients.
        while Arc::strong_count(&before) > 1 && began.elapsed() < TAKEN_ON_MAX {
            thread::sleep(TAKEN_ON_LOOK);
        }
    }

    fn roster(&self) -> MutexGuard<'_, Roster> {
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
        self.memory.held_in_all().saturating_sub(self.exchange.retained_kept_bytes())
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
        self.change_regime(|next| next.contracts = contracts);
    }

    /// Has something else hold, and waits until each thread has taken it on.
    pub(crate) fn change_regime(&self, change: impl FnOnce(&mut ConfigSnapshot)) {
        let before = self.config_cell.change(change);
        self.have_taken_on(before);
    }

    /// The access rules that hold now.
    pub fn policy(&self) -> Arc<Policy> {
        self.config_cell.current().policy.clone()
    }

    /// Looks at each client again that has been let in, and disconnects those who are not `known` any more. Whoever comes from now on is
    /// asked who it is. Waits for nobody.
    pub fn review_clients(&self, known: ClientCheck) {
        self.config_cell.change(|next| {
            next.asks = true;
            next.review(known);
        });
        self.wake_all();
    }

    fn wake_all(&self) {
        for bell in self.bells.iter() {
            bell.ring();
        }
    }

    /// Some of the clients, with their sessions. Waits for all threads.
    ///
    /// # Errors
    /// Not all have answered.
    pub fn clients(&self, query: &ClientsQuery, patience: Patience<'_>) -> Result<ClientsPage, AskError> {
        let ask = |reply| AdminQuery::Clients(query.clone(), reply);
        let pages = surveys::ask_all(&self.inboxes, ask, patience)?;
        Ok(ClientsPage::merge(pages, query))
    }

    /// One client, by the [name](tautwire_session::session_name) of its session; `None` where there is none.
    ///
    /// # Errors
    /// There was no answer.
    pub fn client(&self, name: &str, patience: Patience<'_>) -> Result<Option<ClientDetail>, AskError> {
        surveys::ask(self.inbox_of(name), |reply| AdminQuery::Client(name.into(), reply), patience)
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
        patience: Patience<'_>,
    ) -> Result<Option<SubscriptionList>, AskError> {
        let ask = |reply| AdminQuery::Subscriptions(name.into(), after.into(), limit, reply);
        surveys::ask(self.inbox_of(name), ask, patience)
    }

    /// Whether a message would reach a client, and why not.
    ///
    /// # Errors
    /// There was no answer.
    pub fn why(&self, query: WhyQuery, patience: Patience<'_>) -> Result<Explanation, AskError> {
        let message = query.message.clone();
        let publishes_on = self.inbox_of(message.publisher.as_deref().unwrap_or(&query.name));
        let judged = surveys::ask(publishes_on, |reply| AdminQuery::Publish(message, reply), patience)?;
        let inbox = self.inbox_of(&query.name);
        let mut explained = surveys::ask(inbox, |reply| AdminQuery::Why(query, reply), patience)?.after(judged);
        for finding in &mut explained.findings {
            if let QueryResult::SharedTurns { others: Some(others), .. } = finding
                && let Some(inbox) = self.inboxes.get(usize::from(others.member.shard.0))
            {
                others.name = surveys::ask(inbox, |reply| AdminQuery::Name(others.member, reply), patience)?;
            }
        }
        Ok(explained)
    }

    /// How often contracts were broken, and why. Waits for all threads.
    ///
    /// # Errors
    /// Not all have answered.
    pub fn violations(&self, patience: Patience<'_>) -> Result<ViolationReport, AskError> {
        Ok(ViolationReport::merge(surveys::ask_all(&self.inboxes, AdminQuery::Violations, patience)?))
    }

    /// Whether all threads go on with their work: each has answered within `timeout`, has more than enough to answer, or ends.
    pub fn answers(&self, timeout: Duration) -> bool {
        !matches!(self.violations(timeout.into()), Err(AskError::Unanswered))
    }

    /// Disconnects a client, and ends its session too if asked; says whether there was something to end.
    ///
    /// # Errors
    /// It was not done, but perhaps after [`AskError::Unanswered`].
    pub fn disconnect(&self, name: &str, ends_session: bool, timeout: Duration) -> Result<bool, AskError> {
        let ask = |answer| Order::Disconnect(name.into(), ends_session, answer);
        Ok(self.inbox_of(name).ask(ask, timeout)?)
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
    /// It was not published, but perhaps after [`PublishError::Unanswered`], and surely after [`PublishError::NotDurable`].
    pub fn publish(&self, publication: &Publication<'_>, timeout: Duration) -> Result<bool, PublishError> {
        let message = publication.to_message();
        let published = self.inboxes[0].ask(|answer| Order::Publish(message, answer), timeout)?;
        Ok(published?)
    }
}

/// A change of what a broker runs with.
pub struct Change {
    /// What is listened on from now on. Who is not let in any more because its listener has gone is disconnected by a review.
    pub listeners: NextListeners,
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
    /// What else belongs to the step: what the [`Doorkeeper`] answers by. It must be short, as the thread that lets newcomers in waits for
    /// it, and must not ask anything of this broker.
    pub and: Box<dyn FnOnce() + Send>,
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Change").field("listeners", &self.listeners).finish_non_exhaustive()
    }
}

/// Where clients come in.
#[derive(Clone)]
pub struct Entrance<'a> {
    /// What is listened on.
    pub listens: &'a [Listen],
    /// Called once all addresses are listened on, before anything is accepted, read or kept: here the process gives up rights that listening
    /// alone needs.
    pub once_bound: &'a dyn Fn() -> Result<(), String>,
    /// Handshakes of TLS that may go on at once, on each thread.
    pub tls_handshakes: usize,
    /// Finds out who clients are, where they are asked.
    pub doorkeeper: Option<Arc<dyn Doorkeeper>>,
    /// Whether they are asked from the first connection on.
    pub asks: bool,
    /// What clients may do, from the first packet on.
    pub policy: Arc<Policy>,
    /// How many may come from one address, and how fast.
    pub arrivals: ArrivalLimits,
    /// Where the broker is one of several. Its clients are refused until the thread of the cluster has told all threads that a life of the
    /// node begins.
    pub cluster: Option<ClusterSeat>,
}

impl<'a> Entrance<'a> {
    /// Everybody is let in and may do everything.
    pub fn open(listens: &'a [Listen]) -> Entrance<'a> {
        Entrance {
            listens,
            once_bound: &|| Ok(()),
            tls_handshakes: 64,
            doorkeeper: None,
            asks: false,
            policy: Arc::new(Policy::open()),
            arrivals: ArrivalLimits::default(),
            cluster: None,
        }
    }
}

/// Why a broker did not start.
#[derive(Debug)]
pub enum StartError {
    /// Somewhere could not be listened.
    Listen(Place, io::Error),
    /// What was to be done once it listened has failed, and this is why.
    Bound(String),
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
            StartError::Listen(Place::Network(address), error) if error.kind() == io::ErrorKind::AddrInUse => write!(
                f,
                "cannot listen on {address}: the port is in use; stop the other server or choose another port with --listen"
            ),
            StartError::Listen(place, error) => write!(f, "cannot listen on {place}: {error}"),
            StartError::Bound(why) => f.write_str(why),
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
        entrance: Entrance<'_>,
        threads: usize,
        data: Option<DataDirectory<'_>>,
    ) -> Result<Broker, StartError> {
        let Entrance { listens, once_bound, tls_handshakes, doorkeeper, asks, policy, arrivals, cluster } = entrance;
        if cluster.is_some() && !HAS_CLUSTER {
            return Err(StartError::NoCluster);
        }
        if cluster.is_some() && data.is_some() {
            return Err(StartError::DataInCluster);
        }
        let tls_handshakes = Arc::new(AtomicUsize::new(tls_handshakes));
        let threads = threads.clamp(1, SHARDS_MAX);
        descriptors::make_room();
        let (roster, mut listeners) =
            Roster::bind(listens, arrivals).map_err(|(place, error)| StartError::Listen(place, error))?;
        once_bound().map_err(StartError::Bound)?;
        let queue_batches = settings.shard_queue_batches;
        let shared = Shared::new(settings, Exchange::new(threads, retained));
        shared.config_cell.change(|first| {
            first.asks = asks;
            if let Some(doorkeeper) = &doorkeeper {
                first.auth_progress = doorkeeper.progress();
            }
            first.policy = policy;
            if !contracts.contracts().is_empty() {
                first.contracts = contracts;
            }
        });

        let polls = (0..threads).map(|_| Poll::new()).collect::<io::Result<Vec<_>>>().map_err(StartError::Thread)?;
        let bells = polls
            .iter()
            .map(|poll| Ok(Arc::new(Bell::new(Waker::new(poll.registry(), BELL)?))))
            .collect::<io::Result<Vec<_>>>()
            .map_err(StartError::Thread)?;
        let ways = connect(&bells, queue_batches);
        let mut clock = Clock::new();
        let stop = Arc::new(AtomicBool::new(false));
        let (inboxes, orders): (Vec<_>, Vec<_>) = bells.iter().cloned().map(Inbox::new).unzip();
        let (settles, settled) = mpsc::channel();
        let mut broker = Broker {
            settled: Mutex::new(settled),
            addresses: roster.addresses(),
            stop: stop.clone(),
            bells: bells.clone(),
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
                listeners: Arc::new(Mutex::new(roster)),
                inboxes: inboxes.into(),
                bells: bells.clone().into(),
            },
        };
        let mut kept = Vec::new().into_iter();
        if let Some(directory) = data {
            let opened = data::open(directory, listens, &shared, &bells, clock).map_err(StartError::Data)?;
            clock = opened.clock;
            broker.control.default_limit_bytes = opened.default_limit_bytes;
            broker.control.data = Some(opened.data.handle());
            broker.data = Some(opened.data);
            broker.cold = Some(opened.cold);
            kept = opened.shards.into_iter();
        }
        let ends = polls.into_iter().zip(bells).zip(ways).zip(orders);
        for (index, (((poll, bell), ways), orders)) in ends.enumerate() {
            // The first thread accepts; a connection moves to its client's thread when CONNECT has come.
            let listeners = if index == 0 { std::mem::take(&mut listeners) } else { Vec::new() };
            let (stop, doorkeeper, tls_handshakes) = (stop.clone(), doorkeeper.clone(), tls_handshakes.clone());
            let settled = settles.clone();
            let equipment = Equipment {
                poll,
                shard: (),
                listeners,
                ways,
                bell,
                stop,
                orders,
                clock,
                tls_handshakes,
                doorkeeper,
                cluster: cluster.as_ref().map(|seat| seat.thread.clone()),
                settled,
            };
            let shard = ShardIndex(index as u8);
            let started = if let Some(shard) = kept.next() {
                run(index, equipment.with(shard))
            } else if HAS_CLUSTER && let Some(seat) = &cluster {
                let mut shard = Shard::new(shard, shared.clone(), InCluster, clock.now_ms());
                shard.join_cluster(seat.seed, seat.settings.clone());
                run(index, equipment.with(shard))
            } else {
                run(index, equipment.with(Shard::new(shard, shared.clone(), Volatile, clock.now_ms())))
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
    pub fn settle(&self, timeout: Duration) -> bool {
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
        for bell in &self.bells {
            bell.ring();
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
fn run<J: Journal + Send + 'static>(
    index: usize,
    equipment: Equipment<Shard<J>>,
) -> io::Result<JoinHandle<io::Result<()>>> {
    let worker = Worker::new(equipment)?;
    thread::Builder::new().name(format!("shard-{index}")).spawn(move || worker.run())
}
