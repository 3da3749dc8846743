//! The current segment and the preparation of the next one.

use crate::disk::{BlockBuffer, Disk, DiskFile};
use crate::error::LogError;
use crate::format::{BLOCK_BYTES, FIRST_FRAME_OFFSET, Header, NEW_SUFFIX, Name, VERSION_NAME, Version, sealed_block};
use crate::log::reserve::create_reserve;
use crate::numbers::{Epoch, Position, SegmentNumber};

/// A segment that is open for writing.
#[derive(Debug)]
pub(super) struct Segment<F> {
    pub(super) header: Header,
    pub(super) file: F,
    /// The offset of the next group.
    pub(super) at: u64,
}

impl<F: DiskFile> Segment<F> {
    pub(super) fn fits(&self, group_bytes: usize) -> bool {
        self.at.checked_add(group_bytes as u64).is_some_and(|end| end <= self.header.bytes)
    }

    /// Stores that the log is durable up to `position`, which is in this segment.
    pub(super) fn seal(&self, position: Position) -> Result<(), LogError> {
        let mut block = BlockBuffer::default();
        block.extend(&sealed_block(self.header, position));
        Ok(self.file.write_durably(BLOCK_BYTES as u64, block.bytes())?)
    }

    pub(super) fn retire(self) -> RetiredSegment {
        let Header { number, base, bytes, epoch, .. } = self.header;
        RetiredSegment { number, epoch, end: Position(base.0 + bytes), bytes, is_damaged: false }
    }
}

/// A segment that is no longer written to.
#[derive(Debug)]
pub(super) struct RetiredSegment {
    pub(super) number: SegmentNumber,
    pub(super) epoch: Epoch,
    /// The base of the next segment.
    pub(super) end: Position,
    pub(super) bytes: u64,
    pub(super) is_damaged: bool,
}

/// The work that prepares a segment: creates a file, or gives a spare file a new header.
#[derive(Debug)]
pub struct SegmentRequest<D: Disk> {
    disk: D,
    header: Header,
    spare: Option<SegmentNumber>,
    /// Whether to create the reserve as well.
    creates_reserve: bool,
}

/// A segment that is ready for writing.
#[derive(Debug)]
pub struct PreparedSegment<D: Disk> {
    pub(super) segment: Segment<D::File>,
    pub(super) reserve_created: bool,
}

impl<D: Disk> SegmentRequest<D> {
    pub(super) fn new(disk: D, header: Header, spare: Option<SegmentNumber>) -> SegmentRequest<D> {
        SegmentRequest { disk, header, spare, creates_reserve: false }
    }

    pub(super) fn with_reserve(self, creates_reserve: bool) -> SegmentRequest<D> {
        SegmentRequest { creates_reserve, ..self }
    }

    /// Executes the request. Takes as long as writing and syncing a whole segment, or some syncs if a spare is used.
    ///
    /// # Errors
    /// Disk errors.
    pub fn execute(self) -> Result<PreparedSegment<D>, LogError> {
        let unfinished = self
            .spare
            .map_or_else(|| Name::Segment(self.header.number).new_name(), |number| Name::Spare(number).to_string());
        let is_new = self.spare.is_none();
        let disk = self.disk.clone();
        let prepared = self.make(&unfinished);
        if is_new && prepared.is_err() {
            // An unfinished file takes up space. If the removal fails too, the next start removes the file.
            let _ = disk.remove(&unfinished);
        }
        prepared
    }

    fn make(self, unfinished: &str) -> Result<PreparedSegment<D>, LogError> {
        let SegmentRequest { disk, header, spare, creates_reserve } = self;
        let name = Name::Segment(header.number);
        let file = match spare {
            Some(_) => {
                // Before its header changes, the file must have lost its segment name, even after a crash.
                disk.sync_directory()?;
                disk.open(unfinished)?
            }
            None => disk.create(unfinished, header.bytes)?,
        };
        file.write_durably(0, &header.to_bytes())?;
        disk.rename(unfinished, &name.to_string())?;
        disk.sync_directory()?;
        // From here on, the absence of the file counts as damage.
        write_version(&disk, Version::new(header.log, header.number))?;
        let reserve_created = creates_reserve && create_reserve(&disk);
        Ok(PreparedSegment { segment: Segment { header, file, at: FIRST_FRAME_OFFSET as u64 }, reserve_created })
    }
}

/// Writes the version file, which names the segment that was created last. If that segment is missing, the log is damaged.
pub(super) fn write_version<D: Disk>(disk: &D, version: Version) -> Result<(), LogError> {
    let text = version.to_text();
    let unfinished = format!("{VERSION_NAME}{NEW_SUFFIX}");
    let file = disk.create(&unfinished, text.len() as u64)?;
    file.write_durably(0, text.as_bytes())?;
    disk.rename(&unfinished, VERSION_NAME)?;
    disk.sync_directory()?;
    Ok(())
}
