//! The data directory: restores the state of the previous run, and starts the journal.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tautwire_durable::{
    CompactionTarget, Compactor, Recovery, RecoveryError, SessionNumbers, ShardLog, SkippedRecords, SnapshotHead,
    SnapshotInfo, SpillStore, is_overdue, read_snapshot, write_snapshot,
};
use tautwire_engine::{RestoreError, Shard, Shared, restore};
use tautwire_journal::{
    Damage, Directory, DirectoryUsage, Disk, Epoch, LOCK_NAME, LockedDirectory, Log, LogEnd, LogError, LogId, OnDamage,
    Position, RESERVE_BYTES, RESERVE_NAME, SEGMENT_DEFAULT_BYTES, SPARE_SEGMENTS_MAX, Settings, ShardNumber,
    WriterHandle, WriterThread,
};
use tautwire_message::Durations;
use tautwire_router::{ShardIndex, random};
use tautwire_session::{AckLevel, Replay};
use tautwire_spill::SpillThread;

use crate::clock::Clock;
use crate::count::counted;
use crate::data_loss;
use crate::heap;
use crate::listener_config::ListenerConfig;
use crate::spill::{self, RecoverySpill, SnapshotSpill};
use crate::waker::Waker;

/// The location and limits of persistent state.
#[derive(Debug, Clone, Copy)]
pub struct DataDirectory<'a> {
    /// The directory.
    pub path: &'a Path,
    /// What to do if durable data is lost: refuse to start, or report the loss and serve the rest.
    pub on_damage: OnDamage,
    /// The size limit of journal and snapshot in bytes; `None` for about nine tenths of their size plus the free space of the file system.
    pub limit_bytes: Option<u64>,
    /// The lock, if the directory is already locked.
    pub lock: Option<&'a DataLock>,
}

/// A data directory that is locked for this process before a broker starts.
#[derive(Debug)]
pub struct DataLock(Mutex<Option<LockedDirectory<Directory>>>);

impl DataLock {
    /// Locks the directory, and creates it if it does not exist.
    ///
    /// # Errors
    /// Another process holds the lock, or the directory cannot be used.
    pub fn take(path: &Path) -> Result<DataLock, DataError> {
        let take = || LockedDirectory::take(&Directory::open(path)?);
        let held = take().map_err(|error| DataError { path: path.to_owned(), cause: Cause::Log(error) })?;
        Ok(DataLock(Mutex::new(Some(held))))
    }

    /// Whether the directory has a lock file.
    pub fn is_possible(path: &Path) -> bool {
        path.join(LOCK_NAME).exists()
    }

    fn take_directory(&self) -> Option<LockedDirectory<Directory>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The state of the data directory.
#[derive(Debug, Clone)]
pub struct DataState {
    /// The size of the log in bytes, which a restart would read.
    pub log_bytes: u64,
    /// The size of the last snapshot in bytes.
    pub snapshot_bytes: u64,
    /// The limit of both together in bytes.
    pub limit_bytes: u64,
    /// The number of syncs so far, each of which made all pending data durable.
    pub syncs: u64,
    /// The durations of these syncs.
    pub sync_times: Durations,
    /// The number of failed snapshots, after which the log keeps growing.
    pub snapshot_failures: u64,
    /// Persistent messages are rejected, because the limit is reached or the disk is full.
    pub is_full: bool,
    /// Why nothing is persisted any more, if so.
    pub failure: Option<LogError>,
}

impl DataState {
    pub(crate) fn of(writer: &WriterHandle) -> DataState {
        DataState {
            log_bytes: writer.held_bytes(),
            snapshot_bytes: writer.snapshot_bytes(),
            limit_bytes: writer.limit_bytes(),
            syncs: writer.groups(),
            sync_times: writer.sync_times(),
            snapshot_failures: writer.snapshot_failures(),
            is_full: writer.is_full(),
            failure: writer.failure(),
        }
    }
}

/// Returns the configured limit, or `default_bytes` if there is none.
pub(crate) fn disk_limit(asked_bytes: Option<u64>, default_bytes: u64) -> u64 {
    asked_bytes.map_or(default_bytes, |bytes| bytes.max(LIMIT_MIN_BYTES))
}

/// The smallest effective limit: the size of a log without pending data.
const LIMIT_MIN_BYTES: u64 = 4 * SEGMENT_DEFAULT_BYTES;

/// If fewer segments of the default size fit, segments are smaller: otherwise, a disk that is full after two of them would accept nothing.
const SEGMENTS_MIN: u64 = 2;
/// On a small disk, the size of a segment is this fraction of the available space.
const SEGMENT_DIVISOR: u64 = 16;
/// The smallest segment on a small disk.
const SEGMENT_MIN_BYTES: u64 = 1 << 20;
/// With less space than this, the reserve is released.
const SPACE_MIN_BYTES: u64 = 2 * SEGMENT_MIN_BYTES;

/// Returns the segment size for the available space.
fn segment_bytes(room_bytes: u64) -> u64 {
    if room_bytes / SEGMENTS_MIN >= SEGMENT_DEFAULT_BYTES {
        return SEGMENT_DEFAULT_BYTES;
    }
    (room_bytes / SEGMENT_DIVISOR).next_multiple_of(SEGMENT_MIN_BYTES).max(SEGMENT_MIN_BYTES)
}

/// Returns nine tenths of the log files and the free space, without the reserve and without segments that hold no data because they are
/// preallocated or spare. This leaves space for a snapshot when the log is full.
fn default_limit(disk: &Directory, path: &Path, segment_bytes: u64) -> Result<u64, LogError> {
    let files = DirectoryUsage::of(disk)?;
    let reserve_bytes = std::fs::metadata(path.join(RESERVE_NAME)).map_or(0, |reserve| reserve.len());
    let own_bytes = files.segment_bytes + files.snapshot_bytes + files.spare_bytes + reserve_bytes;
    let idle_bytes = (2 + SPARE_SEGMENTS_MAX as u64) * segment_bytes + RESERVE_BYTES;
    let bytes = own_bytes.saturating_add(disk.free_bytes()?).saturating_sub(idle_bytes);
    Ok((bytes / 10 * 9).max(2 * segment_bytes))
}

/// Smaller clock corrections are normal and not reported.
const CLOCK_STEP_REPORTED_MIN: Duration = Duration::from_secs(5);

/// Why the state of an earlier run cannot be restored.
#[derive(Debug)]
pub struct DataError {
    path: PathBuf,
    cause: Cause,
}

#[derive(Debug)]
enum Cause {
    Log(LogError),
    Restore(RestoreError),
    /// A thread cannot be started.
    Thread(io::Error),
    /// The spill directory cannot be used.
    Spilled(io::Error),
}

impl From<LogError> for Cause {
    fn from(error: LogError) -> Cause {
        Cause::Log(error)
    }
}

impl fmt::Display for DataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "data directory {}: ", self.path.display())?;
        match &self.cause {
            Cause::Log(LogError::Locked) => write!(
                f,
                "another broker uses it; stop that broker, choose another directory with data.path, or start with --memory"
            ),
            Cause::Log(error @ (LogError::Damaged(_) | LogError::SnapshotDamaged(_) | LogError::Refused { .. })) => {
                let path = self.path.display();
                write!(
                    f,
                    "{error}; `tautwire data check --data {path}` lists what is damaged, `tautwire serve --recover` serves what is left"
                )
            }
            Cause::Log(LogError::Disk(cause)) => {
                write!(f, "{cause} [{}]; {}", LogError::Disk(cause.clone()).code(), cause.advice())
            }
            Cause::Log(error) => error.fmt(f),
            Cause::Restore(error) => error.fmt(f),
            Cause::Thread(error) => write!(f, "cannot start a thread: {error}"),
            Cause::Spilled(error) => {
                write!(f, "cannot use the spill directory: {error}")
            }
        }
    }
}

impl std::error::Error for DataError {}

/// The threads that persist the state of a running broker.
#[derive(Debug)]
pub(crate) struct Data {
    compactor: Compactor,
    writer: WriterThread,
}

impl Data {
    /// Returns a handle to observe the writer from other threads.
    pub(crate) fn handle(&self) -> WriterHandle {
        self.writer.handle()
    }

    /// Makes all recorded data durable and closes the log cleanly.
    ///
    /// # Errors
    /// The log has failed, now or before.
    pub(crate) fn close(self) -> Result<(), LogError> {
        drop(self.compactor);
        self.writer.close()
    }
}

/// The result of opening a data directory.
pub(crate) struct OpenedDirectory {
    pub(crate) data: Data,
    pub(crate) spill_thread: SpillThread,
    pub(crate) shards: Vec<Shard<ShardLog>>,
    /// The clock of the broker.
    pub(crate) clock: Clock,
    /// The size limit if none is configured.
    pub(crate) default_limit_bytes: u64,
}

/// Opens the log in a directory, see [`open_and_start`]. Removes the spill directory again on failure.
///
/// # Errors
/// See [`DataError`]. Nothing is left running.
pub(crate) fn open(
    data: DataDirectory<'_>,
    listener_configs: &[ListenerConfig],
    shared: &Shared,
    wakers: &[Arc<Waker>],
    clock: Clock,
) -> Result<OpenedDirectory, DataError> {
    open_and_start(data, listener_configs, shared, wakers, clock).map_err(|cause| {
        // The spill directory of a locked directory belongs to the other broker.
        if !matches!(cause, Cause::Log(LogError::Locked)) {
            spill::remove_folder(data.path);
        }
        DataError { path: data.path.to_owned(), cause }
    })
}

/// Opens the log in a directory, distributes the restored state to the shards, and starts the threads that write the log and make
/// snapshots.
fn open_and_start(
    data: DataDirectory<'_>,
    listener_configs: &[ListenerConfig],
    shared: &Shared,
    wakers: &[Arc<Waker>],
    clock: Clock,
) -> Result<OpenedDirectory, Cause> {
    let DataDirectory { path, on_damage, limit_bytes, lock } = data;
    let disk = Directory::open(path).map_err(LogError::from)?;
    // Lock before any change, because another broker may use the directory.
    let held = lock.and_then(DataLock::take_directory).map_or_else(|| LockedDirectory::take(&disk), Ok)?;
    let segment_bytes = segment_bytes(available_bytes(path, &held)?);
    let write_before_sync = is_written_before_sync(listener_configs, shared);
    let settings = Settings { segment_bytes, on_damage, write_before_sync, has_reserve: true };
    let mut spill = RecoverySpill::open(path, shared).map_err(Cause::Spilled)?;
    let recovery = Recovery::new(Some(shared.memory.ledger(0).clone())).spill_into(&mut spill);
    let mut restored = RestoredLog::read(path, &disk, held, settings, recovery, clock)?;
    if restored.log_losses(path) {
        restored.write_snapshot(&disk, &mut spill)?;
    }
    let RestoredLog { log, replay, snapshot, clock, .. } = restored;

    let id = log.id();
    let (writer, ports) = WriterThread::start(log, wakers.len() as u16, wake(wakers), move || clock.now_ms())?;
    // Release segments covered by a snapshot that was finished when the previous run ended.
    writer.handle().release(snapshot.covered);
    writer.handle().set_snapshot_bytes(snapshot.bytes);
    let default_limit_bytes = default_limit(&disk, path, segment_bytes)?;
    writer.handle().set_limit(disk_limit(limit_bytes, default_limit_bytes));
    let last = replay.last_session();
    let shard = |(index, port)| {
        let journal = ShardLog::new(port, SessionNumbers::above(last, index, wakers.len()));
        Shard::new(ShardIndex(index as u8), shared.clone(), journal, clock.now_ms())
    };
    let mut shards: Vec<_> = ports.into_iter().enumerate().map(shard).collect();
    let spill_thread = spill.start(shared, &mut shards, wakers).map_err(Cause::Spilled)?;
    let replayed = replay.finish();
    let (sessions, retained) = (replayed.sessions.len(), replayed.retained.iter().count());
    let (sessions, retained) = (counted(sessions, "session"), counted(retained, "retained message"));
    log::info!("the data directory holds {sessions} and {retained}");
    restore(&mut shards, replayed, clock.now_ms()).map_err(Cause::Restore)?;
    // Free the memory that reading the log took.
    heap::trim();
    let (folder, limit_bytes) = (path.to_owned(), shared.config_cell.current().settings.spill_bytes);
    let account = shared.memory.detached().clone();
    let new_store = move || Ok(Box::new(SnapshotSpill::open(&folder, limit_bytes, &account)?) as Box<dyn SpillStore>);
    let (writer_handle, new_store) = (writer.handle(), Box::new(new_store));
    let target = CompactionTarget { disk, log: id, writer: writer_handle, new_store, freed: Box::new(heap::trim) };
    let compactor = Compactor::start(target, epoch, move || clock.now_ms()).map_err(Cause::Thread)?;
    Ok(OpenedDirectory { data: Data { compactor, writer }, spill_thread, shards, clock, default_limit_bytes })
}

/// Returns the space for the log. Releases the reserve if the disk is full.
fn available_bytes(path: &Path, held: &LockedDirectory<Directory>) -> Result<u64, LogError> {
    let room_bytes = held.available_bytes()?;
    if room_bytes >= SPACE_MIN_BYTES || !held.release_reserve()? {
        return Ok(room_bytes);
    }
    log::warn!(
        "data directory {}: the disk is full ({room_bytes} bytes are free); the broker starts with its reserve of {} MiB, \
         which the next start does not have: free some space",
        path.display(),
        RESERVE_BYTES >> 20
    );
    held.available_bytes()
}

/// Whether some acknowledgements wait only until the operating system has the data.
fn is_written_before_sync(listener_configs: &[ListenerConfig], shared: &Shared) -> bool {
    let acks = shared.config_cell.current().settings.acks.clone();
    listener_configs.iter().map(|listen| listen.ack_level).chain(acks.levels()).any(|level| level == AckLevel::Os)
}

/// Returns what wakes the thread of a shard.
fn wake(wakers: &[Arc<Waker>]) -> impl Fn(ShardNumber) + Send + 'static {
    let wakers = wakers.to_vec();
    move |shard| {
        if let Some(waker) = wakers.get(usize::from(shard.0)) {
            waker.wake();
        }
    }
}

/// The log of the previous run, and the state it holds.
struct RestoredLog {
    log: Log<Directory>,
    replay: Replay,
    snapshot: SnapshotInfo,
    damage: Vec<Damage>,
    skipped_records: Option<SkippedRecords>,
    /// Not before any time in the log.
    clock: Clock,
}

impl RestoredLog {
    /// Reads the snapshot and the log after it.
    fn read(
        path: &Path,
        disk: &Directory,
        held: LockedDirectory<Directory>,
        settings: Settings,
        mut recovery: Recovery<'_>,
        clock: Clock,
    ) -> Result<RestoredLog, LogError> {
        if settings.on_damage == OnDamage::Skip {
            recovery.skip_inconsistent_records();
        }
        let snapshot = read_snapshot(disk, &mut recovery)?;
        if settings.on_damage == OnDamage::Refuse {
            snapshot.damaged.iter().for_each(|name| log::warn!("data directory {}: {name} is damaged", path.display()));
        }
        let id = LogId(random());
        let opened = Log::open_locked(held, settings, snapshot.covered, epoch(), id, clock.now_ms(), |frame| {
            recovery.frame(frame.body).map_err(|error| recovery_error_text(&error))
        });
        let (log, found) = opened.map_err(|error| match (error, snapshot.damaged.first()) {
            // The frames that the damaged snapshot covered are no longer in the log, so the snapshot is the cause.
            (LogError::Damaged(_), Some(name)) => LogError::SnapshotDamaged(name.as_str().into()),
            (error, _) => error,
        })?;
        let last_ms = snapshot.written_at_ms.max(found.written_at_ms).max(recovery.last_ms());
        let (clock, set_back) = clock.not_before(last_ms);
        if set_back > CLOCK_STEP_REPORTED_MIN {
            log::warn!(
                "the system clock was set back by at least {} s since the last run; expiry times continue from the time of that run",
                set_back.as_secs()
            );
        }
        let skipped_records = recovery.skipped_records().cloned();
        let replay = recovery.finish();
        log_recovery(path, &found.end, &replay);
        Ok(RestoredLog { log, replay, snapshot, damage: found.damage, skipped_records, clock })
    }

    /// Logs what is lost, and whether a snapshot is overdue. Returns whether a snapshot is to be made now: it prevents that the same losses
    /// are found again, and that the compactor has to handle them.
    fn log_losses(&self, path: &Path) -> bool {
        let RestoredLog { log, replay, snapshot, damage, skipped_records, .. } = self;
        let is_overdue = is_overdue(log.held_bytes(), snapshot.bytes);
        if is_overdue {
            log::info!(
                "data directory {}: the journal has {} MiB because no earlier run completed a snapshot; making one now",
                path.display(),
                log.held_bytes() >> 20
            );
        }
        data_loss::log_losses(path, snapshot, damage, skipped_records.as_ref(), replay) || is_overdue
    }

    /// Writes a snapshot of the restored state.
    fn write_snapshot(&mut self, disk: &Directory, spill: &mut RecoverySpill) -> Result<(), LogError> {
        let covered = self.log.durable();
        let head = SnapshotHead { log: self.log.id(), epoch: epoch(), covered, now_ms: self.clock.now_ms() };
        let written = write_snapshot(&self.replay, disk, head, |spilled| spill.read(spilled), || true)?;
        (self.snapshot.covered, self.snapshot.bytes) = (covered, written.unwrap_or_default());
        Ok(())
    }
}

fn recovery_error_text(error: &RecoveryError) -> Box<str> {
    format!("{error} [{}]", error.code()).into()
}

/// Logs how the log ended. `state` is the restored state.
fn log_recovery(path: &Path, end: &LogEnd, state: &Replay) {
    let path = path.display();
    match &end.torn {
        Some(torn) => log::warn!(
            "data directory {path}: cut off an incomplete last write: {} bytes of segment {} from byte {} on. If the broker was killed during \
             that write, nothing in it was acknowledged; if the disk has damaged it later, it may have been acknowledged{}",
            torn.bytes,
            torn.segment,
            torn.offset,
            data_loss::possibly_affected(&torn.possibly_affected, state)
        ),
        None if !end.closed && end.last > Position::START => {
            log::warn!(
                "data directory {path}: the broker was not stopped cleanly; no damage was found. If the disk dropped the whole last write, \
                 this is not detected, and the write may have been acknowledged"
            );
        }
        None => {}
    }
}

fn epoch() -> Epoch {
    loop {
        if let Some(epoch) = Epoch::new(random()) {
            return epoch;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_smaller_on_a_small_disk() {
        const MIB: u64 = 1 << 20;
        let sizes = [0, MIB, 20 * MIB, 31 * MIB, 32 * MIB, 1 << 40].map(|room| segment_bytes(room) / MIB);
        assert_eq!(sizes, [1, 1, 2, 2, 16, 16]);
        // The first segment, the preallocated one, and a snapshot fit on a disk of 20 MB, with the reserve.
        assert!(2 * segment_bytes(20_000_000) + RESERVE_BYTES < 10_000_000);
    }
}
