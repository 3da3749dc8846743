//! How cold messages come back into memory.

mod steps;

use std::sync::Arc;

use tautwire_router::SessionKey;

use crate::connection::connections::Replay;
use crate::index::ConnectionId;
use crate::operations::admin_query::{Fetch, FetchedMessage, Reply};
use crate::routing::share_queue::Redispatch;
use crate::session::session_cleanup::SessionCleanup;

/// For whom messages are read.
#[derive(Debug)]
pub(crate) enum Reader {
    /// Messages of its session's window and queue.
    Queue(ConnectionId),
    /// Retained messages that its client is owed.
    Replay(ConnectionId),
    /// Retained messages that go to the queue of a session whose client has gone.
    Settling(Box<(SessionKey, Replay)>),
    /// What a session leaves behind.
    Clearing(Box<SessionCleanup>),
    /// Messages of the queue of this shared subscription.
    Draining(Arc<str>),
    /// Messages that a member of shared subscriptions has not acknowledged in time.
    Redispatching(Box<Redispatch>),
    /// A retained message that an operator wants to see.
    Fetching(Box<(Fetch, Reply<FetchedMessage>)>),
    /// Nobody any more.
    Nobody,
}

/// An order to read.
#[derive(Debug)]
pub(super) struct PendingRead {
    reader: Reader,
    bytes: usize,
}

/// Why a message is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoadError {
    /// It is being read.
    Later,
    /// It could not be read. It is tried again later.
    Failed,
}
