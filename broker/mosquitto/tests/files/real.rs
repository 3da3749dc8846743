//! A file that Mosquitto itself has written.

use tautwire_mosquitto::{BridgeSessions, Database, MountPoints, State, import_database};
use tautwire_protocol::PacketId;

use crate::{IMPORT_TIME, queued, resent};

const WRITTEN: &str = include_str!("../golden/mosquitto-2.0.11.txt");

/// Decodes the file, which is stored as hexadecimal digits.
fn bytes() -> Vec<u8> {
    let lines = WRITTEN.lines().filter(|line| !line.starts_with('#'));
    let bytes = lines.flat_map(str::split_whitespace).map(|byte| u8::from_str_radix(byte, 16));
    bytes.collect::<Result<_, _>>().expect("hexadecimal digits")
}

#[test]
fn a_mosquitto_file_is_read_completely() {
    let bytes = bytes();
    let database = Database::read(&bytes).expect("is complete");
    assert_eq!((database.version, database.is_final, database.unknown_chunks), (6, true, 0));
    let counts = (database.messages.len(), database.clients.len(), database.retained.len());
    assert_eq!(counts, (5, 3, 1));
    assert_eq!(database.subscriptions.len(), 2, "this version omits shared ones");
    let states = |client: &[u8]| -> Vec<Option<State>> {
        database.deliveries.iter().filter(|found| found.client == client).map(|found| found.state).collect()
    };
    assert_eq!(states(b"old"), [Some(State::Sent), Some(State::Released), Some(State::Sent)]);
    assert_eq!(states(b"new"), [Some(State::Queued); 3]);
    assert_eq!(states(b"sender"), [Some(State::Unreleased)]);
    for end in 0..bytes.len() {
        // At the end of a chunk nothing indicates that more follow.
        let _ = Database::read(&bytes[..end]);
    }
}

#[test]
fn all_mosquitto_state_is_imported() {
    let bytes = bytes();
    let imported = import_database(
        &Database::read(&bytes).expect("is complete"),
        IMPORT_TIME,
        &MountPoints::new(),
        &BridgeSessions::new(),
    );
    let report = &imported.report;
    assert_eq!(report.skipped().count(), 0, "{report:?}");
    assert_eq!((report.sessions, report.subscriptions), (3, 2));
    assert_eq!((report.in_flight, report.queued, report.unreleased, report.retained), (3, 5, 1, 1));
    let mut sessions = imported.state.finish().sessions;
    for replayed in &mut sessions {
        let session = &mut replayed.session;
        match session.client_id() {
            "old" => {
                let again = resent(session);
                assert_eq!(again.iter().map(|(_, what)| what.as_str()).collect::<Vec<_>>(), ["0", "PUBREL", "2"]);
                assert_eq!(queued(session), ["held"]);
            }
            "new" => assert_eq!(queued(session), ["0", "1", "2", "held"]),
            _ => assert_eq!(
                session.held().expect("one").iter().collect::<Vec<_>>(),
                PacketId::new(40).into_iter().collect::<Vec<_>>()
            ),
        }
    }
}
