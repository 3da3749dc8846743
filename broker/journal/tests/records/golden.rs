//! The bytes of each format version, written by hand and never by the code under test.

use tautwire_journal::disk::{Disk, DiskFile, FaultyDisk};
use tautwire_journal::record::{Ids, Member, PendingRecord, Record, Records};
use tautwire_journal::{Epoch, Log, LogId, Position, SEGMENT_MIN_BYTES, SessionId, Settings, ShardNumber, TurnNumber};
use tautwire_message::{Format, MessageId, MessageRef};
use tautwire_protocol::{PacketId, QoS, RetainHandling, SubscriptionId, SubscriptionOptions};

use crate::encoded;

const RECORDS: &str = include_str!("../golden/records-v1.txt");
const SEGMENT: &str = include_str!("../golden/segment-v2.txt");
const VERSION: &str = include_str!("../golden/VERSION-v2.txt");
const SEGMENT_1: &str = include_str!("../golden/segment-v1.txt");
const VERSION_1: &str = include_str!("../golden/VERSION-v1.txt");
const NOW_MS: u64 = 1_700_000_000_000;

fn lines(text: &str) -> impl Iterator<Item = (&str, Vec<u8>)> {
    let hex = |digits: &str| {
        let digits: Vec<u8> = digits.bytes().filter(|byte| *byte != b' ').collect();
        let byte =
            |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("hexadecimal");
        digits.chunks(2).map(byte).collect()
    };
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(move |line| line.split_once(' ').map(|(name, digits)| (name, hex(digits))).expect("a name and digits"))
}

#[test]
fn records_have_the_golden_bytes() {
    let session = SessionId::new(0x0102_0304_0506_0708).expect("not 0");
    let packet_id = |id| PacketId::new(id).expect("not 0");
    let id = MessageId { run: 0x1111_1111_1111_1111, number: 7 };
    let ids = [SubscriptionId::new(1), SubscriptionId::new(268_435_455)].map(|id| id.expect("is valid"));
    let share = "$share/g/a/#";
    let message = MessageRef {
        id,
        topic: "a/b",
        properties: &[1, 1],
        payload: b"hello",
        qos: QoS::AtLeastOnce,
        retain: true,
        expires_at_ms: Some(NOW_MS),
    };
    let will = MessageRef {
        id: MessageId::NONE,
        topic: "w",
        properties: &[],
        payload: &[],
        qos: QoS::ExactlyOnce,
        retain: false,
        expires_at_ms: None,
    };
    let delivery = PendingRecord {
        message: id,
        qos: QoS::AtLeastOnce,
        retain: true,
        subscription_ids: Ids::Given(&ids),
        share: Some(share),
    };
    let plain =
        PendingRecord { qos: QoS::ExactlyOnce, retain: false, subscription_ids: Ids::NONE, share: None, ..delivery };
    let records = [
        Record::Message(message),
        Record::Opened { session, at_ms: NOW_MS, client_id: "client-ü" },
        Record::Ended { session },
        Record::ExpiryInterval { session, seconds: u32::MAX },
        Record::Connected { session, at_ms: NOW_MS + 1 },
        Record::Disconnected { session, at_ms: NOW_MS + 2 },
        Record::Will { session, delay_s: 30, message_expiry_s: Some(60), message: will },
        Record::WillGone { session },
        Record::Subscribed {
            session,
            options: SubscriptionOptions {
                qos: QoS::ExactlyOnce,
                no_local: true,
                retain_as_published: true,
                retain_handling: RetainHandling::DoNotSend,
            },
            identifier: Some(ids[1]),
            format: Some(Format::Json),
            filter: "a/+/#",
        },
        Record::Unsubscribed { session, filter: "a/+/#" },
        Record::Queued { session, delivery },
        Record::Unqueued { session },
        Record::Started { session, packet_id: packet_id(65_535), delivery: plain },
        Record::StartedQueued { session, packet_id: packet_id(1) },
        Record::Received { session, packet_id: packet_id(2) },
        Record::Completed { session, packet_id: packet_id(3) },
        Record::Taken { session, packet_id: packet_id(4) },
        Record::Released { session, packet_id: packet_id(5) },
        Record::RetainedSet { sequence: 9, message: id },
        Record::RetainedCleared { sequence: 10, topic: "a/b" },
        Record::Forwarded {
            from: ShardNumber(1),
            to: ShardNumber(3),
            sequence: 11,
            message: id,
            member: Some(Member { session, share }),
        },
        Record::Forwarded { from: ShardNumber(1), to: ShardNumber(3), sequence: 12, message: id, member: None },
        Record::ForwardAccepted { from: ShardNumber(1), to: ShardNumber(3), sequence: 12 },
        Record::NextPacketId { session, packet_id: packet_id(6) },
        Record::AwaitingPubComp { session, packet_id: packet_id(7) },
        Record::Counted { last_session: 12, last_sequence: 13 },
        Record::RunStarted { shards: 4, seed: 0x2222_2222_2222_2222 },
    ];
    let golden: Vec<_> = lines(RECORDS).collect();
    assert_eq!(golden.len(), records.len());
    for ((name, bytes), record) in golden.iter().zip(&records) {
        assert_eq!(*name, record.name());
        assert_eq!(Records::new(bytes).collect::<Vec<_>>(), [Ok(*record)], "{name}");
        assert_eq!(encoded(&[*record]), *bytes, "{name}");
    }
}

fn segment_of(text: &str) -> Vec<u8> {
    let mut segment = vec![0; SEGMENT_MIN_BYTES as usize];
    for (offset, bytes) in lines(text) {
        let offset: usize = offset.parse().expect("a number");
        segment[offset..offset + bytes.len()].copy_from_slice(&bytes);
    }
    segment.copy_within(0..80, 4_096);
    segment
}

/// A directory of a version 1 program is read, extended, and read again.
#[test]
fn a_directory_of_version_1_is_read_and_continued() {
    let disk = FaultyDisk::new(0);
    let files = [("VERSION", VERSION_1.as_bytes().to_vec()), ("segment-0000000000000001", segment_of(SEGMENT_1))];
    for (name, bytes) in files {
        let file = disk.create(name, bytes.len() as u64).expect("no faults");
        file.write_durably(0, &bytes).expect("no faults");
    }
    disk.sync_directory().expect("no faults");
    let settings = Settings { segment_bytes: SEGMENT_MIN_BYTES, ..Settings::default() };
    for life in 1..=3 {
        let mut bodies = Vec::new();
        let epoch = Epoch::new(life).expect("not 0");
        let opened = Log::open(&disk, settings, Position::START, epoch, LogId(1), NOW_MS, |frame| {
            bodies.push(frame.body.to_vec());
            Ok(())
        });
        let (mut log, recovery) = opened.expect("intact");
        assert!(recovery.end.closed && recovery.damage.is_empty());
        assert_eq!((bodies.len(), bodies[1].len()), (1 + life as usize, 0));
        assert_eq!(log.id(), LogId(0x4444_4444_4444_4444));
        log.append(ShardNumber(0), TurnNumber(1), &[]).expect("fits");
        log.close().expect("no faults");
    }
    let mut version = vec![0; VERSION.len()];
    disk.open("VERSION").expect("exists").read_at(0, &mut version).expect("no faults");
    assert!(version.starts_with(b"tautwire-journal\nformat 2\n"), "older programs refuse it");
}

#[test]
fn a_segment_has_the_golden_bytes() {
    let disk = FaultyDisk::new(0);
    let settings = Settings { segment_bytes: SEGMENT_MIN_BYTES, ..Settings::default() };
    let epoch = Epoch::new(0x3333_3333_3333_3333).expect("not 0");
    let id = LogId(0x4444_4444_4444_4444);
    let (mut log, _) = Log::open(&disk, settings, Position::START, epoch, id, NOW_MS, |_| Ok(())).expect("no faults");
    let body = encoded(&[Record::Ended { session: SessionId::new(0x0102_0304_0506_0708).expect("not 0") }]);
    log.append(ShardNumber(1), TurnNumber(1), &body).expect("fits");
    log.append(ShardNumber(2), TurnNumber(1), &[]).expect("fits");
    assert_eq!(log.commit(), Ok(Position(8_256)));
    log.close().expect("no faults");

    let expected = segment_of(SEGMENT);
    let mut segment = vec![0; SEGMENT_MIN_BYTES as usize];
    disk.open("segment-0000000000000001").expect("exists").read_at(0, &mut segment).expect("no faults");
    assert!(segment == expected, "a segment has other bytes than before: the format has changed");

    let mut version = vec![0; VERSION.len()];
    disk.open("VERSION").expect("exists").read_at(0, &mut version).expect("no faults");
    assert_eq!(version, VERSION.as_bytes());
}
