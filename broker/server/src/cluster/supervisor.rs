//! Runs the incarnations of the node one after the other. One ends when the other nodes consider it dead; then the next one starts.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use tautwire_cluster::names::Incarnation;
use tautwire_nats::{EndReason, NodeRun, Settings, random_incarnation};

use super::node_directory::NodeDirectory;
use super::relay::Relay;

/// Retry interval after errors that need intervention: the fix may come from elsewhere than a reload.
const RETRY: Duration = Duration::from_secs(5);
/// Interval of checks for a shutdown while waiting.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Starts incarnations, on its own thread.
pub(super) struct LifeSupervisor {
    pub(super) settings: Settings,
    pub(super) relay: Arc<Relay>,
    pub(super) directory: NodeDirectory,
    pub(super) ends: Receiver<EndReason>,
    /// The last incarnation started from this directory.
    pub(super) last: Option<Incarnation>,
}

impl LifeSupervisor {
    /// Runs until `is_stopping` returns true.
    pub(super) fn run(mut self, is_stopping: impl Fn() -> bool) {
        // Dropping a life ends it, and waits for pending work.
        let mut life = None;
        let mut may_start = true;
        loop {
            if may_start && life.is_none() && !is_stopping() {
                life = self.start();
                may_start = life.is_none();
            }
            if may_start {
                pause(&is_stopping);
            }
            match self.ends.recv_timeout(POLL_INTERVAL) {
                Ok(ended) => {
                    life = None;
                    may_start = self.should_restart(&ended, &is_stopping);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if is_stopping() {
                return;
            }
        }
    }

    fn start(&mut self) -> Option<NodeRun> {
        let drawn = random_incarnation().map_err(|error| error.to_string());
        let written = drawn.and_then(|me| self.directory.begin_life(me).map(|()| me));
        let life = written.and_then(|me| {
            let former = self.last.replace(me);
            NodeRun::begin(self.settings.clone(), me, former, self.relay.clone()).map_err(|error| error.to_string())
        });
        life.inspect_err(|error| log::error!("cannot join the cluster, retrying: {error}")).ok()
    }

    /// Whether to start the next incarnation; waits before a retry.
    fn should_restart(&self, ended: &EndReason, is_stopping: &impl Fn() -> bool) -> bool {
        match ended {
            EndReason::Fenced => true,
            EndReason::Drained => {
                log::info!("the node is drained: the broker can be stopped");
                false
            }
            EndReason::Stopped => false,
            EndReason::Refused(error) => {
                log::error!("cannot join the cluster, retrying: {error}");
                pause(is_stopping);
                !is_stopping()
            }
        }
    }
}

/// Waits before a retry, or until the node is stopping.
fn pause(is_stopping: &impl Fn() -> bool) {
    let polls = RETRY.as_millis() / POLL_INTERVAL.as_millis();
    (0..polls).any(|_| {
        std::thread::sleep(POLL_INTERVAL);
        is_stopping()
    });
}
