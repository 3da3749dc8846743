//! The log of one run of the broker, on a disk that keeps only synced data.

use std::cell::RefCell;
use std::rc::Rc;

use tautwire_durable::{CompactError, FrameWriter, NoSpillStore, Recovery, SessionNumbers, SnapshotHead, compact};
use tautwire_journal::disk::FaultyDisk;
use tautwire_journal::{
    AppendError, Epoch, Log, LogId, Position, Reader, SEGMENT_MIN_BYTES, Settings, ShardNumber, SnapshotReader, Step,
    TurnNumber,
};
use tautwire_message::MessageId;
use tautwire_session::{Journal, LogPosition, LogState, NoClusterBox, Record, Replay, SessionNumber};

pub(crate) const SHARDS_MAX: usize = 3;
/// With this many frames that are not durable, the log accepts no more.
const PENDING_FRAMES_MAX: u64 = 20;

/// The log that all shards write to.
pub(crate) struct Life {
    log: Log<FaultyDisk>,
    /// By shard: frames accepted by the log, and those that are durable.
    taken: [u64; SHARDS_MAX],
    durable: [u64; SHARDS_MAX],
    has_failed: bool,
    /// Whether everything is durable as soon as it is written.
    pub(crate) is_prompt: bool,
}

impl Life {
    /// Makes accepted frames durable, unless the disk fails.
    pub(crate) fn commit(&mut self) {
        match self.log.commit() {
            Ok(_) => self.durable = self.taken,
            Err(_) => self.has_failed = true,
        }
    }

    /// Writes a snapshot of durable state, and truncates the log that it covers. It may fail if the power is lost meanwhile.
    pub(crate) fn compact(&mut self, disk: &FaultyDisk, power_fails: bool) {
        let (log, covered) = (self.log.id(), self.log.durable());
        let head = SnapshotHead { log, epoch: epoch(u64::MAX), covered, now_ms: 0 };
        match compact(disk, head, &mut NoSpillStore, || true) {
            Ok(_) => self.has_failed |= self.log.release(covered).is_err(),
            Err(CompactError::Log(_)) if power_fails => {}
            Err(error) => panic!("what has been written cannot be read: {error}"),
        }
    }

    /// Whether a disk has failed: only a restart helps.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed
    }
}

fn epoch(number: u64) -> Epoch {
    Epoch::new(number).unwrap_or_else(|| unreachable!("it is not 0"))
}

/// The journal of one shard.
pub(crate) struct DiskJournal {
    life: Rc<RefCell<Life>>,
    shard: usize,
    numbers: SessionNumbers,
    frame: FrameWriter,
    ended: u64,
}

impl DiskJournal {
    pub(crate) fn new(life: &Rc<RefCell<Life>>, shard: usize, last: SessionNumber) -> DiskJournal {
        let numbers = SessionNumbers::above(last, shard, SHARDS_MAX);
        DiskJournal { life: life.clone(), shard, numbers, frame: FrameWriter::default(), ended: 0 }
    }
}

impl Journal for DiskJournal {
    type ClusterBox<T: Send> = NoClusterBox<T>;

    const PERSISTENT: bool = true;

    fn next_session(&mut self) -> SessionNumber {
        self.numbers.next_number()
    }

    fn record(&mut self, record: Record<'_>) -> LogPosition {
        self.frame.add(&record);
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
        while !life.has_failed {
            match life.log.append(shard, turn, &body) {
                Ok(()) => {
                    life.taken[self.shard] = self.ended;
                    if life.is_prompt {
                        life.commit();
                    }
                    return;
                }
                Err(AppendError::BatchFull) => life.commit(),
                Err(_) => life.has_failed = true,
            }
        }
    }

    fn mark_forwarded(&mut self, message: MessageId) {
        self.frame.mark_forwarded(message);
    }

    fn has_submitted_all(&self) -> bool {
        true
    }

    fn durable(&self) -> LogPosition {
        LogPosition(self.life.borrow().durable[self.shard])
    }

    fn is_lagging(&self) -> bool {
        let life = self.life.borrow();
        life.taken.iter().sum::<u64>() - life.durable.iter().sum::<u64>() > PENDING_FRAMES_MAX
    }

    fn state(&self) -> LogState {
        if self.life.borrow().has_failed { LogState::Failed } else { LogState::Open }
    }
}

/// Opens the log; returns its content.
pub(crate) fn open(disk: &FaultyDisk, number: u64, now_ms: u64) -> (Rc<RefCell<Life>>, Replay) {
    let settings = Settings { segment_bytes: SEGMENT_MIN_BYTES, ..Settings::default() };
    let mut recovery = Recovery::new(None);
    let covered = read_snapshot(disk, &mut recovery);
    let opened = Log::open(disk, settings, covered, epoch(number), LogId(7), now_ms, |frame| {
        recovery.frame(frame.body).map_err(|error| error.to_string().into())
    });
    let (log, found) = opened.unwrap_or_else(|error| panic!("the log cannot be opened: {error}"));
    assert_eq!(found.damage, [], "a crash is not damage");
    let (taken, durable) = ([0; SHARDS_MAX], [0; SHARDS_MAX]);
    let life = Life { log, taken, durable, has_failed: false, is_prompt: false };
    (Rc::new(RefCell::new(life)), recovery.finish())
}

/// The state on the disk while it is written: the newest snapshot, and the log after it.
pub(crate) fn replay(disk: &FaultyDisk) -> Replay {
    let mut recovery = Recovery::new(None);
    let covered = read_snapshot(disk, &mut recovery);
    let mut reader = Reader::open(disk, covered).unwrap_or_else(|error| panic!("the log cannot be read: {error}"));
    while let Some(step) = reader.step().unwrap_or_else(|error| panic!("the disk reads: {error}")) {
        match step {
            Step::Frame(frame) => recovery.frame(frame.body).unwrap_or_else(|error| panic!("{error}")),
            Step::Damage(damage) => panic!("{damage}"),
        }
    }
    recovery.finish()
}

/// Reads the newest snapshot; returns the position that it covers.
fn read_snapshot(disk: &FaultyDisk, recovery: &mut Recovery<'_>) -> Position {
    let newest = SnapshotReader::newest(disk).unwrap_or_else(|error| panic!("the disk reads: {error}"));
    let Some(mut snapshot) = newest else { return Position::START };
    while let Some(frame) = snapshot.step().unwrap_or_else(|error| panic!("the disk reads: {error}")) {
        recovery.snapshot_frame(frame.body).unwrap_or_else(|error| panic!("{error}"));
    }
    snapshot.covered()
}
