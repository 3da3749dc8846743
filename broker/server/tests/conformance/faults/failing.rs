//! Disks that do not do what they are asked for.

use super::strace::{Faults, wrapper};
use super::{
    create_offline_session, expect_live, expect_stored, health, metric, payload, publish, refused_by, settings, start,
    wait_until,
};
use crate::support::http::post;
use crate::support::{AtLeastOnce, Broker, Folder, OutgoingPublish, V3_1_1, V5, back};

const SMALL: usize = 100;
/// Where messages leave memory early.
const COLD: [&str; 2] = ["limits.hot_bytes=65536", "limits.buffered_bytes=2097152"];

fn kill(broker: Broker) {
    broker.signal("KILL");
    drop(broker);
}

fn data(folder: &Folder) -> String {
    folder.path().join("data").display().to_string()
}

/// What everybody sees of a broker whose log has failed.
fn expect_failed(broker: &Broker) {
    assert_eq!(health(broker), (503, r#"{"status":"failed","disk":"failed"}"#.to_owned()));
    assert_eq!(metric(broker, "data_failed"), 1);
    assert_eq!(broker.connect(V5, "later").publish("kept/x", AtLeastOnce, b"later"), 0x97);
    assert_eq!(broker.connecting(V5, "subscriber").persistent().refused(), 0x88);
    assert_eq!(broker.connecting(V3_1_1, "newcomer").persistent().refused(), 3);
    expect_live(broker);
}

/// A write or sync that fails is final, also when the disk would take the next one: 4.13 of 5.0 has it told to whom it concerns.
/// `injection`: what fails when the next message comes.
fn a_failure_is_final(injection: &str, more: &[&str]) {
    let folder = Folder::new(&[]);
    let settings = settings(&folder, &data(&folder), more);
    let broker = start(&settings);
    create_offline_session(&broker);
    let mut witness = broker.connecting(V5, "witness").persistent().open();
    publish(&broker, 0..20, SMALL);
    let mut unlucky = broker.connect(V5, "unlucky");
    let Some(faults) = Faults::of(&broker, injection, &[]) else { return };
    unlucky.send_publish(&OutgoingPublish::new("kept/x", AtLeastOnce, &payload(20, SMALL)));
    assert_eq!(unlucky.expect_refusal(), 0x97, "it is not acknowledged");
    assert_eq!(witness.expect_disconnect(), 0x97);
    drop(faults);
    expect_failed(&broker);
    let log = broker.end();
    assert!(log.contains("nothing becomes durable any more") && log.contains("Input/output error"), "{log}");

    // What was not acknowledged may be there or not.
    let broker = start(&settings);
    let mut subscriber = back(&broker, V5, "subscriber");
    let numbers: Vec<String> =
        (0..20).map(|_| subscriber.receive().text().split(':').next().unwrap_or_default().to_owned()).collect();
    assert_eq!(numbers, (0..20).map(|number| number.to_string()).collect::<Vec<_>>());
    publish(&broker, 21..22, SMALL);
    assert_eq!(health(&broker).0, 200);
}

#[test]
fn a_write_of_the_log_that_fails_is_final() {
    a_failure_is_final("pwrite64:error=EIO", &[]);
}

/// An operator's 200 is a promise like PUBACK. The disk takes its time to fail, so that the message is accepted before any write of the
/// broker's own, such as that of the next segment, has failed.
#[test]
fn an_operator_is_not_told_that_a_message_is_published_before_the_log_has_it() {
    for query in ["qos=1", "retain=true"] {
        let folder = Folder::new(&[]);
        let settings = settings(&folder, &data(&folder), &[]);
        let broker = start(&settings);
        create_offline_session(&broker);
        let path = format!("/messages/kept/x?{query}");
        post(broker.admin_address(), &path, "", b"before").expect(200);
        let Some(faults) = Faults::of(&broker, "pwrite64:error=EIO:delay_enter=2000000", &[]) else { return };
        let answer = post(broker.admin_address(), &path, "", b"meanwhile").expect(500);
        assert!(answer.body.contains(r#""code":"not_kept""#), "{}", answer.body);
        drop(faults);
        post(broker.admin_address(), &path, "", b"later").expect(507);
        expect_live(&broker);
    }
}

/// Others wait only until the system has what was written, which was told when the sync fails.
#[test]
fn a_sync_of_the_log_that_fails_is_final() {
    let folder = Folder::new(&[]);
    let settings = settings(&folder, &data(&folder), &["data.ack=os"]);
    let broker = start(&settings);
    create_offline_session(&broker);
    let mut witness = broker.connecting(V5, "witness").persistent().open();
    publish(&broker, 0..20, SMALL);
    let Some(faults) = Faults::of(&broker, "fdatasync:error=EIO", &[]) else { return };
    let mut unlucky = broker.connect(V5, "unlucky");
    unlucky.send_publish(&OutgoingPublish::new("kept/x", AtLeastOnce, &payload(20, SMALL)));
    wait_until("the sync fails", || metric(&broker, "data_failed") == 1);
    assert_eq!(witness.expect_disconnect(), 0x97);
    drop(faults);
    expect_failed(&broker);
    assert!(broker.end().contains("cannot make durable what was written to segment-"));
    expect_starts_with(&start(&settings), 20);
}

/// The subscriber gets these first.
fn expect_starts_with(broker: &Broker, count: usize) {
    let mut subscriber = back(broker, V5, "subscriber");
    for number in 0..count {
        assert!(subscriber.receive().text().starts_with(&format!("{number}:")));
    }
}

/// A segment that cannot be made ready is no lack of space: what the disk has of it is not known.
#[test]
fn a_segment_that_cannot_be_synced_is_final() {
    let folder = Folder::new(&[]);
    let settings = settings(&folder, &data(&folder), &["limits.session_queue_bytes=1000000000"]);
    let broker = start(&settings);
    create_offline_session(&broker);
    publish(&broker, 0..20, SMALL);
    let mut publisher = broker.connect(V5, "publisher");
    let Some(faults) = Faults::of(&broker, "fsync:error=EIO", &[]) else { return };
    let mut taken = 20;
    // To the end of the segment, when the one behind the next is made.
    loop {
        publisher.send_publish(&OutgoingPublish::new("kept/x", AtLeastOnce, &payload(taken, 200_000)));
        if publisher.expect_refusal() != 0 {
            break;
        }
        taken += 1;
        assert!(taken < 1_000, "no segment was made");
    }
    drop(faults);
    wait_until("the log fails", || metric(&broker, "data_failed") == 1);
    expect_failed(&broker);
    kill(broker);
    expect_starts_with(&start(&settings), taken);
}

/// No snapshot does not end the log.
#[test]
fn a_failed_snapshot_is_reported_and_the_log_continues() {
    let folder = Folder::new(&[]);
    let more =
        ["limits.session_queue_bytes=1000000000", "limits.hot_bytes=1000000000", "limits.buffered_bytes=1000000000"];
    let settings = settings(&folder, &data(&folder), &more);
    let broker = start(&settings);
    create_offline_session(&broker);
    publish(&broker, 0..120, 200_000);
    // Nobody writes to the first segment any more. A snapshot reads it, and has it made durable before.
    let first = format!("{}/segment-0000000000000001", data(&folder));
    let Some(faults) = Faults::of(&broker, "fdatasync:error=EIO", &[first]) else { return };
    publish(&broker, 120..190, 200_000);
    wait_until("a snapshot is tried", || metric(&broker, "data_snapshot_failures") > 0);
    publish(&broker, 190..200, SMALL);
    drop(faults);
    assert_eq!(health(&broker).0, 200);
    kill(broker);
    expect_stored(&start(&settings), 0..200);
}

/// Messages that cannot be written to the cold store stay in memory.
#[test]
fn messages_that_cannot_leave_memory_stay_in_it() {
    let folder = Folder::new(&[]);
    let settings = settings(&folder, &data(&folder), &COLD);
    let broker = start(&settings);
    create_offline_session(&broker);
    publish(&broker, 0..40, 4_000);
    wait_until("some leave memory", || metric(&broker, "cold_messages") > 0);
    let cold: Vec<String> =
        folder.names("data/cold").iter().map(|name| format!("{}/cold/{name}", data(&folder))).collect();
    let Some(faults) = Faults::of(&broker, "pwrite64:error=EIO", &cold) else { return };
    publish(&broker, 40..100, 4_000);
    wait_until("that is counted", || metric(&broker, "cold_write_failures") > 0);
    expect_stored(&broker, 0..100);
    drop(faults);
    assert_eq!((metric(&broker, "data_failed"), metric(&broker, "cold_read_failures")), (0, 0));
}

/// A client whose messages the disk does not read stands still, nobody else does, and it goes on when the disk does.
#[test]
fn a_client_whose_messages_cannot_be_read_waits_for_the_disk() {
    let folder = Folder::new(&[]);
    let settings = settings(&folder, &data(&folder), &COLD);
    let broker = start(&settings);
    create_offline_session(&broker);
    publish(&broker, 0..100, 4_000);
    wait_until("some leave memory", || metric(&broker, "cold_messages") > 20);
    let Some(faults) = Faults::of(&broker, "pread64:error=EIO", &[]) else { return };
    let mut subscriber = back(&broker, V5, "subscriber");
    wait_until("that is counted", || metric(&broker, "cold_read_failures") > 0);
    expect_live(&broker);
    drop(faults);
    for number in 0..100 {
        assert!(subscriber.receive().text().starts_with(&format!("{number}:")), "{number}");
    }
}

/// At which read of a file the disk begins to fail: before its header, and behind it. Each opening tries whether the file can be read
/// past the system's memory, which is a read too.
const READS: [u32; 2] = [2, 4];

/// What the disk does not read is damage: a start names it and is refused, and serves the rest when told so.
fn what_is_not_read_is_damage(beginning: &str, of_what: &str, from_read: u32) {
    let folder = Folder::new(&[]);
    let directory = data(&folder);
    let settings = settings(&folder, &directory, &[]);
    let broker = start(&settings);
    create_offline_session(&broker);
    publish(&broker, 0..20, SMALL);
    broker.connect(V5, "keeper").deliver(&OutgoingPublish::new("retained", AtLeastOnce, b"r").retained());
    broker.end();
    if of_what == "snapshot-" {
        let output = super::run_by(&["env".to_owned()], &["data", "compact", "--data", &directory]);
        assert!(output.status.success(), "{output:?}");
    }
    let name = folder.names("data").into_iter().find(|name| name.starts_with(beginning)).expect("is there");
    let place = format!("{directory}/{name}");
    let Some(mut words) = wrapper(&[format!("pread64:error=EIO:when={from_read}+")]) else { return };
    words.extend(["-P".to_owned(), place]);
    let said = refused_by(&words, &settings);
    for part in [&directory[..], of_what, "tautwire data check --data", "--recover"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let broker = Broker::by(&words, &["--recover"], &settings);
    expect_live(&broker);
    let log = broker.end();
    assert!(log.lines().any(|line| line.contains(" ERROR ") && line.contains(of_what)), "{log}");
    let broker = Broker::by(&["env".to_owned()], &[], &settings);
    expect_live(&broker);
}

/// What cannot be read cannot be copied: nothing is left that looks like a backup.
#[test]
fn a_backup_of_what_is_not_read_is_refused() {
    let folder = Folder::new(&[]);
    let directory = data(&folder);
    let broker = start(&settings(&folder, &directory, &[]));
    create_offline_session(&broker);
    broker.end();
    let Some(words) = wrapper(&["pread64:error=EIO:when=4+".to_owned()]) else { return };
    let backup = folder.path().join("backup").display().to_string();
    let said = super::refusal(&super::run_by(&words, &["data", "backup", "--data", &directory, &backup]), 1);
    assert!(
        said.contains(&format!("{directory}: cannot read segment-")) && said.contains("Input/output error"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(!folder.names("").iter().any(|name| name.starts_with("backup")), "{:?}", folder.names(""));
}

#[test]
fn a_segment_that_is_not_read_is_damage() {
    READS.iter().for_each(|read| what_is_not_read_is_damage("segment-", "segment 1", *read));
}

#[test]
fn a_snapshot_that_is_not_read_is_damage() {
    READS.iter().for_each(|read| what_is_not_read_is_damage("snapshot-", "snapshot-", *read));
}
