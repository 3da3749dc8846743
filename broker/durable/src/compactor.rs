//! Keeps the log short while it is written: puts its state into a snapshot, so that what lies before is not needed any more.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tautwire_journal::{Disk, Epoch, LogError, LogId, Position, WriterHandle};

use crate::merge::compact;
use crate::recovery::RecoveryError;
use crate::snapshot::SnapshotHead;
use crate::spill_queue::SpillStore;

/// The log may grow to so much before a snapshot is made, however little state there is.
pub const LOG_MIN_BYTES: u64 = 32 << 20;
/// A log that has so many times what makes a snapshot due has been left behind: no run lasted until its snapshot was there.
const OVERDUE_FACTOR: u64 = 8;
/// How often the size of the log is looked at.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// After a failure, so many looks are left out.
const FAILURE_BACKOFF_CHECKS: u32 = 60;
/// A log that is full rests at most so many times as long as the last snapshot took.
const IDLE_FACTOR_MAX: u32 = 9;

/// Makes snapshots of a log on a thread of its own, from what is on disk alone: no shard stands still for it, and none gives it
/// anything. A snapshot is due when the log behind the last one has [`LOG_MIN_BYTES`], and half of what that one has. While the log is full,
/// one is due after any change, since it may be the one that makes room. With each that makes none they become rarer, until they take a
/// tenth of the time.
#[derive(Debug)]
pub struct Compactor {
    stop: Arc<StopSignal>,
    thread: Option<JoinHandle<()>>,
}

/// What is asked of the thread.
#[derive(Debug, Default)]
struct StopSignal {
    ends: Mutex<bool>,
    changed: Condvar,
}

/// The log that is compacted.
pub struct CompactionTarget<D> {
    /// Where it is.
    pub disk: D,
    /// Which it is.
    pub log: LogId,
    /// Its writer.
    pub writer: WriterHandle,
    /// Makes a store for the messages of one snapshot, so that the state need not fit into memory a second time.
    pub new_store: Box<dyn Fn() -> std::io::Result<Box<dyn SpillStore>> + Send>,
    /// Called after each attempt, when the memory that it took is free.
    pub freed: Box<dyn Fn() + Send>,
}

impl Compactor {
    /// Starts the thread. `new_epoch` draws a number at random; `now_ms` gives Unix time.
    ///
    /// # Errors
    /// Where the system gives no thread.
    pub fn start<D: Disk>(
        compacted: CompactionTarget<D>,
        new_epoch: impl Fn() -> Epoch + Send + 'static,
        now_ms: impl Fn() -> u64 + Send + 'static,
    ) -> std::io::Result<Compactor> {
        let stop = Arc::new(StopSignal::default());
        let mut work = Work {
            compacted,
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

/// A snapshot that is being made is given up.
impl Drop for Compactor {
    fn drop(&mut self) {
        *self.stop.lock() = true;
        self.stop.changed.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the thread that makes snapshots ended in a panic");
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

    /// Waits until the next look; false where there is none.
    fn wait(&self) -> bool {
        let waited = self.changed.wait_timeout_while(self.lock(), CHECK_INTERVAL, |ends| !*ends);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

struct Work<D, E, N> {
    compacted: CompactionTarget<D>,
    new_epoch: E,
    now_ms: N,
    stop: Arc<StopSignal>,
    /// Up to where the last attempt went.
    last_attempt: Position,
    checks_to_skip: u32,
    /// So many looks pass before a snapshot is made only because the log is full.
    idle_checks: u32,
    /// So many times as long as the last snapshot took.
    idle_factor: u32,
}

/// Why no snapshot could be made.
#[derive(Debug)]
pub enum CompactError {
    /// The log cannot be read, or the snapshot not be written.
    Log(LogError),
    /// What the log says cannot be made sense of.
    Records(RecoveryError),
    /// There is no store for its messages.
    Store(std::io::Error),
}

impl fmt::Display for CompactError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompactError::Log(error) => error.fmt(f),
            CompactError::Store(error) => write!(f, "there is no folder for its messages: {error}"),
            CompactError::Records(error) => write!(f, "{error} [{}]", error.code()),
        }
    }
}

impl std::error::Error for CompactError {}

impl From<LogError> for CompactError {
    fn from(error: LogError) -> CompactError {
        CompactError::Log(error)
    }
}

impl From<RecoveryError> for CompactError {
    fn from(error: RecoveryError) -> CompactError {
        CompactError::Records(error)
    }
}

impl<D: Disk, E: Fn() -> Epoch, N: Fn() -> u64> Work<D, E, N> {
    fn run(&mut self) {
        while self.stop.wait() {
            self.idle_checks = self.idle_checks.saturating_sub(1);
            if self.checks_to_skip > 0 {
                self.checks_to_skip -= 1;
                continue;
            }
            let writer = &self.compacted.writer;
            if !(is_due(writer) || self.can_free_space()) || writer.failure().is_some() {
                continue;
            }
            self.last_attempt = writer.durable();
            let began = Instant::now();
            let compacted = self.compact(self.last_attempt);
            let looks_taken = began.elapsed().as_millis() / CHECK_INTERVAL.as_millis();
            let writer = &self.compacted.writer;
            self.idle_factor = idle_factor_after(self.idle_factor, !writer.is_full() && !is_near_limit(writer));
            self.idle_checks =
                u32::try_from(looks_taken).unwrap_or(u32::MAX).saturating_add(1).saturating_mul(self.idle_factor);
            (self.compacted.freed)();
            if let Err(error) = compacted {
                log::warn!("no snapshot of the log could be made, so it grows: {error}");
                self.compacted.writer.count_snapshot_failure();
                self.checks_to_skip = FAILURE_BACKOFF_CHECKS;
            }
        }
    }

    /// Whether the log is full and has changed since the last attempt: even a few bytes may have taken all that a snapshot holds.
    fn can_free_space(&self) -> bool {
        let writer = &self.compacted.writer;
        self.idle_checks == 0 && writer.is_full() && writer.durable() > self.last_attempt
    }

    /// A shard whose processor this thread has is not to wait until the system thinks that others should have their turn, which takes
    /// milliseconds. Where the log has become half as long again as makes a snapshot due, this thread takes what is its own.
    fn run_at_low_priority(&self) {
        let writer = &self.compacted.writer;
        if writer.held_bytes() < due_bytes(writer.snapshot_bytes()) / 2 * 3 {
            thread::yield_now();
        }
    }

    /// Makes a snapshot of what is durable so far, and has the log let go of what it covers.
    fn compact(&self, until: Position) -> Result<(), CompactError> {
        let CompactionTarget { disk, log, writer, .. } = &self.compacted;
        let should_continue = || {
            self.run_at_low_priority();
            !self.stop.is_stopped()
        };
        let mut store = (self.compacted.new_store)().map_err(CompactError::Store)?;
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

/// Whether the log is long for what it holds, or for what it may take.
fn is_due(writer: &WriterHandle) -> bool {
    let held_bytes = writer.held_bytes();
    let worthwhile_bytes = (LOG_MIN_BYTES / 2).min(writer.limit_bytes() / 4);
    held_bytes >= due_bytes(writer.snapshot_bytes()) || (is_near_limit(writer) && held_bytes >= worthwhile_bytes)
}

fn is_near_limit(writer: &WriterHandle) -> bool {
    writer.held_bytes() + writer.snapshot_bytes() > writer.limit_bytes() / 4 * 3
}

/// Refusing what must be kept is worse than a snapshot in vain, as long as there are few of those.
fn idle_factor_after(idle_factor: u32, has_room: bool) -> u32 {
    if has_room { 1 } else { idle_factor.saturating_mul(2).clamp(1, IDLE_FACTOR_MAX) }
}

/// Whether a log that has been read needs a snapshot before anybody is served. Otherwise runs that end soon, one after the other, would
/// make it longer and each start slower, without an end.
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
