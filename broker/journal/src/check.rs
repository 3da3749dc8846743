//! Read-only checks of a log, also while it is written to. Used by the command line.

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

/// The attempts to read a directory that is written to, until no file was removed during the read.
pub const READ_ATTEMPTS: usize = 10;
/// How long to wait for the lock. A reader that only checks whether the directory is in use releases it much sooner.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
/// The interval of lock attempts within that time.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// The number of undecodable frames that are listed.
pub const UNDECODABLE_LISTED_MAX: usize = 100;

/// The content of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSummary {
    /// Valid frames.
    pub frames: u64,
    /// Records in these frames.
    pub records: u64,
    /// Complete frames that contain an undecodable record, with the error; at most [`UNDECODABLE_LISTED_MAX`].
    pub undecodable: Vec<(Position, RecordError)>,
    /// The number of such frames.
    pub undecodable_frames: u64,
    /// The lost parts.
    pub damage: Vec<Damage>,
    /// How the log ends.
    pub end: LogEnd,
}

/// Reads the log to its end and passes each record to `visit`, with its frame. Skips damage and lists it.
///
/// # Errors
/// As for [`Reader::step`].
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

/// The files of a directory, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DirectoryUsage {
    /// Segments.
    pub segments: u64,
    /// Bytes of the segments.
    pub segment_bytes: u64,
    /// Snapshots.
    pub snapshots: u64,
    /// Bytes of the snapshots.
    pub snapshot_bytes: u64,
    /// Spare files, kept for reuse.
    pub spares: u64,
    /// Bytes of the spare files.
    pub spare_bytes: u64,
    /// Damaged segments that were set aside.
    pub quarantined: u64,
    /// Bytes of these segments.
    pub quarantined_bytes: u64,
}

impl DirectoryUsage {
    /// Counts the files in the directory.
    ///
    /// # Errors
    /// Disk errors. A file that is removed during the count is not counted.
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

/// Returns the format version of a directory, or `None` if it has no log.
///
/// # Errors
/// [`LogError::UnsupportedVersion`], [`LogError::VersionMissing`], [`LogError::VersionDamaged`], and disk errors.
pub fn read_format_version<D: Disk>(disk: &D) -> Result<Option<u32>, LogError> {
    Ok(read_names(disk)?.0.map(|version| version.format))
}

/// Reads a directory that may be written to at the same time. A segment or snapshot that is released during `read` may be overwritten; then
/// `read` is retried, up to [`READ_ATTEMPTS`] attempts in all.
///
/// # Errors
/// Those of `read`, and [`LogError::ChangedWhileReading`].
pub fn read_consistently<D: Disk, T>(disk: &D, mut read: impl FnMut() -> Result<T, LogError>) -> Result<T, LogError> {
    for _ in 0..READ_ATTEMPTS {
        let before = list_state_files(disk)?;
        let result = read();
        // An open log never reuses a segment number, so a file that still has its name was not released.
        if before.is_subset(&list_state_files(disk)?) {
            return result;
        }
    }
    Err(LogError::ChangedWhileReading)
}

/// Locks a directory for this process, as opening its log does. Dropping the lock releases it.
///
/// # Errors
/// [`LogError::Locked`] if another process holds it, and disk errors.
pub fn lock_directory<D: Disk>(disk: &D) -> Result<D::Lock, LogError> {
    let started = Instant::now();
    loop {
        match disk.lock(LOCK_NAME) {
            Ok(lock) => return Ok(lock),
            Err(error) if error.kind != ErrorKind::WouldBlock => return Err(LogError::Disk(error)),
            Err(_) if started.elapsed() >= LOCK_TIMEOUT => return Err(LogError::Locked),
            // Another process may hold it only for a moment, to check whether the directory is in use.
            Err(_) => thread::sleep(LOCK_RETRY_INTERVAL),
        }
    }
}

/// Lists the names of segments and snapshots.
pub(crate) fn list_state_files<D: Disk>(disk: &D) -> Result<BTreeSet<String>, LogError> {
    let is_state = |name: &String| matches!(Name::parse(name), Some(Name::Segment(_) | Name::Snapshot(_)));
    Ok(disk.list()?.into_iter().filter(is_state).collect())
}
