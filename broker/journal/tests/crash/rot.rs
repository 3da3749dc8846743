//! Flips durable bytes of a log.

use tautwire_journal::disk::Faults;
use tautwire_journal::{DamageKind, LogError, OnDamage, Position, SEGMENT_MIN_BYTES};

use crate::seeds;
use crate::world::{CrashTest, Written};

const SEEDS: u64 = 300;

/// Returns a cleanly closed log of several segments, as it is read.
fn closed_log(seed: u64) -> (CrashTest, Vec<(Position, Written)>) {
    let mut world = CrashTest::new(seed);
    for _ in 0..2 {
        world.open_and_look().expect("no faults");
        for _ in 0..40 {
            world.append().expect("no faults");
            if world.random.one_in(3) {
                world.commit().expect("no faults");
            }
        }
        world.log.take().expect("is open").close().expect("no faults");
        world.durable = world.history.len();
    }
    world.disk.crash();
    let (read, recovery) = world.open(OnDamage::Refuse).expect("intact");
    assert!(recovery.end.closed && recovery.end.torn.is_none());
    assert!(read.iter().map(|(_, written)| written).eq(&world.history));
    world.log = None;
    (world, read)
}

#[test]
fn every_missing_frame_is_reported() {
    for seed in seeds(SEEDS) {
        let (mut world, whole) = closed_log(seed);
        for _ in 0..=world.random.below(3) {
            let segment = 1 + world.random.below(5);
            let offset = world.random.below(SEGMENT_MIN_BYTES);
            world.disk.flip_bit(&format!("segment-{segment:016x}"), offset, seed as u8);
        }
        let refused = world.open(OnDamage::Refuse).map(|_| ());
        world.log = None;
        let opened = world.open(OnDamage::Skip);
        let (read, recovery) = opened.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        // If the first opening succeeded, an epoch began, so the closing frame is no longer at the end.
        assert_eq!(refused.is_err(), !recovery.damage.is_empty(), "seed {seed}");
        assert!(refused.is_ok() || matches!(refused, Err(LogError::Damaged(_))), "seed {seed}");
        let mut read = read.into_iter().peekable();
        for frame in &whole {
            if read.next_if_eq(frame).is_some() {
                continue;
            }
            let position = frame.0;
            let is_in = |damage: &tautwire_journal::Damage| {
                damage.after <= position && damage.before.is_none_or(|before| position < before)
            };
            let is_reported = recovery.damage.iter().any(is_in);
            let is_behind_end = position > recovery.end.last && !recovery.end.closed;
            assert!(is_reported || is_behind_end, "seed {seed}: position {position} is missing: {recovery:?}");
        }
        assert_eq!(read.next(), None, "seed {seed}: a frame that was never written");
    }
}

#[test]
fn unreadable_data_is_reported() {
    for seed in seeds(100) {
        let (mut world, whole) = closed_log(seed);
        let (position, _) = whole[whole.len() / 2];
        let name = format!("segment-{:016x}", 1 + position.0 / SEGMENT_MIN_BYTES);
        let offset = position.0 % SEGMENT_MIN_BYTES;
        world.disk.set_faults(Faults { unreadable: Some((name, offset..offset + 1)), ..Faults::default() });
        let (read, recovery) = world.open(OnDamage::Skip).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        if read.len() < whole.len() {
            assert!(recovery.damage.iter().any(|damage| damage.kind == DamageKind::Unreadable), "seed {seed}");
            assert!(recovery.damage.iter().any(|damage| damage.kind == DamageKind::FramesLost), "seed {seed}");
        }
    }
}
