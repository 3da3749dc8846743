//! The lease of a node, step by step.

use std::num::NonZeroU64;

use tautwire_cluster::mutant::{Mutant, mutate};
use tautwire_cluster::names::{Incarnation, Key, Seed};
use tautwire_cluster::{Answer, Decision, Member, Operation, OperationId, Output, Revision, Sequence, Settings};

struct Node {
    member: Member,
    decisions: Vec<Decision>,
    asked: Vec<(OperationId, Operation)>,
}

impl Node {
    fn begin() -> Node {
        let me = Incarnation(NonZeroU64::new(1).expect("not 0"));
        let member = Member::new(0, me, "a", None, Seed([0; 16]), Settings::default());
        let mut node = Node { member, decisions: Vec::new(), asked: Vec::new() };
        node.collect(0);
        node
    }

    fn collect(&mut self, now_ms: u64) {
        while let Some(output) = self.member.next_output() {
            match output {
                // The log is as it should be.
                Output::Operation(id, Operation::End(_)) => self.member.answer(now_ms, id, &Answer::End(Sequence(1))),
                Output::Operation(_, Operation::Follow { .. }) | Output::Decision(Decision::Begin { .. }) => {}
                // There are no retained messages, and no configuration.
                Output::Operation(id, Operation::EndOfRetained) => {
                    self.member.answer(now_ms, id, &Answer::EndOfRetained(Sequence(0)));
                }
                Output::Operation(id, Operation::Mirror { after, .. }) => {
                    self.member.answer(
                        now_ms,
                        id,
                        &Answer::Mirrored { kept: Vec::new(), through: after, is_end: true },
                    );
                }
                Output::Operation(id, Operation::Get(Key::Config)) => {
                    self.member.answer(now_ms, id, &Answer::Got(None));
                }
                Output::Operation(id, Operation::ConfigHolds(None)) => {
                    self.member.answer(now_ms, id, &Answer::Holds);
                }
                Output::Operation(id, operation) => self.asked.push((id, operation)),
                Output::Decision(decision) => self.decisions.push(decision),
                Output::Send(..)
                | Output::AddInterest(_)
                | Output::RemoveInterest(_)
                | Output::Probe(_)
                | Output::Echo { .. } => {}
            }
        }
    }

    fn advance(&mut self, now_ms: u64) {
        self.member.advance(now_ms);
        self.collect(now_ms);
    }

    /// Answers the only operation in flight.
    fn answer(&mut self, now_ms: u64, answer: impl FnOnce(Operation) -> Answer) {
        let (id, operation) = self.asked.remove(0);
        assert!(self.asked.is_empty());
        self.member.answer(now_ms, id, &answer(operation));
        self.collect(now_ms);
    }

    fn confirm(&mut self, now_ms: u64, revision: u64) {
        self.answer(now_ms, |_| Answer::Put(Revision(revision)));
    }
}

fn value_of(operation: Operation) -> Vec<u8> {
    let Operation::Put { value, .. } = operation else { panic!("{operation:?} is not a beat") };
    value
}

#[test]
fn a_node_serves_until_its_lease_expires_and_resumes_after_renewal() {
    let mut node = Node::begin();
    assert!(!node.member.is_serving(0));
    assert_eq!(node.member.serves_until_ms(), 0);
    node.confirm(200, 1);
    assert_eq!(node.decisions, [Decision::Resumed]);
    // The lease counts from the heartbeat, which was sent at 0.
    assert!(node.member.is_serving(5999) && !node.member.is_serving(6000));
    assert_eq!(node.member.serves_until_ms(), 6000);
    node.advance(1500);
    node.advance(6000);
    assert_eq!(node.decisions, [Decision::Resumed, Decision::Suspended]);
    assert_eq!(node.member.serves_until_ms(), 0);
    // The heartbeat of 1500 is confirmed now, so the lease is valid until 7500.
    node.confirm(6100, 2);
    assert_eq!(node.decisions.last(), Some(&Decision::Resumed));
    assert!(node.member.is_serving(7499) && !node.member.is_serving(7500));
}

#[test]
fn a_late_confirmed_heartbeat_counts_from_when_it_was_sent() {
    let mut node = Node::begin();
    node.confirm(10, 1);
    node.advance(1500);
    let beat = value_of(node.asked[0].1.clone());
    node.answer(2500, |_| Answer::Unknown);
    node.answer(3500, |_| Answer::Unknown);
    node.answer(7000, |look| {
        assert!(matches!(look, Operation::Get(_)));
        Answer::Got(Some((Revision(2), beat)))
    });
    assert!(node.member.is_serving(7499) && !node.member.is_serving(7500));
}

#[test]
fn a_failed_heartbeat_is_followed_by_another() {
    let mut node = Node::begin();
    let first = value_of(node.asked[0].1.clone());
    node.confirm(10, 1);
    node.advance(1500);
    node.answer(2500, |_| Answer::Unknown);
    node.answer(2600, |_| Answer::Got(Some((Revision(1), first))));
    node.advance(2700);
    node.confirm(2800, 3);
    assert!(node.member.is_serving(8699) && !node.member.is_serving(8700));
}

#[test]
fn a_node_with_a_missing_or_dead_record_never_serves_again() {
    let dying = tautwire_cluster::record::NodeRecord {
        name: "a".to_owned(),
        reference: String::new(),
        state: tautwire_cluster::record::NodeState::Removing {
            by: Incarnation(NonZeroU64::new(2).expect("not 0")),
            attempt: 1,
        },
    };
    for found in [None, Some((Revision(2), dying.encode()))] {
        let mut node = Node::begin();
        node.confirm(10, 1);
        node.advance(1500);
        node.answer(1600, |_| Answer::Conflict);
        node.answer(1700, |_| Answer::Got(found));
        assert_eq!(node.decisions.last(), Some(&Decision::Fenced));
        assert!(!node.member.is_serving(1700));
        node.advance(9000);
        assert!(node.asked.is_empty());
    }
}

#[test]
fn a_lease_counted_from_its_confirmation_is_found() {
    mutate(Some(Mutant::LeaseFromConfirmation));
    let found = std::panic::catch_unwind(a_late_confirmed_heartbeat_counts_from_when_it_was_sent);
    mutate(None);
    assert!(found.is_err());
}
