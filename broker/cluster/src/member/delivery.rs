//! The delivery part of a node: the log for its shards, groups of shared subscriptions, and interest on the bus.

use crate::delivery::{DeliveryCounters, ReadRequest};
use crate::groups::{GroupContext, Groups, HealthCheck};
use crate::interest::{Change, InterestSync, InterestSyncContext};
use crate::names::{ClientKey, GroupKey, Partition};
use crate::numbers::Sequence;
use crate::record::Place;
use crate::sessions::EndedSession;

use super::Member;

impl Member {
    /// A shard has processed a partition up to a sequence, and can receive more.
    pub fn mark_received(&mut self, now_ms: u64, shard: usize, partition: Partition, until: Sequence) {
        if !self.is_over {
            self.log.mark_received(now_ms, shard, partition, until, &self.settings, &mut self.out);
        }
    }

    /// A shard requests a read for lagging sessions. The answer is [`Decision::Read`](crate::Decision::Read).
    pub fn read(&mut self, shard: usize, request: ReadRequest) {
        if !self.is_over {
            self.log.read(shard, request, &self.settings, &mut self.out);
        }
    }

    /// A session of this node has subscribed to `$share/name/filter`, or was resumed with that subscription. The answer is
    /// [`Decision::Joined`](crate::Decision::Joined). The epoch is that of [`Decision::Serve`](crate::Decision::Serve).
    pub fn join(&mut self, now_ms: u64, client: ClientKey, epoch: u64, share: &str) {
        let group = self.seed.group(share);
        self.with_groups(now_ms, |groups, cx| groups.join(group, share, client, epoch, cx));
    }

    /// A session with the subscription `$share/name/filter` is no longer served here. It stays a member.
    pub fn leave(&mut self, now_ms: u64, client: ClientKey, share: &str) {
        let group = self.seed.group(share);
        self.with_groups(now_ms, |groups, cx| groups.leave(group, client, cx));
    }

    /// A session has unsubscribed from `$share/name/filter`, or has ended.
    pub fn part(&mut self, now_ms: u64, client: ClientKey, epoch: u64, share: &str) {
        let group = self.seed.group(share);
        self.with_groups(now_ms, |groups, cx| groups.part(group, share, client, epoch, cx));
    }

    /// Reports the progress of a group, from [`Receivers::leases`](crate::delivery::Receivers::leases).
    pub fn checkpoint(&mut self, now_ms: u64, group: GroupKey, leases: Vec<(Partition, Place, Vec<Place>)>) {
        self.with_groups(now_ms, |groups, cx| groups.checkpoint(group, leases, cx));
    }

    /// The engine has stopped to deliver a partition of a group, with its next position and its open messages.
    pub fn returned(&mut self, now_ms: u64, group: GroupKey, partition: Partition, next: Place, open: Vec<Place>) {
        let open = open.into_iter().collect();
        self.with_groups(now_ms, |groups, cx| groups.returned(group, partition, next, open, cx));
    }

    /// Returns the number of groups that involve this node.
    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    /// A connected client of this node has subscribed to a filter, given without its share. Filters are counted.
    pub fn add_interest(&mut self, now_ms: u64, filter: &str) {
        if !self.is_over {
            let changes = self.interest.add(filter);
            self.change_interest(now_ms, changes);
        }
    }

    /// A connected client of this node has unsubscribed from a filter.
    pub fn remove_interest(&mut self, now_ms: u64, filter: &str) {
        if !self.is_over {
            let changes = self.interest.remove(filter);
            self.change_interest(now_ms, changes);
        }
    }

    /// The bus delivers messages that match a pattern from now on, as far as this node's server of the bus knows.
    pub fn listening(&mut self, now_ms: u64, pattern: &str) {
        if !self.is_over {
            let changes = self.interest.confirm(pattern);
            self.with_interest_sync(now_ms, |interest_sync, _| interest_sync.confirm(pattern));
            self.change_interest(now_ms, changes);
        }
    }

    /// A client waits until the other nodes know the current interest. The answer is `InterestSync` with this ticket.
    pub fn sync_interest(&mut self, now_ms: u64, ticket: u64) {
        self.with_interest_sync(now_ms, |interest_sync, cx| interest_sync.ask(ticket, cx));
    }

    /// The connection to the bus was restored, perhaps to another server, which has received all patterns.
    pub fn reconnected(&mut self, now_ms: u64) {
        self.with_interest_sync(now_ms, |interest_sync, cx| interest_sync.restart_sync(std::iter::empty(), cx));
    }

    /// The connection to the bus was replaced, and [`listening`](Self::listening) follows again for each pattern.
    pub fn resubscribe_interest(&mut self, now_ms: u64) {
        let patterns: Vec<_> = self.interest.subscribed().map(str::to_owned).collect();
        self.with_interest_sync(now_ms, |interest_sync, cx| interest_sync.restart_sync(patterns.into_iter(), cx));
    }

    fn change_interest(&mut self, now_ms: u64, changes: Vec<Change>) {
        self.with_interest_sync(now_ms, |interest_sync, cx| interest_sync.change(&changes, cx));
        self.out.change_interest(changes);
    }

    pub(super) fn with_interest_sync(
        &mut self,
        now_ms: u64,
        act: impl FnOnce(&mut InterestSync, &mut InterestSyncContext<'_>),
    ) {
        if !self.is_over {
            let Member { me, settings, nodes, interest_sync, out, .. } = self;
            act(interest_sync, &mut InterestSyncContext { me: *me, now_ms, settings, nodes, out });
        }
    }

    /// Whether this copy of a QoS 0 message is for the engine: of copies by several patterns, one counts.
    pub fn counts(&self, pattern: &str, subject: &str) -> bool {
        self.interest.counts(pattern, subject)
    }

    /// Returns the number of subscribed patterns, and whether they are shortened because there were too many.
    pub fn patterns(&self) -> (usize, bool) {
        (self.interest.len(), self.interest.is_coarse())
    }

    /// Returns the counters of delivery.
    pub fn delivery_counters(&self) -> DeliveryCounters {
        self.log.counters
    }

    pub(super) fn with_groups(&mut self, now_ms: u64, act: impl FnOnce(&mut Groups, &mut GroupContext<'_>)) {
        self.with_health_check(now_ms, |_, groups, cx| act(groups, cx));
    }

    pub(super) fn with_health_check(
        &mut self,
        now_ms: u64,
        act: impl FnOnce(&mut HealthCheck, &mut Groups, &mut GroupContext<'_>),
    ) {
        if self.is_over || self.drain.is_retiring {
            return;
        }
        let position = self.log.position();
        // A draining node takes no new partitions.
        let takes_more = self.is_serving && !self.drain.is_draining();
        let Member { me, settings, nodes, groups, health_check, out, .. } = self;
        act(health_check, groups, &mut GroupContext { me: *me, now_ms, takes_more, settings, position, nodes, out });
    }

    /// Removes sessions that were started clean from their former groups. The node that wrote the claim knows these groups.
    pub(super) fn forget_members(&mut self, now_ms: u64) {
        for EndedSession { client, by, state } in self.sessions.take_ended() {
            for share in self.settings.shares_of.named(&state) {
                let group = self.seed.group(&share);
                let epoch = by.0.saturating_sub(1);
                self.with_groups(now_ms, |groups, cx| groups.forget(group, &share, client, epoch, cx));
            }
        }
    }
}
