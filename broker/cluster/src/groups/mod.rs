//! Shared subscriptions across nodes. Each node with members of a group delivers some partitions to them, as assigned by the group's
//! record.
//!
//! When a node is removed, its partitions become free. A node without members returns its partitions. A node that delivers less than its
//! share asks the one that delivers most.

mod context;
mod group;
mod health_check;
mod message;

use std::collections::{BTreeMap, BTreeSet};

use crate::names::{ClientKey, GroupKey, Partition};
use crate::operation::{Answer, OperationId};
use crate::record::Place;

pub(crate) use context::GroupContext;
use group::Group;
pub(crate) use health_check::HealthCheck;
pub use health_check::HealthCheckStatus;
pub(crate) use message::{GroupMessage, GroupMessageKind};

/// The groups that involve this node.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    groups: BTreeMap<GroupKey, Group>,
}

impl Groups {
    /// Adds a session of this node to a group.
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

    /// A member is no longer on this node.
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

    /// A session has ended that was a member with this epoch or an earlier one.
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

    /// Returns a group, creating it if needed.
    fn group(&mut self, key: GroupKey, share: &str) -> &mut Group {
        self.groups.entry(key).or_insert_with(|| Group::new(key, share))
    }

    /// Whether this node serves a member.
    fn serves(&self, key: GroupKey, client: ClientKey) -> bool {
        self.groups.get(&key).is_some_and(|group| group.serves(client))
    }

    /// Whether this node is involved in a group.
    fn knows(&self, key: GroupKey) -> bool {
        self.groups.contains_key(&key)
    }

    /// Updates the progress of the partitions that this node delivers.
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

    /// The engine has stopped to deliver a partition.
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
                GroupMessageKind::Ask { holds } => group.on_request(message.from, holds, cx),
                GroupMessageKind::Unassigned => group.reread(),
            }
            self.proceed(message.group, cx);
        }
    }

    /// Returns the number of groups.
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
