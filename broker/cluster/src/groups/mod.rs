//! Shared subscriptions over nodes. Of each group, a node with members delivers some partitions to them: those that the group's record says.
//!
//! Whoever dies is buried, and then its partitions are free. Whoever has no members any more gives its partitions back. Whoever delivers fewer than
//! its share asks the one who delivers most.

mod group;
mod health_check;
mod message;

use std::collections::{BTreeMap, BTreeSet};

use crate::names::{ClientKey, GroupKey, Incarnation, PARTITIONS, Partition};
use crate::nodes::Nodes;
use crate::operation::{Answer, OperationId};
use crate::outbox::Outbox;
use crate::record::Place;
use crate::settings::Settings;

use group::Group;
pub(crate) use health_check::HealthCheck;
pub use health_check::HealthCheckStatus;
pub(crate) use message::{GroupMessage, GroupMessageKind};

/// A node that has members looks so often whether there is something to deliver for it, in milliseconds.
pub(crate) const LOOK_MS: u64 = 5000;
/// One that delivers less than its share looks, and asks, so often.
pub(crate) const ASK_MS: u64 = 1000;
/// A node leaves the partitions that it gives to another one alone for so long, in milliseconds.
pub(crate) const YIELD_MS: u64 = 3000;

/// What groups need of the node.
pub(crate) struct GroupContext<'a> {
    pub(crate) me: Incarnation,
    pub(crate) now_ms: u64,
    /// Whether it may take partitions that nobody delivers.
    pub(crate) takes_more: bool,
    pub(crate) settings: &'a Settings,
    /// Where the node stands in the log: a group without members begins there.
    pub(crate) position: [Place; PARTITIONS as usize],
    pub(crate) nodes: &'a Nodes,
    pub(crate) out: &'a mut Outbox,
}

/// The groups that have something to do with this node.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    groups: BTreeMap<GroupKey, Group>,
}

impl Groups {
    /// A session of this node has subscribed.
    pub(crate) fn join(
        &mut self,
        key: GroupKey,
        share: &str,
        client: ClientKey,
        epoch: u64,
        cx: &mut GroupContext<'_>,
    ) {
        self.group(key, share).join(client, epoch);
        self.proceed(key, cx);
    }

    /// A member is on this node no more.
    pub(crate) fn leave(&mut self, key: GroupKey, client: ClientKey, cx: &mut GroupContext<'_>) {
        if let Some(group) = self.groups.get_mut(&key) {
            group.leave(client);
            self.proceed(key, cx);
        }
    }

    /// A session has unsubscribed, or has ended.
    pub(crate) fn part(
        &mut self,
        key: GroupKey,
        share: &str,
        client: ClientKey,
        epoch: u64,
        cx: &mut GroupContext<'_>,
    ) {
        self.group(key, share).part(client, epoch);
        self.proceed(key, cx);
    }

    /// A session has ended that was a member by this epoch, or by an earlier one.
    pub(crate) fn forget(
        &mut self,
        key: GroupKey,
        share: &str,
        client: ClientKey,
        epoch: u64,
        cx: &mut GroupContext<'_>,
    ) {
        self.group(key, share).forget(client, epoch);
        self.proceed(key, cx);
    }

    /// A group that has something to do with this node from now on.
    fn group(&mut self, key: GroupKey, share: &str) -> &mut Group {
        self.groups.entry(key).or_insert_with(|| Group::new(key, share))
    }

    /// Whether this node serves a member.
    fn serves(&self, key: GroupKey, client: ClientKey) -> bool {
        self.groups.get(&key).is_some_and(|group| group.serves(client))
    }

    /// Whether this node has to do with a group.
    fn knows(&self, key: GroupKey) -> bool {
        self.groups.contains_key(&key)
    }

    /// How far the partitions have come that this node delivers.
    pub(crate) fn checkpoint(
        &mut self,
        key: GroupKey,
        progress: Vec<(Partition, Place, Vec<Place>)>,
        cx: &mut GroupContext<'_>,
    ) {
        if let Some(group) = self.groups.get_mut(&key) {
            group.checkpoint(progress);
            self.proceed(key, cx);
        }
    }

    /// The engine delivers a partition no more.
    pub(crate) fn returned(
        &mut self,
        key: GroupKey,
        partition: Partition,
        next: Place,
        open: BTreeSet<Place>,
        cx: &mut GroupContext<'_>,
    ) {
        if let Some(group) = self.groups.get_mut(&key) {
            group.returned(partition, next, open);
            self.proceed(key, cx);
        }
    }

    pub(crate) fn advance(&mut self, cx: &mut GroupContext<'_>) {
        for key in self.groups.keys().copied().collect::<Vec<_>>() {
            if let Some(group) = self.groups.get_mut(&key) {
                group.advance(cx);
            }
            self.proceed(key, cx);
        }
    }

    pub(crate) fn answer(&mut self, key: GroupKey, id: OperationId, answer: &Answer, cx: &mut GroupContext<'_>) {
        if let Some(group) = self.groups.get_mut(&key) {
            group.answer(id, answer, cx);
            self.proceed(key, cx);
        }
    }

    pub(crate) fn receive_peer(&mut self, message: GroupMessage, cx: &mut GroupContext<'_>) {
        if let Some(group) = self.groups.get_mut(&message.group) {
            match message.kind {
                GroupMessageKind::Ask { holds } => group.asked(message.from, holds, cx),
                GroupMessageKind::Unassigned => group.reread(),
            }
            self.proceed(message.group, cx);
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.groups.len()
    }

    fn proceed(&mut self, key: GroupKey, cx: &mut GroupContext<'_>) {
        if let Some(group) = self.groups.get_mut(&key) {
            group.proceed(cx);
            if group.is_idle(cx.me) {
                self.groups.remove(&key);
            }
        }
    }
}
