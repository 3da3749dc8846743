//! Tests records of newer brokers, and missing records.

use tautwire_cluster::mutant::Mutant;
use tautwire_cluster::names::{Key, Seed};
use tautwire_cluster::record::{
    Load, NEVER_EXPIRES, NodeRecord, NodeState, Place, RecordError, Retain, RetainedRecord, SessionRecord, VERSION,
};
use tautwire_cluster::{
    Answer, Decision, Member, Operation, Refusal, RetainedEntry, Revision, Sequence, Settings, Start, TICK_MS,
};

use crate::node::{Node, SEED, is_found, life};

/// Returns the record as a newer broker would write it.
fn newer(mut record: Vec<u8>) -> Vec<u8> {
    record[0] = VERSION + 1;
    record
}

fn alive(beat: u64) -> Vec<u8> {
    let state = NodeState::Alive { beat, load: Load::default() };
    NodeRecord { name: "b".to_owned(), reference: String::new(), state }.encode()
}

fn is_about(operation: &Operation, key: Key) -> bool {
    match operation {
        Operation::Get(of) | Operation::Put { key: of, .. } | Operation::Remove { key: of, .. } => *of == key,
        _ => false,
    }
}

#[test]
fn a_node_with_a_newer_record_is_reported_once_and_never_removed() {
    let mut node = Node::begin(Settings::default());
    let other = life(2);
    node.member.observe_node(0, other, Revision(5), &alive(1));
    node.member.observe_node(0, other, Revision(6), &newer(alive(2)));
    // A late report changes nothing.
    node.member.observe_node(0, other, Revision(5), &alive(1));
    node.member.observe_node(0, other, Revision(7), &newer(alive(3)));
    for _ in 0..200 {
        node.advance(TICK_MS);
    }
    let error = RecordError::Newer { version: VERSION + 1 };
    let told = Decision::UnreadableNode { node: other, error };
    assert_eq!(node.decisions.iter().filter(|decision| **decision == told).count(), 1, "{:?}", node.decisions);
    let writes =
        |operation: &&Operation| matches!(operation, Operation::Put { key: Key::Node(of), .. } if *of == other);
    assert_eq!(node.asked.values().find(writes), None, "it is alive as far as this node knows");
    // After an upgrade of either node it counts like any other.
    node.member.observe_node(node.now_ms, other, Revision(8), &alive(4));
    assert!(node.member.status(node.now_ms).nodes.iter().any(|seen| seen.incarnation == other));
}

#[test]
fn a_session_written_by_a_newer_broker_is_refused_and_unchanged() {
    let mut node = Node::begin(Settings::default());
    node.member.claim(0, 7, "c", Start::Clean);
    node.collect();
    let record = SessionRecord {
        client_id: "c".to_owned(),
        epoch: 1,
        write: 1,
        claimed_at: None,
        owner: None,
        taken: Vec::new(),
        expiry_s: NEVER_EXPIRES,
        away_ms: None,
        will: None,
        due: Vec::new(),
        state: vec![1],
    };
    let key = Key::Session(SEED.client("c"));
    let found = Answer::Got(Some((Revision(3), newer(record.encode()))));
    node.answer(|operation| *operation == Operation::Get(key), found);
    assert_eq!(node.decisions, [Decision::Refuse { ticket: 7, why: Refusal::Unreadable }]);
    assert!(!node.asked.values().any(|operation| is_about(operation, key)), "nothing is written over it");
}

#[test]
fn retained_messages_of_a_newer_version_are_skipped() {
    let mut node = Node::begin(Settings::default());
    node.advance(TICK_MS);
    let kept = |sequence: u64, topic: &str| {
        let place = Place { sequence: Sequence(sequence), index: 0 };
        RetainedRecord { place, retain: Retain::Always, topic: topic.to_owned(), message: vec![7] }.encode()
    };
    let values = [kept(1, "a"), newer(kept(2, "b")), RetainedRecord::mark().encode(), kept(4, "d")];
    let kept =
        (1..).zip(values).map(|(sequence, value)| RetainedEntry { sequence: Sequence(sequence), age_ms: 0, value });
    let part = Answer::Mirrored { kept: kept.collect(), through: Sequence(4), is_end: true };
    node.answer(|operation| matches!(operation, Operation::Mirror { .. }), part);
    let told = node.decisions.iter().filter_map(|decision| match decision {
        Decision::Retain(changes) => Some(changes.iter().map(|change| change.record.topic.as_str())),
        _ => None,
    });
    assert_eq!(told.flatten().collect::<Vec<_>>(), ["a", "d"], "a mark has no content");
    let mirror = node.member.status(node.now_ms).mirror;
    assert_eq!((mirror.position, mirror.unreadable), (4, 1));
}

/// A node starts after an incarnation for which the store reports no record, and then one.
fn a_former_life_is_not_gone_because_of_one_answer() {
    let (former, now_ms) = (life(9), 0);
    let member = Member::new(now_ms, life(1), "a", Some(former), Seed([0; 16]), Settings::default());
    let mut node = Node::of(member);
    let key = Key::Node(former);
    node.answer(|operation| *operation == Operation::Get(key), Answer::Got(None));
    node.answer(
        |operation| matches!(operation, Operation::Put { key: of, expected: None, .. } if *of == key),
        Answer::Conflict,
    );
    node.answer(|operation| *operation == Operation::Get(key), Answer::Got(Some((Revision(4), alive(2)))));
    let marks = |operation: &Operation| match operation {
        Operation::Put { key: of, expected, .. } => *of == key && *expected == Some(Revision(4)),
        _ => false,
    };
    node.answer(marks, Answer::Put(Revision(5)));
    assert!(
        node.asked.values().any(|operation| matches!(operation, Operation::Last(subject) if subject.writer == former))
    );
}

#[test]
fn a_previous_incarnation_is_gone_when_a_write_says_so() {
    a_former_life_is_not_gone_because_of_one_answer();
    is_found(Mutant::TrustsOneMissingAnswer, a_former_life_is_not_gone_because_of_one_answer);
    let former = life(9);
    let mut node = Node::of(Member::new(0, life(1), "a", Some(former), Seed([0; 16]), Settings::default()));
    let key = Key::Node(former);
    node.answer(|operation| *operation == Operation::Get(key), Answer::Got(None));
    node.answer(
        |operation| matches!(operation, Operation::Put { key: of, .. } if *of == key),
        Answer::Put(Revision(4)),
    );
    // Nothing is fenced, and nothing of it remains.
    let removes = Operation::Remove { key, expected: Revision(4) };
    node.answer(|operation| *operation == removes, Answer::Removed);
    assert!(!node.asked.values().any(|operation| is_about(operation, key)));
}
