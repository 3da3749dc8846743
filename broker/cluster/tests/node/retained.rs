//! Tests how retained messages reach the engine.

use tautwire_cluster::record::{Place, Retain, RetainedRecord};
use tautwire_cluster::{
    Answer, Decision, Operation, RETAINED_BATCH_MAX, RETAINED_BATCH_MAX_BYTES, RetainedEntry, Sequence, Settings,
};

use crate::node::Node;

/// Returns the sizes of the batches in which the engine receives messages of these sizes.
fn batches(sizes: &[usize]) -> Vec<usize> {
    let mut node = Node::begin(Settings::default());
    let kept = (1..).zip(sizes).map(|(sequence, bytes)| {
        let place = Place { sequence: Sequence(sequence), index: 0 };
        let record = RetainedRecord { place, retain: Retain::Always, topic: "t".to_owned(), message: vec![7; *bytes] };
        RetainedEntry { sequence: Sequence(sequence), age_ms: 0, value: record.encode() }
    });
    let (kept, through) = (kept.collect(), Sequence(sizes.len() as u64));
    node.advance(100);
    let is_mirror = |operation: &Operation| matches!(operation, Operation::Mirror { .. });
    node.answer(is_mirror, Answer::Mirrored { kept, through, is_end: true });
    let mut next = 1;
    let told = node.decisions.iter().filter_map(|decision| match decision {
        Decision::Retain(changes) => {
            for change in changes {
                assert_eq!(change.sequence, Sequence(next), "in the order of the stream");
                next += 1;
            }
            Some(changes.len())
        }
        _ => None,
    });
    let told = told.collect();
    assert_eq!(next, through.0 + 1, "all of them");
    told
}

#[test]
fn the_engine_receives_retained_messages_at_once_in_limited_batches() {
    assert_eq!(batches(&[128]), [1]);
    assert_eq!(batches(&[128; RETAINED_BATCH_MAX]), [RETAINED_BATCH_MAX]);
    assert_eq!(batches(&[128; 2 * RETAINED_BATCH_MAX + 1]), [RETAINED_BATCH_MAX, RETAINED_BATCH_MAX, 1]);
    // The topic counts as well.
    let half = RETAINED_BATCH_MAX_BYTES / 2 - 1;
    assert_eq!(batches(&[half, half, half]), [2, 1]);
    assert_eq!(batches(&[128, 2 * RETAINED_BATCH_MAX_BYTES, 128]), [1, 1, 1], "a large one is alone in its batch");
}
