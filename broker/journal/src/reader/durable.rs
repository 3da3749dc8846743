//! Reads frames that are known to be durable, one part of a segment at a time.

use crate::disk::{Disk, DiskFile};
use crate::error::LogError;
use crate::format::{
    BLOCK_BYTES, FIRST_FRAME_OFFSET, FRAME_BODY_MAX_BYTES, FRAME_HEADER_BYTES, Frame, FrameKind, FrameLocation,
    frame_bytes, u32_at,
};
use crate::numbers::Position;
use crate::reader::file::read_names;
use crate::reader::segments::Segments;

/// Bytes per read.
const READ_BYTES: usize = 1 << 20;

/// Reads the durable frames of a log after a position, in order. Unlike a [`Reader`](crate::Reader), it does not hold a whole segment in
/// memory and does not search for frames after a hole: it ends before the first invalid frame.
#[derive(Debug)]
pub struct DurableFrames<D: Disk> {
    disk: D,
    segments: Segments,
    covered: Position,
    last: Position,
    /// The position before the last frame's group, and the frame's index in the group.
    link: Option<(Position, u32)>,
    /// The index of the segment, and the offset of the next frame in it.
    segment: usize,
    at: u64,
    window: Window<D::File>,
}

impl<D: Disk> DurableFrames<D> {
    /// Reads the headers of all segments. `covered` is the last frame to skip.
    ///
    /// # Errors
    /// As for [`Reader::open`](crate::Reader::open).
    pub fn open(disk: &D, covered: Position) -> Result<DurableFrames<D>, LogError> {
        let (version, names) = read_names(disk)?;
        Ok(DurableFrames {
            disk: disk.clone(),
            segments: Segments::of(disk, &names, version, covered)?,
            covered,
            last: covered,
            link: None,
            segment: 0,
            at: FIRST_FRAME_OFFSET as u64,
            window: Window::default(),
        })
    }

    /// Returns the position of the last frame found, of any kind.
    pub fn last(&self) -> Position {
        self.last
    }

    /// Returns the next turn frame, or `None` at the end and before a hole.
    ///
    /// # Errors
    /// Disk errors, if a file cannot be opened.
    pub fn step(&mut self) -> Result<Option<Frame<'_>>, LogError> {
        let found = loop {
            let Some((at, frame)) = self.next()? else { return Ok(None) };
            if !self.follows(&frame) {
                return Ok(None);
            }
            self.at = at + frame.bytes() as u64;
            self.last = self.last.max(frame.position);
            self.link = Some((frame.durable, frame.index));
            if frame.position > self.covered && frame.kind == FrameKind::Turn {
                break (at, frame);
            }
        };
        Ok(Some(found.1.frame(&self.window.bytes, self.window.offset(found.0))))
    }

    /// Finds the next frame: directly after the last, at the next block, or in the next segment.
    fn next(&mut self) -> Result<Option<(u64, FrameLocation)>, LogError> {
        while self.segment < self.segments.len() && !self.segments.is_damaged() {
            if self.segments.is_needed(self.segment, self.covered) {
                for at in [self.at, self.at.next_multiple_of(BLOCK_BYTES as u64)] {
                    if let Some(frame) = self.frame_at(at)? {
                        return Ok(Some((at, frame)));
                    }
                }
            }
            self.segment += 1;
            self.at = FIRST_FRAME_OFFSET as u64;
            self.window.close();
        }
        Ok(None)
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

    fn frame_at(&mut self, at: u64) -> Result<Option<FrameLocation>, LogError> {
        let DurableFrames { disk, window, segments, .. } = self;
        let segment = &segments[self.segment];
        if window.file.is_none() {
            let file = disk.open(&segment.name())?;
            window.end = file.size_bytes()?.min(segment.header.bytes);
            window.file = Some(file);
        }
        if !window.has(at, FRAME_HEADER_BYTES) {
            return Ok(None);
        }
        let body_bytes = u32_at(&window.bytes, window.offset(at)).unwrap_or(u32::MAX) as usize;
        if body_bytes > FRAME_BODY_MAX_BYTES || !window.has(at, frame_bytes(body_bytes)) {
            return Ok(None);
        }
        Ok(segment.frame_in(&window.bytes, window.offset(at), at))
    }
}

/// A part of a file in memory.
#[derive(Debug)]
struct Window<F> {
    file: Option<F>,
    /// The end of the file.
    end: u64,
    bytes: Vec<u8>,
    /// The offset of `bytes` in the file.
    start: u64,
}

impl<F> Default for Window<F> {
    fn default() -> Window<F> {
        Window { file: None, end: 0, bytes: Vec::new(), start: 0 }
    }
}

impl<F: DiskFile> Window<F> {
    /// Closes the file and keeps the memory for the next one.
    fn close(&mut self) {
        self.file = None;
        self.bytes.clear();
    }

    /// Returns the index in `bytes` of a file offset.
    fn offset(&self, at: u64) -> usize {
        (at - self.start) as usize
    }

    /// Makes sure that `bytes` bytes from `at` on are loaded. Returns false if the file ends earlier or cannot be read.
    fn has(&mut self, at: u64, bytes: usize) -> bool {
        let end = at.saturating_add(bytes as u64);
        if end > self.end {
            return false;
        }
        if at >= self.start && end <= self.start + self.bytes.len() as u64 {
            return true;
        }
        let wanted = (bytes.max(READ_BYTES) as u64).min(self.end - at);
        self.bytes.clear();
        self.bytes.resize(wanted as usize, 0);
        self.start = at;
        let is_read = self.file.as_ref().is_some_and(|file| file.read_at(at, &mut self.bytes).is_ok());
        if !is_read {
            self.bytes.clear();
        }
        is_read
    }
}
