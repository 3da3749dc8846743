//! The state of the API.

use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tautwire_reactor::Control;

use super::attempts::Attempts;
use super::connections::Connections;
use super::credentials::CurrentCredentials;
use super::handler_limits::HandlerLimits;
use super::history::History;
use super::sessions::Sessions;
use crate::contracts::Store;
use crate::serve::reload::Reloader;

/// The state that the handlers of the API share.
pub(crate) struct AdminState {
    pub(super) control: Control,
    pub(super) credentials: Arc<CurrentCredentials>,
    pub(super) sessions: Sessions,
    /// Failed logins.
    pub(super) attempts: Attempts,
    /// Held during a password check: one at a time.
    pub(super) checking: Mutex<()>,
    pub(super) store: Arc<Store>,
    pub(super) reloader: Arc<Reloader>,
    pub(super) counters: Counters,
    pub(super) connections: Arc<Connections>,
    pub(super) handlers: HandlerLimits,
    pub(super) history: Arc<History>,
    pub(super) started: Instant,
}

/// What the API counts about itself.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) requests: AtomicU64,
    /// Requests answered with an error.
    pub(super) refused: AtomicU64,
    /// Requests that did not arrive in time.
    pub(super) timeouts: AtomicU64,
    pub(super) messages_published: AtomicU64,
    pub(super) logins: AtomicU64,
    pub(super) logins_refused: AtomicU64,
    /// Logins rejected unchecked because too many failed before.
    pub(super) logins_slowed: AtomicU64,
    /// Sessions ended to make room for new ones.
    pub(super) sessions_displaced: AtomicU64,
    pub(super) taps: AtomicUsize,
    pub(super) taps_refused: AtomicU64,
    pub(super) tap_messages_skipped: AtomicU64,
}

impl AdminState {
    pub(crate) fn new(
        control: Control,
        credentials: Arc<CurrentCredentials>,
        store: Arc<Store>,
        reloader: Arc<Reloader>,
    ) -> AdminState {
        AdminState {
            control,
            credentials,
            sessions: Sessions::default(),
            attempts: Attempts::default(),
            checking: Mutex::new(()),
            store,
            reloader,
            counters: Counters::default(),
            connections: Arc::default(),
            handlers: HandlerLimits::default(),
            history: Arc::default(),
            started: Instant::now(),
        }
    }

    /// The number of login sessions.
    pub(super) fn session_count(&self) -> usize {
        self.sessions.count(self.credentials.get().limits(), Instant::now())
    }
}
