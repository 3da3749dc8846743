//! A node without a store: the test gives each answer.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use tautwire_cluster::mutant::{Mutant, mutate};
use tautwire_cluster::names::{Incarnation, Key, Seed};
use tautwire_cluster::{Answer, Decision, Member, Operation, OperationId, Output, Revision, Sequence, Settings};

pub(crate) const SEED: Seed = Seed([0; 16]);

/// An incarnation of a node.
pub(crate) fn life(number: u64) -> Incarnation {
    Incarnation(NonZeroU64::new(number).expect("not 0"))
}

/// A node, its operations, and its decisions.
pub(crate) struct Node {
    pub(crate) member: Member,
    pub(crate) now_ms: u64,
    pub(crate) asked: BTreeMap<OperationId, Operation>,
    pub(crate) decisions: Vec<Decision>,
    pub(crate) sent: Vec<(Incarnation, Vec<u8>)>,
}

impl Node {
    /// Wraps a new node.
    pub(crate) fn of(member: Member) -> Node {
        let mut node = Node { member, now_ms: 0, asked: BTreeMap::new(), decisions: Vec::new(), sent: Vec::new() };
        node.collect();
        node
    }

    /// Creates a node that serves, and whose log begins at 1.
    pub(crate) fn begin(settings: Settings) -> Node {
        let mut node = Node::of(Member::new(0, life(1), "a", None, SEED, settings));
        node.answer(|operation| matches!(operation, Operation::Put { .. }), Answer::Put(Revision(1)));
        assert!(!node.member.is_serving(0) && node.decisions.is_empty(), "it does not know where the log begins");
        while node.asked.values().any(|operation| matches!(operation, Operation::End(_))) {
            node.answer(|operation| matches!(operation, Operation::End(_)), Answer::End(Sequence(1)));
        }
        // There are no retained messages, and no configuration.
        node.answer(|operation| *operation == Operation::EndOfRetained, Answer::EndOfRetained(Sequence(0)));
        let whole = Answer::Mirrored { kept: Vec::new(), through: Sequence(0), is_end: true };
        node.answer(|operation| matches!(operation, Operation::Mirror { .. }), whole);
        assert!(!node.member.is_serving(0), "it does not know the configuration");
        node.answer(|operation| *operation == Operation::Get(Key::Config), Answer::Got(None));
        assert!(!node.member.is_serving(0), "the answer may come from a replaced leader");
        node.answer(|operation| *operation == Operation::ConfigHolds(None), Answer::Holds);
        assert!(matches!(node.decisions[..], [Decision::Begin { .. }, Decision::Resumed]), "{:?}", node.decisions);
        node.decisions.clear();
        node
    }

    pub(crate) fn collect(&mut self) {
        while let Some(output) = self.member.next_output() {
            match output {
                Output::Operation(id, operation) => drop(self.asked.insert(id, operation)),
                Output::Decision(decision) => self.decisions.push(decision),
                Output::Send(to, bytes) => self.sent.push((to, bytes)),
                Output::AddInterest(_) | Output::RemoveInterest(_) | Output::Probe(_) | Output::Echo { .. } => {}
            }
        }
    }

    pub(crate) fn answer(&mut self, which: impl Fn(&Operation) -> bool, answer: Answer) {
        let id = *self.asked.iter().find(|(_, operation)| which(operation)).expect("was requested").0;
        self.asked.remove(&id);
        self.member.answer(self.now_ms, id, &answer);
        self.collect();
    }

    pub(crate) fn advance(&mut self, by_ms: u64) {
        self.now_ms += by_ms;
        self.member.advance(self.now_ms);
        self.collect();
    }
}

/// With this fault, a test fails.
pub(crate) fn is_found(mutant: Mutant, test: fn()) {
    mutate(Some(mutant));
    let outcome = std::panic::catch_unwind(test);
    mutate(None);
    assert!(outcome.is_err(), "{mutant:?} is not found");
}
