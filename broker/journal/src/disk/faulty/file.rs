//! The content of a simulated file: the durable bytes and the unsynced ones.

use std::collections::BTreeSet;
use std::io;

use super::Random;

/// The unit that a disk writes atomically.
const SECTOR_BYTES: usize = 512;

#[derive(Debug)]
pub(super) struct FileContent {
    durable: Vec<u8>,
    /// The bytes that programs see.
    seen: Vec<u8>,
    /// Sectors that were written and not synced.
    written: BTreeSet<usize>,
    /// Sectors that the disk failed to store, and that programs may still see.
    lost: BTreeSet<usize>,
}

impl FileContent {
    pub(super) fn zeros(bytes: u64) -> FileContent {
        let zeros = vec![0; bytes as usize];
        FileContent { durable: zeros.clone(), seen: zeros, written: BTreeSet::new(), lost: BTreeSet::new() }
    }

    pub(super) fn len(&self) -> u64 {
        self.seen.len() as u64
    }

    pub(super) fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let start = offset as usize;
        let from = self.seen.get(start..start + bytes.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        bytes.copy_from_slice(from);
        Ok(())
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let start = offset as usize;
        let end = start + bytes.len();
        if end > self.seen.len() {
            // The new length is visible at once; the new bytes are zero until synced.
            self.seen.resize(end, 0);
            self.durable.resize(end, 0);
        }
        self.seen[start..end].copy_from_slice(bytes);
        if !bytes.is_empty() {
            let sectors = start / SECTOR_BYTES..=(start + bytes.len() - 1) / SECTOR_BYTES;
            for sector in sectors {
                self.lost.remove(&sector);
                self.written.insert(sector);
            }
        }
        Ok(())
    }

    pub(super) fn sync(&mut self) {
        for sector in std::mem::take(&mut self.written) {
            let range = self.sector(sector);
            self.durable[range.clone()].copy_from_slice(&self.seen[range]);
        }
    }

    /// Simulates a failed sync: what was written counts as synced, but is lost.
    pub(super) fn forget(&mut self) {
        self.lost.append(&mut self.written);
    }

    /// Makes reads return the disk's content of sectors lost in a failed sync.
    pub(super) fn drop_unsynced(&mut self) {
        for sector in std::mem::take(&mut self.lost) {
            let range = self.sector(sector);
            self.seen[range.clone()].copy_from_slice(&self.durable[range]);
        }
    }

    pub(super) fn crash(&mut self, random: &mut Random) {
        self.forget();
        for sector in std::mem::take(&mut self.lost) {
            let range = self.sector(sector);
            let (durable, seen) = (&mut self.durable[range.clone()], &self.seen[range]);
            match random.below(4) {
                0 => {}
                1 => durable.copy_from_slice(seen),
                2 => {
                    let torn = random.below(seen.len() as u64) as usize;
                    durable[..torn].copy_from_slice(&seen[..torn]);
                }
                _ => {
                    durable.copy_from_slice(seen);
                    let bit = random.below(8 * seen.len() as u64) as usize;
                    durable[bit / 8] ^= 1 << (bit % 8);
                }
            }
        }
        self.seen.copy_from_slice(&self.durable);
    }

    pub(super) fn flip_bit(&mut self, offset: u64, bit: u8) {
        for bytes in [&mut self.durable, &mut self.seen] {
            if let Some(byte) = bytes.get_mut(offset as usize) {
                *byte ^= 1 << (bit % 8);
            }
        }
    }

    pub(super) fn clear(&mut self, range: std::ops::Range<u64>, cuts: bool) {
        for bytes in [&mut self.durable, &mut self.seen] {
            let (start, end) = (range.start as usize, (range.end as usize).min(bytes.len()));
            if cuts {
                bytes.truncate(start);
            } else if let Some(bytes) = bytes.get_mut(start..end) {
                bytes.fill(0);
            }
        }
    }

    fn sector(&self, sector: usize) -> std::ops::Range<usize> {
        sector * SECTOR_BYTES..((sector + 1) * SECTOR_BYTES).min(self.seen.len())
    }
}
