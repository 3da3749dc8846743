//! Snapshots: a state as records, and the position of the last frame that it covers.

use crate::disk::{Disk, DiskFile};
use crate::error::LogError;
use crate::format::{
    BLOCK_BYTES, FIRST_FRAME_OFFSET, FRAME_BODY_MAX_BYTES, FRAME_HEADER_BYTES, FileKind, Frame, FrameKind, Header,
    Name, Placed, frame_bytes, parse, u32_at,
};
use crate::log::{GROUP_MAX_BYTES, Group};
use crate::numbers::{Epoch, LogId, Position, SegmentNumber, ShardNumber, TurnNumber};
use crate::reader::{read_header, read_version_file};

/// Bytes that are read at once.
const READ_BYTES: usize = 1 << 20;

/// Writes a snapshot. It counts once it is finished; until then it has another name.
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
    /// Begins the snapshot of the state after the frame at `covered`. `epoch` was drawn at random. `now_ms`: Unix time.
    ///
    /// # Errors
    /// Those of the disk.
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
        };
        let file = disk.create(&Name::Snapshot(covered).new_name(), FIRST_FRAME_OFFSET as u64)?;
        let (at, last) = (FIRST_FRAME_OFFSET as u64, Position::START);
        Ok(SnapshotWriter { disk: disk.clone(), file, header, group: Group::default(), at, last, frames: 0 })
    }

    /// Appends records. A body larger than [`FRAME_BODY_MAX_BYTES`] is refused.
    ///
    /// # Errors
    /// Those of the disk; the snapshot has to be begun anew.
    pub fn append(&mut self, body: &[u8]) -> Result<(), LogError> {
        if body.len() > FRAME_BODY_MAX_BYTES {
            return Err(LogError::Settings("a frame of a snapshot has at most 536,870,912 bytes"));
        }
        if !self.group.is_empty() && self.group.bytes_with(body.len()) > GROUP_MAX_BYTES {
            self.write()?;
        }
        self.frames += 1;
        self.group.push(FrameKind::Turn, ShardNumber(0), TurnNumber(self.frames), body);
        Ok(())
    }

    /// Makes the snapshot durable, and removes older ones.
    ///
    /// # Errors
    /// Those of the disk; there is no new snapshot then, or it is there beside older ones.
    pub fn finish(mut self) -> Result<Position, LogError> {
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
        Ok(covered)
    }

    fn write(&mut self) -> Result<(), LogError> {
        if self.group.is_empty() {
            return Ok(());
        }
        self.last = self.group.stamp(Position(self.at), self.last, self.header.epoch);
        self.file.write_at(self.at, self.group.bytes())?;
        self.at += self.group.bytes().len() as u64;
        self.group.clear();
        Ok(())
    }
}

/// Reads a snapshot that is whole.
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
}

impl<D: Disk> SnapshotReader<D> {
    /// The newest snapshot that is whole; each is read once to see whether it is. Others are passed over, with a warning
    /// in the log. Where there is no log yet, there is no snapshot.
    ///
    /// # Errors
    /// [`LogError::Newer`], [`LogError::VersionMissing`], [`LogError::VersionDamaged`], or those of the disk.
    pub fn newest(disk: &D) -> Result<Option<Self>, LogError> {
        let names = disk.list()?;
        let Some(log) = read_version_file(disk, &names)? else { return Ok(None) };
        let mut positions: Vec<Position> = Vec::new();
        for name in names {
            if let Some(Name::Snapshot(position)) = Name::parse(&name) {
                positions.push(position);
            }
        }
        positions.sort_unstable();
        for position in positions.into_iter().rev() {
            let name = Name::Snapshot(position).to_string();
            let header = read_header(disk, &name)?;
            let fits =
                |header: &Header| header.kind == FileKind::Snapshot && header.after == position && header.log == log;
            if let Some(header) = header.ok().filter(fits) {
                let mut reader: Self = SnapshotReader::over(disk.open(&name)?, header);
                while reader.step()?.is_some() {}
                if reader.at == header.bytes {
                    return Ok(Some(SnapshotReader::over(reader.file, header)));
                }
            }
            log::warn!("{name} is damaged; an older snapshot is used");
        }
        Ok(None)
    }

    fn over(file: D::File, header: Header) -> Self {
        let (at, last) = (FIRST_FRAME_OFFSET as u64, Position::START);
        SnapshotReader { file, header, at, last, link: None, buffer: Vec::new(), buffered_at: 0 }
    }

    /// The last frame of the log that the snapshot covers.
    pub fn covered(&self) -> Position {
        self.header.after
    }

    /// The next frame; `None` at the end.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn step(&mut self) -> Result<Option<Frame<'_>>, LogError> {
        let Some(found) = self.look()? else { return Ok(None) };
        let offset = (found.position.0 - self.buffered_at) as usize;
        Ok(Some(found.frame(&self.buffer, offset)))
    }

    /// The next frame that follows the last, behind it or at the next block.
    fn look(&mut self) -> Result<Option<Placed>, LogError> {
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

    fn frame_at(&mut self, at: u64) -> Result<Option<Placed>, LogError> {
        if !self.has(at, FRAME_HEADER_BYTES)? {
            return Ok(None);
        }
        let offset = (at - self.buffered_at) as usize;
        let body_bytes = u32_at(&self.buffer, offset).unwrap_or(u32::MAX) as usize;
        if body_bytes > FRAME_BODY_MAX_BYTES || !self.has(at, frame_bytes(body_bytes))? {
            return Ok(None);
        }
        let offset = (at - self.buffered_at) as usize;
        Ok(parse(&self.buffer, offset, Position(at), self.header.epoch))
    }

    /// Makes sure that `bytes` from `at` on are buffered; false where the file ends before.
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
        let wanted = (bytes.max(READ_BYTES) as u64).min(size - at);
        self.buffer.clear();
        self.buffer.resize(wanted as usize, 0);
        self.buffered_at = at;
        self.file.read_at(at, &mut self.buffer)?;
        Ok(true)
    }
}
