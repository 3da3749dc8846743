//! Makes a consistent copy of a directory, even while a broker writes to it.
//!
//! The broker does not need to cooperate: a log is only appended to, and a group of frames is written only when the previous group is
//! durable. Files are therefore read from the end of the log to its beginning, block by block: a group that was read implies that
//! everything before it is on disk when it is read later. The copy ends at some frame, and everything before that frame is complete.
//!
//! A segment that is released may be overwritten, but under another name. If all names still exist after the copy, nothing that was copied
//! was overwritten. Otherwise the copy is repeated.

use std::io::ErrorKind;

use crate::check::{LogSummary, check, list_state_files};
use crate::disk::{Disk, DiskError, DiskFile};
use crate::error::LogError;
use crate::format::{BLOCK_BYTES, FIRST_FRAME_OFFSET, NEW_SUFFIX, Name, VERSION_NAME};
use crate::numbers::Position;
use crate::reader::{Reader, TornWrite};
use crate::snapshot::Snapshots;

/// The attempts to make a copy when files are released during it, or when the copy has damage.
pub const COPY_ATTEMPTS: usize = 10;
/// Bytes per read and write.
const CHUNK_BYTES: u64 = 1 << 20;

/// The content of a complete copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopySummary {
    /// Files, including `VERSION`.
    pub files: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// The last frame that its snapshot covers.
    pub covered: Position,
    /// The content of its log.
    pub log: LogSummary,
    /// An incomplete write at the end that is not in the copy. If the log is being written to, this is the write in progress.
    pub torn: Option<TornWrite>,
}

/// Why a copy failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyError {
    /// The source cannot be used or is damaged.
    Source(LogError),
    /// The copy cannot be written or read back.
    Target(LogError),
}

/// Copies the state in `from` to the empty directory `to`, reads the copy back, and makes it durable. Does not copy `LOCK`, spares,
/// unfinished files and damaged segments that were set aside.
///
/// # Errors
/// [`LogError::ChangedWhileReading`] if files were released during each of [`COPY_ATTEMPTS`] attempts, [`LogError::Damaged`] if the copy
/// has damage although no file was released, and disk errors. Copied files may then remain in `to`, without `VERSION`.
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
    // `VERSION` names the last segment that must exist, so read it before listing the segments.
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
    // The copy becomes valid only after it was verified, so an interruption before that leaves none.
    let partial = partial_version();
    let written = to.create(&partial, version.len() as u64).and_then(|file| file.write_durably(0, &version));
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
        to.rename(&partial, VERSION_NAME)?;
        to.sync_directory()
    };
    name().map_err(|error| CopyError::Target(error.into()))?;
    Ok(CopySummary { files: names.len() as u64 + 1, bytes, covered, log, torn })
}

/// The name of `VERSION` in an unverified copy. A directory without `VERSION` is not taken for a log.
fn partial_version() -> String {
    format!("{VERSION_NAME}{NEW_SUFFIX}")
}

/// Presents the copy as it will be once it has its `VERSION`.
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
        let partial = partial_version();
        names.iter_mut().filter(|name| **name == partial).for_each(|name| *name = VERSION_NAME.to_owned());
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

/// Reads a directory that no process writes to, and summarizes it.
///
/// # Errors
/// [`LogError::Damaged`], [`LogError::UnsupportedVersion`] and other errors of opening a log.
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

/// Overwrites the incomplete write at the end of a copy.
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

/// Reads the bytes of `VERSION`, or `None` if it does not exist.
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

/// Copies a file from its end to its beginning, except for its header, which may name the last frame. Returns its size.
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
        // Brings the whole chunk into the page cache. The blocks are then read one by one, because one read of several may see the first
        // block before a write and the last block after the next write.
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

/// Removes the files of an earlier attempt, `VERSION` first: without it the rest is not a log directory.
fn clear<T: Disk>(to: &T) -> Result<(), LogError> {
    let names = to.list()?;
    let partial = partial_version();
    let is_version = |name: &&String| *name == VERSION_NAME || **name == partial;
    let is_ours = |name: &&String| Name::parse(name).is_some();
    for name in names.iter().filter(is_version).chain(names.iter().filter(is_ours)) {
        to.remove(name)?;
    }
    Ok(())
}
