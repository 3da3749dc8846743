//! Segments that are written to, and those to come.

use crate::disk::{BlockBuffer, Disk, DiskFile};
use crate::error::LogError;
use crate::format::{BLOCK_BYTES, FIRST_FRAME_OFFSET, FileKind, Header, Name, Version, sealed_block};
use crate::log::Log;
use crate::log::open::write_version;
use crate::log::reserve::make_reserve;
use crate::numbers::{Epoch, Position, SegmentNumber};

/// A segment that is open to write.
#[derive(Debug)]
pub(super) struct Segment<F> {
    pub(super) header: Header,
    pub(super) file: F,
    /// Where the next group begins.
    pub(super) at: u64,
}

impl<F: DiskFile> Segment<F> {
    pub(super) fn fits(&self, group_bytes: usize) -> bool {
        self.at.checked_add(group_bytes as u64).is_some_and(|end| end <= self.header.bytes)
    }

    /// Writes down that the log is durable up to `position`, which is in this segment.
    pub(super) fn seal(&self, position: Position) -> Result<(), LogError> {
        let mut block = BlockBuffer::default();
        block.extend(&sealed_block(self.header, position));
        Ok(self.file.write_durably(BLOCK_BYTES as u64, block.bytes())?)
    }

    pub(super) fn retire(self) -> Retired {
        let Header { number, base, bytes, epoch, .. } = self.header;
        Retired { number, epoch, end: Position(base.0 + bytes), bytes, is_damaged: false }
    }
}

/// A segment that is not written to any more.
#[derive(Debug)]
pub(super) struct Retired {
    pub(super) number: SegmentNumber,
    pub(super) epoch: Epoch,
    /// The base of the next.
    pub(super) end: Position,
    pub(super) bytes: u64,
    pub(super) is_damaged: bool,
}

/// What has to be done so that a segment is ready: a new file written, or a spare given a new header.
#[derive(Debug)]
pub struct Order<D: Disk> {
    disk: D,
    header: Header,
    spare: Option<SegmentNumber>,
    /// The reserve is to be made as well.
    makes_reserve: bool,
}

/// A segment that is ready.
#[derive(Debug)]
pub struct Prepared<D: Disk> {
    pub(super) segment: Segment<D::File>,
    pub(super) made_reserve: bool,
}

impl<D: Disk> Order<D> {
    pub(super) fn new(disk: D, header: Header, spare: Option<SegmentNumber>) -> Order<D> {
        Order { disk, header, spare, makes_reserve: false }
    }

    pub(super) fn with_reserve(self, makes_reserve: bool) -> Order<D> {
        Order { makes_reserve, ..self }
    }

    /// Does it. Takes as long as writing and syncing a segment, or without a new file some syncs.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn carry_out(self) -> Result<Prepared<D>, LogError> {
        let made = self
            .spare
            .map_or_else(|| Name::Segment(self.header.number).new_name(), |number| Name::Spare(number).to_string());
        let is_new = self.spare.is_none();
        let disk = self.disk.clone();
        let prepared = self.make(&made);
        if is_new && prepared.is_err() {
            // A file that is half-made takes space that others may need. If this fails as well, the next start removes it.
            let _ = disk.remove(&made);
        }
        prepared
    }

    fn make(self, made: &str) -> Result<Prepared<D>, LogError> {
        let Order { disk, header, spare, makes_reserve } = self;
        let name = Name::Segment(header.number);
        let file = match spare {
            Some(_) => {
                // The file must have no segment's name any more, even after a crash, when its header changes.
                disk.sync_directory()?;
                disk.open(made)?
            }
            None => disk.create(made, header.bytes)?,
        };
        file.write_durably(0, &header.to_bytes())?;
        disk.rename(made, &name.to_string())?;
        disk.sync_directory()?;
        // From here on the file is missed if it is not there.
        write_version(&disk, Version::new(header.log, header.number))?;
        let made_reserve = makes_reserve && make_reserve(&disk);
        Ok(Prepared { segment: Segment { header, file, at: FIRST_FRAME_OFFSET as u64 }, made_reserve })
    }
}

impl<D: Disk> Log<D> {
    /// The order for the segment behind the current one, with room for a group of `bytes`.
    pub(super) fn make_order(&mut self, bytes: u64, now_ms: u64) -> Order<D> {
        let needed = bytes.next_multiple_of(BLOCK_BYTES as u64) + FIRST_FRAME_OFFSET as u64;
        let is_usual = needed <= self.segment_bytes;
        let header = Header {
            kind: FileKind::Segment,
            number: SegmentNumber(self.current.header.number.0 + 1),
            base: Position(self.current.header.base.0 + self.current.header.bytes),
            bytes: needed.max(self.segment_bytes),
            epoch: self.epoch,
            after: self.began_after,
            log: self.id,
            written_at_ms: now_ms,
            place: Some(self.current.header.place.unwrap_or(0) + 1),
        };
        let spare = if is_usual { self.spares.pop() } else { None };
        Order::new(self.disk.clone(), header, spare).with_reserve(self.lacks_reserve)
    }
}
