//! The other nodes: their observed records, and the removal of those whose lease has expired.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::mutant::{Mutant, is};
use crate::names::{Incarnation, Key, LogSubject, PARTITIONS, Partition};
use crate::numbers::{Revision, Sequence};
use crate::operation::{Answer, Decision, Operation, OperationId};
use crate::outbox::{Outbox, Purpose};
use crate::record::{Body, End, Group, Load, NodeRecord, NodeState, Place, RecordError, RetainEntry, RetainedRecord};
use crate::settings::Settings;

pub(crate) type Ends = [End; PARTITIONS as usize];

/// The number of removed incarnations that are remembered. For a forgotten one, the store is asked again.
const GONE_MAX: usize = 4096;

/// No record has this revision.
const NO_RECORD: Revision = Revision(0);

#[derive(Debug)]
pub(crate) struct Nodes {
    me: Incarnation,
    seen: BTreeMap<Incarnation, ObservedRecord>,
    removals: BTreeMap<Incarnation, Removal>,
    /// Incarnations with a record that this broker cannot read.
    unreadable: BTreeMap<Incarnation, Revision>,
    /// Incarnations without a record, in order of discovery. An incarnation whose record was deleted never returns.
    deleted: BTreeSet<Incarnation>,
    deletion_order: VecDeque<Incarnation>,
    /// Messages of dead nodes that are in the log and may not be retained, with the removal and the attempt that found them.
    repairs: Vec<(Incarnation, u64, RetainedRecord)>,
}

/// How a node sees an incarnation of another node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    /// The incarnation.
    pub incarnation: Incarnation,
    /// The name of the node.
    pub name: String,
    /// The Server Reference for its clients.
    pub reference: String,
    /// Its health.
    pub health: NodeHealth,
    /// Sessions that it owns, as reported by its last heartbeat.
    pub sessions: u32,
    /// The time since its record changed, by this node's clock, in milliseconds: for a live node, the age of its heartbeat.
    pub age_ms: u64,
}

/// The health of an incarnation, as seen by another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeHealth {
    /// It accepts clients.
    Alive,
    /// It accepts no clients.
    Closed,
    /// It is being removed.
    Removing,
    /// It is removed, and sessions may still name it as their owner.
    Removed,
}

#[derive(Debug)]
struct ObservedRecord {
    revision: Revision,
    record: NodeRecord,
    /// The time since which the record has had this revision, by this node's clock.
    since_ms: u64,
}

/// The removal of a node, in steps. Anything uncertain is read again from the store, and each step may be repeated.
#[derive(Debug)]
struct Removal {
    step: Step,
    name: String,
    attempt: u64,
    /// The revision of the record that says `removing`.
    revision: Revision,
    ends: Box<Ends>,
    /// The number of partitions that are fenced, in order.
    fenced: usize,
    /// The end of the last fenced partition.
    end: End,
    /// The lock of its data directory proves that the node is dead, whatever its record says.
    is_certain: bool,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Verifying(OperationId),
    Marking(OperationId),
    Reading(OperationId),
    Fencing(OperationId, Option<Sequence>),
    /// Reading groups before the fence that have messages to retain.
    Repairing(OperationId),
    /// These are being retained: the number of pending ones, and the sequence of their group.
    Settling(usize, Sequence),
    Sealing(OperationId),
}

impl Step {
    fn operation(self) -> Option<OperationId> {
        match self {
            Step::Verifying(id)
            | Step::Marking(id)
            | Step::Reading(id)
            | Step::Fencing(id, _)
            | Step::Repairing(id)
            | Step::Sealing(id) => Some(id),
            Step::Settling(..) => None,
        }
    }
}

impl Nodes {
    pub(crate) fn new(me: Incarnation) -> Nodes {
        Nodes {
            me,
            seen: BTreeMap::new(),
            removals: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            deleted: BTreeSet::new(),
            deletion_order: VecDeque::new(),
            repairs: Vec::new(),
        }
    }

    /// Returns the final log positions of a removed node, or `None` while it may still write.
    pub(crate) fn ends(&self, node: Incarnation) -> Option<&Ends> {
        match &self.seen.get(&node)?.record.state {
            NodeState::Removed { ends } => Some(ends),
            _ => None,
        }
    }

    /// Whether nothing of a node is in flight any more: it is removed, or was removed and forgotten.
    pub(crate) fn is_over(&self, node: Incarnation) -> bool {
        self.ends(node).is_some() || self.is_deleted(node)
    }

    /// Whether a node is being removed.
    pub(crate) fn is_removing(&self, node: Incarnation) -> bool {
        self.seen.get(&node).is_some_and(|seen| matches!(seen.record.state, NodeState::Removing { .. }))
    }

    /// Whether this incarnation had a record, which was deleted.
    pub(crate) fn is_deleted(&self, node: Incarnation) -> bool {
        self.deleted.contains(&node)
    }

    /// Whether anything is known about this incarnation.
    pub(crate) fn is_known(&self, node: Incarnation) -> bool {
        self.seen.contains_key(&node) || self.deleted.contains(&node)
    }

    /// Returns removed incarnations that sessions may still name, with the revisions of their records.
    pub(crate) fn removed(&self) -> impl Iterator<Item = (Incarnation, Revision)> {
        let is_removed = |seen: &ObservedRecord| matches!(seen.record.state, NodeState::Removed { .. });
        self.seen.iter().filter(move |(_, seen)| is_removed(seen)).map(|(node, seen)| (*node, seen.revision))
    }

    /// Returns the other live nodes, as far as known, with their load and their Server Reference.
    pub(crate) fn living(&self, now_ms: u64, settings: &Settings) -> impl Iterator<Item = (Incarnation, Load, &str)> {
        let timeout_ms = settings.lease_ms;
        self.seen.iter().filter_map(move |(node, seen)| match &seen.record.state {
            NodeState::Alive { load, .. } if *node != self.me && now_ms < seen.since_ms + timeout_ms => {
                Some((*node, *load, seen.record.reference.as_str()))
            }
            _ => None,
        })
    }

    /// Returns the other live nodes with this name, as far as known.
    pub(crate) fn named(&self, name: &str, now_ms: u64, settings: &Settings) -> impl Iterator<Item = Incarnation> {
        let is_it = move |node: &Incarnation| self.seen.get(node).is_some_and(|seen| seen.record.name == name);
        self.living(now_ms, settings).map(|(node, ..)| node).filter(is_it)
    }

    /// Whether this node is responsible for a thing, by rendezvous hashing among the live nodes: the one with the highest hash is.
    pub(crate) fn is_assigned_here(&self, thing: u128, now_ms: u64, settings: &Settings) -> bool {
        let weight = |node: Incarnation| {
            // The last step of SplitMix64.
            let mut mixed = node.0.get() ^ thing as u64 ^ (thing >> 64) as u64;
            mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ mixed >> 31
        };
        let mine = weight(self.me);
        self.living(now_ms, settings).filter(|(_, load, _)| !load.is_closed).all(|(node, ..)| weight(node) <= mine)
    }

    /// The store has reported no record for this incarnation. A replaced leader that does not know it yet may report that for a node that
    /// has started since, whose sessions must not be claimed. So the report alone proves nothing: this node writes the record, which
    /// succeeds only if there is none, and removes the incarnation.
    pub(crate) fn missed(&mut self, node: Incarnation, out: &mut Outbox) {
        if is(Mutant::TrustsOneMissingAnswer) || self.ends(node).is_some() {
            return self.forget(node);
        }
        // A node that was seen alive is removed when its heartbeats stop.
        if !self.is_known(node) && !self.removals.contains_key(&node) {
            self.mark(node, false, out);
        }
    }

    /// Forgets an incarnation that has ended and has nothing in flight: its record was deleted, or a lock proves that it has ended.
    pub(crate) fn forget(&mut self, node: Incarnation) {
        self.seen.remove(&node);
        self.removals.remove(&node);
        self.unreadable.remove(&node);
        if self.deleted.insert(node) {
            self.deletion_order.push_back(node);
        }
        if self.deletion_order.len() > GONE_MAX
            && let Some(oldest) = self.deletion_order.pop_front()
        {
            self.deleted.remove(&oldest);
        }
    }

    /// Returns messages that removals have found, to be retained.
    pub(crate) fn take_repairs(&mut self) -> Vec<(Incarnation, u64, RetainedRecord)> {
        std::mem::take(&mut self.repairs)
    }

    /// A message that a removal has found was retained.
    pub(crate) fn repaired(&mut self, node: Incarnation, attempt: u64, out: &mut Outbox) {
        if let Some(removal) = self.removals.get_mut(&node).filter(|removal| removal.attempt == attempt)
            && let Step::Settling(left, sequence) = removal.step
        {
            match left - 1 {
                0 => removal.repair(node, Sequence(sequence.0 + 1), out),
                left => removal.step = Step::Settling(left, sequence),
            }
        }
    }

    pub(crate) fn status(&self, now_ms: u64) -> Vec<NodeStatus> {
        let status = |(node, seen): (&Incarnation, &ObservedRecord)| {
            let (health, sessions) = match &seen.record.state {
                NodeState::Alive { load, .. } if load.is_closed => (NodeHealth::Closed, load.sessions),
                NodeState::Alive { load, .. } => (NodeHealth::Alive, load.sessions),
                NodeState::Removing { .. } => (NodeHealth::Removing, 0),
                NodeState::Removed { .. } => (NodeHealth::Removed, 0),
            };
            NodeStatus {
                incarnation: *node,
                name: seen.record.name.clone(),
                reference: seen.record.reference.clone(),
                health,
                sessions,
                age_ms: now_ms.saturating_sub(seen.since_ms),
            }
        };
        self.seen.iter().map(status).collect()
    }

    /// Observes a record. Records may arrive in any order and repeatedly.
    pub(crate) fn observe(&mut self, now_ms: u64, node: Incarnation, revision: Revision, record: NodeRecord) {
        // The record is older than its deletion. The first heartbeat may have come after that, or the mark of a node that had missed the
        // record: then the incarnation is removed again.
        let is_removed = matches!(record.state, NodeState::Removed { .. });
        if self.deleted.contains(&node) && is_removed && !self.seen.contains_key(&node) {
            return;
        }
        if self.unreadable.get(&node).is_some_and(|unreadable| revision <= *unreadable) {
            return;
        }
        self.unreadable.remove(&node);
        if self.seen.get(&node).is_none_or(|seen| seen.revision < revision) {
            self.seen.insert(node, ObservedRecord { revision, record, since_ms: now_ms });
        }
    }

    /// Observes an unreadable record. Earlier knowledge about that incarnation is void, so it is not declared dead.
    pub(crate) fn observe_unreadable(
        &mut self,
        node: Incarnation,
        revision: Revision,
        error: RecordError,
        out: &mut Outbox,
    ) {
        if self.seen.get(&node).is_some_and(|seen| revision <= seen.revision) {
            return;
        }
        self.seen.remove(&node);
        self.removals.remove(&node);
        if self.unreadable.insert(node, revision).is_none() {
            out.decide(Decision::UnreadableNode { node, error });
        }
    }

    /// Restarts all timeouts: this node's own heartbeats were late, so those of others may have been late as well.
    pub(crate) fn reset_timers(&mut self, now_ms: u64) {
        self.seen.values_mut().for_each(|seen| seen.since_ms = now_ms);
    }

    /// Removes a node that is known to be dead.
    pub(crate) fn remove_now(&mut self, node: Incarnation, out: &mut Outbox) {
        let name = String::new();
        let (revision, ends) = (NO_RECORD, Box::default());
        let step = Step::Verifying(out.ask(Purpose::Removal(node), Operation::Get(Key::Node(node))));
        let (attempt, fenced, end, is_certain) = (0, 0, End::default(), true);
        self.removals.insert(node, Removal { step, name, attempt, revision, ends, fenced, end, is_certain });
    }

    /// Starts to remove nodes whose record has not changed for too long.
    pub(crate) fn advance(&mut self, now_ms: u64, settings: &Settings, out: &mut Outbox) {
        let timeout_ms =
            if is(Mutant::RemovesEarly) { settings.heartbeat_ms } else { settings.lease_ms + settings.margin_ms };
        let me = self.me;
        let is_due = |node: Incarnation, seen: &ObservedRecord| match &seen.record.state {
            NodeState::Alive { .. } => node != me && seen.since_ms + timeout_ms <= now_ms,
            // A removal that this node began and lost track of is resumed at once.
            NodeState::Removing { by, .. } => *by == me || seen.since_ms + timeout_ms <= now_ms,
            NodeState::Removed { .. } => false,
        };
        let due: Vec<_> = self
            .seen
            .iter()
            .filter(|(node, seen)| !self.removals.contains_key(node) && is_due(**node, seen))
            .map(|(node, _)| *node)
            .collect();
        for node in due {
            self.mark(node, false, out);
        }
    }

    /// Marks the record as removing, if it is unchanged, or if there is none where none was seen.
    fn mark(&mut self, node: Incarnation, is_certain: bool, out: &mut Outbox) {
        let seen = self.seen.get(&node);
        let attempt = match seen.map(|seen| &seen.record.state) {
            Some(NodeState::Removing { attempt, .. }) => attempt + 1,
            _ => 1,
        };
        let name = seen.map_or_else(String::new, |seen| seen.record.name.clone());
        let record = ended(&name, NodeState::Removing { by: self.me, attempt });
        let expected = seen.map(|seen| seen.revision);
        let put = Operation::Put { key: Key::Node(node), expected, value: record.encode() };
        let (revision, ends) = (expected.unwrap_or(NO_RECORD), Box::default());
        let step = Step::Marking(out.ask(Purpose::Removal(node), put));
        let (fenced, end) = (0, End::default());
        self.removals.insert(node, Removal { step, name, attempt, revision, ends, fenced, end, is_certain });
    }

    pub(crate) fn answer(
        &mut self,
        now_ms: u64,
        node: Incarnation,
        id: OperationId,
        answer: &Answer,
        out: &mut Outbox,
    ) {
        let me = self.me;
        let Some(removal) = self.removals.get_mut(&node).filter(|removal| removal.step.operation() == Some(id)) else {
            return;
        };
        match (removal.step, answer) {
            (Step::Verifying(_), Answer::Got(found)) => self.check_record(now_ms, node, found.as_ref(), out),
            // A write has shown that there was no record: the incarnation never served, or was removed and forgotten. Nothing is left to
            // remove.
            (Step::Marking(_), Answer::Put(revision)) if removal.is_certain && removal.revision == NO_RECORD => {
                self.removals.remove(&node);
                out.ask(Purpose::Forgetting(node), Operation::Remove { key: Key::Node(node), expected: *revision });
            }
            (Step::Marking(_), Answer::Put(revision)) => {
                let (revision, state) = (*revision, NodeState::Removing { by: me, attempt: removal.attempt });
                removal.revision = revision;
                let record = ended(&removal.name, state);
                removal.proceed(node, out);
                self.observe(now_ms, node, revision, record);
            }
            (Step::Reading(_), Answer::Last(found)) => removal.fence(node, found.as_ref(), out),
            (Step::Fencing(_, unsettled), Answer::Appended(_)) => removal.read_behind_fence(node, unsettled, out),
            (Step::Repairing(_), Answer::Last(found)) => {
                let found = removal.read_behind(node, found.as_ref(), out);
                let attempt = removal.attempt;
                self.repairs.extend(found.into_iter().map(|record| (node, attempt, record)));
            }
            // A message that was retained once is not retained again.
            (Step::Repairing(_), _) => removal.proceed(node, out),
            // Another group has come before the fence, or the fence itself has been written.
            (Step::Reading(_) | Step::Fencing(..), _) => removal.proceed(node, out),
            (Step::Sealing(_), Answer::Put(revision)) => {
                let record = ended(&removal.name, NodeState::Removed { ends: removal.ends.clone() });
                let revision = *revision;
                self.removals.remove(&node);
                self.observe(now_ms, node, revision, record);
            }
            _ => removal.step = Step::Verifying(out.ask(Purpose::Removal(node), Operation::Get(Key::Node(node)))),
        }
    }

    /// Checks the record after a conflict or an unknown outcome.
    fn check_record(&mut self, now_ms: u64, node: Incarnation, found: Option<&(Revision, Vec<u8>)>, out: &mut Outbox) {
        let Some(mut removal) = self.removals.remove(&node) else { return };
        let Some((revision, value)) = found else {
            let was_over = self.ends(node).is_some() || self.is_deleted(node);
            if was_over || is(Mutant::TrustsOneMissingAnswer) {
                return self.forget(node);
            }
            // The observed record may have been deleted since. If it was not, this is rejected.
            self.seen.remove(&node);
            return self.mark(node, removal.is_certain, out);
        };
        let revision = *revision;
        let record = match NodeRecord::decode(value) {
            Ok(record) => record,
            Err(error) => return self.observe_unreadable(node, revision, error, out),
        };
        self.observe(now_ms, node, revision, record.clone());
        match record.state {
            NodeState::Removing { by, attempt } if by == self.me && attempt == removal.attempt => {
                removal.revision = revision;
                removal.proceed(node, out);
                self.removals.insert(node, removal);
            }
            NodeState::Alive { .. } if removal.is_certain => self.mark(node, true, out),
            NodeState::Alive { .. } if is(Mutant::RemovesWithoutRevision) => self.mark(node, false, out),
            // The node is alive, another one removes it, or it is removed. If that takes too long, this starts again.
            _ => {}
        }
    }
}

impl Removal {
    fn proceed(&mut self, node: Incarnation, out: &mut Outbox) {
        self.step = match Partition::all().nth(self.fenced).filter(|_| !is(Mutant::SkipsFence)) {
            Some(partition) => {
                let subject = LogSubject { partition, writer: node };
                Step::Reading(out.ask(Purpose::Removal(node), Operation::Last(subject)))
            }
            None => {
                let record = ended(&self.name, NodeState::Removed { ends: self.ends.clone() });
                let put =
                    Operation::Put { key: Key::Node(node), expected: Some(self.revision), value: record.encode() };
                Step::Sealing(out.ask(Purpose::Removal(node), put))
            }
        };
    }

    /// Appends a fence after the last group of a partition.
    fn fence(&mut self, node: Incarnation, found: Option<&(Sequence, Vec<u8>)>, out: &mut Outbox) {
        let Some(partition) = Partition::all().nth(self.fenced) else { return };
        let subject = LogSubject { partition, writer: node };
        match found.map(|(sequence, group)| (*sequence, Group::decode(group))) {
            None => {
                self.end = End::default();
                self.append_fence(node, subject, None, None, out);
            }
            Some((_, Ok(Group { number, ordinal, unsettled, body: Body::Fence }))) => {
                self.end = End { group: number, ordinal };
                self.read_behind_fence(node, unsettled, out);
            }
            Some((sequence, Ok(Group { number, ordinal, unsettled, body: Body::Messages { to_retain, .. } }))) => {
                self.end = End { group: number, ordinal };
                let unsettled = unsettled.or_else(|| (!to_retain.is_empty()).then_some(sequence));
                self.append_fence(node, subject, Some(sequence), unsettled, out);
            }
            // This broker cannot read the group. The removal stays as it is, for a newer broker to resume.
            Some((_, Err(_))) => {}
        }
    }

    fn append_fence(
        &mut self,
        node: Incarnation,
        subject: LogSubject,
        expected: Option<Sequence>,
        unsettled: Option<Sequence>,
        out: &mut Outbox,
    ) {
        let fence = Group { number: self.end.group, ordinal: self.end.ordinal, unsettled, body: Body::Fence };
        let append = Operation::Append { subject, expected, group: fence.encode() };
        self.step = Step::Fencing(out.ask(Purpose::Removal(node), append), unsettled);
    }

    /// The partition is fenced. Messages that the node has written to the log and perhaps not retained are retained now, because readers of
    /// the removal record assume that everything in the log is done.
    fn read_behind_fence(&mut self, node: Incarnation, unsettled: Option<Sequence>, out: &mut Outbox) {
        match unsettled.filter(|_| !is(Mutant::SkipsRetainedRepair)) {
            Some(from) => self.repair(node, from, out),
            None => self.on_fenced(node, out),
        }
    }

    fn repair(&mut self, node: Incarnation, from: Sequence, out: &mut Outbox) {
        let Some(partition) = Partition::all().nth(self.fenced) else { return };
        let next = Operation::Next { subject: LogSubject { partition, writer: node }, from };
        self.step = Step::Repairing(out.ask(Purpose::Removal(node), next));
    }

    /// Returns the messages of the group that must be retained.
    fn read_behind(
        &mut self,
        node: Incarnation,
        found: Option<&(Sequence, Vec<u8>)>,
        out: &mut Outbox,
    ) -> Vec<RetainedRecord> {
        let group = found.map(|(sequence, group)| (*sequence, Group::decode(group)));
        let (sequence, messages, to_retain) = match group {
            Some((sequence, Ok(Group { body: Body::Messages { messages, to_retain }, .. }))) => {
                (sequence, messages, to_retain)
            }
            Some((_, Err(_))) => return Vec::new(),
            Some((_, Ok(Group { body: Body::Fence, .. }))) | None => {
                self.on_fenced(node, out);
                return Vec::new();
            }
        };
        let record = |to_retain: RetainEntry| {
            let place = Place { sequence, index: to_retain.index };
            let block = messages.get(to_retain.index as usize).map(Vec::as_slice).unwrap_or_default();
            RetainedRecord::of(place, to_retain.retain, to_retain.topic, block)
        };
        let records: Vec<_> = to_retain.into_iter().map(record).collect();
        if records.is_empty() {
            self.repair(node, Sequence(sequence.0 + 1), out);
        } else {
            self.step = Step::Settling(records.len(), sequence);
        }
        records
    }

    fn on_fenced(&mut self, node: Incarnation, out: &mut Outbox) {
        if let Some(known) = self.ends.get_mut(self.fenced) {
            *known = self.end;
        }
        self.fenced += 1;
        self.proceed(node, out);
    }
}

/// Returns the record of an ended incarnation, without a Server Reference.
fn ended(name: &str, state: NodeState) -> NodeRecord {
    NodeRecord { name: name.to_owned(), reference: String::new(), state }
}
