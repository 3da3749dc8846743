//! Snapshots with arbitrary changes: one that is reported as complete gives the frames that were written, and frames salvaged from another
//! one were written, in order.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tautwire_journal::disk::FaultyDisk;
use tautwire_journal::{
    Disk, DiskFile, Epoch, Log, LogId, Position, SEGMENT_MIN_BYTES, Settings, SnapshotReader, SnapshotWriter, Snapshots,
};

const LOG: LogId = LogId(1);
/// The positions that the two snapshots cover, the newer one first.
const COVERED: [Position; 2] = [Position(0x9000), Position(0x3000)];
const CHANGES_MAX: usize = 64;

fuzz_target!(|input: &[u8]| {
    let [how, input @ ..] = input else { return };
    let disk = FaultyDisk::new(0);
    let settings = Settings { segment_bytes: SEGMENT_MIN_BYTES, ..Settings::default() };
    let epoch = Epoch::new(0xDEAD_BEEF).expect("not 0");
    let (log, _) = Log::open(&disk, settings, Position::START, epoch, LOG, 0, |_| Ok(())).expect("no faults");
    log.close().expect("no faults");
    // The older one last, since a newer one removes it.
    let written = COVERED.map(|covered| write(&disk, covered));
    match how % 3 {
        0 => flip(&disk, input),
        1 => overwrite(&disk, input),
        _ => replace(&disk, input),
    }

    let Ok(Snapshots { whole, damaged }) = Snapshots::of(&disk) else { return };
    for name in &damaged {
        let at = COVERED.iter().position(|covered| *name == name_of(*covered)).expect("it was written");
        salvage(&disk, name, &written[at]);
    }
    match whole {
        Some(mut reader) => {
            let at = COVERED.iter().position(|covered| *covered == reader.covered()).expect("it was written");
            assert_eq!(damaged.len(), at, "all that are newer are damaged");
            for body in &written[at] {
                let frame = reader.step().expect("the disk reads").expect("complete");
                assert!(frame.body == body, "other bytes than were written");
            }
            assert!(reader.step().expect("the disk reads").is_none(), "more than was written");
        }
        None => assert_eq!(damaged.len(), COVERED.len()),
    }
});

fn name_of(covered: Position) -> String {
    format!("snapshot-{:016x}", covered.0)
}

fn write(disk: &FaultyDisk, covered: Position) -> Vec<Vec<u8>> {
    let epoch = Epoch::new(covered.0).expect("not 0");
    let mut writer = SnapshotWriter::begin(disk, LOG, epoch, covered, 7).expect("no faults");
    let bodies: Vec<Vec<u8>> = [3, 40, 5_000, 1, 900].iter().map(|len| vec![*len as u8; *len]).collect();
    bodies.iter().for_each(|body| writer.append(body).expect("no faults"));
    writer.finish().expect("no faults");
    bodies
}

/// Flips single bits, including those of the file with the number of the log.
fn flip(disk: &FaultyDisk, input: &[u8]) {
    for change in input.chunks_exact(4).take(CHANGES_MAX) {
        let place = u64::from(u16::from_le_bytes([change[0], change[1]]));
        let name = match change[2] % 8 {
            0 => "VERSION".to_owned(),
            which => name_of(COVERED[usize::from(which % 2)]),
        };
        disk.flip_bit(&name, place, change[3]);
    }
}

/// Overwrites some bytes.
fn overwrite(disk: &FaultyDisk, mut input: &[u8]) {
    for _ in 0..CHANGES_MAX {
        let [low, high, which, len, rest @ ..] = input else { return };
        let (bytes, rest) = rest.split_at(usize::from(*len).min(rest.len()));
        input = rest;
        let file = disk.open(&name_of(COVERED[usize::from(which % 2)])).expect("it exists");
        let offset = u64::from(u16::from_le_bytes([*low, *high]));
        if offset + bytes.len() as u64 <= file.size_bytes().expect("the disk responds") {
            file.write_at(offset, bytes).expect("no faults");
        }
    }
}

/// Keeps the beginning of the newer one, followed by arbitrary bytes.
fn replace(disk: &FaultyDisk, input: &[u8]) {
    let [low, high, input @ ..] = input else { return };
    let name = name_of(COVERED[0]);
    let file = disk.open(&name).expect("it exists");
    let size = file.size_bytes().expect("the disk responds");
    let mut bytes = vec![0; (u64::from(u16::from_le_bytes([*low, *high])) % (size + 1)) as usize];
    file.read_at(0, &mut bytes).expect("no faults");
    bytes.extend_from_slice(input);
    disk.create(&name, bytes.len() as u64).and_then(|file| file.write_at(0, &bytes)).expect("no faults");
}

fn salvage(disk: &FaultyDisk, name: &str, written: &[Vec<u8>]) {
    let Ok(Some(mut reader)) = SnapshotReader::salvage(disk, name) else { return };
    let mut expected = written.iter();
    while let Some(frame) = reader.step().expect("the disk reads") {
        expected.find(|body| *body == frame.body).expect("a frame that was written, in its order");
    }
    let bytes = reader.bytes();
    let mut end = 0;
    for lost in reader.lost() {
        assert!(end <= lost.start && lost.start < lost.end && lost.end <= bytes, "{lost:?} of {bytes}");
        end = lost.end;
    }
}
