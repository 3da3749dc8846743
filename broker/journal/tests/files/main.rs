//! Tests the log in a real directory, snapshots, and rejected directories.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use tautwire_journal::disk::{Disk, DiskFile, Faults, FaultyDisk};
use tautwire_journal::record::Record;
use tautwire_journal::{
    DamageKind, Directory, DurableFrames, Epoch, Log, LogError, LogId, OnDamage, OpenReport, Position, Reader,
    SEGMENT_MIN_BYTES, SessionId, Settings, ShardNumber, SnapshotReader, SnapshotWriter, Step, TurnNumber,
    WriterThread, check,
};

const ID: LogId = LogId(0xABCD);

fn epoch(number: u64) -> Epoch {
    Epoch::new(number).expect("not 0")
}

fn settings(on_damage: OnDamage) -> Settings {
    Settings { segment_bytes: SEGMENT_MIN_BYTES, on_damage, ..Settings::default() }
}

type Opened<D> = (Log<D>, OpenReport, Vec<Vec<u8>>);

fn open<D: Disk>(disk: &D, number: u64, covered: Position, on_damage: OnDamage) -> Result<Opened<D>, LogError> {
    let mut bodies = Vec::new();
    let (log, recovery) = Log::open(disk, settings(on_damage), covered, epoch(number), ID, 0, |frame| {
        bodies.push(frame.body.to_vec());
        Ok(())
    })?;
    Ok((log, recovery, bodies))
}

/// A directory that is removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Folder(std::env::temp_dir().join(format!("tautwire-journal-{}-{number}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_directory_is_private_to_its_user() {
    let folder = Folder::new();
    let path = folder.0.join("a/b");
    let disk = Directory::open(&path).expect("can be made");
    let mode = std::fs::metadata(&path).expect("exists").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    disk.sync_directory().expect("exists");
    Directory::open(&path).expect("already exists");
}

#[test]
fn a_real_directory_keeps_frames_of_all_sizes_in_order() {
    let folder = Folder::new();
    let disk = Directory::open(&folder.0).expect("can be made");
    let bodies: Vec<Vec<u8>> =
        (0..200).map(|n: usize| vec![n as u8; n * n % 5_000]).chain([vec![9; 300_000]]).collect();
    for round in 0..3 {
        let (mut log, recovery, read) = open(&disk, round + 1, Position::START, OnDamage::Refuse).expect("intact");
        assert!(read.iter().eq(bodies.iter().cycle().take(bodies.len() * round as usize)));
        assert_eq!(recovery.end.closed, round > 0);
        assert!(matches!(open(&disk, 9, Position::START, OnDamage::Refuse).map(|_| ()), Err(LogError::Locked)));
        for (body, turn) in bodies.iter().zip(1..) {
            while log.append(ShardNumber(0), TurnNumber(turn), body).is_err() {
                log.commit().expect("not full");
            }
            if turn % 7 == 0 {
                log.commit().expect("not full");
                log.prepare(0).expect("not full");
            }
        }
        log.close().expect("not full");
    }
    assert!(disk.free_bytes().expect("is known") > 0);
}

#[test]
fn a_closed_writer_creates_no_files() {
    let folder = Folder::new();
    let disk = Directory::open(&folder.0).expect("can be made");
    for number in 1..=30 {
        let (log, ..) = open(&disk, number, Position::START, OnDamage::Refuse).expect("intact");
        let (writer, _ports) = WriterThread::start(log, 1, |_| {}, || 0).expect("a thread");
        writer.close().expect("not full");
        let names = disk.list().expect("can be read");
        assert!(!names.iter().any(|name| name.ends_with(".new")), "{names:?}");
    }
}

fn with_three_frames() -> FaultyDisk {
    let disk = FaultyDisk::new(1);
    let (mut log, ..) = open(&disk, 1, Position::START, OnDamage::Refuse).expect("no faults");
    for turn in 1..=3 {
        let mut body = Vec::new();
        Record::Unsubscribed { session: SessionId::new(turn).expect("not 0"), filter: "a/b" }.append_to(&mut body);
        log.append(ShardNumber(0), TurnNumber(turn), &body).expect("fits");
        log.commit().expect("no faults");
    }
    log.close().expect("no faults");
    disk
}

const FIRST_SEGMENT: &str = "segment-0000000000000001";

#[test]
fn damage_within_the_log_is_refused_reported_and_skipped_on_request() {
    let disk = with_three_frames();
    // The second frame begins at the fourth block. Its text changes.
    disk.flip_bit(FIRST_SEGMENT, 12_288 + 48 + 9, 0);
    let Err(LogError::Damaged(damage)) = open(&disk, 2, Position::START, OnDamage::Refuse).map(|_| ()) else {
        panic!("is damaged");
    };
    assert_eq!((damage.kind, damage.segment.0), (DamageKind::FramesLost, 1));
    assert_eq!((damage.after, damage.before), (Position(8_192), Some(Position(16_384))));
    assert!(damage.bytes.contains(&12_288) && damage.bytes.end == 16_384);
    assert_eq!(damage.possibly_affected.sessions, [SessionId::new(2).expect("not 0")]);
    let text = LogError::Damaged(damage).to_string();
    assert!(text.starts_with("segment 1, bytes ") && text.ends_with("[journal_damaged]"), "{text}");

    let (mut log, recovery, bodies) = open(&disk, 2, Position::START, OnDamage::Skip).expect("can continue");
    assert_eq!((bodies.len(), recovery.damage.len()), (2, 1));
    // A damaged segment is kept for people when it is released.
    log.append(ShardNumber(0), TurnNumber(1), b"").expect("fits");
    let position = log.commit().expect("no faults");
    log.release(position).expect("no faults");
    assert!(disk.list().expect("no faults").contains(&"damaged-0000000000000001".to_owned()));
}

#[test]
fn missing_frames_that_an_earlier_open_read_are_damage() {
    let disk = with_three_frames();
    drop(open(&disk, 2, Position::START, OnDamage::Refuse).expect("intact"));
    // The last frames of the log: on their own they would look like a torn tail.
    for offset in [16_384 + 48, 20_480 + 8] {
        disk.flip_bit(FIRST_SEGMENT, offset, 0);
    }
    let refused = open(&disk, 3, Position::START, OnDamage::Refuse).map(|_| ());
    let Err(LogError::Damaged(damage)) = refused else { panic!("is damaged: {refused:?}") };
    assert_eq!((damage.after, damage.before), (Position(12_288), None));
    let (_, recovery, bodies) = open(&disk, 3, Position::START, OnDamage::Skip).expect("can continue");
    assert_eq!((bodies.len(), recovery.damage.len()), (2, 1));
    drop(recovery);
    let (_, recovery, _) = open(&disk, 4, Position::START, OnDamage::Skip).expect("can continue");
    assert_eq!(recovery.damage.len(), 1, "it stays damage");
}

#[test]
fn a_header_is_damaged_only_if_both_copies_are() {
    let disk = with_three_frames();
    disk.flip_bit(FIRST_SEGMENT, 20, 0);
    open(&disk, 2, Position::START, OnDamage::Refuse).expect("a copy");
    disk.flip_bit(FIRST_SEGMENT, 4_096 + 20, 0);
    let (_, recovery, bodies) = open(&disk, 3, Position::START, OnDamage::Skip).expect("can continue");
    assert!(bodies.is_empty());
    assert_eq!(recovery.damage[0].kind, DamageKind::HeaderLost);
}

#[test]
fn a_newer_version_is_refused_and_reported() {
    let disk = with_three_frames();
    for (file, offsets) in [("VERSION", &[24][..]), (FIRST_SEGMENT, &[8, 4_096 + 8])] {
        let flip = || offsets.iter().for_each(|offset| disk.flip_bit(file, *offset, 0));
        flip();
        let refused = open(&disk, 2, Position::START, OnDamage::Skip).map(|_| ());
        assert_eq!(refused, Err(LogError::UnsupportedVersion { file: file.into(), version: 3 }));
        flip();
    }
    open(&disk, 2, Position::START, OnDamage::Refuse).expect("unchanged");
}

#[test]
fn a_frame_that_the_caller_refuses_leaves_the_log_unchanged() {
    let disk = with_three_frames();
    let names = disk.list().expect("no faults");
    let result = Log::open(&disk, settings(OnDamage::Refuse), Position::START, epoch(2), ID, 0, |_| Err("no".into()));
    assert!(matches!(result.map(|_| ()), Err(LogError::Refused { at: Position(8_192), .. })));
    assert_eq!(disk.list().expect("no faults"), names);
}

#[test]
fn without_space_for_a_segment_the_log_continues_to_its_end() {
    for space_comes in [true, false] {
        let disk = FaultyDisk::new(1);
        let (mut log, ..) = open(&disk, 1, Position::START, OnDamage::Refuse).expect("no faults");
        disk.set_faults(Faults { capacity_bytes: Some(SEGMENT_MIN_BYTES + 10_000), ..Faults::default() });
        log.prepare(0).expect("not a failure");
        assert!(log.is_low_on_space());
        // Requesting a segment does not yet provide space.
        log.retry_allocation();
        let order = log.request(0).expect("retried");
        assert!(log.is_low_on_space());
        log.install_segment(order.execute()).expect("not a failure");
        assert!(log.is_low_on_space());
        let mut append = |turn| {
            log.append(ShardNumber(0), TurnNumber(turn), &[0; 4_000]).expect("fits");
            let result = log.commit();
            (result, log.durable())
        };
        // A segment of 16 blocks has space for 14 groups of one block.
        for turn in 1..=14 {
            append(turn).0.expect("not full");
        }
        if space_comes {
            disk.set_faults(Faults::default());
            append(15).0.expect("not full");
            continue;
        }
        let (failed, durable) = append(15);
        assert!(matches!(&failed, Err(LogError::Disk(error)) if error.kind == ErrorKind::StorageFull), "{failed:?}");
        assert_eq!(durable, Position(SEGMENT_MIN_BYTES - 4_096));
        disk.set_faults(Faults::default());
        assert_eq!(log.commit(), failed, "a failure is final");
        drop(log);
        let (_, _, bodies) = open(&disk, 2, Position::START, OnDamage::Refuse).expect("intact");
        assert_eq!(bodies.len(), 14);
    }
}

#[test]
fn covered_frames_are_ignored_even_within_a_group() {
    let disk = FaultyDisk::new(1);
    let (mut log, ..) = open(&disk, 1, Position::START, OnDamage::Refuse).expect("no faults");
    for turn in 1..=6 {
        log.append(ShardNumber(0), TurnNumber(turn), &[turn as u8]).expect("fits");
        if turn % 3 == 0 {
            log.commit().expect("no faults");
        }
    }
    drop(log);
    let bodies = |covered: u64| {
        let mut reader = Reader::open(&disk, Position(covered)).expect("no faults");
        let mut bodies = Vec::new();
        while let Some(step) = reader.step().expect("no faults") {
            match step {
                Step::Frame(frame) => bodies.push(frame.body[0]),
                Step::Damage(_) => bodies.push(0),
            }
        }
        bodies
    };
    assert_eq!((bodies(0), bodies(8_192)), (vec![1, 2, 3, 4, 5, 6], vec![2, 3, 4, 5, 6]));
    assert_eq!((bodies(8_192 + 128), bodies(12_288 + 64)), (vec![4, 5, 6], vec![6]));
    disk.flip_bit(FIRST_SEGMENT, 8_192 + 48, 0);
    // Within a group it is unknown whether only covered data was lost.
    assert_eq!((bodies(0), bodies(8_192)), (vec![0, 2, 3, 4, 5, 6], vec![0, 2, 3, 4, 5, 6]));
    assert_eq!(bodies(8_192 + 128), vec![4, 5, 6]);
}

#[test]
fn durable_frames_are_read_the_same_in_parts_and_whole_segments() {
    let disk = FaultyDisk::new(11);
    for life in 1..=4 {
        let (mut log, ..) = open(&disk, life, Position::START, OnDamage::Refuse).expect("intact");
        for turn in 1..=40 {
            let body = vec![life as u8; 3_000 * (turn as usize % 5)];
            log.append(ShardNumber(0), TurnNumber(turn), &body).expect("fits");
            // The last one of each run is missing, and its position is skipped.
            if turn % 3 == 0 {
                log.commit().expect("no faults");
                log.prepare(0).expect("no faults");
            }
        }
        drop(log);
        disk.crash();
    }
    let whole = |covered| {
        let mut reader = Reader::open(&disk, covered).expect("no faults");
        let mut frames = Vec::new();
        while let Some(Step::Frame(frame)) = reader.step().expect("no faults") {
            frames.push((frame.position, frame.body.len()));
        }
        (frames, reader.end().map(|end| end.last))
    };
    let in_pieces = |covered| {
        let mut reader = DurableFrames::open(&disk, covered).expect("no faults");
        let mut frames = Vec::new();
        while let Some(frame) = reader.step().expect("no faults") {
            frames.push((frame.position, frame.body.len()));
        }
        (frames, Some(reader.last()))
    };
    let all = whole(Position::START);
    assert_eq!(all.0.len(), 4 * 39);
    assert_eq!(in_pieces(Position::START), all);
    for (covered, _) in &all.0 {
        assert_eq!(in_pieces(*covered), whole(*covered), "{covered:?}");
    }
    // The iteration ends before a hole.
    let (at, _) = all.0[1];
    disk.flip_bit(FIRST_SEGMENT, at.0 + 50, 0);
    let (left, last) = in_pieces(Position::START);
    assert!(left[..] == all.0[..1] && last < Some(at), "{} {last:?}", left.len());
}

#[test]
fn check_counts_records() {
    let disk = with_three_frames();
    let mut filters = Vec::new();
    let reader = Reader::open(&disk, Position::START).expect("no faults");
    let summary = check(reader, |_, record| filters.extend(record.topic().map(str::to_owned))).expect("no faults");
    assert_eq!((summary.frames, summary.records, filters), (3, 3, vec!["a/b".to_owned(); 3]));
    assert!(summary.end.closed && summary.damage.is_empty() && summary.undecodable.is_empty());
}

#[test]
fn the_newest_complete_snapshot_is_read() {
    let disk = with_three_frames();
    let write = |number: u64, covered: u64, frames: u64| {
        let mut writer = SnapshotWriter::begin(&disk, ID, epoch(number), Position(covered), 0).expect("no faults");
        for n in 0..frames {
            writer.append(&n.to_le_bytes().repeat(n as usize)).expect("no faults");
        }
        writer
    };
    let newest = || SnapshotReader::newest(&disk).expect("no faults");
    let unfinished = write(5, 8_192, 10);
    assert!(newest().is_none());
    unfinished.finish().expect("no faults");
    write(6, 12_288, 3_000).finish().expect("no faults");
    let names = disk.list().expect("no faults");
    assert_eq!(names.iter().filter(|name| name.starts_with("snapshot-")).count(), 1, "older ones are removed");
    disk.sync_directory().expect("no faults");
    disk.crash();
    let mut reader = newest().expect("exists");
    assert_eq!(reader.covered(), Position(12_288));
    let mut n = 0u64;
    while let Some(frame) = reader.step().expect("no faults") {
        assert!(frame.body == n.to_le_bytes().repeat(n as usize));
        n += 1;
    }
    assert_eq!(n, 3_000);

    // Any changed bit of its frames invalidates it.
    let name = "snapshot-0000000000003000";
    let size = disk.open(name).and_then(|file| file.size_bytes()).expect("exists");
    for offset in [8_192 + 3, 8_192 + 60, size / 2, size - 4_096] {
        disk.flip_bit(name, offset, 3);
        assert!(newest().is_none(), "offset {offset}");
        disk.flip_bit(name, offset, 3);
    }
    assert!(newest().is_some());

    let (_, _, bodies) = open(&disk, 7, Position(12_288), OnDamage::Refuse).expect("intact");
    assert_eq!(bodies.len(), 1, "covered frames are skipped");
}
