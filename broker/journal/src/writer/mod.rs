//! The thread that writes the log for all shards.

mod frame_sender;
mod preparer;
#[cfg(feature = "lying-disk")]
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
#[cfg(feature = "lying-disk")]
pub use stepped::SteppedWriter;
use thread::{Source, Writer};
use waker::Waker;

/// Frames of one shard that may wait to be written.
pub const RING_FRAMES: usize = 256;
/// Bytes of one shard's frames that may wait to be written; a larger frame is taken when nothing waits.
pub const RING_MAX_BYTES: usize = 16 << 20;
/// So long at most a frame waits for company that nobody waits for, in milliseconds.
pub const GROUP_COMMIT_DELAY_MS: u64 = 2;
/// The log is sealed when nothing has been posted for so long, in milliseconds, see [`Log::seal`].
pub const SEAL_IDLE_MS: u64 = 50;

/// Writes what shards post, with one write and one sync for all that waits, and tells each shard up to which turn it is durable.
///
/// Frames stand in the log in the order in which they were posted, over all shards: what one shard posts after it has heard from
/// another comes after what that one had posted before.
///
/// No shard ever waits for it: a ring that is full says so. When the disk fails, durable turns stand still for ever, and
/// every post is refused.
#[derive(Debug)]
pub struct WriterThread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<(), LogError>>>,
}

/// What the writer and everybody else look at.
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
    /// Frames before this one are not put off.
    flush_up_to: AtomicU64,
    /// The writer sleeps for a little while, and then writes what is there.
    is_delaying_flush: AtomicBool,
    /// Frames that nobody waits for have been posted since the writer last had none.
    has_deferred_frames: AtomicBool,
    /// Bytes of the last snapshot.
    snapshot_bytes: AtomicU64,
    /// Times no snapshot could be made.
    snapshot_failures: AtomicU64,
    /// Log and snapshot are to have no more bytes than this.
    limit_bytes: AtomicU64,
    /// There was no space for the next segment.
    is_disk_full: AtomicBool,
    /// Segments up to this position may be released.
    covered: AtomicU64,
    shards: Box<[ShardState]>,
}

/// On a cache line of its own, since its shard and the writer write to it.
#[derive(Debug, Default)]
#[repr(align(64))]
struct ShardState {
    /// The last turn that the system has.
    written: AtomicU64,
    /// The last turn that is durable.
    durable: AtomicU64,
    /// Bytes in the ring.
    waiting_bytes: AtomicUsize,
}

const RUNNING: u8 = 0;
const CLOSED: u8 = 1;
const FAILED: u8 = 2;

impl WriterThread {
    /// Starts the thread, and gives one port to each of `shards` shards, in their order. `wake` is called on the writer's
    /// thread for each shard whose durable turn has moved, or which has to learn of a failure; it must not block.
    /// `now_ms` gives Unix time.
    ///
    /// # Errors
    /// Where the system gives no thread.
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

    /// For those who look at the log while it is written.
    pub fn handle(&self) -> WriterHandle {
        WriterHandle { shared: self.shared.clone() }
    }

    /// Makes durable what has been posted, closes the log in order, and waits until that is done.
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

/// How far the writer is, for other threads. It may outlive the writer.
#[derive(Debug, Clone)]
pub struct WriterHandle {
    shared: Arc<Shared>,
}

impl WriterHandle {
    /// Why nothing is written any more, if so.
    pub fn failure(&self) -> Option<LogError> {
        self.shared.failure.get().cloned()
    }

    /// The last frame that is durable.
    pub fn durable(&self) -> Position {
        Position(self.shared.durable.load(Ordering::Acquire))
    }

    /// Groups made durable so far, each with one write and one sync.
    pub fn groups(&self) -> u64 {
        self.shared.groups.load(Ordering::Relaxed)
    }

    /// How long they took.
    pub fn sync_times(&self) -> Durations {
        self.shared.sync_times.read()
    }

    /// Bytes of all segments that hold frames, which a restart would have to read: a measure for when to take a snapshot.
    pub fn held_bytes(&self) -> u64 {
        self.shared.held_bytes.load(Ordering::Relaxed)
    }

    /// From now on there is a snapshot of so many bytes.
    pub fn set_snapshot_bytes(&self, bytes: u64) {
        self.shared.snapshot_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Bytes of the last snapshot that was noted.
    pub fn snapshot_bytes(&self) -> u64 {
        self.shared.snapshot_bytes.load(Ordering::Relaxed)
    }

    /// No snapshot could be made.
    pub fn count_snapshot_failure(&self) {
        self.shared.snapshot_failures.fetch_add(1, Ordering::Relaxed);
    }

    /// How often no snapshot could be made.
    pub fn snapshot_failures(&self) -> u64 {
        self.shared.snapshot_failures.load(Ordering::Relaxed)
    }

    /// Has [`FrameSender::is_full`] say so when log and snapshot together have more bytes than this.
    pub fn set_limit(&self, bytes: u64) {
        self.shared.limit_bytes.store(bytes, Ordering::Relaxed);
    }

    /// What was set by [`WriterHandle::set_limit`]; `u64::MAX` for no limit.
    pub fn limit_bytes(&self) -> u64 {
        self.shared.limit_bytes.load(Ordering::Relaxed)
    }

    /// Whether the log is to take nothing more that can be refused.
    pub fn is_full(&self) -> bool {
        self.shared.is_full()
    }

    /// Lets the log release segments whose frames a durable snapshot covers, up to `position`.
    pub fn release(&self, position: Position) {
        self.shared.covered.fetch_max(position.0, Ordering::AcqRel);
        self.shared.waker.wake();
    }
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            log::error!("the journal did not close in order: {error}");
        }
    }
}

/// A port and the writer's end of it for each shard, with room for so many frames between them.
fn channels(shared: &Arc<Shared>, ring_frames: usize) -> (Vec<FrameSender>, Vec<Source>) {
    let way = |shard| {
        let (frames_in, frames) = RingBuffer::new(ring_frames);
        let (free_buffers, buffers) = RingBuffer::new(ring_frames);
        (FrameSender::new(shard, frames_in, buffers, shared.clone()), Source::new(shard, frames, free_buffers))
    };
    (0..shared.shards.len() as u16).map(ShardNumber).map(way).unzip()
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

    /// A frame has been posted that nobody waits for.
    fn notify_deferred(&self) {
        self.has_deferred_frames.store(true, Ordering::Relaxed);
        // Between posting and looking, as the writer says that it has woken before it looks what has been posted.
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
