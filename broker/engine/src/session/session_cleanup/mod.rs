//! The cleanup after a session has ended: its subscriptions are removed, and its messages of shared subscriptions are redispatched.
//!
//! A persistent session with pending messages ends in the log in two steps. First its expiry interval becomes 0, so that it ends
//! again after a crash; once no message is left, its end is recorded. In between, each message is removed in the frame that gives
//! it to another member.

mod steps;

use tautwire_session::SessionNumber;

use crate::connection::connections::LoadQueue;
use crate::index::SessionIndex;

/// The cleanup of an ended session, and its progress.
#[derive(Debug)]
pub(crate) struct SessionCleanup {
    pub(crate) session: SessionIndex,
    pub(crate) load_queue: LoadQueue,
    /// Its number in the log, if it is still recorded there.
    number: Option<SessionNumber>,
    /// Messages at the front of its queue in the log that were removed without a record. The record of its end covers those that are not
    /// redispatched.
    unrecorded: u32,
}
