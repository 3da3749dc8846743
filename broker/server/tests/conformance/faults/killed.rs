//! The end in the midst of what changes a directory as a whole: a snapshot, a compaction, a backup, a restore.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::small_disk::SmallDisk;
use super::strace::wrapper;
use super::{absent, comes_true, expect_kept, payload, publish, run_by, settings, start, start_by};
use crate::support::{AtLeastOnce, Broker, Folder, V5};

/// The system calls that change what is on a disk. A kill comes before one of them.
const CHANGING: &str = "pwrite64,fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,openat";

fn plain() -> Vec<String> {
    vec!["env".to_owned()]
}

/// A directory of a broker that was stopped, with these messages.
fn written(folder: &Folder, name: &str, numbers: std::ops::Range<usize>) -> String {
    let data = folder.path().join(name).display().to_string();
    let broker = start(&settings(folder, &data, &[]));
    absent(&broker);
    publish(&broker, numbers, 100);
    broker.end();
    data
}

/// How often a command makes each of the system calls that change something.
fn calls(arguments: &[&str]) -> Option<Vec<(String, usize)>> {
    wrapper(&[])?;
    let output = Command::new("strace")
        .args(["-f", "-c", "-U", "name,calls", "-e", &format!("trace=?{}", CHANGING.replace(',', ",?"))])
        .arg(crate::support::program())
        .args(arguments)
        .output()
        .expect("it was there a moment ago");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let count = |line: &str| {
        let mut words = line.split_whitespace();
        let (name, count) = (words.next()?, words.next()?.parse().ok()?);
        CHANGING.split(',').any(|call| call == name).then(|| (name.to_owned(), count))
    };
    Some(text.lines().filter_map(count).collect())
}

/// Runs a command so often that it is killed before each system call that changes something; of those that it makes often, before
/// some. `prepare` comes before each run, and `judge` after it.
fn killed_everywhere(arguments: &[&str], mut prepare: impl FnMut(), mut judge: impl FnMut(&str)) {
    const EACH: usize = 3;
    prepare();
    let Some(calls) = calls(arguments) else { return };
    assert!(calls.iter().any(|(name, _)| name == "fsync"), "{calls:?}");
    judge("the end");
    let mut kills = 0;
    for (call, count) in calls {
        let step = count.div_ceil(EACH);
        for at in (1..=count).rev().step_by(step) {
            prepare();
            let Some(words) = wrapper(&[format!("{call}:signal=KILL:when={at}")]) else { return };
            let output = run_by(&words, arguments);
            kills += usize::from(!output.status.success());
            judge(&format!("{call} {at} of {count}"));
        }
    }
    assert!(kills > 10, "{kills}");
}

fn state(path: &Path) -> (String, String) {
    let path = path.display().to_string();
    let stats = run_by(&plain(), &["data", "stats", "--data", &path]);
    let lines = String::from_utf8_lossy(&stats.stdout).into_owned();
    let queued = lines.lines().find(|line| line.starts_with("queued messages")).unwrap_or_default().to_owned();
    let verdict = lines.lines().next().unwrap_or_default().to_owned();
    (verdict, queued.split_whitespace().nth(2).unwrap_or_default().to_owned())
}

#[track_caller]
fn expect_state(path: &Path, count: usize, what: &str) {
    let (verdict, queued) = state(path);
    assert!(verdict.ends_with(": whole") || verdict.ends_with(": torn"), "{what}: {verdict}");
    assert_eq!(queued, count.to_string(), "{what}");
}

#[test]
fn a_compaction_that_is_killed_changes_nothing() {
    let folder = Folder::new(&[]);
    let data = written(&folder, "data", 0..20);
    // One goes on where the last one has ended.
    killed_everywhere(&["data", "compact", "--data", &data], || {}, |what| expect_state(Path::new(&data), 20, what));
    expect_kept(&start(&settings(&folder, &data, &[])), 0..20);
}

#[test]
fn a_backup_that_is_killed_is_not_taken_for_one() {
    let folder = Folder::new(&[]);
    let data = written(&folder, "data", 0..20);
    let backup = folder.path().join("backup");
    let prepare = || {
        for name in folder.names("") {
            if name.starts_with("backup") {
                fs::remove_dir_all(folder.path().join(name)).expect("is ours");
            }
        }
    };
    let target = backup.display().to_string();
    killed_everywhere(&["data", "backup", "--data", &data, &target], prepare, |what| {
        if backup.exists() {
            expect_state(&backup, 20, what);
        }
    });
    expect_state(Path::new(&data), 20, "the source");
}

/// Where the directory cannot be renamed, since a file system is mounted there.
#[test]
fn a_backup_into_a_mounted_directory_that_is_killed_is_not_taken_for_one() {
    let Some(disk) = SmallDisk::new("size=200m") else { return };
    let folder = Folder::new(&[]);
    let data = written(&folder, "data", 0..20);
    let clear = || {
        for name in disk.names("") {
            fs::remove_file(disk.outside(&name)).expect("is ours");
        }
    };
    let target = disk.path("").trim_end_matches('/').to_owned();
    let Some(strace) = wrapper(&[]) else { return };
    let backup = ["data", "backup", "--data", &data, &target];
    let by = |words: &[String]| run_by(&[disk.wrapper(), words.to_vec()].concat(), &backup);
    assert!(by(&strace).status.success());
    assert!(disk.names("").contains(&"VERSION".to_owned()));
    let check = || {
        let output = run_by(&disk.wrapper(), &["data", "check", "--data", &target]);
        String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned()
    };
    let mut halves = 0;
    for call in ["pwrite64", "fdatasync", "fsync", "openat", "rename"] {
        for at in (1..).step_by(if matches!(call, "openat" | "pwrite64") { 7 } else { 2 }) {
            clear();
            let Some(words) = wrapper(&[format!("{call}:signal=KILL:when={at}")]) else { return };
            if by(&words).status.success() || at > 40 {
                break;
            }
            let is_named = disk.names("").contains(&"VERSION".to_owned());
            let verdict = check();
            assert_eq!(is_named, verdict.ends_with(": whole"), "{call} {at}: {verdict}");
            if !is_named && !disk.names("").is_empty() {
                halves += 1;
            }
        }
    }
    assert!(halves > 5, "{halves}");
}

/// There is what was there before or all of the backup, and then what was there before is beside it.
#[test]
fn a_restore_that_is_killed_leaves_the_old_state_or_the_new_one() {
    let folder = Folder::new(&[]);
    let backup = written(&folder, "one", 0..20);
    let other = written(&folder, "two", 0..30);
    let data = folder.path().join("data");
    let target = data.display().to_string();
    let prepare = || {
        for name in folder.names("") {
            if name.starts_with("data") {
                fs::remove_dir_all(folder.path().join(name)).expect("is ours");
            }
        }
        let copied = Command::new("cp").args(["-a", &other, &target]).status().expect("cp runs");
        assert!(copied.success());
    };
    let (mut old, mut new) = (0, 0);
    killed_everywhere(&["data", "restore", "--force", "--data", &target, &backup], prepare, |what| {
        if state(&data).1 == "30" {
            expect_state(&data, 30, what);
            old += 1;
            return;
        }
        expect_state(&data, 20, what);
        new += 1;
        let replaced = folder.names("").into_iter().find(|name| name.starts_with("data.replaced-"));
        let replaced = replaced.unwrap_or_else(|| panic!("{what}: {:?}", folder.names("")));
        expect_state(&folder.path().join(replaced), 30, what);
    });
    assert!(old > 3 && new > 0, "{old} {new}");
}

/// Where processes get the same number again and again, as in a container, what an earlier restore has put aside stays.
#[test]
fn a_restore_keeps_what_one_of_the_same_process_number_has_put_aside() {
    let folder = Folder::new(&[]);
    let backup = written(&folder, "one", 0..20);
    let data = written(&folder, "data", 0..30);
    // A shell that becomes the program keeps its number.
    let script = "mkdir \"$1.replaced-$$\" \"$1.new-$$\" && touch \"$1.replaced-$$/earlier\" \"$1.new-$$/earlier\" && \
                  exec \"$2\" data restore --force --data \"$1\" \"$3\"";
    let output = Command::new("sh").args(["-c", script, "sh", &data, &crate::support::program(), &backup]).output();
    let output = output.expect("sh runs");
    assert!(output.status.success(), "{output:?}");
    expect_state(Path::new(&data), 20, "the data directory");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, replaced) = said.split_once("what was there is in ").expect("is told");
    expect_state(Path::new(replaced.trim()), 30, "what was put aside");
    let kept = folder.names("").into_iter().filter(|name| folder.names(name) == ["earlier"]).count();
    assert_eq!(kept, 2, "{:?}", folder.names(""));
}

/// A broker is killed while it makes a snapshot: when it has begun, when a part is written, and when the log is let go of.
#[test]
fn a_broker_that_is_killed_during_a_snapshot_has_all_that_was_acknowledged() {
    const LARGE: usize = 200_000;
    let folder = Folder::new(&[]);
    let data = folder.path().join("data").display().to_string();
    let more = ["limits.session_queue_bytes=1000000000", "limits.hot_bytes=1000000000", "limits.buffered_bytes=1000000000"];
    let settings = settings(&folder, &data, &more);
    let stages: [(&str, &dyn Fn(&[String]) -> bool); 3] = [
        ("it has begun", &|names| names.iter().any(|name| name.starts_with("snapshot-") && name.ends_with(".new"))),
        ("it is there", &|names| names.iter().any(|name| name.starts_with("snapshot-") && !name.ends_with(".new"))),
        ("the log is let go of", &|names| names.iter().any(|name| name.starts_with("spare-"))),
    ];
    let mut next = 0;
    let mut broker = start(&settings);
    absent(&broker);
    for (what, is_reached) in stages {
        publish_until(&broker, &mut next, LARGE, || is_reached(&folder.names("data")), what);
        broker.signal("KILL");
        drop(broker);
        broker = start_by(&plain(), &settings);
    }
    expect_kept(&broker, 0..next);
}

fn publish_until(broker: &Broker, next: &mut usize, bytes: usize, is_reached: impl Fn() -> bool, what: &str) {
    let mut publisher = broker.connect(V5, "publisher");
    comes_true(what, || {
        // Enough for a snapshot, and no more than the test can bear.
        if *next < 400 {
            assert_eq!(publisher.publish("kept/x", AtLeastOnce, &payload(*next, bytes)), 0);
            *next += 1;
        }
        is_reached()
    });
}
