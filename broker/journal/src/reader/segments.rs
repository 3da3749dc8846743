//! The segments of a log in order, and the last valid position of each.

use std::collections::{BTreeSet, VecDeque};
use std::ops::{Index, Range};

use crate::disk::Disk;
use crate::error::LogError;
use crate::format::{
    BLOCK_BYTES, EPOCH_OFFSET, FIRST_FRAME_OFFSET, FRAME_ALIGN, FileKind, FrameLocation, Header, Name, Version,
    is_frame_start, parse,
};
use crate::mutant::{Mutant, is};
use crate::numbers::{Position, SegmentNumber};
use crate::reader::file::read_header_and_seal;
use crate::reader::{Damage, DamageKind, PossiblyAffected};

/// An offset in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentOffset {
    pub(super) segment: usize,
    pub(super) offset: usize,
}

#[derive(Debug)]
pub(crate) struct Segments {
    list: Vec<SegmentFile>,
    /// Damage that is not reported yet.
    damage: VecDeque<Damage>,
    /// Missing files that no frame has revealed. They are reported last.
    missing: VecDeque<Damage>,
    /// Segments whose header is lost, and the sizes of their files.
    pub(crate) lost_headers: Vec<(SegmentNumber, u64)>,
    /// Everything up to here was durable, whatever the segments say.
    known: Position,
}

#[derive(Debug)]
pub(crate) struct SegmentFile {
    pub(crate) header: Header,
    /// Frames after this position are invalid: a later epoch began without them.
    limit: Position,
    pub(crate) is_damaged: bool,
    /// The bytes were read, and unreadable ones were reported.
    is_reported: bool,
}

impl SegmentFile {
    pub(crate) fn name(&self) -> String {
        Name::Segment(self.header.number).to_string()
    }

    fn position(&self, offset: usize) -> Option<Position> {
        self.header.base.0.checked_add(offset as u64).map(Position)
    }

    /// Parses the frame at `offset` of the segment's bytes, if it is valid.
    pub(crate) fn frame_at(&self, bytes: &[u8], offset: usize) -> Option<FrameLocation> {
        let position = self.position(offset).filter(|position| *position <= self.limit)?;
        parse(bytes, offset, position, self.header.epoch)
    }

    /// Parses the frame at segment offset `at` from a part of the segment, in which it begins at `offset`.
    pub(super) fn frame_in(&self, piece: &[u8], offset: usize, at: u64) -> Option<FrameLocation> {
        let position = self.position(usize::try_from(at).ok()?).filter(|position| *position <= self.limit)?;
        parse(piece, offset, position, self.header.epoch)
    }

    /// Whether a frame that would be valid begins at `offset`, complete or not.
    pub(crate) fn is_frame_start(&self, bytes: &[u8], offset: usize) -> bool {
        let position = self.position(offset).filter(|position| *position <= self.limit);
        position.is_some_and(|position| is_frame_start(bytes, offset, position, self.header.epoch))
    }

    /// Finds the first offset from `from` on at which a frame begins that would be valid.
    pub(crate) fn next_frame_start(&self, bytes: &[u8], from: usize) -> Option<usize> {
        let epoch = self.header.epoch.get().to_le_bytes();
        let mut offset = from;
        while offset < bytes.len() {
            let may_be = bytes.get(offset + EPOCH_OFFSET..offset + EPOCH_OFFSET + epoch.len()) == Some(&epoch)
                || is(Mutant::AcceptsOtherEpochs);
            if may_be && self.is_frame_start(bytes, offset) {
                return Some(offset);
            }
            offset += FRAME_ALIGN;
            // Most unwritten space is zeros. In a frame that begins in zeros, only the first field may be zero.
            if offset.is_multiple_of(BLOCK_BYTES) && bytes.get(offset..offset + BLOCK_BYTES) == Some(&ZEROS) {
                offset += BLOCK_BYTES - FRAME_ALIGN;
            }
        }
        None
    }
}

static ZEROS: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];

impl Segments {
    /// Reads all headers, which must name the same log as `version`.
    pub(super) fn of<D: Disk>(
        disk: &D,
        names: &[String],
        version: Option<Version>,
        covered: Position,
    ) -> Result<Segments, LogError> {
        let mut numbers: Vec<SegmentNumber> = names
            .iter()
            .filter_map(|name| match Name::parse(name) {
                Some(Name::Segment(number)) => Some(number),
                _ => None,
            })
            .collect();
        numbers.sort_unstable();
        let mut list: Vec<SegmentFile> = Vec::with_capacity(numbers.len());
        let mut lost_headers = Vec::new();
        let log = version.map(|version| version.log);
        let mut known = Position::START;
        for number in numbers {
            let base = list.last().and_then(|segment| segment.header.end()).unwrap_or_default();
            let fits = |header: &Header| {
                header.kind == FileKind::Segment
                    && header.number == number
                    && Some(header.log) == log
                    && header.base >= base
                    && header.bytes >= FIRST_FRAME_OFFSET as u64
            };
            match read_header_and_seal(disk, &Name::Segment(number).to_string())? {
                Ok((header, sealed)) if fits(&header) => {
                    known = known.max(sealed.unwrap_or_default());
                    list.push(SegmentFile { header, limit: Position(u64::MAX), is_damaged: false, is_reported: false });
                }
                Ok((header, _)) => lost_headers.push((number, header.bytes)),
                Err(bytes) => lost_headers.push((number, bytes)),
            }
        }
        let (damage, missing) = (VecDeque::new(), VecDeque::new());
        let mut segments = Segments { list, damage, missing, lost_headers, known };
        segments.set_limits();
        segments.report_lost_headers(covered);
        segments.find_missing(version.map_or(SegmentNumber(0), |version| version.last_created), covered);
        Ok(segments)
    }

    fn set_limits(&mut self) {
        let mut limit = Position(u64::MAX);
        let mut later: Option<Header> = None;
        for segment in self.list.iter_mut().rev() {
            if let Some(header) = later.filter(|header| header.epoch != segment.header.epoch)
                && !is(Mutant::AcceptsTruncatedFrames)
            {
                limit = limit.min(header.after);
            }
            segment.limit = limit;
            later = Some(segment.header);
        }
    }

    /// Reports a segment without a header as damage, unless the caller skips it.
    fn report_lost_headers(&mut self, covered: Position) {
        for &(number, bytes) in &self.lost_headers {
            let next = self.list.iter().find(|segment| segment.header.number > number);
            if next.is_some_and(|segment| segment.header.base <= covered) {
                continue;
            }
            let before = self.list.iter().rev().find(|segment| segment.header.number < number);
            self.damage.push_back(Damage {
                kind: DamageKind::HeaderLost,
                segment: number,
                bytes: 0..bytes,
                after: before.map_or(Position::START, |segment| segment.header.base),
                before: next.map(|segment| segment.header.base),
                possibly_affected: PossiblyAffected::default(),
            });
        }
    }

    /// Finds segments that were created but do not exist. Those that a snapshot covers may have been released.
    fn find_missing(&mut self, last_created: SegmentNumber, covered: Position) {
        let there: BTreeSet<u64> = self.numbers().collect();
        let mut missing = BTreeSet::new();
        for segment in self.list.iter().filter(|segment| segment.header.base > covered) {
            let number = segment.header.number.0;
            let first_of_epoch = number.saturating_sub(u64::from(segment.header.place.unwrap_or(0)));
            let before = there.range(..number).next_back().copied().unwrap_or(0);
            if before + 1 < number && first_of_epoch < number && !is(Mutant::AcceptsAnyFirstSegment) {
                // Segments before the next existing one may have been released.
                missing.insert(if before >= first_of_epoch { before + 1 } else { number - 1 });
            }
        }
        missing.retain(|number| *number <= last_created.0);
        let last = there.last().copied().unwrap_or(0);
        if last < last_created.0 && !is(Mutant::OmitsSegmentCount) {
            missing.insert(last + 1);
        }
        self.missing = missing.into_iter().map(|number| self.missing_at(SegmentNumber(number))).collect();
    }

    fn missing_at(&self, segment: SegmentNumber) -> Damage {
        let before = self.list.iter().rev().find(|other| other.header.number < segment);
        let behind = self.list.iter().find(|other| other.header.number > segment);
        Damage {
            kind: DamageKind::SegmentMissing,
            segment,
            bytes: 0..0,
            after: before.and_then(|before| before.header.end()).unwrap_or_default(),
            before: behind.map(|behind| behind.header.base),
            possibly_affected: PossiblyAffected::default(),
        }
    }

    fn numbers(&self) -> impl Iterator<Item = u64> {
        let listed = self.list.iter().map(|segment| segment.header.number.0);
        listed.chain(self.lost_headers.iter().map(|(number, _)| number.0))
    }

    /// Returns the next missing file, once there are no more frames.
    pub(super) fn take_missing(&mut self) -> Option<Damage> {
        self.missing.pop_front()
    }

    /// Marks a missing file as reported, because a frame has revealed it.
    pub(super) fn mark_missing_reported(&mut self, segment: SegmentNumber) {
        self.missing.retain(|damage| damage.segment != segment);
    }

    pub(super) fn take_damage(&mut self) -> Option<Damage> {
        self.damage.pop_front()
    }

    /// Whether there is damage that is not reported yet.
    pub(super) fn is_damaged(&self) -> bool {
        !self.damage.is_empty()
    }

    pub(super) fn put_damage(&mut self, damage: Damage) {
        self.damage.push_back(damage);
    }

    /// Reports the unreadable bytes of a segment, once, and only those after `covered`.
    pub(super) fn add_unreadable(&mut self, at: usize, ranges: Vec<Range<u64>>, covered: Position) {
        let Some(segment) = self.list.get_mut(at).filter(|segment| !segment.is_reported) else { return };
        segment.is_reported = true;
        let Header { number, base, .. } = segment.header;
        for bytes in ranges {
            // The header has a second copy.
            let bytes = bytes.start.max(FIRST_FRAME_OFFSET as u64)..bytes.end;
            if bytes.is_empty() {
                continue;
            }
            let start = base.0.saturating_add(bytes.start);
            if base.0.saturating_add(bytes.end) <= covered.0 || base >= segment.limit || start > segment.limit.0 {
                continue;
            }
            segment.is_damaged = true;
            self.damage.push_back(Damage {
                kind: DamageKind::Unreadable,
                segment: number,
                after: Position(base.0.saturating_add(bytes.start)),
                bytes,
                before: None,
                possibly_affected: PossiblyAffected::default(),
            });
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn get(&self, at: usize) -> Option<&SegmentFile> {
        self.list.get(at)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &SegmentFile> {
        self.list.iter()
    }

    pub(super) fn mark_damaged(&mut self, at: usize) {
        if let Some(segment) = self.list.get_mut(at) {
            segment.is_damaged = true;
        }
    }

    /// Whether a segment may have valid frames that are not covered.
    pub(super) fn is_needed(&self, at: usize, covered: Position) -> bool {
        self.list.get(at).is_some_and(|segment| {
            segment.header.end().is_some_and(|end| end > covered) && segment.header.base < segment.limit
        })
    }

    /// Returns the last frame that was read when a later epoch began.
    pub(super) fn last_known(&self) -> Position {
        self.list.last().map_or(Position::START, |segment| segment.header.after).max(self.known)
    }

    /// Requires that everything up to `durable` is readable.
    pub(super) fn require_durable(&mut self, durable: Position) {
        self.known = durable;
    }

    /// Resets the reports of unreadable bytes, because the bytes are read again.
    pub(super) fn reset_reported(&mut self) {
        self.list.iter_mut().for_each(|segment| (segment.is_reported, segment.is_damaged) = (false, false));
        self.damage.retain(|damage| damage.kind != DamageKind::Unreadable);
    }

    /// Finds the first missing segment at a hole, with its missing bytes, if numbers and bases show that there was one. `behind`: the
    /// segment in which the log continues.
    pub(super) fn missing_between(
        &self,
        hole: SegmentOffset,
        behind: Option<usize>,
    ) -> Option<(SegmentNumber, Range<u64>)> {
        let behind = self.list.get(behind?)?.header;
        let (number, end) = if behind.number == self.list.get(hole.segment)?.header.number {
            // Nothing of the first segment has been read, so the missing data is before it.
            if hole.segment != 0 || hole.offset != FIRST_FRAME_OFFSET {
                return None;
            }
            (SegmentNumber(behind.number.0.checked_sub(1)?), Position::START)
        } else {
            let before = self.list.iter().rev().find(|segment| segment.header.number < behind.number)?.header;
            (SegmentNumber(before.number.0 + 1), before.end()?)
        };
        let missing = behind.base.0.checked_sub(end.0).filter(|bytes| *bytes > 0)?;
        (number.0 > 0 && number < behind.number).then_some((number, 0..missing))
    }

    pub(super) fn last_number(&self) -> SegmentNumber {
        self.list.last().map_or(SegmentNumber(0), |segment| segment.header.number)
    }

    /// Returns number and base of the next new segment.
    pub(crate) fn next(&self) -> (SegmentNumber, Position) {
        let number = self.numbers().max().unwrap_or(0) + 1;
        // The sizes in lost headers are unknown; the file sizes are an upper bound.
        let lost: u64 = self.lost_headers.iter().map(|(_, bytes)| *bytes).fold(0, u64::saturating_add);
        let base = self.list.last().and_then(|segment| segment.header.end()).unwrap_or_default();
        (SegmentNumber(number), Position(base.0.saturating_add(lost)))
    }
}

impl Index<usize> for Segments {
    type Output = SegmentFile;

    fn index(&self, at: usize) -> &SegmentFile {
        &self.list[at]
    }
}
