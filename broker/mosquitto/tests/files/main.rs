//! Mosquitto files and their import.

mod any;
mod real;
mod writer;

use tautwire_mosquitto::{BridgeSessions, Database, Fault, Import, ImportTime, MountPoints, Reason, import_database};
use tautwire_protocol::{PacketId, QoS};
use tautwire_session::{ReplayedState, Resend, Session, split_session_name};
use writer::{MessageOptions, Writer};

const NOW_MS: u64 = 2_000_000_000;
const IMPORT_TIME: ImportTime = ImportTime { now_ms: NOW_MS, written_at_ms: NOW_MS - 5_000, run: 7 };
const NEVER: u32 = u32::MAX;

fn import_file(writer: &Writer) -> Import {
    import_database(
        &Database::read(&writer.bytes).expect("a valid file"),
        IMPORT_TIME,
        &MountPoints::new(),
        &BridgeSessions::new(),
    )
}

fn finished(imported: Import) -> ReplayedState {
    imported.state.finish()
}

/// What the client of a session gets after it reconnects: PUBLISH and PUBREL again, with their identifiers.
fn resent(session: &mut Session) -> Vec<(u16, String)> {
    let Some(outbound) = session.outbound_mut() else { return Vec::new() };
    outbound.rewind();
    let mut resent = Vec::new();
    while let Some(packet) = outbound.resend() {
        resent.push(match packet {
            Resend::Publish(id, pending) => {
                let message = pending.message.loaded().expect("is in memory");
                (id.get(), String::from_utf8_lossy(message.payload()).into_owned())
            }
            Resend::Release(id) => (id.get(), "PUBREL".to_owned()),
        });
    }
    resent
}

/// The payloads in a session's queue.
fn queued(session: &Session) -> Vec<String> {
    let mut queued = Vec::new();
    session.describe(|change, _| {
        if let tautwire_session::Change::Queued(pending) = change {
            let message = pending.message.loaded().expect("is in memory");
            queued.push(String::from_utf8_lossy(message.payload()).into_owned());
        }
    });
    queued
}

#[test]
fn sessions_are_imported_with_subscriptions_and_offline_time() {
    for version in [5, 6] {
        let mut file = Writer::new(version);
        file.client("old", NEVER, 0, 0);
        file.client("new", 3_600, NOW_MS / 1000 + 600, 0);
        file.subscription("old", "a/#", 0, 1, 0);
        file.subscription("new", "/b/+", 268_435_455, 2, 0x2C);
        let imported = import_file(&file);
        assert_eq!((imported.report.sessions, imported.report.subscriptions), (2, 2));
        assert_eq!(imported.report.skipped().count(), 0);
        let sessions = finished(imported).sessions;
        let [old, new] = &sessions[..] else { panic!("{sessions:?}") };
        assert_eq!((old.session.client_id(), old.session.expiry_interval_s()), ("old", NEVER));
        assert_eq!(old.disconnected_at_ms, Some(NOW_MS - 5_000), "when the file was written");
        assert_eq!((new.session.client_id(), new.session.expiry_interval_s()), ("new", 3_600));
        assert_eq!(new.disconnected_at_ms, Some(NOW_MS - 3_000_000), "600 of 3,600 s are left");
        let made = new.session.subscriptions().get("/b/+").expect("it exists");
        assert_eq!(made.identifier.map(|id| id.get()), Some(268_435_455));
        let options = made.options;
        assert!(options.no_local && options.retain_as_published && options.retain_handling.as_u8() == 2);
        assert_eq!(options.qos, QoS::ExactlyOnce);
    }
}

#[test]
fn a_session_belongs_to_the_mount_point_of_its_listener() {
    let mut file = Writer::new(6);
    file.client("c", NEVER, 0, 0);
    file.subscription("c", "factory-1/a", 0, 1, 0);
    let database = Database::read(&file.bytes).expect("a valid file");
    let names = |mount_points| {
        let sessions =
            finished(import_database(&database, IMPORT_TIME, &mount_points, &BridgeSessions::new())).sessions;
        let named: Vec<_> = sessions.iter().map(|found| split_session_name(found.session.name())).collect();
        assert!(sessions[0].session.subscriptions().get("factory-1/a").is_some());
        named.iter().map(|(mount_point, id)| (mount_point.map(str::to_owned), (*id).to_owned())).collect::<Vec<_>>()
    };
    let mounted = MountPoints::from([(1883, "factory-1/".to_owned())]);
    assert_eq!(names(mounted), [(Some("factory-1/".to_owned()), "c".to_owned())]);
    let of_another = MountPoints::from([(1884, "factory-1/".to_owned())]);
    assert_eq!(names(of_another), [(None, "c".to_owned())]);
}

/// Mosquitto stores no expiry interval for its bridges, as for sessions that end with their connection.
#[test]
fn the_session_of_a_bridge_gets_its_new_name() {
    let mut file = Writer::new(6);
    file.client("local.host.cloud", 0, 0, 0);
    file.subscription("local.host.cloud", "a/#", 0, 1, 0);
    file.client("other", 0, 0, 0);
    let database = Database::read(&file.bytes).expect("a valid file");
    let bridges = BridgeSessions::from([("local.host.cloud".to_owned(), "bridge/cloud".to_owned())]);
    let mount_points = MountPoints::from([(1883, "factory-1/".to_owned()), (0, "factory-2/".to_owned())]);
    let sessions = finished(import_database(&database, IMPORT_TIME, &mount_points, &bridges)).sessions;
    let [bridge] = &sessions[..] else { panic!("{sessions:?}") };
    assert_eq!((bridge.session.name(), bridge.session.expiry_interval_s()), ("bridge/cloud", NEVER));
    assert!(bridge.session.subscriptions().get("a/#").is_some());
}

#[test]
fn expired_sessions_are_skipped() {
    let mut file = Writer::new(6);
    file.client("with-its-connection", 0, 0, 0);
    file.client("expired", 60, NOW_MS / 1000, 0);
    file.client("bounded", NEVER, NOW_MS / 1000 + 100, 0);
    file.client("bounded", NEVER, 0, 0);
    file.client("", NEVER, 0, 0);
    file.subscription("expired", "a", 0, 1, 0);
    let imported = import_file(&file);
    let report = &imported.report;
    assert_eq!(report.count(Reason::CleanSession), 1);
    assert_eq!(report.count(Reason::SessionExpired), 1);
    assert_eq!(report.count(Reason::InvalidClient), 2);
    assert_eq!(report.count(Reason::SessionMissing), 1);
    let sessions = finished(imported).sessions;
    let [bounded] = &sessions[..] else { panic!("{sessions:?}") };
    assert_eq!(bounded.session.expiry_interval_s(), 105, "from when the file was written");
}

#[test]
fn in_flight_messages_keep_their_packet_ids_and_queued_messages_stay_queued() {
    let mut file = Writer::new(6);
    for number in 1..=9 {
        let payload = number.to_string();
        file.message(number, "t", payload.as_bytes(), MessageOptions { qos: 2, ..MessageOptions::default() });
    }
    file.client("c", NEVER, 0, 20);
    let mut deliver = |message, id, numbers| file.delivery("c", message, id, numbers, &[]);
    deliver(1, 65_535, [1, 3, 0, 1]); // waiting for PUBACK
    deliver(2, 4, [2, 9, 0, 1]); // waiting for PUBCOMP
    deliver(3, 5, [2, 5, 0, 1]); // waiting for PUBREC
    deliver(4, 7, [1, 2, 1, 1]); // about to be retransmitted
    deliver(5, 8, [2, 4, 0, 1]); // about to be sent for the first time
    deliver(6, 9, [1, 11, 0, 1]);
    deliver(7, 5, [1, 3, 0, 1]); // an identifier in use
    deliver(8, 10, [0, 11, 0, 1]); // QoS 0
    deliver(9, 11, [1, 12, 0, 1]); // unknown state
    deliver(10, 12, [1, 11, 0, 1]); // unknown message
    let imported = import_file(&file);
    let report = imported.report.clone();
    assert_eq!((report.in_flight, report.queued), (4, 3));
    for reason in [Reason::AtMostOnce, Reason::UnknownState, Reason::MessageMissing] {
        assert_eq!(report.count(reason), 1, "{reason}");
    }
    let mut sessions = finished(imported).sessions;
    let session = &mut sessions[0].session;
    let again = [(65_535, "1"), (4, "PUBREL"), (5, "3"), (7, "4")].map(|(id, what)| (id, what.to_owned()));
    assert_eq!(resent(session), again);
    assert_eq!(queued(session), ["5", "6", "7"]);
    assert_eq!(session.next_packet_id(), PacketId::new(21), "the client may still hold those before");
}

#[test]
fn an_unreleased_qos_2_message_is_delivered_and_remembered() {
    let mut file = Writer::new(6);
    let retained = MessageOptions { qos: 2, retain: true, ..MessageOptions::default() };
    file.message(1, "a/b", b"held", retained);
    file.message(2, "a/b", b"not answered", retained);
    for client in ["publisher", "plain", "twice", "other", "at-most-once", "m1", "m2"] {
        file.client(client, NEVER, 0, 0);
    }
    file.subscription("publisher", "a/#", 0, 2, 0x04);
    file.subscription("plain", "a/+", 0, 1, 0);
    file.subscription("twice", "a/b", 3, 1, 0);
    file.subscription("twice", "#", 4, 2, 0x08);
    file.subscription("other", "b/+", 0, 2, 0);
    file.subscription("at-most-once", "#", 0, 0, 0);
    file.subscription("m1", "$share/g/a/b", 0, 2, 0);
    file.subscription("m2", "$share/g/a/b", 0, 2, 0);
    file.delivery("publisher", 1, 40, [2, 7, 0, 0], &[]);
    file.delivery("publisher", 2, 41, [2, 11, 0, 0], &[]);
    file.delivery("publisher", 2, 42, [2, 8, 0, 0], &[]);
    let imported = import_file(&file);
    assert_eq!((imported.report.unreleased, imported.report.queued, imported.report.retained), (1, 3, 1));
    assert_eq!(imported.report.count(Reason::Unacknowledged), 1);
    let ReplayedState { sessions, retained, .. } = finished(imported);
    let session = |name: &str| &sessions.iter().find(|found| found.session.client_id() == name).expect(name).session;
    let held: Vec<u16> = session("publisher").held().expect("one").iter().map(PacketId::get).collect();
    assert_eq!(held, [40]);
    for (client, got) in [("publisher", 0), ("plain", 1), ("twice", 1), ("other", 0), ("at-most-once", 0)] {
        assert_eq!(queued(session(client)).len(), got, "{client}");
    }
    assert_eq!(queued(session("m1")).len() + queued(session("m2")).len(), 1, "one member");
    session("twice").describe(|change, _| {
        if let tautwire_session::Change::Queued(pending) = change {
            let ids: Vec<u32> = pending.subscription_ids.as_slice().iter().map(|id| id.get()).collect();
            assert_eq!((pending.qos, pending.retain, &ids[..]), (QoS::ExactlyOnce, true, &[3, 4][..]));
        }
    });
    let (_, _, held) = retained.iter().next().expect("it is retained");
    assert_eq!(held.loaded().expect("in memory").payload(), b"held");
}

#[test]
fn retained_messages_are_imported_with_properties_and_expiry() {
    let mut file = Writer::new(6);
    // User property k=v, and an alias that no file should have.
    let properties = [0x0A, 0x26, 0, 1, b'k', 0, 1, b'v', 0x23, 0, 9];
    let how = MessageOptions { qos: 1, retain: true, ..MessageOptions::default() };
    file.message(1, "kept", b"1", MessageOptions { properties: &properties, expires_at_s: NOW_MS / 1000 + 9, ..how });
    file.message(2, "expired", b"2", MessageOptions { expires_at_s: NOW_MS / 1000, ..how });
    file.message(3, "wrong/#", b"3", how);
    file.message(4, "wrong properties", b"4", MessageOptions { properties: &[3, 0x11, 0, 0], ..how });
    (1..=5).for_each(|number| file.retained(number));
    let imported = import_file(&file);
    let report = &imported.report;
    assert_eq!((report.retained, report.count(Reason::InvalidMessage)), (1, 2));
    assert_eq!((report.count(Reason::MessageExpired), report.count(Reason::MessageMissing)), (1, 1));
    let retained = finished(imported).retained;
    let (_, _, body) = retained.iter().next().expect("it is retained");
    let message = body.loaded().expect("in memory").as_ref();
    assert_eq!((message.topic, message.qos, message.retain), ("kept", QoS::AtLeastOnce, true));
    assert_eq!(message.properties, &properties[1..8]);
    assert_eq!(message.expires_at_ms, Some(NOW_MS + 9_000));
}

#[test]
fn invalid_files_are_refused_with_a_reason() {
    let fault = |bytes: &[u8]| Database::read(bytes).expect_err("is refused");
    assert_eq!(fault(b"").fault, Fault::NotADatabase);
    assert_eq!(fault(b"SQLite format 3\0rest").fault, Fault::Sqlite);
    assert_eq!(fault(&Writer::new(4).bytes).fault, Fault::OldVersion(4));
    assert_eq!(fault(&Writer::new(7).bytes).fault, Fault::NewVersion(7));
    let mut file = Writer::new(6);
    let at = file.bytes.len();
    file.retained(1);
    for end in at + 1..file.bytes.len() {
        let error = fault(&file.bytes[..end]);
        assert_eq!((error.fault, error.at), (Fault::Truncated, at));
    }
    file.bytes.truncate(at);
    file.chunk(5, &[0; 11]);
    let error = fault(&file.bytes);
    assert_eq!((error.fault, error.at, error.code()), (Fault::Length(5), at, "mosquitto_db_damaged"));
    assert!(error.to_string().contains(&format!("byte {at}")), "{error}");
    for kind in [4, 5, 6] {
        file.bytes.truncate(at);
        // Room for all numbers, with lengths of 0, and one byte that belongs to nothing.
        file.chunk(kind, &[0; 25]);
        assert_eq!(fault(&file.bytes).fault, Fault::Length(kind));
    }
    file.bytes.truncate(at);
    file.client("c", 60, 1 << 41, 0);
    assert_eq!(fault(&file.bytes).fault, Fault::Time);
}

#[test]
fn unknown_chunks_are_skipped() {
    let mut file = Writer::new(6);
    file.chunk(77, b"whatever");
    file.client("c", NEVER, 0, 0);
    let imported = import_file(&file);
    assert_eq!((imported.report.sessions, imported.report.count(Reason::UnknownChunk)), (1, 1));
}

#[test]
fn debug_output_has_no_payload() {
    let mut file = Writer::new(6);
    file.message(1, "t", b"secret", MessageOptions::default());
    let shown = format!("{:?}", Database::read(&file.bytes));
    assert!(!shown.contains("secret") && !shown.contains("115, 101, 99"), "{shown}");
}
