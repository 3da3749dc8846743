//! The log without threads: frames are put together, and made durable with one write and one sync.

mod group;
mod open;
mod reserve;
mod segment;

use std::io::ErrorKind;

use crate::disk::{Disk, DiskFile};
use crate::error::LogError;
use crate::format::{FIRST_FRAME_OFFSET, FRAME_BODY_MAX_BYTES, FrameKind, Name};
use crate::mutant::{Mutant, is};
use crate::numbers::{Epoch, LogId, Position, SegmentNumber, ShardNumber, TurnNumber};
pub(crate) use group::Group;
pub use open::{LockedDirectory, OnDamage, OpenReport};
pub use reserve::RESERVE_BYTES;
pub use segment::{PreparedSegment, SegmentRequest};
use segment::{RetiredSegment, Segment};

/// The size of a segment by default, in bytes.
pub const SEGMENT_DEFAULT_BYTES: u64 = 16 << 20;
/// The smallest segment in bytes.
pub const SEGMENT_MIN_BYTES: u64 = 64 << 10;
/// The largest segment in bytes. A frame of the largest size fits.
pub const SEGMENT_MAX_BYTES: u64 = 1 << 30;
/// Frames join a group up to so many bytes; one that is larger is a group of its own.
pub const GROUP_MAX_BYTES: usize = 8 << 20;
/// So many files are kept to be used again; others are removed.
pub const SPARE_SEGMENTS_MAX: usize = 2;

/// How a log is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Size of new segments in bytes, a multiple of 4096 from [`SEGMENT_MIN_BYTES`] to [`SEGMENT_MAX_BYTES`].
    pub segment_bytes: u64,
    /// What to do where something durable is gone.
    pub on_damage: OnDamage,
    /// A group is handed to the system first and made durable after that, in two steps, since somebody waits for the first alone.
    /// One step is faster.
    pub write_before_sync: bool,
    /// [`RESERVE_BYTES`] are held back for a start on a full disk, see [`LockedDirectory::release_reserve`].
    pub has_reserve: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            segment_bytes: SEGMENT_DEFAULT_BYTES,
            on_damage: OnDamage::Refuse,
            write_before_sync: false,
            has_reserve: false,
        }
    }
}

/// A log that is open to write.
///
/// Frames are taken by [`Log::append`], and durable after [`Log::commit`]. A write or sync that fails is final: from then on
/// every call says so, and nothing is written any more.
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
    /// There was no space for the next segment, and there is none yet.
    is_low_on_space: bool,
    /// Segments before the current one, the oldest first.
    retired: Vec<RetiredSegment>,
    /// Files to be used again, which stand under the names of their former segments.
    spares: Vec<SegmentNumber>,
    durable: Position,
    /// Something that is durable names the last frame.
    is_sealed: bool,
    needs_reserve: bool,
    failure: Option<LogError>,
}

/// The segment behind the current one.
#[derive(Debug)]
enum Next<F> {
    None,
    /// There was no space for it.
    DiskFull,
    /// Somebody prepares it.
    Requested,
    Ready(Segment<F>),
}

/// Why a frame is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendError {
    /// The group is full: [`Log::commit`] first.
    BatchFull,
    /// The body has more than [`FRAME_BODY_MAX_BYTES`].
    TooLarge,
    /// The log has failed, see [`Log::failure`].
    Failed,
}

impl<D: Disk> Log<D> {
    /// Takes a frame. It is durable after the next [`Log::commit`] that succeeds.
    ///
    /// # Errors
    /// See [`AppendError`]. The frame has not been taken then.
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

    /// Makes all frames that have been taken durable, with one write and one sync, and says up to where the log is durable.
    ///
    /// # Errors
    /// That of the disk, now and at every later call. None of the frames may be taken for durable, nor for lost.
    pub fn commit(&mut self) -> Result<Position, LogError> {
        self.commit_with_callback(|| {})
    }

    /// The same. Where [`Settings::write_before_sync`] says so, `written` is called as soon as the system has the frames: they survive the
    /// end of the process then, and not yet that of the system.
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
        if is(Mutant::ForgetsToSync) {
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

    /// Writes down, apart from the frames, up to where the log is durable: if its last frames are damaged later, they are missed. The
    /// next group would say the same, so this is for when none follows. Does nothing where it is written down already.
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

    /// Whether nothing names the last frame yet, see [`Log::seal`].
    pub fn is_sealed(&self) -> bool {
        self.is_sealed
    }

    /// Goes on to the next segment, which has room for a group of `bytes`.
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
                    return Err(LogError::Settings("a segment was ordered, and has to be delivered before the commit"));
                }
            };
            let full = std::mem::replace(&mut self.current, segment);
            self.retired.push(full.retire());
            // A segment that was prepared may be too small for one large frame; it stays empty.
            if self.current.fits(bytes as usize) {
                return Ok(());
            }
        }
    }

    /// Whether [`Log::commit`] needs the segment that was ordered, so that [`Log::install_segment`] has to come first.
    pub fn needs_segment(&self) -> bool {
        matches!(self.next, Next::Requested) && !self.current.fits(self.group.padded_bytes())
    }

    /// What has to be done so that the next segment is ready before this one is full; `None` where it is ready, or ordered
    /// already. Carrying it out takes long, and may be done by another thread, but never after the log has been closed or
    /// dropped: the directory is another's then. `now_ms`: Unix time.
    pub fn request(&mut self, now_ms: u64) -> Option<SegmentRequest<D>> {
        if self.failure.is_some() || !matches!(self.next, Next::None) {
            return None;
        }
        let order = self.segment_request(0, now_ms);
        self.next = Next::Requested;
        Some(order)
    }

    /// Takes the segment that was ordered. That there was no space for it is no failure yet.
    ///
    /// # Errors
    /// The log has failed, or fails now, because it cannot be known what the disk has done of it.
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

    /// Whether there was no space for the next segment, and none has been made since. The log goes on to the end of the present one,
    /// and fails there unless there is space by then.
    pub fn is_low_on_space(&self) -> bool {
        self.is_low_on_space
    }

    /// There may be space now: the next [`Log::request`] tries again.
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
            Some(order) => self.install_segment(order.execute()),
            None => self.check(),
        }
    }

    /// Lets go of segments whose frames are all before `position`, or at it: a snapshot covers them. One of the usual size
    /// is kept to be used again.
    ///
    /// # Errors
    /// The log has failed, or fails now.
    pub fn release(&mut self, position: Position) -> Result<(), LogError> {
        self.check()?;
        let result = self.release_up_to(position);
        self.record_failure(result)
    }

    /// Lets go of all segments of earlier epochs: a snapshot covers all that was in the log when it was opened.
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
            segment.end <= position || is(Mutant::ReleasesTooMuch) && segment.end.0 <= position.0 + segment.bytes
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

    /// Makes durable what has been taken, and says that the log was closed in order.
    ///
    /// # Errors
    /// The log has failed, or fails now.
    pub fn close(mut self) -> Result<(), LogError> {
        self.close_cleanly()
    }

    pub(crate) fn close_cleanly(&mut self) -> Result<(), LogError> {
        self.commit()?;
        self.group.push(FrameKind::Closed, ShardNumber(0), TurnNumber(0), &[]);
        // A few bytes are not worth waiting for a segment; without them the log was not closed in order, no more.
        if self.needs_segment() {
            self.group.clear();
        }
        self.commit()?;
        self.seal()
    }

    /// The last frame that is durable.
    pub fn durable(&self) -> Position {
        self.durable
    }

    /// Why nothing is written any more, if so.
    pub fn failure(&self) -> Option<&LogError> {
        self.failure.as_ref()
    }

    /// Which log it is.
    pub fn id(&self) -> LogId {
        self.id
    }

    /// Names this opening.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Bytes of all segments that hold frames.
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
