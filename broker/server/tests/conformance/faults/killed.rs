//! Kills during operations that replace a whole directory: a snapshot, a compaction, a backup, a restore.

use std::cell::Cell;
use std::fs;
use std::process::Command;

use super::small_disk::SmallDisk;
use super::strace::{Faults, wrapper};
use super::{create_offline_session, expect_stored, payload, publish, refusal, run_by, settings, start, start_by};
use crate::support::{AtLeastOnce, Broker, Folder, Message, OutgoingPublish, V5, reconnect};
use tautwire_protocol::Packet;

/// The system calls that change data on disk. A kill comes before one of them.
pub(super) const CHANGING: &str =
    "pwrite64,fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,openat";

/// A disk with cheap syncs. Returns `None` and prints the reason if it or `strace` is not available.
pub(super) fn disk() -> Option<SmallDisk> {
    wrapper(&[])?;
    SmallDisk::new("size=256m")
}

/// The directory of a stopped broker with these messages.
fn data_with(disk: &SmallDisk, name: &str, numbers: std::ops::Range<usize>) -> String {
    let data = disk.path(name);
    let folder = Folder::new(&[]);
    let broker = start_by(&disk.wrapper(), &settings(&folder, &data, &[]));
    create_offline_session(&broker);
    publish(&broker, numbers, 100);
    broker.end();
    data
}

/// The number of calls that a command makes of each modifying system call.
fn calls(disk: &SmallDisk, arguments: &[&str]) -> Vec<(String, usize)> {
    let mut words = disk.wrapper();
    words.extend(["strace", "-f", "-c", "-U", "name,calls", "-e"].map(str::to_owned));
    words.push(format!("trace=?{}", CHANGING.replace(',', ",?")));
    let output = run_by(&words, arguments);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let count = |line: &str| {
        let mut words = line.split_whitespace();
        let (name, count) = (words.next()?, words.next()?.parse().ok()?);
        CHANGING.split(',').any(|call| call == name).then(|| (name.to_owned(), count))
    };
    text.lines().filter_map(count).collect()
}

/// The fault at a system call.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    /// The process is killed before it.
    Kill,
    /// It fails.
    Fail,
}

/// The number of kills per system call: `TAUTWIRE_FAULTS_EACH`, or two.
pub(super) fn each() -> usize {
    std::env::var("TAUTWIRE_FAULTS_EACH").ok().and_then(|text| text.parse().ok()).unwrap_or(2)
}

fn killed_everywhere(disk: &SmallDisk, arguments: &[&str], prepare: impl Fn(), judge: impl FnMut(&str)) {
    interrupted_everywhere(Fault::Kill, disk, arguments, prepare, judge);
}

/// Runs a command repeatedly with a fault at each modifying system call; for frequent calls, at some of them. `prepare` runs before each
/// run, and `judge` after it.
fn interrupted_everywhere(
    fault: Fault,
    disk: &SmallDisk,
    arguments: &[&str],
    prepare: impl Fn(),
    mut judge: impl FnMut(&str),
) {
    prepare();
    let calls = calls(disk, arguments);
    assert!(calls.iter().any(|(name, _)| name == "fsync"), "{calls:?}");
    judge("the end");
    let mut interrupted = 0;
    for (call, count) in calls {
        if fault == Fault::Fail && call == "openat" {
            // Faults while the program is loaded are of no interest.
            continue;
        }
        let step = count.div_ceil(each());
        for at in (1..=count).rev().step_by(step) {
            prepare();
            let how = if fault == Fault::Kill { "signal=KILL" } else { "error=EIO" };
            let Some(words) = wrapper(&[format!("{call}:{how}:when={at}")]) else { return };
            let output = run_by(&[disk.wrapper(), words].concat(), arguments);
            let what = format!("{call} {at} of {count}");
            if fault == Fault::Fail && !output.status.success() {
                let stderr = refusal(&output, 1);
                assert!(stderr.lines().count() == 1 && stderr.contains("Input/output error"), "{what}: {stderr}");
            }
            interrupted += usize::from(!output.status.success());
            judge(&what);
        }
    }
    assert!(interrupted > 5, "{interrupted}");
}

/// The number of queued messages in a directory without losses.
#[track_caller]
pub(super) fn queued(disk: &SmallDisk, path: &str, what: &str) -> usize {
    let stats = run_by(&disk.wrapper(), &["data", "stats", "--data", path]);
    let text = String::from_utf8_lossy(&stats.stdout).into_owned();
    let verdict = text.lines().next().unwrap_or_default();
    assert!(verdict.ends_with(": intact") || verdict.ends_with(": torn"), "{what}: {stats:?}");
    let line = text.lines().find_map(|line| line.strip_prefix("queued messages"));
    let count = line.and_then(|rest| rest.split_whitespace().next()?.replace(',', "").parse().ok());
    count.unwrap_or_else(|| panic!("{what}: {text}"))
}

#[track_caller]
pub(super) fn expect_queued(disk: &SmallDisk, path: &str, count: usize, what: &str) {
    assert_eq!(queued(disk, path, what), count, "{what}");
}

#[test]
fn a_killed_compaction_changes_nothing() {
    a_compaction_that_ends_early_changes_nothing(Fault::Kill);
}

#[test]
fn a_failed_compaction_changes_nothing_and_reports_why() {
    a_compaction_that_ends_early_changes_nothing(Fault::Fail);
}

fn a_compaction_that_ends_early_changes_nothing(fault: Fault) {
    let Some(disk) = disk() else { return };
    let data = data_with(&disk, "data", 0..20);
    // Each run continues where the last one ended.
    let judge = |what: &str| expect_queued(&disk, &data, 20, what);
    interrupted_everywhere(fault, &disk, &["data", "compact", "--data", &data], || {}, judge);
    expect_stored(&start_by(&disk.wrapper(), &settings(&Folder::new(&[]), &data, &[])), 0..20);
}

/// Removes the files and folders with this prefix.
pub(super) fn clear(disk: &SmallDisk, beginning: &str) {
    for name in disk.names("").into_iter().filter(|name| name.starts_with(beginning)) {
        fs::remove_dir_all(disk.outside(&name)).expect("the folder is removable");
    }
}

#[test]
fn a_killed_backup_is_not_a_valid_backup() {
    let Some(disk) = disk() else { return };
    let data = data_with(&disk, "data", 0..20);
    let backup = disk.path("backup");
    let judge = |what: &str| {
        if disk.names("").iter().any(|name| name == "backup") {
            expect_queued(&disk, &backup, 20, what);
        }
    };
    killed_everywhere(&disk, &["data", "backup", "--data", &data, &backup], || clear(&disk, "backup"), judge);
    expect_queued(&disk, &data, 20, "the source");
}

/// The target directory cannot be renamed, since it is a mount point.
#[test]
fn a_killed_backup_into_a_mounted_directory_is_not_valid() {
    let (Some(source), Some(disk)) = (disk(), disk()) else { return };
    data_with(&source, "data", 0..20);
    // Programs that see one disk do not see the other.
    let outside = source.outside("data").display().to_string();
    let target = disk.path("").trim_end_matches('/').to_owned();
    let empty = || {
        for name in disk.names("") {
            fs::remove_file(disk.outside(&name)).expect("the file is removable");
        }
    };
    let mut halves = 0;
    killed_everywhere(&disk, &["data", "backup", "--data", &outside, &target], empty, |what| {
        let names = disk.names("");
        if names.contains(&"VERSION".to_owned()) {
            expect_queued(&disk, &target, 20, what);
        } else if !names.is_empty() {
            halves += 1;
            let check = run_by(&disk.wrapper(), &["data", "check", "--data", &target]);
            assert!(!check.status.success(), "{what}: {check:?}");
        }
    });
    assert!(halves > 1, "{halves}");
}

/// The result is either the old state or all of the backup, with the old state set aside.
#[test]
fn a_killed_restore_leaves_the_old_or_the_new_state() {
    a_restore_that_ends_early_leaves_the_old_state_or_the_new_one(Fault::Kill);
}

#[test]
fn a_failed_restore_leaves_the_old_or_the_new_state() {
    a_restore_that_ends_early_leaves_the_old_state_or_the_new_one(Fault::Fail);
}

fn a_restore_that_ends_early_leaves_the_old_state_or_the_new_one(fault: Fault) {
    let Some(disk) = disk() else { return };
    let backup = data_with(&disk, "one", 0..20);
    let data = data_with(&disk, "data", 0..30);
    // The other state is restored after a complete run.
    let is_replaced = Cell::new(false);
    let other = disk.path("other");
    let backed_up = run_by(&disk.wrapper(), &["data", "backup", "--data", &data, &other]);
    assert!(backed_up.status.success(), "{backed_up:?}");
    let prepare = || {
        clear(&disk, "data.");
        if is_replaced.get() {
            clear(&disk, "data");
            let copied = Command::new("cp").arg("-a").arg(disk.outside("other")).arg(disk.outside("data")).status();
            assert!(copied.expect("cp runs").success());
        }
    };
    let (mut old, mut new) = (0, 0);
    let restore = ["data", "restore", "--force", "--data", &data, &backup];
    interrupted_everywhere(fault, &disk, &restore, prepare, |what| {
        is_replaced.set(queued(&disk, &data, what) != 30);
        if !is_replaced.get() {
            old += 1;
            return;
        }
        expect_queued(&disk, &data, 20, what);
        new += 1;
        let replaced = disk.names("").into_iter().find(|name| name.starts_with("data.replaced-"));
        let replaced = replaced.unwrap_or_else(|| panic!("{what}: {:?}", disk.names("")));
        expect_queued(&disk, &disk.path(&replaced), 30, what);
    });
    assert!(old > 3 && new > 0, "{old} {new}");
}

/// If process ids repeat, as in containers, the state set aside by an earlier restore is kept.
#[test]
fn a_restore_keeps_files_set_aside_by_the_same_process_id() {
    let Some(disk) = disk() else { return };
    let backup = data_with(&disk, "one", 0..20);
    let data = data_with(&disk, "data", 0..30);
    // A shell that executes the program keeps its process id.
    let script = "mkdir \"$1.replaced-$$\" \"$1.new-$$\" && touch \"$1.replaced-$$/earlier\" \"$1.new-$$/earlier\" && \
                  exec \"$0\" data restore --force --data \"$1\" \"$2\"";
    let mut words = disk.wrapper();
    words.extend(["sh", "-c", script].map(str::to_owned));
    let output = run_by(&words, &[&data, &backup]);
    assert!(output.status.success(), "{output:?}");
    expect_queued(&disk, &data, 20, "the data directory");
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, replaced) = stdout.split_once("the old directory is in ").expect("the message names it");
    expect_queued(&disk, replaced.trim(), 30, "the state set aside");
    let kept = disk.names("").into_iter().filter(|name| disk.names(name) == ["earlier"]).count();
    assert_eq!(kept, 2, "{:?}", disk.names(""));
}

/// A point of a snapshot at which a broker is killed: before a system call of one of its threads. `strace` kills it, so no test has to
/// catch a transient state.
struct Stage {
    what: &'static str,
    thread: &'static str,
    injection: &'static str,
    /// Whether these names in the directory are the result of a kill at this stage.
    is_reached: fn(&[String]) -> bool,
}

const STAGES: [Stage; 4] = [
    Stage {
        what: "a snapshot has begun",
        thread: "compactor",
        // The first one syncs the empty file.
        injection: "fsync:signal=KILL:when=1",
        is_reached: |names| has(names, is_unfinished) && !has(names, is_snapshot),
    },
    Stage {
        what: "a snapshot is written and not named",
        thread: "compactor",
        injection: "rename:signal=KILL:when=1",
        is_reached: |names| has(names, is_unfinished) && !has(names, is_snapshot),
    },
    Stage {
        what: "a snapshot is named",
        thread: "compactor",
        // The sync of the directory.
        injection: "fsync:signal=KILL:when=2",
        is_reached: |names| has(names, is_snapshot) && !has(names, is_spare),
    },
    Stage {
        what: "the log is truncated",
        thread: "journal",
        injection: "rename:signal=KILL:when=1",
        is_reached: |names| has(names, is_snapshot) && !has(names, is_spare),
    },
];

fn has(names: &[String], is_such: fn(&str) -> bool) -> bool {
    names.iter().any(|name| is_such(name))
}

fn is_unfinished(name: &str) -> bool {
    name.starts_with("snapshot-") && name.ends_with(".new")
}

fn is_snapshot(name: &str) -> bool {
    name.starts_with("snapshot-") && !name.ends_with(".new")
}

fn is_spare(name: &str) -> bool {
    name.starts_with("spare-")
}

/// A broker killed at any stage of a snapshot has everything it acknowledged.
#[test]
fn a_broker_killed_during_a_snapshot_keeps_acknowledged_messages() {
    for stage in STAGES {
        let folder = Folder::new(&[]);
        let data = folder.path().join("data").display().to_string();
        let settings = settings(&folder, &data, &ROOMY);
        let broker = start(&settings);
        create_offline_session(&broker);
        let Some(_faults) = Faults::of_thread(&broker, stage.thread, stage.injection) else { return };
        let acknowledged = publish_until_killed(&broker);
        drop(broker);
        let names = folder.names("data");
        assert!((stage.is_reached)(&names), "{}: {names:?}", stage.what);

        let broker = start(&settings);
        let mut subscriber = reconnect(&broker, V5, "subscriber");
        for number in 0..acknowledged {
            assert_eq!(number_of(&subscriber.receive()), number, "{}", stage.what);
        }
        // The message in transit when the broker was killed may be there.
        broker.connect(V5, "publisher").publish("kept/x", AtLeastOnce, &payload(LAST, 100));
        let next = number_of(&subscriber.receive());
        assert!(next == LAST || next == acknowledged && number_of(&subscriber.receive()) == LAST, "{next}");
    }
}

/// The payload size of one message.
const LARGE: usize = 200_000;
/// More than any snapshot needs.
const MESSAGES_MAX: usize = 400;
/// The number of the message that follows all earlier ones.
const LAST: usize = 1_000_000;
/// No limit refuses what the test publishes.
const ROOMY: [&str; 3] = [
    "limits.session_queue_bytes=1000000000",
    "limits.spill_threshold_bytes=1000000000",
    "limits.memory_bytes=1000000000",
];

/// Publishes until a snapshot is due, and further until the broker is killed. Returns the number of acknowledged messages.
fn publish_until_killed(broker: &Broker) -> usize {
    let mut publisher = broker.connect(V5, "publisher");
    for number in 0..MESSAGES_MAX {
        let id = publisher.next_packet_id();
        let payload = payload(number, LARGE);
        let outgoing = OutgoingPublish::new("kept/x", AtLeastOnce, &payload);
        let bytes = publisher.encoded(&Packet::Publish(outgoing.publish(id)));
        publisher.send_bytes_unless_closed(&bytes);
        let Some(answer) = publisher.next_or_closed() else { return number };
        let Packet::PubAck(puback) = answer.as_packet() else { panic!("expected PUBACK, got {answer:?}") };
        assert_eq!((puback.packet_id, puback.reason.as_u8()), (id, 0), "message {number}");
    }
    assert!(publisher.next_or_closed().is_none(), "the broker sends an unexpected packet");
    MESSAGES_MAX
}

fn number_of(message: &Message) -> usize {
    let number = message.text().split(':').next().and_then(|number| number.parse().ok());
    number.expect("a payload begins with its number")
}
