//! The data directory: what an earlier run of the broker has left, and the thread that writes on.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tautwire_cold::SpillThread;
use tautwire_durable::{
    CompactionTarget, Compactor, Recovery, RecoveryError, SessionNumbers, ShardLog, SnapshotHead, SpillStore,
    is_overdue, read_snapshot, write_snapshot,
};
use tautwire_engine::{RestoreError, Shard, Shared, restore};
use tautwire_journal::{
    Directory, DirectoryUsage, Disk, Epoch, LOCK_NAME, LockedDirectory, Log, LogEnd, LogError, LogId, OnDamage,
    Position, RESERVE_BYTES, RESERVE_NAME, SEGMENT_DEFAULT_BYTES, SPARE_SEGMENTS_MAX, Settings, WriterHandle,
    WriterThread,
};
use tautwire_message::{Durations, Spilled};
use tautwire_router::{ShardIndex, random};
use tautwire_session::{AckLevel, Replay};

use crate::clock::Clock;
use crate::count::counted;
use crate::data_loss;
use crate::heap;
use crate::listener::ListenerConfig;
use crate::spill::{self, RecoverySpill, SnapshotSpill};
use crate::waker::Waker;

/// Where the state is kept.
#[derive(Debug, Clone, Copy)]
pub struct DataDirectory<'a> {
    /// The directory.
    pub path: &'a Path,
    /// What to do where something is lost that was durable: refuse to start, or say so and serve the rest.
    pub on_damage: OnDamage,
    /// How many bytes log and snapshot may take; `None` for about nine tenths of what they have and what is free on the file system.
    pub limit_bytes: Option<u64>,
    /// Where the directory has been locked before.
    pub lock: Option<&'a DataLock>,
}

/// A data directory that this process has for itself, before a broker is started on it.
#[derive(Debug)]
pub struct DataLock(Mutex<Option<LockedDirectory<Directory>>>);

impl DataLock {
    /// Locks the directory, and makes it where it is not there.
    ///
    /// # Errors
    /// Another process has it, or it cannot be used.
    pub fn take(path: &Path) -> Result<DataLock, DataError> {
        let take = || LockedDirectory::take(&Directory::open(path)?);
        let held = take().map_err(|error| DataError { path: path.to_owned(), cause: Cause::Log(error) })?;
        Ok(DataLock(Mutex::new(Some(held))))
    }

    /// Whether there is something to lock.
    pub fn is_possible(path: &Path) -> bool {
        path.join(LOCK_NAME).exists()
    }

    fn take_directory(&self) -> Option<LockedDirectory<Directory>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// How the data directory is.
#[derive(Debug, Clone)]
pub struct DataState {
    /// Bytes of the log, which a restart would have to read.
    pub log_bytes: u64,
    /// Bytes of the last snapshot.
    pub snapshot_bytes: u64,
    /// How many bytes both together may take.
    pub limit_bytes: u64,
    /// Writes so far, each of which made all that waited durable.
    pub syncs: u64,
    /// How long they took.
    pub sync_times: Durations,
    /// Times no snapshot could be made, so that the log grows.
    pub snapshot_failures: u64,
    /// What has to be kept is refused, because the limit is reached or the disk is full.
    pub is_full: bool,
    /// Why nothing is kept any more, if so.
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

/// The limit that is asked for, or `default_bytes` where none is.
pub(crate) fn disk_limit(asked_bytes: Option<u64>, default_bytes: u64) -> u64 {
    asked_bytes.map_or(default_bytes, |bytes| bytes.max(LIMIT_MIN_BYTES))
}

/// A lower limit is not kept to: so much is taken by a log in which nothing waits.
const LIMIT_MIN_BYTES: u64 = 4 * SEGMENT_DEFAULT_BYTES;

/// Where there is room for fewer segments of the default size, they are smaller: a disk that is full after two of them takes nothing.
const SEGMENTS_MIN: u64 = 2;
/// On a small disk a segment has this part of what it has room for.
const SEGMENT_DIVISOR: u64 = 16;
/// A segment of a small disk.
const SEGMENT_MIN_BYTES: u64 = 1 << 20;
/// With less room, the reserve is given up.
const SPACE_MIN_BYTES: u64 = 2 * SEGMENT_MIN_BYTES;

/// The size of segments where there is so much room.
fn segment_bytes(room_bytes: u64) -> u64 {
    if room_bytes / SEGMENTS_MIN >= SEGMENT_DEFAULT_BYTES {
        return SEGMENT_DEFAULT_BYTES;
    }
    (room_bytes / SEGMENT_DIVISOR).next_multiple_of(SEGMENT_MIN_BYTES).max(SEGMENT_MIN_BYTES)
}

/// Nine tenths of the files of the log and of what is free, but for the reserve, and for segments that hold nothing: those that are made
/// ahead or used again. So there is room for a snapshot when the log is full.
fn default_limit(disk: &Directory, path: &Path, segment_bytes: u64) -> Result<u64, LogError> {
    let files = DirectoryUsage::of(disk)?;
    let reserve_bytes = std::fs::metadata(path.join(RESERVE_NAME)).map_or(0, |reserve| reserve.len());
    let own_bytes = files.segment_bytes + files.snapshot_bytes + files.spare_bytes + reserve_bytes;
    let idle_bytes = (2 + SPARE_SEGMENTS_MAX as u64) * segment_bytes + RESERVE_BYTES;
    let bytes = own_bytes.saturating_add(disk.free_bytes()?).saturating_sub(idle_bytes);
    Ok((bytes / 10 * 9).max(2 * segment_bytes))
}

/// Clocks are set by less than this all the time.
const CLOCK_STEP_REPORTED_MIN: Duration = Duration::from_secs(5);

/// Why the state of an earlier run cannot be had.
#[derive(Debug)]
pub struct DataError {
    path: PathBuf,
    cause: Cause,
}

#[derive(Debug)]
enum Cause {
    Log(LogError),
    Restore(RestoreError),
    /// A thread could not be had.
    Thread(io::Error),
    /// The folder for messages that are not in memory.
    Spilled(io::Error),
}

impl fmt::Display for DataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "data directory {}: ", self.path.display())?;
        match &self.cause {
            Cause::Log(LogError::Locked) => write!(
                f,
                "another broker uses it; stop that one, choose another directory with data.path, or start with --memory"
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
                write!(f, "the folder for messages that are not in memory cannot be used: {error}")
            }
        }
    }
}

impl std::error::Error for DataError {}

/// What keeps the state of a running broker.
#[derive(Debug)]
pub(crate) struct Data {
    compactor: Compactor,
    writer: WriterThread,
}

impl Data {
    /// For those who look at it from other threads.
    pub(crate) fn handle(&self) -> WriterHandle {
        self.writer.handle()
    }

    /// Makes durable what has been written down, and closes the log in order.
    ///
    /// # Errors
    /// The log has failed, now or before.
    pub(crate) fn close(self) -> Result<(), LogError> {
        drop(self.compactor);
        self.writer.close()
    }
}

/// All that comes of a directory.
pub(crate) struct OpenedDirectory {
    pub(crate) data: Data,
    pub(crate) cold: SpillThread,
    pub(crate) shards: Vec<Shard<ShardLog>>,
    /// What the time is for all of it.
    pub(crate) clock: Clock,
    /// What the state may take where nobody has said.
    pub(crate) default_limit_bytes: u64,
}

/// Opens the log in a directory, and leaves nothing behind where that fails; see [`open_and_start`].
///
/// # Errors
/// See [`DataError`]. Nothing runs then.
pub(crate) fn open(
    data: DataDirectory<'_>,
    listener_configs: &[ListenerConfig],
    shared: &Shared,
    wakers: &[Arc<Waker>],
    clock: Clock,
) -> Result<OpenedDirectory, DataError> {
    let opened = open_and_start(data, listener_configs, shared, wakers, clock);
    match &opened {
        // What is there is another broker's.
        Ok(_) | Err(DataError { cause: Cause::Log(LogError::Locked), .. }) => {}
        Err(_) => spill::remove_folder(data.path),
    }
    opened
}

/// Opens the log in a directory, gives each shard what it owns of what is in it, and starts the threads that write on and make snapshots.
///
/// # Errors
/// See [`DataError`]. Nothing runs then.
fn open_and_start(
    data: DataDirectory<'_>,
    listener_configs: &[ListenerConfig],
    shared: &Shared,
    wakers: &[Arc<Waker>],
    clock: Clock,
) -> Result<OpenedDirectory, DataError> {
    let DataDirectory { path, on_damage, limit_bytes, lock } = data;
    let acks = shared.config_cell.current().settings.acks.clone();
    let levels = listener_configs.iter().map(|listen| listen.ack_level).chain(acks.levels());
    // Some wait only until the system has what was written down.
    let write_before_sync = levels.into_iter().any(|level| level == AckLevel::Os);
    let failed = |cause| DataError { path: path.to_owned(), cause };
    let log_failed = |error| failed(Cause::Log(error));
    let disk = Directory::open(path).map_err(|error| log_failed(error.into()))?;
    let cold_failed = |error| failed(Cause::Spilled(error));
    // Before anything is changed: another broker may have the directory.
    let held =
        lock.and_then(DataLock::take_directory).map_or_else(|| LockedDirectory::take(&disk), Ok).map_err(log_failed)?;
    let mut room_bytes = held.available_bytes().map_err(log_failed)?;
    if room_bytes < SPACE_MIN_BYTES && held.release_reserve().map_err(log_failed)? {
        log::warn!(
            "data directory {}: the disk is full ({room_bytes} bytes are free); the broker starts with its reserve of {} MiB, \
             which the next start does not have: free some space",
            path.display(),
            RESERVE_BYTES >> 20
        );
        room_bytes = held.available_bytes().map_err(log_failed)?;
    }
    let mut cooler = RecoverySpill::open(path, shared).map_err(cold_failed)?;
    let mut recovery = Recovery::new(Some(shared.memory.ledger(0).clone())).spill_into(&mut cooler);
    if on_damage == OnDamage::Skip {
        recovery.skip_inconsistent_records();
    }
    let snapshot = read_snapshot(&disk, &mut recovery).map_err(log_failed)?;
    if on_damage == OnDamage::Refuse {
        snapshot.damaged.iter().for_each(|name| log::warn!("data directory {}: {name} is damaged", path.display()));
    }
    let covered = snapshot.covered;
    let segment_bytes = segment_bytes(room_bytes);
    let settings = Settings { segment_bytes, on_damage, write_before_sync, has_reserve: true };
    let opened = Log::open_locked(held, settings, covered, epoch(), LogId(random()), clock.now_ms(), |frame| {
        recovery.frame(frame.body).map_err(|error| recovery_error_text(&error))
    });
    let (log, found) = opened.map_err(|error| match (error, snapshot.damaged.first()) {
        // What it covered is not in the log any more: that is where something is wrong.
        (LogError::Damaged(_), Some(name)) => log_failed(LogError::SnapshotDamaged(name.as_str().into())),
        (error, _) => log_failed(error),
    })?;
    let last_ms = snapshot.written_at_ms.max(found.written_at_ms).max(recovery.last_ms());
    let (clock, set_back) = clock.not_before(last_ms);
    if set_back > CLOCK_STEP_REPORTED_MIN {
        log::warn!(
            "the clock of this machine has been set back by {} s or more since the last run; what expires goes on from where that run was",
            set_back.as_secs()
        );
    }
    let skipped_records = recovery.skipped_records().cloned();
    let replay = recovery.finish();
    log_recovery(path, &found.end, &replay);
    let id = log.id();
    let mut snapshot_bytes = snapshot.bytes;
    let mut covered = covered;
    let is_overdue = is_overdue(log.held_bytes(), snapshot_bytes);
    if is_overdue {
        log::info!(
            "data directory {}: the log has {} MiB, since no run lasted until a snapshot was made; it is made now",
            path.display(),
            log.held_bytes() >> 20
        );
    }
    if data_loss::log_losses(path, &snapshot, &found.damage, skipped_records.as_ref(), &replay) || is_overdue {
        // So that what is lost is not found again, and what makes snapshots later need not know of it.
        covered = log.durable();
        let read = |cold: &Spilled| cooler.read(cold);
        let head = SnapshotHead { log: id, epoch: epoch(), covered, now_ms: clock.now_ms() };
        let written = write_snapshot(&replay, &disk, head, read, || true);
        snapshot_bytes = written.map_err(log_failed)?.unwrap_or_default();
    }

    let bells_of_shards = wakers;
    let wakers = wakers.to_vec();
    let count = wakers.len();
    let wake = move |shard: tautwire_journal::ShardNumber| {
        if let Some(waker) = wakers.get(usize::from(shard.0)) {
            waker.wake();
        }
    };
    let (writer, ports) = WriterThread::start(log, count as u16, wake, move || clock.now_ms()).map_err(log_failed)?;
    // Those of a snapshot that was finished when the last run ended.
    writer.handle().release(covered);
    writer.handle().set_snapshot_bytes(snapshot_bytes);
    let default_limit_bytes = default_limit(&disk, path, segment_bytes).map_err(log_failed)?;
    writer.handle().set_limit(disk_limit(limit_bytes, default_limit_bytes));
    let last = replay.last_session();
    let shard = |(index, port)| {
        let journal = ShardLog::new(port, SessionNumbers::above(last, index, count));
        Shard::new(ShardIndex(index as u8), shared.clone(), journal, clock.now_ms())
    };
    let mut shards: Vec<_> = ports.into_iter().enumerate().map(shard).collect();
    let cold = cooler.start(shared, &mut shards, bells_of_shards).map_err(cold_failed)?;
    let replayed = replay.finish();
    let (sessions, retained) = (replayed.sessions.len(), replayed.retained.iter().count());
    let (sessions, retained) = (counted(sessions, "session"), counted(retained, "retained message"));
    log::info!("the data directory holds {sessions} and {retained}");
    restore(&mut shards, replayed, clock.now_ms()).map_err(|error| failed(Cause::Restore(error)))?;
    // What reading the log took.
    heap::trim();
    let (folder, limit_bytes) = (path.to_owned(), shared.config_cell.current().settings.cold_bytes);
    let account = shared.memory.detached().clone();
    let new_store = move || Ok(Box::new(SnapshotSpill::open(&folder, limit_bytes, &account)?) as Box<dyn SpillStore>);
    let (writer_handle, new_store) = (writer.handle(), Box::new(new_store));
    let compacted = CompactionTarget { disk, log: id, writer: writer_handle, new_store, freed: Box::new(heap::trim) };
    let compactor = Compactor::start(compacted, epoch, move || clock.now_ms());
    let compactor = compactor.map_err(|error| failed(Cause::Thread(error)))?;
    Ok(OpenedDirectory { data: Data { compactor, writer }, cold, shards, clock, default_limit_bytes })
}

fn recovery_error_text(error: &RecoveryError) -> Box<str> {
    format!("{error} [{}]", error.code()).into()
}

/// `state`: what is there.
fn log_recovery(path: &Path, end: &LogEnd, state: &Replay) {
    let path = path.display();
    match &end.torn {
        Some(torn) => log::warn!(
            "data directory {path}: the last write is not whole and was cut off: {} bytes of segment {} from byte {} on. If the broker \
             was ended during that write, nothing in it had been acknowledged; if the disk has damaged it since, it may have been \
             acknowledged{}",
            torn.bytes,
            torn.segment,
            torn.offset,
            data_loss::possibly_affected(&torn.possibly_affected, state)
        ),
        None if !end.closed && end.last > Position::START => {
            log::warn!(
                "data directory {path}: the broker was not stopped in order; no damage was found. If the disk has kept nothing of a last \
                 write, that is not noticed, and it may have been acknowledged"
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
    fn segments_are_smaller_where_there_is_room_for_few_of_them() {
        const MIB: u64 = 1 << 20;
        let sizes = [0, MIB, 20 * MIB, 31 * MIB, 32 * MIB, 1 << 40].map(|room| segment_bytes(room) / MIB);
        assert_eq!(sizes, [1, 1, 2, 2, 16, 16]);
        // The first one, the one made ahead, and a snapshot find room on a disk of 20 MB, with the reserve.
        assert!(2 * segment_bytes(20_000_000) + RESERVE_BYTES < 10_000_000);
    }
}
