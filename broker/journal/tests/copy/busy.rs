//! A disk whose log grows between any two reads.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tautwire_journal::disk::{Disk, DiskError, DiskFile, FaultyDisk};
use tautwire_journal::{
    Epoch, Log, LogId, OnDamage, Position, SEGMENT_MIN_BYTES, Settings, ShardNumber, SnapshotWriter, TurnNumber,
};

pub(crate) const ID: LogId = LogId(0xABCD);

/// What happens between two reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Between {
    Nothing,
    Append,
    /// Appends frames, and during the first reads takes a snapshot that releases older segments.
    ReleaseSometimes,
    ReleaseAlways,
}

#[derive(Clone)]
pub(crate) struct Busy {
    disk: FaultyDisk,
    writer: Arc<Mutex<Writer>>,
    reads: Arc<AtomicU64>,
    listings: Arc<AtomicUsize>,
}

struct Writer {
    log: Log<FaultyDisk>,
    written: u64,
    between: Between,
    epochs: u64,
    random: u64,
}

impl Writer {
    /// Returns a number that depends only on the seed.
    fn below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % bound
    }

    /// Writes a frame that begins with its number, and makes it durable.
    fn append(&mut self) -> Position {
        self.written += 1;
        let bytes = 100 + self.written as usize * 1_237 % 9_000;
        let mut body = vec![0xEE; bytes];
        body[..8].copy_from_slice(&self.written.to_le_bytes());
        self.log.append(ShardNumber(0), TurnNumber(self.written), &body).expect("fits");
        self.log.prepare(0).expect("no faults");
        self.log.commit().expect("no faults")
    }

    /// Takes a snapshot of everything, and releases the earlier segments.
    fn release(&mut self, disk: &FaultyDisk) {
        // Enough frames to fill more than one segment.
        let position = (0..20).map(|_| self.append()).max().expect("not empty");
        self.epochs += 1;
        let epoch = Epoch::new(self.epochs).expect("not 0");
        SnapshotWriter::begin(disk, ID, epoch, position, 0).and_then(SnapshotWriter::finish).expect("no faults");
        self.log.release(position).expect("no faults");
    }
}

impl Busy {
    /// Creates a log with this number of frames, each of which was durable before the next one was written.
    pub(crate) fn new(seed: u64, frames: u64) -> Busy {
        let disk = FaultyDisk::new(seed);
        let settings =
            Settings { segment_bytes: SEGMENT_MIN_BYTES, on_damage: OnDamage::Refuse, ..Settings::default() };
        let epoch = Epoch::new(0x7777).expect("not 0");
        let (log, _) = Log::open(&disk, settings, Position::START, epoch, ID, 0, |_| Ok(())).expect("no faults");
        let mut writer = Writer { log, written: 0, between: Between::Nothing, epochs: 1_000, random: seed };
        for _ in 0..frames {
            writer.append();
        }
        Busy { disk, writer: Arc::new(Mutex::new(writer)), reads: Arc::default(), listings: Arc::default() }
    }

    pub(crate) fn disk(&self) -> &FaultyDisk {
        &self.disk
    }

    pub(crate) fn between_reads(&self, between: Between) {
        self.writer.lock().expect("no panic").between = between;
    }

    /// Frames that have been written.
    pub(crate) fn written(&self) -> u64 {
        self.writer.lock().expect("no panic").written
    }

    pub(crate) fn listings(&self) -> usize {
        self.listings.load(Ordering::Relaxed)
    }

    pub(crate) fn release(&self) {
        self.writer.lock().expect("no panic").release(&self.disk);
    }

    fn write_on(&self) {
        /// The most frames written, so that reading ends.
        const FRAMES_MAX: u64 = 2_000;
        let reads = self.reads.fetch_add(1, Ordering::Relaxed);
        let mut writer = self.writer.lock().expect("no panic");
        let may_append = writer.written < FRAMES_MAX && writer.below(8) == 0;
        match writer.between {
            Between::Nothing => {}
            Between::ReleaseSometimes if reads == 20 || reads == 60 => writer.release(&self.disk),
            Between::ReleaseAlways if reads.is_multiple_of(5) => writer.release(&self.disk),
            // Sometimes several, so that a forward reader sees the last of them without the first.
            Between::Append | Between::ReleaseSometimes if may_append => {
                for _ in 0..=writer.below(4) {
                    writer.append();
                }
            }
            _ => {}
        }
    }
}

impl Disk for Busy {
    type File = BusyFile;
    type Lock = ();

    fn lock(&self, _name: &str) -> Result<(), DiskError> {
        Ok(())
    }

    fn list(&self) -> Result<Vec<String>, DiskError> {
        self.listings.fetch_add(1, Ordering::Relaxed);
        self.disk.list()
    }

    fn create(&self, name: &str, _bytes: u64) -> Result<BusyFile, DiskError> {
        panic!("{name} would be made")
    }

    fn open(&self, name: &str) -> Result<BusyFile, DiskError> {
        Ok(BusyFile { file: self.disk.open(name)?, busy: self.clone() })
    }

    fn rename(&self, from: &str, _to: &str) -> Result<(), DiskError> {
        panic!("{from} would be renamed")
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        panic!("{name} would be removed")
    }

    fn sync_directory(&self) -> Result<(), DiskError> {
        Ok(())
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        Ok(0)
    }
}

pub(crate) struct BusyFile {
    file: <FaultyDisk as Disk>::File,
    busy: Busy,
}

impl DiskFile for BusyFile {
    fn size_bytes(&self) -> Result<u64, DiskError> {
        self.file.size_bytes()
    }

    /// A read of several blocks may see some before a write and some after it.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DiskError> {
        for (at, block) in bytes.chunks_mut(4_096).enumerate() {
            self.file.read_at(offset + (at * 4_096) as u64, block)?;
            self.busy.write_on();
        }
        Ok(())
    }

    fn write_at(&self, _offset: u64, _bytes: &[u8]) -> Result<(), DiskError> {
        panic!("would be written to")
    }

    fn sync_data(&self) -> Result<(), DiskError> {
        Ok(())
    }
}
