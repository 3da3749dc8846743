//! The other nodes: what has been seen of them, and the burial of those whose lease has run out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::mutant::{Mutant, is};
use crate::names::{Incarnation, Key, LogSubject, PARTITIONS, Partition};
use crate::operation::{Answer, Decision, Operation, OperationId, Revision, Sequence};
use crate::outbox::{Outbox, Purpose};
use crate::record::{Body, End, Group, Load, NodeRecord, NodeState, Place, RecordError, RetainEntry, RetainedRecord};
use crate::settings::Settings;

pub(crate) type Ends = [End; PARTITIONS as usize];

/// Lives that are remembered as gone. Who forgets one asks the store again.
const GONE_MAX: usize = 4096;

/// No record has this revision.
const NO_RECORD: Revision = Revision(0);

#[derive(Debug)]
pub(crate) struct Nodes {
    me: Incarnation,
    seen: BTreeMap<Incarnation, ObservedRecord>,
    removals: BTreeMap<Incarnation, Removal>,
    /// Lives with a record that this broker cannot read.
    unreadable: BTreeMap<Incarnation, Revision>,
    /// Lives without a record, in the order in which that was found out. A life whose record is gone never comes back.
    gone: BTreeSet<Incarnation>,
    gone_order: VecDeque<Incarnation>,
    /// Messages of dead nodes that are in the log and may not be retained: for which burial, and which attempt at it.
    repairs: Vec<(Incarnation, u64, RetainedRecord)>,
}

/// How a life of a node is seen by another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    /// Which life.
    pub incarnation: Incarnation,
    /// What operators call the node.
    pub name: String,
    /// Where its clients reach it.
    pub reference: String,
    /// How it is with it.
    pub health: NodeHealth,
    /// Sessions that it owns, as it said with its last beat.
    pub sessions: u32,
    /// How long ago its record changed, by this node's clock, in milliseconds: for a living node, the age of its beat.
    pub age_ms: u64,
}

/// In which state a life of a node is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeHealth {
    /// It takes clients.
    Alive,
    /// It takes no clients.
    Closed,
    /// It is being buried.
    Removing,
    /// It is buried, and sessions may still name it as their owner.
    Removed,
}

#[derive(Debug)]
struct ObservedRecord {
    revision: Revision,
    record: NodeRecord,
    /// Since when the record has had this revision, by this node's clock.
    since_ms: u64,
}

/// A burial goes from step to step. Whatever is not known for sure, the store is asked again, and all steps may be done twice.
#[derive(Debug)]
struct Removal {
    step: Step,
    name: String,
    attempt: u64,
    /// Of the record that says `dying`.
    revision: Revision,
    ends: Box<Ends>,
    /// Partitions that have been fenced off, in order.
    fenced: usize,
    /// Of the last of them, how it ends.
    end: End,
    /// The node is known to be dead, by the lock of its data directory, whatever its record says.
    is_certain: bool,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Verifying(OperationId),
    Marking(OperationId),
    Reading(OperationId),
    Fencing(OperationId, Option<Sequence>),
    /// Behind the fence, groups are read that have messages to retain.
    Repairing(OperationId),
    /// These are being retained: how many are not yet, and where their group stands.
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
            gone: BTreeSet::new(),
            gone_order: VecDeque::new(),
            repairs: Vec::new(),
        }
    }

    /// How far the groups of a buried node go; `None` while it may still write.
    pub(crate) fn ends(&self, node: Incarnation) -> Option<&Ends> {
        match &self.seen.get(&node)?.record.state {
            NodeState::Removed { ends } => Some(ends),
            _ => None,
        }
    }

    /// Whether nothing of a node is under way any more: it is buried, or was and has been forgotten.
    pub(crate) fn is_over(&self, node: Incarnation) -> bool {
        self.ends(node).is_some() || self.is_gone(node)
    }

    /// Whether a node is being buried.
    pub(crate) fn is_dying(&self, node: Incarnation) -> bool {
        self.seen.get(&node).is_some_and(|seen| matches!(seen.record.state, NodeState::Removing { .. }))
    }

    /// Whether there was a record of this life, and it has been removed.
    pub(crate) fn is_gone(&self, node: Incarnation) -> bool {
        self.gone.contains(&node)
    }

    /// Whether anything is known of this life.
    pub(crate) fn is_known(&self, node: Incarnation) -> bool {
        self.seen.contains_key(&node) || self.gone.contains(&node)
    }

    /// Lives that are buried and may still be named by sessions, with the revisions of their records.
    pub(crate) fn removed(&self) -> impl Iterator<Item = (Incarnation, Revision)> {
        let is_buried = |seen: &ObservedRecord| matches!(seen.record.state, NodeState::Removed { .. });
        self.seen.iter().filter(move |(_, seen)| is_buried(seen)).map(|(node, seen)| (*node, seen.revision))
    }

    /// Nodes other than this one that are alive as far as it is known, with what they have to do and where clients reach them.
    pub(crate) fn living(&self, now_ms: u64, settings: &Settings) -> impl Iterator<Item = (Incarnation, Load, &str)> {
        let patience_ms = settings.lease_ms;
        self.seen.iter().filter_map(move |(node, seen)| match &seen.record.state {
            NodeState::Alive { load, .. } if *node != self.me && now_ms < seen.since_ms + patience_ms => {
                Some((*node, *load, seen.record.reference.as_str()))
            }
            _ => None,
        })
    }

    /// Other nodes of this name that are alive as far as it is known.
    pub(crate) fn named(&self, name: &str, now_ms: u64, settings: &Settings) -> impl Iterator<Item = Incarnation> {
        let is_it = move |node: &Incarnation| self.seen.get(node).is_some_and(|seen| seen.record.name == name);
        self.living(now_ms, settings).map(|(node, ..)| node).filter(is_it)
    }

    /// Whether this node is to see to something, of all that are alive: each has a number for each thing, and the highest one has it.
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

    /// The store was asked for the record of this life, and has said that there is none. A leader that has been replaced and does not know it yet
    /// says so of a node that has begun since, and its sessions are not to be had. So nothing follows from that alone: whoever is told so writes the
    /// record, which succeeds only if there is none, and buries the life.
    pub(crate) fn missed(&mut self, node: Incarnation, out: &mut Outbox) {
        if is(Mutant::BelievesMissing) || self.ends(node).is_some() {
            return self.forget(node);
        }
        // One that was seen alive is buried when it is not heard of any more.
        if !self.is_known(node) && !self.removals.contains_key(&node) {
            self.mark(node, false, out);
        }
    }

    /// A life is over, and nothing of it is under way: its record has been removed, or this node knows by a lock that it has ended.
    pub(crate) fn forget(&mut self, node: Incarnation) {
        self.seen.remove(&node);
        self.removals.remove(&node);
        self.unreadable.remove(&node);
        if self.gone.insert(node) {
            self.gone_order.push_back(node);
        }
        if self.gone_order.len() > GONE_MAX
            && let Some(oldest) = self.gone_order.pop_front()
        {
            self.gone.remove(&oldest);
        }
    }

    /// Messages that burials have found, to be retained.
    pub(crate) fn take_repairs(&mut self) -> Vec<(Incarnation, u64, RetainedRecord)> {
        std::mem::take(&mut self.repairs)
    }

    /// A message that a burial has found is retained.
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

    /// A record has been seen, in any order and as often as it likes.
    pub(crate) fn observe(&mut self, now_ms: u64, node: Incarnation, revision: Revision, record: NodeRecord) {
        // It was removed, and this is from before. Its first beat may have come after that, or the mark of somebody who had missed its record:
        // then it is buried once more.
        let is_buried = matches!(record.state, NodeState::Removed { .. });
        if self.gone.contains(&node) && is_buried && !self.seen.contains_key(&node) {
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

    /// A record has been seen that this broker cannot read. What was known of that life before does not hold any more, so it is not taken for dead.
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

    /// This node's own beats were late, so those of others may have been as well: all are waited for anew.
    pub(crate) fn reset_timers(&mut self, now_ms: u64) {
        self.seen.values_mut().for_each(|seen| seen.since_ms = now_ms);
    }

    /// Buries a node that is known to be dead.
    pub(crate) fn remove_now(&mut self, node: Incarnation, out: &mut Outbox) {
        let name = String::new();
        let (revision, ends) = (NO_RECORD, Box::default());
        let step = Step::Verifying(out.ask(Purpose::Removal(node), Operation::Get(Key::Node(node))));
        let (attempt, fenced, end, is_certain) = (0, 0, End::default(), true);
        self.removals.insert(node, Removal { step, name, attempt, revision, ends, fenced, end, is_certain });
    }

    /// Begins to bury those whose record has stood for too long.
    pub(crate) fn advance(&mut self, now_ms: u64, settings: &Settings, out: &mut Outbox) {
        let patience_ms =
            if is(Mutant::BuriesEarly) { settings.heartbeat_ms } else { settings.lease_ms + settings.margin_ms };
        let me = self.me;
        let is_due = |node: Incarnation, seen: &ObservedRecord| match &seen.record.state {
            NodeState::Alive { .. } => node != me && seen.since_ms + patience_ms <= now_ms,
            // What this node began and lost sight of, it takes up at once.
            NodeState::Removing { by, .. } => *by == me || seen.since_ms + patience_ms <= now_ms,
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

    /// Says in the record that the node is dying, if the record is still the one that was seen, or if there is none where none was seen.
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
            // There was none, by a write: the life never served, or has been buried and forgotten. Nothing is left to bury.
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
            // What has been retained once is not retained again.
            (Step::Repairing(_), _) => removal.proceed(node, out),
            // Another group has come before the fence, or the fence itself has.
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

    /// The fate of a record was unknown, or it was not the one that was expected.
    fn check_record(&mut self, now_ms: u64, node: Incarnation, found: Option<&(Revision, Vec<u8>)>, out: &mut Outbox) {
        let Some(mut removal) = self.removals.remove(&node) else { return };
        let Some((revision, value)) = found else {
            let was_over = self.ends(node).is_some() || self.is_gone(node);
            if was_over || is(Mutant::BelievesMissing) {
                return self.forget(node);
            }
            // What was seen may have been removed since. If it has not, this is refused.
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
            NodeState::Alive { .. } if is(Mutant::BuriesBlindly) => self.mark(node, false, out),
            // It lives, another one buries it, or it is buried: if that takes too long, this begins again.
            _ => {}
        }
    }
}

impl Removal {
    fn proceed(&mut self, node: Incarnation, out: &mut Outbox) {
        self.step = match Partition::all().nth(self.fenced).filter(|_| !is(Mutant::ForgetsFence)) {
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

    /// Appends a fence behind the last group of a partition.
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
            // Not to be read by this broker. The burial stays as it is, and a newer one takes it up.
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

    /// The partition is fenced off. What the node has written to the log and perhaps not retained is retained now: who sees the burial
    /// record takes all in the log for done.
    fn read_behind_fence(&mut self, node: Incarnation, unsettled: Option<Sequence>, out: &mut Outbox) {
        match unsettled.filter(|_| !is(Mutant::ForgetsRepair)) {
            Some(from) => self.repair(node, from, out),
            None => self.on_fenced(node, out),
        }
    }

    fn repair(&mut self, node: Incarnation, from: Sequence, out: &mut Outbox) {
        let Some(partition) = Partition::all().nth(self.fenced) else { return };
        let next = Operation::Next { subject: LogSubject { partition, writer: node }, from };
        self.step = Step::Repairing(out.ask(Purpose::Removal(node), next));
    }

    /// Gives what the group has that is to be retained.
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

/// The record of a life that is over: nobody is sent there any more.
fn ended(name: &str, state: NodeState) -> NodeRecord {
    NodeRecord { name: name.to_owned(), reference: String::new(), state }
}
