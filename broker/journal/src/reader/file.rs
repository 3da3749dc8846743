//! Reads whole files, as far as the disk can read them.

use std::io;
use std::ops::Range;

use crate::disk::{Disk, DiskError, DiskFile, Operation};
use crate::error::LogError;
use crate::format::{FIRST_FRAME_OFFSET, Header, HeaderFault, Name, VERSION_NAME, Version, VersionFault, read_seal};
use crate::mutant::{Mutant, is};
use crate::numbers::Position;

/// Bytes per read. A failed read is repeated in chunks of [`RETRY_CHUNK_BYTES`].
const READ_BYTES: usize = 1 << 20;
/// The granularity with which unreadable bytes are located.
const RETRY_CHUNK_BYTES: usize = 4096;
/// `VERSION` has only a few lines.
const VERSION_MAX_BYTES: u64 = 1024;

/// The bytes of a segment. Unreadable bytes are 0, which is never a valid frame.
#[derive(Debug)]
pub(super) struct FileContent {
    pub(crate) segment: usize,
    pub(crate) bytes: Vec<u8>,
}

impl FileContent {
    /// Loads the first `expected_bytes` of a file. Reuses `memory`.
    pub(crate) fn load<D: Disk>(
        disk: &D,
        segment: usize,
        name: &str,
        expected_bytes: u64,
        memory: Vec<u8>,
    ) -> Result<(FileContent, Vec<Range<u64>>), LogError> {
        let file = disk.open(name)?;
        let bytes = file.size_bytes()?.min(expected_bytes);
        let mut memory = memory;
        // The old content is overwritten.
        memory.resize(usize::try_from(bytes).unwrap_or(usize::MAX), 0);
        let mut unreadable = Vec::new();
        for start in (0..memory.len()).step_by(READ_BYTES) {
            let end = (start + READ_BYTES).min(memory.len());
            if file.read_at(start as u64, &mut memory[start..end]).is_err() {
                read_in_chunks(&file, &mut memory[start..end], start as u64, &mut unreadable);
            }
        }
        if bytes < expected_bytes {
            unreadable.push(bytes..expected_bytes);
        }
        Ok((FileContent { segment, bytes: memory }, unreadable))
    }
}

/// Reads from `start` on. Unreadable chunks become 0 and are listed in `unreadable`.
pub(crate) fn read_in_chunks(file: &impl DiskFile, memory: &mut [u8], start: u64, unreadable: &mut Vec<Range<u64>>) {
    for (n, piece) in memory.chunks_mut(RETRY_CHUNK_BYTES).enumerate() {
        let at = start + (n * RETRY_CHUNK_BYTES) as u64;
        if file.read_at(at, piece).is_err() {
            piece.fill(0);
            let end = at + piece.len() as u64;
            match unreadable.last_mut() {
                Some(range) if range.end == at => range.end = end,
                _ => unreadable.push(at..end),
            }
        }
    }
}

/// Reads the header of a file, or returns its size if it has none.
pub(crate) fn read_header<D: Disk>(disk: &D, name: &str) -> Result<Result<Header, u64>, LogError> {
    Ok(read_header_and_seal(disk, name)?.map(|(header, _)| header))
}

/// Like [`read_header`], with the seal of a segment.
pub(crate) fn read_header_and_seal<D: Disk>(
    disk: &D,
    name: &str,
) -> Result<Result<(Header, Option<Position>), u64>, LogError> {
    let file = disk.open(name)?;
    let bytes = file.size_bytes()?;
    let mut start = vec![0; FIRST_FRAME_OFFSET.min(usize::try_from(bytes).unwrap_or(FIRST_FRAME_OFFSET))];
    if file.read_at(0, &mut start).is_err() {
        read_in_chunks(&file, &mut start, 0, &mut Vec::new());
    }
    match Header::parse(&start) {
        Ok(header) => {
            let sealed = read_seal(&start, &header).filter(|_| !is(Mutant::IgnoresSeals));
            Ok(Ok((header, sealed)))
        }
        Err(HeaderFault::UnsupportedVersion(version)) => {
            Err(LogError::UnsupportedVersion { file: name.into(), version })
        }
        Err(HeaderFault::Damaged) => Ok(Err(bytes)),
    }
}

/// Reads `VERSION`, `None` if the directory is new, and the names of all files. The names are listed last, so that they include all
/// segments that `VERSION` counts, even while the log is written.
pub(crate) fn read_names<D: Disk>(disk: &D) -> Result<(Option<Version>, Vec<String>), LogError> {
    let mut version = read_version_file(disk)?;
    let names = disk.list()?;
    if version.is_none() {
        // It may have been created since.
        version = read_version_file(disk)?;
    }
    let has_state = names.iter().any(|name| Name::parse(name).is_some());
    if version.is_none() && has_state { Err(LogError::VersionMissing) } else { Ok((version, names)) }
}

fn read_version_file<D: Disk>(disk: &D) -> Result<Option<Version>, LogError> {
    let file = match disk.open(VERSION_NAME) {
        Ok(file) => file,
        Err(error) if error.kind == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let bytes = file.size_bytes()?;
    if bytes > VERSION_MAX_BYTES {
        return Err(LogError::VersionDamaged);
    }
    let mut text = vec![0; bytes as usize];
    file.read_at(0, &mut text).map_err(unreadable)?;
    match Version::parse(&text) {
        Ok(version) => Ok(Some(version)),
        Err(VersionFault::UnsupportedVersion(version)) => {
            Err(LogError::UnsupportedVersion { file: VERSION_NAME.into(), version })
        }
        Err(VersionFault::Damaged) => Err(LogError::VersionDamaged),
    }
}

fn unreadable(error: DiskError) -> LogError {
    match (error.operation, error.kind) {
        (Operation::Read, io::ErrorKind::UnexpectedEof) => LogError::VersionDamaged,
        _ => LogError::Disk(error),
    }
}
