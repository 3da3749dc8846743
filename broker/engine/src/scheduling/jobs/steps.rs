//! Running jobs, and the job of packets with many filters.

use tautwire_memory::{Charge, Kind};
use tautwire_protocol::{OwnedPacket, Packet};

use super::{FilterReasons, Filters, Job, JobProgress, PartialSubscribe};
use crate::connection::ack::Ack;
use crate::connection::connections::{PauseReason, Replay};
use crate::index::ConnectionId;
use crate::mode::Mode;
use crate::scheduling::work_budget::{JOB_SLICE_STEPS, STEPS_MAX};
use crate::shard::Shard;

impl<M: Mode> Shard<M> {
    /// Runs the first slice of a job and queues the rest. If the turn has no steps left, the whole job is queued.
    pub(crate) fn begin(&mut self, job: Job) {
        if !self.state.jobs.try_take_steps(0) {
            self.state.jobs.push(job);
            return;
        }
        let (progress, steps) = self.run_slice(job);
        self.state.jobs.inline_steps += steps.max(1);
        if let JobProgress::Unfinished(job) = progress {
            self.state.jobs.push(job);
        }
    }

    /// Whether jobs are waiting. A shard does not sleep while there are any.
    pub fn has_jobs(&self) -> bool {
        !self.state.jobs.is_empty()
    }

    /// Runs the slices of jobs that fit into one turn.
    pub(crate) fn do_jobs(&mut self) {
        self.state.work_budget.begin_phase();
        // At least one slice: waiting jobs make progress, however much inline work there is.
        let mut steps = std::mem::take(&mut self.state.jobs.inline_steps).min(STEPS_MAX - 1);
        while steps < STEPS_MAX
            && let Some(job) = self.state.jobs.waiting.pop_front()
        {
            let (progress, done) = self.run_slice(job);
            steps += done.max(1);
            if let JobProgress::Unfinished(job) = progress {
                self.state.jobs.push(job);
            }
        }
    }

    /// Runs one slice of a job. Returns how many steps it took.
    fn run_slice(&mut self, job: Job) -> (JobProgress, usize) {
        match job {
            Job::Filters(filters) => self.run_filters(filters),
            Job::Clear(ending) => self.clear(ending),
            Job::Drain(share) => self.drain(share),
            Job::Redispatch(redispatch) => self.redispatch(redispatch),
            Job::AccessReview(review) => {
                let (rest, steps) = self.review(review);
                (rest.map_or(JobProgress::Done, |rest| JobProgress::Unfinished(Job::AccessReview(rest))), steps)
            }
            Job::CountSessionsOfUsers(next) => self.count_for_users(next),
            Job::AdminQuery(query) => self.continue_query(*query),
        }
    }

    /// Handles a packet with many filters over several turns. Reading from its connection is paused until it is acknowledged.
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
