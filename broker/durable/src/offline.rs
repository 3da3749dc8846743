//! A log made as short as its state is, while no broker has it.

use tautwire_journal::{Disk, Epoch, Files, Log, LogError, LogId, Position, Settings};

use crate::inspection::read_snapshot;
use crate::recovery::Recovery;
use crate::snapshot::{SnapshotHead, write_snapshot};

/// What became of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactReport {
    /// Its files before.
    pub before: Files,
    /// Its files now.
    pub after: Files,
    /// The last frame that the snapshot covers.
    pub covered: Position,
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
    let before = Files::of(disk)?;
    if before == Files::default() {
        return Err(LogError::Empty);
    }
    let [epoch, snapshot_epoch] = epochs;
    let mut recovery = Recovery::new(None);
    let covered = read_snapshot(disk, &mut recovery)?.covered;
    // There is a log, so it has a number.
    let opened = Log::open(disk, settings, covered, epoch, LogId(0), now_ms, |frame| {
        recovery.frame(frame.body).map_err(|error| format!("{error} [{}]", error.code()).into())
    });
    let (mut log, _) = opened?;
    let covered = log.durable();
    let head = SnapshotHead { log: log.id(), epoch: snapshot_epoch, covered, now_ms };
    write_snapshot(&recovery.finish(), disk, head, |_| None, || true)?;
    log.release_earlier_epochs()?;
    log.close()?;
    Ok(CompactReport { before, after: Files::of(disk)?, covered })
}
