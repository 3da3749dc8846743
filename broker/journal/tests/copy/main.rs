//! Copies and reads a log that is being written: the disk grows between any two reads.

mod busy;

use tautwire_journal::disk::{Disk, DiskFile, FaultyDisk};
use tautwire_journal::{
    COPY_ATTEMPTS, CopyError, DamageKind, Epoch, LogError, Position, READ_ATTEMPTS, Reader, SnapshotReader,
    SnapshotWriter, Snapshots, Step, check, copy, read_consistently, verify,
};

use crate::busy::{Between, Busy};

/// Returns the bodies of all frames after `covered`, each of which begins with its number.
fn numbers<D: Disk>(disk: &D, covered: Position) -> Vec<u64> {
    let mut reader = Reader::open(disk, covered).expect("no faults");
    let mut numbers = Vec::new();
    while let Some(step) = reader.step().expect("no faults") {
        let Step::Frame(frame) = step else { panic!("{step:?}") };
        numbers.push(u64::from_le_bytes(frame.body[..8].try_into().expect("8 bytes")));
    }
    numbers
}

#[test]
fn a_copy_of_a_growing_log_contains_everything_before_it() {
    for seed in 0..80 {
        let busy = Busy::new(seed, 3 + seed % 37);
        let before = busy.written();
        busy.between_reads(Between::Append);
        let target = FaultyDisk::new(1);
        let copied = copy(&busy, &target).expect("intact");
        assert!(busy.written() > before, "nothing was written meanwhile");
        assert_eq!(busy.listings(), 2, "seed {seed}: it was made again, although nothing was released");
        let numbers = numbers(&target, Position::START);
        assert!(numbers.iter().copied().eq(1..=numbers.len() as u64), "seed {seed}: {numbers:?}");
        assert!(numbers.len() as u64 >= before, "seed {seed}: {} of {before}", numbers.len());
        assert_eq!(copied.log.frames, numbers.len() as u64);
        let (_, log) = verify(&target).expect("intact");
        assert_eq!(log.end.torn, None, "seed {seed}: the copy contains the write in progress");
        let names = target.list().expect("no faults");
        assert!(!names.iter().any(|name| name == "LOCK" || name.starts_with("spare-")), "{names:?}");
    }
}

#[test]
fn a_copy_is_durable() {
    let busy = Busy::new(3, 40);
    let target = FaultyDisk::new(1);
    copy(&busy, &target).expect("intact");
    target.crash();
    assert_eq!(numbers(&target, Position::START).len() as u64, busy.written());
}

#[test]
fn a_copy_is_repeated_if_segments_were_released_meanwhile() {
    let busy = Busy::new(5, 40);
    busy.between_reads(Between::ReleaseSometimes);
    let target = FaultyDisk::new(1);
    let copied = copy(&busy, &target).expect("is whole in the end");
    let numbers = numbers(&target, copied.covered);
    assert!(copied.covered > Position::START && numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");
}

#[test]
fn a_copy_is_abandoned_if_segments_are_released_repeatedly() {
    let busy = Busy::new(5, 40);
    busy.between_reads(Between::ReleaseAlways);
    let target = FaultyDisk::new(1);
    assert_eq!(copy(&busy, &target).map(|_| ()), Err(CopyError::Source(LogError::ChangedWhileReading)));
    assert!(busy.listings() >= COPY_ATTEMPTS);
    let names = target.list().expect("no faults");
    assert!(names.is_empty(), "the remains look like a copy: {names:?}");
}

#[test]
fn a_damaged_log_is_not_copied() {
    let busy = Busy::new(5, 40);
    busy.disk().flip_bit("segment-0000000000000002", 8_192 + 60, 1);
    let target = FaultyDisk::new(1);
    let refused = copy(&busy, &target).map(|_| ());
    let Err(CopyError::Source(LogError::Damaged(damage))) = refused else { panic!("{refused:?}") };
    assert_eq!((damage.segment.0, damage.bytes.start), (2, 8_192), "not the unused rest of the segment before");
}

#[test]
fn a_growing_log_is_read_without_false_damage() {
    for seed in 0..80 {
        let busy = Busy::new(seed, 3 + seed % 37);
        let before = busy.written();
        busy.between_reads(Between::Append);
        let reader = Reader::open_in_use(&busy, Position::START).expect("no faults");
        let summary = check(reader, |_, _| {}).expect("no faults");
        assert!(summary.damage.is_empty() && summary.end.torn.is_none(), "seed {seed}: {summary:?}");
        assert!(summary.frames >= before - 1, "seed {seed}: {} of {before}", summary.frames);

        if before < 10 {
            continue;
        }
        busy.disk().flip_bit("segment-0000000000000001", 8_192 + 60, 1);
        let reader = Reader::open_in_use(&busy, Position::START).expect("no faults");
        assert_eq!(check(reader, |_, _| {}).expect("no faults").damage.len(), 1);
    }
}

#[test]
fn segments_released_during_a_read_are_read_again() {
    let busy = Busy::new(1, 40);
    let mut tries = 0;
    let mut read = |releases: usize| {
        tries = 0;
        read_consistently(&busy, || {
            tries += 1;
            if tries <= releases {
                busy.release();
            }
            Ok(tries)
        })
    };
    assert_eq!((read(0), read(2), read(usize::MAX)), (Ok(1), Ok(3), Err(LogError::ChangedWhileReading)));
    assert_eq!(tries, READ_ATTEMPTS);
}

#[test]
fn a_missing_segment_is_reported() {
    let busy = Busy::new(1, 40);
    let whole = numbers(busy.disk(), Position::START).len();
    for missing in [1, 3] {
        let target = FaultyDisk::new(1);
        copy(&busy, &target).expect("intact");
        target.remove(&format!("segment-{missing:016x}")).expect("exists");
        let Err(LogError::Damaged(damage)) = verify(&target).map(|_| ()) else { panic!("a segment is missing") };
        assert_eq!((damage.kind, damage.segment.0, damage.bytes), (DamageKind::SegmentMissing, missing, 0..65_536));
        let reader = Reader::open(&target, Position::START).expect("no faults");
        let frames = check(reader, |_, _| {}).expect("no faults").frames as usize;
        assert!(frames < whole && frames > whole / 2, "{frames} of {whole}");
    }
}

#[test]
fn the_intact_part_of_a_damaged_snapshot_is_read() {
    let disk = Busy::new(1, 2).disk().clone();
    let epoch = Epoch::new(77).expect("not 0");
    let mut writer = SnapshotWriter::begin(&disk, busy::ID, epoch, Position(8_192), 5).expect("no faults");
    for n in 0..10u64 {
        writer.append(&n.to_le_bytes().repeat(1_000)).expect("no faults");
    }
    writer.finish().expect("no faults");
    let name = "snapshot-0000000000002000";
    let size = disk.open(name).and_then(|file| file.size_bytes()).expect("exists");
    let left = || {
        let mut reader = SnapshotReader::salvage(&disk, name).expect("no faults").expect("is a snapshot");
        assert_eq!((reader.covered(), reader.bytes()), (Position(8_192), size));
        let mut left = Vec::new();
        while let Some(frame) = reader.step().expect("no faults") {
            left.push(frame.body[0]);
        }
        (left, reader.lost().len())
    };
    let all: Vec<u8> = (0..10).collect();
    assert_eq!(left(), (all.clone(), 0));
    // The third frame begins after two of 8,048 bytes.
    disk.flip_bit(name, 8_192 + 2 * 8_048 + 100, 0);
    let Snapshots { whole, damaged } = Snapshots::of(&disk).expect("no faults");
    assert!(whole.is_none() && damaged == [name]);
    assert_eq!(left(), (vec![0, 1, 3, 4, 5, 6, 7, 8, 9], 1));
    // Without a header, the first frame provides the data.
    for offset in [20, 4_096 + 20] {
        disk.flip_bit(name, offset, 0);
    }
    assert_eq!(left(), (vec![0, 1, 3, 4, 5, 6, 7, 8, 9], 1));
}
