//! The thread that writes the log for all shards.

mod frame_sender;
mod preparer;
mod shared;
#[cfg(feature = "faulty-disk")]
mod stepped;
mod thread;
mod waker;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use rtrb::RingBuffer;
use tautwire_message::Durations;

use crate::disk::{Disk, DiskError, Operation};
use crate::error::LogError;
use crate::log::Log;
use crate::numbers::{Position, ShardNumber};
pub use frame_sender::{FrameSender, PostError, RING_MAX_BYTES};
use shared::Shared;
#[cfg(feature = "faulty-disk")]
pub use stepped::SteppedWriter;
pub use thread::{GROUP_COMMIT_DELAY_MS, SEAL_IDLE_MS};
use thread::{Source, Writer};

/// The number of frames of one shard that may be pending.
pub const RING_FRAMES: usize = 256;

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

#[cfg(test)]
mod tests;
