//! A full file system, because of the broker's own data or of other files.

use tautwire_protocol::Packet;

use super::small_disk::SmallDisk;
use super::{
    create_offline_session, expect_live, expect_stored, health, metric, payload, publish, publish_until_refused,
    refusal, refused_by, run_by, settings, start_by, wait_until,
};
use crate::support::{AtLeastOnce, Broker, Folder, NEVER, V3_1_1, V5, WillMessage};

/// The payload size of one message.
const LARGE: usize = 200_000;
/// Queues do not fill up.
const ROOMY: [&str; 3] =
    ["disk.limit=1000000000", "limits.session_queue_bytes=1000000000", "limits.spill_threshold_bytes=1000000000"];

fn kill(broker: Broker) {
    broker.signal("KILL");
    drop(broker);
}

/// Until there is space again, persistent messages are refused (3.4.2.1 of 5.0: Quota exceeded) and everything else continues. No
/// acknowledged message is lost.
#[test]
fn a_full_file_system_refuses_persistent_publishes_until_there_is_space() {
    let Some(disk) = SmallDisk::new("size=72m") else { return };
    let folder = Folder::new(&[]);
    let settings = settings(&folder, &disk.path("data"), &ROOMY);
    let broker = start_by(&disk.wrapper(), &settings);
    create_offline_session(&broker);
    publish(&broker, 0..20, LARGE);
    disk.fill("other", 1 << 20);
    let mut publisher = broker.connect(V5, "publisher");
    let (refused, reason) = publish_until_refused(&mut publisher, 20, LARGE);
    assert_eq!(reason, 0x97);
    assert_eq!(health(&broker), (200, r#"{"status":"degraded","disk":"full"}"#.to_owned()));
    assert_eq!((metric(&broker, "data_full"), metric(&broker, "data_failed")), (1, 0));
    assert_eq!(broker.connecting(V5, "newcomer").persistent().refused(), 0x89);
    expect_live(&broker);
    // 3.1.1 has no answer for this.
    let mut old = broker.connect(V3_1_1, "old");
    old.send_publish(&crate::support::OutgoingPublish::new("kept/x", AtLeastOnce, b"small"));
    old.expect_closed();
    // The broker does not retry allocations that fail, so other programs can use the space.
    assert_eq!(disk.names("data").iter().filter(|name| name.ends_with(".new")).count(), 0);

    // A refused client writes nothing, and still detects the new space.
    disk.make_room("other");
    wait_until("there is room again", || publisher.publish("kept/x", AtLeastOnce, &payload(refused, LARGE)) == 0);
    assert_eq!(health(&broker), (200, r#"{"status":"ok"}"#.to_owned()));
    let log = {
        disk.fill("other", 0);
        let (last, _) = publish_until_refused(&mut publisher, refused + 1, LARGE);
        kill(broker);
        disk.make_room("other");
        let broker = start_by(&disk.wrapper(), &settings);
        expect_stored(&broker, 0..last);
        broker.end()
    };
    assert!(!log.contains(" ERROR "), "{log}");
}

/// If unrefusable records fill the last segment, the log fails: affected clients are notified, and everything else continues.
#[test]
fn a_log_without_space_at_its_end_fails_with_a_report() {
    let Some(disk) = SmallDisk::new("size=56m") else { return };
    let folder = Folder::new(&[]);
    // One client reconnects again and again.
    let settings = settings(&folder, &disk.path("data"), &[&ROOMY[..], &["limits.flapping_disconnects=0"]].concat());
    let broker = start_by(&disk.wrapper(), &settings);
    create_offline_session(&broker);
    let mut witness = broker.connecting(V5, "witness").persistent().open();
    broker.connecting(V5, "returning").persistent().open().disconnect();
    publish(&broker, 0..20, LARGE);
    disk.fill("other", 0);
    let mut publisher = broker.connect(V5, "publisher");
    let (refused, reason) = publish_until_refused(&mut publisher, 20, LARGE);
    assert_eq!(reason, 0x97);
    // A client with an existing session is accepted as long as there is space, and its will is stored.
    let will = vec![b'w'; 60_000];
    let comes_back = || {
        let will = WillMessage::new("will", &will);
        let mut client =
            broker.connecting(V5, "returning").clean_start(false).session_expiry_s(NEVER).will(will).send();
        match client.next().as_packet() {
            Packet::ConnAck(connack) => connack.reason.as_u8(),
            other => panic!("expected CONNACK, got {other:?}"),
        }
    };
    wait_until("the log is full", || {
        comes_back();
        metric(&broker, "data_failed") == 1
    });
    assert_eq!(witness.expect_disconnect(), 0x97);
    assert_eq!(comes_back(), 0x88);
    assert_eq!(publisher.publish("kept/x", AtLeastOnce, b"small"), 0x97);
    assert_eq!(health(&broker), (503, r#"{"status":"failed","disk":"failed"}"#.to_owned()));
    expect_live(&broker);
    // More space alone does not help: the state of the last write on disk is unknown.
    disk.make_room("other");
    assert_eq!(publisher.publish("kept/x", AtLeastOnce, b"small"), 0x97);
    let log = broker.end();
    assert!(log.contains("no space for the next segment") && log.contains("nothing is persisted any more"), "{log}");

    expect_stored(&start_by(&disk.wrapper(), &settings), 0..refused);
}

/// A broker that starts on a full disk uses the reserve of an earlier run. It serves, refuses persistent messages, and loses nothing.
#[test]
fn a_start_without_space_uses_the_reserve_and_loses_nothing() {
    let Some(disk) = SmallDisk::new("size=64m") else { return };
    let folder = Folder::new(&[]);
    let settings = settings(&folder, &disk.path("data"), &ROOMY);
    let broker = start_by(&disk.wrapper(), &settings);
    create_offline_session(&broker);
    let has_reserve = || disk.names("data").contains(&"reserve".to_owned());
    wait_until("space is held back", has_reserve);
    disk.fill("other", 0);
    // Until the last segment is in use: a prepared segment would be enough for a start.
    let (refused, _) = publish_until_refused(&mut broker.connect(V5, "publisher"), 0, LARGE);
    kill(broker);
    disk.make_room("other");
    disk.fill("other", 0);
    let broker = start_by(&disk.wrapper(), &settings);
    assert!(!has_reserve());
    expect_stored(&broker, 0..refused);
    expect_live(&broker);
    let log = broker.end();
    assert!(log.contains("the disk is full") && log.contains("the broker starts with its reserve of 4 MiB"), "{log}");
    assert!(!log.contains(" ERROR "), "{log}");
    // The reserve is allocated again once there is space.
    disk.make_room("other");
    let broker = start_by(&disk.wrapper(), &settings);
    wait_until("space is held back again", has_reserve);
    assert_eq!(broker.connect(V5, "publisher").publish("kept/x", AtLeastOnce, b"more"), 0);
}

/// Without a reserve one line reports it, and no number of attempts loses data.
#[test]
fn a_start_without_space_and_reserve_is_refused_and_loses_nothing() {
    let Some(disk) = SmallDisk::new("size=64m") else { return };
    let folder = Folder::new(&[]);
    let settings = settings(&folder, &disk.path("data"), &ROOMY);
    let broker = start_by(&disk.wrapper(), &settings);
    create_offline_session(&broker);
    wait_until("space is held back", || disk.names("data").contains(&"reserve".to_owned()));
    disk.fill("other", 0);
    let (refused, _) = publish_until_refused(&mut broker.connect(V5, "publisher"), 0, LARGE);
    kill(broker);
    std::fs::remove_file(disk.outside("data").join("reserve")).expect("the reserve exists");
    for spare_bytes in [0, 512 << 10, 0] {
        disk.make_room("other");
        disk.fill("other", spare_bytes);
        let stderr = refused_by(&disk.wrapper(), &settings);
        for part in [&disk.path("data")[..], "No space left on device", "make room", "[journal_disk]"] {
            assert!(stderr.contains(part), "{part}: {stderr}");
        }
    }
    disk.make_room("other");
    expect_stored(&start_by(&disk.wrapper(), &settings), 0..refused);
}

/// On a small disk segments are small, to have space for the next one and for a snapshot.
#[test]
fn a_disk_of_20_mb_suffices_while_messages_are_consumed() {
    let Some(disk) = SmallDisk::new("size=20m") else { return };
    let folder = Folder::new(&[]);
    // By default the queue of a session may use a sixteenth of the disk.
    let settings = settings(&folder, &disk.path("data"), &["limits.session_queue_bytes=10000000"]);
    for first in [0, 200] {
        let broker = start_by(&disk.wrapper(), &settings);
        if first == 0 {
            create_offline_session(&broker);
        }
        // More than the disk can hold, in parts. Messages that arrive faster than snapshots free space are refused meanwhile.
        let mut publisher = broker.connect(V5, "publisher");
        for part in 0..4 {
            let numbers = first + part * 50..first + part * 50 + 50;
            for number in numbers.clone() {
                let is_taken = || publisher.publish("kept/x", AtLeastOnce, &payload(number, LARGE)) == 0;
                wait_until("there is room", is_taken);
                if number % 10 == 9 {
                    expect_stored(&broker, number - 9..=number);
                }
            }
        }
        assert_eq!((metric(&broker, "data_failed"), health(&broker).0), (0, 200));
        kill(broker);
    }
}

/// A file system that does not report its size is not considered full.
#[test]
fn a_file_system_that_reports_no_size_is_usable() {
    let Some(disk) = SmallDisk::new("size=0") else { return };
    let folder = Folder::new(&[]);
    let broker = start_by(&disk.wrapper(), &settings(&folder, &disk.path("data"), &[]));
    create_offline_session(&broker);
    publish(&broker, 0..10, LARGE);
    assert_eq!(metric(&broker, "data_full"), 0);
}

/// A snapshot without space leaves nothing behind, and the log continues.
#[test]
fn a_snapshot_without_space_is_abandoned_and_its_space_freed() {
    let Some(disk) = SmallDisk::new("size=96m") else { return };
    let folder = Folder::new(&[]);
    let settings = settings(&folder, &disk.path("data"), &ROOMY);
    let broker = start_by(&disk.wrapper(), &settings);
    create_offline_session(&broker);
    publish(&broker, 0..120, LARGE);
    // Space for one more segment. A snapshot of everything would need more than what is left then.
    disk.fill("other", (16 << 20) + (5 << 20));
    publish(&broker, 120..180, LARGE);
    wait_until("a snapshot has failed", || metric(&broker, "data_snapshot_failures") > 0);
    let left = disk.names("data");
    assert!(!left.iter().any(|name| name.starts_with("snapshot-") || name == "spill-snapshot"), "{left:?}");
    assert_eq!((metric(&broker, "data_failed"), health(&broker).0), (0, 200));
    publish(&broker, 180..185, LARGE);
    expect_live(&broker);
    kill(broker);
    disk.make_room("other");
    let broker = start_by(&disk.wrapper(), &settings);
    expect_stored(&broker, 0..185);
}

/// Messages that cannot be spilled stay in memory.
#[test]
fn messages_without_disk_space_stay_in_memory() {
    let Some(disk) = SmallDisk::new("size=64m") else { return };
    let folder = Folder::new(&[]);
    let more = ["limits.spill_threshold_bytes=65536", "disk.limit=1000000000", "limits.session_queue_bytes=1000000000"];
    let settings = settings(&folder, &disk.path("data"), &more);
    let broker = start_by(&disk.wrapper(), &settings);
    create_offline_session(&broker);
    // The log has its next segment, so only spilling finds no space.
    let is_segment = |name: &&String| name.starts_with("segment-") && !name.ends_with(".new");
    wait_until("a segment is made ready ahead", || disk.names("data").iter().filter(is_segment).count() == 2);
    disk.fill("other", 0);
    let mut publisher = broker.connect(V5, "publisher");
    let (refused, reason) = publish_until_refused(&mut publisher, 0, 4_000);
    assert_eq!(reason, 0x97);
    assert!(refused > 100, "{refused}");
    wait_until("the failure is counted", || metric(&broker, "spill_write_failures") > 0);
    assert_eq!(metric(&broker, "spilled_messages"), 0);
    expect_live(&broker);
    expect_stored(&broker, 0..refused);
}

/// `data backup` and `data compact` report where space is missing, and leave nothing behind.
#[test]
fn commands_without_space_report_the_location_and_change_nothing() {
    let Some(disk) = SmallDisk::new("size=48m") else { return };
    let folder = Folder::new(&[]);
    let elsewhere = folder.path().join("data").display().to_string();
    for data in [elsewhere.clone(), disk.path("data")] {
        let broker = start_by(&disk.wrapper(), &settings(&folder, &data, &ROOMY));
        create_offline_session(&broker);
        publish(&broker, 0..30, LARGE);
        broker.end();
    }
    let run = |arguments: &[&str]| run_by(&disk.wrapper(), arguments);
    disk.fill("other", 1 << 20);
    let before = disk.names("");
    let target = disk.path("backup");
    let stderr = refusal(&run(&["data", "backup", "--data", &elsewhere, &target]), 1);
    for part in [&target[..], "No space left on device", "make room on the disk"] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    assert!(!stderr.contains(&elsewhere) && stderr.lines().count() == 1, "{stderr}");
    assert_eq!(disk.names(""), before, "nothing is left");
    let stderr = refusal(&run(&["data", "restore", "--data", &target, &elsewhere]), 1);
    assert!(stderr.contains(&target) && stderr.contains("make room on the disk"), "{stderr}");
    assert_eq!(disk.names(""), before, "nothing is left");

    let data = disk.path("data");
    for name in disk.names("data").iter().filter(|name| name.starts_with("spare-")) {
        std::fs::remove_file(disk.outside("data").join(name)).expect("the file exists");
    }
    disk.fill("other", 1 << 20);
    let stderr = refusal(&run(&["data", "compact", "--data", &data]), 1);
    assert!(
        stderr.contains(&data) && stderr.contains("make room on the disk") && stderr.lines().count() == 1,
        "{stderr}"
    );
    assert!(!disk.names("data").iter().any(|name| name.ends_with(".new")), "{:?}", disk.names("data"));
    disk.make_room("other");
    for data in [elsewhere, data] {
        expect_stored(&start_by(&disk.wrapper(), &settings(&folder, &data, &ROOMY)), 0..30);
    }
}
