//! Looking at a log without changing it: for the command line.

use crate::disk::Disk;
use crate::error::LogError;
use crate::format::{Frame, LOCK_NAME};
use crate::numbers::Position;
use crate::reader::{Damage, End, Reader, Step};
use crate::record::{Record, RecordError, Records};

/// What there is in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Frames that count.
    pub frames: u64,
    /// Records in them.
    pub records: u64,
    /// Frames that are whole and have something in them that is no record, with what is wrong.
    pub undecodable: Vec<(Position, RecordError)>,
    /// What is gone.
    pub damage: Vec<Damage>,
    /// How the log ends.
    pub end: End,
}

/// Reads all frames behind `covered` and gives each record to `visit`, with the frame that it is in. The log must not be
/// open elsewhere. Damage is skipped and listed.
///
/// # Errors
/// [`LogError::Locked`], and those of [`Reader`].
pub fn check<D: Disk>(
    disk: &D,
    covered: Position,
    mut visit: impl FnMut(&Frame<'_>, &Record<'_>),
) -> Result<Summary, LogError> {
    let _lock = disk.lock(LOCK_NAME).map_err(|error| match error.kind {
        std::io::ErrorKind::WouldBlock => LogError::Locked,
        _ => LogError::Disk(error),
    })?;
    let mut reader = Reader::open(disk, covered)?;
    let end = End { last: covered, closed: false, torn: None };
    let mut summary = Summary { frames: 0, records: 0, undecodable: Vec::new(), damage: Vec::new(), end };
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
                        Err(error) => summary.undecodable.push((frame.position, error)),
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
