use std::num::{NonZeroU16, NonZeroU64};

use crate::names::{ClientKey, Incarnation, Partition};

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

fn share() -> ShareRecord {
    let next = Place { sequence: crate::Sequence(300), index: 1 };
    let mut record = ShareRecord::new("$share/g/a", [next; 16]);
    record.members = [(ClientKey(1), 2), (ClientKey(3), 4)].into();
    record.holders[1] = Some(life(5));
    let partition = Partition::new(1).expect("there is one");
    record.cursors.set(partition, next, [Place { sequence: crate::Sequence(300), index: 0 }].into());
    record
}

/// Reads a record, and writes it again.
type Again = fn(&[u8]) -> Result<Vec<u8>, RecordError>;

fn samples() -> Vec<(Vec<u8>, Again)> {
    let node: Again = |bytes| Ok(NodeRecord::decode(bytes)?.encode());
    let session: Again = |bytes| Ok(SessionRecord::decode(bytes)?.encode());
    let group: Again = |bytes| Ok(Group::decode(bytes)?.encode());
    let share: Again = |bytes| Ok(ShareRecord::decode(bytes)?.encode());
    let nodes = nodes().into_iter().map(|record| (record.encode(), node));
    let groups = groups().into_iter().map(|record| (record.encode(), group));
    nodes.chain([(self::session().encode(), session), (self::share().encode(), share)]).chain(groups).collect()
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
    assert_eq!(ShareRecord::decode(&share().encode()), Ok(share()));
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
    let (client, epoch) = (ClientKey(1), 2);
    let message = Publisher { client, epoch, packet_id: NonZeroU16::new(3) }.sign(&[4]);
    assert_eq!(hex(&message), "010000000000000000000000000000000200000000000000030004");
    assert_eq!(
        Publisher::split(&message),
        Some((Publisher { client, epoch, packet_id: NonZeroU16::new(3) }, &[4][..]))
    );
    assert_eq!(Publisher::split(&message[..25]), None);
    let bytes = hex(&share().encode());
    let (head, rest) = bytes.split_at(2 * (1 + 4 + 10 + 4 + 2 * 24));
    assert_eq!(
        head,
        "010a0000002473686172652f672f610200000001000000000000000000000000000000020000000000000003000000000000000000000000000000\
         0400000000000000"
    );
    let (holders, cursors) = rest.split_at(2 * 16 * 8);
    assert!(
        holders.starts_with("00000000000000000500000000000000") && holders[32..].bytes().all(|digit| digit == b'0')
    );
    assert_eq!(cursors, format!("4400000001{}{}{}", "ac020100", "ac020101ac0200", "ac020100".repeat(14)));
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
