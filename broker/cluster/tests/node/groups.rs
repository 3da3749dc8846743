//! Tests a node with members of a group that other nodes have members of, too.

use std::collections::BTreeSet;

use tautwire_cluster::mutant::Mutant;
use tautwire_cluster::names::{GroupKey, Key, Partition};
use tautwire_cluster::record::{Place, ShareRecord, VERSION};
use tautwire_cluster::{Answer, Decision, Operation, Refusal, Revision, Sequence, Settings};

use crate::node::{Node, SEED, is_found, life};

const SHARE: &str = "$share/g/a/+";

fn group() -> GroupKey {
    SEED.group(SHARE)
}

fn is_of_group(operation: &Operation) -> bool {
    matches!(operation, Operation::Get(Key::Group(_)) | Operation::Put { key: Key::Group(_), .. })
}

impl Node {
    /// Answers the only operation of the group, a read.
    fn read(&mut self, found: Option<(u64, Vec<u8>)>) {
        let found = found.map(|(revision, value)| (Revision(revision), value));
        self.answer(|operation| matches!(operation, Operation::Get(Key::Group(_))), Answer::Got(found));
    }

    /// Returns the record being written, and the expected revision.
    fn writes(&self) -> Option<(Option<u64>, ShareRecord)> {
        self.asked.values().find_map(|operation| match operation {
            Operation::Put { key: Key::Group(of), expected, value } if *of == group() => {
                let record = ShareRecord::decode(value).expect("a record");
                Some((expected.map(|revision| revision.0), record))
            }
            _ => None,
        })
    }

    /// Completes the write in flight with this revision.
    fn write(&mut self, revision: u64) -> ShareRecord {
        let (_, record) = self.writes().expect("it writes");
        self.answer(is_of_group, Answer::Put(Revision(revision)));
        record
    }

    fn leases(&mut self) -> (Vec<Partition>, Vec<Partition>, usize) {
        let (mut leased, mut recalled, mut joined) = (Vec::new(), Vec::new(), 0);
        for decision in self.decisions.drain(..) {
            match decision {
                Decision::Lease { partition, .. } => leased.push(partition),
                Decision::Recall { partition, .. } => recalled.push(partition),
                Decision::Joined { .. } => joined += 1,
                _ => {}
            }
        }
        (leased, recalled, joined)
    }

    /// Creates a node with one member, which delivers everything.
    fn with_a_member() -> Node {
        let mut node = Node::begin(Settings::default());
        node.member.join(0, SEED.client("a"), 5, SHARE);
        node.collect();
        node.read(None);
        let record = node.write(1);
        assert_eq!(record.members, [(SEED.client("a"), 5)].into());
        assert_eq!(record.partitions_of(life(1)).count(), 16);
        assert_eq!(
            record.cursors.next(partition()),
            Place { sequence: Sequence(1), index: 0 },
            "the position of the node"
        );
        let (leased, recalled, joined) = node.leases();
        assert_eq!((leased.len(), recalled.len(), joined), (16, 0, 1));
        node
    }
}

fn partition() -> Partition {
    Partition::new(3).expect("exists")
}

fn place(sequence: u64) -> Place {
    Place { sequence: Sequence(sequence), index: 0 }
}

#[test]
fn a_joined_member_is_confirmed_at_once() {
    let mut node = Node::with_a_member();
    node.member.join(0, SEED.client("a"), 5, SHARE);
    node.collect();
    assert_eq!((node.leases().2, node.writes()), (1, None));
}

#[test]
fn a_node_without_members_returns_its_leases() {
    let mut node = Node::with_a_member();
    node.member.checkpoint(0, group(), vec![(partition(), place(4), vec![place(2)])]);
    node.collect();
    let record = node.write(2);
    assert_eq!((record.cursors.next(partition()), record.cursors.open_count()), (place(4), 1));
    node.member.leave(0, SEED.client("a"), SHARE);
    node.collect();
    let (_, recalled, _) = node.leases();
    assert_eq!((recalled.len(), node.writes()), (16, None), "the engine still delivers");
    for partition in recalled {
        node.member.returned(0, group(), partition, place(6), vec![place(5)]);
        node.collect();
    }
    node.write(3);
    let record = node.write(4);
    assert_eq!(record.holders, [None; 16]);
    assert_eq!(record.cursors.open(partition()).collect::<Vec<_>>(), [place(5)]);
    assert_eq!(record.members.len(), 1, "its session is still a member");
    assert_eq!(node.member.groups(), 0);
}

#[test]
fn an_unsubscribe_does_not_remove_a_later_subscription() {
    for (epoch, is_left) in [(4, false), (5, false), (6, true)] {
        let mut node = Node::begin(Settings::default());
        let mut record = ShareRecord::new(SHARE, [Place::START; 16]);
        record.members = [(SEED.client("a"), epoch), (SEED.client("b"), 1)].into();
        node.member.part(0, SEED.client("a"), 5, SHARE);
        node.collect();
        node.read(Some((7, record.encode())));
        assert_eq!(node.writes().is_none(), is_left, "epoch {epoch}");
        if !is_left {
            assert_eq!(node.write(8).members, [(SEED.client("b"), 1)].into());
        }
        assert_eq!(node.member.groups(), 0);
    }
}

#[test]
fn a_write_with_an_unknown_outcome_is_repeated() {
    let mut node = Node::with_a_member();
    node.member.checkpoint(0, group(), vec![(partition(), place(4), vec![])]);
    node.collect();
    let (expected, written) = node.writes().expect("it writes");
    assert_eq!(expected, Some(1));
    node.answer(is_of_group, Answer::Unknown);
    node.member.leave(0, SEED.client("a"), SHARE);
    node.collect();
    // The write may still arrive, so another write with the same precondition comes before the record is trusted.
    node.read(Some((1, ShareRecord { cursors: ShareRecord::new(SHARE, [place(1); 16]).cursors, ..written }.encode())));
    assert_eq!(node.writes().map(|(expected, _)| expected), Some(Some(1)));
}

#[test]
fn the_node_with_more_leases_gives_half_of_the_difference() {
    let mut node = Node::with_a_member();
    let ask = |from: u64, holds: u8| {
        let mut bytes = vec![VERSION, 16];
        bytes.extend(from.to_le_bytes());
        bytes.extend(group().0.to_le_bytes());
        bytes.push(holds);
        bytes
    };
    node.member.receive_peer(0, &ask(2, 15));
    node.collect();
    assert_eq!(node.leases().1, [], "one more is no more");
    node.member.receive_peer(0, &ask(2, 4));
    node.collect();
    let (_, recalled, _) = node.leases();
    assert_eq!(recalled.len(), 6);
    for partition in &recalled {
        node.member.returned(0, group(), *partition, place(1), Vec::new());
        node.collect();
    }
    node.write(2);
    let record = node.write(3);
    let free: BTreeSet<_> = Partition::all().filter(|partition| record.holder(*partition).is_none()).collect();
    assert_eq!(free, recalled.into_iter().collect());
    assert_eq!((node.sent.len(), node.sent[0].0), (1, life(2)), "it is notified that they are free");
    assert_eq!(node.writes(), None, "and they are left to it");
}

#[test]
fn an_unreadable_record_refuses_the_subscription() {
    let mut node = Node::begin(Settings::default());
    node.member.join(0, SEED.client("a"), 5, SHARE);
    node.collect();
    node.read(Some((1, vec![VERSION + 1])));
    let refused = node.decisions.pop();
    assert!(matches!(refused, Some(Decision::NotJoined { why: Refusal::Unreadable, .. })), "{refused:?}");
}

#[test]
fn a_recreated_group_has_no_earlier_messages() {
    let mut node = Node::with_a_member();
    let client = SEED.client("a");
    node.member.checkpoint(0, group(), vec![(partition(), place(4), vec![place(2)])]);
    node.collect();
    node.write(2);
    // The client unsubscribes, and subscribes again before its node has returned its partitions.
    node.member.part(0, client, 5, SHARE);
    node.member.join(0, client, 5, SHARE);
    node.collect();
    assert!(node.write(3).members.is_empty());
    let (_, recalled, _) = node.leases();
    let record = node.write(4);
    assert_eq!(record.members, [(client, 5)].into());
    assert_eq!(
        (record.cursors.next(partition()), record.cursors.open_count()),
        (place(1), 0),
        "the position of the node"
    );
    let (leased, _, joined) = node.leases();
    assert_eq!((leased.len(), recalled.len(), joined), (0, 16, 1), "old partitions are returned first");
    assert_eq!(node.writes(), None, "it is not leased before that");
    for partition in recalled {
        node.member.returned(0, group(), partition, place(9), vec![place(8)]);
        node.collect();
    }
    node.read(Some((4, record.encode())));
    let record = node.write(5);
    assert_eq!(
        (record.cursors.next(partition()), record.cursors.open_count()),
        (place(1), 0),
        "that was of the old one"
    );
    while node.asked.values().any(is_of_group) {
        node.answer(is_of_group, Answer::Put(Revision(6)));
    }
    assert_eq!(node.leases().0.len(), 16);
}

#[test]
fn leases_with_an_old_position_or_an_early_start_are_found() {
    is_found(Mutant::RecreatesAtOldPosition, a_recreated_group_has_no_earlier_messages);
    is_found(Mutant::TrustsLateReturns, a_recreated_group_has_no_earlier_messages);
}
