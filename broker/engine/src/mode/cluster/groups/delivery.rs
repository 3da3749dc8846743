//! Delivers messages from the log to the members of a group, at its home.

use std::sync::Arc;

use tautwire_cluster::delivery::Slot;
use tautwire_cluster::names::{GroupKey, Partition};
use tautwire_cluster::record::Place;
use tautwire_contracts::Contract;
use tautwire_protocol::{QoS, TopicFilter};
use tautwire_router::{GroupCoordinator, GroupUpdate, MemberUpdate, SessionKey, ShareGroup};
use tautwire_session::PendingMessage;

use super::home_of;
use crate::mode::Clustered;
use crate::mode::cluster::cluster_state::LogPlace;
use crate::mode::cluster::port::ClusterRequest;
use crate::mutant::{Mutant, is};
use crate::routing::contracts::QUARANTINE;
use crate::routing::publish_packets::OutgoingPublish;
use crate::routing::share_delivery::{Pick, share_delivery};
use crate::routing::transcoding;
use crate::shard::Shard;
use crate::shard::ShardState;

impl Shard<Clustered> {
    /// Starts delivery of a partition to a group whose home is this shard.
    pub(in crate::mode::cluster) fn lease_group(
        &mut self,
        key: GroupKey,
        share: &Arc<str>,
        partition: Partition,
        next: Place,
        open: Vec<Place>,
    ) {
        let now_ms = self.state.clock.now_ms();
        let cluster = &mut self.state.mode.cluster;
        let slot = cluster.homes.slot(key).unwrap_or_else(|| {
            let slot = cluster.log.new_slot();
            cluster.homes.begin(slot, key, share.clone(), topic_filter(share));
            slot
        });
        cluster.log.lease(slot, partition, next, open, now_ms);
        let is_first = cluster.homes.add_lease(slot, partition);
        self.state.publish_group_home(slot);
        if is_first {
            self.add_group_interest(topic_filter(share));
        }
    }

    /// Stops delivery of a partition to a group, and waits for members with messages of it.
    pub(in crate::mode::cluster) fn recall_group(&mut self, key: GroupKey, partition: Partition) {
        let now_ms = self.state.clock.now_ms();
        let cluster = &mut self.state.mode.cluster;
        let Some(slot) = cluster.homes.slot(key) else { return };
        let (next, open) = cluster.log.recall(slot, partition);
        let until_ms = now_ms + cluster.settings().return_wait_ms;
        cluster.homes.return_lease(slot, partition, next, open, until_ms);
        let Some(group) = cluster.homes.get(slot) else { return };
        let (is_last, topic_filter) = (group.partitions() == 0, Box::<str>::from(group.topic_filter()));
        self.state.publish_group_home(slot);
        if is_last {
            self.remove_group_interest(&topic_filter);
        }
    }

    /// Announces a group's filter, so that messages of QoS 0 from other nodes reach its home while this node delivers to the group.
    fn add_group_interest(&mut self, filter: &str) {
        let is_announced = self.table.has_subscribers(filter);
        let cluster = &mut self.state.mode.cluster;
        if cluster.homes.add_interest(filter) && !is_announced {
            cluster.add_interest(filter);
        }
    }

    fn remove_group_interest(&mut self, filter: &str) {
        let is_announced = self.table.has_subscribers(filter);
        let cluster = &mut self.state.mode.cluster;
        if cluster.homes.remove_interest(filter) && !is_announced {
            cluster.remove_interest(filter);
        }
    }

    /// Removes all groups when the node's incarnation ends.
    pub(in crate::mode::cluster) fn remove_groups(&mut self) {
        let slots = self.state.mode.cluster.homes.all();
        for slot in slots {
            let Some(group) = self.state.mode.cluster.homes.get(slot) else { continue };
            let (share, topic_filter) = (group.share().clone(), Box::<str>::from(group.topic_filter()));
            if group.partitions() > 0 {
                self.state.context.exchange().set_coordinator(&share, &topic_filter, None);
                self.remove_group_interest(&topic_filter);
            }
        }
    }

    /// Reports the progress of groups, and returns recalled partitions.
    pub(in crate::mode::cluster) fn run_group_tasks(&mut self) {
        let now_ms = self.state.clock.now_ms();
        let cluster = &mut self.state.mode.cluster;
        while let Some(slot) = cluster.log.next_due(now_ms) {
            if let Some(group) = cluster.homes.get(slot).map(|group| group.key()) {
                let leases = cluster.log.leases(slot);
                cluster.push_request(ClusterRequest::Checkpoint { group, leases });
            }
        }
        while let Some((slot, group, partition, returning)) = cluster.homes.next_returned(now_ms) {
            let (next, open) = (returning.next, returning.open.into_iter().collect());
            cluster.push_request(ClusterRequest::Returned { group, partition, next, open });
            cluster.remove_group_if_idle(slot);
        }
    }
}

impl ShardState<Clustered> {
    /// Publishes to all shards which partitions this node delivers to a group.
    fn publish_group_home(&self, slot: Slot) {
        let Some(group) = self.mode.cluster.homes.get(slot) else { return };
        let (shard, partitions) = (self.context.shard(), group.partitions());
        let home = (partitions > 0).then_some(GroupCoordinator { shard, slot, partitions });
        self.context.exchange().set_coordinator(group.share(), group.topic_filter(), home);
    }

    /// Whether this node delivers messages of a topic to a group that do not come through the log: exactly one node does. Messages that are
    /// local to a node go to its own members.
    #[cold]
    #[inline(never)]
    pub(crate) fn delivers_here(&self, group: &ShareGroup, topic: &str) -> bool {
        let cluster = &self.mode.cluster;
        if topic.starts_with("$SYS/") || topic.starts_with(QUARANTINE) {
            return true;
        }
        let partition = cluster.seed().partition(topic);
        group.home().is_some_and(|home| home.partitions >> partition.index() & 1 > 0)
    }

    /// Offers a message of the log, or of QoS 0 from another node, to the groups whose home is this shard.
    #[cold]
    #[inline(never)]
    pub(crate) fn offer_to_groups(
        &mut self,
        groups: &[Arc<ShareGroup>],
        contract: Option<&Contract>,
        outgoing: &mut OutgoingPublish<'_>,
    ) {
        let shard = self.context.shard();
        for group in groups {
            let Some(home) = group.home().filter(|home| home.shard == shard) else { continue };
            let Some(at) = LogPlace::of(outgoing.message.id) else {
                if self.delivers_here(group, outgoing.message.topic) {
                    self.deliver_to_share(group, contract, outgoing);
                }
                continue;
            };
            if self.mode.cluster.log.wants(home.slot, at) {
                self.deliver_to_group(group, home.slot, at, contract, outgoing);
            }
        }
    }

    /// Offers a message again to groups where it is open: another node had delivered it, or a member is gone.
    pub(in crate::mode::cluster) fn redeliver_to_groups(
        &mut self,
        at: LogPlace,
        contract: Option<&Contract>,
        outgoing: &mut OutgoingPublish<'_>,
    ) {
        let slots = self.mode.cluster.log.take_redeliveries(at);
        for slot in slots {
            let group = self.mode.cluster.homes.get(slot);
            // A member may have had it since before its partition moved.
            let Some(share) = group.filter(|group| !group.is_in_flight(at)).map(|group| group.share().clone()) else {
                continue;
            };
            if let Some(group) = self.context.exchange().group(&share) {
                self.deliver_to_group(&group, slot, at, contract, outgoing);
            }
        }
    }

    /// Delivers a message to the next member with room. Without one, it is read again later.
    fn deliver_to_group(
        &mut self,
        group: &ShareGroup,
        slot: Slot,
        at: LogPlace,
        contract: Option<&Contract>,
        outgoing: &mut OutgoingPublish<'_>,
    ) {
        let (now_ms, bytes) = (self.clock.now_ms(), outgoing.message.allocated_bytes() + size_of::<PendingMessage>());
        let picked = self.pick_with(group, |group| {
            let cluster = &self.mode.cluster;
            if cluster.log.is_full(slot, at) {
                return None;
            }
            let home = cluster.homes.get(slot)?;
            let has_memory = |held_bytes| held_bytes == 0 || self.memory.share().admits(held_bytes, bytes).is_ok();
            group.pick_among(|member| {
                member.qos == QoS::AtMostOnce
                    || home.has_room(&member.session, bytes, cluster.settings())
                        && has_memory(home.bytes(&member.session))
            })
        });
        let Some((member, here)) = picked else {
            self.counters().share_messages_deferred_to_log.add(1);
            self.mode.cluster.log.block(slot, at);
            return;
        };
        let mut delivery = share_delivery(group, &member, outgoing, self.memory.ledger());
        let made = member.format.map(|format| self.transcode_for_member(contract, format, outgoing));
        let cluster = &mut self.mode.cluster;
        cluster.log.mark_delivered(slot, at);
        match made {
            Some(Some(message)) => delivery.message = message.into(),
            Some(None) => return cluster.log.complete(slot, at, now_ms),
            None => {}
        }
        if delivery.qos == QoS::AtMostOnce || is(Mutant::SettlesOnDelivery) {
            cluster.log.complete(slot, at, now_ms);
        } else if let Some(home) = cluster.homes.get_mut(slot) {
            home.add_in_flight(at, member.session, bytes);
        }
        self.send_to_member(group, &member, here, delivery, Pick::AtPublish);
    }

    /// Reports to a group's home that a member has acknowledged a message, or that it was dropped [MQTT-4.8.2-6].
    #[cold]
    #[inline(never)]
    pub(crate) fn record_settled(&mut self, member: SessionKey, delivery: &PendingMessage) {
        if let Some(share) = delivery.share.as_ref().filter(|_| LogPlace::of(delivery.message.id()).is_some()) {
            self.notify_home(share, member, GroupUpdate::Done(delivery.message.id()));
        }
    }

    /// Reports to a group's home that a member is gone without having acknowledged a message, so another member gets it. Returns false if
    /// the message is not from the log.
    #[cold]
    #[inline(never)]
    pub(crate) fn requeue(&mut self, member: SessionKey, delivery: &PendingMessage) -> bool {
        let Some(share) = delivery.share.as_ref() else { return false };
        if LogPlace::of(delivery.message.id()).is_none() {
            return false;
        }
        self.notify_home(share, member, GroupUpdate::Back(delivery.message.id()));
        true
    }

    /// Sends an update about a member to the home of its group.
    pub(super) fn notify_home(&mut self, share: &str, member: SessionKey, update: GroupUpdate) {
        let cluster = &self.mode.cluster;
        let home = home_of(cluster.seed().group(share), self.outboxes.shards());
        if home == self.context.shard() {
            return self.handle_member_event(share, member, update);
        }
        let read_at_us = self.latency_recorder.read_at_us();
        let ShardState { outboxes, memory, .. } = self;
        if let Some(batch) = outboxes.batch_for(home, false, read_at_us, memory.ledger()) {
            batch.push_update(MemberUpdate { share: share.into(), member, update });
        }
    }

    /// Handles an update at the home of a group: a member is ready, has settled a message, or is gone.
    #[cold]
    #[inline(never)]
    pub(crate) fn handle_member_event(&mut self, share: &str, member: SessionKey, update: GroupUpdate) {
        let now_ms = self.clock.now_ms();
        let cluster = &mut self.mode.cluster;
        let Some(slot) = cluster.homes.slot(cluster.seed().group(share)) else { return };
        let (message, is_done) = match update {
            GroupUpdate::Ready => return cluster.log.unblock(slot),
            GroupUpdate::Done(message) => (message, true),
            GroupUpdate::Back(message) => (message, is(Mutant::SettlesReturnedMessages)),
        };
        if let Some(at) = LogPlace::of(message) {
            cluster.settle(slot, at, member, is_done, now_ms);
        }
    }
}

/// The filter in `$share/name/filter`.
fn topic_filter(share: &str) -> &str {
    let filter = TopicFilter::new(share).ok();
    let wanted = filter.and_then(|filter| transcoding::requested_format(filter, None).ok());
    // An invalid filter has no subscribers.
    wanted.map_or(share, |wanted| wanted.filter)
}
