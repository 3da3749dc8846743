use std::num::{NonZeroU16, NonZeroU64};

use crate::names::{ClientKey, Incarnation, Partition};
use crate::numbers::Sequence;

use super::*;

fn life(number: u64) -> Incarnation {
    Incarnation(NonZeroU64::new(number).expect("not 0"))
}

fn nodes() -> Vec<NodeRecord> {
    let mut ends = Box::new([End::default(); 16]);
    ends[3] = End { group: 7, ordinal: 9 };
    let load = Load { sessions: 258, is_closed: true };
    [NodeState::Alive { beat: 5, load }, NodeState::Removing { by: life(6), attempt: 1 }, NodeState::Removed { ends }]
        .map(|state| NodeRecord { name: "a".to_owned(), reference: "b:1".to_owned(), state })
        .into()
}

fn session() -> SessionRecord {
    let packet_id = |id| NonZeroU16::new(id).expect("not 0");
    let partition = Partition::new(2).expect("below 16");
    SessionRecord {
        client_id: "ü".to_owned(),
        epoch: 3,
        write: 4,
        claimed_at: NonZeroU64::new(13),
        owner: Some(Claim { by: life(5), number: 6 }),
        taken: vec![
            Taken { packet_id: packet_id(7), intent: None },
            Taken { packet_id: packet_id(8), intent: Some(Intent { partition, ordinal: 9 }) },
        ],
        expiry_s: 10,
        away_ms: Some(11),
        will: Some(will()),
        due: vec![DueWill { will: Will { retain: None, ..will() }, intent: Some(Intent { partition, ordinal: 12 }) }],
        state: vec![1, 2, 3],
    }
}

fn will() -> Will {
    Will { delay_s: 1, topic: "t".to_owned(), retain: Some(Retain::Seconds(5)), message: vec![6] }
}

fn retained() -> [RetainedRecord; 3] {
    let place = Place { sequence: Sequence(1), index: 2 };
    let block = Publisher { client: ClientKey(1), epoch: 2, packet_id: None }.sign(&[4]);
    [Retain::Always, Retain::Seconds(3), Retain::Clear]
        .map(|retain| RetainedRecord::of(place, retain, "t".to_owned(), &block))
}

fn config() -> ConfigRecord {
    let part = |name: &str, byte| ConfigPart { name: name.to_owned(), bytes: vec![byte] };
    ConfigRecord { number: 1, by: (life(2), 3), parts: vec![part("a", 4), part("b", 5)] }
}

fn groups() -> [Group; 2] {
    let to_retain = vec![RetainEntry { index: 2, retain: Retain::Clear, topic: "t".to_owned() }];
    let messages = Body::Messages { messages: vec![vec![1], vec![], vec![2, 3]], to_retain };
    [
        Group { number: 1, ordinal: 2, unsettled: None, body: messages },
        Group { number: 3, ordinal: 4, unsettled: Some(Sequence(5)), body: Body::Fence },
    ]
}

fn share() -> ShareRecord {
    let next = Place { sequence: Sequence(300), index: 1 };
    let mut record = ShareRecord::new("$share/g/a", [next; 16]);
    record.members = [(ClientKey(1), 2), (ClientKey(3), 4)].into();
    record.holders[1] = Some(life(5));
    let partition = Partition::new(1).expect("below 16");
    record.cursors.set(partition, next, [Place { sequence: Sequence(300), index: 0 }].into());
    record
}

/// Decodes a record and encodes it again.
type Again = fn(&[u8]) -> Result<Vec<u8>, RecordError>;

fn samples() -> Vec<(Vec<u8>, Again)> {
    let node: Again = |bytes| Ok(NodeRecord::decode(bytes)?.encode());
    let session: Again = |bytes| Ok(SessionRecord::decode(bytes)?.encode());
    let group: Again = |bytes| Ok(Group::decode(bytes)?.encode());
    let share: Again = |bytes| Ok(ShareRecord::decode(bytes)?.encode());
    let nodes = nodes().into_iter().map(|record| (record.encode(), node));
    let groups = groups().into_iter().map(|record| (record.encode(), group));
    let kept: Again = |bytes| Ok(RetainedRecord::decode(bytes)?.encode());
    let config: Again = |bytes| Ok(ConfigRecord::decode(bytes)?.encode());
    let kept = retained().into_iter().map(|record| (record.encode(), kept));
    let single =
        [(self::session().encode(), session), (self::config().encode(), config), (self::share().encode(), share)];
    nodes.chain(single).chain(groups).chain(kept).collect()
}

#[test]
fn records_round_trip() {
    for node in nodes() {
        assert_eq!(NodeRecord::decode(&node.encode()), Ok(node));
    }
    for group in groups() {
        assert_eq!(Group::decode(&group.encode()), Ok(group));
    }
    assert_eq!(SessionRecord::decode(&session().encode()), Ok(session()));
    assert_eq!(ShareRecord::decode(&share().encode()), Ok(share()));
    for record in retained() {
        assert_eq!(RetainedRecord::decode(&record.encode()), Ok(record));
    }
    assert_eq!(ConfigRecord::decode(&config().encode()), Ok(config()));
    let detached_record =
        SessionRecord { owner: None, taken: Vec::new(), away_ms: None, will: None, due: Vec::new(), ..session() };
    assert_eq!(SessionRecord::decode(&detached_record.encode()), Ok(detached_record));
}

/// The bytes are part of the format: a change requires a change of [`VERSION`].
#[test]
fn the_encoding_is_stable() {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let name = "010000006103000000623a31";
    assert_eq!(hex(&nodes()[0].encode()), format!("010105000000000000000201000001{name}"));
    assert_eq!(hex(&nodes()[1].encode()), format!("010206000000000000000100000000000000{name}"));
    assert_eq!(
        hex(&session().encode()),
        "01030000000000000004000000000000000d000000000000000500000000000000060000000000000002000700ff00000000000000000800\
         0209000000000000000a000000010b000000000000000101000000010000007401020500000001000000060100010000\
         000100000074000100000006020c0000000000000002000000c3bc03000000010203"
    );
    assert_eq!(
        hex(&config().encode()),
        "010100000000000000020000000000000003000000000000000200000001000000610100000004010000006201000000\
         05"
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
    assert_eq!(
        hex(&messages.encode()),
        "01010100000000000000020000000000000000000000000000000100000002000000030100000074\
         03000000010000000100000000020000000203"
    );
    assert_eq!(hex(&fence.encode()), "0102030000000000000004000000000000000500000000000000");
    let [always, seconds, clear] = retained();
    assert_eq!(hex(&always.encode()), "010100000000000000020000000101000000740100000004");
    assert_eq!(hex(&seconds.encode()), "01010000000000000002000000020300000001000000740100000004");
    assert_eq!(hex(&clear.encode()), "0101000000000000000200000003010000007400000000");
}

#[test]
fn truncated_and_extended_records_are_refused() {
    for (bytes, again) in samples() {
        for length in 0..bytes.len() {
            assert!(again(&bytes[..length]).is_err(), "{length} of {bytes:?}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(again(&longer).is_err(), "{longer:?}");
    }
}

#[test]
fn a_changed_byte_never_panics_and_accepted_records_round_trip() {
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
fn a_newer_version_is_distinguished_from_damage() {
    for (mut bytes, again) in samples() {
        bytes[0] = VERSION + 1;
        assert_eq!(again(&bytes), Err(RecordError::Newer { version: VERSION + 1 }));
    }
}
