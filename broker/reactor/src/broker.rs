//! Starts and stops all threads.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mio::Poll;
use tautwire_access::Policy;
use tautwire_contracts::Catalogue;
use tautwire_durable::ShardLog;
use tautwire_engine::{Clustered, ConfigCell, Mode, Settings, Shard, Shared, Volatile};
use tautwire_router::{Exchange, RetainedLimits, SHARDS_MAX, ShardIndex};
use tautwire_spill::SpillThread;

use crate::accept_rate::AcceptLimits;
use crate::authenticator::Authenticator;
use crate::clock::Clock;
use crate::cluster::ClusterOptions;
use crate::control::Control;
use crate::data::{self, Data, DataDirectory};
use crate::descriptors;
use crate::inbox::Inbox;
use crate::listener_config::ListenerConfig;
use crate::listener_set::ListenerSet;
use crate::shard_channels::connect;
use crate::start_error::StartError;
use crate::waker::Waker;
use crate::worker::{WAKER_TOKEN, Worker, WorkerParts};

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
        if entrance.cluster.is_some() && !HAS_CLUSTER {
            return Err(StartError::NoCluster);
        }
        if entrance.cluster.is_some() && data.is_some() {
            return Err(StartError::DataInCluster);
        }
        let threads = threads.clamp(1, SHARDS_MAX);
        descriptors::reserve();
        let (listener_set, mut listeners) = ListenerSet::bind(entrance.listener_configs, entrance.accept_rate)
            .map_err(|(place, error)| StartError::ListenerConfig(place, error))?;
        (entrance.on_bound)().map_err(StartError::AfterBind)?;
        let queue_batches = settings.shard_queue_batches;
        let shared = Shared::new(settings, Exchange::new(threads, retained));
        set_first_config(&shared.config_cell, contracts, &entrance);
        let (polls, wakers) = create_wakers(threads).map_err(StartError::Thread)?;
        let (inboxes, commands): (Vec<_>, Vec<_>) = wakers.iter().cloned().map(Inbox::new).unzip();
        let (idle_signal, idle_receiver) = mpsc::channel();
        let tls_handshakes = Arc::new(AtomicUsize::new(entrance.tls_handshakes));
        let control = Control::new(&shared, tls_handshakes.clone(), listener_set, inboxes, &wakers);
        let mut broker = Broker::new(control, &wakers, idle_receiver);
        let mut clock = Clock::new();
        let mut restored = Vec::new();
        if let Some(directory) = data {
            let opened = data::open(directory, entrance.listener_configs, &shared, &wakers, clock);
            let opened = opened.map_err(StartError::Data)?;
            (clock, restored) = (opened.clock, opened.shards);
            broker.control.default_limit_bytes = opened.default_limit_bytes;
            broker.control.data = Some(opened.data.handle());
            broker.data = Some(opened.data);
            broker.spill_thread = Some(opened.spill_thread);
        }
        let channels = connect(&wakers, queue_batches);
        let ends = polls.into_iter().zip(wakers).zip(channels).zip(commands);
        let workers = ends.map(|(((poll, waker), shard_channels), commands)| WorkerParts {
            poll,
            // The first thread accepts; a connection moves to its client's thread after CONNECT.
            listeners: std::mem::take(&mut listeners),
            shard_channels,
            waker,
            stop: broker.stop.clone(),
            commands,
            clock,
            tls_handshakes: tls_handshakes.clone(),
            authenticator: entrance.authenticator.clone(),
            cluster: entrance.cluster.as_ref().map(|cluster| cluster.thread.clone()),
            idle_signal: idle_signal.clone(),
        });
        let workers = workers.collect();
        if let Err(error) = broker.start_threads(workers, &shared, restored, entrance.cluster.as_ref()) {
            broker.stop();
            return Err(StartError::Thread(error));
        }
        Ok(broker)
    }

    fn new(control: Control, wakers: &[Arc<Waker>], idle_receiver: Receiver<()>) -> Broker {
        let addresses = control.listener_set().addresses();
        Broker {
            addresses,
            stop: Arc::new(AtomicBool::new(false)),
            wakers: wakers.to_vec(),
            threads: Vec::new(),
            data: None,
            spill_thread: None,
            control,
            idle_receiver: Mutex::new(idle_receiver),
        }
    }

    /// Starts a thread for each worker, with its restored shard if there is one.
    fn start_threads(
        &mut self,
        workers: Vec<WorkerParts>,
        shared: &Shared,
        restored: Vec<Shard<ShardLog>>,
        cluster: Option<&ClusterOptions>,
    ) -> io::Result<()> {
        let mut restored = restored.into_iter();
        let clustered = cluster.map(|cluster| Clustered::new(cluster.seed, cluster.settings.clone()));
        for parts in workers {
            let (index, now_ms) = (parts.shard_channels.own_shard(), parts.clock.now_ms());
            let thread = if let Some(shard) = restored.next() {
                run(index, parts, shard)
            } else if HAS_CLUSTER && let Some(mode) = clustered.clone() {
                run(index, parts, Shard::new(index, shared.clone(), mode, now_ms))
            } else {
                run(index, parts, Shard::new(index, shared.clone(), Volatile, now_ms))
            };
            self.threads.push(thread?);
        }
        Ok(())
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

/// Sets what the first packet already needs, before any thread reads the configuration.
fn set_first_config(config_cell: &ConfigCell, contracts: Arc<Catalogue>, options: &AcceptOptions<'_>) {
    config_cell.change(|first| {
        first.requires_auth = options.requires_auth;
        if let Some(authenticator) = &options.authenticator {
            first.auth_progress = authenticator.progress();
        }
        first.policy = options.policy.clone();
        if !contracts.contracts().is_empty() {
            first.contracts = contracts;
        }
    });
}

fn create_wakers(threads: usize) -> io::Result<(Vec<Poll>, Vec<Arc<Waker>>)> {
    let polls = (0..threads).map(|_| Poll::new()).collect::<io::Result<Vec<_>>>()?;
    let waker = |poll: &Poll| Ok(Arc::new(Waker::new(mio::Waker::new(poll.registry(), WAKER_TOKEN)?)));
    let wakers = polls.iter().map(waker).collect::<io::Result<_>>()?;
    Ok((polls, wakers))
}

/// Starts the thread of a shard.
fn run<M: Mode<Journal: Send>>(
    index: ShardIndex,
    parts: WorkerParts,
    shard: Shard<M>,
) -> io::Result<JoinHandle<io::Result<()>>> {
    let worker = Worker::new(parts, shard)?;
    thread::Builder::new().name(format!("shard-{}", index.0)).spawn(move || worker.run())
}
