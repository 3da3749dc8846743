//! Compaction: rewrites files with few live messages, step by step.

use std::io;

use super::table::RecordLocation;
use super::{Compaction, HEADER_BYTES, Store, header, is_checksum_valid};
use crate::files::{Files, ReadWrite};

/// The bytes of a file that one step examines. A longer message is examined in one step too.
const STEP_BYTES: u32 = 256 << 10;

/// The outcome of moving one record.
enum MoveOutcome {
    /// The record was moved, or no one holds it.
    Done,
    /// The record is held but cannot be read.
    Unreadable,
}

impl<F: Files> Store<F> {
    /// Runs one step of compaction, which keeps the files at about twice the size of the live messages. Returns whether there is more to
    /// do.
    ///
    /// # Errors
    /// Write errors. All messages are still where they were.
    pub fn compact_step(&mut self) -> io::Result<bool> {
        let Some(compaction) = self.compaction.or_else(|| self.pick_compaction_file()) else { return Ok(false) };
        self.compaction = None;
        if let Some(next) = self.rewrite(compaction)? {
            self.compaction = Some(next);
        }
        Ok(true)
    }

    /// Picks the file with the most reclaimable bytes, if the files have too many of them.
    fn pick_compaction_file(&self) -> Option<Compaction> {
        let allowed = 2 * self.stats.live_bytes + 2 * u64::from(self.settings.file_bytes);
        if self.stats.file_bytes <= allowed {
            return None;
        }
        let others = self.segments.iter().filter(|(number, segment)| {
            Some(**number) != self.current && !segment.has_unreadable && segment.live_bytes < segment.size / 4 * 3
        });
        let (number, _) = others.max_by_key(|(_, segment)| segment.size - segment.live_bytes)?;
        Some(Compaction { file: *number, offset: 0 })
    }

    /// Moves the live messages of one part of a file. Returns where to continue.
    fn rewrite(&mut self, Compaction { file, offset }: Compaction) -> io::Result<Option<Compaction>> {
        let Some(segment) = self.segments.get(&file) else { return Ok(None) };
        let mut stretch = vec![0; STEP_BYTES.min(segment.size.saturating_sub(offset)) as usize];
        let mut is_read = segment.file.read_at(u64::from(offset), &mut stretch).is_ok();
        if let Some((_, len)) = header(&stretch).filter(|(_, len)| is_read && *len > stretch.len())
            && len <= (segment.size - offset) as usize
        {
            stretch.resize(len, 0);
            is_read = segment.file.read_at(u64::from(offset), &mut stretch).is_ok();
        }
        let mut at = 0;
        let mut moves = Vec::new();
        let mut has_unreadable = !is_read;
        while is_read && let Some((_, len)) = header(&stretch[at..]) {
            if len <= HEADER_BYTES {
                has_unreadable = true;
                break;
            }
            let Some(record) = stretch.get(at..at + len) else { break };
            if let MoveOutcome::Unreadable = self.move_record(file, offset + at as u32, record, &mut moves)? {
                has_unreadable = true;
            }
            at += len;
        }
        self.finish_moves(moves)?;
        let Some(segment) = self.segments.get_mut(&file) else { return Ok(None) };
        // The length is invalid, so the next record cannot be found.
        let is_at_end = offset + at as u32 >= segment.size;
        if has_unreadable || (at == 0 && !is_at_end) {
            log::error!("a file of the spill store contains unreadable messages and is not compacted");
            segment.has_unreadable = true;
            return Ok(None);
        }
        Ok((!is_at_end).then_some(Compaction { file, offset: offset + at as u32 }))
    }

    /// Copies a record to the buffer if someone holds it.
    fn move_record(
        &mut self,
        file: u32,
        offset: u32,
        record: &[u8],
        moves: &mut Vec<(tautwire_message::SpillSlot, RecordLocation)>,
    ) -> io::Result<MoveOutcome> {
        let Some((slot, _)) = header(record) else { return Ok(MoveOutcome::Unreadable) };
        let from = RecordLocation { file, offset, len: record.len() as u32 };
        if self.table.get(slot) != Some(from) {
            return Ok(MoveOutcome::Done);
        }
        if !is_checksum_valid(record, slot) {
            return Ok(MoveOutcome::Unreadable);
        }
        let flushes = self.current.is_none_or(|current| {
            self.segments.get(&current).is_none_or(|segment| {
                u64::from(segment.size) + (self.buffer.len() + record.len()) as u64
                    > u64::from(self.settings.file_bytes)
            })
        });
        if flushes {
            self.finish_moves(std::mem::take(moves))?;
        }
        let to = self.ensure_space(from.len)?;
        let Some(segment) = self.segments.get(&to) else { return Ok(MoveOutcome::Unreadable) };
        moves.push((slot, RecordLocation { file: to, offset: segment.size + self.buffer.len() as u32, len: from.len }));
        self.buffer.extend_from_slice(record);
        Ok(MoveOutcome::Done)
    }

    /// Writes the moved records, and only then updates their locations.
    fn finish_moves(&mut self, moves: Vec<(tautwire_message::SpillSlot, RecordLocation)>) -> io::Result<()> {
        self.flush()?;
        for (slot, to) in moves {
            let Some(from) = self.table.get(slot) else { continue };
            self.table.set(slot, to);
            if let Some(segment) = self.segments.get_mut(&to.file) {
                segment.live_bytes += to.len;
                self.stats.live_bytes += u64::from(to.len);
            }
            self.release_record(from);
        }
        Ok(())
    }
}
