//! Looking at a log without changing it, also while it is written to: for the command line.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::thread;
use std::time::{Duration, Instant};

use crate::disk::{Disk, DiskFile};
use crate::error::LogError;
use crate::format::{Frame, LOCK_NAME, Name};
use crate::numbers::Position;
use crate::reader::{Damage, LogEnd, Reader, Step, read_names};
use crate::record::{Record, RecordError, Records};

/// So often a directory is read that somebody writes to, until nothing of what was read has gone meanwhile.
pub const READ_ATTEMPTS: usize = 10;
/// Whoever has a directory for longer than this does not only look at it.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
/// How often a directory that somebody has is tried again until then.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// So many frames with something undecodable are listed.
pub const UNDECODABLE_LISTED_MAX: usize = 100;

/// What there is in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSummary {
    /// Frames that count.
    pub frames: u64,
    /// Records in them.
    pub records: u64,
    /// Frames that are whole and have something in them that is no record, with what is wrong; at most
    /// [`UNDECODABLE_LISTED_MAX`].
    pub undecodable: Vec<(Position, RecordError)>,
    /// How many such frames there are.
    pub undecodable_frames: u64,
    /// What is gone.
    pub damage: Vec<Damage>,
    /// How the log ends.
    pub end: LogEnd,
}

/// Reads all that `reader` gives and hands each record to `visit`, with the frame that it is in. Damage is skipped and listed.
///
/// # Errors
/// Those of [`Reader::step`].
pub fn check<D: Disk>(
    mut reader: Reader<D>,
    mut visit: impl FnMut(&Frame<'_>, &Record<'_>),
) -> Result<LogSummary, LogError> {
    let end = LogEnd { last: Position::START, closed: false, torn: None };
    let mut summary =
        LogSummary { frames: 0, records: 0, undecodable: Vec::new(), undecodable_frames: 0, damage: Vec::new(), end };
    while let Some(step) = reader.step()? {
        match step {
            Step::Damage(damage) => summary.damage.push(damage),
            Step::Frame(frame) => {
                summary.frames += 1;
                for record in Records::new(frame.body) {
                    match record {
                        Ok(record) => {
                            summary.records += 1;
                            visit(&frame, &record);
                        }
                        Err(error) => {
                            summary.undecodable_frames += 1;
                            if summary.undecodable.len() < UNDECODABLE_LISTED_MAX {
                                summary.undecodable.push((frame.position, error));
                            }
                        }
                    }
                }
            }
        }
    }
    if let Some(end) = reader.end() {
        summary.end = end.clone();
    }
    Ok(summary)
}

/// The files of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DirectoryUsage {
    /// Segments.
    pub segments: u64,
    /// Bytes of them.
    pub segment_bytes: u64,
    /// Snapshots.
    pub snapshots: u64,
    /// Bytes of them.
    pub snapshot_bytes: u64,
    /// Files that are kept to be used again.
    pub spares: u64,
    /// Bytes of them.
    pub spare_bytes: u64,
    /// Segments that were put aside because they have damage.
    pub quarantined: u64,
    /// Bytes of them.
    pub quarantined_bytes: u64,
}

impl DirectoryUsage {
    /// What is in the directory.
    ///
    /// # Errors
    /// Those of the disk. A file that has gone meanwhile is not counted.
    pub fn of<D: Disk>(disk: &D) -> Result<DirectoryUsage, LogError> {
        let mut files = DirectoryUsage::default();
        for name in disk.list()? {
            let Some(kind) = Name::parse(&name) else { continue };
            let bytes = match disk.open(&name).and_then(|file| file.size_bytes()) {
                Ok(bytes) => bytes,
                Err(error) if error.kind == ErrorKind::NotFound => continue,
                Err(error) => return Err(error.into()),
            };
            let (count, sum) = match kind {
                Name::Segment(_) => (&mut files.segments, &mut files.segment_bytes),
                Name::Snapshot(_) => (&mut files.snapshots, &mut files.snapshot_bytes),
                Name::Spare(_) => (&mut files.spares, &mut files.spare_bytes),
                Name::Damaged(_) => (&mut files.quarantined, &mut files.quarantined_bytes),
            };
            *count += 1;
            *sum = sum.saturating_add(bytes);
        }
        Ok(files)
    }
}

/// The version of the format that a directory has; `None` where there is no log.
///
/// # Errors
/// [`LogError::UnsupportedVersion`], [`LogError::VersionMissing`], [`LogError::VersionDamaged`], and those of the disk.
pub fn read_format_version<D: Disk>(disk: &D) -> Result<Option<u32>, LogError> {
    Ok(read_names(disk)?.0.map(|version| version.format))
}

/// Reads a directory to which somebody may write meanwhile. A segment or snapshot that is released while `read` goes on may be
/// overwritten, so `read` is tried again then, [`READ_ATTEMPTS`] times in all.
///
/// # Errors
/// Those of `read`, and [`LogError::ChangedWhileReading`].
pub fn read_consistently<D: Disk, T>(disk: &D, mut read: impl FnMut() -> Result<T, LogError>) -> Result<T, LogError> {
    for _ in 0..READ_ATTEMPTS {
        let before = list_state_files(disk)?;
        let result = read();
        // A number is never given to another segment of a log that is open, so a file that still has its name was not released.
        if before.is_subset(&list_state_files(disk)?) {
            return result;
        }
    }
    Err(LogError::ChangedWhileReading)
}

/// Takes a directory for this process, as opening its log does. It is held until what is given is dropped.
///
/// # Errors
/// [`LogError::Locked`] where another process has it, and those of the disk.
pub fn lock_directory<D: Disk>(disk: &D) -> Result<D::Lock, LogError> {
    let begun = Instant::now();
    loop {
        match disk.lock(LOCK_NAME) {
            Ok(lock) => return Ok(lock),
            Err(error) if error.kind != ErrorKind::WouldBlock => return Err(LogError::Disk(error)),
            Err(_) if begun.elapsed() >= LOCK_TIMEOUT => return Err(LogError::Locked),
            // Somebody may only be looking whether the directory is in use, which takes a moment.
            Err(_) => thread::sleep(LOCK_RETRY_INTERVAL),
        }
    }
}

/// The names of segments and snapshots.
pub(crate) fn list_state_files<D: Disk>(disk: &D) -> Result<BTreeSet<String>, LogError> {
    let is_state = |name: &String| matches!(Name::parse(name), Some(Name::Segment(_) | Name::Snapshot(_)));
    Ok(disk.list()?.into_iter().filter(is_state).collect())
}
