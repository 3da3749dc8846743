//! Reading files whole, as far as the disk reads them.

use std::io;
use std::ops::Range;

use crate::disk::{Disk, DiskError, DiskFile, Operation};
use crate::error::LogError;
use crate::format::{FIRST_FRAME_OFFSET, Header, HeaderFault, Name, VERSION_NAME, Version, VersionFault, read_seal};
use crate::mutant::{Mutant, is};
use crate::numbers::Position;

/// Bytes that are read at once. Where that fails, so many are tried in [`RETRY_CHUNK_BYTES`].
const READ_BYTES: usize = 1 << 20;
/// What the disk cannot read is found to this precision.
const RETRY_CHUNK_BYTES: usize = 4096;
/// `VERSION` is a few lines.
const VERSION_MAX_BYTES: u64 = 1024;

/// The bytes of a segment. What cannot be read is 0, which is no frame.
#[derive(Debug)]
pub(super) struct FileContent {
    pub(crate) segment: usize,
    pub(crate) bytes: Vec<u8>,
}

impl FileContent {
    /// Reads a file of which `expected_bytes` are of interest. `memory` is used again.
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
        // What was in it is written over.
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

/// Reads what can be read from `start` on; the rest is 0, and listed.
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

/// The header of a file, or its size where it has none.
pub(crate) fn read_header<D: Disk>(disk: &D, name: &str) -> Result<Result<Header, u64>, LogError> {
    Ok(read_header_and_seal(disk, name)?.map(|(header, _)| header))
}

/// The same, with the seal of a segment.
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
            let sealed = read_seal(&start, &header).filter(|_| !is(Mutant::ForgetsSeals));
            Ok(Ok((header, sealed)))
        }
        Err(HeaderFault::UnsupportedVersion(version)) => {
            Err(LogError::UnsupportedVersion { file: name.into(), version })
        }
        Err(HeaderFault::Damaged) => Ok(Err(bytes)),
    }
}

/// What `VERSION` says, `None` where the directory is new, and the names of all files. The names are looked at last: segments that
/// `VERSION` knows of are among them, also while somebody writes.
pub(crate) fn read_names<D: Disk>(disk: &D) -> Result<(Option<Version>, Vec<String>), LogError> {
    let mut version = read_version_file(disk)?;
    let names = disk.list()?;
    if version.is_none() {
        // Somebody may have made it since.
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
