//! Controls and observes a running broker from other threads.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use tautwire_access::Policy;
use tautwire_contracts::Catalogue;
use tautwire_engine::{
    AdminQuery, ClientCheck, ClientDetail, ClientsPage, ClientsQuery, ConfigCell, ConfigSnapshot, ConnectionListener,
    ConnectionOrigin, Counters, Explanation, Latencies, LatencyCounts, Peer, Publication, QueryResult, Settings,
    Shared, SubscriptionList, TopicTotals, Totals, ViolationReport, WhyQuery,
};
use tautwire_journal::WriterHandle;
use tautwire_memory::Memory;
use tautwire_router::{Exchange, RetainedLimits};
use tautwire_session::AckLevel;

use crate::accept_limiter::ListenerState;
use crate::accept_rate::AcceptLimits;
use crate::accepted_connection::AcceptedConnection;
use crate::admin_queries::{self, QueryDeadline, QueryError};
use crate::cluster::ClusterSender;
use crate::data::{self, DataState};
use crate::inbox::{Command, ConfigStep, Inbox, PublishError};
use crate::listener_config::ListenerConfig;
use crate::listener_set::{ListenerSet, PreparedListeners};
use crate::start_error::StartError;
use crate::waker::Waker;

/// How long a configuration change waits for threads that are in the middle of a turn.
pub const CONFIG_APPLY_TIMEOUT: Duration = Duration::from_secs(1);
/// How often the change checks whether all threads have applied it.
const CONFIG_APPLY_POLL_INTERVAL: Duration = Duration::from_millis(1);

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
    pub(crate) data: Option<WriterHandle>,
    pub(crate) default_limit_bytes: u64,
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
    pub(crate) fn new(
        shared: &Shared,
        tls_handshakes: Arc<AtomicUsize>,
        listeners: ListenerSet,
        inboxes: Vec<Arc<Inbox>>,
        wakers: &[Arc<Waker>],
    ) -> Control {
        Control {
            exchange: shared.exchange.clone(),
            config_cell: shared.config_cell.clone(),
            tls_handshakes,
            counters: shared.counters.clone(),
            latencies: shared.latencies.clone(),
            memory: shared.memory.clone(),
            data: None,
            default_limit_bytes: 0,
            listeners: Arc::new(Mutex::new(listeners)),
            inboxes: inboxes.into(),
            wakers: wakers.into(),
        }
    }

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

    pub(crate) fn listener_set(&self) -> MutexGuard<'_, ListenerSet> {
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
    /// Runs in the same step, for example to change what the [`Authenticator`](crate::Authenticator) decides by. It must be short, because the thread that
    /// accepts connections waits for it, and must not call this broker.
    pub on_apply: Box<dyn FnOnce() + Send>,
}

impl fmt::Debug for ConfigChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Change").field("listeners", &self.listeners).finish_non_exhaustive()
    }
}
