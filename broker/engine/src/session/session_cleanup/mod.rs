//! The cleanup after a session has ended: its subscriptions are removed, and its messages of shared subscriptions are redispatched.
//!
//! A persistent session with pending messages ends in the log in two steps. First its expiry interval becomes 0, so that it ends
//! again after a crash; once no message is left, its end is recorded. In between, each message is removed in the frame that gives
//! it to another member.

mod steps;

use tautwire_session::SessionNumber;

use crate::connection::connections::LoadQueue;
use crate::index::SessionIndex;

/// A session that has ended, and how far it has been cleared away.
#[derive(Debug)]
pub(crate) struct SessionCleanup {
    pub(crate) session: SessionIndex,
    pub(crate) load_queue: LoadQueue,
    /// What the log calls it, where that still has it.
    number: Option<SessionNumber>,
    /// So many messages at the front of its queue in the log are gone. Of those that nobody else gets, its end says enough.
    unrecorded: u32,
}
