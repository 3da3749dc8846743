//! Work that would hold everybody else up if it were done at once: it goes on over several turns, a share in each.

use std::collections::VecDeque;
use std::sync::Arc;

use tautwire_memory::{Charge, Kind};
use tautwire_protocol::{OwnedPacket, Packet, SubscribeReason, UnsubscribeReason};

use crate::access::{AccessReview, CheckBudget};
use crate::ack::Ack;
use crate::admin_query::RunningQuery;
use crate::connections::{PauseReason, Replay};
use crate::index::ConnectionId;
use crate::mode::Mode;
use crate::session_cleanup::SessionCleanup;
use crate::shard::Shard;
use crate::share_queue::Redispatch;

/// Steps in one turn, of all jobs together and of what is done at once. A step is a filter, a part of its check by the access rules, or a
/// message that is let go: each takes about a microsecond, and some of them several.
pub(crate) const STEPS_MAX: usize = 1_024;
/// Steps of one job before another has its turn.
pub(crate) const JOB_SLICE_STEPS: usize = 256;

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

impl<M: Mode> Shard<M> {
    /// Does what of a job can be done in one slice, and puts the rest off; all of it where the turn has done enough.
    pub(crate) fn begin(&mut self, job: Job) {
        if !self.state.jobs.try_take_steps(0) {
            self.state.jobs.push(job);
            return;
        }
        let (progress, steps) = self.work(job);
        self.state.jobs.inline_steps += steps.max(1);
        if let JobProgress::Unfinished(job) = progress {
            self.state.jobs.push(job);
        }
    }

    /// Whether jobs are waiting. A shard does not sleep while there are any.
    pub fn has_jobs(&self) -> bool {
        !self.state.jobs.is_empty()
    }

    /// The share of jobs that one turn does.
    pub(crate) fn do_jobs(&mut self) {
        self.state.work_budget.begin_phase();
        // One slice at least: those who wait get on whatever is done at once.
        let mut steps = std::mem::take(&mut self.state.jobs.inline_steps).min(STEPS_MAX - 1);
        while steps < STEPS_MAX
            && let Some(job) = self.state.jobs.waiting.pop_front()
        {
            let (progress, done) = self.work(job);
            steps += done.max(1);
            if let JobProgress::Unfinished(job) = progress {
                self.state.jobs.push(job);
            }
        }
    }

    /// One slice of a job; says how many steps it took.
    fn work(&mut self, job: Job) -> (JobProgress, usize) {
        match job {
            Job::Filters(filters) => self.run_filters(filters),
            Job::Clear(ending) => self.clear(ending),
            Job::Drain(share) => self.drain(share),
            Job::Redispatch(redispatch) => self.redispatch(redispatch),
            Job::AccessReview(review) => {
                let (left, steps) = self.review(review);
                (left.map_or(JobProgress::Done, |left| JobProgress::Unfinished(Job::AccessReview(left))), steps)
            }
            Job::CountForUsers(next) => self.count_for_users(next),
            Job::AdminQuery(survey) => self.continue_query(*survey),
        }
    }

    /// Works off a packet with many filters over several turns. Nothing more is read of its connection until it has been
    /// acknowledged.
    pub(crate) fn start_filter_job(
        &mut self,
        connection: ConnectionId,
        packet: OwnedPacket,
        len: usize,
        begun: PartialSubscribe,
    ) {
        let mut charge = Charge::new(self.state.memory.ledger(), Kind::Job);
        charge.set(len);
        let PartialSubscribe { reasons, replays, checks } = begun;
        let done = reasons.len();
        let answers = match packet.as_packet() {
            Packet::Unsubscribe(_) => FilterReasons::Unsubscribe(Vec::new()),
            _ => FilterReasons::Subscribe(reasons),
        };
        if let Some(connection) = self.state.connections.get(connection) {
            connection.pause_reading(PauseReason::Job);
        }
        let filters = Filters { connection, packet, done, answers, replays, checks, charge };
        self.begin(Job::Filters(Box::new(filters)));
    }

    fn run_filters(&mut self, mut filters: Box<Filters>) -> (JobProgress, usize) {
        let Some(index) = self.state.connections.find(filters.connection) else { return (JobProgress::Done, 1) };
        let Some(session) = self.state.connections[index].session() else { return (JobProgress::Done, 1) };
        let Filters { packet, done, answers, replays, checks, charge, .. } = &mut *filters;
        let before = *done;
        checks.give(JOB_SLICE_STEPS);
        let (packet_id, all) = match (packet.as_packet(), &mut *answers) {
            (Packet::Subscribe(subscribe), FilterReasons::Subscribe(reasons)) => {
                for request in subscribe.requests.iter().skip(before) {
                    if *done - before + checks.steps_taken() >= JOB_SLICE_STEPS {
                        break;
                    }
                    let nth = reasons.len();
                    let made = self.subscribe_one(index, session, &subscribe, &request, nth, checks);
                    let Some((reason, replay)) = made else { break };
                    reasons.push(reason);
                    replays.extend(replay);
                    *done += 1;
                }
                (subscribe.packet_id, subscribe.requests.len())
            }
            (Packet::Unsubscribe(unsubscribe), FilterReasons::Unsubscribe(reasons)) => {
                for filter in unsubscribe.filters.iter().skip(before).take(JOB_SLICE_STEPS) {
                    reasons.push(self.unsubscribe_one(index, session, filter));
                    *done += 1;
                }
                (unsubscribe.packet_id, unsubscribe.filters.len())
            }
            _ => return (JobProgress::Done, 1),
        };
        let steps = *done - before + checks.steps_taken();
        charge.grow((*done - before) * size_of::<Option<Replay>>());
        if *done < all && steps > 0 {
            return (JobProgress::Unfinished(Job::Filters(filters)), steps);
        }
        let Filters { connection, answers, replays, .. } = *filters;
        let ack = match answers {
            FilterReasons::Subscribe(reasons) => Ack::Subscribed(packet_id, reasons.into()),
            FilterReasons::Unsubscribe(reasons) => Ack::Unsubscribed(packet_id, reasons.into()),
        };
        self.state.acknowledge(index, ack);
        for replay in replays {
            self.state.add_replay(index, replay);
        }
        self.state.resume_reading(connection, PauseReason::Job);
        self.state.send_pending(session);
        (JobProgress::Done, steps)
    }
}
