//! What a session leaves behind when it ends: subscriptions that go, and messages of shared subscriptions that go to other members.
//!
//! A session that is written down and is still owed messages ends in the log in two steps: its expiry interval becomes 0, so that
//! after a crash it ends anew, and once nothing is left, its end is said. Between the two, each message leaves it in the frame in
//! which another member gets it.

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
