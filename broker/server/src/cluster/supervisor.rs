//! One life of the node after the other. A life ends when others have taken the node for dead; then another one begins.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use tautwire_cluster::names::Incarnation;
use tautwire_nats::{EndReason, Life, Settings, draw_incarnation};

use super::node_directory::NodeDirectory;
use super::relay::Relay;

/// After something that somebody has to change, it is tried again after this time: the change may be made where no reload tells of it.
const RETRY: Duration = Duration::from_secs(5);
/// How often it is looked meanwhile whether the node is to end.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Begins lives, on a thread of its own.
pub(super) struct LifeSupervisor {
    pub(super) settings: Settings,
    pub(super) relay: Arc<Relay>,
    pub(super) place: NodeDirectory,
    pub(super) ends: Receiver<EndReason>,
    /// The last life that began in this place.
    pub(super) last: Option<Incarnation>,
}

impl LifeSupervisor {
    /// Goes on until `stops` says so.
    pub(super) fn run(mut self, stops: impl Fn() -> bool) {
        // A life ends when it is dropped, and that waits for what is under way.
        let mut life = None;
        let mut may_begin = true;
        loop {
            if may_begin && life.is_none() && !stops() {
                life = self.begin();
                may_begin = life.is_none();
            }
            if may_begin {
                pause(&stops);
            }
            match self.ends.recv_timeout(POLL_INTERVAL) {
                Ok(ended) => {
                    life = None;
                    may_begin = self.goes_on(&ended, &stops);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if stops() {
                return;
            }
        }
    }

    fn begin(&mut self) -> Option<Life> {
        let drawn = draw_incarnation().map_err(|error| error.to_string());
        let written = drawn.and_then(|me| self.place.begin_life(me).map(|()| me));
        let begun = written.and_then(|me| {
            let former = self.last.replace(me);
            Life::begin(self.settings.clone(), me, former, self.relay.clone()).map_err(|error| error.to_string())
        });
        begun
            .inspect_err(|error| log::error!("this broker cannot take part in the cluster, and tries again: {error}"))
            .ok()
    }

    /// Whether another life is to begin; waits for a while where that makes sense.
    fn goes_on(&self, ended: &EndReason, stops: &impl Fn() -> bool) -> bool {
        match ended {
            EndReason::Fenced => true,
            EndReason::Drained => {
                log::info!("the node has been drained: nothing of it is left, and the broker may be stopped");
                false
            }
            EndReason::Stopped => false,
            EndReason::Refused(error) => {
                log::error!("this broker cannot take part in the cluster, and tries again: {error}");
                pause(stops);
                !stops()
            }
        }
    }
}

/// Waits until it makes sense to try again, or the node is to end.
fn pause(stops: &impl Fn() -> bool) {
    let looks = RETRY.as_millis() / POLL_INTERVAL.as_millis();
    (0..looks).any(|_| {
        std::thread::sleep(POLL_INTERVAL);
        stops()
    });
}
