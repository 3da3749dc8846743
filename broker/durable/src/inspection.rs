//! Reads the content of a data directory without changing it.

use std::ops::Range;

use tautwire_journal::{
    Damage, DirectoryUsage, Disk, LogEnd, LogError, Position, Reader, SnapshotCandidates, SnapshotReader, Step,
    read_consistently, read_format_version,
};
use tautwire_session::Replay;

use crate::error::RecoveryError;
use crate::recovery::Recovery;
use crate::skipped_records::SkippedRecords;

/// The snapshot from which a state was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// The last frame that it covers; [`Position::START`] if there is no snapshot.
    pub covered: Position,
    /// The size of the file in bytes; 0 if there is no snapshot.
    pub bytes: u64,
    /// The time of the snapshot, in milliseconds of Unix time.
    pub written_at_ms: u64,
    /// The frames in it.
    pub frames: u64,
    /// Names of damaged snapshots, the newest first.
    pub damaged: Vec<String>,
    /// The lost bytes of the newest damaged snapshot, if it was salvaged because no intact one exists.
    pub lost: Vec<Range<u64>>,
}

/// Reads the newest intact snapshot. If there is none and `recovery` skips inconsistent records, reads the intact parts of the newest one.
///
/// # Errors
/// Journal errors; [`LogError::Refused`] if `recovery` rejects a record.
pub fn read_snapshot<D: Disk>(disk: &D, recovery: &mut Recovery) -> Result<SnapshotInfo, LogError> {
    let mut found = SnapshotInfo::default();
    let mut unread = SnapshotCandidates::of(disk)?;
    while let Some((name, reader)) = unread.next_candidate()? {
        if let Some(mut reader) = reader {
            // Only its end shows whether it is intact. Reading it twice would take most of the time of a start.
            let (mut refused, mut frames) = (None, 0);
            let is_whole = reader.read_to_end(|frame| {
                frames += 1;
                if refused.is_none() {
                    refused = recovery.snapshot_frame(frame.body).err();
                }
            })?;
            if is_whole {
                found.record(&reader, frames);
                return refused.map_or(Ok(found), |error| Err(refusal(reader.covered(), &error)));
            }
            recovery.clear();
        }
        found.damaged.push(name);
    }
    let newest = found.damaged.first().filter(|_| recovery.skipped_records().is_some());
    let Some(mut reader) = newest.map_or(Ok(None), |newest| SnapshotReader::salvage(disk, newest))? else {
        return Ok(found);
    };
    let mut frames = 0;
    while let Some(frame) = reader.step()? {
        frames += 1;
        recovery.snapshot_frame(frame.body).map_err(|error| refusal(found.covered, &error))?;
    }
    found.record(&reader, frames);
    found.lost = reader.lost().to_vec();
    Ok(found)
}

impl SnapshotInfo {
    fn record<D: Disk>(&mut self, reader: &SnapshotReader<D>, frames: u64) {
        self.covered = reader.covered();
        (self.bytes, self.written_at_ms) = (reader.bytes(), reader.written_at_ms());
        self.frames = frames;
    }
}

fn refusal(at: Position, error: &RecoveryError) -> LogError {
    LogError::Refused { at, cause: format!("{error} [{}]", error.code()).into() }
}

/// The content of a data directory.
#[derive(Debug)]
pub struct Inspection {
    /// The version of its format.
    pub format: u32,
    /// Its files.
    pub files: DirectoryUsage,
    /// The snapshot from which the state was read.
    pub snapshot: SnapshotInfo,
    /// The frames of the log after the snapshot.
    pub frames: u64,
    /// Records in them.
    pub records: u64,
    /// The bytes of these frames.
    pub frame_bytes: u64,
    /// The lost data.
    pub damage: Vec<Damage>,
    /// The end of the log.
    pub end: LogEnd,
    /// Records that are inconsistent with earlier ones.
    pub skipped_records: SkippedRecords,
    /// The state.
    pub state: Replay,
}

impl Inspection {
    /// Reads a directory. `in_use`: a process writes to it; the state is then that of a moment during the read. Needs as much memory as the
    /// state.
    ///
    /// # Errors
    /// Journal errors. Damage is not an error.
    pub fn of<D: Disk>(disk: &D, in_use: bool) -> Result<Inspection, LogError> {
        if in_use { read_consistently(disk, || Inspection::once(disk, true)) } else { Inspection::once(disk, false) }
    }

    fn once<D: Disk>(disk: &D, in_use: bool) -> Result<Inspection, LogError> {
        let files = DirectoryUsage::of(disk)?;
        if files == DirectoryUsage::default() {
            return Err(LogError::Empty);
        }
        let format = read_format_version(disk)?.ok_or(LogError::Empty)?;
        let mut recovery = Recovery::new(None);
        recovery.skip_inconsistent_records();
        let snapshot = read_snapshot(disk, &mut recovery)?;
        let in_snapshot = recovery.skipped_records().map_or(0, |passed| passed.records);
        let covered = snapshot.covered;
        let mut reader = if in_use { Reader::open_in_use(disk, covered)? } else { Reader::open(disk, covered)? };
        let (mut frames, mut frame_bytes, mut damage) = (0, 0, Vec::new());
        while let Some(step) = reader.step()? {
            match step {
                Step::Damage(found) => damage.push(found),
                Step::Frame(frame) => {
                    frames += 1;
                    frame_bytes += frame.body.len() as u64;
                    let taken = recovery.frame(frame.body);
                    taken.map_err(|error| LogError::Refused { at: frame.position, cause: error.to_string().into() })?;
                }
            }
        }
        let end = reader.end().cloned().unwrap_or(LogEnd { last: covered, closed: false, torn: None });
        let skipped_records = recovery.skipped_records().cloned().unwrap_or_default();
        let records = skipped_records.records - in_snapshot;
        let state = recovery.finish();
        Ok(Inspection { format, files, snapshot, frames, records, frame_bytes, damage, end, skipped_records, state })
    }

    /// Whether nothing is lost, so that a broker starts with it.
    pub fn is_whole(&self) -> bool {
        self.damage.is_empty() && self.snapshot.damaged.is_empty() && self.skipped_records.is_none()
    }
}
