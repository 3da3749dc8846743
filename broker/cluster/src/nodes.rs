//! The other nodes: what has been seen of them, and the burial of those whose lease has run out.

use std::collections::{BTreeMap, BTreeSet};

use crate::mutant::{Mutant, is};
use crate::names::{Incarnation, Key, LogSubject, PARTITIONS, Partition};
use crate::operation::{Answer, Operation, OperationId, Revision, Sequence};
use crate::outbox::{Outbox, Purpose};
use crate::record::{Body, End, Group, NodeRecord, NodeState};
use crate::settings::Settings;

pub(crate) type Ends = [End; PARTITIONS as usize];

#[derive(Debug)]
pub(crate) struct Nodes {
    me: Incarnation,
    seen: BTreeMap<Incarnation, Seen>,
    burials: BTreeMap<Incarnation, Burial>,
    /// Lives whose records are not there any more: they were buried long ago.
    forgotten: BTreeSet<Incarnation>,
}

#[derive(Debug)]
struct Seen {
    revision: Revision,
    record: NodeRecord,
    /// Since when the record has had this revision, by this node's clock.
    since_ms: u64,
}

/// A burial goes from step to step. Whatever is not known for sure, the store is asked again, and all steps may be done twice.
#[derive(Debug)]
struct Burial {
    step: Step,
    name: String,
    attempt: u64,
    /// Of the record that says `dying`.
    revision: Revision,
    ends: Box<Ends>,
    /// Partitions that have been fenced off, in order.
    fenced: usize,
    /// The node is known to be dead, by the lock of its data directory, whatever its record says.
    is_certain: bool,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Looking(OperationId),
    Marking(OperationId),
    Reading(OperationId),
    Fencing(OperationId, End),
    Sealing(OperationId),
}

impl Step {
    fn operation(self) -> OperationId {
        match self {
            Step::Looking(id) | Step::Marking(id) | Step::Reading(id) | Step::Fencing(id, _) | Step::Sealing(id) => id,
        }
    }
}

impl Nodes {
    pub(crate) fn new(me: Incarnation) -> Nodes {
        Nodes { me, seen: BTreeMap::new(), burials: BTreeMap::new(), forgotten: BTreeSet::new() }
    }

    /// How far the groups of a buried node go; `None` while it may still write.
    pub(crate) fn ends(&self, node: Incarnation) -> Option<&Ends> {
        match &self.seen.get(&node)?.record.state {
            NodeState::Buried { ends } => Some(ends),
            _ => None,
        }
    }

    /// Whether it is known how it is with a node.
    pub(crate) fn knows(&self, node: Incarnation) -> bool {
        self.seen.contains_key(&node) || self.forgotten.contains(&node)
    }

    /// Whether nothing of a node is under way any more.
    pub(crate) fn is_over(&self, node: Incarnation) -> bool {
        self.ends(node).is_some() || self.forgotten.contains(&node)
    }

    /// The store has no record of a node that has had one.
    pub(crate) fn forget(&mut self, node: Incarnation) {
        self.forgotten.insert(node);
    }

    /// Whether a node is being buried.
    pub(crate) fn is_dying(&self, node: Incarnation) -> bool {
        self.seen.get(&node).is_some_and(|seen| matches!(seen.record.state, NodeState::Dying { .. }))
    }

    /// A record has been seen, in any order and as often as it likes.
    pub(crate) fn saw(&mut self, now_ms: u64, node: Incarnation, revision: Revision, record: NodeRecord) {
        if self.seen.get(&node).is_none_or(|seen| seen.revision < revision) {
            self.seen.insert(node, Seen { revision, record, since_ms: now_ms });
        }
    }

    /// This node's own beats were late, so those of others may have been as well: all are waited for anew.
    pub(crate) fn count_anew(&mut self, now_ms: u64) {
        self.seen.values_mut().for_each(|seen| seen.since_ms = now_ms);
    }

    /// Buries a node that is known to be dead.
    pub(crate) fn bury_at_once(&mut self, node: Incarnation, out: &mut Outbox) {
        let name = String::new();
        let (revision, ends) = (Revision(0), Box::default());
        let step = Step::Looking(out.ask(Purpose::Burial(node), Operation::Get(Key::Node(node))));
        self.burials.insert(node, Burial { step, name, attempt: 0, revision, ends, fenced: 0, is_certain: true });
    }

    /// Begins to bury those whose record has stood for too long.
    pub(crate) fn advance(&mut self, now_ms: u64, settings: &Settings, out: &mut Outbox) {
        let patience_ms =
            if is(Mutant::BuriesEarly) { settings.beat_ms } else { settings.lease_ms + settings.margin_ms };
        let me = self.me;
        let is_due = |node: Incarnation, seen: &Seen| match &seen.record.state {
            NodeState::Alive { .. } => node != me && seen.since_ms + patience_ms <= now_ms,
            // What this node began and lost sight of, it takes up at once.
            NodeState::Dying { by, .. } => *by == me || seen.since_ms + patience_ms <= now_ms,
            NodeState::Buried { .. } => false,
        };
        let due: Vec<_> = self
            .seen
            .iter()
            .filter(|(node, seen)| !self.burials.contains_key(node) && is_due(**node, seen))
            .map(|(node, _)| *node)
            .collect();
        for node in due {
            self.mark(node, false, out);
        }
    }

    /// Says in the record that the node is dying, if the record is still the one that was seen.
    fn mark(&mut self, node: Incarnation, is_certain: bool, out: &mut Outbox) {
        let Some(seen) = self.seen.get(&node) else { return };
        let attempt = match &seen.record.state {
            NodeState::Dying { attempt, .. } => attempt + 1,
            _ => 1,
        };
        let name = seen.record.name.clone();
        let record = NodeRecord { name: name.clone(), state: NodeState::Dying { by: self.me, attempt } };
        let put = Operation::Put { key: Key::Node(node), expected: Some(seen.revision), value: record.encode() };
        let (revision, ends) = (seen.revision, Box::default());
        let step = Step::Marking(out.ask(Purpose::Burial(node), put));
        self.burials.insert(node, Burial { step, name, attempt, revision, ends, fenced: 0, is_certain });
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
        let Some(burial) = self.burials.get_mut(&node).filter(|burial| burial.step.operation() == id) else { return };
        match (burial.step, answer) {
            (Step::Looking(_), Answer::Got(found)) => self.look_at(now_ms, node, found.as_ref(), out),
            (Step::Marking(_), Answer::Put(revision)) => {
                let (revision, state) = (*revision, NodeState::Dying { by: me, attempt: burial.attempt });
                burial.revision = revision;
                let record = NodeRecord { name: burial.name.clone(), state };
                burial.go_on(node, out);
                self.saw(now_ms, node, revision, record);
            }
            (Step::Reading(_), Answer::Last(found)) => burial.fence(node, found.as_ref(), out),
            (Step::Fencing(_, end), Answer::Appended(_)) => burial.fenced_off(node, end, out),
            // Another group has come before the fence, or the fence itself has.
            (Step::Reading(_) | Step::Fencing(..), _) => burial.go_on(node, out),
            (Step::Sealing(_), Answer::Put(revision)) => {
                let record =
                    NodeRecord { name: burial.name.clone(), state: NodeState::Buried { ends: burial.ends.clone() } };
                let revision = *revision;
                self.burials.remove(&node);
                self.saw(now_ms, node, revision, record);
            }
            _ => burial.step = Step::Looking(out.ask(Purpose::Burial(node), Operation::Get(Key::Node(node)))),
        }
    }

    /// The fate of a record was unknown, or it was not the one that was expected.
    fn look_at(&mut self, now_ms: u64, node: Incarnation, found: Option<&(Revision, Vec<u8>)>, out: &mut Outbox) {
        let Some(mut burial) = self.burials.remove(&node) else { return };
        let Some((revision, Ok(record))) = found.map(|(revision, value)| (*revision, NodeRecord::decode(value))) else {
            return;
        };
        self.saw(now_ms, node, revision, record.clone());
        match record.state {
            NodeState::Dying { by, attempt } if by == self.me && attempt == burial.attempt => {
                burial.revision = revision;
                burial.go_on(node, out);
                self.burials.insert(node, burial);
            }
            NodeState::Alive { .. } if burial.is_certain => self.mark(node, true, out),
            NodeState::Alive { .. } if is(Mutant::BuriesBlindly) => self.mark(node, false, out),
            // It lives, another one buries it, or it is buried: if that takes too long, this begins again.
            _ => {}
        }
    }
}

impl Burial {
    fn go_on(&mut self, node: Incarnation, out: &mut Outbox) {
        self.step = match Partition::all().nth(self.fenced).filter(|_| !is(Mutant::ForgetsFence)) {
            Some(partition) => {
                let subject = LogSubject { partition, writer: node };
                Step::Reading(out.ask(Purpose::Burial(node), Operation::Last(subject)))
            }
            None => {
                let record =
                    NodeRecord { name: self.name.clone(), state: NodeState::Buried { ends: self.ends.clone() } };
                let put =
                    Operation::Put { key: Key::Node(node), expected: Some(self.revision), value: record.encode() };
                Step::Sealing(out.ask(Purpose::Burial(node), put))
            }
        };
    }

    /// Appends a fence behind the last group of a partition.
    fn fence(&mut self, node: Incarnation, found: Option<&(Sequence, Vec<u8>)>, out: &mut Outbox) {
        let Some(partition) = Partition::all().nth(self.fenced) else { return };
        let last = found.map(|(sequence, group)| (*sequence, Group::decode(group)));
        let (expected, end) = match last {
            None => (None, End::default()),
            Some((_, Ok(Group { number, ordinal, body: Body::Fence }))) => {
                return self.fenced_off(node, End { group: number, ordinal }, out);
            }
            Some((sequence, Ok(Group { number, ordinal, .. }))) => (Some(sequence), End { group: number, ordinal }),
            // Not to be read by this broker. The burial stays as it is, and a newer one takes it up.
            Some((_, Err(_))) => return,
        };
        let fence = Group { number: end.group, ordinal: end.ordinal, body: Body::Fence };
        let subject = LogSubject { partition, writer: node };
        let append = Operation::Append { subject, expected, group: fence.encode() };
        self.step = Step::Fencing(out.ask(Purpose::Burial(node), append), end);
    }

    fn fenced_off(&mut self, node: Incarnation, end: End, out: &mut Outbox) {
        if let Some(known) = self.ends.get_mut(self.fenced) {
            *known = end;
        }
        self.fenced += 1;
        self.go_on(node, out);
    }
}
