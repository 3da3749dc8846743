//! Compacts or creates a log while no broker uses it.

use tautwire_journal::{
    DirectoryUsage, Disk, Epoch, Log, LogError, LogId, Position, Settings, ShardNumber, TornWrite, TurnNumber,
};
use tautwire_session::{Record, Replay};

use crate::frame_writer::FrameWriter;
use crate::inspection::read_snapshot;
use crate::recovery::Recovery;
use crate::snapshot::{SnapshotHead, write_snapshot};

/// The result of an offline compaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactReport {
    /// The files before.
    pub before: DirectoryUsage,
    /// The files after.
    pub after: DirectoryUsage,
    /// The last frame that the snapshot covers.
    pub covered: Position,
    /// An incomplete write after that frame, which was cut off.
    pub torn: Option<TornWrite>,
}

/// Opens the log in `disk`, writes a snapshot of its state, and releases all old segments. `epochs` are random numbers, the first for the
/// log, the second for the snapshot. `now_ms`: Unix time.
///
/// # Errors
/// [`LogError::Locked`] while a broker uses the directory, [`LogError::Damaged`], and other journal errors. The state is then unchanged.
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
    // The log exists and has an identifier, so this one is not used.
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

/// Creates a log in the empty `disk` and writes a snapshot of `state`, all of whose messages are in memory. Both are durable when this
/// returns. `id` and `epochs` are random numbers, the first epoch for the log, the second for the snapshot. `now_ms`: Unix time.
///
/// # Errors
/// [`LogError::Locked`], [`LogError::Settings`] if there is a log already, and disk errors. The caller must then discard the content of
/// `disk`.
pub fn create_log_with<D: Disk>(
    disk: &D,
    state: &Replay,
    id: LogId,
    epochs: [Epoch; 2],
    now_ms: u64,
) -> Result<(), LogError> {
    if DirectoryUsage::of(disk)? != DirectoryUsage::default() {
        return Err(LogError::Settings("the directory already contains a log"));
    }
    let [epoch, snapshot_epoch] = epochs;
    let (mut log, _) = Log::open(disk, Settings::default(), Position::START, epoch, id, now_ms, |_| Ok(()))?;
    // A snapshot covers at least one frame, so write one.
    let mut frame = FrameWriter::default();
    frame.add(&Record::Counted { last_session: state.last_session(), last_sequence: state.last_sequence() });
    let appended = log.append(ShardNumber(0), TurnNumber(1), &frame.take(Vec::new()));
    debug_assert!(appended.is_ok(), "the first frame is small");
    let covered = log.commit()?;
    write_snapshot(state, disk, SnapshotHead { log: id, epoch: snapshot_epoch, covered, now_ms }, |_| None, || true)?;
    log.close()
}
