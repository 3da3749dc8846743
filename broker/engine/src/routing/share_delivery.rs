//! From a message of a shared subscription to the member that gets it, or to the queue of the group.

use std::sync::Arc;

use tautwire_contracts::Contract;
use tautwire_memory::MemoryLedger;
use tautwire_protocol::QoS;
use tautwire_router::{Member, SessionKey, ShareGroup, ShareReceiver};
use tautwire_session::{PendingMessage, Receivers, SessionNumber, SubscriptionIds};

use crate::index::SessionIndex;
use crate::mode::Mode;
use crate::mutant::{Mutant, is};
use crate::routing::deliver::DeliveryOptions;
use crate::routing::publish_packets::OutgoingPublish;
use crate::shard::Shard;
use crate::shard::ShardState;

/// What is on its way to members of one group on other shards is this part of what the output of one connection may hold.
const IN_TRANSIT_DIVISOR: usize = 4;

/// When a member of a shared subscription was picked for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pick {
    /// When the message was published.
    AtPublish,
    /// When the message had waited in the queue of its group, where it took so many bytes.
    FromQueue { queued_bytes: usize },
}

impl<M: Mode> Shard<M> {
    /// Takes a message of a shared subscription from another shard.
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
        // Not before: what is published next must not overtake it.
        if let Some(bytes) = queued_bytes {
            self.state.record_from_queue(delivery, bytes);
        }
        self.state.end_transit(*key, delivery);
    }

    /// Gives a message of a shared subscription, whose chosen member `from` is gone, to another member.
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
    /// Gives a message to the member of a shared subscription whose turn it is. A message of QoS 1 or 2 goes to a member that can be sent
    /// it at once, or waits in the group's queue.
    pub(crate) fn deliver_to_share(
        &mut self,
        group: &ShareGroup,
        contract: Option<&Contract>,
        outgoing: &mut OutgoingPublish<'_>,
    ) -> bool {
        let qos = outgoing.message.qos;
        let may_wait = qos != QoS::AtMostOnce && M::QUEUES_SHARED;
        let picked = match may_wait {
            // What waits goes first.
            true if group.waiting().0 > 0 || self.is_in_transit_full(group) => None,
            true => self.pick_with(group, |group| group.pick_with_credit(qos)),
            false => self.pick_with(group, ShareGroup::pick),
        };
        let Some((member, here)) = picked else {
            if may_wait && group.has_members() {
                self.enqueue_for_member(group, outgoing);
                return true;
            }
            self.counters().dropped_no_member.add(1);
            return false;
        };
        let mut delivery = share_delivery(group, &member, outgoing, self.memory.ledger());
        if let Some(format) = member.format {
            let Some(message) = self.transcode_for_member(contract, format, outgoing) else {
                if may_wait {
                    member.return_credit(qos);
                }
                return false;
            };
            delivery.message = message.into();
        }
        self.send_to_member(group, &member, here, delivery, Pick::AtPublish);
        true
    }

    /// Gives a message to the member of a shared subscription that was chosen, and whose session may be `here`.
    pub(crate) fn send_to_member(
        &mut self,
        group: &ShareGroup,
        member: &Member,
        here: Option<SessionIndex>,
        delivery: PendingMessage,
        pick: Pick,
    ) {
        // It has just been made, so it is in memory.
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
        // A session that is not written down yet is before it gets the message: see [`Mode::record_for_group`].
        let is_written = !may_be_lost && (member.number.is_some() || group.is_persistent());
        let forwarded = delivery.message.loaded().filter(|_| is_written).and_then(|message| {
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

    /// Whether as much is on its way to members on other shards as these can take for sure. More of it could come back, out of order.
    pub(crate) fn is_in_transit_full(&self, group: &ShareGroup) -> bool {
        let bytes = group.in_transit_bytes();
        bytes > 0 && bytes >= self.in_transit_max_bytes()
    }

    /// Bytes of messages that may be on their way to the members of one group. A member without so much room for output takes none.
    pub(crate) fn in_transit_max_bytes(&self) -> usize {
        self.memory.output_max_bytes() / IN_TRANSIT_DIVISOR
    }

    /// A message has arrived that was on its way to a member. Once nothing else is, the queue of the group goes on.
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

    /// The member of a shared subscription whose turn it is by `choose`, and its session where that is on this shard.
    pub(crate) fn pick_with(
        &self,
        group: &ShareGroup,
        choose: impl Fn(&ShareGroup) -> Option<Member>,
    ) -> Option<(Member, Option<SessionIndex>)> {
        loop {
            let member = choose(group)?;
            let here = self.sessions.at(&member.session);
            if here.is_some() || member.session.shard != self.context.shard() {
                return Some((member, here));
            }
            // Its session has ended, and gives up its subscriptions over several turns.
            self.context.exchange().leave(group.filter(), member.session);
        }
    }

    /// The session of this shard that was chosen for `delivery`, if it is still a member: no message is sent to it for a
    /// subscription that it has given up [MQTT-3.10.4-2].
    fn member_at(&self, key: &SessionKey, delivery: &PendingMessage) -> Option<SessionIndex> {
        let session = self.sessions.at(key)?;
        let share = delivery.share.as_ref()?;
        self.sessions[session].subscriptions().get(share)?;
        Some(session)
    }

    /// Room for a message has been taken on a shard, and the message is here.
    fn record_arrival(&self, member: &SessionKey, delivery: &PendingMessage) {
        if delivery.qos != QoS::AtMostOnce
            && M::QUEUES_SHARED
            && let Some(room) = self.sessions.at(member).and_then(|session| self.sessions.member_credit(session))
        {
            room.record_arrival();
        }
    }

    /// A session of this shard leaves a shared subscription. Where that has no other member, what waits is for nobody.
    pub(crate) fn leave_share(&mut self, share: &str, member: SessionKey) {
        let exchange = self.context.exchange();
        let group = exchange.group(share);
        exchange.leave(share, member);
        let is_over = group.as_ref().is_none_or(|group| group.has_queue() && !group.has_members());
        if is_over && M::QUEUES_SHARED {
            let share = group.map_or_else(|| share.into(), |group| group.filter().clone());
            self.report_to_queue(&share, member);
        }
    }

    fn deliver_to_member(&mut self, session: SessionIndex, delivery: &PendingMessage) {
        if !self.can_start_shared(session, delivery) && !is(Mutant::QueuesForMembers) {
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
        if self.tap.is_open() {
            self.trace_member(&outgoing.message, session, delivery.qos);
        }
        self.watch_shared(session, delivery.qos);
        self.update_credit(session);
    }
}

pub(crate) fn share_delivery(
    group: &ShareGroup,
    member: &Member,
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
