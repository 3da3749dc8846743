//! Tests the log on a disk that loses, tears and flips unsynced data, and fails.
//!
//! `TAUTWIRE_CRASH_SEEDS=100000 cargo test --release -p tautwire-journal --test crash` runs more seeds.

mod lost;
mod mutants;
mod rot;
mod world;

use tautwire_journal::disk::{Disk, Faults};
use tautwire_journal::{LogError, SEGMENT_MIN_BYTES};
use world::CrashTest;

const SEEDS: u64 = 2_000;
/// The number of openings per seed.
const OPENINGS: usize = 5;
const STEPS_MAX: u64 = 60;

fn seeds(by_default: u64) -> std::ops::Range<u64> {
    let given = std::env::var("TAUTWIRE_CRASH_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    0..given.unwrap_or(by_default)
}

#[test]
fn exactly_the_durable_frames_survive_a_crash() {
    let (mut failures, mut recycled, mut rolled) = (0, 0, 0);
    let seeds = seeds(SEEDS);
    for seed in seeds.clone() {
        let mut world = CrashTest::new(seed);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            run_with_crashes(&mut world, &mut failures);
            let names = world.disk.list().expect("no faults");
            recycled += usize::from(names.iter().any(|name| name.starts_with("spare-")));
            rolled += names.iter().filter(|name| name.starts_with("segment-")).count();
        }));
        assert!(result.is_ok(), "seed {seed}");
    }
    // The runs were not too easy.
    let lives = seeds.end as usize;
    assert!(failures > lives / 2 && recycled > lives / 10 && rolled > lives, "{failures} {recycled} {rolled}");
}

fn run_with_crashes(world: &mut CrashTest, failures: &mut usize) {
    for _ in 0..OPENINGS {
        run_workload(world, failures);
    }
}

/// Opens the log, works until something fails, and crashes.
fn run_workload(world: &mut CrashTest, failures: &mut usize) {
    let fails = world.random.one_in(3);
    if fails {
        world.inject_fault();
    }
    match world.open_and_look() {
        Ok(()) => {
            let names = world.disk.list().unwrap_or_default();
            assert!(!names.iter().any(|name| name.ends_with(".new")), "unfinished files remain: {names:?}");
            if world.random.one_in(2) {
                world.inject_fault();
            }
            for _ in 0..world.random.below(STEPS_MAX) {
                if let Err(error) = world.step() {
                    *failures += 1;
                    fails_for_ever(world, &error);
                    break;
                }
            }
        }
        // An unreadable disk looks like damage; the log is unchanged.
        Err(error) => assert!(fails && matches!(error, LogError::Disk(_) | LogError::Damaged(_)), "{error}"),
    }
    world.log = None;
    if world.random.one_in(3) { world.disk.end_process() } else { world.disk.crash() }
}

/// Names that a failed opening has left may be lost in the next crash, each one independently.
#[test]
fn a_failed_open_can_be_repeated() {
    for seed in 0..16 * 16 * 16 {
        let mut world = CrashTest::new(seed);
        let fails_at = Some(1 + seed % 16);
        world.disk.set_faults(Faults { fails_at, ..Faults::default() });
        let _ = world.open_and_look();
        world.log = None;
        world.disk.end_process();
        let power_lost_at = Some(1 + seed / 16 % 16);
        world.disk.set_faults(Faults { power_lost_at, ..Faults::default() });
        let _ = world.open_and_look();
        world.log = None;
        world.disk.crash();
        world.open_and_look().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

fn fails_for_ever(world: &mut CrashTest, error: &LogError) {
    world.disk.set_faults(Faults::default());
    let log = world.log.as_mut().expect("is open");
    assert_eq!(log.failure(), Some(error));
    assert_eq!(log.commit().as_ref(), Err(error));
    assert_eq!(log.prepare(0).as_ref(), Err(error));
    assert_eq!(log.release(world.covered).as_ref(), Err(error));
}

#[test]
fn a_log_that_releases_segments_uses_no_more_space() {
    let mut world = CrashTest::new(1);
    world.open_and_look().expect("no faults");
    for _ in 0..2_000 {
        world.append().expect("no faults");
        if world.random.one_in(4) {
            world.commit().expect("no faults");
            world.release().expect("no faults");
            world.log.as_mut().expect("is open").prepare(0).expect("no faults");
        }
    }
    let files = world.disk.list().expect("no faults").len() as u64;
    assert!(files < 20, "{files} files of {SEGMENT_MIN_BYTES} bytes");
}

#[test]
fn pending_frames_become_durable_with_one_sync() {
    let mut world = CrashTest::new(2);
    world.open_and_look().expect("no faults");
    let log = world.log.as_mut().expect("is open");
    log.prepare(0).expect("no faults");
    let before = world.disk.syncs();
    for turn in 1..=100 {
        for shard in 0..4 {
            log.append(tautwire_journal::ShardNumber(shard), tautwire_journal::TurnNumber(turn), b"x").expect("fits");
        }
    }
    log.commit().expect("no faults");
    assert_eq!(world.disk.syncs() - before, 1);
}
