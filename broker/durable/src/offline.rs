//! A log made as short as its state is, or begun with one, while no broker has it.

use tautwire_journal::{
    DirectoryUsage, Disk, Epoch, Log, LogError, LogId, Position, Settings, ShardNumber, TornWrite, TurnNumber,
};
use tautwire_session::{Record, Replay};

use crate::frame_writer::FrameWriter;
use crate::inspection::read_snapshot;
use crate::recovery::Recovery;
use crate::snapshot::{SnapshotHead, write_snapshot};

/// What became of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactReport {
    /// Its files before.
    pub before: DirectoryUsage,
    /// Its files now.
    pub after: DirectoryUsage,
    /// The last frame that the snapshot covers.
    pub covered: Position,
    /// What was begun behind that, is not whole, and was cut off.
    pub torn: Option<TornWrite>,
}

/// Opens the log in `disk`, writes a snapshot of its state, and releases all segments that were there. `epochs` have been drawn at
/// random, the first for the log, the second for the snapshot. `now_ms`: Unix time.
///
/// # Errors
/// [`LogError::Locked`] while a broker has the directory, [`LogError::Damaged`], and others of the journal. The state is what it was
/// then.
pub fn compact_offline<D: Disk>(
    disk: &D,
    settings: Settings,
    epochs: [Epoch; 2],
    now_ms: u64,
) -> Result<CompactReport, LogError> {
    let before = DirectoryUsage::of(disk)?;
    if before == DirectoryUsage::default() {
        return Err(LogError::Empty);
    }
    let [epoch, snapshot_epoch] = epochs;
    let mut recovery = Recovery::new(None);
    let covered = read_snapshot(disk, &mut recovery)?.covered;
    // There is a log, so it has a number.
    let opened = Log::open(disk, settings, covered, epoch, LogId(0), now_ms, |frame| {
        recovery.frame(frame.body).map_err(|error| format!("{error} [{}]", error.code()).into())
    });
    let (mut log, found) = opened?;
    let covered = log.durable();
    let head = SnapshotHead { log: log.id(), epoch: snapshot_epoch, covered, now_ms };
    write_snapshot(&recovery.finish(), disk, head, |_| None, || true)?;
    log.release_previous_epochs()?;
    log.close()?;
    Ok(CompactReport { before, after: DirectoryUsage::of(disk)?, covered, torn: found.end.torn })
}

/// Begins a log in `disk`, where there is none, and writes a snapshot of `state`, all of whose messages are in memory. It is durable when
/// this returns. `id` and `epochs` have been drawn at random, the first epoch for the log, the second for the snapshot. `now_ms`: Unix time.
///
/// # Errors
/// [`LogError::Locked`], [`LogError::Settings`] where there is a log, and those of the disk. Then what is in `disk` is to be thrown away.
pub fn create_log_with<D: Disk>(
    disk: &D,
    state: &Replay,
    id: LogId,
    epochs: [Epoch; 2],
    now_ms: u64,
) -> Result<(), LogError> {
    if DirectoryUsage::of(disk)? != DirectoryUsage::default() {
        return Err(LogError::Settings("a log begins where there is none"));
    }
    let [epoch, snapshot_epoch] = epochs;
    let (mut log, _) = Log::open(disk, Settings::default(), Position::START, epoch, id, now_ms, |_| Ok(()))?;
    // A snapshot covers frames, so there has to be one.
    let mut frame = FrameWriter::default();
    frame.add(&Record::Counted { last_session: state.last_session(), last_sequence: state.last_sequence() });
    let appended = log.append(ShardNumber(0), TurnNumber(1), &frame.take(Vec::new()));
    debug_assert!(appended.is_ok(), "the first frame is small");
    let covered = log.commit()?;
    write_snapshot(state, disk, SnapshotHead { log: id, epoch: snapshot_epoch, covered, now_ms }, |_| None, || true)?;
    log.close()
}
