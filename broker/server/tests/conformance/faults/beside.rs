//! A backup of a broker that is killed meanwhile, and starts again: what is left is a whole backup, or none.

use std::process::{Command, Stdio};

use super::killed::{CHANGING, clear, disk, expect_queued};
use super::small_disk::SmallDisk;
use super::strace::wrapper;
use super::{absent, comes_true, expect_kept, publish, refused_by, run_by, settings, start_by};
use crate::support::{Folder, program};

/// Whatever is there under the name of a backup, and what was being made of it, is restored with so many messages, or refused by its name. Says
/// which of them could be restored.
fn judge(disk: &SmallDisk, count: usize, what: &str) -> Vec<String> {
    let made = disk.names("").into_iter().filter(|name| name.starts_with("backup"));
    let restored = made.filter(|name| {
        let (path, target) = (disk.path(name), disk.path("restored"));
        let output = run_by(&disk.wrapper(), &["data", "restore", "--data", &target, &path]);
        if output.status.success() {
            expect_queued(disk, &target, count, what);
        } else {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(said.contains(&path), "{what}: {said}");
            assert!(!disk.names("").iter().any(|name| name.starts_with("restored")), "{what}: {:?}", disk.names(""));
            // One in which there is nothing of a log yet is as good as none.
            if disk.names(name).iter().any(|file| file.starts_with("segment-") || file.starts_with("snapshot-")) {
                let said = refused_by(&disk.wrapper(), &settings(&Folder::new(&[]), &path, &[]));
                assert!(said.contains(&path), "{what}: {said}");
            }
        }
        clear(disk, "restored");
        output.status.success()
    });
    restored.collect()
}

#[test]
fn a_backup_of_a_broker_that_is_killed_meanwhile_is_whole_or_there_is_none() {
    let Some(disk) = disk() else { return };
    let (folder, data, backup) = (Folder::new(&[]), disk.path("data"), disk.path("backup"));
    let settings = settings(&folder, &data, &[]);
    // So slow that the broker ends, and the next one begins, before it is done.
    let Some(slow) = wrapper(&[format!("?{}:delay_enter=20000", CHANGING.replace(',', ",?"))]) else { return };
    let words = [disk.wrapper(), slow].concat();
    let mut broker = start_by(&disk.wrapper(), &settings);
    absent(&broker);
    let mut count = 0;
    // How much of the backup there is when the broker is killed.
    for files in [0, 1, 2] {
        publish(&broker, count..count + 10, 100);
        count += 10;
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(program()).args(["data", "backup", "--data", &data, &backup]);
        let mut making = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        comes_true("the backup has begun", || {
            let names = disk.names("");
            let made = names.iter().find(|name| name.starts_with("backup.new-"));
            made.is_some_and(|made| disk.names(made).len() >= files)
        });
        broker.signal("KILL");
        drop(broker);
        broker = start_by(&disk.wrapper(), &settings);
        let is_made = making.wait().expect("it ends").success();
        let what = format!("{files} files");
        let restored = judge(&disk, count, &what);
        assert_eq!(restored, if is_made { &["backup"][..] } else { &[] }, "{what}");
        clear(&disk, "backup");
    }
    expect_kept(&broker, 0..count);
}
