//! The status of a bridge, and the commands to its thread.

use std::sync::{Mutex, MutexGuard, PoisonError};

use mio::Waker;
use tautwire_bridge::{LinkCounters, Side};
use tautwire_protocol::ReasonCode;

/// What a bridge does at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BridgeState {
    /// It connects, or waits for its next attempt.
    Connecting,
    /// Messages are forwarded.
    Connected,
    /// An operator has paused it.
    Paused,
    /// It is not connected, because there is nothing to send (`lazy`), or it is not the time for it (`scheduled`).
    Idle,
    /// Another node of the cluster runs it.
    Standby,
    /// Its thread has ended.
    Stopped,
}

impl BridgeState {
    /// The name in the API and in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            BridgeState::Connecting => "connecting",
            BridgeState::Connected => "connected",
            BridgeState::Paused => "paused",
            BridgeState::Idle => "idle",
            BridgeState::Standby => "standby",
            BridgeState::Stopped => "stopped",
        }
    }
}

/// The status of a bridge.
#[derive(Debug, Clone)]
pub(crate) struct BridgeStatus {
    pub(crate) state: BridgeState,
    /// The address of the current or last attempt.
    pub(crate) address: Option<String>,
    /// When the state began, in seconds of Unix time.
    pub(crate) since_unix_s: u64,
    /// Why the last connection or attempt ended: a code and a sentence. `None` once the bridge is connected.
    pub(crate) error: Option<(&'static str, String)>,
    /// When the next attempt begins, in seconds of Unix time.
    pub(crate) next_attempt_unix_s: Option<u64>,
    /// Connections that were accepted by both brokers.
    pub(crate) connections: u64,
    /// Attempts that failed, and connections that were lost.
    pub(crate) failures: u64,
    /// What all links have done.
    pub(crate) counters: LinkCounters,
    /// For each rule: the broker that refused its subscription, and the reason code.
    pub(crate) refused_rules: Vec<Option<(Side, ReasonCode)>>,
}

/// A command to the thread of a bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Run,
    Pause,
    Stop,
}

/// What the thread of a bridge shares with others.
pub(super) struct Shared {
    inner: Mutex<Inner>,
    waker: Waker,
}

#[derive(Debug)]
struct Inner {
    command: Command,
    /// The thread must not wait for the next attempt.
    is_urgent: bool,
    status: BridgeStatus,
}

impl Shared {
    pub(super) fn new(waker: Waker, rules: usize, now_unix_s: u64) -> Shared {
        let status = BridgeStatus {
            state: BridgeState::Connecting,
            address: None,
            since_unix_s: now_unix_s,
            error: None,
            next_attempt_unix_s: None,
            connections: 0,
            failures: 0,
            counters: LinkCounters::default(),
            refused_rules: vec![None; rules],
        };
        Shared { inner: Mutex::new(Inner { command: Command::Run, is_urgent: false, status }), waker }
    }

    /// Gives the thread a command. A bridge that is to stop takes no other one.
    pub(super) fn command(&self, command: Command) {
        let mut inner = self.inner();
        if inner.command != Command::Stop {
            inner.command = command;
            inner.is_urgent = true;
        }
        drop(inner);
        // It fails only if the kernel has no memory; the thread then looks at its next deadline.
        let _ = self.waker.wake();
    }

    /// The last command.
    pub(super) fn current(&self) -> Command {
        self.inner().command
    }

    /// Whether there was a command since the last call.
    pub(super) fn take_urgent(&self) -> bool {
        std::mem::take(&mut self.inner().is_urgent)
    }

    /// Changes the status.
    pub(super) fn update(&self, change: impl FnOnce(&mut BridgeStatus)) {
        change(&mut self.inner().status);
    }

    pub(super) fn status(&self) -> BridgeStatus {
        self.inner().status.clone()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
