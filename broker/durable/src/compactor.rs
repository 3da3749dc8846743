//! Keeps the log short while it is written: puts its state into a snapshot, so that what lies before is not needed any more.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tautwire_journal::{Disk, Epoch, LogError, LogId, Position, WriterHandle};

use crate::cooling::ColdStore;
use crate::merge::compact;
use crate::recovery::RecoveryError;
use crate::snapshot::SnapshotHead;

/// The log may grow to so much before a snapshot is made, however little state there is.
pub const LOG_MIN_BYTES: u64 = 32 << 20;
/// A log that has so many times what makes a snapshot due has been left behind: no run lasted until its snapshot was there.
const LEFT_BEHIND: u64 = 8;
/// How often the size of the log is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// After a failure, so many looks are left out.
const LOOKS_LEFT_OUT: u32 = 60;
/// A log that is full rests at most so many times as long as the last snapshot took.
const RESTS_MAX: u32 = 9;

/// Makes snapshots of a log on a thread of its own, from what is on disk alone: no shard stands still for it, and none gives it
/// anything. A snapshot is due when the log behind the last one has [`LOG_MIN_BYTES`], and half of what that one has. While the log is full,
/// one is due after any change, since it may be the one that makes room. With each that makes none they become rarer, until they take a
/// tenth of the time.
#[derive(Debug)]
pub struct Compactor {
    wish: Arc<Wish>,
    thread: Option<JoinHandle<()>>,
}

/// What is asked of the thread.
#[derive(Debug, Default)]
struct Wish {
    ends: Mutex<bool>,
    changed: Condvar,
}

/// The log that is compacted.
pub struct Compacted<D> {
    /// Where it is.
    pub disk: D,
    /// Which it is.
    pub log: LogId,
    /// Its writer.
    pub writer: WriterHandle,
    /// Makes a store for the messages of one snapshot, so that the state need not fit into memory a second time.
    pub new_store: Box<dyn Fn() -> std::io::Result<Box<dyn ColdStore>> + Send>,
    /// Called after each attempt, when the memory that it took is free.
    pub freed: Box<dyn Fn() + Send>,
}

impl Compactor {
    /// Starts the thread. `new_epoch` draws a number at random; `now_ms` gives Unix time.
    ///
    /// # Errors
    /// Where the system gives no thread.
    pub fn start<D: Disk>(
        compacted: Compacted<D>,
        new_epoch: impl Fn() -> Epoch + Send + 'static,
        now_ms: impl Fn() -> u64 + Send + 'static,
    ) -> std::io::Result<Compactor> {
        let wish = Arc::new(Wish::default());
        let mut work = Work {
            compacted,
            new_epoch,
            now_ms,
            wish: wish.clone(),
            tried: Position::START,
            looks_left_out: 0,
            looks_at_rest: 0,
            rests: 0,
        };
        let builder = thread::Builder::new().name("compactor".to_owned());
        let thread = builder.spawn(move || work.run())?;
        Ok(Compactor { wish, thread: Some(thread) })
    }
}

/// A snapshot that is being made is given up.
impl Drop for Compactor {
    fn drop(&mut self) {
        *self.wish.lock() = true;
        self.wish.changed.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the thread that makes snapshots ended in a panic");
        }
    }
}

impl Wish {
    fn lock(&self) -> std::sync::MutexGuard<'_, bool> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ends(&self) -> bool {
        *self.lock()
    }

    /// Waits until the next look; false where there is none.
    fn wait(&self) -> bool {
        let waited = self.changed.wait_timeout_while(self.lock(), LOOK_EVERY, |ends| !*ends);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

struct Work<D, E, N> {
    compacted: Compacted<D>,
    new_epoch: E,
    now_ms: N,
    wish: Arc<Wish>,
    /// Up to where the last attempt went.
    tried: Position,
    looks_left_out: u32,
    /// So many looks pass before a snapshot is made only because the log is full.
    looks_at_rest: u32,
    /// So many times as long as the last snapshot took.
    rests: u32,
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
        while self.wish.wait() {
            self.looks_at_rest = self.looks_at_rest.saturating_sub(1);
            if self.looks_left_out > 0 {
                self.looks_left_out -= 1;
                continue;
            }
            let writer = &self.compacted.writer;
            if !(is_due(writer) || self.may_make_room()) || writer.failure().is_some() {
                continue;
            }
            self.tried = writer.durable();
            let began = Instant::now();
            let compacted = self.compact(self.tried);
            let looks_taken = began.elapsed().as_millis() / LOOK_EVERY.as_millis();
            let writer = &self.compacted.writer;
            self.rests = rests_after(self.rests, !writer.is_full() && !is_near_limit(writer));
            self.looks_at_rest =
                u32::try_from(looks_taken).unwrap_or(u32::MAX).saturating_add(1).saturating_mul(self.rests);
            (self.compacted.freed)();
            if let Err(error) = compacted {
                log::warn!("no snapshot of the log could be made, so it grows: {error}");
                self.compacted.writer.count_snapshot_failure();
                self.looks_left_out = LOOKS_LEFT_OUT;
            }
        }
    }

    /// Whether the log is full and has changed since the last attempt: even a few bytes may have taken all that a snapshot holds.
    fn may_make_room(&self) -> bool {
        let writer = &self.compacted.writer;
        self.looks_at_rest == 0 && writer.is_full() && writer.durable() > self.tried
    }

    /// A shard whose processor this thread has is not to wait until the system thinks that others should have their turn, which takes
    /// milliseconds. Where the log has become half as long again as makes a snapshot due, this thread takes what is its own.
    fn let_others_go_first(&self) {
        let writer = &self.compacted.writer;
        if writer.held_bytes() < due_bytes(writer.snapshot_bytes()) / 2 * 3 {
            thread::yield_now();
        }
    }

    /// Makes a snapshot of what is durable so far, and has the log let go of what it covers.
    fn compact(&self, until: Position) -> Result<(), CompactError> {
        let Compacted { disk, log, writer, .. } = &self.compacted;
        let goes_on = || {
            self.let_others_go_first();
            !self.wish.ends()
        };
        let mut store = (self.compacted.new_store)().map_err(CompactError::Store)?;
        let head = SnapshotHead { log: *log, epoch: (self.new_epoch)(), covered: until, now_ms: (self.now_ms)() };
        let made = compact(disk, head, &mut *store, goes_on)?;
        if let Some(snapshot_bytes) = made {
            writer.release(until);
            log::debug!("a snapshot of {snapshot_bytes} bytes covers the log up to {}", until.0);
            writer.note_snapshot(snapshot_bytes);
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
fn rests_after(rests: u32, has_room: bool) -> u32 {
    if has_room { 1 } else { rests.saturating_mul(2).clamp(1, RESTS_MAX) }
}

/// Whether a log that has been read needs a snapshot before anybody is served. Otherwise runs that end soon, one after the other, would
/// make it longer and each start slower, without an end.
pub fn is_left_behind(held_bytes: u64, snapshot_bytes: u64) -> bool {
    held_bytes >= LEFT_BEHIND * due_bytes(snapshot_bytes)
}

fn due_bytes(snapshot_bytes: u64) -> u64 {
    LOG_MIN_BYTES.max(snapshot_bytes / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_that_make_no_room_become_rare() {
        let mut rests = 0;
        let in_vain: Vec<u32> = (0..6)
            .map(|_| {
                rests = rests_after(rests, false);
                rests
            })
            .collect();
        assert_eq!(in_vain, [1, 2, 4, 8, 9, 9]);
        assert_eq!(rests_after(rests, true), 1);
    }
}
