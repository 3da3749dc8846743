//! Credit of the members of shared subscriptions, and its reports to the queues.

use std::sync::Arc;

use tautwire_protocol::QoS;
use tautwire_router::{GroupUpdate, MemberUpdate, SessionKey};
use tautwire_session::PendingMessage;

use crate::index::SessionIndex;
use crate::mode::Mode;
use crate::mutant::{Mutant, is};
use crate::routing::publish_packets::OutgoingPublish;
use crate::shard::ShardState;

/// Queues to which one member reports its credit at a time. Bounds the cost of a report.
const REPORTS_MAX: usize = 32;

impl<M: Mode> ShardState<M> {
    /// Sends pending messages to the client of `session`, as far as its window and output allow, and grants the remaining capacity as
    /// credit to its shared subscriptions.
    #[inline]
    pub(crate) fn send_pending(&mut self, session: SessionIndex) {
        if let Some(index) = self.sessions.connection(session)
            && (self.sessions.has_unsent(session) || self.connections[index].has_replays())
        {
            self.fill_window(session, index);
        }
        if self.sessions.member_credit(session).is_some() {
            self.update_credit(session);
        }
    }

    /// Updates the credit of a member of shared subscriptions, and reports it to queues that requested it.
    #[cold]
    #[inline(never)]
    pub(crate) fn update_credit(&mut self, session: SessionIndex) {
        let Some(credit) = self.sessions.member_credit(session).cloned() else { return };
        if !credit.grant(self.available_credit(session)) || !M::QUEUES_SHARED {
            return;
        }
        let member = self.sessions.key(session);
        let (shares, has_more) = credit.take_requests(REPORTS_MAX);
        for share in &shares {
            self.report_to_queue(share, member);
        }
        if has_more {
            self.routing.share_queues.unanswered.push_back(member);
        }
    }

    /// Continues the credit reports of members with many queues.
    pub(crate) fn report_to_more_queues(&mut self) {
        for member in std::mem::take(&mut self.routing.share_queues.unanswered) {
            if let Some(session) = self.sessions.at(&member) {
                self.update_credit(session);
            }
        }
    }

    /// Reports to the queue of a shared subscription that a member has credit, or has left.
    pub(crate) fn report_to_queue(&mut self, share: &Arc<str>, member: SessionKey) {
        if is(Mutant::SkipsCreditReport) {
            return;
        }
        let shard = self.queue_shard(share);
        if shard == self.context.shard() {
            return self.handle_member_credit(share, member);
        }
        let read_at_us = self.latency_recorder.read_at_us();
        let ShardState { outboxes, memory, .. } = self;
        if let Some(batch) = outboxes.batch_for(shard, false, read_at_us, memory.ledger()) {
            batch.push_update(MemberUpdate { share: share.clone(), member, update: GroupUpdate::Ready });
        }
    }

    /// The number of messages of shared subscriptions that can be sent to a session's client now. They are never queued in the session,
    /// where other members could not receive them.
    fn available_credit(&mut self, session: SessionIndex) -> usize {
        let Some(index) = self.sessions.connection(session) else { return 0 };
        if !self.connections[index].is_open() {
            return 0;
        }
        if self.free_packet_id(session, index).is_none() || !self.has_room_for(session, 1) || self.is_stuck(session) {
            return 0;
        }
        // Messages in transit must find room on arrival.
        let pending_bytes = self.connections[index].pending_bytes();
        if pending_bytes > 0 && pending_bytes + self.in_transit_max_bytes() > self.memory.output_max_bytes() {
            return 0;
        }
        let send_maximum = usize::from(self.connections[index].connect_parameters().send_maximum);
        send_maximum.saturating_sub(self.sessions[session].outbound().map_or(0, |outbound| outbound.in_flight()))
    }

    /// Whether a message can be sent to the picked member immediately. Otherwise it goes to the queue of the group.
    pub(crate) fn can_start_shared(&mut self, session: SessionIndex, delivery: &PendingMessage) -> bool {
        if delivery.qos == QoS::AtMostOnce || !M::QUEUES_SHARED {
            return true;
        }
        let Some(index) = self.sessions.connection(session) else { return false };
        self.free_packet_id(session, index).is_some() && self.has_room_for(session, delivery.counted_bytes())
    }

    /// Returns a message to the queue of its group, because its member has no room any more: messages of other subscriptions have taken
    /// it, or the client has disconnected.
    #[cold]
    pub(crate) fn return_to_group(&mut self, session: SessionIndex, delivery: &PendingMessage) {
        // No credit until the client has acknowledged something or read output: the next message would be returned as well.
        if let Some(credit) = self.sessions.member_credit(session) {
            credit.grant(0);
        }
        let group = delivery.share.as_ref().and_then(|share| self.context.exchange().group(share));
        match (group, delivery.message.loaded()) {
            (Some(group), Some(message)) => self.enqueue_for_member(&group, &mut OutgoingPublish::of(message)),
            _ => self.counters().dropped_no_member.add(1),
        }
    }
}
