//! Bridges to other brokers. Each has a thread, which connects a session of this broker to a session at the other one.

mod backoff;
mod broker_name;
mod connection;
mod election;
mod load;
mod local;
mod plan;
mod report;
mod runner;
mod schedule;
mod socket;
mod status;

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use broker_name::BrokerName;
use tautwire_reactor::Control;

pub(crate) use load::read;
pub(crate) use local::BACKEND;
pub(crate) use plan::{AddressOrder, BridgePlan, StartMode};
use runner::Runner;
pub(crate) use runner::TestResult;
pub(crate) use schedule::Schedule;
pub(crate) use status::{BridgeState, BridgeStatus};
use status::{Command, Shared};

use crate::cluster::Node;

/// How long stopping waits for the threads of bridges.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// All bridges of the broker.
pub(crate) struct Bridges {
    control: Control,
    /// Set in a cluster, in which one node runs each bridge.
    node: Option<Arc<Node>>,
    broker_name: BrokerName,
    running: Mutex<BTreeMap<Arc<str>, Running>>,
}

/// A bridge with its thread.
struct Running {
    plan: Arc<BridgePlan>,
    shared: Arc<Shared>,
    /// Disconnected when the thread ends.
    end: Receiver<()>,
}

impl Bridges {
    /// Creates the set of bridges, which is empty.
    pub(crate) fn new(control: Control, node: Option<Arc<Node>>) -> Bridges {
        let broker_name = BrokerName::new(node.as_deref());
        Bridges { control, node, broker_name, running: Mutex::default() }
    }

    /// Starts new bridges, restarts those that have changed, and stops those that are not listed. The others do not notice.
    ///
    /// # Errors
    /// A thread cannot be started. The bridges before it in the list run.
    pub(crate) fn apply(&self, plans: Vec<BridgePlan>) -> Result<(), String> {
        let mut running = self.running();
        let (kept, removed): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut *running)
            .into_iter()
            .partition(|(name, bridge)| plans.iter().any(|plan| plan.name == *name && *plan == *bridge.plan));
        *running = kept;
        let stopped = stop(removed);
        for plan in plans {
            if running.contains_key(&plan.name) {
                continue;
            }
            let before = stopped.get(&plan.name).map(|plan| plan.link.rules.clone());
            let bridge = self.start(plan, before)?;
            running.insert(bridge.plan.name.clone(), bridge);
        }
        Ok(())
    }

    /// Starts a bridge. `before`: its earlier rules, whose subscriptions are removed.
    fn start(&self, mut plan: BridgePlan, before: Option<tautwire_bridge::Rules>) -> Result<Running, String> {
        let failed = |error: std::io::Error| format!("cannot start the thread of a bridge: {error}");
        let link = Arc::make_mut(&mut plan.link);
        link.broker_id.clone_from(&self.broker_name.id);
        if link.client_id.is_empty() {
            link.client_id = self.broker_name.client_id(&plan.name);
        }
        let plan = Arc::new(plan);
        let (runner, shared) =
            Runner::new(plan.clone(), before, self.control.clone(), self.node.clone()).map_err(failed)?;
        let (alive, end) = mpsc::channel();
        let run = move || {
            runner.run();
            drop(alive);
        };
        std::thread::Builder::new().name("bridge".into()).spawn(run).map_err(failed)?;
        log::info!(bridge = &*plan.name; "the bridge has started");
        Ok(Running { plan, shared, end })
    }

    /// Ends all bridges, and waits until the other brokers have been told.
    pub(crate) fn stop(&self) {
        stop(std::mem::take(&mut *self.running()));
    }

    /// All bridges with their statuses, by name.
    pub(crate) fn list(&self) -> Vec<(Arc<BridgePlan>, BridgeStatus)> {
        self.running().values().map(|bridge| (bridge.plan.clone(), bridge.shared.status())).collect()
    }

    /// A bridge with its status; `None` if there is none of that name.
    pub(crate) fn find(&self, name: &str) -> Option<(Arc<BridgePlan>, BridgeStatus)> {
        self.running().get(name).map(|bridge| (bridge.plan.clone(), bridge.shared.status()))
    }

    /// The bridge of a session of this broker, with its status; `None` if no bridge has that session.
    pub(crate) fn find_by_session(&self, name: &str) -> Option<(Arc<BridgePlan>, BridgeStatus)> {
        let running = self.running();
        let bridge = running.values().find(|bridge| bridge.plan.session_name() == name)?;
        Some((bridge.plan.clone(), bridge.shared.status()))
    }

    /// Disconnects a bridge until it is resumed, or the broker starts again. Returns whether there is one of that name.
    pub(crate) fn pause(&self, name: &str) -> bool {
        self.command(name, Command::Pause)
    }

    /// Connects a paused bridge again, or one that waits for its next attempt at once. Returns whether there is one of that name.
    pub(crate) fn resume(&self, name: &str) -> bool {
        self.command(name, Command::Run)
    }

    /// Connects to the other broker of a bridge beside the bridge itself, with another client identifier, and disconnects. Returns a line
    /// for each address; `None` if there is no bridge of that name.
    pub(crate) fn test(&self, name: &str) -> Option<Vec<TestResult>> {
        let plan = self.running().get(name)?.plan.clone();
        Some(runner::test(&plan))
    }

    fn command(&self, name: &str, command: Command) -> bool {
        self.running().get(name).is_some_and(|bridge| {
            bridge.shared.command(command);
            true
        })
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends bridges side by side, and returns their plans.
fn stop(bridges: BTreeMap<Arc<str>, Running>) -> BTreeMap<Arc<str>, Arc<BridgePlan>> {
    bridges.values().for_each(|bridge| bridge.shared.command(Command::Stop));
    let until = Instant::now() + STOP_TIMEOUT;
    let end = |(name, bridge): (Arc<str>, Running)| {
        // A thread that still waits for an address of the other broker ends by itself.
        let _ = bridge.end.recv_timeout(until.saturating_duration_since(Instant::now()));
        log::info!(bridge = &*name; "the bridge has stopped");
        (name, bridge.plan)
    };
    bridges.into_iter().map(end).collect()
}
