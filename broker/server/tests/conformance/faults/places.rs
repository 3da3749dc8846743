//! Paths that are not a data directory, or belong to another user.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use super::small_disk::SmallDisk;
use super::{
    create_offline_session, expect_stored, is_root, publish, refusal, refused_by, run_by, settings, skipped, start,
    start_by, wait_until,
};
use crate::support::Folder;

fn plain() -> Vec<String> {
    vec!["env".to_owned()]
}

/// A user without access to the test's files.
fn nobody() -> Option<Vec<String>> {
    if !is_root() || Command::new("setpriv").arg("--version").output().is_err() {
        skipped("only root, with setpriv of util-linux, can become somebody else");
        return None;
    }
    Some(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"].map(str::to_owned).to_vec())
}

#[track_caller]
fn expect_parts(stderr: &str, parts: &[&str]) {
    for part in parts {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
}

#[test]
fn a_path_that_is_not_a_directory_is_refused_with_advice() {
    let folder = Folder::new(&[("file", "content")]);
    let file = folder.path().join("file").display().to_string();
    for path in [file.clone(), format!("{file}/below")] {
        let stderr = refused_by(&plain(), &settings(&folder, &path, &[]));
        expect_parts(&stderr, &[&path, "Not a directory", "use a directory", "[journal_disk]"]);
        for command in ["check", "stats", "dump", "compact"] {
            let stderr = refusal(&run_by(&plain(), &["data", command, "--data", &path]), 1);
            expect_parts(&stderr, &[&path, "Not a directory"]);
            assert_eq!(stderr.lines().count(), 1, "{stderr}");
        }
    }
    assert_eq!(folder.read("file"), "content");
}

/// The files of one user are neither readable nor writable for another.
#[test]
fn a_directory_of_another_user_is_refused_with_advice() {
    let Some(nobody) = nobody() else { return };
    let folder = Folder::new(&[]);
    let data = folder.path().join("data").display().to_string();
    let settings = settings(&folder, &data, &[]);
    let open_up = || {
        for path in [folder.path().to_owned(), folder.path().join("token")] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("the permissions are changed");
        }
    };
    let broker = start(&settings);
    create_offline_session(&broker);
    publish(&broker, 0..10, 100);
    broker.end();
    open_up();
    // First the directory is closed to others, then only its files.
    for mode in [0o700, 0o755, 0o777] {
        fs::set_permissions(&data, fs::Permissions::from_mode(mode)).expect("the permissions are changed");
        let stderr = refused_by(&nobody, &settings);
        expect_parts(
            &stderr,
            &[
                &data,
                "cannot ",
                "Permission denied",
                "make the user that runs this program the owner",
                "[journal_disk]",
            ],
        );
    }
    // One file left behind by a command of another user is enough.
    let own = Command::new("chown").args(["-R", "65534:65534", &data]).status().expect("chown runs");
    assert!(own.success());
    let segment = folder.names("data").into_iter().find(|name| name.starts_with("segment-")).expect("the file exists");
    let path = format!("{data}/{segment}");
    let own = |owner: &str| assert!(Command::new("chown").args([owner, &path]).status().expect("runs").success());
    own("0:0");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("the permissions are changed");
    let stderr = refused_by(&nobody, &settings);
    expect_parts(&stderr, &[&data, &segment, "Permission denied", "the owner of the directory and of its files"]);
    own("65534:65534");
    expect_stored(&start_by(&nobody, &settings), 0..10);
}

#[test]
fn a_read_only_directory_can_be_inspected_but_not_used() {
    let Some(disk) = SmallDisk::new("size=64m") else { return };
    let folder = Folder::new(&[]);
    let settings = settings(&folder, &disk.path("data"), &[]);
    let broker = start_by(&disk.wrapper(), &settings);
    create_offline_session(&broker);
    publish(&broker, 0..10, 100);
    broker.end();
    let remount = |how: &str| {
        let mut words = disk.wrapper();
        words.extend(["mount".to_owned(), "-o".to_owned(), format!("remount,{how}"), disk.path("")]);
        let output = Command::new(&words[0]).args(&words[1..]).output().expect("mount runs");
        assert!(output.status.success(), "{output:?}");
    };
    remount("ro");
    let stderr = refused_by(&disk.wrapper(), &settings);
    expect_parts(
        &stderr,
        &[&disk.path("data"), "Read-only file system", "mount the file system read-write", "[journal_disk]"],
    );
    let run = |command: &str, more: &[&str]| {
        let data = disk.path("data");
        run_by(&disk.wrapper(), &[&["data", command, "--data", &data], more].concat())
    };
    for command in ["check", "stats", "dump"] {
        let output = run(command, &[]);
        assert!(output.status.success(), "{output:?}");
    }
    let elsewhere = folder.path().join("backup").display().to_string();
    assert!(run("backup", &[&elsewhere]).status.success(), "a read-only directory can be copied");
    let stderr = refusal(&run("compact", &[]), 1);
    expect_parts(&stderr, &[&disk.path("data"), "Read-only file system"]);
    remount("rw");
    expect_stored(&start_by(&disk.wrapper(), &settings), 0..10);
    expect_stored(&start(&super::settings(&folder, &elsewhere, &[])), 0..10);
}

/// A command that inspects a directory does not keep a broker from starting on it at that moment.
#[test]
fn inspecting_a_directory_does_not_block_a_broker() {
    let folder = Folder::new(&[]);
    let data = folder.path().join("data").display().to_string();
    let settings = settings(&folder, &data, &[]);
    let broker = start(&settings);
    create_offline_session(&broker);
    broker.end();
    // For the duration of an inspecting command that the scheduler has suspended.
    let lock = File::open(folder.path().join("data/LOCK")).expect("the file exists");
    lock.lock_shared().expect("the lock is free");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            crate::support::sleep(std::time::Duration::from_millis(200));
            drop(lock);
        });
        start(&settings);
    });
}

/// The second broker leaves everything to the first, whichever path it uses.
#[test]
fn two_brokers_never_use_one_directory() {
    let folder = Folder::new(&[]);
    let data = folder.path().join("data").display().to_string();
    let first = start(&settings(&folder, &data, &[]));
    create_offline_session(&first);
    publish(&first, 0..5, 100);
    // The reserve is the last of the files prepared in advance.
    let ahead = || folder.names("data").iter().any(|name| name == "reserve");
    wait_until("the next segment is made ready", ahead);
    let other_path = folder.path().join("link");
    std::os::unix::fs::symlink(&data, &other_path).expect("can be made");
    for path in [data, other_path.display().to_string()] {
        let before = folder.names("data");
        let stderr = refused_by(&plain(), &settings(&folder, &path, &[]));
        expect_parts(&stderr, &[&path, "another broker uses it", "stop that broker", "data.path"]);
        assert_eq!(folder.names("data"), before);
    }
    publish(&first, 5..10, 100);
    first.signal("KILL");
    drop(first);
    let second = start(&settings(&folder, &other_path.display().to_string(), &[]));
    expect_stored(&second, 0..10);
}
