//! The HTTP API for operators: health, metrics, contracts at run time, messages.
//!
//! One thread per address runs hyper (HTTP/1.1) for all clients ([`server`], [`exchange`]), so that a slow or silent client does not block
//! a thread. Handlers may block; they run on a small pool of separate threads ([`routes::Class`]).

mod attempts;
mod bans;
mod caller;
mod clients;
mod cluster;
mod configuration;
mod connections;
mod contracts;
mod credentials;
mod exchange;
mod explain;
mod health;
mod history;
mod listeners;
mod login;
mod messages;
mod metrics;
mod openapi;
mod overview;
mod payload;
mod process;
mod query;
mod request;
mod response;
mod retained;
mod roles;
mod routes;
mod rules;
mod server;
mod sessions;
mod shared;
mod tap;
mod token;
mod tokens_file;
mod topic_metrics;
mod transport;
mod ui;
mod violations;
mod why;

use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tautwire_reactor::Control;

use crate::contracts::Store;
use crate::serve::reload::Reloader;
use attempts::Attempts;
use connections::Connections;
pub(crate) use credentials::{Credentials, CurrentCredentials};
use exchange::HandlerLimits;
pub(crate) use roles::{Grant, Role};
pub(crate) use server::AdminServer;
use sessions::Sessions;
pub(crate) use token::{Token, generate_token, read_text as read_token};
pub(crate) use tokens_file::NamedToken;
pub(crate) mod tokens {
    pub(crate) use super::tokens_file::{FILE_BYTES_MAX, add, is_name, parse, read_moment, remove};
}

/// The state that the handlers of the API share.
pub(crate) struct Admin {
    control: Control,
    credentials: Arc<CurrentCredentials>,
    sessions: Sessions,
    /// Failed logins.
    attempts: Attempts,
    /// Held during a password check: one at a time.
    checking: Mutex<()>,
    store: Arc<Store>,
    reloader: Arc<Reloader>,
    counters: Counters,
    connections: Arc<Connections>,
    handlers: HandlerLimits,
    history: Arc<history::History>,
    started: Instant,
}

/// What the API counts about itself.
#[derive(Debug, Default)]
struct Counters {
    requests: AtomicU64,
    /// Requests answered with an error.
    refused: AtomicU64,
    /// Requests that did not arrive in time.
    timeouts: AtomicU64,
    messages_published: AtomicU64,
    logins: AtomicU64,
    logins_refused: AtomicU64,
    /// Logins rejected unchecked because too many failed before.
    logins_slowed: AtomicU64,
    /// Sessions ended to make room for new ones.
    sessions_displaced: AtomicU64,
    taps: AtomicUsize,
    taps_refused: AtomicU64,
    tap_messages_skipped: AtomicU64,
}

impl Admin {
    pub(crate) fn new(
        control: Control,
        credentials: Arc<CurrentCredentials>,
        store: Arc<Store>,
        reloader: Arc<Reloader>,
    ) -> Admin {
        Admin {
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

    /// All metrics in the Prometheus text format.
    pub(crate) fn metrics(&self) -> String {
        metrics::text(self)
    }

    fn session_count(&self) -> usize {
        self.sessions.count(self.credentials.get().limits(), Instant::now())
    }
}
