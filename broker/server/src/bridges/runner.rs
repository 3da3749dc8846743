//! The thread of a bridge: when and where it connects.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Waker};
use tautwire_bridge::{LinkError, LinkSettings, Rules, Side};
use tautwire_reactor::Control;

use super::backoff::Backoff;
use super::connection::{Connection, End, Parts, WAKER};
use super::election::{ELECTION_INTERVAL, Election};
use super::local::LocalListener;
use super::plan::{AddressOrder, BridgePlan, RemoteServer, StartMode};
use super::status::{BridgeState, Command, Shared};
use crate::cluster::Node;
use crate::time::since_epoch;

/// How often a lazy bridge looks whether messages wait.
const LAZY_INTERVAL: Duration = Duration::from_secs(1);
/// Longest wait for the answer to that.
const QUERY_TIMEOUT: Duration = Duration::from_secs(1);

/// The thread of a bridge.
pub(super) struct Runner {
    plan: Arc<BridgePlan>,
    control: Control,
    shared: Arc<Shared>,
    election: Election,
    listener: Arc<LocalListener>,
    poll: Poll,
    backoff: Backoff,
    /// The address of the next attempt.
    next_address: usize,
    /// The session at the remote broker must be discarded.
    needs_clean_start: bool,
    /// Filters of earlier rules that are still subscribed.
    removed: Vec<(Side, String)>,
    /// Both sessions exist, with their subscriptions.
    has_sessions: bool,
}

impl Runner {
    /// Creates the thread's state, and what it shares with others. `before`: the earlier rules of the bridge.
    pub(super) fn new(
        plan: Arc<BridgePlan>,
        before: Option<Rules>,
        control: Control,
        node: Option<Arc<Node>>,
    ) -> io::Result<(Runner, Arc<Shared>)> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let shared = Arc::new(Shared::new(waker, plan.link.rules.iter().count(), since_epoch().as_secs()));
        let removed = before.map(|before| removed_filters(&before, &plan.link)).unwrap_or_default();
        let runner = Runner {
            election: Election::new(node, &plan.name),
            listener: Arc::new(LocalListener::new(&plan)),
            backoff: Backoff::new(plan.retry_min, plan.retry_max),
            shared: shared.clone(),
            plan,
            control,
            poll,
            next_address: 0,
            needs_clean_start: false,
            removed,
            has_sessions: false,
        };
        Ok((runner, shared))
    }

    /// Runs until the bridge is to stop.
    pub(super) fn run(mut self) {
        while self.await_need() {
            self.connect();
        }
        self.set_state(BridgeState::Stopped);
        self.listener.close();
    }

    /// Waits until the bridge is to be connected. Returns false if it is to stop.
    fn await_need(&mut self) -> bool {
        loop {
            let wait = match self.shared.current() {
                Command::Stop => return false,
                Command::Pause => {
                    self.set_state(BridgeState::Paused);
                    None
                }
                Command::Run if !self.election.is_won() => {
                    self.set_state(BridgeState::Standby);
                    Some(ELECTION_INTERVAL)
                }
                Command::Run => match &self.plan.start {
                    StartMode::Automatic => return true,
                    StartMode::Lazy(_) if !self.has_sessions || self.has_messages() => return true,
                    StartMode::Lazy(_) => {
                        self.set_state(BridgeState::Idle);
                        Some(LAZY_INTERVAL)
                    }
                    StartMode::Scheduled(schedule) => match schedule.state_at(since_epoch().as_secs()) {
                        (true, _) => return true,
                        (false, seconds) => {
                            self.set_state(BridgeState::Idle);
                            Some(Duration::from_secs(seconds))
                        }
                    },
                },
            };
            self.sleep(wait);
        }
    }

    /// Makes one attempt, serves the connection until it ends, and waits before the next one.
    fn connect(&mut self) {
        self.set_state(BridgeState::Connecting);
        let plan = self.plan.clone();
        let server = &plan.servers[self.next_address];
        let to = &server.address;
        self.shared.update(|status| {
            status.address = Some(to.clone());
            status.next_attempt_unix_s = None;
        });
        let parts = Parts {
            plan: &self.plan,
            control: &self.control,
            listener: &self.listener,
            shared: &self.shared,
            election: &mut self.election,
            poll: &mut self.poll,
        };
        let (end, connected) =
            match Connection::open(parts, &server.options(), self.needs_clean_start, self.removed.clone()) {
                Ok(mut connection) => (connection.run(), connection.connected()),
                Err(end) => (end, Duration::ZERO),
            };
        let was_connected = connected > Duration::ZERO;
        if was_connected {
            self.has_sessions = true;
            self.needs_clean_start = false;
            self.removed.clear();
        }
        self.next_address = match self.plan.order {
            AddressOrder::Failover if was_connected => 0,
            _ => (self.next_address + 1) % self.plan.servers.len(),
        };
        if matches!(end, End::Intended) {
            log::info!(bridge = &*self.plan.name, address = &**to; "the bridge is disconnected");
            return;
        }
        if matches!(end, End::Link(LinkError::SessionLost)) {
            log::warn!(
                bridge = &*self.plan.name, address = &**to;
                "this broker has lost the session of the bridge, so the session at the remote broker is discarded; messages that wait there are lost"
            );
            self.needs_clean_start = true;
            self.next_address = 0;
            return;
        }
        self.pause_after(&end, to, connected);
    }

    /// Reports a failure and waits before the next attempt.
    fn pause_after(&mut self, end: &End, to: &str, connected: Duration) {
        // Other addresses are tried at once.
        let pause =
            if connected.is_zero() && self.next_address > 0 { Duration::ZERO } else { self.backoff.next(connected) };
        log::warn!(bridge = &*self.plan.name, address = to, code = end.code(); "the bridge is not connected: {end}");
        // Failures in a row are one state: it began when the bridge was connected last.
        self.set_state(BridgeState::Connecting);
        self.shared.update(|status| {
            status.error = Some((end.code(), end.to_string()));
            status.failures += 1;
            status.next_attempt_unix_s = Some(since_epoch().saturating_add(pause).as_secs());
        });
        self.sleep(Some(pause));
    }

    /// Whether messages wait for the remote broker.
    fn has_messages(&self) -> bool {
        let found = self.control.client(&self.plan.session_name(), QUERY_TIMEOUT.into());
        match found {
            Ok(Some(detail)) => detail.summary.queued_messages > 0 || detail.summary.in_flight > 0,
            // Without a session, or an answer, the bridge finds out by connecting.
            _ => true,
        }
    }

    /// Waits for a command, at most this long.
    fn sleep(&mut self, wait: Option<Duration>) {
        let began = Instant::now();
        let mut events = Events::with_capacity(1);
        while !self.shared.take_urgent() {
            let left = wait.map(|wait| wait.saturating_sub(began.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                return;
            }
            if self.poll.poll(&mut events, left).is_err() {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }

    fn set_state(&self, state: BridgeState) {
        self.shared.update(|status| {
            if status.state != state {
                status.state = state;
                status.since_unix_s = since_epoch().as_secs();
                status.next_attempt_unix_s = None;
            }
        });
    }
}

/// Filters of earlier rules that the new ones do not have.
fn removed_filters(before: &Rules, link: &LinkSettings) -> Vec<(Side, String)> {
    let local = before.local_filters().filter(|filter| !link.rules.local_filters().any(|kept| kept == *filter));
    let remote = before.remote_filters().filter(|filter| !link.rules.remote_filters().any(|kept| kept == *filter));
    let removed = local.map(|filter| (Side::Local, filter.to_owned()));
    removed.chain(remote.map(|filter| (Side::Remote, filter.to_owned()))).collect()
}

/// An address of the other broker, and a code and a sentence if it did not accept the connection.
pub(crate) type TestResult = (String, Result<(), (&'static str, String)>);

/// Connects to each address with another client identifier, and disconnects.
pub(super) fn test(plan: &BridgePlan) -> Vec<TestResult> {
    let test = |server: &RemoteServer| {
        let link = &plan.link;
        let mut options =
            server.options().version(link.version).connect_timeout(plan.connect_timeout).clean_start(true);
        options = options.client_id(format!("{}-test", link.client_id));
        if let Some(user_name) = &link.user_name {
            options = options.user_name(user_name);
        }
        if let Some(password) = &link.password {
            options = options.password(password.clone());
        }
        let client = tautwire_client::blocking::Client::connect(options)?;
        client.disconnect()
    };
    let result = |server: &RemoteServer| test(server).map_err(|error| (error.code(), error.to_string()));
    plan.servers.iter().map(|server| (server.address.clone(), result(server))).collect()
}
