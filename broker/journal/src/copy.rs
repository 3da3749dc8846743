//! A consistent copy of a directory, also of one that a broker writes to meanwhile.
//!
//! The broker does not help, and need not: a log is only appended to, and the next group of frames is written when the one
//! before it is durable. So files are read from the end of the log to its beginning, block by block: whoever sees a group, and
//! looks at what is before it later, finds it there. The copy ends somewhere, and what is before that is whole.
//!
//! A segment that is released may be overwritten, but under another name. So where all names are still there after they were
//! copied, nothing of it was overwritten. Otherwise the copy is made again.

use std::io::ErrorKind;

use crate::check::{LogSummary, check, list_state_files};
use crate::disk::{Disk, DiskError, DiskFile};
use crate::error::LogError;
use crate::format::{BLOCK_BYTES, FIRST_FRAME_OFFSET, NEW_SUFFIX, Name, VERSION_NAME};
use crate::numbers::Position;
use crate::reader::{Reader, TornWrite};
use crate::snapshot::Snapshots;

/// So often a copy is made anew because files were released meanwhile, or because what was copied has damage.
pub const COPY_ATTEMPTS: usize = 10;
/// Bytes that are read and written at once.
const CHUNK_BYTES: u64 = 1 << 20;

/// A copy that is whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopySummary {
    /// Files, with `VERSION`.
    pub files: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// The last frame that its snapshot covers.
    pub covered: Position,
    /// What there is in its log.
    pub log: LogSummary,
    /// What was begun behind that and is not in the copy, since it is not whole: of a log that is written to, the write under way.
    pub torn: Option<TornWrite>,
}

/// Why there is no copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyError {
    /// What was to be copied cannot be used, or is damaged.
    Source(LogError),
    /// The copy cannot be written, or not be read back.
    Target(LogError),
}

/// Copies the state in `from` to `to`, which is empty, reads the copy, and makes it durable. `LOCK`, spares, files that are
/// half-made and damaged segments that were put aside are not copied.
///
/// # Errors
/// [`LogError::ChangedWhileReading`] where files were released during each of [`COPY_ATTEMPTS`] tries, [`LogError::Damaged`] where the copy of
/// files that stayed has damage, and those of the disks. What was copied may be in `to` then, without `VERSION`.
pub fn copy<S: Disk, T: Disk>(from: &S, to: &T) -> Result<CopySummary, CopyError> {
    let mut result = Err(CopyError::Source(LogError::ChangedWhileReading));
    for _ in 0..COPY_ATTEMPTS {
        clear(to).map_err(CopyError::Target)?;
        result = copy_once(from, to);
        match &result {
            Err(CopyError::Source(LogError::ChangedWhileReading | LogError::Damaged(_))) => {}
            _ => return result,
        }
    }
    clear(to).map_err(CopyError::Target)?;
    result
}

fn copy_once<S: Disk, T: Disk>(from: &S, to: &T) -> Result<CopySummary, CopyError> {
    // It says which segments there must be, so it is read before they are looked for.
    let version = read_version_text(from)?;
    let names = list_state_files(from).map_err(CopyError::Source)?;
    if names.is_empty() {
        return Err(CopyError::Source(LogError::Empty));
    }
    let Some(version) = version else { return Err(CopyError::Source(LogError::VersionMissing)) };
    let mut bytes = version.len() as u64;
    // From the end of the log to its beginning. Snapshots come last, and cover no more than what has been copied.
    let is_snapshot = |name: &&String| matches!(Name::parse(name), Some(Name::Snapshot(_)));
    let segments = names.iter().rev().filter(|name| !is_snapshot(name));
    for name in segments.chain(names.iter().filter(is_snapshot)) {
        bytes += copy_newest_first(from, to, name)?;
    }
    // The copy counts when it has been found whole, whatever ends this before.
    let half_made = partial_version();
    let written = to.create(&half_made, version.len() as u64).and_then(|file| file.write_durably(0, &version));
    written.map_err(|error| CopyError::Target(error.into()))?;
    if !names.is_subset(&list_state_files(from).map_err(CopyError::Source)?) {
        return Err(CopyError::Source(LogError::ChangedWhileReading));
    }
    let verified = || {
        verify(&PartialCopy(to.clone())).map_err(|error| match error {
            LogError::Disk(_) => CopyError::Target(error),
            _ => CopyError::Source(error),
        })
    };
    let (covered, mut log) = verified()?;
    let torn = log.end.torn.clone();
    while let Some(torn) = &log.end.torn {
        remove_partial_copy(to, torn).map_err(|error| CopyError::Target(error.into()))?;
        log = verified()?.1;
    }
    let name = || {
        to.sync_directory()?;
        to.rename(&half_made, VERSION_NAME)?;
        to.sync_directory()
    };
    name().map_err(|error| CopyError::Target(error.into()))?;
    Ok(CopySummary { files: names.len() as u64 + 1, bytes, covered, log, torn })
}

/// What `VERSION` is called in a copy that has not been found whole. Without `VERSION` nobody takes it for a log.
fn partial_version() -> String {
    format!("{VERSION_NAME}{NEW_SUFFIX}")
}

/// A copy as it will be when it has its `VERSION`.
#[derive(Debug, Clone)]
struct PartialCopy<D>(D);

impl<D: Disk> Disk for PartialCopy<D> {
    type File = D::File;
    type Lock = D::Lock;

    fn lock(&self, name: &str) -> Result<D::Lock, DiskError> {
        self.0.lock(name)
    }

    fn list(&self) -> Result<Vec<String>, DiskError> {
        let mut names = self.0.list()?;
        let half_made = partial_version();
        names.iter_mut().filter(|name| **name == half_made).for_each(|name| *name = VERSION_NAME.to_owned());
        Ok(names)
    }

    fn create(&self, name: &str, bytes: u64) -> Result<D::File, DiskError> {
        self.0.create(name, bytes)
    }

    fn open(&self, name: &str) -> Result<D::File, DiskError> {
        if name == VERSION_NAME { self.0.open(&partial_version()) } else { self.0.open(name) }
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        self.0.remove(name)
    }

    fn sync_directory(&self) -> Result<(), DiskError> {
        self.0.sync_directory()
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        self.0.free_bytes()
    }
}

/// Reads a directory that nobody writes to, and says what it has.
///
/// # Errors
/// [`LogError::Damaged`], [`LogError::UnsupportedVersion`] and other reasons for which it could not be opened.
pub fn verify<D: Disk>(disk: &D) -> Result<(Position, LogSummary), LogError> {
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

/// Overwrites what is not whole at the end of a copy.
fn remove_partial_copy<T: Disk>(to: &T, torn: &TornWrite) -> Result<(), DiskError> {
    let file = to.open(&Name::Segment(torn.segment).to_string())?;
    let size = file.size_bytes()?;
    let end = torn.offset.saturating_add(torn.bytes).min(size);
    let zeros = vec![0; CHUNK_BYTES as usize];
    let mut at = torn.offset;
    while at < end {
        let bytes = (end - at).min(CHUNK_BYTES);
        file.write_at(at, &zeros[..bytes as usize])?;
        at += bytes;
    }
    file.sync_data()
}

/// The bytes of `VERSION`; `None` where there is none.
fn read_version_text<S: Disk>(from: &S) -> Result<Option<Vec<u8>>, CopyError> {
    let read = || {
        let file = from.open(VERSION_NAME)?;
        let mut bytes = vec![0; file.size_bytes()?.min(CHUNK_BYTES) as usize];
        file.read_at(0, &mut bytes)?;
        Ok(Some(bytes))
    };
    match read() {
        Err(DiskError { kind: ErrorKind::NotFound, .. }) => Ok(None),
        read => read.map_err(|error| CopyError::Source(error.into())),
    }
}

/// Copies a file from its end to its beginning, but its header, which may name the last of its frames; gives its size.
fn copy_newest_first<S: Disk, T: Disk>(from: &S, to: &T, name: &str) -> Result<u64, CopyError> {
    let unread = |error: DiskError| {
        CopyError::Source(if error.kind == ErrorKind::NotFound { LogError::ChangedWhileReading } else { error.into() })
    };
    let unwritten = |error: DiskError| CopyError::Target(error.into());
    let source = from.open(name).map_err(unread)?;
    let size = source.size_bytes().map_err(unread)?;
    let target = to.create(name, 0).map_err(unwritten)?;
    let mut header = vec![0; size.min(FIRST_FRAME_OFFSET as u64) as usize];
    source.read_at(0, &mut header).map_err(unread)?;
    let mut chunk = Vec::new();
    for start in (0..size.div_ceil(CHUNK_BYTES)).rev().map(|chunk| chunk * CHUNK_BYTES) {
        let bytes = (size - start).min(CHUNK_BYTES);
        chunk.resize(bytes as usize, 0);
        // Fetches all of it from the disk at once. Blocks are read one by one afterwards, since a read of several may see the
        // first as it was before a write, and the last as it was after the next one.
        source.read_at(start, &mut chunk).map_err(unread)?;
        for (at, block) in chunk.chunks_mut(BLOCK_BYTES).enumerate().rev() {
            source.read_at(start + (at * BLOCK_BYTES) as u64, block).map_err(unread)?;
        }
        target.write_at(start, &chunk).map_err(unwritten)?;
    }
    target.write_at(0, &header).map_err(unwritten)?;
    target.sync_data().map_err(unwritten)?;
    Ok(size)
}

/// Removes what an earlier try has left; `VERSION` first, without which the rest is no directory of a log.
fn clear<T: Disk>(to: &T) -> Result<(), LogError> {
    let names = to.list()?;
    let half_made = partial_version();
    let is_version = |name: &&String| *name == VERSION_NAME || **name == half_made;
    let is_ours = |name: &&String| Name::parse(name).is_some();
    for name in names.iter().filter(is_version).chain(names.iter().filter(is_ours)) {
        to.remove(name)?;
    }
    Ok(())
}
