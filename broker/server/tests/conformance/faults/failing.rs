//! Disks that report errors.

use super::strace::{Faults, wrapper};
use super::{
    create_offline_session, expect_live, expect_stored, health, metric, payload, publish, refused_by, settings, start,
    wait_until,
};
use crate::support::http::post;
use crate::support::{AtLeastOnce, Broker, Folder, OutgoingPublish, V3_1_1, V5, reconnect};

const SMALL: usize = 100;
/// Settings that spill messages to disk early.
const COLD: [&str; 2] = ["limits.spill_threshold_bytes=65536", "limits.memory_bytes=2097152"];

fn kill(broker: Broker) {
    broker.signal("KILL");
    drop(broker);
}

fn data_path(folder: &Folder) -> String {
    folder.path().join("data").display().to_string()
}

/// Checks the visible state of a broker whose log has failed.
fn expect_failed(broker: &Broker) {
    assert_eq!(health(broker), (503, r#"{"status":"failed","disk":"failed"}"#.to_owned()));
    assert_eq!(metric(broker, "data_failed"), 1);
    assert_eq!(broker.connect(V5, "later").publish("kept/x", AtLeastOnce, b"later"), 0x97);
    assert_eq!(broker.connecting(V5, "subscriber").persistent().refused(), 0x88);
    assert_eq!(broker.connecting(V3_1_1, "newcomer").persistent().refused(), 3);
    expect_live(broker);
}

/// A failed write or sync is final, even if the disk would accept the next one: 4.13 of 5.0 requires to notify the affected clients.
/// `injection`: the fault at the next message.
fn a_failure_is_final(injection: &str, more: &[&str]) {
    let folder = Folder::new(&[]);
    let settings = settings(&folder, &data_path(&folder), more);
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
    assert!(log.contains("nothing is persisted any more") && log.contains("Input/output error"), "{log}");

    // An unacknowledged message may be there or not.
    let broker = start(&settings);
    let mut subscriber = reconnect(&broker, V5, "subscriber");
    let numbers: Vec<String> =
        (0..20).map(|_| subscriber.receive().text().split(':').next().unwrap_or_default().to_owned()).collect();
    assert_eq!(numbers, (0..20).map(|number| number.to_string()).collect::<Vec<_>>());
    publish(&broker, 21..22, SMALL);
    assert_eq!(health(&broker).0, 200);
}

#[test]
fn a_failed_write_of_the_log_is_final() {
    a_failure_is_final("pwrite64:error=EIO", &[]);
}

/// A response of 200 to an operator is a promise like PUBACK. The disk fails with a delay, so that the message is accepted before any write
/// of the broker's own fails, such as that of the next segment.
#[test]
fn an_operators_message_is_confirmed_after_the_log_has_it() {
    for query in ["qos=1", "retain=true"] {
        let folder = Folder::new(&[]);
        let settings = settings(&folder, &data_path(&folder), &[]);
        let broker = start(&settings);
        create_offline_session(&broker);
        let path = format!("/messages/kept/x?{query}");
        post(broker.admin_address(), &path, "", b"before").expect(200);
        let Some(faults) = Faults::of(&broker, "pwrite64:error=EIO:delay_enter=2000000", &[]) else { return };
        let answer = post(broker.admin_address(), &path, "", b"meanwhile").expect(500);
        assert!(answer.body.contains(r#""code":"not_durable""#), "{}", answer.body);
        drop(faults);
        post(broker.admin_address(), &path, "", b"later").expect(507);
        expect_live(&broker);
    }
}

/// Level `os` only waits for the operating system, which had acknowledged the write before the sync fails.
#[test]
fn a_failed_sync_of_the_log_is_final() {
    let folder = Folder::new(&[]);
    let settings = settings(&folder, &data_path(&folder), &["data.ack=os"]);
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
    assert!(broker.end().contains("cannot sync segment-"));
    expect_starts_with(&start(&settings), 20);
}

/// The subscriber receives these first.
fn expect_starts_with(broker: &Broker, count: usize) {
    let mut subscriber = reconnect(broker, V5, "subscriber");
    for number in 0..count {
        assert!(subscriber.receive().text().starts_with(&format!("{number}:")));
    }
}

/// A segment that cannot be prepared is not a lack of space: its state on disk is unknown.
#[test]
fn a_failed_sync_of_a_segment_is_final() {
    let folder = Folder::new(&[]);
    let settings = settings(&folder, &data_path(&folder), &["limits.session_queue_bytes=1000000000"]);
    let broker = start(&settings);
    create_offline_session(&broker);
    publish(&broker, 0..20, SMALL);
    let mut publisher = broker.connect(V5, "publisher");
    let Some(faults) = Faults::of(&broker, "fsync:error=EIO", &[]) else { return };
    let mut taken = 20;
    // Until the end of the segment, when the one after the next is prepared.
    loop {
        publisher.send_publish(&OutgoingPublish::new("kept/x", AtLeastOnce, &payload(taken, 200_000)));
        if publisher.expect_refusal() != 0 {
            break;
        }
        taken += 1;
        assert!(taken < 1_000, "no segment was prepared");
    }
    drop(faults);
    wait_until("the log fails", || metric(&broker, "data_failed") == 1);
    expect_failed(&broker);
    kill(broker);
    expect_starts_with(&start(&settings), taken);
}

/// A failed snapshot does not stop the log.
#[test]
fn a_failed_snapshot_is_reported_and_the_log_continues() {
    let folder = Folder::new(&[]);
    let more = [
        "limits.session_queue_bytes=1000000000",
        "limits.spill_threshold_bytes=1000000000",
        "limits.memory_bytes=1000000000",
    ];
    let settings = settings(&folder, &data_path(&folder), &more);
    let broker = start(&settings);
    create_offline_session(&broker);
    publish(&broker, 0..120, 200_000);
    // The first segment is complete. A snapshot reads it, and syncs it before.
    let first = format!("{}/segment-0000000000000001", data_path(&folder));
    let Some(faults) = Faults::of(&broker, "fdatasync:error=EIO", &[first]) else { return };
    publish(&broker, 120..190, 200_000);
    wait_until("a snapshot is tried", || metric(&broker, "data_snapshot_failures") > 0);
    publish(&broker, 190..200, SMALL);
    drop(faults);
    assert_eq!(health(&broker).0, 200);
    kill(broker);
    expect_stored(&start(&settings), 0..200);
}

/// Messages that cannot be spilled stay in memory.
#[test]
fn messages_that_cannot_be_spilled_stay_in_memory() {
    let folder = Folder::new(&[]);
    let settings = settings(&folder, &data_path(&folder), &COLD);
    let broker = start(&settings);
    create_offline_session(&broker);
    publish(&broker, 0..40, 4_000);
    wait_until("some are spilled", || metric(&broker, "spilled_messages") > 0);
    let files: Vec<String> =
        folder.names("data/spill").iter().map(|name| format!("{}/spill/{name}", data_path(&folder))).collect();
    let Some(faults) = Faults::of(&broker, "pwrite64:error=EIO", &files) else { return };
    publish(&broker, 40..100, 4_000);
    wait_until("the failure is counted", || metric(&broker, "spill_write_failures") > 0);
    expect_stored(&broker, 0..100);
    drop(faults);
    assert_eq!((metric(&broker, "data_failed"), metric(&broker, "spill_read_failures")), (0, 0));
}

/// Delivery to a client pauses while its messages cannot be read from disk; other clients are not affected.
#[test]
fn a_client_with_unreadable_messages_waits_for_the_disk() {
    let folder = Folder::new(&[]);
    let settings = settings(&folder, &data_path(&folder), &COLD);
    let broker = start(&settings);
    create_offline_session(&broker);
    publish(&broker, 0..100, 4_000);
    wait_until("some are spilled", || metric(&broker, "spilled_messages") > 20);
    let Some(faults) = Faults::of(&broker, "pread64:error=EIO", &[]) else { return };
    let mut subscriber = reconnect(&broker, V5, "subscriber");
    wait_until("the failure is counted", || metric(&broker, "spill_read_failures") > 0);
    expect_live(&broker);
    drop(faults);
    for number in 0..100 {
        assert!(subscriber.receive().text().starts_with(&format!("{number}:")), "{number}");
    }
}

/// The read at which the disk starts to fail: before the header of a file, and after it. Opening a file first probes whether direct reads
/// work, which is a read too.
const READS: [u32; 2] = [2, 4];

/// Unreadable data is damage: startup names it and is refused, and continues with the rest if told so.
fn what_is_not_read_is_damage(beginning: &str, of_what: &str, from_read: u32) {
    let folder = Folder::new(&[]);
    let directory = data_path(&folder);
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
    let name = folder.names("data").into_iter().find(|name| name.starts_with(beginning)).expect("the file exists");
    let place = format!("{directory}/{name}");
    let Some(mut words) = wrapper(&[format!("pread64:error=EIO:when={from_read}+")]) else { return };
    words.extend(["-P".to_owned(), place]);
    let stderr = refused_by(&words, &settings);
    for part in [&directory[..], of_what, "tautwire data check --data", "--recover"] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let broker = Broker::with_wrapper(&words, &["--recover"], &settings);
    expect_live(&broker);
    let log = broker.end();
    assert!(log.lines().any(|line| line.contains(" ERROR ") && line.contains(of_what)), "{log}");
    let broker = Broker::with_wrapper(&["env".to_owned()], &[], &settings);
    expect_live(&broker);
}

/// Unreadable data cannot be copied: nothing that looks like a backup is left.
#[test]
fn a_backup_of_unreadable_data_is_refused() {
    let folder = Folder::new(&[]);
    let directory = data_path(&folder);
    let broker = start(&settings(&folder, &directory, &[]));
    create_offline_session(&broker);
    broker.end();
    let Some(words) = wrapper(&["pread64:error=EIO:when=4+".to_owned()]) else { return };
    let backup = folder.path().join("backup").display().to_string();
    let stderr = super::refusal(&super::run_by(&words, &["data", "backup", "--data", &directory, &backup]), 1);
    assert!(
        stderr.contains(&format!("{directory}: cannot read segment-")) && stderr.contains("Input/output error"),
        "{stderr}"
    );
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(!folder.names("").iter().any(|name| name.starts_with("backup")), "{:?}", folder.names(""));
}

#[test]
fn an_unreadable_segment_is_damage() {
    READS.iter().for_each(|read| what_is_not_read_is_damage("segment-", "segment 1", *read));
}

#[test]
fn an_unreadable_snapshot_is_damage() {
    READS.iter().for_each(|read| what_is_not_read_is_damage("snapshot-", "snapshot-", *read));
}
