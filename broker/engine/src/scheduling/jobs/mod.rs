//! Work that would hold everybody else up if it were done at once: it goes on over several turns, a share in each.

mod steps;

use std::collections::VecDeque;
use std::sync::Arc;

use tautwire_memory::Charge;
use tautwire_protocol::{OwnedPacket, SubscribeReason, UnsubscribeReason};

use crate::access::{AccessReview, CheckBudget};
use crate::connection::connections::Replay;
use crate::index::ConnectionId;
use crate::operations::admin_query::RunningQuery;
use crate::routing::share_queue::Redispatch;
use crate::scheduling::work_budget::STEPS_MAX;
use crate::session::session_cleanup::SessionCleanup;

/// Something that is done over several turns.
#[derive(Debug)]
pub(crate) enum Job {
    /// A SUBSCRIBE or UNSUBSCRIBE with many filters. Its connection is not heard meanwhile.
    Filters(Box<Filters>),
    /// What a session that has ended leaves behind.
    Clear(SessionCleanup),
    /// Messages of the queue of this shared subscription, for members that have room.
    Drain(Arc<str>),
    /// Messages that a member of shared subscriptions has not acknowledged in time.
    Redispatch(Box<Redispatch>),
    /// What has been granted, after the rules have changed.
    AccessReview(AccessReview),
    /// Sessions of connections from this one on are counted for their users, since there are quotas of users now.
    CountForUsers(usize),
    /// An operator wants to know something.
    AdminQuery(Box<RunningQuery>),
}

/// A packet with many filters, and how far it has been worked off.
#[derive(Debug)]
pub(crate) struct Filters {
    connection: ConnectionId,
    packet: OwnedPacket,
    done: usize,
    answers: FilterReasons,
    replays: Vec<Replay>,
    checks: CheckBudget,
    charge: Charge,
}

/// What has been done of a SUBSCRIBE at once, before it is put off.
#[derive(Debug)]
pub(crate) struct PartialSubscribe {
    pub(crate) reasons: Vec<SubscribeReason>,
    pub(crate) replays: Vec<Replay>,
    pub(crate) checks: CheckBudget,
}

/// Nothing.
impl Default for PartialSubscribe {
    fn default() -> PartialSubscribe {
        PartialSubscribe { reasons: Vec::new(), replays: Vec::new(), checks: CheckBudget::with_steps(0) }
    }
}

#[derive(Debug)]
enum FilterReasons {
    Subscribe(Vec<SubscribeReason>),
    Unsubscribe(Vec<UnsubscribeReason>),
}

/// Jobs that are not done yet.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    waiting: VecDeque<Job>,
    /// Steps that have been done at once since a turn last did its share of those that wait.
    inline_steps: usize,
}

/// What a job has come to.
pub(crate) enum JobProgress {
    Done,
    /// It goes on in a later slice.
    Unfinished(Job),
}

impl Jobs {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn push(&mut self, job: Job) {
        self.waiting.push_back(job);
    }

    /// Takes so many steps for work that is done at once; false where the turn has none left, and the work is to wait. However
    /// many packets or clients it comes from, a turn does no more.
    #[inline]
    pub(crate) fn try_take_steps(&mut self, steps: usize) -> bool {
        let may = self.inline_steps < STEPS_MAX;
        self.inline_steps += if may { steps } else { 0 };
        may
    }

    /// Notes that what was done at once has taken so many steps more.
    pub(crate) fn record_inline_steps(&mut self, steps: usize) {
        self.inline_steps += steps;
    }
}
