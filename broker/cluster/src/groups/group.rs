//! One group of a shared subscription, as seen by one node.
//!
//! The record is read, changed as a whole, and written with its revision as precondition. Only the record tells the outcome of a write:
//! its content is in effect, whichever node wrote it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::mutant::{Mutant, is};
use crate::names::{ClientKey, GroupKey, Incarnation, Key, Partition};
use crate::numbers::Revision;
use crate::operation::{Answer, Decision, Operation, OperationId, Refusal};
use crate::outbox::Purpose;
use crate::record::{GROUP_MEMBERS_MAX, Place, ShareRecord};

use super::{GroupContext, GroupMessage, GroupMessageKind};

/// How often a node with members checks whether there are partitions to deliver, in milliseconds.
const LOOK_MS: u64 = 5000;
/// How often a node with less than its share checks and asks, in milliseconds.
const ASK_MS: u64 = 1000;
/// How long a node does not take back partitions that it has given to another one, in milliseconds.
const YIELD_MS: u64 = 3000;

#[derive(Debug)]
pub(super) struct Group {
    key: GroupKey,
    share: Arc<str>,
    /// The last observed record. An unknown group has none.
    seen: Option<(Option<Revision>, ShareRecord)>,
    /// The last revision that this node knows of.
    newest: Option<Revision>,
    /// The time since which the store reports only an older record, or none, as a replaced leader does.
    older_since_ms: Option<u64>,
    step: Step,
    /// The precondition of a write with an unknown outcome: while the record has this revision, the write may still arrive.
    unconfirmed_revision: Option<Option<Revision>>,
    /// Members whose sessions are on this node, with their epochs.
    local_members: BTreeMap<ClientKey, u64>,
    /// Those of them that wait for the record.
    joining: BTreeSet<ClientKey>,
    leaving: BTreeMap<ClientKey, u64>,
    /// The engine's progress in the partitions that it delivers.
    progress: BTreeMap<Partition, (Place, BTreeSet<Place>)>,
    leases: BTreeMap<Partition, Lease>,
    /// Partitions that the record has taken from this node before the engine has returned them. They are not leased again until then, so
    /// that a report about the old lease is not taken for one about the new lease.
    overdue: BTreeSet<Partition>,
    /// Partitions that this node leaves to others, with the end of that time.
    yielded: BTreeMap<Partition, u64>,
    /// A node that requests some of these partitions.
    requested_by: Option<Incarnation>,
    check_at_ms: u64,
}

#[derive(Debug)]
enum Step {
    Idle,
    Reading(OperationId),
    /// The record to write, and the expected revision.
    Writing(OperationId, Box<ShareRecord>, Option<Revision>),
    /// The store does not answer, or the record has a newer version.
    Waiting {
        until_ms: u64,
    },
}

/// A partition that the engine delivers.
#[derive(Debug, PartialEq, Eq)]
enum Lease {
    Held,
    /// The engine was asked to return it.
    Recalled,
    /// The engine has returned it, with its progress.
    Returned(Place, BTreeSet<Place>),
}

impl Group {
    pub(super) fn new(key: GroupKey, share: &str) -> Group {
        Group {
            key,
            share: share.into(),
            seen: None,
            newest: None,
            older_since_ms: None,
            step: Step::Idle,
            unconfirmed_revision: None,
            local_members: BTreeMap::new(),
            joining: BTreeSet::new(),
            leaving: BTreeMap::new(),
            progress: BTreeMap::new(),
            leases: BTreeMap::new(),
            overdue: BTreeSet::new(),
            yielded: BTreeMap::new(),
            requested_by: None,
            check_at_ms: 0,
        }
    }

    pub(super) fn join(&mut self, client: ClientKey, epoch: u64) {
        self.local_members.insert(client, epoch);
        self.joining.insert(client);
    }

    /// The session moves to another node, or its client is offline.
    pub(super) fn leave(&mut self, client: ClientKey) {
        self.local_members.remove(&client);
        self.joining.remove(&client);
    }

    pub(super) fn part(&mut self, client: ClientKey, epoch: u64) {
        self.leave(client);
        self.forget(client, epoch);
    }

    /// Removes the client's membership if it has this epoch or an earlier one.
    pub(super) fn forget(&mut self, client: ClientKey, epoch: u64) {
        let leaving = self.leaving.entry(client).or_insert(epoch);
        *leaving = (*leaving).max(epoch);
    }

    pub(super) fn serves(&self, client: ClientKey) -> bool {
        self.local_members.contains_key(&client)
    }

    pub(super) fn checkpoint(&mut self, progress: Vec<(Partition, Place, Vec<Place>)>) {
        for (partition, next, open) in progress {
            if self.leases.contains_key(&partition) {
                self.progress.insert(partition, (next, open.into_iter().collect()));
            }
        }
    }

    pub(super) fn returned(&mut self, partition: Partition, next: Place, open: BTreeSet<Place>) {
        if self.overdue.remove(&partition) && !is(Mutant::TrustsLateReturns) {
            return self.reread();
        }
        if let Some(lease) = self.leases.get_mut(&partition) {
            *lease = Lease::Returned(next, open);
        }
    }

    /// Reads the record again.
    pub(super) fn reread(&mut self) {
        if matches!(self.step, Step::Idle) {
            self.seen = None;
        }
    }

    /// Another node delivers fewer partitions than this one.
    pub(super) fn on_request(&mut self, by: Incarnation, holds: u8, cx: &mut GroupContext<'_>) {
        let held: Vec<_> = self.leases.iter().filter(|(_, lease)| **lease == Lease::Held).map(|(of, _)| *of).collect();
        // The transfer leaves both with the same number, or the other node with one less.
        let spare = held.len().saturating_sub(holds.into()) / 2;
        if by == cx.me || held.len() < self.leases.len() {
            return;
        }
        self.requested_by = Some(by);
        for partition in held.into_iter().rev().take(spare) {
            self.yielded.insert(partition, cx.now_ms + YIELD_MS);
        }
    }

    pub(super) fn advance(&mut self, cx: &mut GroupContext<'_>) {
        self.yielded.retain(|_, until_ms| cx.now_ms < *until_ms);
        if matches!(self.step, Step::Waiting { until_ms } if until_ms <= cx.now_ms) {
            self.step = Step::Idle;
        }
        if self.local_members.is_empty() || cx.now_ms < self.check_at_ms || !matches!(self.step, Step::Idle) {
            return;
        }
        self.request_partitions(cx);
        self.seen = None;
    }

    /// Asks the node that delivers most partitions, if this one delivers less than its share.
    fn request_partitions(&mut self, cx: &mut GroupContext<'_>) {
        self.check_at_ms = cx.now_ms + LOOK_MS;
        let Some((_, record)) = &self.seen else { return };
        let mut held = BTreeMap::from([(cx.me, 0u8)]);
        for holder in record.holders.iter().flatten() {
            *held.entry(*holder).or_default() += 1;
            if *holder != cx.me && !cx.nodes.is_known(*holder) {
                cx.out.ask(Purpose::NodeCheck(*holder), Operation::Get(Key::Node(*holder)));
            }
        }
        let holds = held[&cx.me];
        if let Some((most, count)) = held.iter().max_by_key(|(_, count)| **count)
            && holds + 1 < *count
        {
            self.check_at_ms = cx.now_ms + ASK_MS;
            let kind = GroupMessageKind::Ask { holds };
            cx.out.send_bytes(*most, GroupMessage { from: cx.me, group: self.key, kind }.encode());
        }
    }

    pub(super) fn answer(&mut self, id: OperationId, answer: &Answer, cx: &mut GroupContext<'_>) {
        match (std::mem::replace(&mut self.step, Step::Idle), answer) {
            (Step::Reading(op), Answer::Got(found)) if op == id => match found {
                _ if self.is_outdated(found.as_ref().map(|(revision, _)| *revision), cx) => self.wait(cx),
                None => self.read(None, ShareRecord::new(&self.share, cx.position), cx),
                Some((revision, value)) => match ShareRecord::decode(value) {
                    Ok(record) if *record.share == *self.share => self.read(Some(*revision), record, cx),
                    _ => {
                        self.refuse(&self.joining.clone(), Refusal::Unreadable, cx);
                        self.wait(cx);
                    }
                },
            },
            (Step::Writing(op, record, _), Answer::Put(revision)) if op == id => {
                self.newest = Some(*revision);
                self.observe(Some(*revision), *record, cx);
            }
            // Only the record tells whether the write was done.
            (Step::Writing(op, _, expected), answer) if op == id => {
                if *answer == Answer::Unknown {
                    self.unconfirmed_revision = Some(expected);
                }
                self.seen = None;
            }
            (Step::Reading(op), _) if op == id => self.wait(cx),
            (step, _) => self.step = step,
        }
    }

    fn wait(&mut self, cx: &GroupContext<'_>) {
        self.seen = None;
        self.step = Step::Waiting { until_ms: cx.now_ms + cx.settings.retry_ms };
    }

    /// Whether the store is known to have had a later revision, and may still have it.
    fn is_outdated(&mut self, revision: Option<Revision>, cx: &GroupContext<'_>) -> bool {
        if revision < self.newest && !is(Mutant::AppliesOlderGroups) {
            let since_ms = *self.older_since_ms.get_or_insert(cx.now_ms);
            if cx.now_ms < since_ms + cx.settings.confirm_gone_ms {
                return true;
            }
        }
        (self.newest, self.older_since_ms) = (revision, None);
        false
    }

    /// Handles a record from the store. If it gives this node partitions that it does not deliver, a write must first confirm it.
    fn read(&mut self, revision: Option<Revision>, record: ShareRecord, cx: &mut GroupContext<'_>) {
        let is_new = |partition: Partition| {
            record.holder(partition) == Some(cx.me)
                && !self.leases.contains_key(&partition)
                && !self.is_overdue(partition)
        };
        if Partition::all().any(is_new) && !is(Mutant::AppliesUnverifiedGroups) {
            self.unconfirmed_revision = Some(revision);
            self.seen = Some((revision, record));
        } else {
            self.observe(revision, record, cx);
        }
    }

    /// Applies a record, and passes the consequences to the engine.
    fn observe(&mut self, revision: Option<Revision>, record: ShareRecord, cx: &mut GroupContext<'_>) {
        self.notify_joined(&record, cx);
        self.leaving.retain(|client, epoch| record.members.get(client).is_some_and(|known| known <= epoch));
        let mut is_free_again = false;
        for partition in Partition::all() {
            let is_mine = record.holder(partition) == Some(cx.me);
            match self.leases.get(&partition) {
                None if is_mine && !self.is_overdue(partition) => {
                    self.leases.insert(partition, Lease::Held);
                    let open = record.cursors.open(partition).filter(|_| !is(Mutant::LeasesWithoutOpen)).collect();
                    let next = match is(Mutant::LeasesFromPosition) {
                        true => cx.position[partition.index()],
                        false => record.cursors.next(partition),
                    };
                    let share = self.share.clone();
                    cx.out.decide(Decision::Lease { group: self.key, share, partition, next, open });
                }
                Some(Lease::Held) if !is_mine => cx.out.decide(Decision::Recall { group: self.key, partition }),
                _ => {}
            }
            if !is_mine {
                self.progress.remove(&partition);
                let lease = self.leases.remove(&partition);
                is_free_again |= lease.is_some() && record.holder(partition).is_none();
                if matches!(lease, Some(Lease::Held | Lease::Recalled)) {
                    self.overdue.insert(partition);
                }
            }
        }
        if is_free_again {
            let others: BTreeSet<_> = record.holders.iter().flatten().filter(|holder| **holder != cx.me).collect();
            for other in others.into_iter().chain(&self.requested_by.take()) {
                let look = GroupMessage { from: cx.me, group: self.key, kind: GroupMessageKind::Unassigned };
                cx.out.send_bytes(*other, look.encode());
            }
        }
        self.seen = Some((revision, record));
    }

    fn is_overdue(&self, partition: Partition) -> bool {
        self.overdue.contains(&partition) && !is(Mutant::TrustsLateReturns)
    }

    /// Only this node can remove a member with its own epoch.
    fn notify_joined(&mut self, record: &ShareRecord, cx: &mut GroupContext<'_>) {
        for (client, epoch) in &self.local_members {
            let is_there = record.members.get(client) == Some(epoch) && !self.leaving.contains_key(client);
            if is_there && self.joining.remove(client) {
                cx.out.decide(Decision::Joined { client: *client, group: self.key });
            }
        }
    }

    fn refuse(&mut self, clients: &BTreeSet<ClientKey>, why: Refusal, cx: &mut GroupContext<'_>) {
        for client in clients {
            self.leave(*client);
            cx.out.decide(Decision::NotJoined { client: *client, group: self.key, why });
        }
    }

    /// Reads the record or writes changes to it, unless an operation is in flight.
    pub(super) fn proceed(&mut self, cx: &mut GroupContext<'_>) {
        if !matches!(self.step, Step::Idle) || self.is_idle(cx.me) {
            return;
        }
        let key = Key::Group(self.key);
        let Some((revision, seen)) = self.seen.take() else {
            self.step = Step::Reading(cx.out.ask(Purpose::Group(self.key), Operation::Get(key)));
            return;
        };
        self.notify_joined(&seen, cx);
        self.recall(cx);
        let desired = self.desired(&seen, cx);
        let is_left_out =
            |client: &&ClientKey| !desired.members.contains_key(*client) && !self.leaving.contains_key(*client);
        let left_out = self.joining.iter().filter(is_left_out).copied().collect();
        self.refuse(&left_out, Refusal::TooMany, cx);
        // Any write prevents a late write of this node from succeeding.
        self.unconfirmed_revision = self.unconfirmed_revision.filter(|expected| *expected == revision);
        if desired == seen && self.unconfirmed_revision.is_none() {
            self.seen = Some((revision, seen));
            return;
        }
        let put = Operation::Put { key, expected: revision, value: desired.encode() };
        self.step = Step::Writing(cx.out.ask(Purpose::Group(self.key), put), Box::new(desired), revision);
    }

    /// Recalls the partitions that this node must no longer deliver.
    fn recall(&mut self, cx: &mut GroupContext<'_>) {
        let is_over = self.local_members.is_empty() && !is(Mutant::KeepsLeases);
        for (partition, lease) in &mut self.leases {
            if *lease == Lease::Held && (is_over || self.yielded.contains_key(partition)) {
                *lease = Lease::Recalled;
                cx.out.decide(Decision::Recall { group: self.key, partition: *partition });
            }
        }
    }

    /// Returns the desired record.
    fn desired(&self, seen: &ShareRecord, cx: &GroupContext<'_>) -> ShareRecord {
        let mut record = seen.clone();
        let begins_anew = record.members.is_empty() && !self.local_members.is_empty();
        if begins_anew {
            // Messages published while the group had no members are not for it.
            record = ShareRecord::new(&self.share, cx.position);
        }
        for (client, epoch) in &self.local_members {
            if record.members.len() < GROUP_MEMBERS_MAX || record.members.contains_key(client) {
                let known = record.members.entry(*client).or_default();
                *known = (*known).max(*epoch);
            }
        }
        // A client that has subscribed on another node is a member with a higher epoch.
        record.members.retain(|client, known| self.leaving.get(client).is_none_or(|epoch| epoch < known));
        for partition in Partition::all() {
            match (self.leases.get(&partition), self.progress.get(&partition)) {
                // Partitions that this node delivered before are returned; their old progress does not count.
                (Some(_), _) if begins_anew && !is(Mutant::RecreatesAtOldPosition) => {}
                (Some(Lease::Returned(next, open)), _) => {
                    record.holders[partition.index()] = None;
                    let open = if is(Mutant::ReturnsWithoutOpen) { BTreeSet::new() } else { open.clone() };
                    record.cursors.set(partition, *next, open);
                }
                (Some(_), Some((next, open))) => record.cursors.set(partition, *next, open.clone()),
                (Some(_), None) => {}
                (None, _) => {
                    let is_free = seen.holder(partition).is_none_or(|holder| {
                        is(Mutant::LeasesFromLiveHolder) || cx.nodes.is_over(holder) && !is(Mutant::IgnoresDeadHolders)
                    });
                    let is_left = self.yielded.contains_key(&partition) || self.is_overdue(partition);
                    if is_free && !is_left && !self.local_members.is_empty() && cx.takes_more {
                        record.holders[partition.index()] = Some(cx.me);
                    }
                }
            }
        }
        record
    }

    /// Whether this node has nothing more to do for the group.
    pub(super) fn is_idle(&self, me: Incarnation) -> bool {
        let holds = self.seen.as_ref().is_some_and(|(_, record)| record.partitions_of(me).next().is_some());
        let is_done = self.leaving.is_empty()
            && self.leases.is_empty()
            && self.overdue.is_empty()
            && self.unconfirmed_revision.is_none();
        self.local_members.is_empty() && is_done && !holds && matches!(self.step, Step::Idle | Step::Waiting { .. })
    }
}
