//! Mosquitto state files of arbitrary bytes: they are read or refused, and an imported state can be written and read again unchanged.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tautwire_durable::{FrameWriter, Recovery};
use tautwire_mosquitto::{BridgeSessions, Database, ImportTime, MountPoints, import_database};
use tautwire_session::Replay;

const MOMENT: ImportTime = ImportTime { now_ms: 1_700_000_100_000, written_at_ms: 1_700_000_000_000, run: 7 };
/// The listener port of the clients in the seed.
const PORT: u16 = 12_345;

fuzz_target!(|input: &[u8]| {
    let [how, file @ ..] = input else { return };
    let mount_points = match how & 1 {
        0 => MountPoints::new(),
        _ => MountPoints::from([(PORT, "site/".to_owned())]),
    };
    let database = match Database::read(file) {
        Ok(database) => database,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let taken = import_database(&database, MOMENT, &mount_points, &BridgeSessions::new());
    let written = describe(&taken.state);
    let mut again = Recovery::new(None);
    again.snapshot_frame(&written).unwrap_or_else(|error| panic!("a state can be read again: {error}"));
    assert!(describe(&again.finish()) == written, "a written state differs when it is read");
});

fn describe(state: &Replay) -> Vec<u8> {
    let mut frame = FrameWriter::default();
    state.describe(|_| None, |record| frame.add(record)).expect("everything is in memory");
    frame.take(Vec::new())
}
