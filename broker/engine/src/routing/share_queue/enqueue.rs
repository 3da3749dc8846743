//! Adding messages to the queue of a shared subscription.

use std::sync::Arc;

use tautwire_protocol::QoS;
use tautwire_router::{ShardIndex, ShareGroup, ShareReceiver};
use tautwire_session::{
    Change, PendingMessage, Receivers, SessionNumber, SubscriptionIds, share_of_queue, share_queue_name,
};

use super::ShareQueue;
use crate::index::SessionIndex;
use crate::mode::Mode;
use crate::mutant::{Mutant, is};
use crate::routing::publish_packets::OutgoingPublish;
use crate::shard::Shard;
use crate::shard::ShardState;

impl<M: Mode> ShardState<M> {
    /// The shard that holds the queue of a shared subscription.
    pub(super) fn queue_shard(&self, share: &str) -> ShardIndex {
        self.context.exchange().owner(&share_queue_name(share))
    }

    /// Whether the queue of any of these groups has no room for a message of this size. An empty queue accepts any message.
    #[cold]
    #[inline(never)]
    pub(crate) fn is_share_queue_full(&self, groups: &[Arc<ShareGroup>], bytes: usize) -> bool {
        let mut limit_bytes = self.config.settings().shared_queue_bytes;
        if !M::SPILLS {
            // The queue is in memory.
            limit_bytes = limit_bytes.min(self.memory.share().limits().client_bytes as usize);
        }
        let bytes = bytes + size_of::<PendingMessage>();
        M::QUEUES_SHARED
            && groups.iter().any(|group| {
                let (messages, waiting_bytes) = group.waiting();
                messages > 0 && waiting_bytes.saturating_add(bytes) > limit_bytes
            })
    }

    /// Queues a message of QoS 1 or 2 for which no member of the group has credit. It was admitted already, so it is not dropped even
    /// if the queue is full.
    #[cold]
    #[inline(never)]
    pub(crate) fn enqueue_for_member(&mut self, group: &ShareGroup, outgoing: &mut OutgoingPublish<'_>) {
        let message = outgoing.store_message(self.memory.ledger());
        let delivery = PendingMessage {
            message: message.clone().into(),
            qos: outgoing.message.qos,
            retain: outgoing.message.retain,
            subscription_ids: SubscriptionIds::None,
            share: Some(group.filter().clone()),
        };
        group.add_queued(delivery.counted_bytes());
        self.counters().shared_messages_queued.add(1);
        let shard = self.queue_shard(group.filter());
        if shard == self.context.shard() {
            return self.enqueue_shared(group, delivery);
        }
        // The log names no member: after a crash, the message is for the group.
        let receivers = Receivers::Member(SessionNumber::OF_NONE, group.filter());
        let forwarded = M::record_forwarded(self, shard, &message, receivers);
        let read_at_us = self.latency_recorder.read_at_us();
        let ShardState { outboxes, memory, .. } = self;
        if let Some(batch) = outboxes.batch_for(shard, false, read_at_us, memory.ledger()) {
            batch.push_share(ShareReceiver::Queue, delivery, forwarded);
        }
    }

    /// Receives a queued message of another shard on the shard that holds the queue.
    pub(crate) fn receive_into_queue(&mut self, delivery: &PendingMessage) {
        let Some(share) = &delivery.share else { return };
        match self.context.exchange().group(share) {
            Some(group) => self.enqueue_shared(&group, delivery.clone()),
            None => self.counters().dropped_no_member.add(1),
        }
    }

    fn enqueue_shared(&mut self, group: &ShareGroup, delivery: PendingMessage) {
        let Some(session) = self.find_or_open_queue(group) else {
            log::error!("cannot create the queue of {}: the shard has no room for another session", group.filter());
            self.remove_queued(group, delivery.counted_bytes());
            self.counters().dropped_no_member.add(1);
            return;
        };
        let is_first = self.sessions[session].outbound().is_none_or(|outbound| outbound.queued() == 0);
        self.commit(session, Change::Queued(delivery));
        if is_first && !is(Mutant::SkipsCreditRequest) {
            if let Some(queue) = self.routing.share_queues.queues.get_mut(&**group.filter()) {
                queue.ask_all_members = true;
            }
            self.start_draining(group.filter());
        }
    }

    fn find_or_open_queue(&mut self, group: &ShareGroup) -> Option<SessionIndex> {
        if let Some(queue) = self.routing.share_queues.queues.get(&**group.filter()) {
            return Some(queue.session);
        }
        let session = self.sessions.open(&share_queue_name(group.filter()))?;
        self.commit(session, Change::ExpiryInterval(u32::MAX));
        self.routing.share_queues.queues.insert(group.filter().clone(), ShareQueue::new(session));
        group.mark_queue();
        Some(session)
    }

    /// Counts a message that is no longer queued.
    pub(super) fn remove_queued(&self, group: &ShareGroup, bytes: usize) {
        if group.remove_queued(bytes) {
            self.context.exchange().remove_if_empty(group.filter());
        }
    }

    /// Counts a message that has left the queue of a group that has ended.
    pub(crate) fn remove_from_ended_queue(&self, delivery: &PendingMessage) {
        let group = delivery.share.as_ref().and_then(|share| self.context.exchange().group(share));
        if let Some(group) = group {
            self.remove_queued(&group, delivery.counted_bytes());
        }
    }

    /// Counts a message that has arrived from the queue of its group on another shard, where it took `queued_bytes`.
    pub(crate) fn record_from_queue(&self, delivery: &PendingMessage, queued_bytes: usize) {
        let group = delivery.share.as_ref().and_then(|share| self.context.exchange().group(share));
        if let Some(group) = group {
            self.remove_queued(&group, queued_bytes);
        }
    }
}

impl<M: Mode> Shard<M> {
    /// Restores queues from the log, once all members are restored. A queue without members ends.
    pub(crate) fn restore_share_queues(&mut self) {
        for session in self.state.sessions.indices() {
            let Some(share) = share_of_queue(self.state.sessions[session].name()).map(Arc::<str>::from) else {
                continue;
            };
            let group = self.state.context.exchange().group(&share).filter(|group| group.has_members());
            let Some(group) = group else {
                // Immediately, before a new group of the same name can be mistaken for this one.
                while self.state.take_unfinished(session).is_some() {
                    self.state.counters().dropped_no_member.add(1);
                }
                self.end_session(session);
                continue;
            };
            if let Some(outbound) = self.state.sessions[session].outbound() {
                group.restore_queued(outbound.queued(), outbound.queued_bytes());
            }
            self.state.routing.share_queues.queues.insert(share.clone(), ShareQueue::new(session));
            group.mark_queue();
            self.state.start_draining(&share);
        }
    }

    /// Queues a message that was in transit to a member or the queue of a group when the log ended.
    pub(crate) fn restore_shared(&mut self, share: &str, outgoing: &mut OutgoingPublish<'_>) {
        debug_assert!(outgoing.message.qos != QoS::AtMostOnce);
        match self.state.context.exchange().group(share).filter(|group| group.has_members()) {
            Some(group) => self.state.enqueue_for_member(&group, outgoing),
            None => self.state.counters().dropped_no_member.add(1),
        }
    }
}
