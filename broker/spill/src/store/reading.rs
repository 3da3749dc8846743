//! Reads many messages with few system calls.

use std::ops::Range;

use tautwire_message::SpillSlot;

use super::table::RecordLocation;
use super::{HEADER_BYTES, Store, is_checksum_valid};
use crate::files::{Files, ReadWrite};

/// Messages that are at most this far apart are read together.
const GAP_BYTES: u64 = 4 << 10;
/// A read of this size takes no more messages.
const RUN_BYTES: u64 = 1 << 20;

impl<F: Files> Store<F> {
    /// Reads messages in their stored form. Returns for each of `slots` its range in `bytes`, or `None` if it cannot be read.
    pub fn read(&mut self, slots: &[SpillSlot], bytes: &mut Vec<u8>) -> Vec<Option<Range<usize>>> {
        let mut sorted: Vec<(RecordLocation, usize)> =
            slots.iter().enumerate().filter_map(|(at, slot)| Some((self.table.get(*slot)?, at))).collect();
        sorted.sort_unstable();
        let mut ranges = vec![None; slots.len()];
        let mut rest = &sorted[..];
        while let Some((first, _)) = rest.first() {
            let count = run_len(rest);
            let (run, behind) = rest.split_at(count);
            rest = behind;
            let end = run.iter().map(|(place, _)| place.offset + place.len).max().unwrap_or(first.offset);
            let base = bytes.len();
            bytes.resize(base + (end - first.offset) as usize, 0);
            if !self.read_run(*first, &mut bytes[base..]) {
                bytes.truncate(base);
                continue;
            }
            for (place, at) in run {
                let begin = base + (place.offset - first.offset) as usize;
                let range = begin..begin + place.len as usize;
                if is_checksum_valid(&bytes[range.clone()], slots[*at]) {
                    ranges[*at] = Some(range.start + HEADER_BYTES..range.end);
                }
            }
        }
        let failed = ranges.iter().filter(|range| range.is_none()).count() as u64;
        if failed > 0 {
            log::error!("cannot read {failed} messages of the spill store, or their checksums are wrong");
        }
        self.stats.read += slots.len() as u64 - failed;
        self.stats.read_failures += failed;
        for (slot, range) in slots.iter().zip(&ranges) {
            self.record_read(*slot, range.is_some());
        }
        ranges
    }

    /// Records that a read of a message failed, or that it is readable or freed.
    pub(super) fn record_read(&mut self, slot: SpillSlot, is_readable: bool) {
        if !is_readable && self.table.get(slot).is_some() {
            self.unreadable.insert(slot);
        } else if self.unreadable.remove(&slot) && self.unreadable.is_empty() {
            log::info!("the spill store has no more unreadable messages");
        }
        self.stats.unreadable = self.unreadable.len() as u64;
    }

    fn read_run(&self, first: RecordLocation, bytes: &mut [u8]) -> bool {
        let Some(segment) = self.segments.get(&first.file) else { return false };
        match segment.file.read_at(u64::from(first.offset), bytes) {
            Ok(()) => true,
            Err(error) => {
                log::error!("cannot read a file of the spill store: {error}");
                false
            }
        }
    }
}

/// Returns the number of messages to read with the next read.
fn run_len(sorted: &[(RecordLocation, usize)]) -> usize {
    let Some(((first, _), others)) = sorted.split_first() else { return 0 };
    let mut end = u64::from(first.offset) + u64::from(first.len);
    let joins = |(place, _): &&(RecordLocation, usize)| {
        let offset = u64::from(place.offset);
        let fits = place.file == first.file && offset <= end + GAP_BYTES && end - u64::from(first.offset) < RUN_BYTES;
        end = end.max(offset + u64::from(place.len));
        fits
    };
    1 + others.iter().take_while(joins).count()
}
