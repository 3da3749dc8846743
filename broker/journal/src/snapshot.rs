//! Snapshots: a state as records, with the position of the last frame that it covers.

use std::ops::Range;

use crate::disk::{Disk, DiskFile, Operation};
use crate::error::LogError;
use crate::format::{
    BLOCK_BYTES, EPOCH_OFFSET, FIRST_FRAME_OFFSET, FRAME_ALIGN, FRAME_BODY_MAX_BYTES, FRAME_HEADER_BYTES, FileKind,
    Frame, FrameKind, FrameLocation, Header, Name, frame_bytes, is_frame_start, parse, u32_at, u64_at,
};
use crate::log::Group;
use crate::numbers::{Epoch, LogId, Position, SegmentNumber, ShardNumber, TurnNumber};
use crate::reader::{read_header, read_in_chunks, read_names};

/// Bytes per read.
const READ_BYTES: usize = 1 << 20;

/// Bytes per sync of a snapshot. More at once would delay the log, which is on the same disk.
const SYNC_CHUNK_BYTES: usize = 1 << 20;

/// Writes a snapshot. Until it is finished, it has another name and is ignored.
#[derive(Debug)]
pub struct SnapshotWriter<D: Disk> {
    disk: D,
    file: D::File,
    header: Header,
    group: Group,
    at: u64,
    last: Position,
    frames: u64,
}

impl<D: Disk> SnapshotWriter<D> {
    /// Begins the snapshot of the state after the frame at `covered`. `epoch` is a random number. `now_ms`: Unix time.
    ///
    /// # Errors
    /// Disk errors.
    pub fn begin(disk: &D, log: LogId, epoch: Epoch, covered: Position, now_ms: u64) -> Result<Self, LogError> {
        let header = Header {
            kind: FileKind::Snapshot,
            number: SegmentNumber(0),
            base: Position::START,
            bytes: 0,
            epoch,
            after: covered,
            log,
            written_at_ms: now_ms,
            place: None,
        };
        let file = disk.create(&Name::Snapshot(covered).new_name(), FIRST_FRAME_OFFSET as u64)?;
        let (at, last) = (FIRST_FRAME_OFFSET as u64, Position::START);
        Ok(SnapshotWriter { disk: disk.clone(), file, header, group: Group::default(), at, last, frames: 0 })
    }

    /// Removes the unfinished file, which takes up space. If this fails, the next opening of the log removes it.
    pub fn discard(self) {
        let _ = self.disk.remove(&Name::Snapshot(self.header.after).new_name());
    }

    /// Appends records. Rejects a body larger than [`FRAME_BODY_MAX_BYTES`].
    ///
    /// # Errors
    /// Disk errors. The snapshot must then be restarted.
    pub fn append(&mut self, body: &[u8]) -> Result<(), LogError> {
        if body.len() > FRAME_BODY_MAX_BYTES {
            return Err(LogError::Settings("the frame of a snapshot exceeds the limit of 536,870,912 bytes"));
        }
        self.frames += 1;
        self.group.push(FrameKind::Turn, ShardNumber(0), TurnNumber(self.frames), body);
        if self.group.padded_bytes() >= SYNC_CHUNK_BYTES {
            self.write()?;
        }
        Ok(())
    }

    /// Makes the snapshot durable and removes older ones. Returns its size in bytes.
    ///
    /// # Errors
    /// Disk errors. The new snapshot then does not exist, or exists beside older ones.
    pub fn finish(mut self) -> Result<u64, LogError> {
        let result = self.finalize();
        if result.is_err() {
            self.discard();
        }
        result
    }

    fn finalize(&mut self) -> Result<u64, LogError> {
        self.write()?;
        self.group.push(FrameKind::Closed, ShardNumber(0), TurnNumber(0), &[]);
        self.write()?;
        self.header.bytes = self.at;
        self.file.write_at(0, &self.header.to_bytes())?;
        self.file.sync_data()?;
        let covered = self.header.after;
        let name = Name::Snapshot(covered);
        self.disk.rename(&name.new_name(), &name.to_string())?;
        self.disk.sync_directory()?;
        for other in self.disk.list()? {
            if matches!(Name::parse(&other), Some(Name::Snapshot(older)) if older < covered) {
                self.disk.remove(&other)?;
            }
        }
        Ok(self.at)
    }

    fn write(&mut self) -> Result<(), LogError> {
        if self.group.is_empty() {
            return Ok(());
        }
        self.last = self.group.stamp(Position(self.at), self.last, self.header.epoch);
        self.file.write_durably(self.at, self.group.bytes())?;
        self.at += self.group.bytes().len() as u64;
        self.group.clear();
        Ok(())
    }
}

/// Reads a snapshot.
#[derive(Debug)]
pub struct SnapshotReader<D: Disk> {
    file: D::File,
    header: Header,
    at: u64,
    last: Position,
    link: Option<(Position, u32)>,
    /// Bytes of the file from `buffered_at` on.
    buffer: Vec<u8>,
    buffered_at: u64,
    /// The ranges that were skipped, if the snapshot is read despite damage.
    lost: Option<Vec<Range<u64>>>,
}

/// The snapshots of a directory.
pub struct Snapshots<D: Disk> {
    /// The newest intact one.
    pub whole: Option<SnapshotReader<D>>,
    /// Names of newer, damaged ones, the newest first.
    pub damaged: Vec<String>,
}

impl<D: Disk> Snapshots<D> {
    /// Reads the snapshots of a directory, the newest first, until one is intact.
    ///
    /// # Errors
    /// As for [`SnapshotReader::newest`].
    pub fn of(disk: &D) -> Result<Snapshots<D>, LogError> {
        let mut snapshots = Snapshots { whole: None, damaged: Vec::new() };
        let mut unread = SnapshotCandidates::of(disk)?;
        while let Some((name, reader)) = unread.next_candidate()? {
            if let Some(mut reader) = reader
                && reader.read_to_end(|_| {})?
            {
                snapshots.whole = Some(SnapshotReader::from_file(reader.file, reader.header));
                break;
            }
            snapshots.damaged.push(name);
        }
        Ok(snapshots)
    }
}

/// The name of a snapshot, and its reader, or `None` if the header is damaged.
pub type NamedSnapshot<D> = (String, Option<SnapshotReader<D>>);

/// The snapshots of a directory, of which only the headers are read. For callers that retry when a snapshot turns out to be damaged.
#[derive(Debug)]
pub struct SnapshotCandidates<D: Disk> {
    disk: D,
    /// The log and the positions, in order; `None` if there is no log yet.
    found: Option<(LogId, Vec<Position>)>,
}

impl<D: Disk> SnapshotCandidates<D> {
    /// Lists the snapshots.
    ///
    /// # Errors
    /// As for [`SnapshotReader::newest`].
    pub fn of(disk: &D) -> Result<SnapshotCandidates<D>, LogError> {
        let (Some(version), names) = read_names(disk)? else {
            return Ok(SnapshotCandidates { disk: disk.clone(), found: None });
        };
        let mut positions: Vec<Position> = Vec::new();
        for name in names {
            if let Some(Name::Snapshot(position)) = Name::parse(&name) {
                positions.push(position);
            }
        }
        positions.sort_unstable();
        Ok(SnapshotCandidates { disk: disk.clone(), found: Some((version.log, positions)) })
    }

    /// Returns the newest snapshot that was not returned before.
    ///
    /// # Errors
    /// [`LogError::UnsupportedVersion`], and disk errors.
    pub fn next_candidate(&mut self) -> Result<Option<NamedSnapshot<D>>, LogError> {
        let Some((log, positions)) = &mut self.found else { return Ok(None) };
        let Some(position) = positions.pop() else { return Ok(None) };
        let name = Name::Snapshot(position).to_string();
        let fits =
            |header: &Header| header.kind == FileKind::Snapshot && header.after == position && header.log == *log;
        let header = read_header(&self.disk, &name)?.ok().filter(fits);
        let reader = match header {
            Some(header) => Some(SnapshotReader::from_file(self.disk.open(&name)?, header)),
            None => None,
        };
        Ok(Some((name, reader)))
    }
}

impl<D: Disk> SnapshotReader<D> {
    /// Opens the newest intact snapshot; each is read once to verify it. Skips damaged ones with a warning in the log. Returns `None` if
    /// there is no log yet.
    ///
    /// # Errors
    /// [`LogError::UnsupportedVersion`], [`LogError::VersionMissing`], [`LogError::VersionDamaged`], and disk errors.
    pub fn newest(disk: &D) -> Result<Option<Self>, LogError> {
        let Snapshots { whole, damaged } = Snapshots::of(disk)?;
        damaged.iter().for_each(|name| log::warn!("{name} is damaged"));
        Ok(whole)
    }

    /// Reads the intact parts of a damaged snapshot. `name` is one of [`Snapshots::damaged`]. Returns `None` if nothing can be recovered.
    ///
    /// # Errors
    /// [`LogError::UnsupportedVersion`], and disk errors.
    pub fn salvage(disk: &D, name: &str) -> Result<Option<Self>, LogError> {
        let Some(Name::Snapshot(covered)) = Name::parse(name) else { return Ok(None) };
        let file = disk.open(name)?;
        let bytes = file.size_bytes()?;
        let mut start = [0; FRAME_HEADER_BYTES];
        let header = match read_header(disk, name)? {
            Ok(header) if header.kind == FileKind::Snapshot && header.after == covered => Header { bytes, ..header },
            // Each frame has its own checksum, so the first one can replace the header.
            _ if file.read_at(FIRST_FRAME_OFFSET as u64, &mut start).is_ok() => {
                let Some(epoch) = u64_at(&start, EPOCH_OFFSET).and_then(Epoch::new) else { return Ok(None) };
                let (kind, number, base, after) = (FileKind::Snapshot, SegmentNumber(0), Position::START, covered);
                Header { kind, number, base, bytes, epoch, after, log: LogId(0), written_at_ms: 0, place: None }
            }
            _ => return Ok(None),
        };
        let mut reader = SnapshotReader::from_file(file, header);
        reader.lost = Some(Vec::new());
        Ok(Some(reader))
    }

    /// Returns the byte ranges that [`SnapshotReader::salvage`] has skipped so far because they contain no frames.
    pub fn lost(&self) -> &[Range<u64>] {
        self.lost.as_deref().unwrap_or_default()
    }

    /// Returns when the snapshot was begun, in milliseconds of Unix time.
    pub fn written_at_ms(&self) -> u64 {
        self.header.written_at_ms
    }

    /// Returns the size of the file in bytes.
    pub fn bytes(&self) -> u64 {
        self.header.bytes
    }

    fn from_file(file: D::File, header: Header) -> Self {
        let (at, last) = (FIRST_FRAME_OFFSET as u64, Position::START);
        SnapshotReader { file, header, at, last, link: None, buffer: Vec::new(), buffered_at: 0, lost: None }
    }

    /// Returns the last frame of the log that the snapshot covers.
    pub fn covered(&self) -> Position {
        self.header.after
    }

    /// Returns the next frame, or `None` at the end.
    ///
    /// # Errors
    /// Disk errors.
    pub fn step(&mut self) -> Result<Option<Frame<'_>>, LogError> {
        let Some(found) = self.scan()? else { return Ok(None) };
        let offset = (found.position.0 - self.buffered_at) as usize;
        Ok(Some(found.frame(&self.buffer, offset)))
    }

    /// Whether the snapshot is intact. Valid once [`SnapshotReader::step`] has returned `None`.
    pub fn is_whole(&self) -> bool {
        self.at == self.header.bytes
    }

    /// Passes all frames to `visit`. Returns whether the snapshot is intact; an unreadable one is not.
    ///
    /// # Errors
    /// Disk errors other than read errors.
    pub fn read_to_end(&mut self, mut visit: impl FnMut(Frame<'_>)) -> Result<bool, LogError> {
        loop {
            match self.step() {
                Ok(Some(frame)) => visit(frame),
                Ok(None) => return Ok(self.is_whole()),
                Err(LogError::Disk(error)) if error.operation == Operation::Read => {
                    log::warn!("{error}");
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Finds the next frame, directly after the last or at the next block.
    fn scan(&mut self) -> Result<Option<FrameLocation>, LogError> {
        if self.lost.is_some() {
            return self.scan_past_damage();
        }
        for at in [self.at, self.at.next_multiple_of(BLOCK_BYTES as u64)] {
            let Some(found) = self.frame_at(at)? else { continue };
            let follows = match found.index.checked_sub(1) {
                None => found.durable == self.last,
                before => before.map(|before| (found.durable, before)) == self.link,
            };
            if !follows {
                return Ok(None);
            }
            self.at = at + found.bytes() as u64;
            self.last = found.position;
            self.link = Some((found.durable, found.index));
            if found.kind == FrameKind::Closed {
                self.at = self.at.next_multiple_of(BLOCK_BYTES as u64);
                return Ok(None);
            }
            return Ok(Some(found));
        }
        Ok(None)
    }

    /// Finds the next valid frame at any offset.
    fn scan_past_damage(&mut self) -> Result<Option<FrameLocation>, LogError> {
        let start = self.at;
        let mut at = start;
        while at < self.header.bytes {
            if let Some(found) = self.frame_at(at)? {
                self.record_lost(start..at);
                self.at = at + found.bytes() as u64;
                if found.kind == FrameKind::Closed {
                    self.at = self.header.bytes;
                    return Ok(None);
                }
                return Ok(Some(found));
            }
            at += FRAME_ALIGN as u64;
        }
        self.record_lost(start..self.header.bytes);
        self.at = self.header.bytes;
        Ok(None)
    }

    /// A range smaller than a block may be padding.
    fn record_lost(&mut self, range: Range<u64>) {
        let is_padding = range.end == range.start.next_multiple_of(BLOCK_BYTES as u64);
        if let Some(lost) = self.lost.as_mut().filter(|_| !range.is_empty() && !is_padding) {
            lost.push(range);
        }
    }

    fn frame_at(&mut self, at: u64) -> Result<Option<FrameLocation>, LogError> {
        if !self.has(at, FRAME_HEADER_BYTES)? {
            return Ok(None);
        }
        let offset = (at - self.buffered_at) as usize;
        if !is_frame_start(&self.buffer, offset, Position(at), self.header.epoch) {
            return Ok(None);
        }
        let body_bytes = u32_at(&self.buffer, offset).unwrap_or(u32::MAX) as usize;
        if body_bytes > FRAME_BODY_MAX_BYTES || !self.has(at, frame_bytes(body_bytes))? {
            return Ok(None);
        }
        let offset = (at - self.buffered_at) as usize;
        Ok(parse(&self.buffer, offset, Position(at), self.header.epoch))
    }

    /// Makes sure that `bytes` bytes from `at` on are buffered. Returns false if the file ends earlier.
    fn has(&mut self, at: u64, bytes: usize) -> Result<bool, LogError> {
        let end = at.saturating_add(bytes as u64);
        if end > self.header.bytes {
            return Ok(false);
        }
        if at >= self.buffered_at && end <= self.buffered_at + self.buffer.len() as u64 {
            return Ok(true);
        }
        let size = self.file.size_bytes()?.min(self.header.bytes);
        if end > size {
            return Ok(false);
        }
        let kept = self.shift_buffer(at);
        let unread_at = at + kept as u64;
        let wanted = ((bytes - kept).max(READ_BYTES) as u64).min(size - unread_at) as usize;
        self.buffer.resize(kept + wanted, 0);
        let unread = &mut self.buffer[kept..];
        if let Err(error) = self.file.read_at(unread_at, unread) {
            if self.lost.is_none() {
                self.buffer.truncate(kept);
                return Err(error.into());
            }
            // Zeros are never a valid frame, so unreadable bytes are reported as lost.
            read_in_chunks(&self.file, unread, unread_at, &mut Vec::new());
        }
        Ok(true)
    }

    /// Moves the buffer to begin at `at`, keeping the bytes it has from there on. Returns their number. Frames are about as long as one
    /// read, so most frames are partly read when their length becomes known.
    fn shift_buffer(&mut self, at: u64) -> usize {
        let buffered = self.buffered_at..self.buffered_at + self.buffer.len() as u64;
        let before = if buffered.contains(&at) { (at - buffered.start) as usize } else { self.buffer.len() };
        self.buffer.drain(..before);
        self.buffered_at = at;
        self.buffer.len()
    }
}
