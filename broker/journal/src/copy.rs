//! A consistent copy of a directory, also of one that a broker writes to meanwhile.
//!
//! The broker does not help, and need not: a log is only appended to, and the next group of frames is written when the one
//! before it is durable. So files are read from the end of the log to its beginning, block by block: whoever sees a group, and
//! looks at what is before it later, finds it there. The copy ends somewhere, and what is before that is whole.
//!
//! A segment that is released may be overwritten, but under another name. So where all names are still there after they were
//! copied, nothing of it was overwritten. Otherwise the copy is made again.

use std::io::ErrorKind;

use crate::check::{Summary, check, state_names};
use crate::disk::{Disk, DiskError, DiskFile};
use crate::error::LogError;
use crate::format::{BLOCK_BYTES, Name, VERSION_NAME};
use crate::numbers::Position;
use crate::reader::Reader;
use crate::snapshot::Snapshots;

/// So often a copy is made anew because files were released meanwhile, or because what was copied has damage.
pub const COPY_TRIES: usize = 10;
/// Bytes that are read and written at once.
const CHUNK_BYTES: u64 = 1 << 20;

/// A copy that is whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// Files, with `VERSION`.
    pub files: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// The last frame that its snapshot covers.
    pub covered: Position,
    /// What there is in its log.
    pub log: Summary,
}

/// Copies the state in `from` to `to`, which is empty, reads the copy, and makes it durable. `LOCK`, spares, files that are
/// half-made and damaged segments that were put aside are not copied.
///
/// # Errors
/// [`LogError::Unsteady`] where files were released during each of [`COPY_TRIES`] tries, [`LogError::Damaged`] where the copy of
/// files that stayed has damage, and those of the disks. What was copied is in `to` then, without `VERSION`.
pub fn copy<S: Disk, T: Disk>(from: &S, to: &T) -> Result<Copied, LogError> {
    let mut result = Err(LogError::Unsteady);
    for _ in 0..COPY_TRIES {
        clear(to)?;
        result = copy_once(from, to);
        match &result {
            Err(LogError::Unsteady | LogError::Damaged(_)) => {}
            _ => return result,
        }
    }
    // It is not to be taken for a copy that is whole.
    clear(to)?;
    result
}

fn copy_once<S: Disk, T: Disk>(from: &S, to: &T) -> Result<Copied, LogError> {
    let names = state_names(from)?;
    let mut bytes = 0;
    // From the end of the log to its beginning. Snapshots come last, and cover no more than what has been copied.
    let is_snapshot = |name: &&String| matches!(Name::parse(name), Some(Name::Snapshot(_)));
    let segments = names.iter().rev().filter(|name| !is_snapshot(name));
    for name in segments.chain(names.iter().filter(is_snapshot)) {
        bytes += copy_backwards(from, to, name).map_err(gone)?;
    }
    bytes += copy_backwards(from, to, VERSION_NAME).map_err(|error| match error.kind {
        ErrorKind::NotFound if names.is_empty() => LogError::Empty,
        ErrorKind::NotFound => LogError::VersionMissing,
        _ => error.into(),
    })?;
    to.sync_directory()?;
    if !names.is_subset(&state_names(from)?) {
        return Err(LogError::Unsteady);
    }
    let (covered, log) = verify(to)?;
    Ok(Copied { files: names.len() as u64 + 1, bytes, covered, log })
}

fn gone(error: DiskError) -> LogError {
    if error.kind == ErrorKind::NotFound { LogError::Unsteady } else { error.into() }
}

/// Reads a directory that nobody writes to, and says what it has.
///
/// # Errors
/// [`LogError::Damaged`], [`LogError::Newer`] and other reasons for which it could not be opened.
pub fn verify<D: Disk>(disk: &D) -> Result<(Position, Summary), LogError> {
    let Snapshots { whole, damaged } = Snapshots::of(disk)?;
    let covered = whole.map_or(Position::START, |snapshot| snapshot.covered());
    let summary = check(Reader::open(disk, covered)?, |_, _| {})?;
    if let Some(damage) = summary.damage.first() {
        return Err(LogError::Damaged(Box::new(damage.clone())));
    }
    match damaged.first() {
        Some(name) => Err(LogError::SnapshotDamaged(name.as_str().into())),
        None => Ok((covered, summary)),
    }
}

fn copy_backwards<S: Disk, T: Disk>(from: &S, to: &T, name: &str) -> Result<u64, DiskError> {
    let source = from.open(name)?;
    let size = source.size_bytes()?;
    let target = to.create(name, 0)?;
    let mut chunk = Vec::new();
    for start in (0..size.div_ceil(CHUNK_BYTES)).rev().map(|chunk| chunk * CHUNK_BYTES) {
        let bytes = (size - start).min(CHUNK_BYTES);
        chunk.resize(bytes as usize, 0);
        // Fetches all of it from the disk at once. Blocks are read one by one afterwards, since a read of several may see the
        // first as it was before a write, and the last as it was after the next one.
        source.read_at(start, &mut chunk)?;
        for (at, block) in chunk.chunks_mut(BLOCK_BYTES).enumerate().rev() {
            source.read_at(start + (at * BLOCK_BYTES) as u64, block)?;
        }
        target.write_at(start, &chunk)?;
    }
    target.sync_data()?;
    Ok(size)
}

/// Removes what an earlier try has left; `VERSION` first, without which the rest is no directory of a log.
fn clear<T: Disk>(to: &T) -> Result<(), LogError> {
    let names = to.list()?;
    let is_version = |name: &&String| *name == VERSION_NAME;
    let is_ours = |name: &&String| Name::parse(name).is_some();
    for name in names.iter().filter(is_version).chain(names.iter().filter(is_ours)) {
        to.remove(name)?;
    }
    Ok(())
}
