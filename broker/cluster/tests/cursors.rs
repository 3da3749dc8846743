//! Tests cursors against a list of the state of each message.

use proptest::prelude::*;
use tautwire_cluster::Sequence;
use tautwire_cluster::names::Partition;
use tautwire_cluster::record::{Cursors, OPEN_MAX, Place};

const START: [Place; 16] = [Place::START; 16];

fn partition() -> Partition {
    Partition::new(3).expect("exists")
}

fn place(sequence: u64, index: u32) -> Place {
    Place { sequence: Sequence(sequence), index }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Unread,
    Skipped,
    Open,
    Done,
}

#[derive(Debug, Clone)]
enum Step {
    MarkDelivered,
    Pass,
    Complete(usize),
    /// The session moves to another node.
    Move,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::MarkDelivered),
        3 => Just(Step::Pass),
        4 => (0usize..8).prop_map(Step::Complete),
        1 => Just(Step::Move),
    ]
}

proptest! {
    #[test]
    fn each_message_is_delivered_until_it_is_done(steps in prop::collection::vec(step(), 1..120), sizes in prop::collection::vec(1u32..4, 60)) {
        let mut log: Vec<_> = sizes
            .iter()
            .enumerate()
            .flat_map(|(group, size)| (0..*size).map(move |index| (place(7 * (group as u64 + 1), index), Fate::Unread)))
            .collect();
        let mut cursors = Cursors::new(START);
        for step in steps {
            let first = log.iter().position(|(_, fate)| *fate == Fate::Unread);
            match (step, first) {
                (Step::MarkDelivered, Some(first)) => {
                    prop_assert!(cursors.mark_delivered(partition(), log[first].0));
                    prop_assert!(!cursors.mark_delivered(partition(), log[first].0), "it is delivered once");
                    log[first].1 = Fate::Open;
                }
                (Step::Pass, Some(first)) if first + 1 < log.len() => {
                    cursors.pass(partition(), log[first + 1].0);
                    log[first].1 = Fate::Skipped;
                }
                (Step::Complete(which), _) => {
                    if let Some((place, fate)) = log.iter_mut().filter(|(_, fate)| *fate == Fate::Open).nth(which) {
                        prop_assert!(cursors.complete(partition(), *place));
                        prop_assert!(!cursors.complete(partition(), *place), "it is done once");
                        *fate = Fate::Done;
                    }
                }
                (Step::Move, _) => {
                    let bytes = cursors.encode();
                    let moved = Cursors::decode(&bytes).expect("it has just been written");
                    prop_assert_eq!(&moved, &cursors);
                    cursors = moved;
                }
                _ => {}
            }
            let open: Vec<_> = log.iter().filter(|(_, fate)| *fate == Fate::Open).map(|(place, _)| *place).collect();
            prop_assert_eq!(cursors.open(partition()).collect::<Vec<_>>(), open);
            for (place, fate) in &log {
                prop_assert_eq!(cursors.next(partition()) <= *place, *fate == Fate::Unread, "{:?}", place);
            }
        }
    }

    #[test]
    fn any_accepted_bytes_are_encoded_the_same(mut bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        bytes.insert(0, 1);
        if let Ok(cursors) = Cursors::decode(&bytes) {
            prop_assert_eq!(cursors.encode(), bytes);
        }
    }
}

#[test]
fn cursors_without_open_messages_are_short() {
    let next = [place(4_000_000_000, 500); 16];
    assert_eq!(Cursors::new(next).encode().len(), 1 + 16 * 8);
    assert_eq!(Cursors::new(START).encode().len(), 1 + 16 * 3);
}

#[test]
fn truncated_extended_or_contradictory_cursors_are_refused() {
    let mut cursors = Cursors::new([place(300, 0); 16]);
    assert!(cursors.mark_delivered(partition(), place(300, 1)) && cursors.mark_delivered(partition(), place(301, 0)));
    let bytes = cursors.encode();
    assert!((0..bytes.len()).all(|length| Cursors::decode(&bytes[..length]).is_err()));
    assert!(Cursors::decode(&[&bytes[..], &[0]].concat()).is_err());
    let rest = [0; 45];
    // One open message: at the next position, and then before it; two at one position.
    let cursor = |fields: &[u8]| Cursors::decode(&[&[1], fields, &rest].concat()).is_ok();
    assert!(!cursor(&[5, 1, 1, 5, 1]) && cursor(&[5, 1, 1, 5, 0]));
    assert!(!cursor(&[5, 1, 2, 4, 0, 0, 0]) && cursor(&[5, 1, 2, 4, 0, 0, 1]));
}

#[test]
fn a_lagging_session_reads_separately_until_it_has_caught_up() {
    let mut cursors = Cursors::new(START);
    assert!(cursors.lags(partition(), place(2, 0)));
    cursors.pass(partition(), place(2, 0));
    assert!(!cursors.lags(partition(), place(2, 0)));
    cursors.pass(partition(), place(1, 0));
    assert_eq!(cursors.next(partition()), place(2, 0), "cursors never move back");
}

#[test]
fn open_messages_are_limited_to_what_a_client_can_acknowledge() {
    let mut cursors = Cursors::new(START);
    for sequence in 1..=OPEN_MAX as u64 {
        assert!(cursors.mark_delivered(partition(), place(sequence, 0)));
    }
    let one_more = place(OPEN_MAX as u64 + 1, 0);
    assert!(!cursors.mark_delivered(partition(), one_more));
    assert!(cursors.complete(partition(), place(1, 0)) && cursors.mark_delivered(partition(), one_more));
    assert_eq!(Cursors::decode(&cursors.encode()), Ok(cursors));
}
