//! The spill files, and a table that maps slots to places in them.

mod compaction;
mod reading;
mod table;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::io;

use tautwire_message::{Message, SPILL_MAX_BYTES, SpillRead, SpillRequest, SpillResponse, SpillSlot, Spilled};

use crate::files::{Files, ReadWrite};
use table::{RecordLocation, SlotTable};

/// The header of a stored message: checksum (4), slot (4), length (4). The checksum is the CRC-32C of everything after it.
const HEADER_BYTES: usize = 12;
/// The buffer is written to the file at this size.
const BUFFER_BYTES: usize = 1 << 20;

/// The size limits of a store.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// The limit of all files together, in bytes.
    pub limit_bytes: u64,
    /// The size of one file in bytes. A larger message gets a file of its own.
    pub file_bytes: u32,
}

/// The smallest file size, so that small limits work.
const FILE_MIN_BYTES: u64 = 64 << 10;
/// The largest file size, which bounds the work of compacting one file.
const FILE_MAX_BYTES: u64 = 64 << 20;
/// The approximate number of files when the limit is used up.
const FILES: u64 = 256;

impl Settings {
    /// Chooses a file size for a total limit, so that there are not too many files.
    pub fn with_limit(limit_bytes: u64) -> Settings {
        Settings { limit_bytes, file_bytes: (limit_bytes / FILES).clamp(FILE_MIN_BYTES, FILE_MAX_BYTES) as u32 }
    }
}

/// The counters of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Messages in the store.
    pub messages: u64,
    /// The bytes of these messages.
    pub live_bytes: u64,
    /// The size of all files in bytes.
    pub file_bytes: u64,
    /// Messages written so far, without those that compaction moved.
    pub written: u64,
    /// Messages read so far.
    pub read: u64,
    /// Messages that were not written because of an error.
    pub write_failures: u64,
    /// Messages that were not written because of the limit.
    pub refused: u64,
    /// Failed reads of messages.
    pub read_failures: u64,
    /// Messages in the store whose last read failed.
    pub unreadable: u64,
}

/// A store of messages in files.
pub struct Store<F: Files> {
    files: F,
    settings: Settings,
    table: SlotTable,
    segments: BTreeMap<u32, Segment<F::File>>,
    /// The file that is written to.
    current: Option<u32>,
    next_file: u32,
    /// Bytes that are not yet written; they belong at the end of the current file.
    buffer: Vec<u8>,
    compaction: Option<Compaction>,
    /// Messages whose last read failed.
    unreadable: HashSet<SpillSlot>,
    stats: Stats,
}

/// One file of the store.
struct Segment<F> {
    file: F,
    /// Bytes written to it.
    size: u32,
    /// Bytes of the messages in it that are not freed.
    live_bytes: u32,
    /// Contains an unreadable record, so it is not compacted.
    has_unreadable: bool,
}

/// The file that is being compacted, and the progress.
#[derive(Debug, Clone, Copy)]
struct Compaction {
    file: u32,
    offset: u32,
}

impl<F: Files> Store<F> {
    /// Creates an empty store.
    pub fn new(files: F, settings: Settings) -> Store<F> {
        Store {
            files,
            settings,
            table: SlotTable::default(),
            segments: BTreeMap::new(),
            current: None,
            next_file: 1,
            buffer: Vec::new(),
            compaction: None,
            unreadable: HashSet::new(),
            stats: Stats::default(),
        }
    }

    /// Returns the counters.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Executes a request of a shard.
    pub fn answer(&mut self, request: SpillRequest) -> SpillResponse {
        match request {
            SpillRequest::Write { ticket, messages } => {
                let slots = self.write(&messages);
                SpillResponse::Written { ticket, messages: messages.into_iter().zip(slots).collect() }
            }
            SpillRequest::Read { ticket, messages } => {
                let slots: Vec<SpillSlot> = messages.iter().map(Spilled::slot).collect();
                let mut bytes = Vec::new();
                let ranges = self.read(&slots, &mut bytes);
                SpillResponse::Read {
                    ticket,
                    messages: SpillRead::new(bytes, messages.into_iter().zip(ranges).collect()),
                }
            }
        }
    }

    /// Writes messages. Returns the slot of each, or `None` for a message that was not written.
    pub fn write<'a>(&mut self, messages: impl IntoIterator<Item = &'a Message>) -> Vec<Option<SpillSlot>> {
        let mut slots = Vec::new();
        // All slots before this index are in a file.
        let mut first_unsure = 0;
        let mut messages = messages.into_iter();
        for message in messages.by_ref() {
            match self.append(message) {
                Ok(slot) => slots.push(slot),
                Err(error) => {
                    slots.push(None);
                    self.stats.write_failures += 1;
                    self.mark_unwritten(&mut slots[first_unsure..], &error);
                    break;
                }
            }
            if self.buffer.len() >= BUFFER_BYTES {
                if let Err(error) = self.flush() {
                    self.mark_unwritten(&mut slots[first_unsure..], &error);
                    break;
                }
                first_unsure = slots.len();
            }
        }
        if let Err(error) = self.flush() {
            self.mark_unwritten(&mut slots[first_unsure..], &error);
        }
        // A disk that fails now will most likely fail again at once.
        for _ in messages {
            slots.push(None);
            self.stats.write_failures += 1;
        }
        slots
    }

    /// Marks buffered messages as not written and frees their slots.
    #[cold]
    fn mark_unwritten(&mut self, slots: &mut [Option<SpillSlot>], error: &io::Error) {
        log::error!("cannot write messages to the spill store, so they stay in memory: {error}");
        for slot in slots {
            if let Some(slot) = slot.take() {
                self.stats.written -= 1;
                self.stats.write_failures += 1;
                self.free(slot);
            }
        }
    }

    /// Appends a message to the buffer. Returns `None` if it would exceed the limit. An error may affect all messages in the buffer.
    fn append(&mut self, message: &Message) -> io::Result<Option<SpillSlot>> {
        let message = message.as_ref();
        let bytes = HEADER_BYTES + message.stored_bytes();
        let Some(len) = u32::try_from(bytes).ok().filter(|_| message.allocated_bytes() <= SPILL_MAX_BYTES) else {
            return Ok(None);
        };
        if self.stats.file_bytes + (self.buffer.len() + bytes) as u64 > self.settings.limit_bytes {
            self.stats.refused += 1;
            return Ok(None);
        }
        let file = self.ensure_space(len)?;
        let Some(slot) = self.table.take_free_slot() else {
            self.stats.refused += 1;
            return Ok(None);
        };
        let at = self.buffer.len();
        self.buffer.extend_from_slice(&[0; HEADER_BYTES]);
        message.append_stored(&mut self.buffer);
        seal(&mut self.buffer[at..], slot);
        let Some(segment) = self.segments.get_mut(&file) else { return Ok(None) };
        self.table.set(slot, RecordLocation { file, offset: segment.size + at as u32, len });
        segment.live_bytes += len;
        self.stats.messages += 1;
        self.stats.live_bytes += u64::from(len);
        self.stats.written += 1;
        Ok(Some(slot))
    }

    /// Makes sure that `len` more bytes fit into the current file, and returns its number.
    fn ensure_space(&mut self, len: u32) -> io::Result<u32> {
        if let Some(number) = self.current
            && let Some(segment) = self.segments.get(&number)
        {
            let end = u64::from(segment.size) + self.buffer.len() as u64 + u64::from(len);
            if end <= u64::from(self.settings.file_bytes) || segment.size == 0 && self.buffer.is_empty() {
                return Ok(number);
            }
            self.flush()?;
            self.retire_current();
        }
        let number = self.next_file;
        let file = self.files.create(number)?;
        self.next_file += 1;
        self.segments.insert(number, Segment { file, size: 0, live_bytes: 0, has_unreadable: false });
        self.current = Some(number);
        Ok(number)
    }

    /// Writes the buffer to the current file. After an error that file gets no more writes.
    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let Some(segment) = self.current.and_then(|number| self.segments.get_mut(&number)) else { return Ok(()) };
        let result = segment.file.write_at(u64::from(segment.size), &self.buffer);
        if result.is_ok() {
            segment.size += self.buffer.len() as u32;
            self.stats.file_bytes += self.buffer.len() as u64;
        }
        self.buffer.clear();
        self.buffer.shrink_to(2 * BUFFER_BYTES);
        if result.is_err() {
            self.retire_current();
        }
        result
    }

    fn retire_current(&mut self) {
        if let Some(number) = self.current.take() {
            self.remove_if_dead(number);
        }
    }

    /// Frees a message that is no longer held.
    pub fn free(&mut self, slot: SpillSlot) {
        let Some(place) = self.table.free_slot(slot) else { return };
        self.stats.messages -= 1;
        self.record_read(slot, true);
        self.release_record(place);
    }

    fn release_record(&mut self, place: RecordLocation) {
        self.stats.live_bytes -= u64::from(place.len);
        if let Some(segment) = self.segments.get_mut(&place.file) {
            segment.live_bytes -= place.len;
            self.remove_if_dead(place.file);
        }
    }

    fn remove_if_dead(&mut self, number: u32) {
        let is_dead = self.segments.get(&number).is_some_and(|segment| segment.live_bytes == 0);
        if !is_dead || self.current == Some(number) {
            return;
        }
        if let Some(segment) = self.segments.remove(&number) {
            self.stats.file_bytes -= u64::from(segment.size);
        }
        if let Err(error) = self.files.remove(number) {
            log::warn!("cannot remove a file of the spill store: {error}");
        }
    }

    /// Removes all files. Must be the last call.
    pub(crate) fn remove_files(&mut self) {
        for (number, _) in std::mem::take(&mut self.segments) {
            // The next start removes the files that remain.
            let _ = self.files.remove(number);
        }
    }

    /// Removes the current file too if it holds no messages.
    pub fn remove_dead_files(&mut self) {
        if self.stats.messages == 0 && self.buffer.is_empty() {
            self.retire_current();
            self.table.clear();
        }
    }
}

/// Fills in the header of a record.
fn seal(record: &mut [u8], slot: SpillSlot) {
    let len = (record.len() - HEADER_BYTES) as u32;
    record[4..8].copy_from_slice(&slot.0.to_le_bytes());
    record[8..12].copy_from_slice(&len.to_le_bytes());
    let check = crc32c::crc32c(&record[4..]);
    record[..4].copy_from_slice(&check.to_le_bytes());
}

/// Reads the slot and the total length, header included, from a record's header.
fn header(record: &[u8]) -> Option<(SpillSlot, usize)> {
    let header = record.get(..HEADER_BYTES)?;
    let number = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    Some((SpillSlot(number(4)), HEADER_BYTES.checked_add(number(8) as usize)?))
}

/// Whether a record is complete, undamaged and belongs to `slot`.
fn is_checksum_valid(record: &[u8], slot: SpillSlot) -> bool {
    header(record) == Some((slot, record.len())) && record[..4] == crc32c::crc32c(&record[4..]).to_le_bytes()
}
