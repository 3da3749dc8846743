//! Tests that snapshots merged from the last snapshot and the log lead to the same state as the whole log.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tautwire_durable::{FrameWriter, NoSpillStore, Recovery, SnapshotHead, SpillStore, compact, read_snapshot};
use tautwire_journal::disk::FaultyDisk;
use tautwire_journal::record::{Record as OnDisk, Records};
use tautwire_journal::{
    Disk, Epoch, Log, LogId, Position, Reader, SEGMENT_MIN_BYTES, Settings, ShardNumber, SnapshotReader,
    SnapshotWriter, Step, TurnNumber,
};
use tautwire_message::{Message, MessageId, MessageRef, Spilled};
use tautwire_protocol::QoS;
use tautwire_session::{
    Change, LATE_CHANGES_MAX, PendingMessage, Record, Replay, RetainedChange, SessionNumber, SubscriptionIds,
};

const ID: LogId = LogId(7);
const SEEDS: u64 = 20;

fn epoch(number: u64) -> Epoch {
    Epoch::new(number).expect("not 0")
}

fn message(number: u64, topic: &str) -> Message {
    let payload = number.to_le_bytes().repeat(25 + number as usize % 60);
    MessageRef {
        id: MessageId { run: 1, number },
        topic,
        properties: &[],
        payload: &payload,
        qos: QoS::AtLeastOnce,
        retain: true,
        expires_at_ms: None,
    }
    .to_message()
}

fn queued(message: Message) -> Change {
    Change::Queued(PendingMessage {
        message: message.into(),
        qos: QoS::AtLeastOnce,
        retain: false,
        subscription_ids: SubscriptionIds::None,
        share: None,
    })
}

/// A deterministic source of numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// A log that is written, and the state that its frames lead to.
struct Written {
    disk: FaultyDisk,
    log: Log<FaultyDisk>,
    expected: Recovery<'static>,
    turns: u64,
}

impl Written {
    fn begin(seed: u64) -> Written {
        let disk = FaultyDisk::new(seed);
        let settings = Settings { segment_bytes: SEGMENT_MIN_BYTES, ..Settings::default() };
        let (log, _) = Log::open(&disk, settings, Position::START, epoch(1), ID, 0, |_| Ok(())).expect("is empty");
        Written { disk, log, expected: Recovery::new(None), turns: 0 }
    }

    fn write(&mut self, records: &[Record<'_>]) {
        let mut frame = FrameWriter::default();
        records.iter().for_each(|record| frame.add(record));
        let body = frame.take(Vec::new());
        self.expected.frame(&body).expect("fits");
        self.turns += 1;
        self.log.append(ShardNumber(0), TurnNumber(self.turns), &body).expect("fits");
        self.log.commit().expect("no faults");
        self.log.prepare(0).expect("no faults");
    }

    fn compact(&mut self) {
        self.compact_into(&mut NoSpillStore);
    }

    fn compact_into(&mut self, store: &mut dyn SpillStore) {
        let head = self.head();
        compact(&self.disk, head, store, || true).expect("intact").expect("not aborted");
        self.log.release(head.covered).expect("no faults");
    }

    fn head(&self) -> SnapshotHead {
        SnapshotHead { log: ID, epoch: epoch(99), covered: self.log.durable(), now_ms: 0 }
    }
}

/// Reads the state from the disk.
fn read(disk: &FaultyDisk) -> Replay {
    let mut recovery = Recovery::new(None);
    let covered = read_snapshot(disk, &mut recovery).expect("no faults").covered;
    let mut reader = Reader::open(disk, covered).expect("no faults");
    while let Some(step) = reader.step().expect("no faults") {
        let Step::Frame(frame) = step else { panic!("{step:?}") };
        recovery.frame(frame.body).expect("fits");
    }
    recovery.finish()
}

/// A store that must not be used, because retained messages go from file to file.
struct NeverSpill;

impl SpillStore for NeverSpill {
    fn write(&mut self, messages: &[Message]) -> Vec<Option<Spilled>> {
        assert!(messages.is_empty(), "{} messages were in memory", messages.len());
        Vec::new()
    }

    fn read(&mut self, _: &Spilled) -> Option<Message> {
        None
    }

    fn should_spill(&self) -> bool {
        panic!("a message is in memory")
    }
}

/// Encodes the state as records, with retained messages in a fixed order.
fn described(replay: &Replay) -> Vec<u8> {
    let mut frame = FrameWriter::default();
    replay.describe(|_| None, |record| frame.add(record)).expect("nothing is spilled");
    frame.take(Vec::new())
}

/// Returns the number of messages retained by the records of the last snapshot, and the topics that it clears.
fn of_snapshot(disk: &FaultyDisk) -> (usize, Vec<String>) {
    let mut snapshot = SnapshotReader::newest(disk).expect("no faults").expect("exists");
    let (mut set, mut cleared) = (0, Vec::new());
    while let Some(frame) = snapshot.step().expect("no faults") {
        for record in Records::new(frame.body) {
            match record.expect("intact") {
                OnDisk::RetainedSet { .. } => set += 1,
                OnDisk::RetainedCleared { topic, .. } => cleared.push(topic.to_owned()),
                _ => {}
            }
        }
    }
    (set, cleared)
}

fn names(disk: &FaultyDisk) -> Vec<String> {
    let mut names = disk.list().expect("no faults");
    names.sort_unstable();
    names
}

fn set(message: Message) -> RetainedChange {
    RetainedChange::Set(message)
}

/// Compacts a log now and then, while messages are queued and retained messages are set and cleared, in an order that depends on the seed.
/// The final state must be that of the whole log.
fn compact_now_and_then(seed: u64) {
    let mut random = Random(seed);
    let mut written = Written::begin(seed);
    let (one, mut number, mut sequence) = (SessionNumber(1), 0, 0);
    written.write(&[Record::Opened { session: one, client_id: "a", at_ms: 1 }]);
    // Changes that took effect, and are recorded later.
    let mut late: Vec<(u64, RetainedChange)> = Vec::new();
    for _ in 0..300 {
        number += 1;
        let topic = format!("t/{}", random.below(12));
        match random.below(20) {
            0 => written.compact(),
            1..3 => {
                let change = queued(message(number, &topic));
                written.write(&[Record::Changed { session: one, change: &change, packet_id: None }]);
            }
            // One message is queued and retained in one frame.
            3..5 => {
                sequence += 1;
                let message = message(number, &topic);
                let (queued, change) = (queued(message.clone()), set(message));
                written.write(&[
                    Record::Changed { session: one, change: &queued, packet_id: None },
                    Record::Retained { sequence, change: &change },
                ]);
            }
            kind => {
                sequence += 1;
                let cleared = RetainedChange::Cleared(topic.as_str().into());
                let change = if kind < 9 { cleared } else { set(message(number, &topic)) };
                if random.below(4) == 0 {
                    late.push((sequence, change));
                } else {
                    written.write(&[Record::Retained { sequence, change: &change }]);
                }
            }
        }
        if random.below(10) == 0 {
            for (sequence, change) in late.drain(..) {
                written.write(&[Record::Retained { sequence, change: &change }]);
            }
        }
    }
    written.compact();
    let found = read(&written.disk);
    assert_eq!(of_snapshot(&written.disk).0, found.retained().count(), "seed {seed}: a message is duplicated");
    assert!(described(&found) == described(&written.expected.finish()), "seed {seed}");
}

#[test]
fn a_snapshot_of_a_snapshot_has_the_state_after_any_changes() {
    (0..SEEDS).for_each(compact_now_and_then);
}

/// Deliberate faults of merging are found.
#[test]
fn faults_of_merging_are_found() {
    use tautwire_durable::mutant::{Mutant, mutate};

    let mutants = [
        Mutant::SnapshotEndsOneFrameEarly,
        Mutant::MergeDropsUnchanged,
        Mutant::MergeKeepsReplaced,
        Mutant::MergeUsesFirstChange,
        Mutant::MergeDropsCleared,
    ];
    for mutant in mutants {
        mutate(Some(mutant));
        let is_found = |seed| catch_unwind(AssertUnwindSafe(|| compact_now_and_then(seed))).is_err();
        let found = (0..SEEDS).find(|seed| is_found(*seed));
        mutate(None);
        assert!(found.is_some(), "{mutant:?} is not found");
    }
}

#[test]
fn unchanged_messages_are_copied_to_the_next_snapshot_without_loading() {
    let mut written = Written::begin(3);
    for number in 1..=2_000 {
        let change = set(message(number, &format!("t/{number}")));
        written.write(&[Record::Retained { sequence: number, change: &change }]);
    }
    written.compact_into(&mut NeverSpill);
    let change = RetainedChange::Cleared("t/7".into());
    written.write(&[Record::Retained { sequence: 2_001, change: &change }]);
    for _ in 0..3 {
        written.compact_into(&mut NeverSpill);
    }
    let found = read(&written.disk);
    assert_eq!((found.retained().count(), found.last_sequence()), (1_999, 2_001));
    assert_eq!(described(&found), described(&written.expected.finish()));
}

#[test]
fn a_cleared_topic_is_dropped_once_no_older_change_can_follow() {
    let mut written = Written::begin(4);
    let clear = |written: &mut Written, sequence, topic: &str| {
        written.write(&[Record::Retained { sequence, change: &RetainedChange::Cleared(topic.into()) }]);
    };
    clear(&mut written, 1, "long ago");
    clear(&mut written, 2, "just in time");
    let change = set(message(3, "kept"));
    written.write(&[Record::Retained { sequence: 2 + LATE_CHANGES_MAX, change: &change }]);
    written.compact();
    assert_eq!(of_snapshot(&written.disk), (1, vec!["just in time".to_owned()]));
    // The snapshot has a change that is later by this much, and the log after it does not.
    clear(&mut written, 1, "late");
    written.compact();
    assert_eq!(of_snapshot(&written.disk), (1, vec!["just in time".to_owned()]));
    clear(&mut written, 3 + LATE_CHANGES_MAX, "now");
    written.compact();
    assert_eq!(of_snapshot(&written.disk), (1, vec!["now".to_owned()]));
}

/// Writes a snapshot of the log's first frames that cannot be merged, because it names a message of an earlier frame.
fn snapshot_unfit_to_merge(written: &Written) {
    let mut frame = FrameWriter::default();
    frame.add(&Record::Opened { session: SessionNumber(1), client_id: "a", at_ms: 1 });
    frame.add(&Record::Retained { sequence: 1, change: &set(message(1, "t")) });
    let first = frame.take(Vec::new());
    frame.mark_forwarded(message(1, "t").id());
    let change = queued(message(1, "t"));
    frame.add(&Record::Changed { session: SessionNumber(1), change: &change, packet_id: None });
    let covered = written.log.durable();
    let mut snapshot = SnapshotWriter::begin(&written.disk, ID, epoch(2), covered, 0).expect("no faults");
    snapshot.append(&first).expect("no faults");
    snapshot.append(&frame.take(Vec::new())).expect("no faults");
    snapshot.finish().expect("no faults");
}

fn write_queued(written: &mut Written, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let change = queued(message(number, "t"));
        written.write(&[Record::Changed { session: SessionNumber(1), change: &change, packet_id: None }]);
    }
}

#[test]
fn a_snapshot_contains_exactly_the_frames_that_it_covers() {
    for is_unfit in [false, true] {
        let mut written = Written::begin(6);
        written.write(&[Record::Opened { session: SessionNumber(1), client_id: "a", at_ms: 1 }]);
        if is_unfit {
            snapshot_unfit_to_merge(&written);
        }
        write_queued(&mut written, 2..7);
        let head = written.head();
        write_queued(&mut written, 7..12);
        let before = described(&read(&written.disk));
        compact(&written.disk, head, &mut NoSpillStore, || true).expect("intact").expect("not aborted");
        assert!(
            names(&written.disk).contains(&format!("snapshot-{:016x}", head.covered.0)),
            "{:?}",
            names(&written.disk)
        );
        // An extra frame would queue its message twice, and a missing one would lose it.
        assert_eq!(described(&read(&written.disk)), before, "unfit to merge: {is_unfit}");
    }
}

#[test]
fn a_snapshot_that_cannot_be_merged_is_discarded() {
    let mut written = Written::begin(6);
    written.write(&[Record::Opened { session: SessionNumber(1), client_id: "a", at_ms: 1 }]);
    snapshot_unfit_to_merge(&written);
    write_queued(&mut written, 2..7);
    let (head, before) = (written.head(), names(&written.disk));
    let is_given_up_after = |frames: usize| {
        let left = std::cell::Cell::new(frames);
        let should_continue = || left.replace(left.get().saturating_sub(1)) > 0;
        compact(&written.disk, head, &mut NoSpillStore, should_continue).expect("intact").is_none()
    };
    // The five frames of the log and the first of the snapshot, before merging turns out to be impossible; then those of the log again.
    for frames in 0..11 {
        assert!(is_given_up_after(frames), "{frames}");
        assert_eq!(names(&written.disk), before);
    }
    assert!(!is_given_up_after(100));
}

/// Our code never writes such a snapshot, but the format allows it.
#[test]
fn a_snapshot_that_references_earlier_frames_is_readable() {
    let disk = FaultyDisk::new(5);
    let settings = Settings { segment_bytes: SEGMENT_MIN_BYTES, ..Settings::default() };
    let (log, _) = Log::open(&disk, settings, Position::START, epoch(1), ID, 0, |_| Ok(())).expect("is empty");
    let (retained, change) = (set(message(1, "t")), queued(message(1, "t")));
    let mut frame = FrameWriter::default();
    frame.add(&Record::Opened { session: SessionNumber(1), client_id: "a", at_ms: 1 });
    frame.add(&Record::Retained { sequence: 1, change: &retained });
    let first = frame.take(Vec::new());
    frame.mark_forwarded(message(1, "t").id());
    frame.add(&Record::Changed { session: SessionNumber(1), change: &change, packet_id: None });
    let mut snapshot = SnapshotWriter::begin(&disk, ID, epoch(2), Position(4_096), 0).expect("no faults");
    snapshot.append(&first).expect("no faults");
    snapshot.append(&frame.take(Vec::new())).expect("no faults");
    snapshot.finish().expect("no faults");
    let before = described(&read(&disk));
    let head = SnapshotHead { log: log.id(), epoch: epoch(3), covered: Position(8_192), now_ms: 0 };
    compact(&disk, head, &mut NoSpillStore, || true).expect("is understood").expect("not aborted");
    assert_eq!(described(&read(&disk)), before);
}

/// Records the highest reported memory use.
#[derive(Default)]
struct HeldBytesLog(usize);

impl SpillStore for HeldBytesLog {
    fn write(&mut self, messages: &[Message]) -> Vec<Option<Spilled>> {
        NoSpillStore.write(messages)
    }

    fn read(&mut self, _: &Spilled) -> Option<Message> {
        None
    }

    fn should_spill(&self) -> bool {
        false
    }

    fn set_held_bytes(&mut self, bytes: usize) {
        self.0 = self.0.max(bytes);
    }
}

#[test]
fn held_bytes_are_reported_during_recovery_and_rebuild() {
    const TOPICS: u64 = 2_000;
    const TOPIC_BYTES: usize = 1_000;
    let disk = FaultyDisk::new(5);
    let settings = Settings { segment_bytes: SEGMENT_MIN_BYTES, ..Settings::default() };
    let (log, _) = Log::open(&disk, settings, Position::START, epoch(1), ID, 0, |_| Ok(())).expect("is empty");
    let topic = |number: u64| format!("{number:0TOPIC_BYTES$}");
    let mut frame = FrameWriter::default();
    frame.add(&Record::Opened { session: SessionNumber(1), client_id: &"a".repeat(TOPIC_BYTES), at_ms: 1 });
    for number in 1..=TOPICS {
        frame.add(&Record::Retained { sequence: number, change: &set(message(number, &topic(number))) });
    }
    let first = frame.take(Vec::new());
    // A message of an earlier frame, so that merging is impossible.
    frame.mark_forwarded(message(1, &topic(1)).id());
    let change = queued(message(1, &topic(1)));
    frame.add(&Record::Changed { session: SessionNumber(1), change: &change, packet_id: None });
    let mut snapshot = SnapshotWriter::begin(&disk, ID, epoch(2), Position(4_096), 0).expect("no faults");
    snapshot.append(&first).expect("no faults");
    snapshot.append(&frame.take(Vec::new())).expect("no faults");
    snapshot.finish().expect("no faults");
    let least = (TOPICS as usize + 1) * TOPIC_BYTES;

    let mut told = HeldBytesLog::default();
    let mut recovery = Recovery::new(None).spill_into(&mut told);
    read_snapshot(&disk, &mut recovery).expect("no faults");
    recovery.finish();
    assert!(told.0 > least && told.0 < 2 * least, "{}", told.0);

    let mut merged = HeldBytesLog::default();
    let head = SnapshotHead { log: log.id(), epoch: epoch(3), covered: Position(8_192), now_ms: 0 };
    compact(&disk, head, &mut merged, || true).expect("is understood").expect("not aborted");
    // Buffers are reported, too.
    assert!(merged.0 > told.0 + (1 << 20), "{} {}", merged.0, told.0);
}

#[test]
fn a_discarded_or_failed_snapshot_keeps_the_last_one() {
    let mut written = Written::begin(9);
    for number in 1..=50 {
        let change = set(message(number, &format!("t/{number}")));
        written.write(&[Record::Retained { sequence: number, change: &change }]);
    }
    written.compact();
    let change = set(message(51, "t/51"));
    written.write(&[Record::Retained { sequence: 51, change: &change }]);
    let head = written.head();
    let before = names(&written.disk);
    for steps in 0..2 {
        let left = std::cell::Cell::new(steps);
        let should_continue = || left.replace(left.get() - 1) > 0;
        assert_eq!(compact(&written.disk, head, &mut NoSpillStore, should_continue).expect("intact"), None);
        assert_eq!(names(&written.disk), before, "{steps}");
    }
    // The snapshot is damaged, and nothing else has its data.
    let snapshot = before.iter().find(|name| name.starts_with("snapshot-")).expect("exists");
    written.disk.flip_bit(snapshot, 8_192 + 60, 1);
    assert!(compact(&written.disk, head, &mut NoSpillStore, || true).is_err());
    assert_eq!(names(&written.disk), before);
    written.disk.flip_bit(snapshot, 8_192 + 60, 1);
    written.compact();
    assert_eq!(described(&read(&written.disk)), described(&written.expected.finish()));
}
