//! Tests how a node follows the log, whatever the store answers.

use tautwire_cluster::delivery::{ReadRequest, Span};
use tautwire_cluster::names::{ClientKey, Partition};
use tautwire_cluster::record::{Body, Group, Publisher, VERSION};
use tautwire_cluster::{Answer, Decision, Operation, Publish, Revision, Sequence, Settings, Start};

use crate::node::{Node, SEED};

fn partition() -> Partition {
    Partition::new(3).expect("exists")
}

fn publisher() -> Publisher {
    Publisher { client: ClientKey(7), epoch: 1, packet_id: None }
}

/// Returns a group of one message that contains its sequence.
fn group(sequence: u64) -> (Sequence, Vec<u8>) {
    let body = Body::Messages { messages: vec![publisher().sign(&sequence.to_le_bytes())], to_retain: Vec::new() };
    (Sequence(sequence), Group { number: sequence, ordinal: 0, unsettled: None, body }.encode())
}

fn groups(first: u64, sequences: &[u64]) -> Answer {
    Answer::Groups { first: Sequence(first), groups: sequences.iter().map(|sequence| group(*sequence)).collect() }
}

/// Sequences of the groups of a span, and how many are lost.
fn content(span: &Span) -> (Vec<u64>, u64) {
    for group in &span.groups {
        let messages: Vec<_> = group.messages.iter().collect();
        assert!(messages.iter().all(|message| message.stored == group.sequence.0.to_le_bytes()));
        assert!(messages.iter().all(|message| message.publisher == publisher()));
    }
    (span.groups.iter().map(|group| group.sequence.0).collect(), span.lost)
}

impl Node {
    /// Returns the sequences from which the partition is followed, and read.
    fn follows(&self) -> Vec<u64> {
        let follows = |operation: &Operation| match operation {
            Operation::Follow { partition: of, from, .. } if *of == partition() => Some(from.0),
            _ => None,
        };
        self.asked.values().filter_map(follows).collect()
    }

    fn reads(&self) -> Vec<u64> {
        let reads = |operation: &Operation| match operation {
            Operation::Read { from, .. } => Some(from.0),
            _ => None,
        };
        self.asked.values().filter_map(reads).collect()
    }

    fn answer_follow(&mut self, answer: Answer) {
        let is_it =
            |operation: &Operation| matches!(operation, Operation::Follow { partition: of, .. } if *of == partition());
        self.answer(is_it, answer);
    }

    fn answer_read(&mut self, answer: Answer) {
        self.answer(|operation| matches!(operation, Operation::Read { .. }), answer);
    }

    fn arrived(&mut self) -> Vec<(Vec<u64>, u64)> {
        let arrived = |decision: Decision| match decision {
            Decision::Arrived(span) => Some(content(&span)),
            _ => None,
        };
        self.decisions.drain(..).filter_map(arrived).collect()
    }
}

#[test]
fn followed_messages_arrive_once_and_in_order() {
    let mut node = Node::begin(Settings::default());
    assert_eq!(node.follows(), [1]);
    node.answer_follow(groups(1, &[1, 2]));
    assert_eq!((node.arrived(), node.follows()), (vec![(vec![1, 2], 0)], vec![3]));
    // After a long silence, the next answer begins with known groups.
    node.answer_follow(groups(3, &[]));
    node.answer_follow(groups(2, &[2, 3]));
    assert_eq!((node.arrived(), node.follows()), (vec![(vec![3], 0)], vec![4]));
}

#[test]
fn a_gap_in_a_followed_stream_is_read_again() {
    let mut node = Node::begin(Settings::default());
    node.answer_follow(groups(1, &[1, 3]));
    assert_eq!(node.arrived(), [(vec![1], 0)], "groups after the gap wait");
    node.answer_follow(groups(3, &[3]));
    assert_eq!((node.arrived(), node.follows(), node.reads()), (vec![], vec![], vec![2]));
    node.answer_read(groups(2, &[2, 3]));
    assert_eq!((node.arrived(), node.follows()), (vec![(vec![2, 3], 0)], vec![4]));
    assert_eq!(node.member.delivery_counters().lost_groups, 0);
}

#[test]
fn expired_messages_are_counted_as_lost() {
    let mut node = Node::begin(Settings::default());
    node.answer_follow(groups(5, &[5]));
    node.answer_read(groups(5, &[5, 7]));
    assert_eq!(node.arrived(), [(vec![5, 7], 5)]);
    assert_eq!(node.member.delivery_counters().lost_groups, 5);
    // All groups up to the next sequence of the log.
    node.answer_follow(groups(10, &[]));
    node.answer_read(groups(10, &[]));
    assert_eq!((node.arrived(), node.follows()), (vec![(vec![], 2)], vec![10]));
}

#[test]
fn damaged_messages_are_lost_and_a_newer_version_ends_the_partition() {
    let mut node = Node::begin(Settings::default());
    let Answer::Groups { first, mut groups } = groups(1, &[1, 2, 3, 4]) else { unreachable!("they are groups") };
    groups[1].1.pop();
    groups[3].1[0] = VERSION + 1;
    node.answer_follow(Answer::Groups { first, groups });
    let unreadable = node.decisions.pop();
    assert!(matches!(unreadable, Some(Decision::Unreadable { sequence: Sequence(4), .. })), "{unreadable:?}");
    assert_eq!(node.arrived(), [(vec![1, 3], 1)]);
    node.advance(1000);
    assert_eq!(node.follows(), []);
}

#[test]
fn delivery_is_limited_to_what_all_shards_accept() {
    let settings = Settings { shards: 2, in_flight_max_bytes: 1, ..Settings::default() };
    let mut node = Node::begin(settings);
    node.answer_follow(groups(1, &[1]));
    assert_eq!(node.follows(), []);
    node.member.mark_received(0, 0, partition(), Sequence(2));
    node.advance(10);
    assert_eq!(node.follows(), [], "one shard has not processed it");
    node.member.mark_received(10, 1, partition(), Sequence(2));
    node.collect();
    assert_eq!(node.follows(), [2]);
    assert!(node.member.delivery_counters().stalls > 0);
}

#[test]
fn lagging_sessions_share_a_read_and_cached_messages_are_not_read() {
    let mut node = Node::begin(Settings::default());
    let request = |number, from| ReadRequest { number, partition: partition(), from: Sequence(from) };
    node.member.read(0, request(1, 1));
    node.member.read(1, request(9, 1));
    node.collect();
    assert_eq!(node.reads(), [1]);
    // A replica does not have it yet: it is requested again later.
    node.answer_read(groups(1, &[]));
    assert_eq!((node.reads(), node.decisions.len()), (vec![], 0));
    node.advance(Settings::default().retry_ms);
    node.answer_read(groups(1, &[1, 2, 4]));
    node.member.read(0, request(2, 2));
    node.collect();
    let read = |decision: &Decision| match decision {
        Decision::Read { shard, number, span } => Some((*shard, *number, span.from.0, span.until.0, content(span))),
        _ => None,
    };
    let read: Vec<_> = node.decisions.iter().filter_map(read).collect();
    let all = (vec![1, 2, 4], 1);
    assert_eq!(read, [(0, 1, 1, 5, all.clone()), (1, 9, 1, 5, all), (0, 2, 2, 3, (vec![2], 0))]);
    let counters = node.member.delivery_counters();
    assert_eq!((counters.reads_stored, counters.reads_cached, counters.lost_groups_behind), (2, 1, 1));
}

#[test]
fn a_partition_continues_after_all_its_groups_have_expired() {
    let mut node = Node::begin(Settings::default());
    node.member.claim(0, 1, "c", Start::Clean);
    node.collect();
    node.answer(|operation| matches!(operation, Operation::Get(_)), Answer::Got(None));
    node.answer(|operation| matches!(operation, Operation::Put { .. }), Answer::Put(Revision(2)));
    let publish = |node: &mut Node, ticket| {
        let publish = Publish { ticket, refusal_seen: 0, topic: "t", packet_id: None, retain: None, message: vec![1] };
        node.member.publish(0, SEED.client("c"), publish).expect("not full");
        node.collect();
    };
    let expected = |node: &Node| {
        node.asked.values().find_map(|operation| match operation {
            Operation::Append { expected, .. } => Some(*expected),
            _ => None,
        })
    };
    let is_append = |operation: &Operation| matches!(operation, Operation::Append { .. });
    publish(&mut node, 1);
    node.answer(is_append, Answer::Appended(Sequence(5)));
    publish(&mut node, 2);
    assert_eq!(expected(&node), Some(Some(Sequence(5))));
    node.answer(is_append, Answer::Conflict);
    node.answer(|operation| matches!(operation, Operation::Last(_)), Answer::Last(None));
    assert_eq!(expected(&node), Some(None));
    node.answer(is_append, Answer::Appended(Sequence(9)));
    assert!(matches!(node.decisions.last(), Some(Decision::Stored { ticket: 2, .. })), "{:?}", node.decisions);
}
