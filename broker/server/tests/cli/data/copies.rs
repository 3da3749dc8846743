//! `data backup`, `restore` and `compact`.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::data::world::{MESSAGES, World, files, receive, topics};
use crate::process::{Broker, run};

fn names(path: &str) -> Vec<String> {
    files(Path::new(path)).into_keys().collect()
}

#[test]
fn a_backup_under_load_has_all_acknowledged_messages() {
    let world = World::empty();
    let broker = world.serve(&[]);
    broker.subscribe_to_end(&["-i", "first", "-c", "-q", "1", "t/#", "-E"]).expect(0);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut flood = broker.start_publish(&["-l", "-r", "-t", "flood", "-q", "1"]);
        let stop = &stop;
        let flooding = scope.spawn(move || {
            let line = format!("{}\n", "x".repeat(3_000));
            while !stop.load(Ordering::Relaxed) {
                flood.give(line.as_bytes());
            }
            flood.end()
        });
        let flooded = broker.subscribe_to_end(&["flood", "-C", "50", "-W", "20"]).expect(0);
        assert_eq!(flooded.text().lines().count(), 50);
        for round in 0..5u64 {
            let numbers = round * 10..(round + 1) * 10;
            for topic in topics(numbers) {
                broker.publish(&[&topic, "hi", "-q", "1"]).expect(0);
            }
            let backup = world.beside(&format!("backup-{round}"));
            let ended = world.data("backup", &[&backup]).expect(0);
            assert!(ended.text().starts_with(&format!("{backup}: ")), "{ended:?}");
            assert!(!flooding.is_finished(), "there was no load");
            assert!(!names(&backup).iter().any(|name| name == "LOCK" || name.starts_with("spare-")));
        }
        stop.store(true, Ordering::Relaxed);
        flooding.join().expect("is well").expect(0);
    });
    for round in 0..5u64 {
        let backup = world.beside(&format!("backup-{round}"));
        run(&["data", "check", "--data", &backup]).expect(0);
        let restored = Broker::with(&[&format!("data.path={backup}")]);
        let count = (round + 1) * 10;
        assert_eq!(receive(&restored, "first", count as usize), topics(0..count));
    }
    assert_eq!(receive(&broker, "first", 50), topics(0..50), "the broker goes on");
}

#[test]
fn a_backup_needs_a_new_directory() {
    let world = World::closed(6_000);
    let backup = world.beside("backup");
    world.data("backup", &[&backup]).expect(0);
    let stderr_text = world.data("backup", &[&backup]).expect(1).stderr;
    assert!(stderr_text.contains("not empty; use a new directory"), "{stderr_text}");
    let empty = world.beside("empty");
    fs::create_dir(&empty).expect("can be made");
    world.data("backup", &[&empty]).expect(0);
    assert_eq!(files(Path::new(&empty)), files(Path::new(&backup)));
    assert_eq!(
        fs::read_dir(world.path().parent().expect("has one")).expect("is there").count(),
        3,
        "nothing else is left"
    );
}

#[test]
fn a_damaged_directory_is_neither_copied_compacted_nor_restored() {
    let world = World::closed(6_000);
    let good = world.beside("good");
    world.data("backup", &[&good]).expect(0);
    world.flip_message(17);
    let before = world.files();
    let backup = world.beside("backup");
    let stderr_text = world.data("backup", &[&backup]).expect(2).stderr;
    assert!(
        stderr_text.contains("segment 3, bytes ") && stderr_text.contains("tautwire data check --data"),
        "{stderr_text}"
    );
    let left = fs::read_dir(world.path().parent().expect("has one")).expect("is there").count();
    assert_eq!(left, 2, "something is left beside the directory and the good backup");
    let stderr_text = world.data("compact", &[]).expect(2).stderr;
    assert!(stderr_text.contains("[journal_damaged]"), "{stderr_text}");
    let after = world.files();
    assert!(after == before, "it was changed");

    let damaged = world.path().display().to_string();
    let target = world.beside("target");
    let stderr_text = run(&["data", "restore", "--data", &target, &damaged]).expect(2).stderr;
    assert!(
        stderr_text.contains("the backup is damaged; nothing was restored") && stderr_text.contains("t/17"),
        "{stderr_text}"
    );
    assert!(!Path::new(&target).exists());

    // A backup replaces the damaged directory.
    let done = world.data("restore", &["--force", &good]).expect(0).text();
    assert!(done.contains("3 sessions and 1 retained message") && done.contains("the old directory is in "), "{done}");
    assert_eq!(receive(&world.serve(&[]), "first", 40), topics(0..MESSAGES));
}

#[test]
fn a_backup_is_restored_to_an_empty_place_or_with_force() {
    let world = World::closed(6_000);
    let (backup, target) = (world.beside("backup"), world.beside("target"));
    world.data("backup", &[&backup]).expect(0);
    let restore = |options: &[&str]| run(&[&["data", "restore", "--data", &target], options, &[&backup]].concat());
    restore(&[]).expect(0);
    assert_eq!(files(Path::new(&target)), files(Path::new(&backup)));

    let before = files(Path::new(&target));
    let stderr_text = restore(&[]).expect(1).stderr;
    assert!(stderr_text.contains("not empty; --force replaces it"), "{stderr_text}");
    assert_eq!(files(Path::new(&target)), before);
    let replaced = restore(&["--force"]).expect(0).text();
    let (_, replaced) = replaced.split_once("the old directory is in ").expect("is told");
    assert!(names(replaced.trim()).contains(&"VERSION".to_owned()));

    let broker = Broker::with(&[&format!("data.path={target}")]);
    for options in [&[][..], &["--force"]] {
        let stderr_text = restore(options).expect(1).stderr;
        assert!(stderr_text.contains("a broker is running; stop it before its state is replaced"), "{stderr_text}");
    }
    let from_running = run(&["data", "restore", "--data", &world.beside("other"), &target]).expect(1).stderr;
    assert!(from_running.contains("a broker is using it; make a backup of it first"), "{from_running}");
    assert_eq!(receive(&broker, "first", 40), topics(0..MESSAGES));

    // Other directories are left unchanged.
    let other = world.beside("other");
    fs::create_dir(&other).and_then(|()| fs::write(format!("{other}/letter"), "dear")).expect("can be made");
    let stderr_text = run(&["data", "restore", "--data", &other, "--force", &backup]).expect(1).stderr;
    assert!(stderr_text.contains("not empty, and not a data directory"), "{stderr_text}");
    assert_eq!(names(&other), ["letter"]);
}

#[test]
fn a_backup_includes_bans() {
    const BANS: &str = "{\"bans\":[{\"user\":\"eve\",\"until_unix_s\":null,\"why\":\"a test\"}]}\n";
    let world = World::closed(6_000);
    let (backup, target) = (world.beside("backup"), world.beside("target"));
    fs::write(world.path().join("bans.json"), BANS).expect("written");
    world.data("backup", &[&backup]).expect(0);
    run(&["data", "restore", "--data", &target, &backup]).expect(0);
    assert_eq!(fs::read_to_string(format!("{target}/bans.json")).expect("is there"), BANS);
    // The bans of the backup replace the current ones.
    fs::write(format!("{target}/bans.json"), "{\"bans\":[]}\n").expect("written");
    run(&["data", "restore", "--data", &target, "--force", &backup]).expect(0);
    assert_eq!(fs::read_to_string(format!("{target}/bans.json")).expect("is there"), BANS);
}

#[test]
fn compacting_preserves_the_state_and_truncates_the_log() {
    let world = World::closed(6_000);
    let segments = |world: &World| world.files().into_keys().filter(|name| name.starts_with("segment-")).count();
    assert!(segments(&world) > 4);
    let done = world.data("compact", &["--json"]).expect(0).text();
    assert!(done.starts_with("{\"segment_bytes_before\":") && done.contains("\"snapshot_bytes_before\":0,"), "{done}");
    assert_eq!(segments(&world), 1);
    let check = world.data("check", &[]).expect(0).text();
    assert!(
        check.contains("state      3 sessions and 1 retained message") && check.contains("log        0 frames"),
        "{check}"
    );
    let again = world.data("compact", &[]).expect(0).text();
    assert!(again.contains("bytes in 1 segments, "), "{again}");

    let broker = world.serve(&[]);
    let stderr_text = world.data("compact", &[]).expect(1).stderr;
    assert!(stderr_text.contains("a broker is running; stop it"), "{stderr_text}");
    assert_eq!(receive(&broker, "first", 40), topics(0..MESSAGES));
}
