//! Reads arbitrary bytes as a journal: records are decoded without a panic and encode to the same bytes, and a log with changed bits gives
//! the frames that were written, in order, and reports missing ones.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tautwire_journal::disk::FaultyDisk;
use tautwire_journal::record::Records;
use tautwire_journal::{
    Epoch, FRAME_BODY_MAX_BYTES, Log, LogId, Position, Reader, SEGMENT_MIN_BYTES, Settings, ShardNumber, Step,
    TurnNumber,
};

const SEGMENTS: u64 = 2;
/// Bytes that select one bit of a log.
const CHANGE_BYTES: usize = 4;
const CHANGES_MAX: usize = 64;

fuzz_target!(|input: &[u8]| {
    let [how, input @ ..] = input else { return };
    if how & 1 == 0 { read_records(input) } else { read_log(input) }
});

fn read_records(input: &[u8]) {
    let mut again = Vec::new();
    let mut is_whole = true;
    for record in Records::new(input) {
        match record {
            Ok(record) => {
                let _ = (record.session(), record.topic(), record.name(), format!("{record:?}"));
                record.append_to(&mut again);
            }
            Err(error) => {
                assert!(error.offset <= input.len(), "at byte {} of {}", error.offset, input.len());
                is_whole = false;
            }
        }
    }
    assert_eq!(again, input[..again.len()], "a record is written as it was read");
    assert!(!is_whole || again.len() == input.len());
}

fn read_log(input: &[u8]) {
    let disk = FaultyDisk::new(0);
    let whole = write_log(&disk);
    for change in input.chunks_exact(CHANGE_BYTES).take(CHANGES_MAX) {
        let place = u64::from(u16::from_le_bytes([change[0], change[1]]));
        let file = match u64::from(change[2]) % (SEGMENTS + 1) {
            0 => "VERSION".to_owned(),
            number => format!("segment-{number:016x}"),
        };
        disk.flip_bit(&file, place, change[3]);
    }
    let Ok(mut reader) = Reader::open(&disk, Position::START) else { return };
    let mut expected = whole.iter();
    let mut read = 0;
    let mut damaged = false;
    while let Some(step) = reader.step().expect("the disk reads") {
        match step {
            Step::Frame(frame) => {
                assert!(frame.body.len() <= FRAME_BODY_MAX_BYTES);
                let is_this =
                    |(position, body): &&(Position, Vec<u8>)| (*position, &body[..]) == (frame.position, frame.body);
                expected.find(is_this).expect("a frame that was written, in its order");
                read += 1;
            }
            Step::Damage(damage) => {
                assert!(!damage.to_string().is_empty());
                damaged = true;
            }
        }
    }
    let end = reader.end().expect("has come");
    assert!(read == whole.len() || damaged || !end.closed, "{} frames are missing", whole.len() - read);
}

fn write_log(disk: &FaultyDisk) -> Vec<(Position, Vec<u8>)> {
    let settings = Settings { segment_bytes: SEGMENT_MIN_BYTES, ..Settings::default() };
    let epoch = Epoch::new(0xDEAD_BEEF).expect("not 0");
    let (mut log, _) = Log::open(disk, settings, Position::START, epoch, LogId(1), 0, |_| Ok(())).expect("no faults");
    let mut whole = Vec::new();
    for turn in 1..=20u8 {
        let body = vec![turn; usize::from(turn) * 300];
        log.append(ShardNumber(0), TurnNumber(turn.into()), &body).expect("fits");
        whole.push((log.commit().expect("no faults"), body));
    }
    log.close().expect("no faults");
    whole
}
