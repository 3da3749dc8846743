//! The cluster node of this broker.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tautwire_cluster::names::Seed;
use tautwire_cluster::{NodeHealth, NodeStatus, PeerCommandOutcome, ProposalOutcome};
use tautwire_engine::ClusterSettings;
use tautwire_nats::{Command, Refused, check, found};
use tautwire_reactor::{ClusterOptions, ClusterSender};

use super::DrainError;
use super::node_directory::NodeDirectory;
use super::plan::Plan;
use super::relay::Relay;
use super::revisions::{RevisionStatus, to_config_parts};
use super::supervisor::LifeSupervisor;
use super::{ProposeOutcome, SharedConfigStatus, status};
use crate::fields::Fields;
use crate::shared::{Parts, Shared};

/// Longest wait at startup until clients are served, after joining the cluster: longer than the lease of an earlier incarnation.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of checks for a shutdown while waiting.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Timeout of a status request.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);

/// Timeout of a command to another node, longer than the node itself waits.
const PEER_COMMAND_TIMEOUT: Duration = Duration::from_secs(7);

/// The cluster node of this broker, from startup to shutdown.
pub(crate) struct Node {
    name: String,
    seed: Seed,
    relay: Arc<Relay>,
    plan: Mutex<Plan>,
    state: Mutex<State>,
    /// The thread that applies the shared configuration.
    apply_thread: Mutex<Option<JoinHandle<()>>>,
    /// Held during a proposal: a node makes one at a time.
    proposing: Mutex<()>,
    is_stopping: Arc<AtomicBool>,
}

enum State {
    /// The broker has not started yet.
    Ready(Box<LifeSupervisor>),
    Running(JoinHandle<()>),
    Over,
}

impl Node {
    /// Joins the cluster, waiting as long as necessary; `None` if `is_cancelled` returns true. `path`: the directory that stores the last
    /// incarnation. `threads`: the number of shards.
    ///
    /// # Errors
    /// The node cannot join, and waiting does not help.
    pub(crate) fn join(
        plan: Plan,
        path: Option<&Path>,
        threads: usize,
        is_cancelled: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Node>, String> {
        let directory = NodeDirectory::take(path)?;
        let last = directory.last_life()?;
        let settings = plan.settings(threads);
        let Some(seed) = found(&settings, is_cancelled).map_err(|error| error.to_string())? else { return Ok(None) };
        let (relay, ends) = Relay::new(seed, threads);
        let relay = Arc::new(relay);
        let supervisor = LifeSupervisor { settings, relay: relay.clone(), directory, ends, last };
        Ok(Some(Node {
            name: plan.name(),
            seed,
            relay,
            plan: Mutex::new(plan),
            state: Mutex::new(State::Ready(Box::new(supervisor))),
            apply_thread: Mutex::default(),
            proposing: Mutex::default(),
            is_stopping: Arc::default(),
        }))
    }

    /// Checks whether a broker with this plan could join now.
    ///
    /// # Errors
    /// The reason why it could not.
    pub(crate) fn check(plan: &Plan) -> Result<(), String> {
        check(&plan.settings(1)).map(drop).map_err(|error| error.to_string())
    }

    /// The options to start the broker with.
    pub(crate) fn cluster_options(&self) -> ClusterOptions {
        let settings = ClusterSettings { node_name: self.name.clone(), ..ClusterSettings::default() };
        ClusterOptions { seed: self.seed, settings, thread: self.relay.clone() }
    }

    /// Starts the first incarnation, once the broker runs.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(&self, sender: ClusterSender) -> Result<(), String> {
        self.relay.connect(sender);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Ready(supervisor) = std::mem::replace(&mut *state, State::Over) {
            let is_stopping = self.is_stopping.clone();
            let run = move || supervisor.run(|| is_stopping.load(Ordering::Relaxed));
            let thread = std::thread::Builder::new().name("cluster-lives".to_owned()).spawn(run);
            *state = State::Running(thread.map_err(|error| format!("cannot start the cluster thread: {error}"))?);
        }
        Ok(())
    }

    /// Starts a thread that applies the shared configuration with `apply`. Clients are served after the first time.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn apply_with(
        &self,
        apply: impl Fn(&Arc<Shared>) -> Result<(), Vec<String>> + Send + 'static,
    ) -> Result<(), String> {
        let relay = self.relay.clone();
        let run = move || relay.revisions.apply(apply, |number, is_applied| relay.configured(number, is_applied));
        let thread = std::thread::Builder::new().name("cluster-config".to_owned()).spawn(run);
        let thread = thread.map_err(|error| format!("cannot start the cluster thread: {error}"))?;
        *self.apply_thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(())
    }

    /// Retries a refused revision, after the settings of this broker or their files have changed.
    pub(crate) fn retry_refused(&self) {
        self.relay.revisions.retry_refused();
    }

    /// The state of the shared configuration.
    pub(crate) fn sharing(&self) -> SharedConfigStatus {
        let RevisionStatus { held, refused, refusals } = self.relay.revisions.status();
        let refused = refused.map(|refused| refused.why).unwrap_or_default();
        SharedConfigStatus { latest: self.relay.revisions.seen(), held: held.number, refused, refusals }
    }

    /// Waits until a revision with at least this number is known, or until the deadline. Returns the latest.
    pub(crate) fn await_revision(&self, number: u64, deadline: Instant) -> Arc<Shared> {
        self.relay.revisions.await_revision_seen(number, deadline)
    }

    /// Proposes a revision based on revision `base`. After acceptance, waits for this node to apply or refuse it, until the deadline.
    pub(crate) fn propose(&self, base: u64, parts: &Parts, deadline: Instant) -> ProposeOutcome {
        let _alone = self.proposing.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(life) = self.relay.life().filter(|_| Instant::now() < deadline) else {
            return ProposeOutcome::Unavailable;
        };
        let (ticket, outcome) = self.relay.proposals.ticket();
        let outcome = match life.give(Command::Propose { ticket, base, parts: to_config_parts(parts) }) {
            Ok(()) => match outcome.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(ProposalOutcome::Accepted(number)) => {
                    self.relay.revisions.await_applied(number, deadline);
                    ProposeOutcome::Accepted(number)
                }
                Ok(ProposalOutcome::Outdated(number)) => ProposeOutcome::Outdated(number),
                Ok(ProposalOutcome::Overtaken(_)) => ProposeOutcome::Overtaken,
                Ok(ProposalOutcome::TooLarge) => ProposeOutcome::TooLarge,
                Ok(ProposalOutcome::Unavailable) => ProposeOutcome::Unavailable,
                Err(_) => ProposeOutcome::Timeout,
            },
            Err(Refused::TooLarge(_)) => ProposeOutcome::TooLarge,
            Err(Refused::Full(_) | Refused::Over(_)) => ProposeOutcome::Unavailable,
        };
        self.relay.proposals.remove(ticket);
        outcome
    }

    /// Waits until clients are served, within a timeout. Returns whether they are.
    pub(crate) fn await_service(&self, is_cancelled: &mut dyn FnMut() -> bool) -> bool {
        let polls = START_TIMEOUT.as_millis() / POLL_INTERVAL.as_millis();
        (0..polls).any(|_| self.relay.await_service(POLL_INTERVAL) || is_cancelled())
            && self.relay.await_service(Duration::ZERO)
    }

    /// Applies a reload: reconnects to the servers if the plan has changed.
    pub(crate) fn apply(&self, plan: Plan) {
        let mut current = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        if *current != plan
            && let Some(life) = self.relay.life()
        {
            log::info!("the NATS servers or credentials have changed; reconnecting");
            if life.give(Command::Reconnect(Box::new(plan.access()))).is_ok() {
                *current = plan;
            }
        }
    }

    /// The status of this node and the others for the admin API; `None` if the node does not respond.
    pub(crate) fn status_fields(&self) -> Option<Fields> {
        let status = self.relay.report(STATUS_TIMEOUT)?;
        Some(status::status(&self.name, &status, &self.sharing(), self.relay.connection_status().as_ref()))
    }

    /// The counters of the current incarnation, with name and help text.
    pub(crate) fn counters(&self) -> Vec<(&'static str, &'static str, u64)> {
        self.relay.life().map(|life| life.counters().all()).unwrap_or_default()
    }

    /// Whether new clients should be sent to this node.
    pub(crate) fn accepts_clients(&self) -> bool {
        !self.relay.is_draining() && self.sharing().refused.is_empty() && self.is_serving()
    }

    /// Whether an operator has requested a drain.
    pub(crate) fn is_draining(&self) -> bool {
        self.relay.is_draining()
    }

    /// Whether the cluster lets this node serve its clients.
    pub(crate) fn is_serving(&self) -> bool {
        self.relay.life().is_some_and(|life| life.is_serving())
    }

    /// Identifies the cluster; the same on all of its nodes.
    pub(crate) fn cluster_id(&self) -> String {
        self.seed.client("cluster").to_string()
    }

    /// Whether this node is the one that runs a service of which the cluster runs one: of the nodes that accept clients, the one whose name
    /// has the highest hash with that of the service (rendezvous hashing), so that few services move when the nodes change. While nodes
    /// disagree about who is alive, there may be none or two.
    pub(crate) fn is_elected(&self, service: &str) -> bool {
        if !self.accepts_clients() {
            return false;
        }
        let Some(status) = self.relay.report(STATUS_TIMEOUT) else { return false };
        let rank = |node: &&NodeStatus| (self.seed.client(&format!("{service}/{}", node.name)).0, node.incarnation.0);
        let alive = status.nodes.iter().filter(|node| node.health == NodeHealth::Alive);
        alive.max_by_key(rank).is_some_and(|elected| elected.incarnation == status.incarnation)
    }

    /// Drains the node: its clients are sent to others, permanently if `is_for_good`. Returns whether the request was accepted.
    pub(crate) fn drain(&self, is_for_good: bool) -> bool {
        let is_begun = self.give(Command::Drain { is_for_good });
        if is_begun {
            self.relay.start_drain();
        }
        is_begun
    }

    /// The node name for operators.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Drains another node by its name; `by` names the caller for its audit log.
    ///
    /// # Errors
    /// The command was not delivered, or not confirmed.
    pub(crate) fn drain_peer(&self, node: &str, is_for_good: bool, by: &str) -> Result<(), DrainError> {
        match self.relay.drain_peer(node, is_for_good, by, PEER_COMMAND_TIMEOUT) {
            None => Err(DrainError::NotJoined),
            Some(PeerCommandOutcome::Taken) => Ok(()),
            Some(PeerCommandOutcome::Unknown) => Err(DrainError::Unknown),
            Some(PeerCommandOutcome::Ambiguous) => Err(DrainError::Ambiguous),
            Some(PeerCommandOutcome::Silent) => Err(DrainError::Unconfirmed),
            Some(PeerCommandOutcome::TooMany) => Err(DrainError::TooMany),
        }
    }

    /// Moves clients to other nodes if this one has more than its share. Returns whether the request was accepted.
    pub(crate) fn rebalance(&self) -> bool {
        self.give(Command::Rebalance)
    }

    fn give(&self, command: Command) -> bool {
        self.relay.life().is_some_and(|life| life.give(command).is_ok())
    }

    /// Stops the node after the broker: pending requests are completed, and the incarnation ends.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        self.relay.revisions.end();
        let apply_thread = self.apply_thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if apply_thread.is_some_and(|thread| thread.join().is_err()) {
            log::error!("the thread that applies the shared configuration has panicked");
        }
        let state = std::mem::replace(&mut *self.state.lock().unwrap_or_else(PoisonError::into_inner), State::Over);
        if let State::Running(thread) = state
            && thread.join().is_err()
        {
            log::error!("the thread that supervises the cluster node has panicked");
        }
    }
}
