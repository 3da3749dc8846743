//! Draining the queue of a shared subscription, as members have credit.

use std::sync::Arc;

use tautwire_protocol::QoS;
use tautwire_router::{GroupMember, SessionKey, ShareGroup};
use tautwire_session::{Change, Outbound};

use super::ShareQueue;
use crate::index::SessionIndex;
use crate::mode::Mode;
use crate::routing::publish_packets::OutgoingPublish;
use crate::routing::share_delivery::{Pick, share_delivery};
use crate::scheduling::jobs::{Job, JobProgress};
use crate::scheduling::work_budget::JOB_SLICE_STEPS;
use crate::shard::Shard;
use crate::shard::ShardState;

/// The result of one step of draining.
enum DrainResult {
    /// A message has left the queue.
    One,
    /// The queue is empty, no member has credit, or the front must be read from disk first.
    Stopped,
}

impl<M: Mode> Shard<M> {
    /// Sends messages of a queue to members with credit, one slice of the job.
    pub(crate) fn drain(&mut self, share: Arc<str>) -> (JobProgress, usize) {
        for step in 0..JOB_SLICE_STEPS {
            if !self.state.work_budget.can_transcode() {
                return (JobProgress::Unfinished(Job::Drain(share)), JOB_SLICE_STEPS);
            }
            if let DrainResult::Stopped = self.drain_one(&share) {
                return (JobProgress::Done, step + 1);
            }
        }
        (JobProgress::Unfinished(Job::Drain(share)), JOB_SLICE_STEPS)
    }

    fn drain_one(&mut self, share: &Arc<str>) -> DrainResult {
        let Some(session) = self.state.routing.share_queues.queues.get(share).map(|queue| queue.session) else {
            return DrainResult::Stopped;
        };
        let group = self.state.context.exchange().group(share).filter(|group| group.has_members());
        let Some(group) = group else {
            // Without members, the queued messages have no receiver.
            self.state.routing.share_queues.queues.remove(share);
            self.end_session(session);
            return DrainResult::Stopped;
        };
        // The group may be a new one with the same name.
        group.mark_queue();
        self.state.drain_front(&group, session)
    }
}

impl<M: Mode> ShardState<M> {
    /// Starts a job that drains a queue, unless one is running.
    pub(super) fn start_draining(&mut self, share: &Arc<str>) {
        let Some(queue) = self.routing.share_queues.queues.get_mut(share) else { return };
        if !std::mem::replace(&mut queue.is_draining, true) {
            self.jobs.push(Job::Drain(share.clone()));
        }
    }

    /// On the shard with the queue: handles the report that a member has credit, or has left.
    pub(crate) fn handle_member_credit(&mut self, share: &Arc<str>, member: SessionKey) {
        if let Some(queue) = self.routing.share_queues.queues.get_mut(share) {
            queue.ready.push_back(member);
            self.start_draining(share);
        }
    }

    fn drain_front(&mut self, group: &ShareGroup, session: SessionIndex) -> DrainResult {
        let share = group.filter();
        let Some(queue) = self.routing.share_queues.queues.get_mut(share) else { return DrainResult::Stopped };
        let Some(front) = self.sessions[session].outbound().and_then(Outbound::front) else {
            // The next queued message asks all members again.
            queue.ready.clear();
            queue.is_draining = false;
            return DrainResult::Stopped;
        };
        let (queued_bytes, qos) = (front.counted_bytes(), front.qos);
        if front.message.is_expired(self.clock.now_ms()) {
            // [MQTT-3.3.2-5]
            self.counters().dropped_expired.add(1);
            self.discard_front(group, session, queued_bytes);
            return DrainResult::One;
        }
        if queue.ready.is_empty() && !queue.ask_all_members {
            queue.is_draining = false;
            return DrainResult::Stopped;
        }
        if let Some(spilled) = front.message.spilled().cloned() {
            let Some(message) = self.read_to_drain(share, session, &spilled) else { return DrainResult::Stopped };
            if let Some(outbound) = self.sessions.entry(session).outbound() {
                outbound.load_front(message);
            }
        }
        let front = self.sessions[session].outbound().and_then(Outbound::front);
        let Some(message) = front.and_then(|front| front.message.loaded()).cloned() else {
            return DrainResult::Stopped;
        };
        let next = if self.is_in_transit_full(group) { None } else { self.take_next_credit(group, qos) };
        let Some((member, here)) = next else {
            if let Some(queue) = self.routing.share_queues.queues.get_mut(share) {
                queue.is_draining = false;
            }
            return DrainResult::Stopped;
        };
        let outgoing = &mut OutgoingPublish::of(&message);
        let mut delivery = share_delivery(group, &member, outgoing, self.memory.ledger());
        if let Some(format) = member.format {
            let contract = self.config.contracts().find(message.topic()).cloned();
            match self.transcode_for_member(contract.as_deref(), format, outgoing) {
                Some(message) => delivery.message = message.into(),
                None => {
                    member.return_credit(qos);
                    self.discard_front(group, session, queued_bytes);
                    return DrainResult::One;
                }
            }
        }
        // Recorded in the same frame as the delivery to the member.
        self.commit(session, Change::Unqueued);
        if here.is_some() {
            self.remove_queued(group, queued_bytes);
        }
        self.send_to_member(group, &member, here, delivery, Pick::FromQueue { queued_bytes });
        DrainResult::One
    }

    /// Takes the credit of the member that gets the next message of a queue. Returns its session too if it is on this shard.
    fn take_next_credit(&mut self, group: &ShareGroup, qos: QoS) -> Option<(GroupMember, Option<SessionIndex>)> {
        loop {
            let member = self.routing.share_queues.queues.get_mut(group.filter())?.take_next_credit(group, qos)?;
            let here = self.sessions.at(&member.session);
            if here.is_some() || member.session.shard != self.context.shard() {
                return Some((member, here));
            }
            // Its session has ended; its subscriptions are removed over several turns.
            self.context.exchange().leave(group.filter(), member.session);
        }
    }

    /// Removes the message at the front of a queue without delivering it.
    fn discard_front(&mut self, group: &ShareGroup, session: SessionIndex, queued_bytes: usize) {
        self.commit(session, Change::Unqueued);
        self.remove_queued(group, queued_bytes);
    }
}

impl ShareQueue {
    /// Takes the credit of the next member that has some. Members without credit are asked to report it later.
    fn take_next_credit(&mut self, group: &ShareGroup, qos: QoS) -> Option<GroupMember> {
        if self.ask_all_members {
            let pick = || group.pick_with_credit(qos);
            if let Some(member) = pick() {
                return Some(member);
            }
            group.request_credit();
            if let Some(member) = pick() {
                return Some(member);
            }
            self.ask_all_members = false;
            self.ready.clear();
            return None;
        }
        while let Some(key) = self.ready.pop_front() {
            let Some(member) = group.member(key) else { continue };
            let has_room = member.take_credit(qos) || {
                member.room.request(group.filter());
                member.take_credit(qos)
            };
            if has_room {
                self.ready.push_back(key);
                return Some(member);
            }
        }
        None
    }
}
