//! Loading spilled messages into memory.

mod steps;

use std::sync::Arc;

use tautwire_router::SessionKey;

use crate::connection::connections::Replay;
use crate::index::ConnectionId;
use crate::operations::admin_query::{Fetch, FetchedMessage, Reply};
use crate::routing::share_queue::Redispatch;
use crate::session::session_cleanup::SessionCleanup;

/// The reader for which messages are loaded.
#[derive(Debug)]
pub(crate) enum Reader {
    /// Messages of its session's window and queue.
    Queue(ConnectionId),
    /// Retained messages for its client.
    Replay(ConnectionId),
    /// Retained messages for the queue of a session whose client is offline.
    OfflineReplay(Box<(SessionKey, Replay)>),
    /// Messages of an ended session.
    SessionCleanup(Box<SessionCleanup>),
    /// Messages of the queue of this shared subscription.
    ShareQueue(Arc<str>),
    /// Messages that a member of shared subscriptions has not acknowledged in time.
    Redispatch(Box<Redispatch>),
    /// A retained message for an operator's query.
    Fetching(Box<(Fetch, Reply<FetchedMessage>)>),
    /// The read was cancelled.
    Nobody,
}

/// A pending read.
#[derive(Debug)]
pub(super) struct PendingRead {
    reader: Reader,
    bytes: usize,
}

/// Why a message is not loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoadError {
    /// It is being read.
    Later,
    /// It could not be read, and is retried later.
    Failed,
}
