//! The log without threads: collects frames and commits them with one write and one sync.

mod group;
mod locked_directory;
mod open;
mod reserve;
mod segment;
mod settings;

use std::io::ErrorKind;

use crate::disk::{Disk, DiskFile};
use crate::error::LogError;
use crate::format::{BLOCK_BYTES, FIRST_FRAME_OFFSET, FRAME_BODY_MAX_BYTES, FileKind, FrameKind, Header, Name};
use crate::mutant::{Mutant, is};
use crate::numbers::{Epoch, LogId, Position, SegmentNumber, ShardNumber, TurnNumber};
pub use group::GROUP_MAX_BYTES;
pub(crate) use group::Group;
pub use locked_directory::LockedDirectory;
pub use open::OpenReport;
pub use reserve::RESERVE_BYTES;
pub use segment::{PreparedSegment, SegmentRequest};
use segment::{RetiredSegment, Segment};
pub use settings::{
    OnDamage, SEGMENT_DEFAULT_BYTES, SEGMENT_MAX_BYTES, SEGMENT_MIN_BYTES, SPARE_SEGMENTS_MAX, Settings,
};

/// A log that is open for writing.
///
/// [`Log::append`] takes frames, and [`Log::commit`] makes them durable. A failed write or sync is final: every later call fails, and
/// nothing more is written.
#[derive(Debug)]
pub struct Log<D: Disk> {
    disk: D,
    _lock: D::Lock,
    id: LogId,
    epoch: Epoch,
    /// The last frame before this epoch.
    epoch_start: Position,
    segment_bytes: u64,
    write_before_sync: bool,
    group: Group,
    current: Segment<D::File>,
    next: Next<D::File>,
    /// There is no space for the next segment.
    is_low_on_space: bool,
    /// Segments before the current one, the oldest first.
    retired: Vec<RetiredSegment>,
    /// Spare files, under the names of their former segments.
    spares: Vec<SegmentNumber>,
    durable: Position,
    /// The last frame is named by something durable.
    is_sealed: bool,
    needs_reserve: bool,
    failure: Option<LogError>,
}

/// The state of the next segment.
#[derive(Debug)]
enum Next<F> {
    None,
    /// There was no space for it.
    DiskFull,
    /// It is being prepared.
    Requested,
    Ready(Segment<F>),
}

/// Why a frame was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendError {
    /// The group is full: call [`Log::commit`] first.
    BatchFull,
    /// The body exceeds [`FRAME_BODY_MAX_BYTES`].
    TooLarge,
    /// The log has failed, see [`Log::failure`].
    Failed,
}

impl<D: Disk> Log<D> {
    /// Appends a frame. It is durable after the next successful [`Log::commit`].
    ///
    /// # Errors
    /// See [`AppendError`]. The frame was not taken.
    pub fn append(&mut self, shard: ShardNumber, turn: TurnNumber, body: &[u8]) -> Result<(), AppendError> {
        if self.failure.is_some() {
            return Err(AppendError::Failed);
        }
        if body.len() > FRAME_BODY_MAX_BYTES {
            return Err(AppendError::TooLarge);
        }
        let room = self.segment_bytes - FIRST_FRAME_OFFSET as u64;
        if !self.group.is_empty() && self.group.bytes_with(body.len()) as u64 > room.min(GROUP_MAX_BYTES as u64) {
            return Err(AppendError::BatchFull);
        }
        self.group.push(FrameKind::Turn, shard, turn, body);
        Ok(())
    }

    /// Makes all appended frames durable with one write and one sync. Returns the last durable position.
    ///
    /// # Errors
    /// A disk error, now and on every later call. The frames may or may not be durable.
    pub fn commit(&mut self) -> Result<Position, LogError> {
        self.commit_with_callback(|| {})
    }

    /// Like [`Log::commit`], but calls `written` between write and sync if [`Settings::write_before_sync`] is set. At that point the frames
    /// survive the end of the process, but not a crash of the system.
    ///
    /// # Errors
    /// As for [`Log::commit`].
    pub fn commit_with_callback(&mut self, written: impl FnOnce()) -> Result<Position, LogError> {
        self.check()?;
        if !self.group.is_empty() {
            let result = self.write(written);
            self.record_failure(result)?;
        }
        Ok(self.durable)
    }

    fn write(&mut self, written: impl FnOnce()) -> Result<(), LogError> {
        if !self.current.fits(self.group.padded_bytes()) {
            self.roll(self.group.padded_bytes() as u64)?;
        }
        let start = Position(self.current.header.base.0 + self.current.at);
        let last = self.group.stamp(start, self.durable, self.epoch);
        let bytes = self.group.bytes();
        if is(Mutant::SkipsSync) {
            self.current.file.write_at(self.current.at, bytes)?;
            written();
        } else if self.write_before_sync {
            self.current.file.write_at(self.current.at, bytes)?;
            written();
            self.current.file.sync_data()?;
        } else {
            self.current.file.write_durably(self.current.at, bytes)?;
        }
        self.current.at += bytes.len() as u64;
        self.durable = last;
        self.is_sealed = false;
        self.group.clear();
        Ok(())
    }

    /// Stores the last durable position outside of the frames, so that damage to the last frames is detected later. The next group would
    /// store the same, so this is for an idle log. Does nothing if the position is stored already.
    ///
    /// # Errors
    /// The log has failed, or fails now.
    pub fn seal(&mut self) -> Result<(), LogError> {
        self.check()?;
        if self.is_sealed {
            return Ok(());
        }
        let result = self.current.seal(self.durable);
        self.record_failure(result)?;
        self.is_sealed = true;
        Ok(())
    }

    /// Whether the last frame is sealed, see [`Log::seal`].
    pub fn is_sealed(&self) -> bool {
        self.is_sealed
    }

    /// Switches to the next segment, which has space for a group of `bytes`.
    fn roll(&mut self, bytes: u64) -> Result<(), LogError> {
        loop {
            let segment = match std::mem::replace(&mut self.next, Next::None) {
                Next::Ready(segment) => segment,
                Next::None | Next::DiskFull => {
                    let segment = self.segment_request(bytes, 0).execute()?.segment;
                    self.is_low_on_space = false;
                    segment
                }
                Next::Requested => {
                    self.next = Next::Requested;
                    return Err(LogError::Settings("a segment was requested and must be installed before the commit"));
                }
            };
            let full = std::mem::replace(&mut self.current, segment);
            self.retired.push(full.retire());
            // A prepared segment may be too small for one large frame; then it stays empty.
            if self.current.fits(bytes as usize) {
                return Ok(());
            }
        }
    }

    /// Creates the request for the next segment, with space for a group of `bytes`.
    fn segment_request(&mut self, bytes: u64, now_ms: u64) -> SegmentRequest<D> {
        let needed = bytes.next_multiple_of(BLOCK_BYTES as u64) + FIRST_FRAME_OFFSET as u64;
        let is_usual = needed <= self.segment_bytes;
        let header = Header {
            kind: FileKind::Segment,
            number: SegmentNumber(self.current.header.number.0 + 1),
            base: Position(self.current.header.base.0 + self.current.header.bytes),
            bytes: needed.max(self.segment_bytes),
            epoch: self.epoch,
            after: self.epoch_start,
            log: self.id,
            written_at_ms: now_ms,
            place: Some(self.current.header.place.unwrap_or(0) + 1),
        };
        let spare = if is_usual { self.spares.pop() } else { None };
        SegmentRequest::new(self.disk.clone(), header, spare).with_reserve(self.needs_reserve)
    }

    /// Whether [`Log::commit`] needs the requested segment, so that [`Log::install_segment`] must be called first.
    pub fn needs_segment(&self) -> bool {
        matches!(self.next, Next::Requested) && !self.current.fits(self.group.padded_bytes())
    }

    /// Returns the work that prepares the next segment, or `None` if it is ready or already requested. The work takes long and may run on
    /// another thread, but not after the log was closed or dropped, because another process may then own the directory. `now_ms`: Unix
    /// time.
    pub fn request(&mut self, now_ms: u64) -> Option<SegmentRequest<D>> {
        if self.failure.is_some() || !matches!(self.next, Next::None) {
            return None;
        }
        let request = self.segment_request(0, now_ms);
        self.next = Next::Requested;
        Some(request)
    }

    /// Installs the requested segment. A lack of disk space is not yet a failure.
    ///
    /// # Errors
    /// The log has failed, or fails now because the state of the disk is unknown.
    pub fn install_segment(&mut self, prepared: Result<PreparedSegment<D>, LogError>) -> Result<(), LogError> {
        self.check()?;
        if let Err(LogError::Disk(error)) = &prepared
            && matches!(error.kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
        {
            (self.next, self.is_low_on_space) = (Next::DiskFull, true);
            return Ok(());
        }
        let prepared = self.record_failure(prepared)?;
        (self.next, self.is_low_on_space) = (Next::Ready(prepared.segment), false);
        self.needs_reserve &= !prepared.reserve_created;
        Ok(())
    }

    /// Whether the disk has no space for the next segment. The log continues to the end of the current segment, and fails there if there is
    /// still no space.
    pub fn is_low_on_space(&self) -> bool {
        self.is_low_on_space
    }

    /// Allows the next [`Log::request`] to try again after a lack of space.
    pub fn retry_allocation(&mut self) {
        if matches!(self.next, Next::DiskFull) {
            self.next = Next::None;
        }
    }

    /// Prepares the next segment on this thread.
    ///
    /// # Errors
    /// As for [`Log::install_segment`].
    pub fn prepare(&mut self, now_ms: u64) -> Result<(), LogError> {
        match self.request(now_ms) {
            Some(request) => self.install_segment(request.execute()),
            None => self.check(),
        }
    }

    /// Releases segments whose frames are all at or before `position`, because a snapshot covers them. Segments of the usual size are kept
    /// for reuse.
    ///
    /// # Errors
    /// The log has failed, or fails now.
    pub fn release(&mut self, position: Position) -> Result<(), LogError> {
        self.check()?;
        let result = self.release_up_to(position);
        self.record_failure(result)
    }

    /// Releases all segments of earlier epochs. A snapshot must cover everything that the log had when it was opened.
    ///
    /// # Errors
    /// The log has failed, or fails now.
    pub fn release_previous_epochs(&mut self) -> Result<(), LogError> {
        let is_earlier = |segment: &&RetiredSegment| segment.epoch != self.epoch;
        match self.retired.iter().rev().find(is_earlier).map(|segment| segment.end) {
            Some(end) => self.release(end),
            None => self.check(),
        }
    }

    fn release_up_to(&mut self, position: Position) -> Result<(), LogError> {
        let is_covered = |segment: &&RetiredSegment| {
            segment.end <= position
                || is(Mutant::ReleasesUncoveredFrames) && segment.end.0 <= position.0 + segment.bytes
        };
        while let Some(oldest) = self.retired.first().filter(is_covered) {
            let number = oldest.number;
            let name = Name::Segment(number).to_string();
            let is_usual = oldest.bytes == self.segment_bytes;
            if oldest.is_damaged {
                self.disk.rename(&name, &Name::Damaged(number).to_string())?;
            } else if is_usual && self.spares.len() < SPARE_SEGMENTS_MAX {
                self.disk.rename(&name, &Name::Spare(number).to_string())?;
                self.spares.push(number);
            } else {
                self.disk.remove(&name)?;
            }
            self.retired.remove(0);
        }
        self.retry_allocation();
        Ok(())
    }

    /// Makes all appended frames durable and marks the log as cleanly closed.
    ///
    /// # Errors
    /// The log has failed, or fails now.
    pub fn close(mut self) -> Result<(), LogError> {
        self.close_cleanly()
    }

    pub(crate) fn close_cleanly(&mut self) -> Result<(), LogError> {
        self.commit()?;
        self.group.push(FrameKind::Closed, ShardNumber(0), TurnNumber(0), &[]);
        // A few frames are not worth waiting for a segment; without them the log is not cleanly closed, that is all.
        if self.needs_segment() {
            self.group.clear();
        }
        self.commit()?;
        self.seal()
    }

    /// Returns the position of the last durable frame.
    pub fn durable(&self) -> Position {
        self.durable
    }

    /// Returns the failure after which nothing is written, if any.
    pub fn failure(&self) -> Option<&LogError> {
        self.failure.as_ref()
    }

    /// Returns the identifier of the log.
    pub fn id(&self) -> LogId {
        self.id
    }

    /// Returns the epoch of this opening.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns the bytes of all segments that hold frames.
    pub fn held_bytes(&self) -> u64 {
        self.retired.iter().map(|segment| segment.bytes).sum::<u64>() + self.current.at
    }

    fn check(&self) -> Result<(), LogError> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    fn record_failure<T>(&mut self, result: Result<T, LogError>) -> Result<T, LogError> {
        if let Err(error) = &result {
            self.failure = Some(error.clone());
        }
        result
    }
}
