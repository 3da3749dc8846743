//! The log on a disk that keeps only what was synced: after a crash, the broker is what its frames say.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use tautwire_durable::mutant::{Mutant, mutate};
use tautwire_durable::{CompactError, FrameWriter, NoColdStore, Recovery, SessionNumbers, SnapshotHead, compact};
use tautwire_journal::disk::{Faults, LyingDisk};
use tautwire_journal::{
    AppendError, Epoch, Log, LogId, Position, Reader, SEGMENT_MIN_BYTES, Settings, ShardNumber, SnapshotReader, Step,
    TurnNumber,
};
use tautwire_message::MessageId;
use tautwire_session::{Journal, LogPosition, Record, Replay, SessionNumber};

use crate::journal::{Kept, Life, TIMER_TICK_MS, check_nothing_is_overdue, compare, roomy};
use crate::random_clients::{Named, seeds};
use crate::support::{Choices, Random};
use crate::world::{Plan, RETAINED, World};

const SHARDS_MAX: usize = 3;

/// The log of one life of the broker.
struct Running {
    log: Log<LyingDisk>,
    /// By shard: frames taken by the log, and those that are durable.
    taken: [u64; SHARDS_MAX],
    durable: [u64; SHARDS_MAX],
    is_instant: bool,
    /// What was written down, frame by frame, without the disk.
    said: Vec<Vec<Kept>>,
    /// How many of these a snapshot covers that was begun at a position.
    covered: BTreeMap<Position, usize>,
}

impl Running {
    fn commit(&mut self) -> bool {
        let is_safe = self.log.commit().is_ok();
        if is_safe {
            self.durable = self.taken;
        }
        is_safe
    }

    /// Makes a snapshot of all that is durable, and lets go of what it covers.
    fn compact(&mut self, disk: &LyingDisk) {
        self.try_to_compact(disk).unwrap_or_else(|error| panic!("{error}"));
    }

    fn try_to_compact(&mut self, disk: &LyingDisk) -> Result<(), CompactError> {
        let (log, until) = (self.log.id(), self.log.durable());
        let epoch = Epoch::new(9).expect("it is not 0");
        self.covered.insert(until, self.durable.iter().sum::<u64>() as usize);
        let head = SnapshotHead { log, epoch, covered: until, now_ms: 0 };
        assert_ne!(compact(disk, head, &mut NoColdStore, || true)?, None);
        Ok(self.log.release(until)?)
    }
}

/// The journal of one shard.
struct DiskJournal {
    life: Rc<RefCell<Running>>,
    shard: usize,
    numbers: SessionNumbers,
    frame: FrameWriter,
    said: Vec<Kept>,
    ended: u64,
}

impl Journal for DiskJournal {
    const KEEPS: bool = true;

    fn next_session(&mut self) -> SessionNumber {
        self.numbers.next_number()
    }

    fn record(&mut self, record: Record<'_>) -> LogPosition {
        self.frame.add(&record);
        self.said.push(Kept::of(&record));
        LogPosition(self.ended + 1)
    }

    fn end_frame(&mut self) {
        if self.frame.is_empty() {
            return;
        }
        self.ended += 1;
        let body = self.frame.take(Vec::new());
        let (shard, turn) = (ShardNumber(self.shard as u16), TurnNumber(self.ended));
        let mut life = self.life.borrow_mut();
        while let Err(error) = life.log.append(shard, turn, &body) {
            assert_eq!(error, AppendError::GroupFull);
            assert!(life.commit(), "the disk has power");
        }
        life.taken[self.shard] = self.ended;
        life.said.push(std::mem::take(&mut self.said));
        if life.is_instant {
            assert!(life.commit(), "the disk has power");
        }
    }

    fn know(&mut self, message: MessageId) {
        self.frame.know(message);
    }

    fn has_posted_all(&self) -> bool {
        true
    }

    fn durable(&self) -> LogPosition {
        LogPosition(self.life.borrow().durable[self.shard])
    }

    fn is_behind(&self) -> bool {
        let life = self.life.borrow();
        life.taken.iter().sum::<u64>() - life.durable.iter().sum::<u64>() > 40
    }
}

/// Opens the log; gives what is in it.
fn open(disk: &LyingDisk, random: &mut Random, now_ms: u64) -> (Rc<RefCell<Running>>, Replay) {
    let settings = Settings { segment_bytes: SEGMENT_MIN_BYTES, ..Settings::default() };
    let epoch = Epoch::new(1 + random.below(1 << 40) as u64).expect("it is not 0");
    let mut recovery = Recovery::new(None);
    let covered = read_snapshot(disk, &mut recovery);
    let opened = Log::open(disk, settings, covered, epoch, LogId(7), now_ms, |frame| {
        recovery.frame(frame.body).map_err(|error| error.to_string().into())
    });
    let (log, found) = opened.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(found.damage, []);
    let (taken, durable) = ([0; SHARDS_MAX], [0; SHARDS_MAX]);
    let running = Running { log, taken, durable, is_instant: false, said: Vec::new(), covered: BTreeMap::new() };
    (Rc::new(RefCell::new(running)), recovery.finish())
}

/// What is on the disk while it is written: the newest snapshot, and the log behind it.
fn replay(disk: &LyingDisk) -> Replay {
    let mut recovery = Recovery::new(None);
    let covered = read_snapshot(disk, &mut recovery);
    let mut reader = Reader::open(disk, covered).expect("the log is there");
    while let Some(step) = reader.step().expect("the disk reads") {
        match step {
            Step::Frame(frame) => recovery.frame(frame.body).unwrap_or_else(|error| panic!("{error}")),
            Step::Damage(damage) => panic!("{damage:?}"),
        }
    }
    recovery.finish()
}

/// Takes the newest snapshot; gives what it covers.
fn read_snapshot(disk: &LyingDisk, recovery: &mut Recovery) -> Position {
    let Some(mut snapshot) = SnapshotReader::newest(disk).expect("the disk reads") else {
        return Position::START;
    };
    while let Some(frame) = snapshot.step().expect("the disk reads") {
        recovery.snapshot_frame(frame.body).unwrap_or_else(|error| panic!("{error}"));
    }
    snapshot.covered()
}

/// A state as the records that lead to it.
fn described(replay: &Replay) -> Vec<Kept> {
    let mut records = Vec::new();
    replay.describe(|_| None, |record| records.push(Kept::of(record))).expect("all is in memory");
    records
}

fn journal(life: &Rc<RefCell<Running>>, shard: usize, last: SessionNumber) -> DiskJournal {
    let numbers = SessionNumbers::above(last, shard, SHARDS_MAX);
    DiskJournal { life: life.clone(), shard, numbers, frame: FrameWriter::default(), said: Vec::new(), ended: 0 }
}

#[test]
fn a_broker_whose_machine_loses_power_goes_on_with_what_was_synced() {
    for seed in seeds() {
        let _named = Named(seed);
        live(seed);
    }
}

/// Until the power is gone, and on with what was synced.
fn live(seed: u64) {
    let mut random = Random::new(seed ^ 0xD15C);
    let disk = LyingDisk::new(seed);
    let (mut life, empty) = open(&disk, &mut random, 0);
    let plan =
        Plan { shards: 1 + random.below(SHARDS_MAX), clients: 2 + random.below(5), steps: 600, prompt_clients: true };
    let settings = roomy(&mut random);
    let compacts = random.chance(50);
    let mut world = World::new(seed, plan, settings, |shard| journal(&life, shard, empty.last_session()));
    for _ in 0..600 {
        world.step().unwrap_or_else(|wrong| panic!("{wrong}"));
        if random.chance(10) {
            life.borrow_mut().commit();
            world.broker.wake_all();
        }
        if compacts && random.chance(2) {
            life.borrow_mut().compact(&disk);
        }
    }
    for client in &mut world.clients {
        client.abandon(&world.broker, &mut world.ledger);
    }
    if random.chance(50) {
        let power_lost_at = Some(disk.operations() + random.below(4) as u64);
        disk.set_faults(Faults { power_lost_at, ..Faults::default() });
        life.borrow_mut().commit();
    } else if random.chance(50) {
        // In the middle of a snapshot, which is then not one, or of what follows.
        let power_lost_at = Some(disk.operations() + random.below(30) as u64);
        disk.set_faults(Faults { power_lost_at, ..Faults::default() });
        let _ = life.borrow_mut().try_to_compact(&disk);
    }
    let durable: u64 = life.borrow().durable.iter().sum();
    disk.crash();
    let (next, found) = open(&disk, &mut random, world.broker.now_ms());
    let frames = count_frames(&disk, &life.borrow().covered);
    assert!(frames as u64 >= durable, "{durable} frames were reported durable, {frames} are there");
    assert_eq!(described(&found), described(&said(&life.borrow().said[..frames])));
    life = next;
    if random.chance(50) {
        life.borrow_mut().compact(&disk);
    }
    life.borrow_mut().is_instant = true;
    let last = found.last_session();
    // The number of threads may be another one.
    let shards = 1 + random.below(SHARDS_MAX);
    world.broker.restart(shards, RETAINED, found, |shard| journal(&life, shard, last));
    for ms in [TIMER_TICK_MS, 1_000, 10_000] {
        world.broker.advance(ms);
        world.broker.settle(&mut random);
        check_nothing_is_overdue(&world, replay(&disk));
    }
    compare(&mut world, replay(&disk), Life::Second);
}

/// Whether one of so many seeds shows that what is read back is not what was said.
fn is_found(mutant: Mutant, seeds_max: u64) -> bool {
    mutate(Some(mutant));
    let found_at = (0..seeds_max).find(|seed| catch_unwind(AssertUnwindSafe(|| live(*seed))).is_err());
    mutate(None);
    println!("{mutant:?}: seed {found_at:?}");
    found_at.is_some()
}

#[test]
fn a_snapshot_that_forgets_what_is_between_shards_is_found() {
    assert!(is_found(Mutant::SnapshotForgetsHandovers, 100));
}

#[test]
fn a_snapshot_that_lacks_its_last_frame_is_found() {
    assert!(is_found(Mutant::SnapshotEndsOneFrameEarly, 20));
}

#[test]
fn identifiers_that_are_not_read_back_are_found() {
    assert!(is_found(Mutant::ForgetsTakenIdentifiers, 20));
}

/// What the records lead to that never were on the disk.
fn said(frames: &[Vec<Kept>]) -> Replay {
    let mut replay = Replay::default();
    for kept in frames.iter().flatten() {
        replay.apply(&kept.record()).unwrap_or_else(|error| panic!("{error}"));
    }
    replay
}

/// How many frames there are, with those that the snapshot covers.
fn count_frames(disk: &LyingDisk, counts: &BTreeMap<Position, usize>) -> usize {
    let covered = SnapshotReader::newest(disk).expect("the disk reads").map_or(Position::START, |read| read.covered());
    let mut reader = Reader::open(disk, covered).expect("the log is there");
    let mut frames = counts.get(&covered).copied().unwrap_or_default();
    while let Some(step) = reader.step().expect("the disk reads") {
        frames += usize::from(matches!(step, Step::Frame(_)));
    }
    frames
}
