//! Watching acknowledgements of members, and redispatching their messages.

use std::collections::VecDeque;

use tautwire_protocol::QoS;
use tautwire_session::{Change, Outbound};

use super::{ACK_CHECKS, AckWatch, Redispatch};
use crate::connection::connections::LoadQueue;
use crate::index::SessionIndex;
use crate::mode::Mode;
use crate::scheduling::jobs::{Job, JobProgress};
use crate::scheduling::work_budget::JOB_SLICE_STEPS;
use crate::shard::Shard;
use crate::shard::ShardState;

/// Members that are checked in one turn.
const CHECKS_MAX: usize = 64;

impl<M: Mode> ShardState<M> {
    /// Starts watching a member that has been sent a message of a shared subscription, if the message can be redispatched.
    pub(crate) fn watch_shared(&mut self, session: SessionIndex, qos: QoS) {
        let Some(interval_ms) = self.check_interval_ms().filter(|_| qos == QoS::AtLeastOnce) else { return };
        let member = self.sessions.key(session);
        let at_ms = self.clock.now_ms() + interval_ms;
        let queues = &mut self.routing.share_queues;
        if queues.watched.insert(member) {
            queues.watches.push_back(AckWatch { at_ms, member, oldest: None, checks: 0, sent: 0 });
        }
    }

    /// Starts watching a restored session that has such messages.
    pub(crate) fn watch_restored(&mut self, session: SessionIndex) {
        if self.sessions[session].outbound().and_then(Outbound::oldest_shared).is_some() {
            self.watch_shared(session, QoS::AtLeastOnce);
        }
    }

    /// Applies a changed `mqtt.shared_ack_timeout_s` to all watches.
    pub(crate) fn update_watch_deadlines(&mut self) {
        let Some(interval_ms) = self.check_interval_ms() else {
            self.routing.share_queues.watches.clear();
            self.routing.share_queues.watched.clear();
            return;
        };
        let latest_ms = self.clock.now_ms() + interval_ms;
        for watch in &mut self.routing.share_queues.watches {
            watch.at_ms = watch.at_ms.min(latest_ms);
        }
        // Without a timeout, no member was watched.
        if self.routing.share_queues.watches.is_empty() {
            self.sessions.indices().into_iter().for_each(|session| self.watch_restored(session));
        }
    }

    fn check_interval_ms(&self) -> Option<u64> {
        let timeout_ms = u64::from(self.config.settings().shared_ack_timeout_s) * 1000;
        (timeout_ms > 0 && M::QUEUES_SHARED).then(|| timeout_ms / u64::from(ACK_CHECKS))
    }

    /// Checks the members that are due. Called once per turn.
    #[inline]
    pub(crate) fn check_members(&mut self) {
        if self.routing.share_queues.watches.front().is_some_and(|watch| watch.at_ms <= self.clock.now_ms()) {
            self.check_due_members();
        }
    }

    #[cold]
    fn check_due_members(&mut self) {
        for _ in 0..CHECKS_MAX {
            let first = self.routing.share_queues.watches.front();
            let Some(_) = first.filter(|watch| watch.at_ms <= self.clock.now_ms()) else { return };
            let Some(mut watch) = self.routing.share_queues.watches.pop_front() else { return };
            let has_pending = self.check_member(&mut watch);
            match self.check_interval_ms().filter(|_| has_pending) {
                Some(interval_ms) => {
                    watch.at_ms = self.clock.now_ms() + interval_ms;
                    self.routing.share_queues.watches.push_back(watch);
                }
                None => {
                    self.routing.share_queues.watched.remove(&watch.member);
                }
            }
        }
    }

    /// Redispatches the late messages of a member. Returns whether the member must be checked again.
    fn check_member(&mut self, watch: &mut AckWatch) -> bool {
        let Some(session) = self.sessions.at(&watch.member) else { return false };
        let Some(outbound) = self.sessions[session].outbound() else { return false };
        let Some(oldest) = outbound.oldest_shared() else { return false };
        if watch.is_late(oldest, outbound.sent_so_far()) {
            let ids: VecDeque<_> = outbound.shared_before(watch.sent).into();
            let settled = outbound.settled();
            watch.oldest = None;
            self.routing.share_queues.stuck.insert(watch.member, settled);
            self.update_credit(session);
            let load_queue = LoadQueue::default();
            self.jobs.push(Job::Redispatch(Box::new(Redispatch { member: watch.member, ids, load_queue })));
        }
        true
    }

    /// Whether a member has acknowledged nothing since its messages were redispatched. It gets no credit until it does.
    pub(in crate::routing::share_queue) fn is_stuck(&mut self, session: SessionIndex) -> bool {
        if self.routing.share_queues.stuck.is_empty() {
            return false;
        }
        let member = self.sessions.key(session);
        let Some(settled) = self.routing.share_queues.stuck.get(&member) else { return false };
        let is_stuck = self.sessions[session].outbound().is_some_and(|outbound| outbound.settled() == *settled);
        if !is_stuck {
            self.routing.share_queues.stuck.remove(&member);
        }
        is_stuck
    }

    /// Clears the stuck state after the client has connected or disconnected: its unacknowledged messages are resent.
    pub(crate) fn clear_stuck(&mut self, session: SessionIndex) {
        if !self.routing.share_queues.stuck.is_empty() {
            let member = self.sessions.key(session);
            self.routing.share_queues.stuck.remove(&member);
        }
    }
}

impl<M: Mode> Shard<M> {
    /// Redispatches messages of a member, one slice of the job.
    pub(crate) fn redispatch(&mut self, mut redispatch: Box<Redispatch>) -> (JobProgress, usize) {
        let member = redispatch.member;
        for step in 0..JOB_SLICE_STEPS {
            if !self.state.work_budget.can_transcode() {
                return (JobProgress::Unfinished(Job::Redispatch(redispatch)), JOB_SLICE_STEPS);
            }
            let Some((session, id)) = self.state.sessions.at(&member).zip(redispatch.ids.front().copied()) else {
                return (JobProgress::Done, step + 1);
            };
            let outbound = self.state.sessions[session].outbound();
            let delivery = outbound.and_then(|outbound| outbound.unacknowledged(id));
            let delivery = delivery.filter(|held| held.share.is_some() && held.qos == QoS::AtLeastOnce).cloned();
            let Some(mut delivery) = delivery else {
                // It has been acknowledged meanwhile.
                redispatch.ids.pop_front();
                continue;
            };
            if let Some(spilled) = delivery.message.spilled().cloned() {
                let Some((returned, message)) = self.state.read_to_redispatch(redispatch, &spilled) else {
                    return (JobProgress::Done, step + 1);
                };
                redispatch = returned;
                delivery.message = message.into();
            }
            redispatch.ids.pop_front();
            if self.state.sessions.connection(session).is_none() {
                // "It MAY attempt to send the message to another Client as soon as it loses its connection" [MQTT 5.0 section 4.8.2].
                self.state.commit(session, Change::Completed(id));
            } else if let Some(outbound) = self.state.sessions.entry(session).outbound() {
                // The connection still uses the identifier.
                outbound.clear_share(id);
            }
            self.state.counters().shared_messages_redispatched.add(1);
            self.redispatch_message(member, delivery);
        }
        (JobProgress::Unfinished(Job::Redispatch(redispatch)), JOB_SLICE_STEPS)
    }
}
