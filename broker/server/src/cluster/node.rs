//! This broker as one of several.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tautwire_cluster::names::Seed;
use tautwire_cluster::{PeerCommandOutcome, ProposalOutcome};
use tautwire_engine::ClusterSettings;
use tautwire_nats::{Command, Refused, check, found};
use tautwire_reactor::{ClusterOptions, ClusterSender};

use super::DrainError;
use super::node_directory::NodeDirectory;
use super::plan::Plan;
use super::relay::Relay;
use super::revisions::{RevisionStatus, written};
use super::supervisor::LifeSupervisor;
use super::{Proposed, SharedConfigStatus, status};
use crate::fields::Fields;
use crate::shared::{Parts, Shared};

/// The longest that a start waits until clients are served, once the cluster is found: longer than a lease of a life before.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// How often it is looked meanwhile whether the broker is to end.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The longest that somebody waits who asks how it is with the node.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);

/// The same for who orders something of another node: longer than that is asked for.
const PEER_COMMAND_TIMEOUT: Duration = Duration::from_secs(7);

/// This broker as one of several, from its start to its end.
pub(crate) struct Node {
    name: String,
    seed: Seed,
    relay: Arc<Relay>,
    plan: Mutex<Plan>,
    state: Mutex<State>,
    /// Takes on what the cluster shares.
    apply_thread: Mutex<Option<JoinHandle<()>>>,
    /// Held by who proposes something: one proposal of a node is under way at a time.
    proposing: Mutex<()>,
    stops: Arc<AtomicBool>,
}

enum State {
    /// The broker does not run yet.
    Ready(Box<LifeSupervisor>),
    Running(JoinHandle<()>),
    Over,
}

impl Node {
    /// Finds the cluster, and waits for that as long as it takes; `None` once `gives_up` says so. `path`: where the node keeps which life
    /// was its last. `threads`: of the broker.
    ///
    /// # Errors
    /// The node cannot take part, and waiting does not change that.
    pub(crate) fn join(
        plan: Plan,
        path: Option<&Path>,
        threads: usize,
        gives_up: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Node>, String> {
        let place = NodeDirectory::take(path)?;
        let last = place.last_life()?;
        let settings = plan.settings(threads);
        let Some(seed) = found(&settings, gives_up).map_err(|error| error.to_string())? else { return Ok(None) };
        let (relay, ends) = Relay::new(seed, threads);
        let relay = Arc::new(relay);
        let lives = LifeSupervisor { settings, relay: relay.clone(), place, ends, last };
        Ok(Some(Node {
            name: plan.name(),
            seed,
            relay,
            plan: Mutex::new(plan),
            state: Mutex::new(State::Ready(Box::new(lives))),
            apply_thread: Mutex::default(),
            proposing: Mutex::default(),
            stops: Arc::default(),
        }))
    }

    /// Whether a broker of this plan could take part now.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn check(plan: &Plan) -> Result<(), String> {
        check(&plan.settings(1)).map(drop).map_err(|error| error.to_string())
    }

    /// What the broker is started with.
    pub(crate) fn seat(&self) -> ClusterOptions {
        let settings = ClusterSettings { node_name: self.name.clone(), ..ClusterSettings::default() };
        ClusterOptions { seed: self.seed, settings, thread: self.relay.clone() }
    }

    /// The broker runs: the node's first life begins.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn begin(&self, mail: ClusterSender) -> Result<(), String> {
        self.relay.connect(mail);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Ready(lives) = std::mem::replace(&mut *state, State::Over) {
            let stops = self.stops.clone();
            let run = move || lives.run(|| stops.load(Ordering::Relaxed));
            let thread = std::thread::Builder::new().name("cluster-lives".to_owned()).spawn(run);
            *state = State::Running(thread.map_err(|error| format!("the system gives no thread: {error}"))?);
        }
        Ok(())
    }

    /// From now on what the cluster shares is taken on by `apply`, on a thread of its own. Clients are served once that has been done.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn apply_with(
        &self,
        apply: impl Fn(&Arc<Shared>) -> Result<(), Vec<String>> + Send + 'static,
    ) -> Result<(), String> {
        let relay = self.relay.clone();
        let run = move || relay.revisions.apply(apply, |number, is_applied| relay.configured(number, is_applied));
        let thread = std::thread::Builder::new().name("cluster-config".to_owned()).spawn(run);
        let thread = thread.map_err(|error| format!("the system gives no thread: {error}"))?;
        *self.apply_thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(())
    }

    /// The settings of this broker, or files that they name, have changed: a revision that it could not take on is tried again.
    pub(crate) fn retry_refused(&self) {
        self.relay.revisions.retry_refused();
    }

    /// How it is with what the cluster shares.
    pub(crate) fn sharing(&self) -> SharedConfigStatus {
        let RevisionStatus { held, refused, refusals } = self.relay.revisions.status();
        let refused = refused.map(|refused| refused.why).unwrap_or_default();
        SharedConfigStatus { latest: self.relay.revisions.seen(), held: held.number, refused, refusals }
    }

    /// The last revision that could be read, once it has this number or a later one, or `until` has come.
    pub(crate) fn await_revision(&self, number: u64, until: Instant) -> Arc<Shared> {
        self.relay.revisions.await_revision_seen(number, until)
    }

    /// Proposes a revision that is made on the one with the number `base`. One that is accepted has been taken on or refused by this node, if
    /// that was done by `until`.
    pub(crate) fn propose(&self, base: u64, parts: &Parts, until: Instant) -> Proposed {
        let _alone = self.proposing.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(life) = self.relay.life().filter(|_| Instant::now() < until) else { return Proposed::Unavailable };
        let (ticket, outcome) = self.relay.proposals.ticket();
        let outcome = match life.give(Command::Propose { ticket, base, parts: written(parts) }) {
            Ok(()) => match outcome.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(ProposalOutcome::Accepted(number)) => {
                    self.relay.revisions.await_applied(number, until);
                    Proposed::Accepted(number)
                }
                Ok(ProposalOutcome::Outdated(number)) => Proposed::Outdated(number),
                Ok(ProposalOutcome::Overtaken(_)) => Proposed::Overtaken,
                Ok(ProposalOutcome::TooLarge) => Proposed::TooLarge,
                Ok(ProposalOutcome::Unavailable) => Proposed::Unavailable,
                Err(_) => Proposed::Timeout,
            },
            Err(Refused::TooLarge(_)) => Proposed::TooLarge,
            Err(Refused::Full(_) | Refused::Over(_)) => Proposed::Unavailable,
        };
        self.relay.proposals.forget(ticket);
        outcome
    }

    /// Waits until clients are served, or for a while; says whether they are.
    pub(crate) fn await_service(&self, gives_up: &mut dyn FnMut() -> bool) -> bool {
        let looks = START_TIMEOUT.as_millis() / POLL_INTERVAL.as_millis();
        (0..looks).any(|_| self.relay.await_service(POLL_INTERVAL) || gives_up())
            && self.relay.await_service(Duration::ZERO)
    }

    /// A reload has read this: the servers are reached so from now on, where that has changed.
    pub(crate) fn adopt(&self, plan: Plan) {
        let mut held = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        if *held != plan
            && let Some(life) = self.relay.life()
        {
            log::info!("the way to NATS has changed");
            if life.give(Command::Reconnect(Box::new(plan.access()))).is_ok() {
                *held = plan;
            }
        }
    }

    /// How it is with the node and the others, as JSON; `None` where it does not answer.
    pub(crate) fn told(&self) -> Option<Fields> {
        let status = self.relay.report(STATUS_TIMEOUT)?;
        Some(status::status(&self.name, &status, &self.sharing(), self.relay.connection_status().as_ref()))
    }

    /// What this life counts, by name and meaning.
    pub(crate) fn counters(&self) -> Vec<(&'static str, &'static str, u64)> {
        self.relay.life().map(|life| life.counters().all()).unwrap_or_default()
    }

    /// Whether clients should be sent here.
    pub(crate) fn takes_clients(&self) -> bool {
        !self.relay.is_draining() && self.sharing().refused.is_empty() && self.is_serving()
    }

    /// Whether an operator has said that the node is to end.
    pub(crate) fn is_draining(&self) -> bool {
        self.relay.is_draining()
    }

    /// Whether those clients are served that it has.
    pub(crate) fn is_serving(&self) -> bool {
        self.relay.life().is_some_and(|life| life.is_serving())
    }

    /// The node is to end: its clients are sent elsewhere; `is_for_good`, they are not to come back. Whether it has been told.
    pub(crate) fn drain(&self, is_for_good: bool) -> bool {
        let is_begun = self.give(Command::Drain { is_for_good });
        if is_begun {
            self.relay.start_drain();
        }
        is_begun
    }

    /// What operators call this node.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Another node is to end, by its name; `by` is who asks for it.
    ///
    /// # Errors
    /// It has not been told, or has not said that it has heard it.
    pub(crate) fn drain_peer(&self, node: &str, is_for_good: bool, by: &str) -> Result<(), DrainError> {
        match self.relay.drain_peer(node, is_for_good, by, PEER_COMMAND_TIMEOUT) {
            None => Err(DrainError::NoLife),
            Some(PeerCommandOutcome::Taken) => Ok(()),
            Some(PeerCommandOutcome::Unknown) => Err(DrainError::Unknown),
            Some(PeerCommandOutcome::Ambiguous) => Err(DrainError::Ambiguous),
            Some(PeerCommandOutcome::Silent) => Err(DrainError::Silent),
            Some(PeerCommandOutcome::TooMany) => Err(DrainError::TooMany),
        }
    }

    /// Clients go to other nodes where this one has more than its share. Whether it has been told.
    pub(crate) fn rebalance(&self) -> bool {
        self.give(Command::Rebalance)
    }

    fn give(&self, command: Command) -> bool {
        self.relay.life().is_some_and(|life| life.give(command).is_ok())
    }

    /// The broker has ended: what its threads have asked last is done, and the life is over.
    pub(crate) fn stop(&self) {
        self.stops.store(true, Ordering::Relaxed);
        self.relay.revisions.end();
        let apply_thread = self.apply_thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if apply_thread.is_some_and(|thread| thread.join().is_err()) {
            log::error!("the thread that takes on what the cluster shares has panicked");
        }
        let state = std::mem::replace(&mut *self.state.lock().unwrap_or_else(PoisonError::into_inner), State::Over);
        if let State::Running(thread) = state
            && thread.join().is_err()
        {
            log::error!("the thread that begins lives of the node has panicked");
        }
    }
}
