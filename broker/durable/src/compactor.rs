//! Compaction: replaces the oldest part of the log with a snapshot while the log is written.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tautwire_journal::{Disk, Epoch, LogId, Position, WriterHandle};

use crate::error::CompactError;
use crate::merge::compact;
use crate::snapshot::SnapshotHead;
use crate::spill_queue::SpillStore;

/// The log size below which no snapshot is made, however small the state is.
pub const LOG_MIN_BYTES: u64 = 32 << 20;
/// A log of this multiple of the due size has never been compacted in time: every run ended before its snapshot was complete.
const OVERDUE_FACTOR: u64 = 8;
/// How often the log size is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// The number of checks to skip after a failure.
const FAILURE_BACKOFF_CHECKS: u32 = 60;
/// The longest idle time of a full log, as a multiple of the duration of the last snapshot.
const IDLE_FACTOR_MAX: u32 = 9;

/// Makes snapshots of a log on its own thread, only from the data on disk. Shards neither wait for it nor pass it anything.
///
/// A snapshot is due when the log after the last one exceeds [`LOG_MIN_BYTES`] and half the size of that snapshot. While the log is full,
/// one is due after any change, because it may free space. Snapshots that free none become rarer, until they take a tenth of the time.
#[derive(Debug)]
pub struct Compactor {
    stop: Arc<StopSignal>,
    thread: Option<JoinHandle<()>>,
}

/// Tells the thread to stop.
#[derive(Debug, Default)]
struct StopSignal {
    ends: Mutex<bool>,
    changed: Condvar,
}

/// The log to compact.
pub struct CompactionTarget<D> {
    /// The disk of the log.
    pub disk: D,
    /// The identifier of the log.
    pub log: LogId,
    /// The log's writer.
    pub writer: WriterHandle,
    /// Creates a store for the messages of one snapshot, so that the state need not fit into memory a second time.
    pub new_store: Box<dyn Fn() -> std::io::Result<Box<dyn SpillStore>> + Send>,
    /// Called after each attempt, once its memory is freed.
    pub freed: Box<dyn Fn() + Send>,
}

impl Compactor {
    /// Starts the thread. `new_epoch` returns a random number; `now_ms` returns Unix time.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start<D: Disk>(
        target: CompactionTarget<D>,
        new_epoch: impl Fn() -> Epoch + Send + 'static,
        now_ms: impl Fn() -> u64 + Send + 'static,
    ) -> std::io::Result<Compactor> {
        let stop = Arc::new(StopSignal::default());
        let mut work = CompactionWorker {
            target,
            new_epoch,
            now_ms,
            stop: stop.clone(),
            last_attempt: Position::START,
            checks_to_skip: 0,
            idle_checks: 0,
            idle_factor: 0,
        };
        let builder = thread::Builder::new().name("compactor".to_owned());
        let thread = builder.spawn(move || work.run())?;
        Ok(Compactor { stop, thread: Some(thread) })
    }
}

/// Dropping the compactor aborts a snapshot in progress.
impl Drop for Compactor {
    fn drop(&mut self) {
        *self.stop.lock() = true;
        self.stop.changed.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the thread that makes snapshots panicked");
        }
    }
}

impl StopSignal {
    fn lock(&self) -> std::sync::MutexGuard<'_, bool> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopped(&self) -> bool {
        *self.lock()
    }

    /// Waits until the next check. Returns false if the thread must stop.
    fn wait(&self) -> bool {
        let waited = self.changed.wait_timeout_while(self.lock(), CHECK_INTERVAL, |ends| !*ends);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

struct CompactionWorker<D, E, N> {
    target: CompactionTarget<D>,
    new_epoch: E,
    now_ms: N,
    stop: Arc<StopSignal>,
    /// The end of the log at the last attempt.
    last_attempt: Position,
    checks_to_skip: u32,
    /// The number of checks to skip before a snapshot is made only because the log is full.
    idle_checks: u32,
    /// The idle time as a multiple of the duration of the last snapshot.
    idle_factor: u32,
}

impl<D: Disk, E: Fn() -> Epoch, N: Fn() -> u64> CompactionWorker<D, E, N> {
    fn run(&mut self) {
        while self.stop.wait() {
            self.idle_checks = self.idle_checks.saturating_sub(1);
            if self.checks_to_skip > 0 {
                self.checks_to_skip -= 1;
                continue;
            }
            let writer = &self.target.writer;
            if !(is_due(writer) || self.can_free_space()) || writer.failure().is_some() {
                continue;
            }
            self.last_attempt = writer.durable();
            let began = Instant::now();
            let result = self.compact(self.last_attempt);
            let checks_taken = began.elapsed().as_millis() / CHECK_INTERVAL.as_millis();
            let writer = &self.target.writer;
            self.idle_factor = idle_factor_after(self.idle_factor, !writer.is_full() && !is_near_limit(writer));
            self.idle_checks =
                u32::try_from(checks_taken).unwrap_or(u32::MAX).saturating_add(1).saturating_mul(self.idle_factor);
            (self.target.freed)();
            if let Err(error) = result {
                log::warn!("cannot make a snapshot of the journal, which keeps growing: {error}");
                self.target.writer.count_snapshot_failure();
                self.checks_to_skip = FAILURE_BACKOFF_CHECKS;
            }
        }
    }

    /// Whether the log is full and has changed since the last attempt. Even a few bytes may obsolete everything a snapshot holds.
    fn can_free_space(&self) -> bool {
        let writer = &self.target.writer;
        self.idle_checks == 0 && writer.is_full() && writer.durable() > self.last_attempt
    }

    /// Yields the processor, so that a shard on the same processor does not wait for a time slice of milliseconds. Once the log has reached
    /// one and a half times the due size, the thread no longer yields.
    fn run_at_low_priority(&self) {
        let writer = &self.target.writer;
        if writer.held_bytes() < due_bytes(writer.snapshot_bytes()) / 2 * 3 {
            thread::yield_now();
        }
    }

    /// Makes a snapshot of the durable log, and releases the segments that it covers.
    fn compact(&self, until: Position) -> Result<(), CompactError> {
        let CompactionTarget { disk, log, writer, .. } = &self.target;
        let should_continue = || {
            self.run_at_low_priority();
            !self.stop.is_stopped()
        };
        let mut store = (self.target.new_store)().map_err(CompactError::Store)?;
        let head = SnapshotHead { log: *log, epoch: (self.new_epoch)(), covered: until, now_ms: (self.now_ms)() };
        let made = compact(disk, head, &mut *store, should_continue)?;
        if let Some(snapshot_bytes) = made {
            writer.release(until);
            log::debug!("a snapshot of {snapshot_bytes} bytes covers the log up to {}", until.0);
            writer.set_snapshot_bytes(snapshot_bytes);
        }
        Ok(())
    }
}

/// Whether the log is large relative to its snapshot, or near its limit.
fn is_due(writer: &WriterHandle) -> bool {
    let held_bytes = writer.held_bytes();
    let worthwhile_bytes = (LOG_MIN_BYTES / 2).min(writer.limit_bytes() / 4);
    held_bytes >= due_bytes(writer.snapshot_bytes()) || (is_near_limit(writer) && held_bytes >= worthwhile_bytes)
}

fn is_near_limit(writer: &WriterHandle) -> bool {
    writer.held_bytes() + writer.snapshot_bytes() > writer.limit_bytes() / 4 * 3
}

/// Rejecting messages is worse than a useless snapshot, as long as useless snapshots are rare.
fn idle_factor_after(idle_factor: u32, has_room: bool) -> u32 {
    if has_room { 1 } else { idle_factor.saturating_mul(2).clamp(1, IDLE_FACTOR_MAX) }
}

/// Whether a log that was read at start needs a snapshot before the broker accepts clients. Otherwise, a series of short runs would make
/// the log longer and each start slower without bound.
pub fn is_overdue(held_bytes: u64, snapshot_bytes: u64) -> bool {
    held_bytes >= OVERDUE_FACTOR * due_bytes(snapshot_bytes)
}

fn due_bytes(snapshot_bytes: u64) -> u64 {
    LOG_MIN_BYTES.max(snapshot_bytes / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_that_free_no_space_back_off() {
        let mut idle_factor = 0;
        let in_vain: Vec<u32> = (0..6)
            .map(|_| {
                idle_factor = idle_factor_after(idle_factor, false);
                idle_factor
            })
            .collect();
        assert_eq!(in_vain, [1, 2, 4, 8, 9, 9]);
        assert_eq!(idle_factor_after(idle_factor, true), 1);
    }
}
