//! The thread that writes the log for all shards.

mod frame_sender;
mod preparer;
#[cfg(feature = "faulty-disk")]
mod stepped;
mod thread;
mod waker;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use rtrb::RingBuffer;
use tautwire_message::{DurationCounts, Durations};

use crate::disk::{Disk, DiskError, Operation};
use crate::error::LogError;
use crate::log::Log;
use crate::numbers::{Position, ShardNumber, TurnNumber};
pub use frame_sender::{FrameSender, PostError};
#[cfg(feature = "faulty-disk")]
pub use stepped::SteppedWriter;
use thread::{Source, Writer};
use waker::Waker;

/// The number of frames of one shard that may be pending.
pub const RING_FRAMES: usize = 256;
/// The bytes of one shard's frames that may be pending. A larger frame is accepted when none is pending.
pub const RING_MAX_BYTES: usize = 16 << 20;
/// How long a frame that nothing waits for is delayed at most, in milliseconds, to share a sync with others.
pub const GROUP_COMMIT_DELAY_MS: u64 = 2;
/// The idle time in milliseconds after which the log is sealed, see [`Log::seal`].
pub const SEAL_IDLE_MS: u64 = 50;

/// Writes the frames of all shards, and notifies each shard of its last durable turn. One write and one sync serve all pending frames.
///
/// The log has the frames in the order in which they were posted, across all shards: what a shard posts after it has received a message
/// from another shard comes after what that shard had posted before.
///
/// Shards never block on it: posting to a full ring returns an error. When the disk fails, durable turns stop advancing, and every post is
/// rejected.
#[derive(Debug)]
pub struct WriterThread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<(), LogError>>>,
}

/// The state that the writer shares with other threads.
#[derive(Debug)]
struct Shared {
    waker: Waker,
    state: AtomicU8,
    failure: OnceLock<LogError>,
    closing: AtomicBool,
    durable: AtomicU64,
    /// Groups made durable so far.
    groups: AtomicU64,
    /// How long each of them took.
    sync_times: DurationCounts,
    /// Bytes of all segments that hold frames.
    held_bytes: AtomicU64,
    /// The next frame's place in the order of all shards.
    next_ticket: AtomicU64,
    /// Frames before this one are not delayed.
    flush_up_to: AtomicU64,
    /// The writer sleeps for a short time and then writes the pending frames.
    is_delaying_flush: AtomicBool,
    /// Deferred frames have been posted since the writer last had none.
    has_deferred_frames: AtomicBool,
    /// Bytes of the last snapshot.
    snapshot_bytes: AtomicU64,
    /// The number of failed snapshots.
    snapshot_failures: AtomicU64,
    /// The size limit of log and snapshot together.
    limit_bytes: AtomicU64,
    /// There was no space for the next segment.
    is_disk_full: AtomicBool,
    /// Segments up to this position may be released.
    covered: AtomicU64,
    shards: Box<[ShardState]>,
}

/// Aligned to a cache line, because both the shard and the writer write to it.
#[derive(Debug, Default)]
#[repr(align(64))]
struct ShardState {
    /// The last turn that was written.
    written: AtomicU64,
    /// The last durable turn.
    durable: AtomicU64,
    /// Bytes in the ring.
    waiting_bytes: AtomicUsize,
}

const RUNNING: u8 = 0;
const CLOSED: u8 = 1;
const FAILED: u8 = 2;

impl WriterThread {
    /// Starts the thread. Returns one sender for each of `shards` shards, in order. `wake` is called on the writer's thread for each shard
    /// whose durable turn has advanced, or that must learn of a failure; it must not block. `now_ms` returns Unix time.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start<D: Disk>(
        log: Log<D>,
        shards: u16,
        wake: impl Fn(ShardNumber) + Send + 'static,
        now_ms: impl Fn() -> u64 + Send + 'static,
    ) -> Result<(WriterThread, Vec<FrameSender>), LogError> {
        let shared = Arc::new(Shared::of(&log, shards));
        let (frame_senders, sources) = channels(&shared, RING_FRAMES);
        let spawn = |name: &str, run: Box<dyn FnOnce() -> Result<(), LogError> + Send>| {
            let builder = std::thread::Builder::new().name(name.to_owned());
            builder.spawn(run).map_err(|error| LogError::Disk(DiskError::new(Operation::Write, "", &error)))
        };
        let writer = Writer::new(log, sources, Box::new(wake), Box::new(now_ms), shared.clone());
        let thread = spawn("journal", Box::new(move || writer.run()))?;
        Ok((WriterThread { shared, thread: Some(thread) }, frame_senders))
    }

    /// Returns a handle to observe the writer.
    pub fn handle(&self) -> WriterHandle {
        WriterHandle { shared: self.shared.clone() }
    }

    /// Makes all posted frames durable, closes the log cleanly, and waits for completion.
    ///
    /// # Errors
    /// The log has failed, now or before.
    pub fn close(mut self) -> Result<(), LogError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), LogError> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        self.shared.closing.store(true, Ordering::SeqCst);
        self.shared.waker.wake();
        thread.join().unwrap_or(Err(LogError::WriterStopped))
    }
}

/// Observes the writer from other threads. May outlive the writer.
#[derive(Debug, Clone)]
pub struct WriterHandle {
    shared: Arc<Shared>,
}

impl WriterHandle {
    /// Returns the failure after which nothing is written, if any.
    pub fn failure(&self) -> Option<LogError> {
        self.shared.failure.get().cloned()
    }

    /// Returns the position of the last durable frame.
    pub fn durable(&self) -> Position {
        Position(self.shared.durable.load(Ordering::Acquire))
    }

    /// Returns the number of groups made durable so far, each with one write and one sync.
    pub fn groups(&self) -> u64 {
        self.shared.groups.load(Ordering::Relaxed)
    }

    /// Returns how long the groups took.
    pub fn sync_times(&self) -> Durations {
        self.shared.sync_times.read()
    }

    /// Returns the bytes of all segments that hold frames, which a restart would read. Used to decide when to take a snapshot.
    pub fn held_bytes(&self) -> u64 {
        self.shared.held_bytes.load(Ordering::Relaxed)
    }

    /// Records the size of a new snapshot.
    pub fn set_snapshot_bytes(&self, bytes: u64) {
        self.shared.snapshot_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Returns the recorded size of the last snapshot.
    pub fn snapshot_bytes(&self) -> u64 {
        self.shared.snapshot_bytes.load(Ordering::Relaxed)
    }

    /// Counts a failed snapshot.
    pub fn count_snapshot_failure(&self) {
        self.shared.snapshot_failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of failed snapshots.
    pub fn snapshot_failures(&self) -> u64 {
        self.shared.snapshot_failures.load(Ordering::Relaxed)
    }

    /// Sets the size limit of log and snapshot together, above which [`FrameSender::is_full`] returns true.
    pub fn set_limit(&self, bytes: u64) {
        self.shared.limit_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Returns the limit set by [`WriterHandle::set_limit`]; `u64::MAX` for no limit.
    pub fn limit_bytes(&self) -> u64 {
        self.shared.limit_bytes.load(Ordering::Relaxed)
    }

    /// Whether the log is full, so that messages must be rejected where possible.
    pub fn is_full(&self) -> bool {
        self.shared.is_full()
    }

    /// Allows the log to release segments up to `position`, because a durable snapshot covers them.
    pub fn release(&self, position: Position) {
        self.shared.covered.fetch_max(position.0, Ordering::AcqRel);
        self.shared.waker.wake();
    }
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            log::error!("the journal was not closed cleanly: {error}");
        }
    }
}

/// Creates a channel to the writer for each shard, with capacity for `ring_frames` frames.
fn channels(shared: &Arc<Shared>, ring_frames: usize) -> (Vec<FrameSender>, Vec<Source>) {
    let channel = |shard| {
        let (frames_in, frames) = RingBuffer::new(ring_frames);
        let (free_buffers, buffers) = RingBuffer::new(ring_frames);
        (FrameSender::new(shard, frames_in, buffers, shared.clone()), Source::new(shard, frames, free_buffers))
    };
    (0..shared.shards.len() as u16).map(ShardNumber).map(channel).unzip()
}

impl Shared {
    fn of<D: Disk>(log: &Log<D>, shards: u16) -> Shared {
        Shared {
            waker: Waker::default(),
            state: AtomicU8::new(RUNNING),
            failure: OnceLock::new(),
            closing: AtomicBool::new(false),
            durable: AtomicU64::new(log.durable().0),
            groups: AtomicU64::new(0),
            sync_times: DurationCounts::default(),
            held_bytes: AtomicU64::new(log.held_bytes()),
            snapshot_bytes: AtomicU64::new(0),
            snapshot_failures: AtomicU64::new(0),
            limit_bytes: AtomicU64::new(u64::MAX),
            is_disk_full: AtomicBool::new(false),
            next_ticket: AtomicU64::new(0),
            flush_up_to: AtomicU64::new(0),
            is_delaying_flush: AtomicBool::new(false),
            has_deferred_frames: AtomicBool::new(false),
            covered: AtomicU64::new(0),
            shards: (0..shards).map(|_| ShardState::default()).collect(),
        }
    }

    /// Notifies the writer that a deferred frame was posted.
    fn notify_deferred(&self) {
        self.has_deferred_frames.store(true, Ordering::Relaxed);
        // Orders the post before the read of `is_delaying_flush`; the writer clears it before it checks for frames.
        fence(Ordering::SeqCst);
        if !self.is_delaying_flush.load(Ordering::Relaxed) {
            self.waker.wake();
        }
    }

    fn state(&self) -> u8 {
        self.state.load(Ordering::Acquire)
    }

    fn is_full(&self) -> bool {
        let held_bytes = self.held_bytes.load(Ordering::Relaxed) + self.snapshot_bytes.load(Ordering::Relaxed);
        held_bytes > self.limit_bytes.load(Ordering::Relaxed) || self.is_disk_full.load(Ordering::Relaxed)
    }

    fn shard(&self, shard: ShardNumber) -> &ShardState {
        &self.shards[usize::from(shard.0)]
    }
}

impl ShardState {
    fn durable(&self) -> TurnNumber {
        TurnNumber(self.durable.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests;
