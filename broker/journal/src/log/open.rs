//! Opens a log: reads its frames and begins a new epoch after the last one.

use crate::disk::{Disk, DiskFile};
use crate::error::LogError;
use crate::format::{BLOCK_BYTES, FileKind, Frame, Header, NEW_SUFFIX, Name, RESERVE_NAME, Version};
use crate::log::group::Group;
use crate::log::locked_directory::LockedDirectory;
use crate::log::segment::{RetiredSegment, SegmentRequest, write_version};
use crate::log::settings::{OnDamage, SPARE_SEGMENTS_MAX, Settings};
use crate::log::{Log, Next};
use crate::numbers::{Epoch, LogId, Position, SegmentNumber};
use crate::reader::{Damage, LogEnd, Reader, SegmentFile, Segments, Step, read_names};

/// The findings of opening a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenReport {
    /// How the log ended.
    pub end: LogEnd,
    /// The lost data; empty unless damage was skipped. Every opening finds it again until the damaged segments have been released, so take
    /// a snapshot soon.
    pub damage: Vec<Damage>,
    /// When the last segment was begun, in milliseconds of Unix time; 0 if there is none.
    pub written_at_ms: u64,
}

impl<D: Disk> Log<D> {
    /// Opens a log, or creates one if there is none, and begins a new epoch.
    ///
    /// Passes every frame after `covered` to `visit` in order; if `visit` fails, the log is not opened. `covered` is a position that
    /// [`Log::durable`] has returned. `epoch` and `new_id` are random numbers; `new_id` identifies the log if it is created. `now_ms`: Unix
    /// time.
    ///
    /// # Errors
    /// See [`LogError`]. The log is then unchanged, except that unfinished files may have been removed.
    pub fn open(
        disk: &D,
        settings: Settings,
        covered: Position,
        epoch: Epoch,
        new_id: LogId,
        now_ms: u64,
        visit: impl FnMut(Frame<'_>) -> Result<(), Box<str>>,
    ) -> Result<(Log<D>, OpenReport), LogError> {
        Log::open_locked(LockedDirectory::take(disk)?, settings, covered, epoch, new_id, now_ms, visit)
    }

    /// Like [`Log::open`], in a directory that is already locked.
    ///
    /// # Errors
    /// As for [`Log::open`].
    pub fn open_locked(
        directory: LockedDirectory<D>,
        settings: Settings,
        covered: Position,
        epoch: Epoch,
        new_id: LogId,
        now_ms: u64,
        visit: impl FnMut(Frame<'_>) -> Result<(), Box<str>>,
    ) -> Result<(Log<D>, OpenReport), LogError> {
        settings.check()?;
        let LockedDirectory { disk, lock } = directory;
        let disk = &disk;
        // A process that has ended may have left names that are not durable.
        disk.sync_directory()?;
        let (known, mut names) = read_names(disk)?;
        for unfinished in names.extract_if(.., |name| name.ends_with(NEW_SUFFIX)) {
            disk.remove(&unfinished)?;
        }
        let mut reader = Reader::of_log(disk, &names, known, covered)?;
        let damage = read_all(&mut reader, settings.on_damage, visit)?;
        let end = reader.end().cloned().unwrap_or(LogEnd { last: covered, closed: false, torn: None });
        let id = known.map_or(new_id, |version| version.log);
        let segments = reader.into_segments();
        // Done before files are removed: the remaining segments are the last ones that must exist.
        let last_created = segments
            .iter()
            .filter(|segment| contains_frames(segment, end.last))
            .map(|segment| segment.header.number)
            .max();
        write_version(disk, Version::new(id, last_created.unwrap_or(SegmentNumber(0))))?;
        let written_at_ms = segments.iter().map(|segment| segment.header.written_at_ms).max().unwrap_or(0);
        let (number, base) = segments.next();
        let number = number.max(SegmentNumber(known.map_or(0, |version| version.last_created.0).saturating_add(1)));
        // A snapshot may be newer than the rest of the log, and so may the position up to which data is known to be lost.
        let base = if end.last > Position::START { base.max(next_block(covered.max(end.last))) } else { base };
        let (retired, mut spares) = sort_files(disk, &names, segments, end.last, settings.segment_bytes)?;
        let header = Header {
            kind: FileKind::Segment,
            number,
            base,
            bytes: settings.segment_bytes,
            epoch,
            after: end.last,
            log: id,
            written_at_ms: now_ms,
            place: Some(0),
        };
        let current = SegmentRequest::new(disk.clone(), header, spares.pop()).execute()?.segment;
        let log = Log {
            disk: disk.clone(),
            _lock: lock,
            id,
            epoch,
            epoch_start: end.last,
            segment_bytes: settings.segment_bytes,
            write_before_sync: settings.write_before_sync,
            group: Group::default(),
            current,
            next: Next::None,
            is_low_on_space: false,
            retired,
            spares,
            durable: end.last,
            is_sealed: true,
            needs_reserve: settings.has_reserve && !names.iter().any(|name| name == RESERVE_NAME),
            failure: None,
        };
        Ok((log, OpenReport { end, damage, written_at_ms }))
    }
}

/// Passes all frames to `visit`, and returns the damage between them.
fn read_all<D: Disk>(
    reader: &mut Reader<D>,
    on_damage: OnDamage,
    mut visit: impl FnMut(Frame<'_>) -> Result<(), Box<str>>,
) -> Result<Vec<Damage>, LogError> {
    let mut damage = Vec::new();
    while let Some(step) = reader.step()? {
        match step {
            Step::Frame(frame) => {
                visit(frame).map_err(|cause| LogError::Refused { at: frame.position, cause })?;
            }
            Step::Damage(found) if on_damage == OnDamage::Refuse => return Err(LogError::Damaged(found.into())),
            Step::Damage(found) => damage.push(found),
        }
    }
    Ok(damage)
}

/// The start of the block after a position.
fn next_block(position: Position) -> Position {
    Position((position.0 / BLOCK_BYTES as u64 + 1).saturating_mul(BLOCK_BYTES as u64))
}

/// Whether a segment has valid frames, or lost data.
fn contains_frames(segment: &SegmentFile, last: Position) -> bool {
    segment.header.base < last || segment.is_damaged
}

/// Classifies the files: returns the segments with frames and the spares, and removes the rest.
fn sort_files<D: Disk>(
    disk: &D,
    names: &[String],
    segments: Segments,
    last: Position,
    segment_bytes: u64,
) -> Result<(Vec<RetiredSegment>, Vec<SegmentNumber>), LogError> {
    let mut spares = Vec::new();
    for name in names {
        let Some(Name::Spare(number)) = Name::parse(name) else { continue };
        if spares.len() < SPARE_SEGMENTS_MAX && disk.open(name)?.size_bytes()? == segment_bytes {
            spares.push(number);
        } else {
            disk.remove(name)?;
        }
    }
    let mut retired = Vec::new();
    for segment in segments.iter() {
        let Header { number, base, bytes, epoch, .. } = segment.header;
        let name = segment.name();
        if contains_frames(segment, last) {
            let end = Position(base.0.saturating_add(bytes));
            retired.push(RetiredSegment { number, epoch, end, bytes, is_damaged: segment.is_damaged });
        } else if bytes == segment_bytes && spares.len() < SPARE_SEGMENTS_MAX {
            disk.rename(&name, &Name::Spare(number).to_string())?;
            spares.push(number);
        } else {
            disk.remove(&name)?;
        }
    }
    // A segment without a header cannot be read by programs, but may help people.
    for &(number, _) in &segments.lost_headers {
        disk.rename(&Name::Segment(number).to_string(), &Name::Damaged(number).to_string())?;
    }
    Ok((retired, spares))
}
