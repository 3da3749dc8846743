use std::num::{NonZeroU16, NonZeroU64};

use crate::names::{Incarnation, Partition};

use super::*;

fn life(number: u64) -> Incarnation {
    Incarnation(NonZeroU64::new(number).expect("not 0"))
}

fn nodes() -> Vec<NodeRecord> {
    let mut ends = Box::new([End::default(); 16]);
    ends[3] = End { group: 7, ordinal: 9 };
    [NodeState::Alive { beat: 5 }, NodeState::Dying { by: life(6), attempt: 1 }, NodeState::Buried { ends }]
        .map(|state| NodeRecord { name: "a".to_owned(), state })
        .into()
}

fn session() -> SessionRecord {
    let packet_id = |id| NonZeroU16::new(id).expect("not 0");
    SessionRecord {
        client_id: "ü".to_owned(),
        epoch: 3,
        write: 4,
        owner: Some(Claim { by: life(5), number: 6 }),
        taken: vec![
            Taken { packet_id: packet_id(7), intent: None },
            Taken {
                packet_id: packet_id(8),
                intent: Partition::new(2).map(|partition| Intent { partition, ordinal: 9 }),
            },
        ],
        state: vec![1, 2, 3],
    }
}

fn groups() -> [Group; 2] {
    let messages = Body::Messages(vec![vec![1], vec![], vec![2, 3]]);
    [Group { number: 1, ordinal: 2, body: messages }, Group { number: 3, ordinal: 4, body: Body::Fence }]
}

/// Reads a record, and writes it again.
type Again = fn(&[u8]) -> Result<Vec<u8>, RecordError>;

fn samples() -> Vec<(Vec<u8>, Again)> {
    let node: Again = |bytes| Ok(NodeRecord::decode(bytes)?.encode());
    let session: Again = |bytes| Ok(SessionRecord::decode(bytes)?.encode());
    let group: Again = |bytes| Ok(Group::decode(bytes)?.encode());
    let nodes = nodes().into_iter().map(|record| (record.encode(), node));
    let groups = groups().into_iter().map(|record| (record.encode(), group));
    nodes.chain([(self::session().encode(), session)]).chain(groups).collect()
}

#[test]
fn what_was_written_is_read() {
    for node in nodes() {
        assert_eq!(NodeRecord::decode(&node.encode()), Ok(node));
    }
    for group in groups() {
        assert_eq!(Group::decode(&group.encode()), Ok(group));
    }
    assert_eq!(SessionRecord::decode(&session().encode()), Ok(session()));
    let at_rest = SessionRecord { owner: None, taken: Vec::new(), ..session() };
    assert_eq!(SessionRecord::decode(&at_rest.encode()), Ok(at_rest));
}

/// The bytes are part of the format: whoever changes them changes [`VERSION`].
#[test]
fn bytes_stay_what_they_are() {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(hex(&nodes()[0].encode()), "010105000000000000000100000061");
    assert_eq!(hex(&nodes()[1].encode()), "0102060000000000000001000000000000000100000061");
    assert_eq!(
        hex(&session().encode()),
        "0103000000000000000400000000000000050000000000000006000000000000000200\
         0700ff0000000000000000080002090000000000000002000000c3bc03000000010203"
    );
    let [messages, fence] = groups();
    assert_eq!(hex(&messages.encode()), "01010100000000000000020000000000000003000000010000000100000000020000000203");
    assert_eq!(hex(&fence.encode()), "010203000000000000000400000000000000");
}

#[test]
fn what_breaks_off_or_goes_on_is_refused() {
    for (bytes, again) in samples() {
        for length in 0..bytes.len() {
            assert!(again(&bytes[..length]).is_err(), "{length} of {bytes:?}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(again(&longer).is_err(), "{longer:?}");
    }
}

#[test]
fn one_changed_byte_never_panics_and_what_is_read_is_written_the_same() {
    for (bytes, again) in samples() {
        for at in 0..bytes.len() {
            for value in [0, 1, 2, 0x7f, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] = value;
                if let Ok(written) = again(&changed) {
                    assert_eq!(written.len(), changed.len(), "{changed:?}");
                }
            }
        }
    }
}

#[test]
fn a_newer_version_is_told_from_damage() {
    for (mut bytes, again) in samples() {
        bytes[0] = VERSION + 1;
        assert_eq!(again(&bytes), Err(RecordError::Newer { version: VERSION + 1 }));
    }
}
