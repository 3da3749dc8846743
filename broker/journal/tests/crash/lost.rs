//! Damages a directory while no process uses it. All acknowledged data must then be there, or the start is refused, or a warning says that
//! the end may be missing. The oracle is what the test has appended and got acknowledged, never what the log believes.
//!
//! `TAUTWIRE_CRASH_SEEDS=10000 cargo test -p tautwire-journal --test crash lost` runs more seeds.

use std::ops::Range;

use tautwire_journal::disk::{Disk, DiskFile};
use tautwire_journal::{BLOCK_BYTES, LogError, OnDamage};

use crate::seeds;
use crate::world::CrashTest;

const SEEDS: u64 = 1_000;
const BLOCK: u64 = BLOCK_BYTES as u64;
/// The range of a segment's seal.
const SEAL: Range<u64> = BLOCK..2 * BLOCK;

/// The damage of a file.
#[derive(Debug, PartialEq)]
enum Harm {
    Flipped(u64),
    Cleared(Range<u64>),
    Cut(u64),
    Removed,
}

impl Harm {
    /// Whether it may have destroyed the seal of the segment.
    fn takes_seal(&self) -> bool {
        match self {
            Harm::Flipped(at) => SEAL.contains(at),
            Harm::Cleared(range) => range.start < SEAL.end && SEAL.start < range.end,
            // The file itself reveals these.
            Harm::Cut(_) | Harm::Removed => false,
        }
    }
}

/// The outcome for a directory.
#[derive(Debug, PartialEq)]
pub(crate) enum Outcome {
    Whole,
    Refused,
    /// The last group was lost, and a warning says so.
    LostWithWarning,
}

/// Creates a log with several runs, the last of which was stopped or killed.
fn create_log_directory(world: &mut CrashTest) -> bool {
    let lives = 1 + world.random.below(3);
    for life in 1..=lives {
        world.open_and_look().expect("no faults");
        for _ in 0..10 + world.random.below(60) {
            world.step().expect("no faults");
        }
        if life < lives && world.random.one_in(2) {
            world.log = None;
            world.disk.crash();
        }
    }
    let is_stopped = world.random.one_in(2);
    match world.log.take() {
        Some(log) if is_stopped => {
            log.close().expect("no faults");
            world.durable = world.history.len();
            world.sealed = world.durable;
        }
        _ => {}
    }
    if world.random.one_in(2) {
        world.disk.crash()
    } else {
        world.disk.end_process()
    }
    is_stopped
}

fn harm(world: &mut CrashTest) -> (String, Harm) {
    let names = world.disk.list().expect("no faults");
    let is_state = |name: &&String| name.starts_with("segment-") || *name == "VERSION";
    let names: Vec<&String> = names.iter().filter(is_state).collect();
    let name = names[world.random.below(names.len() as u64) as usize].clone();
    let bytes = world.disk.open(&name).and_then(|file| file.size_bytes()).expect("exists");
    let at = world.random.below(bytes);
    let harm = match world.random.below(8) {
        0..=3 => Harm::Flipped(at),
        4 | 5 => {
            let start = at / BLOCK * BLOCK;
            Harm::Cleared(start..(start + BLOCK * (1 + world.random.below(4))).min(bytes))
        }
        // An empty directory counts as new.
        7 if names.len() > 1 => Harm::Removed,
        _ => Harm::Cut(at),
    };
    match &harm {
        Harm::Flipped(at) => world.disk.flip_bit(&name, *at, world.random.below(8) as u8),
        Harm::Cleared(range) => world.disk.clear(&name, range.clone(), false),
        Harm::Cut(at) => world.disk.clear(&name, *at..bytes, true),
        Harm::Removed => world.disk.remove(&name).expect("exists"),
    }
    world.disk.sync_directory().expect("no faults");
    (name, harm)
}

pub(crate) fn run_with_data_loss(seed: u64) -> Outcome {
    let mut world = CrashTest::new(seed);
    let is_stopped = create_log_directory(&mut world);
    // The last group may be complete although it was not acknowledged.
    let harms: Vec<_> = (0..1 + world.random.below(3)).map(|_| harm(&mut world)).collect();
    let story = format!("seed {seed}, stopped {is_stopped}: {harms:?}");
    let (read, recovery) = match world.open(OnDamage::Refuse) {
        Ok(opened) => opened,
        Err(LogError::Damaged(_)) => {
            continue_without(&mut world, &story);
            return Outcome::Refused;
        }
        Err(LogError::VersionDamaged | LogError::VersionMissing) => return Outcome::Refused,
        // Flipped digits may change the version.
        Err(LogError::UnsupportedVersion { .. }) => return Outcome::Refused,
        Err(error) => panic!("{story}: {error}"),
    };
    let is_as_written = read.iter().map(|(_, read)| read).eq(world.history.iter().take(read.len()));
    assert!(is_as_written, "{story}: something was read that was never written");
    if read.len() >= world.durable {
        return Outcome::Whole;
    }
    let seal_is_lost = harms.iter().any(|(_, harm)| harm.takes_seal());
    let end = &recovery.end;
    assert!(
        (read.len() >= world.sealed || seal_is_lost) && !end.closed,
        "{story}: {} of {} acknowledged frames exist, of which {} were sealed: {end:?}",
        read.len(),
        world.durable,
        world.sealed
    );
    Outcome::LostWithWarning
}

/// The damage is reported, and the rest is what was written, in order.
fn continue_without(world: &mut CrashTest, story: &str) {
    let opened = world.open(OnDamage::Skip);
    let (read, recovery) = opened.unwrap_or_else(|error| panic!("{story}: {error}"));
    assert!(!recovery.damage.is_empty(), "{story}: it was refused for nothing");
    let mut history = world.history.iter();
    let is_left = read.iter().all(|(_, read)| history.any(|written| written == read));
    assert!(is_left, "{story}: frames were read that were never written, or in another order");
}

#[test]
fn acknowledged_frames_survive_or_their_loss_is_reported() {
    let (mut whole, mut refused, mut warned) = (0, 0, 0);
    let seeds = seeds(SEEDS);
    for seed in seeds.clone() {
        match run_with_data_loss(seed) {
            Outcome::Whole => whole += 1,
            Outcome::Refused => refused += 1,
            Outcome::LostWithWarning => warned += 1,
        }
    }
    println!("{whole} whole, {refused} refused, {warned} with a warning");
    let all = seeds.end;
    assert!(whole > all / 20 && refused > all / 4 && warned > 0, "{whole} {refused} {warned}: the runs were too easy");
}
