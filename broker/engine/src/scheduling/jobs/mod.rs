//! Long work that is done in slices over several turns, so that it does not block clients.

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

/// A unit of work that takes several turns.
#[derive(Debug)]
pub(crate) enum Job {
    /// A SUBSCRIBE or UNSUBSCRIBE with many filters. Reading from its connection is paused meanwhile.
    Filters(Box<Filters>),
    /// The cleanup of an ended session.
    Clear(SessionCleanup),
    /// Messages of the queue of this shared subscription, for members with credit.
    Drain(Arc<str>),
    /// Messages that a member of shared subscriptions has not acknowledged in time.
    Redispatch(Box<Redispatch>),
    /// The review of granted access after a change of the rules.
    AccessReview(AccessReview),
    /// Counting of sessions for their users after quotas of users were configured, from this connection index on.
    CountSessionsOfUsers(usize),
    /// An operator's query.
    AdminQuery(Box<RunningQuery>),
}

/// A packet with many filters, and its progress.
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

/// The part of a SUBSCRIBE that was done before it was deferred.
#[derive(Debug)]
pub(crate) struct PartialSubscribe {
    pub(crate) reasons: Vec<SubscribeReason>,
    pub(crate) replays: Vec<Replay>,
    pub(crate) checks: CheckBudget,
}

/// No part done.
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

/// Unfinished jobs.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    waiting: VecDeque<Job>,
    /// Steps done inline since a turn last ran waiting jobs.
    inline_steps: usize,
}

/// The progress of a job after a slice.
pub(crate) enum JobProgress {
    Done,
    /// It continues in a later slice.
    Unfinished(Job),
}

impl Jobs {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn push(&mut self, job: Job) {
        self.waiting.push_back(job);
    }

    /// Takes steps of the turn for inline work. Returns false if none are left, so the work must wait. The limit holds for all packets
    /// and clients of a turn together.
    #[inline]
    pub(crate) fn try_take_steps(&mut self, steps: usize) -> bool {
        let has_steps = self.inline_steps < STEPS_MAX;
        self.inline_steps += if has_steps { steps } else { 0 };
        has_steps
    }

    /// Counts additional steps of inline work.
    pub(crate) fn record_inline_steps(&mut self, steps: usize) {
        self.inline_steps += steps;
    }
}
