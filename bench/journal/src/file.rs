//! Ways to write a file durably.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use rustix::fs::OFlags;

use crate::sample::Sample;

pub(crate) const BLOCK_BYTES: usize = 4096;
/// The size of a preallocated file.
pub(crate) const FILE_BYTES: usize = 32 << 20;

/// Whether the blocks of the file are preallocated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Medium {
    /// The file grows with each write, so each sync also writes metadata.
    Growing,
    /// All blocks have been allocated, written and synced before.
    Prewritten,
}

impl Medium {
    pub(crate) const ALL: [Medium; 2] = [Medium::Growing, Medium::Prewritten];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Medium::Growing => "growing",
            Medium::Prewritten => "prewritten",
        }
    }
}

/// What makes a write durable.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Syncing {
    Fdatasync,
    Dsync,
    DirectDsync,
}

impl Syncing {
    pub(crate) const ALL: [Syncing; 3] = [Syncing::Fdatasync, Syncing::Dsync, Syncing::DirectDsync];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Syncing::Fdatasync => "fdatasync",
            Syncing::Dsync => "O_DSYNC",
            Syncing::DirectDsync => "O_DIRECT|O_DSYNC",
        }
    }

    fn flags(self) -> OFlags {
        match self {
            Syncing::Fdatasync => OFlags::empty(),
            Syncing::Dsync => OFlags::DSYNC,
            Syncing::DirectDsync => OFlags::DSYNC | OFlags::DIRECT,
        }
    }
}

/// A log in one file, which wraps around at its end.
pub(crate) struct Log {
    file: File,
    syncing: Syncing,
    at: usize,
    end: usize,
    memory: Vec<u8>,
    pub(crate) syncs: u64,
}

impl Log {
    pub(crate) fn create(path: &Path, medium: Medium, syncing: Syncing) -> io::Result<Log> {
        if medium == Medium::Prewritten && std::fs::metadata(path).map_or(0, |data| data.len()) < FILE_BYTES as u64 {
            std::fs::write(path, vec![0; FILE_BYTES])?;
            File::open(path)?.sync_all()?;
        }
        let growing = medium == Medium::Growing;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(growing).custom_flags(syncing.flags().bits() as i32);
        let end = if growing { usize::MAX } else { FILE_BYTES };
        Ok(Log { file: options.open(path)?, syncing, at: 0, end, memory: Vec::new(), syncs: 0 })
    }

    /// Writes frames of `bytes` in total as one group that starts at a block, and makes it durable.
    pub(crate) fn commit(&mut self, bytes: usize) -> io::Result<()> {
        let len = bytes.next_multiple_of(BLOCK_BYTES);
        if self.at + len > self.end {
            self.at = 0;
        }
        // Direct writes need memory that is aligned to a block.
        if self.memory.len() < len + BLOCK_BYTES {
            self.memory = vec![7; 2 * len + BLOCK_BYTES];
        }
        let start = self.memory.as_ptr().align_offset(BLOCK_BYTES);
        self.memory[start..start + 8].copy_from_slice(&self.syncs.to_le_bytes());
        self.file.write_all_at(&self.memory[start..start + len], self.at as u64)?;
        if self.syncing == Syncing::Fdatasync {
            self.file.sync_data()?;
        }
        self.at += len;
        self.syncs += 1;
        Ok(())
    }
}

/// One thread makes frames durable, one at a time.
pub(crate) fn sample(
    folder: &Path,
    medium: Medium,
    syncing: Syncing,
    frame_bytes: usize,
    time: Duration,
) -> io::Result<Sample> {
    let mut log = Log::create(&folder.join(medium.name()), medium, syncing)?;
    let mut sample = Sample::default();
    let cpu = ProcessTime::now();
    let started = Instant::now();
    while started.elapsed() < time {
        let begun = Instant::now();
        log.commit(frame_bytes)?;
        sample.latencies.push(begun.elapsed());
    }
    sample.cpu = cpu.elapsed();
    sample.took = started.elapsed();
    sample.syncs = log.syncs;
    Ok(sample)
}
