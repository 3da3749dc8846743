//! Reads a log: its frames in order, and the damage.

mod damage;
mod durable;
mod file;
mod possibly_affected;
mod segments;

pub use damage::{Damage, DamageKind, LogEnd, PossiblyAffected, TornWrite};
pub use durable::DurableFrames;
use file::FileContent;
#[cfg(test)]
pub(crate) use file::read_header_and_seal;
pub(crate) use file::{read_header, read_in_chunks, read_names};
use segments::SegmentOffset;
pub(crate) use segments::{SegmentFile, Segments};

use crate::disk::Disk;
use crate::error::LogError;
use crate::format::{
    BLOCK_BYTES, FIRST_FRAME_OFFSET, FRAME_ALIGN, FRAME_BODY_MAX_BYTES, Frame, FrameKind, FrameLocation, Version,
    frame_bytes, u32_at,
};
use crate::mutant::{Mutant, is};
use crate::numbers::Position;

/// Reads the frames of a log after a position, in order.
///
/// Damage is a step like any other: the caller decides whether to stop or to continue.
#[derive(Debug)]
pub struct Reader<D: Disk> {
    disk: D,
    segments: Segments,
    /// Frames up to here are skipped.
    covered: Position,
    /// The last valid frame.
    last: Position,
    /// The position before that frame's group, and the frame's index in the group.
    link: Option<(Position, u32)>,
    last_is_close_frame: bool,
    content: Option<FileContent>,
    at: SegmentOffset,
    /// The next frame, which was found after damage.
    next: Option<LocatedFrame>,
    end: Option<LogEnd>,
    /// The log is being written to.
    is_in_use: bool,
}

/// One step of a [`Reader`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step<'a> {
    /// The next frame.
    Frame(Frame<'a>),
    /// Durable data is missing before the next frame, or before the end.
    Damage(Damage),
}

#[derive(Debug, Clone, Copy)]
struct LocatedFrame {
    at: SegmentOffset,
    frame: FrameLocation,
}

impl<D: Disk> Reader<D> {
    /// Reads the headers of all segments. `covered` is the last frame to skip, because a snapshot covers it; [`Position::START`] for none.
    ///
    /// # Errors
    /// [`LogError::UnsupportedVersion`], [`LogError::VersionMissing`], [`LogError::VersionDamaged`], [`LogError::Disk`].
    pub fn open(disk: &D, covered: Position) -> Result<Reader<D>, LogError> {
        let (version, names) = read_names(disk)?;
        Reader::of_log(disk, &names, version, covered)
    }

    /// Like [`Reader::open`], for a log that is being written to. Everything that is durable at the time of this call must be readable.
    /// After that, the first hole is the end: a partly written group is not damage.
    ///
    /// # Errors
    /// As for [`Reader::open`].
    pub fn open_in_use(disk: &D, covered: Position) -> Result<Reader<D>, LogError> {
        let mut reader = Reader::open(disk, covered)?;
        let durable = reader.find_durable()?;
        reader.segments.require_durable(durable);
        reader.is_in_use = true;
        Ok(reader)
    }

    /// Determines the last position that is known to be durable, from frames and segment headers.
    fn find_durable(&mut self) -> Result<Position, LogError> {
        let mut durable = self.segments.last_known();
        for at in (0..self.segments.len()).rev() {
            self.load(at)?;
            let mut offset = FIRST_FRAME_OFFSET;
            let mut has_frames = false;
            let segment = &self.segments[at];
            let bytes = self.content.as_ref().map_or(&[][..], |content| &content.bytes);
            while let Some(begun) = segment.next_frame_start(bytes, offset) {
                offset = begun + FRAME_ALIGN;
                if let Some(frame) = segment.frame_at(bytes, begun) {
                    durable = durable.max(frame.durable);
                    has_frames = true;
                    offset = begun + frame.bytes();
                }
            }
            if has_frames {
                break;
            }
        }
        // The loaded content may be older than the limits that apply now.
        self.content = None;
        self.segments.reset_reported();
        Ok(durable)
    }

    pub(crate) fn of_log(
        disk: &D,
        names: &[String],
        version: Option<Version>,
        covered: Position,
    ) -> Result<Reader<D>, LogError> {
        Ok(Reader {
            disk: disk.clone(),
            segments: Segments::of(disk, names, version, covered)?,
            covered,
            last: covered,
            link: None,
            last_is_close_frame: false,
            content: None,
            at: SegmentOffset { segment: 0, offset: FIRST_FRAME_OFFSET },
            next: None,
            end: None,
            is_in_use: false,
        })
    }

    /// Returns the next frame or damage, or `None` at the end, which [`Reader::end`] describes.
    ///
    /// # Errors
    /// [`LogError::Disk`] if a file cannot be opened. Unreadable bytes are damage.
    pub fn step(&mut self) -> Result<Option<Step<'_>>, LogError> {
        let found = loop {
            match self.advance()? {
                LookAhead::Damage(damage) => return Ok(Some(Step::Damage(damage))),
                LookAhead::LogEnd => return Ok(None),
                LookAhead::LocatedFrame(found) => {
                    let is_behind = found.frame.position > self.covered;
                    let is_missed = is(Mutant::StartsOneFrameLate) && self.is_at_start();
                    self.accept_frame(&found);
                    if is_behind && found.frame.kind == FrameKind::Turn && !is_missed {
                        break found;
                    }
                }
            }
        };
        self.load(found.at.segment)?;
        let bytes = self.content.as_ref().map_or(&[][..], |content| &content.bytes);
        Ok(Some(Step::Frame(found.frame.frame(bytes, found.at.offset))))
    }

    /// Whether there is a snapshot, and nothing after it has been read.
    fn is_at_start(&self) -> bool {
        self.covered > Position::START && self.last <= self.covered
    }

    fn advance(&mut self) -> Result<LookAhead, LogError> {
        loop {
            if let Some(damage) = self.segments.take_damage() {
                return Ok(LookAhead::Damage(damage));
            }
            if let Some(found) = self.next.take() {
                return Ok(LookAhead::LocatedFrame(found));
            }
            if self.end.is_some() {
                return Ok(self.segments.take_missing().map_or(LookAhead::LogEnd, LookAhead::Damage));
            }
            self.scan()?;
        }
    }

    fn accept_frame(&mut self, found: &LocatedFrame) {
        let frame = &found.frame;
        self.at = SegmentOffset { offset: found.at.offset + frame.bytes(), ..found.at };
        self.last = self.last.max(frame.position);
        self.link = Some((frame.durable, frame.index));
        self.last_is_close_frame = frame.kind == FrameKind::Closed;
    }

    /// Returns the end of the log, once [`Reader::step`] has returned `None`.
    pub fn end(&self) -> Option<&LogEnd> {
        self.end.as_ref()
    }

    pub(crate) fn into_segments(self) -> Segments {
        self.segments
    }

    /// Finds the next frame and the damage before it, or the end.
    fn scan(&mut self) -> Result<(), LogError> {
        let hole = self.at;
        self.next = self.find(hole, |_| true)?;
        if self.next.is_some_and(|found| self.follows(&found.frame)) {
            return Ok(());
        }
        // Something is missing, possibly only padding. Data before a later group or a later epoch was durable.
        let last = self.last;
        let known = self.segments.last_known();
        let later = match self.next {
            Some(_) if self.is_in_use => None,
            Some(found) => self.find(found.at, |frame| frame.durable > last)?,
            None => None,
        };
        if known <= last && later.is_none() {
            self.next = None;
            let torn = if self.last_is_close_frame || self.is_in_use { None } else { self.torn(hole)? };
            self.end = Some(LogEnd { last, closed: self.last_is_close_frame, torn });
            return Ok(());
        }
        let damage = self.damage(hole, self.next)?;
        self.segments.put_damage(damage);
        if self.next.is_none() {
            self.last = known;
        }
        Ok(())
    }

    fn follows(&self, frame: &FrameLocation) -> bool {
        if frame.position <= self.covered {
            return true;
        }
        match frame.index.checked_sub(1) {
            None => frame.durable == self.last || frame.durable <= self.covered && self.last <= self.covered,
            before => before.map(|before| (frame.durable, before)) == self.link,
        }
    }

    /// Finds the first valid frame from an offset on for which `wanted` returns true.
    fn find(
        &mut self,
        from: SegmentOffset,
        wanted: impl Fn(&FrameLocation) -> bool,
    ) -> Result<Option<LocatedFrame>, LogError> {
        let mut at = from;
        while at.segment < self.segments.len() {
            if !self.segments.is_needed(at.segment, self.covered) {
                at = SegmentOffset { segment: at.segment + 1, offset: FIRST_FRAME_OFFSET };
                continue;
            }
            self.load(at.segment)?;
            let segment = &self.segments[at.segment];
            if let Some(content) = &self.content {
                while let Some(offset) = segment.next_frame_start(&content.bytes, at.offset) {
                    at.offset = offset;
                    if let Some(frame) = segment.frame_at(&content.bytes, at.offset).filter(&wanted) {
                        return Ok(Some(LocatedFrame { at, frame }));
                    }
                    at.offset += FRAME_ALIGN;
                }
            }
            at = SegmentOffset { segment: at.segment + 1, offset: FIRST_FRAME_OFFSET };
        }
        Ok(None)
    }

    /// Finds the incomplete write after the last frame, if any.
    fn torn(&mut self, hole: SegmentOffset) -> Result<Option<TornWrite>, LogError> {
        let mut at = hole;
        while at.segment < self.segments.len() {
            self.load(at.segment)?;
            let segment = &self.segments[at.segment];
            let bytes = self.content.as_ref().map_or(&[][..], |content| &content.bytes);
            if let Some(offset) = segment.next_frame_start(bytes, at.offset) {
                let end = torn_write_end(segment, bytes, offset);
                let possibly_affected = possibly_affected::in_gap(segment, bytes, offset..end);
                let (offset, bytes) = (offset as u64, (end - offset) as u64);
                return Ok(Some(TornWrite { segment: segment.header.number, offset, bytes, possibly_affected }));
            }
            at = SegmentOffset { segment: at.segment + 1, offset: FIRST_FRAME_OFFSET };
        }
        Ok(None)
    }

    fn damage(&mut self, hole: SegmentOffset, behind: Option<LocatedFrame>) -> Result<Damage, LogError> {
        let hole = self.locate_damage(hole, behind)?;
        let Some(segment) = self.segments.get(hole.segment) else {
            return Ok(Damage::at_end(self.segments.last_number(), self.last));
        };
        let (number, bytes) = (segment.header.number, segment.header.bytes);
        self.segments.mark_damaged(hole.segment);
        let end = behind.filter(|found| found.at.segment == hole.segment).map(|found| found.at.offset as u64);
        let range = hole.offset as u64..end.unwrap_or(bytes);
        self.load(hole.segment)?;
        let possibly_affected = self.content.as_ref().map_or_else(PossiblyAffected::default, |content| {
            let until = (range.end as usize).min(content.bytes.len());
            possibly_affected::in_gap(&self.segments[hole.segment], &content.bytes, hole.offset..until)
        });
        let before = behind.map(|found| found.frame.position);
        let after = self.last;
        if let Some((segment, bytes)) = self.segments.missing_between(hole, behind.map(|found| found.at.segment)) {
            self.segments.mark_missing_reported(segment);
            return Ok(Damage { kind: DamageKind::SegmentMissing, segment, bytes, after, before, possibly_affected });
        }
        Ok(Damage { kind: DamageKind::FramesLost, segment: number, bytes: range, after, before, possibly_affected })
    }

    /// Locates the segment of the damage. A hole may begin in the unused rest of a segment; then the lost data was in a later one.
    fn locate_damage(&mut self, hole: SegmentOffset, behind: Option<LocatedFrame>) -> Result<SegmentOffset, LogError> {
        let mut at = hole;
        while at.segment < self.segments.len() {
            self.load(at.segment)?;
            let bytes = self.content.as_ref().map_or(&[][..], |content| &content.bytes);
            let begun = self.segments[at.segment].next_frame_start(bytes, at.offset);
            match behind.map(|found| found.at) {
                Some(found) if found.segment == at.segment => {
                    return Ok(if found.offset > at.offset { at } else { hole });
                }
                _ if begun.is_some() => return Ok(at),
                _ => at = SegmentOffset { segment: at.segment + 1, offset: FIRST_FRAME_OFFSET },
            }
        }
        Ok(hole)
    }

    fn load(&mut self, segment: usize) -> Result<(), LogError> {
        if self.content.as_ref().is_some_and(|content| content.segment == segment) {
            return Ok(());
        }
        let memory = self.content.take().map(|content| content.bytes).unwrap_or_default();
        let Some(file) = self.segments.get(segment) else { return Ok(()) };
        let (content, unreadable) = FileContent::load(&self.disk, segment, &file.name(), file.header.bytes, memory)?;
        let wanted_from = self.covered;
        self.content = Some(content);
        self.segments.add_unreadable(segment, unreadable, wanted_from);
        Ok(())
    }
}

/// Finds the end of an incomplete write that begins at `offset`, as far as its frames can be decoded.
fn torn_write_end(segment: &SegmentFile, bytes: &[u8], offset: usize) -> usize {
    let (mut begun, mut end) = (Some(offset), offset);
    while let Some(offset) = begun {
        let body_bytes = u32_at(bytes, offset).unwrap_or(0) as usize;
        let body_bytes = if body_bytes > FRAME_BODY_MAX_BYTES { 0 } else { body_bytes };
        end = end.max(offset + frame_bytes(body_bytes));
        begun = segment.next_frame_start(bytes, offset + FRAME_ALIGN);
    }
    end.next_multiple_of(BLOCK_BYTES).min(bytes.len())
}

enum LookAhead {
    LocatedFrame(LocatedFrame),
    Damage(Damage),
    LogEnd,
}
