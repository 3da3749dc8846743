//! Delivery of messages of shared subscriptions to one member, or to the queue of the group.

use std::sync::Arc;

use tautwire_contracts::Contract;
use tautwire_memory::MemoryLedger;
use tautwire_protocol::QoS;
use tautwire_router::{GroupMember, SessionKey, ShareGroup, ShareReceiver};
use tautwire_session::{PendingMessage, Receivers, SessionNumber, SubscriptionIds};

use crate::index::SessionIndex;
use crate::mode::Mode;
use crate::mutant::{Mutant, is};
use crate::routing::deliver::DeliveryOptions;
use crate::routing::publish_packets::OutgoingPublish;
use crate::shard::Shard;
use crate::shard::ShardState;

/// Messages in transit to a group's members on other shards take at most the output limit of one connection divided by this.
const IN_TRANSIT_DIVISOR: usize = 4;

/// The point at which a member of a shared subscription was picked for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pick {
    /// At publication.
    AtPublish,
    /// From the queue of the group, where the message took `queued_bytes`.
    FromQueue { queued_bytes: usize },
}

impl<M: Mode> Shard<M> {
    /// Receives a message of a shared subscription from another shard.
    pub(crate) fn receive_shared(&mut self, receiver: &ShareReceiver, delivery: &PendingMessage) {
        let (key, queued_bytes) = match receiver {
            ShareReceiver::Queue => return self.state.receive_into_queue(delivery),
            ShareReceiver::Member(key) => (key, None),
            ShareReceiver::FromQueue { member, queued_bytes } => (member, Some(*queued_bytes)),
        };
        self.state.record_arrival(key, delivery);
        match self.state.member_at(key, delivery) {
            Some(session) => self.state.deliver_to_member(session, delivery),
            None => self.redispatch_message(*key, delivery.clone()),
        }
        // Only after delivery: a message that is published now must not overtake this one.
        if let Some(bytes) = queued_bytes {
            self.state.record_from_queue(delivery, bytes);
        }
        self.state.end_transit(*key, delivery);
    }

    /// Redispatches a message of a shared subscription whose member `from` is gone to another member.
    pub(crate) fn redispatch_message(&mut self, from: SessionKey, delivery: PendingMessage) {
        if M::requeue(&mut self.state, from, &delivery) {
            return;
        }
        let group = delivery.share.as_ref().and_then(|filter| self.state.context.exchange().group(filter));
        match group {
            Some(group) => {
                let Some(message) = self.state.in_memory(delivery.message.loaded()) else { return };
                let contract = self.state.config.contracts().find(message.topic()).cloned();
                self.state.deliver_to_share(&group, contract.as_deref(), &mut OutgoingPublish::of(message));
            }
            None => self.state.counters().dropped_no_member.add(1),
        }
    }
}

impl<M: Mode> ShardState<M> {
    /// Delivers a message to the next member of a shared subscription. A message of QoS 1 or 2 goes to a member that can receive it
    /// immediately, or to the group's queue.
    pub(crate) fn deliver_to_share(
        &mut self,
        group: &ShareGroup,
        contract: Option<&Contract>,
        outgoing: &mut OutgoingPublish<'_>,
    ) -> bool {
        let qos = outgoing.message.qos;
        let can_be_queued = qos != QoS::AtMostOnce && M::QUEUES_SHARED;
        let picked = match can_be_queued {
            // Queued messages go first.
            true if group.waiting().0 > 0 || self.is_in_transit_full(group) => None,
            true => self.pick_with(group, |group| group.pick_with_credit(qos)),
            false => self.pick_with(group, ShareGroup::pick),
        };
        let Some((member, here)) = picked else {
            if can_be_queued && group.has_members() {
                self.enqueue_for_member(group, outgoing);
                return true;
            }
            self.counters().dropped_no_member.add(1);
            return false;
        };
        let mut delivery = share_delivery(group, &member, outgoing, self.memory.ledger());
        if let Some(format) = member.format {
            let Some(message) = self.transcode_for_member(contract, format, outgoing) else {
                if can_be_queued {
                    member.return_credit(qos);
                }
                return false;
            };
            delivery.message = message.into();
        }
        self.send_to_member(group, &member, here, delivery, Pick::AtPublish);
        true
    }

    /// Sends a message to the picked member of a shared subscription. `here` is the member's session if it is on this shard.
    pub(crate) fn send_to_member(
        &mut self,
        group: &ShareGroup,
        member: &GroupMember,
        here: Option<SessionIndex>,
        delivery: PendingMessage,
        pick: Pick,
    ) {
        // The message was just created, so it is in memory.
        if let Some(message) = delivery.message.loaded() {
            group.record_dispatch(message.topic(), member.session, self.clock.now_ms());
        }
        if let Some(session) = here {
            self.record_arrival(&member.session, &delivery);
            self.deliver_to_member(session, &delivery);
            return;
        }
        let may_be_lost = delivery.qos == QoS::AtMostOnce;
        let to = member.session.shard;
        // A session that is not persistent yet becomes persistent before it gets the message: see [`Mode::record_for_group`].
        let is_recorded = !may_be_lost && (member.number.is_some() || group.is_persistent());
        let forwarded = delivery.message.loaded().filter(|_| is_recorded).and_then(|message| {
            let number = member.number.unwrap_or(SessionNumber::OF_NONE);
            M::record_forwarded(self, to, message, Receivers::Member(number, group.filter()))
        });
        let read_at_us = self.latency_recorder.read_at_us();
        let ShardState { outboxes, memory, .. } = self;
        match outboxes.batch_for(to, may_be_lost, read_at_us, memory.ledger()) {
            Some(batch) => {
                if !may_be_lost {
                    group.begin_transit(delivery.counted_bytes());
                }
                let receiver = match pick {
                    Pick::AtPublish => ShareReceiver::Member(member.session),
                    Pick::FromQueue { queued_bytes } => {
                        ShareReceiver::FromQueue { member: member.session, queued_bytes }
                    }
                };
                batch.push_share(receiver, delivery, forwarded);
            }
            None => self.counters().dropped_shard_queue_full.add(1),
        }
    }

    /// Whether the messages in transit to members on other shards have reached the limit. Beyond it, some could be returned out of order.
    pub(crate) fn is_in_transit_full(&self, group: &ShareGroup) -> bool {
        let bytes = group.in_transit_bytes();
        bytes > 0 && bytes >= self.in_transit_max_bytes()
    }

    /// The limit on bytes in transit to the members of one group. A member with less free output than this gets no credit.
    pub(crate) fn in_transit_max_bytes(&self) -> usize {
        self.memory.output_max_bytes() / IN_TRANSIT_DIVISOR
    }

    /// Counts the arrival of a message that was in transit to a member. When the last one arrives, the queue of the group continues.
    fn end_transit(&mut self, member: SessionKey, delivery: &PendingMessage) {
        if delivery.qos == QoS::AtMostOnce {
            return;
        }
        let group = delivery.share.as_ref().and_then(|share| self.context.exchange().group(share));
        let Some(group) = group else { return };
        if group.end_transit(delivery.counted_bytes()) && group.waiting().0 > 0 && M::QUEUES_SHARED {
            self.report_to_queue(group.filter(), member);
        }
    }

    /// The member that `choose` picks, and its session if it is on this shard.
    pub(crate) fn pick_with(
        &self,
        group: &ShareGroup,
        choose: impl Fn(&ShareGroup) -> Option<GroupMember>,
    ) -> Option<(GroupMember, Option<SessionIndex>)> {
        loop {
            let member = choose(group)?;
            let here = self.sessions.at(&member.session);
            if here.is_some() || member.session.shard != self.context.shard() {
                return Some((member, here));
            }
            // Its session has ended; its subscriptions are removed over several turns.
            self.context.exchange().leave(group.filter(), member.session);
        }
    }

    /// The session of this shard that was picked for `delivery`, if it is still a member. A client gets no message for a
    /// subscription that it has ended [MQTT-3.10.4-2].
    fn member_at(&self, key: &SessionKey, delivery: &PendingMessage) -> Option<SessionIndex> {
        let session = self.sessions.at(key)?;
        let share = delivery.share.as_ref()?;
        self.sessions[session].subscriptions().get(share)?;
        Some(session)
    }

    /// Counts the arrival of a message for which another shard took the member's credit.
    fn record_arrival(&self, member: &SessionKey, delivery: &PendingMessage) {
        if delivery.qos != QoS::AtMostOnce
            && M::QUEUES_SHARED
            && let Some(credit) = self.sessions.at(member).and_then(|session| self.sessions.member_credit(session))
        {
            credit.record_arrival();
        }
    }

    /// Removes a session of this shard from a shared subscription. Without other members, the queued messages have no receiver.
    pub(crate) fn leave_share(&mut self, share: &str, member: SessionKey) {
        let exchange = self.context.exchange();
        let group = exchange.group(share);
        exchange.leave(share, member);
        let has_ended = group.as_ref().is_none_or(|group| group.has_queue() && !group.has_members());
        if has_ended && M::QUEUES_SHARED {
            let share = group.map_or_else(|| share.into(), |group| group.filter().clone());
            self.report_to_queue(&share, member);
        }
    }

    fn deliver_to_member(&mut self, session: SessionIndex, delivery: &PendingMessage) {
        if !self.can_start_shared(session, delivery) && !is(Mutant::QueuesSharedInSession) {
            return self.return_to_group(session, delivery);
        }
        if delivery.qos != QoS::AtMostOnce && !self.is_fully_persistent(session) {
            M::record_for_group(self, session, delivery);
        }
        let options = DeliveryOptions {
            qos: delivery.qos,
            retain: delivery.retain,
            subscription_ids: delivery.subscription_ids.as_slice(),
            share: delivery.share.as_ref(),
            is_shared: false,
        };
        let Some(message) = self.in_memory(delivery.message.loaded()) else { return };
        let mut outgoing = OutgoingPublish::of(message);
        self.deliver(session, &mut outgoing, options);
        if self.operations.has_observers() {
            self.trace_member(&outgoing.message, session, delivery.qos);
        }
        self.watch_shared(session, delivery.qos);
        self.update_credit(session);
    }
}

pub(crate) fn share_delivery(
    group: &ShareGroup,
    member: &GroupMember,
    outgoing: &mut OutgoingPublish<'_>,
    ledger: &Arc<MemoryLedger>,
) -> PendingMessage {
    PendingMessage {
        message: outgoing.store_message(ledger).into(),
        qos: member.qos.min(outgoing.message.qos),
        retain: member.retain_as_published && outgoing.message.retain,
        subscription_ids: SubscriptionIds::from(member.identifier.as_slice()),
        share: Some(group.filter().clone()),
    }
}
