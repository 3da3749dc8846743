//! Deliberate faults are found.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tautwire_journal::disk::Faults;
use tautwire_journal::mutant::{Mutant, mutate};

use crate::lost::run_with_data_loss;
use crate::run_with_crashes;
use crate::world::CrashTest;

/// Whether a log with this fault loses data, or has unexpected data, for any of `seeds_max` seeds.
fn is_found(mutant: Mutant, seeds_max: u64, run_workload: impl Fn(&mut CrashTest)) -> bool {
    mutate(Some(mutant));
    let fails = |seed| catch_unwind(AssertUnwindSafe(|| run_workload(&mut CrashTest::new(seed)))).is_err();
    let is_found = (0..seeds_max).any(fails);
    mutate(None);
    is_found
}

fn run_workload(world: &mut CrashTest) {
    run_with_crashes(world, &mut 0);
}

/// The first group of a log is torn; the next opening makes its segment a spare, and does nothing else; the one after that reuses the spare
/// at the same place, and writes one frame.
fn recycle_segment(world: &mut CrashTest) {
    world.open_and_look().expect("no faults");
    let first_bytes = 4_000 + world.random.below(4_000) as usize;
    for bytes in [first_bytes, 10] {
        world.append_body(vec![1; bytes]).expect("no faults");
    }
    lose_power_at(world, 1);
    world.commit().expect_err("the power has failed");
    world.log = None;
    world.disk.crash();
    let at = 1 + world.random.below(30);
    lose_power_at(world, at);
    let _ = world.open_and_look();
    world.log = None;
    world.disk.end_process();
    if world.open_and_look().is_ok() && world.durable == 0 {
        world.append_body(vec![2; 10]).expect("no faults");
        world.commit().expect("no faults");
        world.log = None;
        world.disk.crash();
        world.open_and_look().expect("no faults");
    }
}

fn lose_power_at(world: &CrashTest, operation: u64) {
    let power_lost_at = Some(world.disk.operations() + operation);
    world.disk.set_faults(Faults { power_lost_at, ..Faults::default() });
}

/// A power failure loses what was reported durable.
#[test]
fn a_missing_sync_is_found() {
    assert!(is_found(Mutant::SkipsSync, 20, run_workload));
}

#[test]
fn a_recycled_segment_has_no_old_frames() {
    (0..300).for_each(|seed| recycle_segment(&mut CrashTest::new(seed)));
}

/// After the written frame there is another one, of the torn group.
#[test]
fn a_stale_frame_of_another_epoch_is_found() {
    assert!(is_found(Mutant::AcceptsOtherEpochs, 300, recycle_segment));
}

/// Frames after a hole in the last group of a run reappear two runs later.
#[test]
fn a_reappearing_tail_is_found() {
    assert!(is_found(Mutant::AcceptsTruncatedFrames, 200, run_workload));
}

/// The first frame after the snapshot is missing.
#[test]
fn a_reader_that_starts_one_frame_late_is_found() {
    assert!(is_found(Mutant::StartsOneFrameLate, 20, run_workload));
}

/// A file is missing that has durable frames.
#[test]
fn a_segment_that_is_released_too_early_is_found() {
    assert!(is_found(Mutant::ReleasesUncoveredFrames, 200, run_workload));
}

fn is_found_by_losses(mutant: Mutant) -> bool {
    mutate(Some(mutant));
    let is_found = (0..1_000).any(|seed| catch_unwind(|| run_with_data_loss(seed)).is_err());
    mutate(None);
    is_found
}

/// Data that was acknowledged long ago, at the end of the log, is damaged.
#[test]
fn a_reader_that_ignores_seals_is_found() {
    assert!(is_found_by_losses(Mutant::IgnoresSeals));
}

/// The last file is missing.
#[test]
fn a_log_without_its_segment_count_is_found() {
    assert!(is_found_by_losses(Mutant::OmitsSegmentCount));
}

/// The first file is missing, and later ones do not reveal it.
#[test]
fn a_log_that_accepts_any_first_segment_is_found() {
    assert!(is_found_by_losses(Mutant::AcceptsAnyFirstSegment));
}
