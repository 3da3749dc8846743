//! Backups of a busy broker, where one of the two is killed: the result is a complete backup or none.

use std::ops::RangeInclusive;
use std::process::{Child, Command, Stdio};

use super::killed::{CHANGING, clear, disk, each, queued};
use super::small_disk::SmallDisk;
use super::strace::wrapper;
use super::{
    create_offline_session, expect_stored, payload, publish, refused_by, run_by, settings, start_by, wait_until,
};
use crate::support::{AtLeastOnce, Broker, Client, Folder, OutgoingPublish, V5, program};

/// Limit for messages published during a backup.
const MEANWHILE_MAX: usize = 1_000;

/// Publishes messages with consecutive numbers.
struct BackgroundPublisher {
    publisher: Client,
    /// The number of the next message.
    next: usize,
    until: usize,
}

impl BackgroundPublisher {
    fn new(broker: &Broker, next: usize) -> BackgroundPublisher {
        BackgroundPublisher { publisher: broker.connect(V5, "publisher"), next, until: next + MEANWHILE_MAX }
    }

    fn publish_next(&mut self) {
        if self.next < self.until {
            assert_eq!(self.publisher.publish("kept/x", AtLeastOnce, &payload(self.next, 100)), 0);
            self.next += 1;
        }
    }
}

/// Starts a backup with the fault `injection`.
fn begin_backup(disk: &SmallDisk, injection: String, data: &str, backup: &str) -> Option<Child> {
    let words = [disk.wrapper(), wrapper(&[injection])?].concat();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).arg(program()).args(["data", "backup", "--data", data, backup]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Some(command.spawn().expect("the program starts"))
}

/// Checks everything stored under the name of a backup: each directory is restorable with a number of messages in `counts`, or refused by
/// name. Returns the restorable ones.
fn judge(disk: &SmallDisk, counts: RangeInclusive<usize>, what: &str) -> Vec<String> {
    let made = disk.names("").into_iter().filter(|name| name.starts_with("backup"));
    let restored = made.filter(|name| {
        let (path, target) = (disk.path(name), disk.path("restored"));
        let output = run_by(&disk.wrapper(), &["data", "restore", "--data", &target, &path]);
        if output.status.success() {
            let count = queued(disk, &target, what);
            assert!(counts.contains(&count), "{what}: {count} of {counts:?}");
        } else {
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(stderr.contains(&path), "{what}: {stderr}");
            assert!(!disk.names("").iter().any(|name| name.starts_with("restored")), "{what}: {:?}", disk.names(""));
            // A directory without any part of a log counts as no backup.
            if disk.names(name).iter().any(|file| file.starts_with("segment-") || file.starts_with("snapshot-")) {
                let stderr = refused_by(&disk.wrapper(), &settings(&Folder::new(&[]), &path, &[]));
                assert!(stderr.contains(&path), "{what}: {stderr}");
            }
        }
        clear(disk, "restored");
        output.status.success()
    });
    restored.collect()
}

#[test]
fn a_backup_is_complete_or_missing_if_it_is_killed() {
    let Some(disk) = disk() else { return };
    let (folder, data, backup) = (Folder::new(&[]), disk.path("data"), disk.path("backup"));
    let settings = settings(&folder, &data, &[]);
    let mut broker = start_by(&disk.wrapper(), &settings);
    create_offline_session(&broker);
    let mut count = 0;
    // The number of files in the backup when the broker is killed.
    for files in [0, 1, 2] {
        publish(&broker, count..count + 10, 100);
        count += 10;
        let mut busy = BackgroundPublisher::new(&broker, count);
        // So slow that the broker ends and the next one starts before the backup is complete.
        let slowly = format!("?{}:delay_enter=20000", CHANGING.replace(',', ",?"));
        let Some(mut making) = begin_backup(&disk, slowly, &data, &backup) else { return };
        // The backup may have ended before the check: then the broker is killed after it.
        wait_until("the backup has begun, or ended", || {
            busy.publish_next();
            let names = disk.names("");
            let made = names.iter().find(|name| name.starts_with("backup.new-"));
            made.is_some_and(|made| has_files(&disk, made, files)) || names.iter().any(|name| name == "backup")
        });
        // This message is not acknowledged, and may be there or not.
        busy.publisher.send_publish(&OutgoingPublish::new("other", AtLeastOnce, b"x").retained());
        broker.signal("KILL");
        drop(broker);
        broker = start_by(&disk.wrapper(), &settings);
        let is_made = making.wait().expect("it ends").success();
        let what = format!("{files} files");
        let restored = judge(&disk, count..=busy.next, &what);
        count = busy.next;
        assert_eq!(restored, if is_made { &["backup"][..] } else { &[] }, "{what}");
        clear(&disk, "backup");
    }
    expect_stored(&broker, 0..count);
}

/// Whether a folder of the disk has this many files; false if it has been renamed meanwhile.
fn has_files(disk: &SmallDisk, folder: &str, count: usize) -> bool {
    std::fs::read_dir(disk.outside(folder)).is_ok_and(|entries| entries.count() >= count)
}

/// Neither the broker nor the next backup is affected.
#[test]
fn a_backup_is_complete_or_missing_if_the_broker_is_killed() {
    let Some(disk) = disk() else { return };
    let (folder, data, backup) = (Folder::new(&[]), disk.path("data"), disk.path("backup"));
    let settings = settings(&folder, &data, &["limits.session_queue_messages=1000000"]);
    let broker = start_by(&disk.wrapper(), &settings);
    create_offline_session(&broker);
    let (mut count, mut killed, mut halves) = (0, 0, 0);
    for call in CHANGING.split(',') {
        // Each call in turn, or in growing steps, until the backup ends before the fault.
        let step = |at: usize| if each() > 2 { at + 1 } else { at * 3 };
        let mut at = 1;
        loop {
            let mut busy = BackgroundPublisher::new(&broker, count);
            // Some system calls do not exist on all architectures.
            let Some(mut making) = begin_backup(&disk, format!("?{call}:signal=KILL:when={at}"), &data, &backup) else {
                return;
            };
            let mut ended = None;
            wait_until("the backup ends", || {
                busy.publish_next();
                ended = making.try_wait().expect("the process can be polled");
                ended.is_some()
            });
            let ended = ended.expect("it has ended");
            let what = format!("{call} {at}");
            assert!(ended.success() || ended.code().is_none(), "{what}: it failed by itself: {ended}");
            halves += usize::from(disk.names("").iter().any(|name| name.starts_with("backup.new-")));
            let restored = judge(&disk, count..=busy.next, &what);
            count = busy.next;
            clear(&disk, "backup");
            if ended.success() {
                assert_eq!(restored, ["backup"], "{what}");
                break;
            }
            killed += 1;
            at = step(at);
        }
    }
    assert!(killed > 10 && halves > 5, "{killed} {halves}");
    let made = run_by(&disk.wrapper(), &["data", "backup", "--data", &data, &backup]);
    assert!(made.status.success(), "{made:?}");
    expect_stored(&broker, 0..count);
    expect_stored(&start_by(&disk.wrapper(), &super::settings(&folder, &backup, &[])), 0..count);
}
